//! Which server is it, and what follows for `auto`: from the kind and the texts of `/version` and `/v1/models`. Pure; asks nobody.

use super::{ConstraintDialect, ServerKind};
use crate::constraint::GrammarDialect;

/// What is known of the server, as far as it decides how constraints are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// vLLM, with major and minor version; `None` where it does not say (a build from source without tags says `0.1.dev`).
    Vllm {
        version: Option<(u32, u32)>,
    },
    /// Our own embedded server, which reads the dialects of vLLM and OpenAI.
    Embedded,
    Sglang,
    LlamaCpp,
    Tgi,
    /// TensorRT-LLM behind Triton.
    Triton,
    /// TensorRT-LLM behind `trtllm-serve`.
    TrtllmServe,
    Lmdeploy,
    Aphrodite,
    Ollama,
    /// A responses endpoint that is not known to read more than `text.format`.
    Responses,
    /// Any other server in OpenAI's shape.
    Other,
}

/// How the embedded server's `/version` begins.
pub const EMBEDDED_VERSION_PREFIX: &str = "sobench-embedded";

/// Tells the server from the kind that the user named, the `version` member of `/version`, and `owned_by` of its first model.
///
/// A kind that is one server's own is that server. The user's word (`--backend vllm`) counts unless the server says it is
/// something else; the `openai` kinds count as what the server says: SGLang, llama.cpp, LMDeploy and TensorRT-LLM name
/// themselves in `owned_by`, and the first two ignore vLLM's fields without a word.
pub fn identify(kind: ServerKind, version: Option<&str>, owned_by: Option<&str>) -> Server {
    if version.is_some_and(|version| version.starts_with(EMBEDDED_VERSION_PREFIX)) {
        return Server::Embedded;
    }
    let vllm = Server::Vllm { version: version.and_then(major_minor) };
    match (kind, owned_by) {
        (ServerKind::Vllm, Some("sglang" | "llamacpp")) => Server::Other,
        (ServerKind::Vllm, _) | (ServerKind::Openai | ServerKind::OpenaiChat, Some("vllm")) => vllm,
        // This endpoint learnt `structured_outputs` later than the others, and ignores it before; 0.32 was seen to read it.
        (ServerKind::OpenaiResponses, Some("vllm")) if vllm.is_at_least((0, 32)) => vllm,
        (ServerKind::OpenaiResponses, _) => Server::Responses,
        (ServerKind::Openai | ServerKind::OpenaiChat, Some("sglang")) => Server::Sglang,
        (ServerKind::Openai | ServerKind::OpenaiChat, Some("llamacpp")) => Server::LlamaCpp,
        (ServerKind::Openai | ServerKind::OpenaiChat, Some("tensorrt_llm")) => Server::TrtllmServe,
        (ServerKind::OpenaiChat, Some("lmdeploy")) => Server::Lmdeploy,
        (ServerKind::Openai | ServerKind::OpenaiChat, _) => Server::Other,
        (ServerKind::Sglang, _) => Server::Sglang,
        (ServerKind::LlamaCpp, _) => Server::LlamaCpp,
        (ServerKind::Tgi, _) => Server::Tgi,
        (ServerKind::TensorrtLlm, _) => Server::Triton,
        (ServerKind::TrtllmServe, _) => Server::TrtllmServe,
        (ServerKind::Lmdeploy, _) => Server::Lmdeploy,
        (ServerKind::Aphrodite, _) => Server::Aphrodite,
        (ServerKind::Ollama, _) => Server::Ollama,
        (
            ServerKind::Scalellm
            | ServerKind::DeepspeedMii
            | ServerKind::OpenaiAudio
            | ServerKind::OpenaiEmbeddings
            | ServerKind::VllmPooling
            | ServerKind::VllmRerank,
            _,
        ) => Server::Other,
    }
}

impl Server {
    /// Whether it is a vLLM that is known to be of this version or a later one.
    fn is_at_least(self, least: (u32, u32)) -> bool {
        matches!(self, Self::Vllm { version: Some(version) } if version >= least)
    }

    /// What `--constraint-dialect auto` means: `structured-outputs` came in vLLM 0.11, where `guided` was still forwarded; from
    /// 0.12 on `guided` fields are ignored. Where a server has a dialect of its own, that one carries more than others do.
    pub fn constraint_dialect(self) -> ConstraintDialect {
        match self {
            Self::Vllm { version: Some(version) } if version < (0, 11) => ConstraintDialect::Guided,
            Self::Vllm { .. } | Self::Embedded => ConstraintDialect::StructuredOutputs,
            Self::Sglang => ConstraintDialect::Sglang,
            Self::LlamaCpp => ConstraintDialect::LlamaCpp,
            Self::Tgi => ConstraintDialect::TgiGrammar,
            Self::Triton => ConstraintDialect::TritonGuide,
            Self::TrtllmServe => ConstraintDialect::TrtllmFormat,
            Self::Lmdeploy => ConstraintDialect::RegexSchema,
            // A fork of vLLM; in which version it followed vLLM to `structured_outputs` could not be confirmed.
            Self::Aphrodite => ConstraintDialect::Guided,
            Self::Ollama => ConstraintDialect::OllamaFormat,
            Self::Responses => ConstraintDialect::TextFormat,
            Self::Other => ConstraintDialect::ResponseFormat,
        }
    }

