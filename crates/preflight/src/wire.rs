//! Preflight of requests: those that must fail, prompts that must count, and second turns.
//!
//! The requests are bodies of chat completions. A request that the API forbids must be a 400 with a
//! message (OpenAI's API reference; Kimi's vendor verifier tests some of them). Prompt tokens of the
//! same messages must agree, streamed and whole, and grow by the tools and by the results of tools: a
//! chat template that drops them answers with 200 all the same.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use sobench_backend::Product;
use sobench_core::error_message::error_message;
use sobench_core::observation::{Outcome, failure_message};
use sobench_core::printable::{MESSAGE_CHARS, shortened};

/// The status of a request that the API forbids.
const BAD_REQUEST: u16 = 400;

/// What a test shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WireVerdict {
    Fine,
    AcceptedSilently,
    WrongStatus,
    NoMessage,
    ServerGone,
    Hangs,
    Refused,
    CountsDiffer,
    ToolsDropped,
    ResultDropped,
    NoAnswer,
    CachesAnswers,
    FixedSeed,
    Unknown,
}

impl WireVerdict {
    /// Every verdict, in the order of documentation.
    pub const ALL: [Self; 14] = [
        Self::Fine,
        Self::AcceptedSilently,
        Self::WrongStatus,
        Self::NoMessage,
        Self::ServerGone,
        Self::Hangs,
        Self::Refused,
        Self::CountsDiffer,
        Self::ToolsDropped,
        Self::ResultDropped,
        Self::NoAnswer,
        Self::CachesAnswers,
        Self::FixedSeed,
        Self::Unknown,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::AcceptedSilently => "accepted silently",
            Self::WrongStatus => "wrong status",
            Self::NoMessage => "no message",
            Self::ServerGone => "server gone",
            Self::Hangs => "hangs",
            Self::Refused => "refused",
            Self::CountsDiffer => "counts differ",
            Self::ToolsDropped => "tools dropped",
            Self::ResultDropped => "result dropped",
            Self::NoAnswer => "no answer",
            Self::CachesAnswers => "caches answers",
            Self::FixedSeed => "fixed seed",
            Self::Unknown => "unknown",
        }
    }

    /// Whether nothing is wrong, or nothing is known.
    pub fn is_fine(self) -> bool {
        matches!(self, Self::Fine | Self::Unknown)
    }
}

/// One test.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct WireResult {
    /// What was tested.
    pub name: &'static str,
    pub verdict: WireVerdict,
    /// What the server answered, or the counts.
    pub words: String,
    /// The request that shows it.
    #[schemars(with = "Value")]
    pub request: Value,
}

/// The results for requests.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct WirePreflight {
    /// Requests that must fail.
    pub negative: Vec<WireResult>,
    /// Prompts, caches and second turns.
    pub prompts: Vec<WireResult>,
}

impl WirePreflight {
    /// Whether all tests are fine, or unknown.
    pub fn passed(&self) -> bool {
        self.failed() == 0
    }

    /// The number of tests that failed.
    pub fn failed(&self) -> usize {
        self.results()
            .filter(|result| !result.verdict.is_fine())
            .count()
    }

    /// The number of tests without a result.
    pub fn unknown(&self) -> usize {
        let results = self.results();
        results
            .filter(|result| result.verdict == WireVerdict::Unknown)
            .count()
    }

    /// All tests.
    pub fn results(&self) -> impl Iterator<Item = &WireResult> {
        self.negative.iter().chain(&self.prompts)
    }
}

