//! Which server is it, and what follows for `auto`: from the texts of `/version` and `/v1/models`. Pure; asks nobody.

use super::{ConstraintDialect, ServerKind};
use crate::constraint::GrammarDialect;

/// What is known of the server, as far as it decides how constraints are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// vLLM, with major and minor version; `None` where it does not say (a build from source without tags says `0.1.dev`).
    Vllm { version: Option<(u32, u32)> },
    /// Our own embedded server, which reads every dialect.
    Embedded,
    /// Any other server in OpenAI's shape.
    Other,
}

/// How the embedded server's `/version` begins.
pub const EMBEDDED_VERSION_PREFIX: &str = "sobench-embedded";

/// Tells the server from the kind that the user named, the `version` member of `/version`, and `owned_by` of its first model.
///
/// The user's word (`--backend vllm`) counts unless the server says it is something else; the `openai` kinds count as vLLM only
/// if the server says so. SGLang and llama.cpp name themselves in `owned_by`, and ignore vLLM's fields without a word.
pub fn identify(kind: ServerKind, version: Option<&str>, owned_by: Option<&str>) -> Server {
    if version.is_some_and(|version| version.starts_with(EMBEDDED_VERSION_PREFIX)) {
        return Server::Embedded;
    }
    let says_vllm = owned_by == Some("vllm");
    let says_other = matches!(owned_by, Some("sglang" | "llamacpp"));
    let is_vllm = match kind {
        ServerKind::Vllm => !says_other,
        ServerKind::Openai | ServerKind::OpenaiChat => says_vllm,
    };
    if is_vllm { Server::Vllm { version: version.and_then(major_minor) } } else { Server::Other }
}

impl Server {
    /// What `--constraint-dialect auto` means: `structured-outputs` came in vLLM 0.11, where `guided` was still forwarded; from
    /// 0.12 on `guided` fields are ignored.
    pub fn constraint_dialect(self) -> ConstraintDialect {
        match self {
            Self::Vllm { version: Some(version) } if version < (0, 11) => ConstraintDialect::Guided,
            Self::Vllm { .. } | Self::Embedded => ConstraintDialect::StructuredOutputs,
            Self::Other => ConstraintDialect::ResponseFormat,
        }
    }

    /// The notation in which the shipped grammar is sent: vLLM's script sent Lark before 0.8 and EBNF since; the embedded server
    /// decodes with llguidance, which reads Lark.
    pub fn grammar_dialect(self) -> GrammarDialect {
        match self {
            Self::Vllm { version: Some(version) } if version < (0, 8) => GrammarDialect::Lark,
            Self::Embedded => GrammarDialect::Lark,
            Self::Vllm { .. } | Self::Other => GrammarDialect::Ebnf,
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
            (OpenaiChat, None, Some("openai"), ResponseFormat, Ebnf),
            (OpenaiChat, None, None, ResponseFormat, Ebnf),
            (Openai, Some("sobench-embedded 0.1.0"), Some("sobench"), StructuredOutputs, Lark),
            (Vllm, Some("sobench-embedded 0.1.0"), None, StructuredOutputs, Lark),
        ] {
            let server = identify(kind, version, owned_by);
            let found = (server.constraint_dialect(), server.grammar_dialect());
            assert_eq!(found, (dialect, grammar), "{kind} {version:?} {owned_by:?}");
        }
    }
}
