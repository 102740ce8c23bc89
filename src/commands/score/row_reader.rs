//! Reads rows of JSON Lines, and shares the constraints of equal rows.
//!
//! Most rows have a text, a constraint that many rows share, and members that are ignored. Such a
//! row is passed over once ([`Scanner`]), and its constraint is looked up by its spelling. All other
//! rows, and all with an error, are read as JSON values.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::{Stored, read};
use sobench_core::case::{Arm, Prompt};
use sobench_core::constraint::Constraint;
use sobench_data::dataset::custom;
use sobench_judge::json_scan::Scanner;

/// Maximum size of all known spellings of constraints, in bytes. Then they are forgotten.
const MAX_KNOWN_BYTES: usize = 8 << 20;

/// Members that are read as JSON values.
const OTHER_MEMBERS: [&str; 9] = [
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "tool_calls",
    "completion",
    "grammar_oracle",
    "reference",
    "score",
    "generated_texts",
];

/// Start of the name of a member that `serde_json` reads in its own way.
const SERDE_JSON_PREFIX: &str = "$serde_json";

/// The constraints of earlier rows.
#[derive(Default)]
pub(super) struct RowReader {
    /// By the name of the member, and then by its spelling.
    known: HashMap<String, HashMap<String, Arc<Constraint>>>,
    known_bytes: usize,
}

/// The members of a row, as written.
#[derive(Default)]
struct Members<'a> {
    constraint: Option<(&'a str, &'a str)>,
    text: Option<&'a str>,
    name: Option<&'a str>,
    id: Option<&'a str>,
    correct: Option<&'a str>,
    finish_reason: Option<&'a str>,
    /// The values of [`read::PROMPTS`].
    prompts: [Option<&'a str>; read::PROMPTS.len()],
}

impl RowReader {
    /// The row, if its constraint is known and it has no member that needs more than its text.
    pub(super) fn read(&self, line: &str, place: &str) -> Option<Stored> {
        let members = Members::read(line)?;
        let (name, spelling) = members.constraint?;
        let constraint = self.known.get(name)?.get(spelling)?;
        let claimed = match members.correct {
            None | Some("null") => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => return None,
        };
        let id = match (members.name, members.id) {
            (Some(name), _) => string(name)?,
            (None, Some(id)) if id.starts_with('"') => string(id)?,
            (None, Some(id)) => match serde_json::from_str(id).ok()? {
                Value::Number(number) => number.to_string(),
                _ => place.to_owned(),
            },
            (None, None) => place.to_owned(),
        };
        let prompt = match members.prompts.into_iter().flatten().next() {
            None => read::prompt(None),
            Some(written) if written.starts_with('"') => Prompt::Text(string(written)?.into()),
            Some(written) => read::prompt(Some(&serde_json::from_str(written).ok()?)),
        };
        let constraint = Some(Arc::clone(constraint));
        let mut stored = Stored::from_text(id, prompt, constraint, string(members.text?)?);
        if let Some(reason) = members.finish_reason {
            stored.finish(string(reason)?);
        }
        stored.case.arm = Arm::Constrained;
        stored.claimed = claimed;
        Some(stored)
    }

    /// Remembers the constraint of a row that was read as JSON, and shares it with equal rows.
    pub(super) fn add(&mut self, line: &str, stored: &mut Stored) {
        let members = Members::read(line).and_then(|members| members.constraint);
        let (Some((name, spelling)), Some(constraint)) = (members, &stored.case.constraint) else {
            return;
        };
        if self.known_bytes > MAX_KNOWN_BYTES {
            self.known.clear();
            self.known_bytes = 0;
        }
        self.known_bytes += spelling.len();
        let shared = self
            .known
            .entry(name.to_owned())
            .or_default()
            .entry(spelling.to_owned())
            .or_insert_with(|| Arc::clone(constraint));
        stored.case.constraint = Some(Arc::clone(shared));
    }
}

