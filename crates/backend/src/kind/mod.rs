//! Server kinds, one file each: requests, responses and how to identify the server.

mod anthropic;
mod aphrodite;
mod deepspeed_mii;
mod llama_cpp;
mod lmdeploy;
mod ollama;
mod openai;
mod openai_audio;
mod openai_chat;
mod openai_embeddings;
mod openai_responses;
mod scalellm;
mod sglang;
mod tensorrt_llm;
mod tgi;
mod trtllm_serve;
mod vllm;
mod vllm_pooling;
mod vllm_rerank;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::body_layout::BodyLayout;
use super::decode::Wire;
use super::product::{Product, ProductSpec};
use super::thinking::ThinkingSwitch;
use super::{Adapter, BodySettings, ConstraintDialect, Unsendable};
use sobench_core::case::Case;
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};
use sobench_core::registry;
use sobench_core::tools::ToolForm;

registry! {
    /// The kind of server, as `--backend` names it.
    #[derive(Default)]
    pub enum ServerKind is "backend" with KindSpec {
        #[default]
        Vllm => vllm::SPEC,
        Openai => openai::SPEC,
        OpenaiChat => openai_chat::SPEC,
        OpenaiResponses => openai_responses::SPEC,
        Anthropic => anthropic::SPEC,
        Sglang => sglang::SPEC,
        LlamaCpp => llama_cpp::SPEC,
        Tgi => tgi::SPEC,
        TensorrtLlm => tensorrt_llm::SPEC,
        TrtllmServe => trtllm_serve::SPEC,
        Lmdeploy => lmdeploy::SPEC,
        Aphrodite => aphrodite::SPEC,
        Scalellm => scalellm::SPEC,
        DeepspeedMii => deepspeed_mii::SPEC,
        Ollama => ollama::SPEC,
        OpenaiAudio => openai_audio::SPEC,
        OpenaiEmbeddings => openai_embeddings::SPEC,
        VllmPooling => vllm_pooling::SPEC,
        VllmRerank => vllm_rerank::SPEC,
    }
}

/// The input of a kind's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Text: the client applies the chat template.
    Text,
    /// Chat messages: the server applies the chat template.
    Messages,
    /// Audio files.
    Audio,
    /// A query and documents.
    Ranking,
}

/// The key of the server, which is a bearer token, and what is sent beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The environment variable of the key.
    pub variable: &'static str,
    /// Headers of every request, with or without a key.
    pub headers: &'static [(&'static str, &'static str)],
}

impl Credentials {
    pub(super) const OPENAI: Self = Self {
        variable: "OPENAI_API_KEY",
        headers: &[],
    };

    /// The headers as arguments of curl, each after a space.
    pub fn curl_headers(self) -> String {
        let headers = self.headers.iter();
        headers
            .map(|(name, value)| format!(" -H '{name}: {value}'"))
            .collect()
    }

    /// What to do if the server refuses the key.
    pub fn hint(self) -> String {
        let variable = self.variable;
        format!("set {variable}, or give the key with --header")
    }
}

/// Major and minor version of a server.
pub(crate) type Version = (u32, u32);

