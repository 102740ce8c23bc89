//! Judges answers by structural tags, the format trees of xgrammar.
//!
//! The tree (`tree.rs`) is compiled to a nondeterministic automaton (`program.rs`), which is run on
//! the whole answer (`matching.rs`). Schemas, regular expressions and grammars in the tree are
//! judged by the judges of those constraints (`leaf.rs`, `xml.rs`).
//!
//! Differences from xgrammar, apart from its limits:
//! - JSON is judged as for a `json` constraint: by JSON Schema, with the white space of RFC 8259 also
//!   around the value, in any order of members, without duplicate members. Members that the schema
//!   does not forbid are allowed. So `any_order` changes nothing, and `max_whitespace_cnt` is not
//!   checked.
//! - The parameters of the XML styles likewise.
//! - `max_tokens` is checked only if it is 0, because a text has no tokens.
//! - Formats of tokens cannot be judged.

mod leaf;
mod matching;
mod program;
mod tree;
mod triggers;
mod xml;

use serde_json::Value;

use self::matching::{Mismatch, Outcome};
use self::program::Program;
use super::{JudgeSettings, stack};
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Maximum steps of matching one answer: a second or two of work.
const MAX_STEPS: u64 = 10_000_000;

/// Stack bytes for compiling a tag of maximum nesting.
const COMPILE_STACK_BYTES: usize = 4 << 20;

/// A compiled structural tag.
pub(super) struct TagJudge(Program);

impl TagJudge {
    /// Compiles `tag`. The error is the reason why answers cannot be scored.
    pub(super) fn compile(tag: &Value, options: JudgeSettings) -> Result<Self, NotScored> {
        stack::with_stack(COMPILE_STACK_BYTES, || {
            let format = tree::parse(tag)?;
            Program::compile(&format, options).map(Self)
        })?
    }

    /// Whether the whole of `text` follows the tag.
    pub(super) fn judge(&self, text: &str) -> Verdict {
        match matching::run(&self.0, text, MAX_STEPS) {
            Ok(Outcome::Match) => Verdict::Valid,
            Ok(Outcome::NoMatch(_)) if text.is_empty() => Verdict::Invalid {
                reason: Reason::Empty,
            },
            Ok(Outcome::NoMatch(mismatch)) => Verdict::Invalid {
                reason: reason(mismatch),
            },
            Err(why) => Verdict::NotScored { why },
        }
    }

    /// Why no continuation of `text` can follow the tag, if that is certain.
    pub(super) fn final_violation(&self, text: &str) -> Option<Reason> {
        match matching::run(&self.0, text, MAX_STEPS) {
            Ok(Outcome::NoMatch(mismatch)) if !mismatch.may_continue => Some(reason(mismatch)),
            _ => None,
        }
    }
}