impl<'a> Members<'a> {
    /// The members of a row that has none of [`OTHER_MEMBERS`], none twice and one constraint.
    fn read(line: &'a str) -> Option<Self> {
        let mut scanner = Scanner::new(line);
        let mut members = Self::default();
        let mut names: Vec<&str> = Vec::new();
        if !scanner.take(b'{') {
            return None;
        }
        loop {
            let quoted = scanner.value()?;
            let name = quoted.strip_prefix('"')?.strip_suffix('"')?;
            let is_special = name.contains('\\') || name.starts_with(SERDE_JSON_PREFIX);
            if is_special || names.contains(&name) || OTHER_MEMBERS.contains(&name) {
                return None;
            }
            names.push(name);
            if !scanner.take(b':') {
                return None;
            }
            let value = scanner.value()?;
            let is_constraint = name == "constraint" || custom::CONSTRAINTS.contains(&name);
            if is_constraint && members.constraint.replace((name, value)).is_some() {
                return None;
            }
            if let Some(place) = read::PROMPTS.iter().position(|member| *member == name) {
                members.prompts[place] = Some(value);
            }
            match name {
                "text" => members.text = Some(value),
                "name" => members.name = Some(value),
                "id" => members.id = Some(value),
                "correct" => members.correct = Some(value),
                "finish_reason" => members.finish_reason = Some(value),
                _ => {}
            }
            if scanner.take(b'}') {
                return scanner.is_at_end().then_some(members);
            }
            if !scanner.take(b',') {
                return None;
            }
        }
    }
}

/// The text of a string as written, with its quotes.
fn string(written: &str) -> Option<String> {
    let plain = written.strip_prefix('"')?.strip_suffix('"')?;
    if plain.contains('\\') {
        serde_json::from_str(written).ok()
    } else {
        Some(plain.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::score::Row;
    use crate::commands::score::read::Line;

    fn read_as_json(line: &str) -> Stored {
        match read::line(line, "line 9".to_owned()) {
            Line::Row(Row::Answer(stored)) => *stored,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Rows that the fast way reads, and rows that it leaves to the other one. What it reads must
    /// equal what the other one reads.
    #[test]
    fn both_ways_read_the_same() {
        let mut reader = RowReader::default();
        let constraint = r#""constraint":{"json":{"type":"object","maximum":1E400}}"#;
        let first = format!("{{{constraint},\"text\":\"\"}}");
        let mut stored = read_as_json(&first);
        reader.add(&first, &mut stored);
        for (members, is_fast) in [
            (r#""text":"{\"a\": \"é\\u00e9\\n\"}""#, true),
            (r#""text":"a","correct":true,"id":7"#, true),
            (r#""text":"a","correct":null,"id":1E400"#, true),
            (r#""text":"a","id":"x\ty","finish_reason":"stop""#, true),
            (r#""text":"a","name":"n","id":[1]"#, true),
            (
                r#""text":"a","id":{"a":1}, "other" : [1, {"x": null}]"#,
                true,
            ),
            (r#""text":"a","id":null"#, true),
            (r#""text":"a","id":3,"prompt":"\u0041?""#, true),
            (
                r#""text":"a","messages": [{"role": "user"}],"name":"n""#,
                true,
            ),
            (r#""text":"a","text":"b""#, false),
            (r#""text":"a","x":{"y":1,"y":2}"#, false),
            (r#""text":"\ud83d\ude00""#, true),
            (r#""text":"a","\u0069d":"x""#, false),
            (r#""text":"{}","reference":{}"#, false),
        ] {
            let line = format!("{{{constraint},{members}}}");
            let fast = reader.read(&line, "line 9");
            assert_eq!(fast.is_some(), is_fast, "{line}");
            let slow = read_as_json(&line);
            if let Some(mut fast) = fast {
                fast.members = slow.members.clone();
                assert_eq!(fast, slow, "{line}");
            }
        }
        for members in [
            r#""text":1"#,
            r#""text":"a","correct":1"#,
            r#""text":"a","name":1"#,
            r#""text":"a","finish_reason":1"#,
            r#""text":"a","regex":"a""#,
            r#""text":"a","x":NaN"#,
            r#""x":"a""#,
            r#""text":"\ud800""#,
            r#""text":"a"} {"#,
        ] {
            let line = format!("{{{constraint},{members}}}");
            assert!(reader.read(&line, "line 9").is_none(), "{line}");
        }
    }
}
