//! Conversions of constraints to equivalent ones that a server supports.

use serde_json::Value;

use crate::Unsendable;

/// OpenAI requires a name for a schema or function but does not use it.
pub(super) const NAME: &str = "answer";

/// A schema for fields that take an object or a string. A boolean schema is sent as text.
pub(super) fn schema_or_text(schema: Value) -> Value {
    match schema {
        Value::Object(_) => schema,
        other => text(other),
    }
}

/// A schema for fields that take an object only.
pub(super) fn schema_object(schema: Value) -> Result<Value, Unsendable> {
    match schema {
        Value::Object(_) => Ok(schema),
        other => Err(Unsendable::new(
            format!("this dialect carries a JSON Schema as an object only: {other}"),
            "write {} for a schema that allows any value",
        )),
    }
}

/// JSON text, for fields that contain JSON as a string. A string is assumed to be such text
/// already.
pub(super) fn text(value: Value) -> Value {
    match value {
        Value::String(_) => value,
        other => Value::String(other.to_string()),
    }
}

/// The regular expression that matches exactly these strings. The escapes are valid in Python, Rust
/// and ECMAScript.
pub(super) fn choice_regex(choices: &[String]) -> Result<String, Unsendable> {
    let escape = |c: char| {
        r"\.+*?()|[]{}^$"
            .contains(c)
            .then_some('\\')
            .into_iter()
            .chain([c])
    };
    let escaped: Vec<String> = non_empty(choices)?
        .iter()
        .map(|choice| choice.chars().flat_map(escape).collect())
        .collect();
    Ok(format!("({})", escaped.join("|")))
}

/// The GBNF grammar of exactly these strings, with the escapes of llama.cpp's grammar parser.
pub(super) fn choice_gbnf(choices: &[String]) -> Result<String, Unsendable> {
    let literals: Vec<String> = non_empty(choices)?
        .iter()
        .map(|choice| gbnf_literal(choice))
        .collect();
    Ok(format!("root ::= {}", literals.join(" | ")))
}

fn gbnf_literal(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            c if (c as u32) < 0x20 || c as u32 == 0x7F => {
                literal.push_str(&format!("\\x{:02X}", c as u32));
            }
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}

/// The alternatives, at least one: an empty alternation would match the empty answer.
fn non_empty(choices: &[String]) -> Result<&[String], Unsendable> {
    if choices.is_empty() {
        return Err(Unsendable::new(
            "a choice constraint has no alternatives",
            "give at least one alternative",
        ));
    }
    Ok(choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converted_choices_match_only_the_alternatives() {
        for (choices, regex, gbnf) in [
            (&["yes", "no"][..], "(yes|no)", r#"root ::= "yes" | "no""#),
            (
                &["a.b", "(c)|d"],
                r"(a\.b|\(c\)\|d)",
                r#"root ::= "a.b" | "(c)|d""#,
            ),
            (
                &["\"\\\n\u{1}\u{e9}"],
                "(\"\\\\\n\u{1}\u{e9})",
                "root ::= \"\\\"\\\\\\n\\x01\u{e9}\"",
            ),
            (&[""], "()", "root ::= \"\""),
        ] {
            let choices: Vec<String> = choices.iter().map(|choice| (*choice).to_owned()).collect();
            let spelt = choice_regex(&choices).unwrap();
            assert_eq!(spelt, regex);
            assert_eq!(choice_gbnf(&choices).unwrap(), gbnf);
            let matcher = regex::Regex::new(&format!("^(?:{spelt})$")).unwrap();
            assert!(
                choices.iter().all(|choice| matcher.is_match(choice)),
                "{spelt}"
            );
            assert!(!matcher.is_match("x"), "{spelt}");
        }
        assert!(choice_regex(&[]).is_err() && choice_gbnf(&[]).is_err());
    }
}
