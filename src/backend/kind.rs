//! The kinds of servers: their names, endpoints and the dialects that make sense on them. Knows no body and no stream.

use std::fmt;
use std::str::FromStr;

use super::{ConstraintDialect, named};
use crate::error::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What kind of server is on the other side, as `--backend` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerKind {
    /// vLLM's completions endpoint. The body is the one of vLLM's own client, `repetition_penalty: 1.0` included.
    Vllm,
    /// Any completions endpoint in OpenAI's shape; nothing is sent that was not asked for, as OpenAI refuses unknown fields.
    Openai,
    /// Any chat completions endpoint in OpenAI's shape, those of vLLM, SGLang, llama.cpp and TGI among them.
    OpenaiChat,
    /// The responses endpoint of OpenAI, vLLM and others: typed events.
    OpenaiResponses,
    /// SGLang's own `/generate`. Its OpenAI-shaped endpoints are the `openai` kinds.
    Sglang,
    /// llama.cpp server's own `/completion`. Its OpenAI-shaped endpoints are the `openai` kinds.
    LlamaCpp,
    /// Text Generation Inference's own `/generate_stream`.
    Tgi,
    /// TensorRT-LLM behind Triton's generate extension, as vLLM's clients understand `tensorrt-llm`.
    TensorrtLlm,
    /// TensorRT-LLM behind its own `trtllm-serve`: chat completions.
    TrtllmServe,
    /// LMDeploy's chat completions; its completions have no place for a constraint.
    Lmdeploy,
    /// Aphrodite's completions, a fork of vLLM's.
    Aphrodite,
    /// ScaleLLM's completions, which have no place for a constraint.
    Scalellm,
    /// DeepSpeed-MII's completions, which have no place for a constraint.
    DeepspeedMii,
    /// Ollama's own `/api/chat`: one JSON object a line.
    Ollama,
    /// The transcriptions endpoint of OpenAI and vLLM: a file of sound, answered by its text.
    OpenaiAudio,
    /// The embeddings endpoint of OpenAI, vLLM and many others.
    OpenaiEmbeddings,
    /// vLLM's pooling endpoint.
    VllmPooling,
    /// vLLM's rerank endpoint.
    VllmRerank,
}

/// What a kind's requests are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Text: messages are put into a template here.
    Text,
    /// Chat messages: the server has the template.
    Messages,
    /// Files of sound.
    Audio,
    /// A query and documents.
    Ranking,
}

impl ServerKind {
    /// Every kind, in the order of help texts.
    pub const ALL: [Self; 18] = [
        Self::Vllm,
        Self::Openai,
        Self::OpenaiChat,
        Self::OpenaiResponses,
        Self::Sglang,
        Self::LlamaCpp,
        Self::Tgi,
        Self::TensorrtLlm,
        Self::TrtllmServe,
        Self::Lmdeploy,
        Self::Aphrodite,
        Self::Scalellm,
        Self::DeepspeedMii,
        Self::Ollama,
        Self::OpenaiAudio,
        Self::OpenaiEmbeddings,
        Self::VllmPooling,
        Self::VllmRerank,
    ];

    /// Whether its body has OpenAI's `stream_options`, which ask for counts in a stream.
    pub fn takes_stream_options(self) -> bool {
        super::shape::Shape::of(self).asks_usage
    }

    /// Whether its body has a field that makes servers go on past the end of an answer.
    pub fn takes_ignore_eos(self) -> bool {
        super::shape::Shape::of(self).ignores_eos
    }

