//! Responses without text: lists of vectors or scores.
//!
//! Source: OpenAI's reference "Create embeddings"; `EmbeddingResponse`, `PoolingResponse` and
//! `RerankResponse` of vLLM. Usage has `prompt_tokens`; older versions of vLLM's rerank have only
//! `total_tokens`, which is equal because nothing is generated.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::wire::{self, Delta, Text};
use sobench_core::observation::Usage;

/// The items of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListItem {
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

/// The members of an entry. Their values are skipped, so large vectors use no memory.
#[derive(Deserialize)]
struct Entry {
    embedding: Option<IgnoredAny>,
    data: Option<IgnoredAny>,
    relevance_score: Option<IgnoredAny>,
}

/// Parses a whole body. A valid answer is a non-empty list in which every entry has the requested
/// item.
pub(super) fn read(listed: ListItem, json: &str) -> serde_json::Result<Delta> {
    let body: Body<'_> = serde_json::from_str(json)?;
    let (entries, has): (_, fn(&Entry) -> bool) = match listed {
        ListItem::Embeddings => (body.data, |entry| entry.embedding.is_some()),
        ListItem::Pooled => (body.data, |entry| entry.data.is_some()),
        ListItem::Scores => (body.results, |entry| entry.relevance_score.is_some()),
    };
    let is_answer = entries.is_some_and(|entries| !entries.is_empty() && entries.iter().all(has));
    let error = wire::error(body.error, body.object.as_ref(), body.code, body.kind);
    let usage = body.usage.and_then(parse_usage);
    Ok(Delta {
        is_answer,
        is_content: is_answer,
        is_whole: is_answer,
        error,
        usage,
        ..Delta::default()
    })
}

/// The prompt tokens, which some servers send as the total only. Output tokens are ignored.
fn parse_usage(raw: &RawValue) -> Option<Usage> {
    #[derive(Deserialize)]
    struct WireUsage<'a> {
        #[serde(borrow)]
        prompt_tokens: Option<&'a RawValue>,
        total_tokens: Option<&'a RawValue>,
    }
    match wire::members::<WireUsage<'_>>(raw) {
        Some(counts) => wire::usage(counts.prompt_tokens.or(counts.total_tokens), None),
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
    fn only_requested_items_are_an_answer() {
        for (listed, json, is_answer) in [
            (
                ListItem::Embeddings,
                r#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5,-1e-3]}]}"#,
                true,
            ),
            (
                ListItem::Embeddings,
                r#"{"object":"list","data":[{"embedding":"AAAAPw=="}]}"#,
                true,
            ),
            (
                ListItem::Embeddings,
                r#"{"object":"list","data":[{"id":"tiny","object":"model"}]}"#,
                false,
            ),
            (
                ListItem::Embeddings,
                r#"{"object":"list","data":[{"embedding":[1]},{"embedding":null}]}"#,
                false,
            ),
            (ListItem::Embeddings, r#"{"data":[]}"#, false),
            (
                ListItem::Pooled,
                r#"{"object":"list","data":[{"object":"pooling","data":[[0.1],[0.2]]}]}"#,
                true,
            ),
            (ListItem::Pooled, r#"{"data":[{"embedding":[1]}]}"#, false),
            (
                ListItem::Scores,
                r#"{"results":[{"index":0,"document":{"text":"a"},"relevance_score":0}]}"#,
                true,
            ),
            (ListItem::Scores, r#"{"results":[{"index":0}]}"#, false),
            (ListItem::Scores, r#"{"data":[{"score":0.5}]}"#, false),
        ] {
            let delta = read(listed, json).unwrap();
            assert_eq!(
                (delta.is_answer, delta.is_content),
                (is_answer, is_answer),
                "{json}"
            );
        }
        assert!(read(ListItem::Scores, r#"{"results":[0.5]}"#).is_err());
    }

    #[test]
    fn only_prompt_tokens_are_counted() {
        for (usage, expected) in [
            (
                r#"{"prompt_tokens":5,"total_tokens":5,"completion_tokens":0}"#,
                Some(5),
            ),
            (r#"{"total_tokens":7}"#, Some(7)),
            (r#"{"prompt_tokens":null}"#, None),
            ("null", None),
        ] {
            let usage = read(ListItem::Scores, &format!(r#"{{"usage":{usage}}}"#))
                .unwrap()
                .usage;
            assert_eq!(
                usage.map(|usage| (usage.prompt_tokens, usage.completion_tokens)),
                expected.map(|count| (Some(count), None))
            );
        }
    }
}