    /// The notation in which the shipped grammar is sent: vLLM's script sent Lark before 0.8 and EBNF since; the embedded server
    /// decodes with llguidance, which reads Lark.
    pub fn grammar_dialect(self) -> GrammarDialect {
        match self {
            Self::Vllm { version: Some(version) } if version < (0, 8) => GrammarDialect::Lark,
            Self::Embedded => GrammarDialect::Lark,
            _ => GrammarDialect::Ebnf,
        }
    }
}

/// `0.11.2rc1.dev3+gabc` is `(0, 11)`; `0.1.dev1+gabc`, which a build without tags calls itself, is unknown.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim().trim_start_matches('v').split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let digits = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
    let minor = minor[..digits].parse().ok()?;
    let is_untagged = (major, minor) == (0, 1) && parts.next().is_some_and(|part| part.starts_with("dev"));
    (!is_untagged).then_some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConstraintDialect::{Guided, ResponseFormat, StructuredOutputs};
    use GrammarDialect::{Ebnf, Lark};
    use ServerKind::{Openai, OpenaiChat, Vllm};

    #[test]
    fn what_auto_means() {
        for (kind, version, owned_by, dialect, grammar) in [
            (Vllm, Some("0.32.0"), Some("vllm"), StructuredOutputs, Ebnf),
            (Vllm, Some("0.11.0"), Some("vllm"), StructuredOutputs, Ebnf),
            (Vllm, Some("0.11.0rc1.dev7+gabc"), Some("vllm"), StructuredOutputs, Ebnf),
            (Vllm, Some("0.10.2"), Some("vllm"), Guided, Ebnf),
            (Vllm, Some("0.8.5.post1"), None, Guided, Ebnf),
            (Vllm, Some("v0.7.3"), None, Guided, Lark),
            (Vllm, Some("0.6.6"), None, Guided, Lark),
            (Vllm, Some("1.0"), None, StructuredOutputs, Ebnf),
            (Vllm, Some("0.1.dev11+gabc"), Some("vllm"), StructuredOutputs, Ebnf),
            (Vllm, Some("nightly"), None, StructuredOutputs, Ebnf),
            (Vllm, None, None, StructuredOutputs, Ebnf),
            (Vllm, None, Some("somebody"), StructuredOutputs, Ebnf),
            (Vllm, None, Some("sglang"), ResponseFormat, Ebnf),
            (Vllm, Some("0.5.23"), Some("sglang"), ResponseFormat, Ebnf),
            (Vllm, None, Some("llamacpp"), ResponseFormat, Ebnf),
            (Openai, Some("0.32.0"), Some("vllm"), StructuredOutputs, Ebnf),
            (OpenaiChat, Some("0.9.2"), Some("vllm"), Guided, Ebnf),
            (Openai, Some("0.5.23"), Some("sglang"), ConstraintDialect::Sglang, Ebnf),
            (OpenaiChat, None, Some("llamacpp"), ConstraintDialect::LlamaCpp, Ebnf),
            (OpenaiChat, None, Some("lmdeploy"), ConstraintDialect::RegexSchema, Ebnf),
            (Openai, None, Some("lmdeploy"), ResponseFormat, Ebnf),
            (OpenaiChat, None, Some("tensorrt_llm"), ConstraintDialect::TrtllmFormat, Ebnf),
            (ServerKind::OpenaiResponses, Some("0.33.0"), Some("vllm"), StructuredOutputs, Ebnf),
            (ServerKind::OpenaiResponses, Some("0.13.0"), Some("vllm"), ConstraintDialect::TextFormat, Ebnf),
            (ServerKind::OpenaiResponses, None, Some("vllm"), ConstraintDialect::TextFormat, Ebnf),
            (ServerKind::OpenaiResponses, None, Some("openai"), ConstraintDialect::TextFormat, Ebnf),
            (ServerKind::Sglang, None, None, ConstraintDialect::Sglang, Ebnf),
            (ServerKind::LlamaCpp, None, Some("llamacpp"), ConstraintDialect::LlamaCpp, Ebnf),
            (ServerKind::Tgi, None, Some("org/model"), ConstraintDialect::TgiGrammar, Ebnf),
            (ServerKind::TensorrtLlm, None, None, ConstraintDialect::TritonGuide, Ebnf),
            (ServerKind::TrtllmServe, Some("1.2.0"), Some("tensorrt_llm"), ConstraintDialect::TrtllmFormat, Ebnf),
            (ServerKind::Lmdeploy, None, Some("lmdeploy"), ConstraintDialect::RegexSchema, Ebnf),
            (ServerKind::Aphrodite, Some("0.9.1"), None, Guided, Ebnf),
            (ServerKind::Ollama, Some("0.13.5"), Some("library"), ConstraintDialect::OllamaFormat, Ebnf),
            (ServerKind::Scalellm, None, Some("scalellm"), ResponseFormat, Ebnf),
            (OpenaiChat, None, Some("openai"), ResponseFormat, Ebnf),
            (OpenaiChat, None, None, ResponseFormat, Ebnf),
            (Openai, Some("sobench-embedded 0.1.0"), Some("sobench"), StructuredOutputs, Lark),
            (Vllm, Some("sobench-embedded 0.1.0"), None, StructuredOutputs, Lark),
        ] {
            let server = identify(kind, version, owned_by);
            let found = (server.constraint_dialect(), server.grammar_dialect());
            assert_eq!(found, (dialect, grammar), "{kind} {version:?} {owned_by:?}");
            let speaks = kind.dialects().is_empty() || kind.dialects().contains(&dialect);
            assert!(speaks, "{kind} does not speak what auto chooses: {dialect}");
        }
    }
}