/// The properties of a server kind. Functions take the server's version if it is known.
pub(crate) struct KindSpec {
    pub(crate) name: &'static str,
    /// The path for streaming requests, unless `--endpoint` gives another one.
    pub(super) path: &'static str,
    /// The path without streaming, if it differs.
    pub(super) whole_path: Option<&'static str>,
    /// Keywords of which a path for this kind contains one. A kind without keywords fits paths
    /// without those of other kinds, with or without `chat` depending on its input.
    pub(super) path_words: &'static [&'static str],
    pub(super) input: Input,
    /// Whether answers are generated token by token. Other answers are vectors or scores, sent
    /// whole.
    pub(super) generates: bool,
    /// Whether an answer can be constrained. Kinds without a field for a constraint have no
    /// dialects instead.
    pub(super) takes_constraints: bool,
    /// Whether the embedded server supports this kind's wire format.
    pub(super) embedded: bool,
    /// The dialects that some server of this kind reads, the most capable first.
    pub(super) dialects: &'static [ConstraintDialect],
    /// The dialect of `--constraint-dialect auto`.
    pub(super) auto_dialect: fn(Option<Version>) -> ConstraintDialect,
    /// The notation of the shipped grammar.
    pub(super) grammar_dialect: fn(Option<Version>) -> GrammarDialect,
    /// How to handle grammars in another notation, if it does not depend on the dialect.
    pub(super) grammar_spelling: Option<GrammarSpelling>,
    /// Whether the server accepts the decoding engine per request, in the dialect that has a field
    /// for it.
    pub(super) accepts_engine: fn(Option<Version>) -> bool,
    /// Whether this version ignores the fields of a dialect.
    pub(super) ignores_dialect: fn(Version, ConstraintDialect) -> bool,
    /// The kind to treat the server as if `/v1/models` reports another owner; `None` for this kind.
    pub(super) treated_as: fn(ServerKind, Option<Version>) -> Option<ServerKind>,
    /// The form of `tools`; `None` if the kind has no such field.
    pub(super) tools: Option<ToolForm>,
    /// The layout of the shared fields of the body.
    pub(super) body: BodyLayout,
    /// The `repetition_penalty` that is sent by default.
    pub(super) repetition_penalty: Option<f64>,
    /// The fields that request log probabilities of the most likely tokens.
    pub(super) logprobs: Option<fn(u32) -> Value>,
    /// Whether a request contains the model.
    pub(super) names_model: bool,
    /// The field with variables for the server's chat template.
    pub(super) template_variables: Option<&'static str>,
    /// The ways to turn thinking on and off, in the order to try them.
    pub(super) thinking_switches: &'static [ThinkingSwitch],
    /// The server software, if it can be identified.
    pub(super) product: Option<ProductSpec>,
    pub(super) credentials: Credentials,
    /// Encodes the request body as JSON.
    pub(super) encode: fn(ServerKind, &Case, &BodySettings) -> Result<Bytes, Unsendable>,
    /// How responses are decoded.
    pub(super) wire: Wire,
    pub(super) adapter: fn(ServerKind) -> Box<dyn Adapter>,
}

impl ServerKind {
    /// Whether its body has OpenAI's `stream_options`, which request counts in a stream.
    pub fn takes_stream_options(self) -> bool {
        self.spec().body.has_stream_options
    }

