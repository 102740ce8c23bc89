//! Identifies the server from the kind, `/version` and `/v1/models`, and resolves `auto` settings.

use super::{ConstraintDialect, Product, ServerKind};
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};

/// The identified server, which determines how constraints are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The embedded server, which reads the dialects of vLLM and OpenAI.
    Embedded,
    /// A server that reads constraints like this kind. The version is major and minor; `None` if
    /// unknown (a build of vLLM from source without tags reports `0.1.dev`).
    Kind {
        kind: ServerKind,
        version: Option<(u32, u32)>,
    },
}

/// Prefix of the embedded server's `/version`.
pub const EMBEDDED_VERSION_PREFIX: &str = "sobench-embedded";

/// Identifies the server from the kind that the user gave, the `version` member of `/version`, and
/// `owned_by` of its first model. A native kind is the server of that kind. `--backend vllm` is
/// used unless the server reports itself as one that ignores vLLM's fields. The `openai` kinds
/// count as the server that is reported, if they support its dialect.
pub fn identify(kind: ServerKind, version: Option<&str>, owned_by: Option<&str>) -> Server {
    if version.is_some_and(|version| version.starts_with(EMBEDDED_VERSION_PREFIX)) {
        return Server::Embedded;
    }
    let version = version.and_then(major_minor);
    let owner = owned_by.and_then(|owned_by| {
        let product = Product::by_owner(owned_by)?;
        ServerKind::ALL
            .into_iter()
            .find(|kind| kind.product() == Some(product))
    });
    let reported = owner
        .and_then(|owner| (kind.spec().treated_as)(owner, version))
        .map(|kind| Server::Kind { kind, version });
    let recognised =
        reported.filter(|server| kind.dialects().contains(&server.constraint_dialect(kind)));
    recognised.unwrap_or(Server::Kind { kind, version })
}

impl Server {
    /// Whether it is a vLLM server.
    pub fn is_vllm(self) -> bool {
        matches!(
            self,
            Self::Kind {
                kind: ServerKind::Vllm,
                ..
            }
        )
    }

    /// The dialect of `--constraint-dialect auto` for requests of this kind. A server's own dialect
    /// carries more kinds of constraints than others.
    pub fn constraint_dialect(self, requests: ServerKind) -> ConstraintDialect {
        match self {
            Self::Embedded => {
                let dialects = requests.dialects().iter().copied();
                let mut embedded = dialects.filter(|dialect| dialect.is_embedded());
                embedded
                    .next()
                    .unwrap_or(ConstraintDialect::StructuredOutputs)
            }
            Self::Kind { kind, version } => (kind.spec().auto_dialect)(version),
        }
    }

    /// The notation of the shipped grammar; the embedded server uses llguidance, which reads Lark.
    pub fn grammar_dialect(self) -> GrammarDialect {
        match self {
            Self::Embedded => GrammarDialect::Lark,
            Self::Kind { kind, version } => (kind.spec().grammar_dialect)(version),
        }
    }

    /// How to handle a grammar in another notation than the requested one.
    pub fn grammar_spelling(
        self,
        dialect: ConstraintDialect,
        requested: Option<GrammarDialect>,
    ) -> GrammarSpelling {
        let server_rule = match self {
            Self::Embedded => None,
            Self::Kind { kind, .. } => kind.spec().grammar_spelling,
        };
        match (
            server_rule.unwrap_or(dialect.spec().grammar_spelling),
            requested,
        ) {
            (GrammarSpelling::AsWritten, Some(_)) => GrammarSpelling::Converted,
            (spelling, _) => spelling,
        }
    }

    /// Whether the server accepts the decoding engine per request, in the dialect that has a field
    /// for it.
    pub fn accepts_engine(self) -> bool {
        match self {
            Self::Embedded => true,
            Self::Kind { kind, version } => (kind.spec().accepts_engine)(version),
        }
    }

    /// The product and its version, if this version ignores the fields of a dialect.
    pub fn version_ignoring(self, dialect: ConstraintDialect) -> Option<String> {
        let Self::Kind {
            kind,
            version: Some(version),
        } = self
        else {
            return None;
        };
        let (major, minor) = version;
        let name = kind.product().map_or(kind.name(), Product::label);
        (kind.spec().ignores_dialect)(version, dialect).then(|| format!("{name} {major}.{minor}"))
    }
}