fn reason(mismatch: Mismatch) -> Reason {
    let Mismatch {
        path,
        byte,
        message,
        ..
    } = mismatch;
    Reason::StructuralTag {
        path,
        byte,
        message,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(format: &Value) -> TagJudge {
        TagJudge::compile(&json!({ "format": format }), JudgeSettings::default()).unwrap()
    }

    fn text(value: &str) -> Value {
        json!({"type": "const_string", "value": value})
    }

    #[test]
    fn a_violation_names_the_format_and_the_byte() {
        let call = json!({
            "type": "sequence",
            "elements": [
                {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": "</think>"},
                {
                    "type": "triggered_tags",
                    "triggers": ["<f="],
                    "tags": [
                        {"begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {"properties": {"x": {"type": "integer"}}}}, "end": "</f>"},
                        {"begin": "<f=b>", "content": {"type": "regex", "pattern": "[a-z]+"}, "end": ["</f>", "</g>"]},
                    ],
                },
            ],
        });
        let judge = judge(&call);
        for (answer, message) in [
            (
                "<thin",
                "breaks the tag at /format/elements/0/begin, byte 5: the answer ends, expected \"<think>\"",
            ),
            (
                "think",
                "breaks the tag at /format/elements/0/begin, byte 0: expected \"<think>\"",
            ),
            (
                "<think></think>é <f=c>",
                "breaks the tag at /format/elements/1/tags, byte 21: expected \"a>\" or \"b>\"",
            ),
            (
                "<think></think><f=a>{\"x\": \"1\"}</f>",
                "breaks the tag at /format/elements/1/tags/0/content, byte 20: breaks `type` at /x: \"1\" is not of type \"integer\"",
            ),
            (
                "<think></think><f=a>{\"x\": 1]</f>",
                "breaks the tag at /format/elements/1/tags/0/content, byte 27: expected a comma or the end of the object",
            ),
            (
                "<think></think><f=b>12</f>",
                "breaks the tag at /format/elements/1/tags/1/content, byte 20: does not match the regex",
            ),
            (
                "<think></think><f=b>ab</h>",
                "breaks the tag at /format/elements/1/tags/1/end, byte 24: expected \"</f>\" or \"</g>\"",
            ),
        ] {
            let reason = judge.judge(answer).into_reason();
            assert_eq!(
                reason.map(|reason| reason.to_string()).as_deref(),
                Some(message)
            );
        }
        assert_eq!(
            judge.judge("<think></think><f=b>ab</g> and <f=a>{}</f>"),
            Verdict::Valid
        );
    }

    #[test]
    fn a_start_of_an_answer_is_not_accused() {
        let judge = judge(&json!({
            "type": "sequence",
            "elements": [
                {"type": "repeat", "min": 2, "max": 3, "content": {"type": "json_schema", "json_schema": {"type": "integer"}}},
                {"type": "dispatch", "rules": [["<p>", {"type": "json_schema", "style": "qwen_xml", "json_schema": {"properties": {"a": {"type": "integer"}}, "required": ["a"]}}]]},
                {"type": "grammar", "grammar": "root ::= \"[\" root \"]\" | \"é\""},
            ],
        }));
        let answer = "12 7 text <p> <parameter=a> 3 </parameter> <parameter=b></parameter>[[é]]";
        assert_eq!(judge.judge(answer), Verdict::Valid);
        for (byte, _) in answer.char_indices() {
            assert_eq!(judge.final_violation(&answer[..byte]), None, "{byte}");
        }
        for broken in [
            "x",
            "12 7 <p><parameter=1",
            "12 7 <p><parameter=a>x",
            "12 7 <p><parameter=b>3</parameter>[",
        ] {
            assert!(judge.final_violation(broken).is_some(), "{broken}");
        }
    }

    #[test]
    fn repetitions_of_empty_texts_end() {
        let empty = json!({"type": "optional", "content": text("a")});
        let repeat = |least: u64, most: i64, content: &Value| json!({"type": "repeat", "min": least, "max": most, "content": content});
        for (format, longest) in [
            (repeat(3, 3, &empty), 3),
            (repeat(2_000_000_000, -1, &empty), 50),
            (repeat(0, 2_000_000_000, &empty), 50),
            (repeat(2, 2, &repeat(0, 2, &empty)), 4),
            (repeat(1, 2, &json!({"type": "star", "content": empty})), 50),
            (
                json!({"type": "plus", "content": {"type": "star", "content": empty}}),
                50,
            ),
        ] {
            let judge = judge(&format);
            for count in [0, 1, longest, longest + 1] {
                let is_valid = judge.final_violation(&"a".repeat(count)).is_none();
                assert_eq!(
                    is_valid,
                    count <= longest || longest == 50,
                    "{format} {count}"
                );
            }
        }
        let judge = judge(&repeat(2, 3, &text("ab")));
        for count in 0..6 {
            let verdict = judge.judge(&"ab".repeat(count));
            assert_eq!(verdict == Verdict::Valid, (2..=3).contains(&count));
        }
    }

    #[test]
    fn hostile_tags_and_answers_are_limited() {
        let mut nested = text("a");
        for _ in 0..60 {
            nested = json!({"type": "star", "content": nested});
        }
        assert_eq!(judge(&nested).judge(&"a".repeat(1000)), Verdict::Valid);
        let any = json!({"type": "any_text"});
        let then_json = judge(&json!({
            "type": "sequence",
            "elements": [any, {"type": "json_schema", "json_schema": true}],
        }));
        let outcome = matching::run(&then_json.0, &"[".repeat(100_000), 100_000);
        assert!(
            matches!(outcome, Err(NotScored::Limit { .. })),
            "{outcome:?}"
        );
        let tag = judge(&json!({"type": "tag", "begin": "<a>", "content": any, "end": "</a>"}));
        let long = format!("<a>{}</a>", "x<".repeat(10_000));
        assert_eq!(tag.judge(&long), Verdict::Valid);
        assert_eq!(tag.final_violation(&long[..long.len() - 1]), None);
    }

    #[test]
    fn a_tag_that_cannot_be_used_is_not_scored() {
        for (format, message) in [
            (
                json!({"type": "star", "content": {"type": "json_schema", "json_schema": {"type": "text"}}}),
                "structural tag at /format/content: schema at /type",
            ),
            (
                json!({"type": "regex", "pattern": "a(?=b)"}),
                "structural tag at /format: regex with look-around",
            ),
            (
                json!({"type": "grammar", "grammar": "root ::= x"}),
                "structural tag at /format: grammar: undefined rule",
            ),
            (
                json!({"type": "triggered_tags", "triggers": ["<", "["], "tags": [{"begin": "<", "content": {"type": "any_text"}, "end": ">"}]}),
                "structural tag at /format: no tag for the trigger \"[\"",
            ),
            (
                json!({"type": "triggered_tags", "triggers": ["<"], "tags": [{"begin": "[", "content": {"type": "any_text"}, "end": ">"}]}),
                "structural tag at /format/tags/0: starts with no trigger",
            ),
            (
                json!({"type": "json_schema", "style": "glm_xml", "json_schema": {"type": "string"}}),
                "structural tag at /format: an XML style needs a schema of objects",
            ),
        ] {
            let tag = json!({ "format": format });
            let error = TagJudge::compile(&tag, JudgeSettings::default())
                .err()
                .unwrap();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}