    /// The name used in flags, files and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::Openai => "openai",
            Self::OpenaiChat => "openai-chat",
            Self::OpenaiResponses => "openai-responses",
            Self::Sglang => "sglang",
            Self::LlamaCpp => "llama.cpp",
            Self::Tgi => "tgi",
            Self::TensorrtLlm => "tensorrt-llm",
            Self::TrtllmServe => "trtllm-serve",
            Self::Lmdeploy => "lmdeploy",
            Self::Aphrodite => "aphrodite",
            Self::Scalellm => "scalellm",
            Self::DeepspeedMii => "deepspeed-mii",
            Self::Ollama => "ollama",
            Self::OpenaiAudio => "openai-audio",
            Self::OpenaiEmbeddings => "openai-embeddings",
            Self::VllmPooling => "vllm-pooling",
            Self::VllmRerank => "vllm-rerank",
        }
    }

    /// The path that requests for streams go to unless `--endpoint` names another one.
    pub fn default_path(self) -> &'static str {
        match self {
            Self::Vllm | Self::Openai | Self::Aphrodite | Self::Scalellm | Self::DeepspeedMii => "/v1/completions",
            Self::OpenaiChat | Self::TrtllmServe | Self::Lmdeploy => "/v1/chat/completions",
            Self::OpenaiResponses => "/v1/responses",
            Self::Sglang => "/generate",
            Self::LlamaCpp => "/completion",
            Self::Tgi => "/generate_stream",
            // The model's name is part of Triton's path, and `ensemble` is what TensorRT-LLM's own repository calls it.
            Self::TensorrtLlm => "/v2/models/ensemble/generate_stream",
            Self::Ollama => "/api/chat",
            Self::OpenaiAudio => "/v1/audio/transcriptions",
            Self::OpenaiEmbeddings => "/v1/embeddings",
            Self::VllmPooling => "/pooling",
            Self::VllmRerank => "/rerank",
        }
    }

    /// The path for requests with or without streaming: two kinds have one path for each.
    pub fn path(self, stream: bool) -> &'static str {
        match (self, stream) {
            (Self::Tgi, false) => "/generate",
            (Self::TensorrtLlm, false) => "/v2/models/ensemble/generate",
            _ => self.default_path(),
        }
    }

    /// Whether a path looks like one that this kind's requests fit.
    pub fn fits(self, path: &str) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| path.contains(word));
        match self {
            Self::OpenaiResponses => has(&["responses"]),
            Self::Sglang | Self::Tgi | Self::TensorrtLlm => has(&["generate"]),
            Self::OpenaiAudio => has(&["transcriptions", "translations"]),
            Self::OpenaiEmbeddings => has(&["embeddings"]),
            Self::VllmPooling => has(&["pooling"]),
            Self::VllmRerank => has(&["rerank"]),
            Self::Vllm
            | Self::Openai
            | Self::OpenaiChat
            | Self::LlamaCpp
            | Self::TrtllmServe
            | Self::Lmdeploy
            | Self::Aphrodite
            | Self::Scalellm
            | Self::DeepspeedMii
            | Self::Ollama => {
                path.contains("chat") == self.takes_messages()
                    && !has(&["generate", "responses", "audio", "embeddings", "pooling", "rerank"])
            }
        }
    }

    /// What requests are made from.
    pub fn input(self) -> Input {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses | Self::TrtllmServe | Self::Lmdeploy | Self::Ollama => Input::Messages,
            Self::Vllm
            | Self::Openai
            | Self::Sglang
            | Self::LlamaCpp
            | Self::Tgi
            | Self::TensorrtLlm
            | Self::Aphrodite
            | Self::Scalellm
            | Self::DeepspeedMii
            | Self::OpenaiEmbeddings
            | Self::VllmPooling => Input::Text,
            Self::OpenaiAudio => Input::Audio,
            Self::VllmRerank => Input::Ranking,
        }
    }

    /// Whether the server templates chat messages itself, so that a dataset must not.
    pub fn takes_messages(self) -> bool {
        self.input() == Input::Messages
    }

    /// Whether answers are text that is generated token by token. The other kinds answer with vectors or scores, whole: they have
    /// no output tokens, and no latency but the one to the end.
    pub fn generates(self) -> bool {
        !matches!(self, Self::OpenaiEmbeddings | Self::VllmPooling | Self::VllmRerank)
    }

    /// Whether a constraint is a thing that these answers could have. Kinds that merely have no field for one take it, and refuse
    /// it for each case.
    pub fn takes_constraints(self) -> bool {
        self.generates() && self != Self::OpenaiAudio
    }

    /// Whether the embedded server speaks this kind's wire format.
    pub fn is_embedded(self) -> bool {
        matches!(self, Self::Vllm | Self::Openai | Self::OpenaiChat)
    }

    /// The dialects that some server of this kind is known to read, the one with the widest reach first. Empty where there is no
    /// way at all to send a constraint.
    pub fn dialects(self) -> &'static [ConstraintDialect] {
        use ConstraintDialect::*;
        match self {
            Self::Vllm => &[StructuredOutputs, Guided, ResponseFormat],
            Self::Openai => &[StructuredOutputs, Guided, ResponseFormat, Sglang, LlamaCpp, TrtllmFormat],
            Self::OpenaiChat => {
                &[StructuredOutputs, Guided, ResponseFormat, Sglang, LlamaCpp, TgiGrammar, TrtllmFormat, RegexSchema, ToolCall]
            }
            Self::OpenaiResponses => &[StructuredOutputs, TextFormat, ToolCall],
            Self::Sglang => &[Sglang],
            Self::LlamaCpp => &[LlamaCpp],
            Self::Tgi => &[TgiGrammar],
            Self::TensorrtLlm => &[TritonGuide],
            Self::TrtllmServe => &[TrtllmFormat, ResponseFormat, ToolCall],
            Self::Lmdeploy => &[RegexSchema, ResponseFormat, ToolCall],
            Self::Aphrodite => &[Guided, StructuredOutputs, ResponseFormat],
            Self::Scalellm
            | Self::DeepspeedMii
            | Self::OpenaiAudio
            | Self::OpenaiEmbeddings
            | Self::VllmPooling
            | Self::VllmRerank => &[],
            Self::Ollama => &[OllamaFormat],
        }
    }
}

