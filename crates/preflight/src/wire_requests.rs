//! Sends the requests of [`crate::wire`].

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::Tested;
use super::runner::Runner;
use super::wire::{
    WirePreflight, WireResult, WireVerdict, negative_requests, tool, verdict_on_negative,
};
use sobench_backend::{ConstraintDialect, Product};
use sobench_core::error::Result;
use sobench_core::observation::{Observation, Outcome, failure_message};
use sobench_core::run_event::AnswerForm;

/// Tokens of an answer. Those of the test of repeated answers are long enough not to be equal by
/// chance.
const ANSWER_TOKENS: u32 = 8;
const REPEATED_TOKENS: u32 = 32;

/// Equal answers at temperature 1 that are no chance.
const REPEATS: usize = 3;

impl Runner<'_> {
    /// Sends all requests.
    pub(super) async fn test_wire(
        &mut self,
        product: Option<Product>,
        on_test: &mut impl FnMut(Tested<'_>),
    ) -> Result<WirePreflight> {
        let mut found = WirePreflight::default();
        for (name, members) in negative_requests(product) {
            let body = self.wire_body(members, ANSWER_TOKENS);
            let answered = self.send_wire(&body, AnswerForm::Whole).await?;
            let (verdict, words) = verdict_on_negative(&answered.outcome);
            let result = WireResult::new(name, verdict, &words, body);
            on_test(Tested::Wire(&result));
            found.negative.push(result);
            if verdict == WireVerdict::ServerGone {
                return Ok(found);
            }
        }
        for result in [
            self.test_counts().await?,
            self.test_tools_in_prompt().await?,
            self.test_second_turn().await?,
            self.test_repeats().await?,
        ] {
            on_test(Tested::Wire(&result));
            found.prompts.push(result);
        }
        Ok(found)
    }

    /// The same messages, streamed and whole.
    async fn test_counts(&mut self) -> Result<WireResult> {
        let name = "prompt tokens, streamed and whole";
        let body = self.wire_body(json!({}), ANSWER_TOKENS);
        let whole = self.send_wire(&body, AnswerForm::Whole).await?;
        let streamed = self.send_wire(&body, AnswerForm::Streamed).await?;
        let counts = [&whole, &streamed].map(prompt_tokens);
        let (verdict, words) = match counts {
            [Some(whole), Some(streamed)] if whole == streamed => {
                (WireVerdict::Fine, format!("{whole}"))
            }
            [Some(whole), Some(streamed)] => (
                WireVerdict::CountsDiffer,
                format!("{whole} whole, {streamed} streamed"),
            ),
            _ => (WireVerdict::Unknown, no_count(&[&whole, &streamed])),
        };
        Ok(WireResult::new(name, verdict, &words, body))
    }

    /// The same messages without tools, with one tool, and with several.
    async fn test_tools_in_prompt(&mut self) -> Result<WireResult> {
        let name = "tools in the prompt";
        let plain = self.wire_body(json!({}), ANSWER_TOKENS);
        let plain = self.send_wire(&plain, AnswerForm::Whole).await?;
        let (one_tool, tools) = (
            [tool("get_weather")],
            ["get_weather", "get_tide", "get_time"],
        );
        let one = self.wire_body(json!({"tools": one_tool}), ANSWER_TOKENS);
        let one = self.send_wire(&one, AnswerForm::Whole).await?;
        let body = self.wire_body(json!({"tools": tools.map(tool)}), ANSWER_TOKENS);
        let many = self.send_wire(&body, AnswerForm::Whole).await?;
        let counts = [&plain, &one, &many].map(prompt_tokens);
        let (verdict, words) = match counts {
            [Some(plain), Some(one), Some(many)] => {
                let words = format!("{plain} without tools, {one} with one, {many} with three");
                match plain < one && one < many {
                    true => (WireVerdict::Fine, words),
                    false => (WireVerdict::ToolsDropped, words),
                }
            }
            _ if is_refused(&one) => (WireVerdict::Refused, failure_message(&one.outcome)),
            _ => (WireVerdict::Unknown, no_count(&[&plain, &one, &many])),
        };
        Ok(WireResult::new(name, verdict, &words, body))
    }

    /// The turn after a tool call: accepted, in the prompt, answered.
    async fn test_second_turn(&mut self) -> Result<WireResult> {
        let name = "second turn after a tool call";
        let words: Vec<String> = (0..20).map(|_| self.random_words.word()).collect();
        let [short, long] = ["rain", &words.join(" ")].map(|result| {
            let members = json!({"messages": second_turn(result), "tools": [tool("get_weather")]});
            self.wire_body(members, ANSWER_TOKENS)
        });
        let first = self.send_wire(&short, AnswerForm::Whole).await?;
        let second = self.send_wire(&long, AnswerForm::Whole).await?;
        let is_empty = second.answer.is_empty() && second.outcome == Outcome::Completed;
        let (verdict, words) = match [&first, &second].map(prompt_tokens) {
            _ if is_refused(&second) => (WireVerdict::Refused, failure_message(&second.outcome)),
            [Some(short), Some(long)] => {
                let words = format!("{short} tokens with a short result, {long} with 20 words");
                match () {
                    () if long <= short => (WireVerdict::ResultDropped, words),
                    () if is_empty => (WireVerdict::NoAnswer, words),
                    () => (WireVerdict::Fine, words),
                }
            }
            _ => (WireVerdict::Unknown, no_count(&[&first, &second])),
        };
        Ok(WireResult::new(name, verdict, &words, long))
    }

    /// The same request at temperature 1, again and again; then with another limit, which a cache of
    /// answers does not know. A cache of prefixes repeats no answer.
    async fn test_repeats(&mut self) -> Result<WireResult> {
        let name = "repeated requests";
        let salt = self.random_words.word();
        let content = format!("[{salt}] Write a short story about the sea.");
        let messages = json!([{"role": "user", "content": content}]);
        let members = json!({"messages": messages, "temperature": 1.0});
        let body = self.wire_body(members.clone(), REPEATED_TOKENS);
        let mut texts = Vec::new();
        for _ in 0..REPEATS {
            let seen = self.send_wire(&body, AnswerForm::Whole).await?;
            texts.push(seen.answer.text().into_owned());
        }
        let other = self.wire_body(members, REPEATED_TOKENS + 1);
        let other = self.send_wire(&other, AnswerForm::Whole).await?;
        let other = other.answer.text();
        let are_equal = texts.windows(2).all(|pair| pair[0] == pair[1]);
        let (verdict, words) = match () {
            () if texts[0].trim().is_empty() => (WireVerdict::Unknown, "empty answers"),
            () if !are_equal => (WireVerdict::Fine, "answers differ at temperature 1"),
            () if other.starts_with(&*texts[0]) => (
                WireVerdict::FixedSeed,
                "equal answers at temperature 1, also with another limit",
            ),
            () => (
                WireVerdict::CachesAnswers,
                "equal answers at temperature 1, but another one with another limit",
            ),
        };
        Ok(WireResult::new(name, verdict, words, body))
    }

    /// A body of chat completions with these members.
    fn wire_body(&self, members: Value, tokens: u32) -> Value {
        let request = self.plain_request(ConstraintDialect::ResponseFormat);
        let mut body: Map<String, Value> = request.extra_body.unwrap_or_default();
        body.insert("model".to_owned(), self.options.model.clone().into());
        body.insert("max_tokens".to_owned(), tokens.into());
        body.insert("temperature".to_owned(), json!(0.0));
        body.insert(
            "messages".to_owned(),
            json!([{"role": "user", "content": "What is the weather in Oslo?"}]),
        );
        let Value::Object(members) = members else {
            unreachable!("the members are an object")
        };
        body.extend(members);
        Value::Object(body)
    }

    async fn send_wire(&mut self, body: &Value, form: AnswerForm) -> Result<Observation> {
        let mut body = body.clone();
        if form == AnswerForm::Streamed {
            body["stream"] = json!(true);
            body["stream_options"] = json!({"include_usage": true});
        }
        self.send_raw(Bytes::from(body.to_string()), form).await
    }
}

/// The messages of a second turn, after a call that returned this text.
fn second_turn(result: &str) -> Value {
    let function = json!({"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"});
    let call = json!({"id": "call_1a2b3c4d5", "type": "function", "function": function});
    json!([
        {"role": "user", "content": "What is the weather in Oslo?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1a2b3c4d5", "content": result},
    ])
}

fn prompt_tokens(seen: &Observation) -> Option<u64> {
    seen.usage.and_then(|usage| usage.prompt_tokens)
}

fn is_refused(seen: &Observation) -> bool {
    matches!(
        seen.outcome,
        Outcome::Rejected { .. } | Outcome::ServerError { .. }
    )
}

/// Why there is no count.
fn no_count(seen: &[&Observation]) -> String {
    let failed = seen.iter().find(|seen| !seen.outcome.is_answer());
    failed.map_or_else(
        || "the server does not count tokens".to_owned(),
        |seen| failure_message(&seen.outcome),
    )
}
