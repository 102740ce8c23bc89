//! Generates one answer, token by token: computes the mask, draws and commits a token, and decodes
//! its text.

use std::collections::VecDeque;
use std::sync::Arc;

use super::model::{Step, Writer};
use super::stop_strings::StopStrings;
use super::timetable::timed;
use sobench_engine::{EngineError, Matcher, TokenId, TokenMask, Vocabulary};

/// End of an answer, with OpenAI's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FinishReason {
    /// The model ended it, or a stop string occurred.
    Stop,
    /// It reached `max_tokens`.
    Length,
    /// The model ended it, and it has tool calls. Set by the parser of calls.
    ToolCalls,
}

impl FinishReason {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// The text of one token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    /// Complete characters only. Empty while a character is incomplete, and for the end token.
    pub(super) text: String,
    pub(super) finish: Option<FinishReason>,
    /// The stop string that ended the answer, if any.
    pub(super) stop: Option<Arc<str>>,
    /// Tokens of reasoning up to and including this piece.
    pub(super) reasoning_tokens: u32,
}

/// A part of an answer: a script for the model, and the constraint under which it writes.
///
/// An unconstrained part ends with its script, a constrained one at the end of its constraint. The
/// last part ends with the answer.
#[derive(Default)]
pub(super) struct Part {
    pub(super) script: Vec<Step>,
    pub(super) matcher: Option<Box<dyn Matcher>>,
    pub(super) is_reasoning: bool,
}

/// Limits of an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Limits {
    /// At least 1.
    pub(super) max_tokens: u32,
    /// End tokens of the model before this number of tokens are ignored. The end of a grammar is
    /// not.
    pub(super) min_tokens: u32,
    /// The answer continues after an end token.
    pub(super) ignore_eos: bool,
    pub(super) stop_strings: StopStrings,
}

/// A running answer.
pub(super) struct Generation {
    vocabulary: Arc<Vocabulary>,
    writer: Writer,
    matcher: Option<Box<dyn Matcher>>,
    mask: TokenMask,
    limits: Limits,
    tokens: u32,
    reasoning_tokens: u32,
    is_reasoning: bool,
    /// Parts after the current one.
    rest: VecDeque<Part>,
    /// Bytes of an incomplete character.
    held: Vec<u8>,
    mask_ns: Option<u64>,
}

impl Generation {
    /// An answer of one part.
    #[cfg(test)]
    pub(super) fn new(
        vocabulary: Arc<Vocabulary>,
        writer: Writer,
        matcher: Option<Box<dyn Matcher>>,
        limits: Limits,
    ) -> Self {
        let part = Part {
            matcher,
            ..Part::default()
        };
        Self::from_parts(vocabulary, writer, vec![part], limits)
    }

    /// An answer of these parts, at least one. With a matcher the last part is constrained until the
    /// matcher's end. With `ignore_eos` it then continues without a constraint, as in vLLM.
    pub(super) fn from_parts(
        vocabulary: Arc<Vocabulary>,
        writer: Writer,
        parts: Vec<Part>,
        limits: Limits,
    ) -> Self {
        let mask = TokenMask::new(vocabulary.len());
        let limits = Limits {
            max_tokens: limits.max_tokens.max(1),
            ..limits
        };
        let mut generation = Self {
            vocabulary,
            writer,
            matcher: None,
            mask,
            limits,
            tokens: 0,
            reasoning_tokens: 0,
            is_reasoning: false,
            rest: parts.into(),
            held: Vec::new(),
            mask_ns: None,
        };
        generation.enter_next_part();
        generation
    }

    fn enter_next_part(&mut self) {
        let Part {
            script,
            matcher,
            is_reasoning,
        } = self.rest.pop_front().unwrap_or_default();
        self.writer.follow(script);
        self.matcher = matcher;
        self.is_reasoning = is_reasoning;
    }