/// Requests that the API forbids: the name, and the members that make them so.
pub(super) fn negative_requests(product: Option<Product>) -> Vec<(&'static str, Value)> {
    let schema = |schema: Value| json!({"type": "json_schema", "json_schema": {"name": "a", "schema": schema}});
    let named = json!({"type": "function", "function": {"name": "get_time"}});
    let mut requests = vec![
        (
            "tool choice without tools",
            json!({"tool_choice": "required"}),
        ),
        ("named tool without tools", json!({"tool_choice": named})),
        (
            "unknown tool",
            json!({"tools": [tool("get_weather")], "tool_choice": named}),
        ),
        (
            "tools that are no list",
            json!({"tools": {"type": "function"}}),
        ),
        (
            "unknown response format",
            json!({"response_format": {"type": "yaml"}}),
        ),
        (
            "json_schema without a schema",
            json!({"response_format": {"type": "json_schema"}}),
        ),
        (
            "schema with an unknown type",
            json!({"response_format": schema(json!({"type": "word"}))}),
        ),
        (
            "schema that is a text",
            json!({"response_format": schema(json!("object"))}),
        ),
        (
            "unknown role",
            json!({"messages": [{"role": "wizard", "content": "Hello"}]}),
        ),
        ("messages that are a text", json!({"messages": "Hello"})),
        ("no messages", json!({"messages": []})),
        ("negative max_tokens", json!({"max_tokens": -7})),
        ("temperature that is a text", json!({"temperature": "warm"})),
    ];
    let both = match product.map(Product::name) {
        Some("vllm") => Some(json!({"structured_outputs": {"regex": "a+", "choice": ["b"]}})),
        Some("sglang") => Some(json!({"regex": "a+", "ebnf": "root ::= \"b\""})),
        Some("llama_cpp") => {
            Some(json!({"grammar": "root ::= \"b\"", "json_schema": {"type": "object"}}))
        }
        _ => None,
    };
    requests.extend(both.map(|members| ("two constraints at once", members)));
    requests
}

/// A tool without much text.
pub(super) fn tool(name: &str) -> Value {
    let parameters =
        json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    json!({"type": "function", "function": {"name": name, "description": "Looks it up.", "parameters": parameters}})
}

/// The verdict on the answer to a request that must fail.
pub(super) fn verdict_on_negative(outcome: &Outcome) -> (WireVerdict, String) {
    let words = |status: u16, body: &str| format!("{status}: {}", error_message(body));
    match outcome {
        Outcome::Rejected { status, body, .. } | Outcome::ServerError { status, body, .. } => {
            let verdict = match error_message(body).trim().is_empty() {
                _ if *status != BAD_REQUEST => WireVerdict::WrongStatus,
                true => WireVerdict::NoMessage,
                false => WireVerdict::Fine,
            };
            (verdict, words(*status, body))
        }
        Outcome::TimedOut { .. } => (WireVerdict::Hangs, failure_message(outcome)),
        Outcome::Transport { .. } => (WireVerdict::ServerGone, failure_message(outcome)),
        Outcome::StreamError { .. } => (WireVerdict::WrongStatus, failure_message(outcome)),
        _ => (WireVerdict::AcceptedSilently, "200".to_owned()),
    }
}

impl WireResult {
    pub(super) fn new(
        name: &'static str,
        verdict: WireVerdict,
        words: &str,
        request: Value,
    ) -> Self {
        Self {
            name,
            verdict,
            words: shortened(words, MESSAGE_CHARS),
            request,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_on_requests_that_must_fail() {
        let refused = |status, body: &str| Outcome::Rejected {
            status,
            body: body.to_owned(),
            advice: None,
        };
        for (outcome, expected) in [
            (
                refused(400, r#"{"error": {"message": "no"}}"#),
                WireVerdict::Fine,
            ),
            (refused(400, ""), WireVerdict::NoMessage),
            (refused(422, "no"), WireVerdict::WrongStatus),
            (
                Outcome::ServerError {
                    status: 500,
                    body: "no".to_owned(),
                    advice: None,
                },
                WireVerdict::WrongStatus,
            ),
            (Outcome::Completed, WireVerdict::AcceptedSilently),
            (Outcome::Truncated, WireVerdict::AcceptedSilently),
        ] {
            assert_eq!(verdict_on_negative(&outcome).0, expected, "{outcome:?}");
        }
    }

    #[test]
    fn names_of_tests_and_verdicts_differ() {
        for product in Product::all() {
            let requests = negative_requests(Some(product));
            let mut names: Vec<_> = requests.iter().map(|(name, _)| name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), requests.len());
        }
        let mut names = WireVerdict::ALL.map(WireVerdict::name).to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WireVerdict::ALL.len());
    }
}