impl fmt::Display for ServerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for ServerKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ServerKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(|error: Error| serde::de::Error::custom(error.what))
    }
}

impl FromStr for ServerKind {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self, Error> {
        named(&Self::ALL, Self::name, "backend", name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::adapter;

    #[test]
    fn names_read_back_and_unknown_ones_list_the_known() {
        for kind in ServerKind::ALL {
            assert_eq!(kind.name().parse::<ServerKind>().unwrap(), kind);
            assert_eq!(adapter(kind).kind(), kind);
            assert!(kind.fits(kind.path(true)) && kind.fits(kind.path(false)), "{kind}");
            assert_eq!(kind.path(true), kind.default_path());
        }
        let error = "guidellm".parse::<ServerKind>().unwrap_err();
        assert!(error.to_string().starts_with("unknown backend: guidellm\nhint: one of vllm, openai, openai-chat, "), "{error}");
    }

    #[test]
    fn paths_of_other_endpoints_are_noticed() {
        for (kind, path) in [
            (ServerKind::Vllm, "/v1/chat/completions"),
            (ServerKind::Openai, "/v1/responses"),
            (ServerKind::Openai, "/generate"),
            (ServerKind::OpenaiChat, "/v1/completions"),
            (ServerKind::OpenaiResponses, "/v1/chat/completions"),
            (ServerKind::Sglang, "/v1/completions"),
            (ServerKind::LlamaCpp, "/v1/chat/completions"),
            (ServerKind::Ollama, "/api/generate"),
            (ServerKind::Vllm, "/v1/embeddings"),
            (ServerKind::OpenaiAudio, "/v1/completions"),
            (ServerKind::VllmRerank, "/pooling"),
        ] {
            assert!(!kind.fits(path), "{kind} {path}");
        }
        assert!(ServerKind::TensorrtLlm.fits("/v2/models/mine/generate_stream"));
        assert!(ServerKind::VllmRerank.fits("/v2/rerank") && ServerKind::OpenaiAudio.fits("/v1/audio/translations"));
    }

    #[test]
    fn every_dialect_has_a_kind_that_reads_it() {
        for dialect in ConstraintDialect::ALL {
            assert!(ServerKind::ALL.iter().any(|kind| kind.dialects().contains(&dialect)), "{dialect}");
        }
    }
}
