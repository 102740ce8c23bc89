//! Rewrites JSON texts: white space, member order, escapes, number spelling, and members removed,
//! added or repeated. The oracles decide whether a mutant still matches its constraint.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

use super::finding::Mutation;

/// Maximum mutants of one kind per instance.
const MAX_OF_A_KIND: usize = 6;

/// A member name that no schema uses.
const EXTRA_NAME: &str = "zz_not_in_the_schema";

/// A rewritten text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    pub(super) mutation: Mutation,
    pub(super) text: String,
}

/// All mutants of a value that differ from its compact text; deterministic.
pub(super) fn mutants(value: &Value) -> Vec<Mutant> {
    let compact = write_with(value, &Style::default());
    let mut mutants = Vec::new();
    let mut add = |mutation: Mutation, text: String| {
        let of_its_kind = mutants
            .iter()
            .filter(|mutant: &&Mutant| mutant.mutation == mutation)
            .count();
        if text != compact
            && of_its_kind < MAX_OF_A_KIND
            && !mutants.iter().any(|mutant: &Mutant| mutant.text == text)
        {
            mutants.push(Mutant { mutation, text });
        }
    };
    for gaps in [
        ["", "", " ", " "],
        ["\n  ", "\n", " ", " "],
        ["\t", "\r\n", "  ", "\t"],
        [" ", " ", "", " "],
    ] {
        add(
            Mutation::WhiteSpace,
            write_with(
                value,
                &Style {
                    gaps,
                    ..Style::default()
                },
            ),
        );
    }
    for around in [" ", "\n"] {
        add(Mutation::WhiteSpace, format!("{compact}{around}"));
        add(Mutation::WhiteSpace, format!("{around}{compact}"));
    }
    for escape in [Escape::First, Escape::Solidus, Escape::All] {
        add(
            Mutation::Escapes,
            write_with(
                value,
                &Style {
                    escape,
                    ..Style::default()
                },
            ),
        );
    }
    for digits in [
        Digits::Followed(".0"),
        Digits::Followed("e0"),
        Digits::Followed("E+0"),
        Digits::MinusZero,
    ] {
        add(
            Mutation::Numbers,
            write_with(
                value,
                &Style {
                    digits,
                    ..Style::default()
                },
            ),
        );
    }
    for shift in [1, usize::MAX] {
        add(
            Mutation::Order,
            write_with(&rotated(value, shift), &Style::default()),
        );
    }
    for (mutation, change) in [
        (Mutation::Fewer, drop_member as Change),
        (Mutation::Extra, add_member),
        (Mutation::Duplicate, repeat_member),
    ] {
        for place in 0..MAX_OF_A_KIND {
            let Some(text) = with_member_changed(value, place, change) else {
                break;
            };
            add(mutation, text);
        }
    }
    mutants
}

/// The style in which a value is written.
#[derive(Clone, Copy)]
struct Style {
    /// White space before a member or item, before a closing bracket, before and after a colon.
    gaps: [&'static str; 4],
    escape: Escape,
    digits: Digits,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            gaps: [""; 4],
            escape: Escape::Least,
            digits: Digits::AsTheyAre,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Escape {
    Least,
    /// The first character of each string.
    First,
    /// `/` as `\/`.
    Solidus,
    All,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Digits {
    AsTheyAre,
    /// Integers: `1` as `1.0`, `1e0` or `1E+0`.
    Followed(&'static str),
    /// `0` as `-0`.
    MinusZero,
}

fn write_with(value: &Value, style: &Style) -> String {
    let mut out = String::new();
    write_value(value, style, &mut out);
    out
}

fn write_value(value: &Value, style: &Style, out: &mut String) {
    let [before, closing, before_colon, after_colon] = style.gaps;
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::Number(number) => out.push_str(&number_text(number, style.digits)),
        Value::String(text) => write_string(text, style.escape, out),
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                out.push_str(before);
                write_value(item, style, out);
            }
            out.push_str(if items.is_empty() { "" } else { closing });
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (place, (name, member)) in members.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                out.push_str(before);
                write_string(name, style.escape, out);
                out.push_str(before_colon);
                out.push(':');
                out.push_str(after_colon);
                write_value(member, style, out);
            }
            out.push_str(if members.is_empty() { "" } else { closing });
            out.push('}');
        }
    }
}

fn number_text(number: &Number, digits: Digits) -> String {
    let text = number.as_str();
    let is_integer = !text.contains(['.', 'e', 'E']);
    match digits {
        Digits::Followed(end) if is_integer => format!("{text}{end}"),
        Digits::MinusZero if text == "0" => "-0".to_owned(),
        _ => text.to_owned(),
    }
}

fn write_string(text: &str, escape: Escape, out: &mut String) {
    out.push('"');
    for (place, character) in text.chars().enumerate() {
        let is_escaped = match escape {
            Escape::Least => false,
            Escape::First => place == 0,
            Escape::Solidus => character == '/',
            Escape::All => true,
        };
        match character {
            '/' if is_escaped && escape == Escape::Solidus => out.push_str("\\/"),
            character if is_escaped => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").expect("text can be written");
                }
            }
            character => {
                let quoted = Value::from(character.to_string()).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
    }
    out.push('"');
}