    /// Number of generated tokens, including the end token, as counted by vLLM.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Whether the next token is masked.
    pub(super) fn is_constrained(&self) -> bool {
        self.matcher.is_some()
    }

    /// Time of the last step's mask in nanoseconds. `None` without a mask.
    pub(super) fn mask_ns(&self) -> Option<u64> {
        self.mask_ns
    }

    /// Generates one token. Must not be called after a piece with a finish reason.
    ///
    /// # Errors
    /// The engine reached a limit, crashed, or allows no token.
    pub(super) fn step(&mut self) -> Result<Piece, EngineError> {
        let token = self.choose()?;
        self.tokens += 1;
        self.reasoning_tokens += u32::from(self.is_reasoning);
        let ended = token == self.vocabulary.eos();
        self.held.extend_from_slice(self.vocabulary.bytes(token));
        let is_early = self.matcher.is_none() && self.tokens <= self.limits.min_tokens;
        let finish = if ended && !self.limits.ignore_eos && !is_early {
            Some(FinishReason::Stop)
        } else if self.tokens >= self.limits.max_tokens {
            Some(FinishReason::Length)
        } else {
            None
        };
        if ended {
            self.matcher = None;
        }
        let text = if finish.is_some() {
            self.all_text()
        } else {
            self.complete_text()
        };
        let filtered = self.limits.stop_strings.filter(text, finish.is_some());
        let finish = if filtered.stop.is_some() {
            Some(FinishReason::Stop)
        } else {
            finish
        };
        Ok(Piece {
            text: filtered.text,
            finish,
            stop: filtered.stop,
            reasoning_tokens: self.reasoning_tokens,
        })
    }

    /// The next token, of the next part if the current one has ended.
    fn choose(&mut self) -> Result<TokenId, EngineError> {
        let no_token = || EngineError::Invalid {
            message: "the constraint allows no token here".into(),
        };
        self.mask_ns = None;
        loop {
            let is_last = self.rest.is_empty();
            let Some(matcher) = &mut self.matcher else {
                if is_last || !self.writer.is_script_done() {
                    return self.writer.next(None).ok_or_else(no_token);
                }
                self.enter_next_part();
                continue;
            };
            let (masked, mask_ns) = timed(|| matcher.mask(&mut self.mask));
            self.mask_ns = Some(mask_ns);
            masked?;
            let token = self.writer.next(Some(&self.mask)).ok_or_else(no_token)?;
            if is_last || token != self.vocabulary.eos() {
                matcher.commit(token)?;
                return Ok(token);
            }
            self.enter_next_part();
        }
    }

    /// The complete characters of the held bytes. Invalid bytes are replaced, as decoders do.
    fn complete_text(&mut self) -> String {
        let complete = match std::str::from_utf8(&self.held) {
            Ok(_) => return self.all_text(),
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            Err(_) => {
                // Invalid before the end: return everything except a possible start of a character
                // at the end.
                let keep = (1..=3.min(self.held.len())).rev().find(|&n| {
                    let tail = &self.held[self.held.len() - n..];
                    std::str::from_utf8(tail)
                        .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
                });
                self.held.len() - keep.unwrap_or(0)
            }
        };
        let rest = self.held.split_off(complete);
        let text = self.all_text();
        self.held = rest;
        text
    }

    fn all_text(&mut self) -> String {
        let held = std::mem::take(&mut self.held);
        String::from_utf8(held)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use serde_json::{Value, json};

    use super::super::model::{LanguageModel, Sampling};
    use super::*;
    use crate::testing::{MaskOnly, shared_model};
    use sobench_core::constraint::{AlwaysTrue, Constraint, GrammarDialect};
    use sobench_engine::vocabulary::shared;
    use sobench_engine::{self as engine, Engine, EngineName, EnginePolicy};

    /// Answers per workload. Optimised builds run as many as a benchmark.
    const RUNS: u64 = if cfg!(debug_assertions) { 30 } else { 1000 };

    struct Harness {
        engine: Arc<dyn Engine>,
        model: Arc<LanguageModel>,
    }

    fn harness() -> &'static Harness {
        static HARNESS: OnceLock<Harness> = OnceLock::new();
        HARNESS.get_or_init(|| Harness {
            engine: engine::open(EngineName::Guidance, &shared(), &EnginePolicy::default())
                .unwrap(),
            model: shared_model(),
        })
    }

