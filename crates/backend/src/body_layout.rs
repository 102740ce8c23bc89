//! Layout of request bodies: the names and nesting of the fields that kinds share.
//!
//! A parameter without a field is an error: most servers ignore unknown fields, so the run would
//! use other sampling than its record states.

/// The layout of a kind's body: JSON or form fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLayout {
    /// The member that contains length, sampling and native constraint fields; `None` for the top
    /// level.
    pub(super) nested_in: Option<&'static str>,
    /// The field of the prompt.
    pub(super) prompt: &'static str,
    /// The field of the token limit, inside `nested_in`; unused if nothing is generated.
    pub(super) length: &'static str,
    /// Whether the body has a `stream` field; otherwise the path selects streaming.
    pub(super) has_stream_field: bool,
    /// Whether usage in a stream is requested with `stream_options`.
    pub(super) has_stream_options: bool,
    /// Whether there is an `ignore_eos` field for `--ignore-eos`.
    pub(super) has_ignore_eos: bool,
    /// The supported sampling parameters.
    pub(super) sampling: &'static [&'static str],
    /// Sampling parameters with another name: sobench's name and the server's.
    pub(super) renamed: &'static [(&'static str, &'static str)],
}

/// Every sampling parameter.
const SAMPLING: [&str; 8] = [
    "temperature",
    "top_p",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "top_k",
    "seed",
];

impl BodyLayout {
    /// vLLM's completions.
    pub(super) const COMPLETIONS: Self = Self {
        nested_in: None,
        prompt: "prompt",
        length: "max_tokens",
        has_stream_field: true,
        has_stream_options: true,
        has_ignore_eos: true,
        sampling: &SAMPLING,
        renamed: &[],
    };

    /// The server's name for a sampling parameter; `None` if it has no field.
    pub(super) fn sampling_field(&self, parameter: &str) -> Option<&'static str> {
        let name = self.sampling.iter().find(|name| **name == parameter)?;
        Some(
            self.renamed
                .iter()
                .find(|(parameter, _)| parameter == name)
                .map_or(*name, |(_, theirs)| *theirs),
        )
    }

    /// Whether sobench sets a field, at the top level or inside `nested_in`, so that `--extra-body`
    /// must not.
    pub(super) fn is_set_by_sobench(&self, field: &str) -> bool {
        matches!(
            field,
            "stream"
                | "model"
                | "prompt"
                | "messages"
                | "query"
                | "max_tokens"
                | "max_completion_tokens"
        ) || field == self.prompt
            || field == self.length
    }
}
