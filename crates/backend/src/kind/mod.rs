//! Kinds of servers, one file each: what requests look like, how answers are read, and how such a
//! server names itself.

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

use super::decode::Wire;
use super::product::{Product, ProductSpec};
use super::shape::Shape;
use super::{Adapter, ConstraintDialect, RequestOptions, Unsendable};
use sobench_core::case::Case;
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};
use sobench_core::registry;

registry! {
    /// What kind of server is on the other side, as `--backend` names it.
    #[derive(Default)]
    pub enum ServerKind is "backend" with KindSpec {
        #[default]
        Vllm => vllm::SPEC,
        Openai => openai::SPEC,
        OpenaiChat => openai_chat::SPEC,
        OpenaiResponses => openai_responses::SPEC,
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

/// Major and minor version of a server.
pub(crate) type Version = (u32, u32);

/// Everything that is known of a kind of server. The functions take the server's version where it
/// is known.
pub(crate) struct KindSpec {
    pub(crate) name: &'static str,
    /// The path that requests for streams go to unless `--endpoint` names another one.
    pub(super) path: &'static str,
    /// The path for whole answers, where it is another one.
    pub(super) whole_path: Option<&'static str>,
    /// Words of which a path has one if requests of this kind fit it. Where there are none, the
    /// words of other kinds tell that they do not, and `chat` that messages do.
    pub(super) path_words: &'static [&'static str],
    pub(super) input: Input,
    /// Whether answers are text that is generated token by token. Other answers are vectors or
    /// scores and come whole.
    pub(super) generates: bool,
    /// Whether an answer can be constrained. Kinds that merely have no field for a constraint say
    /// so by having no dialects.
    pub(super) takes_constraints: bool,
    /// Whether the embedded server speaks this kind's wire format.
    pub(super) embedded: bool,
    /// The dialects that some server of this kind is known to read, the one with the widest reach
    /// first.
    pub(super) dialects: &'static [ConstraintDialect],
    /// The dialect that `--constraint-dialect auto` means.
    pub(super) auto_dialect: fn(Option<Version>) -> ConstraintDialect,
    /// The notation in which the shipped grammar is sent.
    pub(super) grammar_dialect: fn(Option<Version>) -> GrammarDialect,
    /// What becomes of grammars in the other notation, if it is the same in every dialect.
    pub(super) grammar_spelling: Option<GrammarSpelling>,
    /// Whether the server takes its decoding engine from the request, in the dialect that has a
    /// field for it.
    pub(super) honours_engine: fn(Option<Version>) -> bool,
    /// Whether this version ignores the fields of a dialect.
    pub(super) ignores_dialect: fn(Version, ConstraintDialect) -> bool,
    /// The kind that such a server is treated as if `/v1/models` names another kind as the owner;
    /// `None` for its own.
    pub(super) treated_as: fn(ServerKind, Option<Version>) -> Option<ServerKind>,
    /// Where the body keeps what all kinds share.
    pub(super) body: Shape,
    /// The `repetition_penalty` that is sent unless another one is asked for.
    pub(super) repetition_penalty: Option<f64>,
    /// The fields that ask for the log probabilities of the likeliest tokens.
    pub(super) logprobs: Option<fn(u32) -> Value>,
    /// Whether a request says which model it asks for.
    pub(super) names_model: bool,
    /// The field that hands variables to the server's chat template.
    pub(super) template_variables: Option<&'static str>,
    /// JSON pointers to the message in the body of an error, the first one that holds text counts.
    pub(super) error_messages: &'static [&'static str],
    /// The software, where it can be recognised by what it says of itself.
    pub(super) product: Option<ProductSpec>,
    /// The request body for this kind, as JSON.
    pub(super) encode: fn(ServerKind, &Case, &RequestOptions) -> Result<Bytes, Unsendable>,
    /// How answers are read.
    pub(super) wire: Wire,
    pub(super) adapter: fn(ServerKind) -> Box<dyn Adapter>,
}

impl ServerKind {
    /// Whether its body has OpenAI's `stream_options`, which ask for counts in a stream.
    pub fn takes_stream_options(self) -> bool {
        self.spec().body.asks_usage
    }

    /// Whether its body has a field that makes servers go on past the end of an answer.
    pub fn takes_ignore_eos(self) -> bool {
        self.spec().body.ignores_eos
    }

    /// The path that requests for streams go to unless `--endpoint` names another one.
    pub fn default_path(self) -> &'static str {
        self.spec().path
    }

    /// The path for requests with or without streaming: some kinds have one path for each.
    pub fn path(self, stream: bool) -> &'static str {
        self.spec()
            .whole_path
            .filter(|_| !stream)
            .unwrap_or(self.spec().path)
    }

    /// Whether a path looks like one that this kind's requests fit.
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

    /// What requests are made from.
    pub fn input(self) -> Input {
        self.spec().input
    }

    /// Whether the server templates chat messages itself, so that a dataset must not.
    pub fn takes_messages(self) -> bool {
        self.input() == Input::Messages
    }

    /// Whether answers are text that is generated token by token. The other kinds answer with
    /// vectors or scores, whole: they have no output tokens, and no latency but the one to the end.
    pub fn generates(self) -> bool {
        self.spec().generates
    }

    /// Whether a constraint is a thing that these answers could have. Kinds that merely have no
    /// field for one take it, and refuse it for each case.
    pub fn takes_constraints(self) -> bool {
        self.spec().takes_constraints
    }

    /// Whether the embedded server speaks this kind's wire format.
    pub fn is_embedded(self) -> bool {
        self.spec().embedded
    }

    /// The dialects that some server of this kind is known to read, the one with the widest reach
    /// first. Empty where there is no way at all to send a constraint.
    pub fn dialects(self) -> &'static [ConstraintDialect] {
        self.spec().dialects
    }

    /// The fields that ask for the log probabilities of the `n` likeliest tokens at each place;
    /// `None` where a kind has none.
    pub fn logprobs(self, n: u32) -> Option<Map<String, Value>> {
        self.spec()
            .logprobs
            .and_then(|fields| fields(n).as_object().cloned())
    }

    /// Whether a request of this kind says which model it asks for.
    pub fn names_model(self) -> bool {
        self.spec().names_model
    }

    /// The field that hands variables to the server's chat template; `None` where a kind has no
    /// such field, or no template.
    pub fn template_variables(self) -> Option<&'static str> {
        self.spec().template_variables
    }

    /// The `repetition_penalty` that is sent unless another one is asked for.
    pub fn repetition_penalty(self) -> Option<f64> {
        self.spec().repetition_penalty
    }

    /// The software that servers of this kind are, where it can be recognised.
    pub fn product(self) -> Option<Product> {
        self.spec().product.as_ref().map(Product::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adapter;

    #[test]
    fn names_read_back_and_unknown_ones_list_the_known() {
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
    fn every_dialect_has_a_kind_that_reads_it() {
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
    fn every_kind_sends_by_a_dialect_of_its_own_unless_it_has_none() {
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