/// Rotates the members of every object by `shift` places, or reverses them for `usize::MAX`.
fn rotated(value: &Value, shift: usize) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| rotated(item, shift)).collect(),
        Value::Object(members) => {
            let rotated =
                |(name, member): (&String, &Value)| (name.clone(), rotated(member, shift));
            let mut members: Vec<(String, Value)> = members.iter().map(rotated).collect();
            match shift.checked_rem(members.len()) {
                _ if shift == usize::MAX => members.reverse(),
                Some(places) => members.rotate_left(places),
                None => {}
            }
            Value::Object(members.into_iter().collect())
        }
        other => other.clone(),
    }
}

/// Changes the n-th member of an object; `false` if it does not exist.
type Change = fn(&mut Map<String, Value>, usize) -> bool;

fn drop_member(members: &mut Map<String, Value>, place: usize) -> bool {
    let name = members.keys().nth(place).cloned();
    name.is_some_and(|name| members.shift_remove(&name).is_some())
}

fn add_member(members: &mut Map<String, Value>, place: usize) -> bool {
    let value = [Value::from(1), Value::from("x"), Value::Null]
        .into_iter()
        .nth(place);
    value.is_some_and(|value| members.insert(EXTRA_NAME.to_owned(), value).is_none())
}

/// Adds a marked copy, since a map cannot hold a name twice; see [`with_member_changed`].
fn repeat_member(members: &mut Map<String, Value>, place: usize) -> bool {
    let member = members
        .iter()
        .nth(place)
        .map(|(name, member)| (format!("{REPEATED}{name}"), member.clone()));
    member.is_some_and(|(name, member)| members.insert(name, member).is_none())
}

/// Prefix of a repeated name, removed from the text.
const REPEATED: &str = "\u{10fffd}repeated:";

/// The text with its n-th member changed, counted through all objects from the outermost.
fn with_member_changed(value: &Value, place: usize, change: Change) -> Option<String> {
    let mut value = value.clone();
    change_nth_member(&mut value, place, change).then(|| {
        let mut mark = String::new();
        write_string(REPEATED, Escape::Least, &mut mark);
        write_with(&value, &Style::default()).replace(&mark[1..mark.len() - 1], "")
    })
}

/// Finds the n-th member through all objects, outermost first, and changes it.
fn change_nth_member(value: &mut Value, mut left: usize, change: Change) -> bool {
    let mut next: Vec<&mut Value> = vec![value];
    while let Some(value) = next.pop() {
        match value {
            Value::Object(members) => {
                let count = members.len().max(1);
                if left < count && change(members, left) {
                    return true;
                }
                left = left.saturating_sub(count);
                next.extend(members.values_mut().rev());
            }
            Value::Array(items) => next.extend(items.iter_mut().rev()),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_are_json_and_keep_or_change_the_value_as_declared() {
        let value: Value = serde_json::from_str(r#"{"a":{"b":0,"c":[1.5,7]},"d":"x/y"}"#).unwrap();
        let all = mutants(&value);
        for mutant in &all {
            let read: Value = serde_json::from_str(&mutant.text)
                .unwrap_or_else(|error| panic!("{error}: {}", mutant.text));
            match mutant.mutation {
                Mutation::WhiteSpace | Mutation::Escapes | Mutation::Duplicate => {
                    assert_eq!(read, value, "{mutant:?}");
                }
                Mutation::Order => assert_eq!(read["a"]["c"], value["a"]["c"]),
                Mutation::Numbers => {
                    assert_eq!(read["a"]["c"][0].as_f64(), Some(1.5), "{mutant:?}");
                }
                Mutation::Fewer | Mutation::Extra => assert_ne!(read, value, "{mutant:?}"),
            }
        }
        let texts = |mutation| {
            all.iter()
                .filter(|mutant| mutant.mutation == mutation)
                .map(|mutant| mutant.text.as_str())
                .collect::<Vec<_>>()
        };
        assert!(texts(Mutation::Order).contains(&r#"{"d":"x/y","a":{"c":[1.5,7],"b":0}}"#));
        assert!(texts(Mutation::Numbers).contains(&r#"{"a":{"b":0.0,"c":[1.5,7.0]},"d":"x/y"}"#));
        assert!(texts(Mutation::Numbers).contains(&r#"{"a":{"b":-0,"c":[1.5,7]},"d":"x/y"}"#));
        assert!(texts(Mutation::Escapes).contains(&r#"{"a":{"b":0,"c":[1.5,7]},"d":"x\/y"}"#));
        assert!(
            texts(Mutation::Fewer).contains(&r#"{"d":"x/y"}"#)
                && texts(Mutation::Fewer).contains(&r#"{"a":{"c":[1.5,7]},"d":"x/y"}"#)
        );
        assert!(
            texts(Mutation::Duplicate)
                .contains(&r#"{"a":{"b":0,"c":[1.5,7]},"d":"x/y","d":"x/y"}"#),
            "{all:?}"
        );
        assert_eq!(mutants(&value), all);
    }

    #[test]
    fn scalar_values_have_only_white_space_and_escape_mutants() {
        let kinds: Vec<_> = mutants(&Value::from("a"))
            .into_iter()
            .map(|mutant| mutant.mutation)
            .collect();
        assert!(
            kinds
                .iter()
                .all(|kind| matches!(kind, Mutation::WhiteSpace | Mutation::Escapes)),
            "{kinds:?}"
        );
    }
}