    struct Answered {
        text: String,
        finish: FinishReason,
        tokens: u32,
    }

    fn start(
        prompt: &str,
        constraint: Option<&Constraint>,
        seed: u64,
        max_tokens: u32,
        ignore_eos: bool,
    ) -> Generation {
        let matcher = constraint.map(|constraint| {
            harness()
                .engine
                .compile(constraint)
                .unwrap()
                .matcher()
                .unwrap()
        });
        let writer = harness()
            .model
            .writer(prompt, Sampling::default(), seed, max_tokens);
        Generation::new(
            shared(),
            writer,
            matcher,
            Limits {
                max_tokens,
                ignore_eos,
                ..Limits::default()
            },
        )
    }

    fn finish(mut generation: Generation) -> Answered {
        let mut text = String::new();
        loop {
            let piece = generation.step().unwrap();
            text.push_str(&piece.text);
            if let Some(finish) = piece.finish {
                return Answered {
                    text,
                    finish,
                    tokens: generation.tokens(),
                };
            }
        }
    }

    fn profile() -> Value {
        let mut properties = json!({});
        for name in [
            "name", "email", "street", "city", "state", "zip", "phone", "website", "company",
        ] {
            properties[name] = json!({"type": "string"});
        }
        properties["age"] = json!({"type": "integer"});
        json!({"type": "object", "properties": properties, "required": ["name", "email"]})
    }

    fn nested() -> Value {
        let text = json!({"type": "string"});
        let number = json!({"type": "string", "pattern": "^\\+?[1-9]\\d{1,14}$"});
        json!({
            "type": "object",
            "properties": {
                "userId": text,
                "personalInfo": {
                    "type": "object",
                    "properties": {
                        "firstName": text, "lastName": text, "age": {"type": "integer", "minimum": 0},
                        "phoneNumbers": {"type": "array", "items": {
                            "type": "object",
                            "properties": {"type": {"type": "string", "enum": ["home", "work", "mobile"]}, "number": number},
                            "required": ["type", "number"],
                        }},
                    },
                    "required": ["firstName", "lastName"],
                },
                "address": {
                    "type": "object",
                    "properties": {
                        "street": text, "city": text, "state": text,
                        "postalCode": {"type": "string", "pattern": "^\\d{5}(-\\d{4})?$"}, "country": text,
                    },
                    "required": ["street", "city", "state", "postalCode", "country"],
                },
                "preferences": {
                    "type": "object",
                    "properties": {"newsletterSubscribed": {"type": "boolean"}, "favoriteCategories": {"type": "array", "items": text}},
                    "required": ["newsletterSubscribed"],
                },
                "accountStatus": {"type": "string", "enum": ["active", "inactive", "suspended"]},
                "registrationDate": {"type": "string", "format": "date-time"},
            },
            "required": ["userId", "personalInfo", "address", "accountStatus", "registrationDate"],
        })
    }

    type Judge = Box<dyn Fn(&str) -> bool>;

    struct Workload {
        name: &'static str,
        prompt: String,
        constraint: Constraint,
        judge: Judge,
        /// Minimum share of correct constrained answers, and maximum share of correct unconstrained
        /// ones.
        least: f64,
        most: f64,
    }

