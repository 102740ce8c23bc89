//! What the reasoning of an answer shows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use sobench_core::answer::Answer;
use sobench_judge::REASONING_TAGS;

/// What an answer with reasoning shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct ReasoningFacts {
    /// Tokens of the reasoning: the server's count, else the tokenizer's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Whether the answer is empty and the reasoning is, or ends in, a JSON object or array.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub json_only: bool,
    /// Whether the content has a mark that ends reasoning.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub end_marker: bool,
}

impl ReasoningFacts {
    /// `None` for an answer without reasoning and marks of it.
    pub fn new(answer: &Answer, tokens: Option<u64>) -> Option<Self> {
        let end_marker = REASONING_TAGS
            .iter()
            .any(|[_, end]| answer.content.contains(end));
        let has_reasoning = !answer.reasoning.is_empty();
        let is_empty = answer.content.trim().is_empty()
            && answer.refusal.is_empty()
            && answer.tool_calls.is_empty();
        (has_reasoning || end_marker).then(|| Self {
            tokens: tokens.filter(|_| has_reasoning),
            json_only: is_empty && ends_in_json(&answer.reasoning),
            end_marker,
        })
    }
}

fn ends_in_json(reasoning: &str) -> bool {
    let text = reasoning.trim_end();
    let start = text.find(['{', '[']);
    start.is_some_and(|start| serde_json::from_str::<serde::de::IgnoredAny>(&text[start..]).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::answer::ToolCall;

    fn facts(reasoning: &str, content: &str) -> Option<ReasoningFacts> {
        let answer = Answer {
            reasoning: reasoning.to_owned(),
            ..Answer::from_text(content.to_owned())
        };
        ReasoningFacts::new(&answer, Some(3))
    }

    #[test]
    fn facts_of_answers() {
        assert_eq!(facts("", "{}"), None);
        for (reasoning, content, json_only, end_marker) in [
            ("hm", "{}", false, false),
            ("{\"a\":1}", "", true, false),
            ("So it is:\n{\"a\":[1]}\n", " ", true, false),
            ("{\"a\":1}", "{}", false, false),
            ("{\"a\":1", "", false, false),
            ("I think {", "", false, false),
            ("", "hm</think>{}", false, true),
            ("hm", "[/THINK]{}", false, true),
        ] {
            let found = facts(reasoning, content).unwrap();
            assert_eq!(
                (found.json_only, found.end_marker),
                (json_only, end_marker),
                "{reasoning} | {content}"
            );
            assert_eq!(found.tokens.is_some(), !reasoning.is_empty());
        }
        let with_call = Answer {
            reasoning: "{}".to_owned(),
            tool_calls: vec![ToolCall::default()],
            ..Answer::default()
        };
        assert!(!ReasoningFacts::new(&with_call, None).unwrap().json_only);
    }
}