/// `0.11.2rc1.dev3+gabc` is `(0, 11)`; `0.1.dev1+gabc`, the version of a build without tags, is
/// unknown.
fn major_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim().trim_start_matches('v').split('.');
    let major = parts.next()?.parse().ok()?;
    let minor = parts.next()?;
    let digits = minor
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(minor.len());
    let minor = minor[..digits].parse().ok()?;
    let is_untagged =
        (major, minor) == (0, 1) && parts.next().is_some_and(|part| part.starts_with("dev"));
    (!is_untagged).then_some((major, minor))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ConstraintDialect::{Guided, ResponseFormat, StructuredOutputs};
    use GrammarDialect::{Ebnf, Lark};
    use ServerKind::{Openai, OpenaiChat, Vllm};

    #[test]
    fn grammars_are_converted_for_servers_with_one_notation() {
        use ConstraintDialect::{LlamaCpp, Sglang, TritonGuide, TrtllmFormat};
        use GrammarSpelling::{AsWritten, Converted, Portable};
        let of = |kind| Server::Kind {
            kind,
            version: None,
        };
        for (server, dialect, requested, expected) in [
            (of(Vllm), StructuredOutputs, None, AsWritten),
            (of(Vllm), StructuredOutputs, Some(Lark), Converted),
            (Server::Embedded, StructuredOutputs, None, AsWritten),
            (of(ServerKind::Sglang), Sglang, None, Converted),
            (of(ServerKind::TrtllmServe), TrtllmFormat, None, Converted),
            (of(ServerKind::TensorrtLlm), TritonGuide, None, Converted),
            (of(Openai), ResponseFormat, None, AsWritten),
            (of(Openai), Sglang, None, Converted),
            (of(Openai), LlamaCpp, None, Portable),
            (of(ServerKind::LlamaCpp), ResponseFormat, None, Portable),
            (of(ServerKind::LlamaCpp), LlamaCpp, Some(Ebnf), Portable),
        ] {
            assert_eq!(
                server.grammar_spelling(dialect, requested),
                expected,
                "{server:?} {dialect} {requested:?}"
            );
        }
    }

    #[test]
    fn vllm_versions_read_different_fields() {
        for (version, dialect, ignored, accepts_engine) in [
            (Some((0, 7)), StructuredOutputs, Some("vLLM 0.7"), true),
            (Some((0, 8)), Guided, None, false),
            (Some((0, 12)), Guided, Some("vLLM 0.12"), false),
            (Some((0, 12)), ResponseFormat, None, false),
            (None, Guided, None, true),
        ] {
            let server = Server::Kind {
                kind: Vllm,
                version,
            };
            assert_eq!(
                server.version_ignoring(dialect).as_deref(),
                ignored,
                "{version:?} {dialect}"
            );
            assert_eq!(server.accepts_engine(), accepts_engine, "{version:?}");
        }
        assert!(
            Server::Kind {
                kind: ServerKind::Sglang,
                version: Some((0, 12))
            }
            .accepts_engine()
        );
    }

    #[test]
    fn aphrodite_ignores_the_fields_that_its_version_does_not_have() {
        for (version, dialect, ignored) in [
            ((0, 9), StructuredOutputs, Some("Aphrodite 0.9")),
            ((0, 9), Guided, None),
            ((0, 10), StructuredOutputs, None),
            ((0, 10), Guided, None),
            ((0, 20), Guided, Some("Aphrodite 0.20")),
            ((0, 20), StructuredOutputs, None),
        ] {
            let server = Server::Kind {
                kind: ServerKind::Aphrodite,
                version: Some(version),
            };
            let found = server.version_ignoring(dialect);
            assert_eq!(found.as_deref(), ignored, "{version:?} {dialect}");
        }
    }

    #[test]
    fn auto_resolves_by_server() {
        for (kind, version, owned_by, dialect, grammar) in [
            (Vllm, Some("0.32.0"), Some("vllm"), StructuredOutputs, Ebnf),
            (Vllm, Some("0.11.0"), Some("vllm"), StructuredOutputs, Ebnf),
            (
                Vllm,
                Some("0.11.0rc1.dev7+gabc"),
                Some("vllm"),
                StructuredOutputs,
                Ebnf,
            ),
            (Vllm, Some("0.10.2"), Some("vllm"), Guided, Ebnf),
            (Vllm, Some("0.8.5.post1"), None, Guided, Ebnf),
            (Vllm, Some("v0.7.3"), None, Guided, Lark),
            (Vllm, Some("0.6.6"), None, Guided, Lark),
            (Vllm, Some("1.0"), None, StructuredOutputs, Ebnf),
            (
                Vllm,
                Some("0.1.dev11+gabc"),
                Some("vllm"),
                StructuredOutputs,
                Ebnf,
            ),
            (Vllm, Some("nightly"), None, StructuredOutputs, Ebnf),
            (Vllm, None, None, StructuredOutputs, Ebnf),
            (Vllm, None, Some("unknown-owner"), StructuredOutputs, Ebnf),
            (Vllm, None, Some("sglang"), ResponseFormat, Ebnf),
            (Vllm, Some("0.5.23"), Some("sglang"), ResponseFormat, Ebnf),
            (Vllm, None, Some("llamacpp"), ResponseFormat, Ebnf),
            (
                Openai,
                Some("0.32.0"),
                Some("vllm"),
                StructuredOutputs,
                Ebnf,
            ),
            (OpenaiChat, Some("0.9.2"), Some("vllm"), Guided, Ebnf),
            (
                Openai,
                Some("0.5.23"),
                Some("sglang"),
                ConstraintDialect::Sglang,
                Ebnf,
            ),
            (
                OpenaiChat,
                None,
                Some("llamacpp"),
                ConstraintDialect::LlamaCpp,
                Ebnf,
            ),
            (
                OpenaiChat,
                None,
                Some("lmdeploy"),
                ConstraintDialect::RegexSchema,
                Ebnf,
            ),
            (Openai, None, Some("lmdeploy"), ResponseFormat, Ebnf),
            (
                OpenaiChat,
                None,
                Some("tensorrt_llm"),
                ConstraintDialect::TrtllmFormat,
                Ebnf,
            ),
            (
                ServerKind::OpenaiResponses,
                Some("0.33.0"),
                Some("vllm"),
                StructuredOutputs,
                Ebnf,
            ),
            (
                ServerKind::OpenaiResponses,
                Some("0.13.0"),
                Some("vllm"),
                ConstraintDialect::TextFormat,
                Ebnf,
            ),
            (
                ServerKind::OpenaiResponses,
                None,
                Some("vllm"),
                ConstraintDialect::TextFormat,
                Ebnf,
            ),
            (
                ServerKind::OpenaiResponses,
                Some("0.33.0"),
                Some("sglang"),
                ConstraintDialect::TextFormat,
                Ebnf,
            ),
            (
                Vllm,
                Some("0.33.0"),
                Some("tensorrt_llm"),
                StructuredOutputs,
                Ebnf,
            ),
            (
                ServerKind::Sglang,
                None,
                Some("vllm"),
                ConstraintDialect::Sglang,
                Ebnf,
            ),
            (
                ServerKind::OpenaiResponses,
                None,
                Some("openai"),
                ConstraintDialect::TextFormat,
                Ebnf,
            ),
            (
                ServerKind::Sglang,
                None,
                None,
                ConstraintDialect::Sglang,
                Ebnf,
            ),
            (
                ServerKind::LlamaCpp,
                None,
                Some("llamacpp"),
                ConstraintDialect::LlamaCpp,
                Ebnf,
            ),
            (
                ServerKind::Tgi,
                None,
                Some("org/model"),
                ConstraintDialect::TgiGrammar,
                Ebnf,
            ),
            (
                ServerKind::TensorrtLlm,
                None,
                None,
                ConstraintDialect::TritonGuide,
                Ebnf,
            ),
            (
                ServerKind::TrtllmServe,
                Some("1.2.0"),
                Some("tensorrt_llm"),
                ConstraintDialect::TrtllmFormat,
                Ebnf,
            ),
            (
                ServerKind::Lmdeploy,
                None,
                Some("lmdeploy"),
                ConstraintDialect::RegexSchema,
                Ebnf,
            ),
            (ServerKind::Aphrodite, Some("0.9.1"), None, Guided, Ebnf),
            (
                ServerKind::Aphrodite,
                Some("0.10.0"),
                None,
                StructuredOutputs,
                Ebnf,
            ),
            (ServerKind::Aphrodite, None, None, StructuredOutputs, Ebnf),
            (
                OpenaiChat,
                Some("0.20.0"),
                Some("aphrodite"),
                StructuredOutputs,
                Ebnf,
            ),
            (
                ServerKind::Ollama,
                Some("0.13.5"),
                Some("library"),
                ConstraintDialect::OllamaFormat,
                Ebnf,
            ),
            (
                ServerKind::Scalellm,
                None,
                Some("scalellm"),
                ResponseFormat,
                Ebnf,
            ),
            (OpenaiChat, None, Some("openai"), ResponseFormat, Ebnf),
            (OpenaiChat, None, None, ResponseFormat, Ebnf),
            (
                Openai,
                Some("sobench-embedded 0.1.0"),
                Some("sobench"),
                StructuredOutputs,
                Lark,
            ),
            (
                Vllm,
                Some("sobench-embedded 0.1.0"),
                None,
                StructuredOutputs,
                Lark,
            ),
        ] {
            let server = identify(kind, version, owned_by);
            let found = (server.constraint_dialect(kind), server.grammar_dialect());
            assert_eq!(found, (dialect, grammar), "{kind} {version:?} {owned_by:?}");
            let speaks = kind.dialects().is_empty() || kind.dialects().contains(&dialect);
            assert!(speaks, "{kind} does not speak what auto chooses: {dialect}");
        }
    }
}
