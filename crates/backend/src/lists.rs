//! Whole answers without text: lists of vectors or scores.
//!
//! Source: OpenAI's reference "Create embeddings"; `EmbeddingResponse`, `PoolingResponse` and
//! `RerankResponse` of vLLM. Usage states `prompt_tokens`, in older versions of vLLM's rerank only
//! `total_tokens`, which is the same where nothing is generated.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::wire::{self, Delta, Text};
use sobench_core::observation::Usage;

/// What an answer lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// `data[].embedding`, numbers or their bytes in base64.
    Embeddings,
    /// `data[].data`.
    Pooled,
    /// `results[].relevance_score`.
    Scores,
}

#[derive(Deserialize)]
struct Body<'a> {
    data: Option<Vec<Entry>>,
    results: Option<Vec<Entry>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
    object: Option<Text<'a>>,
    code: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: Option<&'a RawValue>,
}

/// Which members an entry has. Their values are passed over: a vector of thousands of numbers costs
/// no memory.
#[derive(Deserialize)]
struct Entry {
    embedding: Option<IgnoredAny>,
    data: Option<IgnoredAny>,
    relevance_score: Option<IgnoredAny>,
}

/// Reads a whole body; the error is serde's words. An answer lists something, and nothing but what
/// was asked for.
pub(super) fn read(listed: Listed, json: &str) -> serde_json::Result<Delta> {
    let body: Body<'_> = serde_json::from_str(json)?;
    let (entries, has): (_, fn(&Entry) -> bool) = match listed {
        Listed::Embeddings => (body.data, |entry| entry.embedding.is_some()),
        Listed::Pooled => (body.data, |entry| entry.data.is_some()),
        Listed::Scores => (body.results, |entry| entry.relevance_score.is_some()),
    };
    let is_answer = entries.is_some_and(|entries| !entries.is_empty() && entries.iter().all(has));
    let error = wire::error(body.error, body.object.as_ref(), body.code, body.kind);
    let usage = body.usage.and_then(stated);
    Ok(Delta {
        is_answer,
        is_content: is_answer,
        is_whole: is_answer,
        error,
        usage,
        ..Delta::default()
    })
}

/// The tokens of what was asked, which some servers state as the total alone. There are no others:
/// a count of output is passed over.
fn stated(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct WireUsage<'a> {
        #[serde(borrow)]
        prompt_tokens: Option<&'a RawValue>,
        total_tokens: Option<&'a RawValue>,
    }
    match wire::members::<WireUsage<'_>>(raw) {
        Some(it) => wire::usage(it.prompt_tokens.or(it.total_tokens), None),
        None => Some(Usage {
            unreadable: true,
            ..Usage::default()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_for_is_an_answer() {
        for (listed, json, is_answer) in [
            (
                Listed::Embeddings,
                r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1e-3]}]}"#,
                true,
            ),
            (
                Listed::Embeddings,
                r#"{"object":"list","data":[{"embedding":"AAAAPw=="}]}"#,
                true,
            ),
            (
                Listed::Embeddings,
                r#"{"object":"list","data":[{"id":"tiny","object":"model"}]}"#,
                false,
            ),
            (
                Listed::Embeddings,
                r#"{"object":"list","data":[{"embedding":[1]},{"embedding":null}]}"#,
                false,
            ),
            (Listed::Embeddings, r#"{"data":[]}"#, false),
            (
                Listed::Pooled,
                r#"{"object":"list","data":[{"object":"pooling","data":[[0.1],[0.2]]}]}"#,
                true,
            ),
            (Listed::Pooled, r#"{"data":[{"embedding":[1]}]}"#, false),
            (
                Listed::Scores,
                r#"{"results":[{"index":0,"document":{"text":"a"},"relevance_score":0}]}"#,
                true,
            ),
            (Listed::Scores, r#"{"results":[{"index":0}]}"#, false),
            (Listed::Scores, r#"{"data":[{"score":0.5}]}"#, false),
        ] {
            let delta = read(listed, json).unwrap();
            assert_eq!(
                (delta.is_answer, delta.is_content),
                (is_answer, is_answer),
                "{json}"
            );
        }
        assert!(read(Listed::Scores, r#"{"results":[0.5]}"#).is_err());
    }

    #[test]
    fn counts_are_of_prompts_alone() {
        for (usage, expected) in [
            (
                r#"{"prompt_tokens":5,"total_tokens":5,"completion_tokens":0}"#,
                Some(5),
            ),
            (r#"{"total_tokens":7}"#, Some(7)),
            (r#"{"prompt_tokens":null}"#, None),
            ("null", None),
        ] {
            let usage = read(Listed::Scores, &format!(r#"{{"usage":{usage}}}"#))
                .unwrap()
                .usage;
            assert_eq!(
                usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens)),
                expected.map(|count| (Some(count), None))
            );
        }
    }
}