    /// The field of the token limit; see [`BodySettings::max_tokens_only`].
    pub fn limit_field(self, max_tokens_only: bool) -> &'static str {
        if max_tokens_only && self.sends_max_completion_tokens() {
            "max_tokens"
        } else {
            self.spec().body.length
        }
    }

    /// Whether it sends the token limit in a field that some servers of this kind do not read.
    pub fn sends_max_completion_tokens(self) -> bool {
        self.takes_messages() && self.spec().body.length == "max_completion_tokens"
    }

    /// Whether its body has a field for a seed.
    pub fn takes_seed(self) -> bool {
        self.spec().body.sampling_field("seed").is_some()
    }

    /// Whether its body has a field to continue after the end of an answer.
    pub fn takes_ignore_eos(self) -> bool {
        self.spec().body.has_ignore_eos
    }

    /// The path for streaming requests, unless `--endpoint` gives another one.
    pub fn default_path(self) -> &'static str {
        self.spec().path
    }

    /// The path for requests with or without streaming, which differ for some kinds.
    pub fn path(self, stream: bool) -> &'static str {
        self.spec()
            .whole_path
            .filter(|_| !stream)
            .unwrap_or(self.spec().path)
    }

    /// Whether a path looks like an endpoint of this kind.
    pub fn fits(self, path: &str) -> bool {
        let has = |kind: Self| {
            kind.spec()
                .path_words
                .iter()
                .any(|word| path.contains(word))
        };
        if !self.spec().path_words.is_empty() {
            return has(self);
        }
        path.contains("chat") == self.takes_messages()
            && !path.contains("audio")
            && !Self::ALL.into_iter().any(has)
    }

    /// The key of the server, and what is sent beside it.
    pub fn credentials(self) -> Credentials {
        self.spec().credentials
    }

    /// The input of requests.
    pub fn input(self) -> Input {
        self.spec().input
    }

    /// Whether the server applies the chat template, so that a dataset must not.
    pub fn takes_messages(self) -> bool {
        self.input() == Input::Messages
    }

    /// Whether answers are generated token by token. Other kinds answer with whole vectors or
    /// scores: they have no output tokens, and only an end-to-end latency.
    pub fn generates(self) -> bool {
        self.spec().generates
    }

    /// Whether these answers could have a constraint. For kinds without a field for one, each case
    /// is rejected instead.
    pub fn takes_constraints(self) -> bool {
        self.spec().takes_constraints
    }

    /// Whether the embedded server supports this kind's wire format.
    pub fn is_embedded(self) -> bool {
        self.spec().embedded
    }

    /// The dialects that some server of this kind reads, the most capable first. Empty if
    /// constraints cannot be sent.
    pub fn dialects(self) -> &'static [ConstraintDialect] {
        self.spec().dialects
    }

    /// Whether a request can offer tools.
    pub fn takes_tools(self) -> bool {
        self.spec().tools.is_some()
    }

    /// Whether the server must enforce the arguments of a tool without `strict`.
    pub fn is_strict_by_default(self) -> bool {
        self.spec().tools == Some(ToolForm::Responses)
    }

    /// The fields that request log probabilities of the `n` most likely tokens at each position;
    /// `None` if the kind has none.
    pub fn logprobs(self, n: u32) -> Option<Map<String, Value>> {
        self.spec()
            .logprobs
            .and_then(|fields| fields(n).as_object().cloned())
    }

    /// Whether a request of this kind contains the model.
    pub fn names_model(self) -> bool {
        self.spec().names_model
    }

    /// The field with variables for the server's chat template; `None` if the kind has no such
    /// field or no template.
    pub fn template_variables(self) -> Option<&'static str> {
        self.spec().template_variables
    }

    /// The `repetition_penalty` that is sent by default.
    pub fn repetition_penalty(self) -> Option<f64> {
        self.spec().repetition_penalty
    }

    /// The server software of this kind, if it can be identified.
    pub fn product(self) -> Option<Product> {
        self.spec().product.as_ref().map(Product::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter;

    #[test]
    fn names_round_trip_and_unknown_names_list_the_known_ones() {
        for kind in ServerKind::ALL {
            assert_eq!(kind.name().parse::<ServerKind>().unwrap(), kind);
            assert_eq!(adapter(kind).kind(), kind);
            assert!(
                kind.fits(kind.path(true)) && kind.fits(kind.path(false)),
                "{kind}"
            );
            assert_eq!(kind.path(true), kind.default_path());
        }
        let error = "guidellm".parse::<ServerKind>().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("unknown backend: guidellm\nhint: one of vllm, openai, openai-chat, "),
            "{error}"
        );
    }

    #[test]
    fn paths_of_other_endpoints_are_detected() {
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
            (ServerKind::Vllm, "/v1/audio/speech"),
            (ServerKind::OpenaiAudio, "/v1/completions"),
            (ServerKind::VllmRerank, "/pooling"),
        ] {
            assert!(!kind.fits(path), "{kind} {path}");
        }
        assert!(ServerKind::TensorrtLlm.fits("/v2/models/mine/generate_stream"));
        assert!(
            ServerKind::VllmRerank.fits("/v2/rerank")
                && ServerKind::OpenaiAudio.fits("/v1/audio/translations")
        );
    }

    #[test]
    fn every_dialect_has_a_server_kind() {
        for dialect in ConstraintDialect::ALL {
            assert!(
                ServerKind::ALL
                    .iter()
                    .any(|kind| kind.dialects().contains(&dialect)),
                "{dialect}"
            );
        }
    }

    #[test]
    fn the_auto_dialect_of_every_kind_is_one_of_its_dialects() {
        for kind in ServerKind::ALL {
            let auto = (kind.spec().auto_dialect)(None);
            assert!(
                kind.dialects().is_empty() || kind.dialects().contains(&auto),
                "{kind}"
            );
            assert!(
                kind.takes_constraints() || kind.dialects().is_empty(),
                "{kind}"
            );
        }
    }
}
