//! Where each kind's request body keeps what all kinds share: which names, at the top or nested, and what has no place at all.
//! Knows no case.
//!
//! Sources: recorded exchanges (SGLang 0.5, llama.cpp server); OpenAI's and Ollama's API references; vLLM's `ResponsesRequest`;
//! `GenerateParameters` of TGI 3; `openai_protocol.py` of TensorRT-LLM and the README of its Triton backend; `protocol.py` of LMDeploy; `api_protocol.py` of
//! ScaleLLM; `data_models.py` and `openai_api_server.py` of DeepSpeed-MII, which reads some fields and forwards only those here.
//! A parameter that a kind has no field for is refused and not left out: most servers ignore unknown fields, and the run would
//! measure another sampler than its record says.

use super::ServerKind;

/// How a kind's body is laid out: its JSON, or the fields of its form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// The member that holds length, sampling and a constraint of the server's own; `None` where they stand at the top.
    pub(super) nest: Option<&'static str>,
    /// The field of the prompt.
    pub(super) prompt: &'static str,
    /// The field of the token limit, inside `nest`; where nothing is generated, a name that nobody asks for.
    pub(super) length: &'static str,
    /// Whether the body says if a stream is wanted; elsewhere the path does.
    pub(super) says_stream: bool,
    /// Whether usage in a stream is asked for by `stream_options`.
    pub(super) asks_usage: bool,
    /// Whether there is a field for `--ignore-eos` (it is called `ignore_eos` wherever there is one).
    pub(super) ignores_eos: bool,
    /// The sampling parameters that have a field, by our name and the server's.
    pub(super) sampling: &'static [(&'static str, &'static str)],
}

/// Every parameter under vLLM's names.
const ALL: [(&str, &str); 8] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("repetition_penalty", "repetition_penalty"),
    ("top_k", "top_k"),
    ("seed", "seed"),
];

/// llama.cpp's names, which Ollama shares.
const LLAMA: [(&str, &str); 8] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("repetition_penalty", "repeat_penalty"),
    ("top_k", "top_k"),
    ("seed", "seed"),
];

const SGLANG: [(&str, &str); 8] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("repetition_penalty", "repetition_penalty"),
    ("top_k", "top_k"),
    ("seed", "sampling_seed"),
];

const TGI: [(&str, &str); 6] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("frequency_penalty", "frequency_penalty"),
    ("repetition_penalty", "repetition_penalty"),
    ("top_k", "top_k"),
    ("seed", "seed"),
];

const TRITON: [(&str, &str); 7] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("repetition_penalty", "repetition_penalty"),
    ("top_k", "top_k"),
    ("seed", "seed"),
];

/// What OpenAI has, and `top_k`, which vLLM adds; its other additions came later and are ignored before.
const RESPONSES: [(&str, &str); 3] = [("temperature", "temperature"), ("top_p", "top_p"), ("top_k", "top_k")];

const SCALELLM: [(&str, &str); 6] = [
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("frequency_penalty", "frequency_penalty"),
    ("presence_penalty", "presence_penalty"),
    ("repetition_penalty", "repetition_penalty"),
    ("top_k", "top_k"),
];

const MII: [(&str, &str); 3] = [("temperature", "temperature"), ("top_p", "top_p"), ("top_k", "top_k")];

const COMPLETIONS: Shape = Shape {
    nest: None,
    prompt: "prompt",
    length: "max_tokens",
    says_stream: true,
    asks_usage: true,
    ignores_eos: true,
    sampling: &ALL,
};

/// Kinds that generate nothing, and so sample nothing.
const COMPUTED: Shape = Shape { says_stream: false, asks_usage: false, ignores_eos: false, sampling: &[], ..COMPLETIONS };

impl Shape {
    /// The layout of a kind's bodies.
    pub(super) fn of(kind: ServerKind) -> Self {
        let chat = Self { prompt: "messages", length: "max_completion_tokens", ..COMPLETIONS };
        match kind {
            ServerKind::Vllm | ServerKind::Openai | ServerKind::Aphrodite => COMPLETIONS,
            ServerKind::OpenaiChat | ServerKind::TrtllmServe => chat,
            // LMDeploy's older releases know `max_tokens` only, and its newer ones still read it.
            ServerKind::Lmdeploy => Self { length: "max_tokens", ..chat },
            ServerKind::OpenaiResponses => Self {
                prompt: "input",
                length: "max_output_tokens",
                asks_usage: false,
                ignores_eos: false,
                sampling: &RESPONSES,
                ..COMPLETIONS
            },
            ServerKind::Sglang => Self {
                nest: Some("sampling_params"),
                prompt: "text",
                length: "max_new_tokens",
                asks_usage: false,
                sampling: &SGLANG,
                ..COMPLETIONS
            },
            ServerKind::LlamaCpp => Self { length: "n_predict", asks_usage: false, sampling: &LLAMA, ..COMPLETIONS },
            ServerKind::Tgi => Self {
                nest: Some("parameters"),
                prompt: "inputs",
                length: "max_new_tokens",
                says_stream: false,
                asks_usage: false,
                ignores_eos: false,
                sampling: &TGI,
            },
            ServerKind::TensorrtLlm => {
                Self { prompt: "text_input", asks_usage: false, ignores_eos: false, sampling: &TRITON, ..COMPLETIONS }
            }
            ServerKind::Scalellm => Self { asks_usage: false, sampling: &SCALELLM, ..COMPLETIONS },
            ServerKind::DeepspeedMii => Self { asks_usage: false, ignores_eos: false, sampling: &MII, ..COMPLETIONS },
            // vLLM's `TranscriptionRequest` has every parameter; its options of streams are fields of their own.
            ServerKind::OpenaiAudio => {
                Self { prompt: "file", length: "max_completion_tokens", asks_usage: false, ignores_eos: false, ..COMPLETIONS }
            }
            ServerKind::OpenaiEmbeddings | ServerKind::VllmPooling => Self { prompt: "input", ..COMPUTED },
            ServerKind::VllmRerank => Self { prompt: "documents", ..COMPUTED },
            ServerKind::Ollama => Self {
                nest: Some("options"),
                prompt: "messages",
                length: "num_predict",
                asks_usage: false,
                ignores_eos: false,
                sampling: &LLAMA,
                ..COMPLETIONS
            },
        }
    }

    /// The server's name for a sampling parameter of ours; `None` where it has no field.
    pub(super) fn sampling_field(&self, ours: &str) -> Option<&'static str> {
        self.sampling.iter().find(|(name, _)| *name == ours).map(|(_, theirs)| *theirs)
    }

    /// Whether sobench itself sets a field, at the top or inside `nest`: then nothing else may.
    pub(super) fn owns(&self, field: &str) -> bool {
        matches!(field, "stream" | "model" | "prompt" | "messages" | "query" | "max_tokens" | "max_completion_tokens")
            || field == self.prompt
            || field == self.length
    }
}