    fn json_workload(name: &'static str, schema: Value, least: f64) -> Workload {
        let prompt = format!(
            "Generate an example of a brief user profile given the following schema: {schema}"
        );
        let validator = jsonschema::options()
            .should_validate_formats(true)
            .build(&schema)
            .unwrap();
        let judge = move |text: &str| parsed(text).is_some_and(|value| validator.is_valid(&value));
        Workload {
            name,
            prompt,
            constraint: Constraint::JsonSchema(Arc::new(schema)),
            judge: Box::new(judge),
            least,
            most: 0.08,
        }
    }

    /// Parses JSON and refuses objects with repeated member names, which no grammar here forbids.
    fn parsed(text: &str) -> Option<Value> {
        serde_json::from_str::<Unique>(text).ok()?;
        serde_json::from_str(text).ok()
    }

    struct Unique;

    impl<'de> serde::Deserialize<'de> for Unique {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(UniqueVisitor)
        }
    }

    struct UniqueVisitor;

    impl<'de> serde::de::Visitor<'de> for UniqueVisitor {
        type Value = Unique;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("JSON without repeated names")
        }
        fn visit_unit<E>(self) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_bool<E>(self, _: bool) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_str<E>(self, _: &str) -> Result<Unique, E> {
            Ok(Unique)
        }
        fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<Unique, A::Error> {
            while items.next_element::<Unique>()?.is_some() {}
            Ok(Unique)
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut members: A,
        ) -> Result<Unique, A::Error> {
            let mut names = std::collections::HashSet::new();
            while let Some((name, _)) = members.next_entry::<String, Unique>()? {
                if !names.insert(name) {
                    return Err(serde::de::Error::custom("a name twice"));
                }
            }
            Ok(Unique)
        }
    }

    fn regex_judge(pattern: &str) -> Judge {
        let regex = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
        Box::new(move |text: &str| {
            regex
                .find(text)
                .is_some_and(|found| found.len() == text.len())
        })
    }

    fn workloads() -> Vec<Workload> {
        let mut unique = profile();
        unique["properties"]["__optional_field_f81d4fae-7dec-41d0-a765-00a0c91e6bf6"] = json!({"type": "string", "description": "An unique optional field to avoid cached schemas"});
        let sql = "start: select_statement\nselect_statement: \"SELECT \" column \" from \" table \" where \" condition\n\
                   column: \"col_1 \" | \"col_2 \"\ntable: \"table_1 \" | \"table_2 \"\ncondition: column \"= \" number\n\
                   number: \"1 \" | \"2 \"\n";
        let email = r"\w+@\w+\.com\n";
        let judged = |name, prompt: &str, constraint, judge| Workload {
            name,
            prompt: prompt.into(),
            constraint,
            judge,
            least: 1.0,
            most: 0.15,
        };
        let choice = |text: &str| ["Positive", "Negative"].contains(&text);
        vec![
            json_workload("json", profile(), 1.0),
            json_workload("json-unique", unique, 1.0),
            json_workload("nested", nested(), 0.95),
            judged(
                "regex",
                "Generate an email address for Alan Turing, who works in Enigma. End in .com and new line. Example result: \
                 alan.turing@enigma.com\n",
                Constraint::Regex(email.into()),
                regex_judge(email),
            ),
            judged(
                "choice",
                "Classify this sentiment: vLLM is wonderful!",
                Constraint::Choice(["Positive".to_owned(), "Negative".to_owned()].into()),
                Box::new(choice),
            ),
            judged(
                "grammar",
                "Generate an SQL query to show the 'username' and 'email' from the 'users' table.",
                Constraint::Grammar {
                    dialect: GrammarDialect::Lark,
                    text: sql.into(),
                },
                regex_judge("SELECT col_[12]  from table_[12]  where col_[12] = [12] "),
            ),
            judged(
                "json_object",
                "Tell me about the weather as JSON.",
                Constraint::JsonObject(AlwaysTrue),
                Box::new(|text: &str| parsed(text).is_some_and(|value| value.is_object())),
            ),
        ]
    }

    #[test]
    fn the_judge_refuses_repeated_names() {
        assert!(parsed(r#"{"a": {"a": [1, -2.5, "x", null, true]}}"#).is_some());
        assert!(parsed(r#"{"a": {"b": 1, "b": 2}}"#).is_none());
    }

    #[test]
    fn masks_make_answers_correct() {
        for Workload {
            name,
            prompt,
            constraint,
            judge,
            least,
            most,
        } in workloads()
        {
            let share = |constraint: Option<&Constraint>| {
                let correct = (0..RUNS).filter(|seed| {
                    let answer = finish(start(&prompt, constraint, *seed, 128, false));
                    assert!(
                        answer.tokens <= 128
                            && (answer.tokens == 128) >= (answer.finish == FinishReason::Length)
                    );
                    let is_correct = judge(&answer.text);
                    assert!(
                        constraint.is_none() || is_correct || answer.finish == FinishReason::Length,
                        "{name}: {:?}",
                        answer.text
                    );
                    is_correct
                });
                correct.count() as f64 / RUNS as f64
            };
            let (constrained, unconstrained) = (share(Some(&constraint)), share(None));
            assert!(constrained >= least, "{name}: {constrained}");
            assert!(unconstrained <= most, "{name}: {unconstrained}");
        }
    }

    #[test]
    fn greedy_answers_end_too() {
        for Workload {
            name,
            prompt,
            constraint,
            judge,
            ..
        } in workloads()
        {
            let matcher = harness()
                .engine
                .compile(&constraint)
                .unwrap()
                .matcher()
                .unwrap();
            let greedy = Sampling {
                temperature: 0.0,
                ..Sampling::default()
            };
            let writer = harness().model.writer(&prompt, greedy, 0, 128);
            let answer = finish(Generation::new(
                shared(),
                writer,
                Some(matcher),
                Limits {
                    max_tokens: 128,
                    ..Limits::default()
                },
            ));
            assert!(judge(&answer.text), "{name}: {:?}", answer.text);
        }
    }

    #[test]
    fn min_tokens_delays_the_models_end_but_not_the_grammars() {
        let ended = finish(start("", None, 3, 400, false));
        assert_eq!(
            ended.finish,
            FinishReason::Stop,
            "this seed gives an answer that ends"
        );
        let mut longer = start("", None, 3, 400, false);
        longer.limits.min_tokens = ended.tokens + 5;
        assert!(finish(longer).tokens > ended.tokens + 5);
        let mut constrained = start("", Some(&Constraint::Regex("ab".into())), 3, 400, false);
        constrained.limits.min_tokens = 100;
        assert_eq!(finish(constrained).text, "ab");
    }

    #[test]
    fn a_stop_string_ends_the_answer_and_is_removed() {
        let mut stopped = start("", Some(&Constraint::Regex("ab\\.cd".into())), 3, 40, false);
        stopped.limits.stop_strings = StopStrings::new(&[".".to_owned()], false);
        let answer = finish(stopped);
        assert_eq!(
            (answer.text.as_str(), answer.finish),
            ("ab", FinishReason::Stop)
        );
    }

    #[test]
    fn incomplete_characters_are_held_back() {
        let mut generation = start("", None, 0, 8, false);
        for (bytes, text, held) in [
            (&b"a\xf0\x9f"[..], "a", 2),
            (b"\xa6\x80", "\u{1f980}", 0),
            (b"\xff\xe6\x97", "\u{fffd}", 2),
            (b"x", "\u{fffd}x", 0),
        ] {
            generation.held.extend_from_slice(bytes);
            assert_eq!(
                (generation.complete_text().as_str(), generation.held.len()),
                (text, held),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn a_mask_without_tokens_is_an_error() {
        let mut generation = start("", Some(&Constraint::Regex("a".into())), 0, 8, false);
        generation.matcher = Some(Box::new(MaskOnly(|_: &mut TokenMask| {})));
        assert!(generation.step().is_err());
    }
}
