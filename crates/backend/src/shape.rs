//! Where a kind's request body keeps what all kinds share: which names, at the top or nested, and
//! what has no place at all.
//!
//! A parameter that a kind has no field for is refused and not left out: most servers ignore
//! unknown fields, and the run would measure another sampler than its record says.

/// How a kind's body is laid out: its JSON, or the fields of its form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// The member that holds length, sampling and a constraint of the server's own; `None` where
    /// they stand at the top.
    pub(super) nest: Option<&'static str>,
    /// The field of the prompt.
    pub(super) prompt: &'static str,
    /// The field of the token limit, inside `nest`; unused where nothing is generated.
    pub(super) length: &'static str,
    /// Whether the body says if a stream is wanted; elsewhere the path does.
    pub(super) says_stream: bool,
    /// Whether usage in a stream is asked for by `stream_options`.
    pub(super) asks_usage: bool,
    /// Whether there is a field for `--ignore-eos` (it is called `ignore_eos` wherever there is
    /// one).
    pub(super) ignores_eos: bool,
    /// The sampling parameters that have a field.
    pub(super) sampling: &'static [&'static str],
    /// Those of them whose field has another name: our name and the server's.
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

impl Shape {
    /// vLLM's completions.
    pub(super) const COMPLETIONS: Self = Self {
        nest: None,
        prompt: "prompt",
        length: "max_tokens",
        says_stream: true,
        asks_usage: true,
        ignores_eos: true,
        sampling: &SAMPLING,
        renamed: &[],
    };

    /// The server's name for a sampling parameter of ours; `None` where it has no field.
    pub(super) fn sampling_field(&self, ours: &str) -> Option<&'static str> {
        let name = self.sampling.iter().find(|name| **name == ours)?;
        Some(
            self.renamed
                .iter()
                .find(|(ours, _)| ours == name)
                .map_or(*name, |(_, theirs)| *theirs),
        )
    }

    /// Whether sobench itself sets a field, at the top or inside `nest`: then nothing else may.
    pub(super) fn owns(&self, field: &str) -> bool {
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
