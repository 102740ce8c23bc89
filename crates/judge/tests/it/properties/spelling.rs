//! Writes a JSON value in one of many equivalent spellings: white space, escapes, member order, 1
//! as 1.0 or 10e-1.

use std::fmt::Write as _;

use serde_json::Value;

use super::source::Source;

/// Allowed variations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpellingFreedom {
    /// Integers without point and exponent: in Draft 4, 1.0 is not an integer.
    PlainNumbers,
    All,
}

/// Writes `value` in a spelling that `source` chooses.
pub(super) fn spell(value: &Value, source: &mut Source, freedom: SpellingFreedom) -> String {
    let mut text = String::new();
    put_white_space(&mut text, source);
    put_value(&mut text, value, source, freedom);
    put_white_space(&mut text, source);
    text
}

fn put_value(text: &mut String, value: &Value, source: &mut Source, freedom: SpellingFreedom) {
    match value {
        Value::Null | Value::Bool(_) => {
            write!(text, "{value}").expect("writing to a string does not fail");
        }
        Value::Number(number) if freedom == SpellingFreedom::PlainNumbers => {
            text.push_str(number.as_str());
        }
        Value::Number(number) => text.push_str(&respell_number(number.as_str(), source)),
        Value::String(string) => put_string(text, string, source),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                put_white_space(text, source);
                put_value(text, item, source, freedom);
                put_white_space(text, source);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let members: Vec<(&String, &Value)> = members.iter().collect();
            text.push('{');
            for (index, member) in source.permutation(members.len()).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                put_white_space(text, source);
                put_string(text, members[member].0, source);
                put_white_space(text, source);
                text.push(':');
                put_white_space(text, source);
                put_value(text, members[member].1, source, freedom);
                put_white_space(text, source);
            }
            text.push('}');
        }
    }
}

fn put_white_space(text: &mut String, source: &mut Source) {
    text.push_str(["", "", "", " ", "\n\t", "\r\n  "][source.below(6)]);
}

fn put_string(text: &mut String, string: &str, source: &mut Source) {
    text.push('"');
    for character in string.chars() {
        let short = match character {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\n' => Some("\\n"),
            _ => None,
        };
        let must_escape = matches!(character, '"' | '\\') || character < ' ';
        match (short, source.below(4)) {
            (Some(short), 0..2) => text.push_str(short),
            (None, 0..2) | (_, 2) if !must_escape => text.push(character),
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let upper = source.once_in(2);
                    let digits = if upper {
                        format!("\\u{unit:04X}")
                    } else {
                        format!("\\u{unit:04x}")
                    };
                    text.push_str(&digits);
                }
            }
        }
    }
    text.push('"');
}

/// Another spelling of a number without an exponent.
fn respell_number(number: &str, source: &mut Source) -> String {
    let (sign, digits) = number
        .strip_prefix('-')
        .map_or(("", number), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    match source.below(7) {
        0 | 1 => number.to_owned(),
        2 => format!("{sign}{whole}.{fraction}0"),
        3 => format!("{sign}{whole}.{fraction}0e0"),
        4 => format!("{sign}{whole}.{fraction}00E+00"),
        5 => {
            let shifted = format!("{whole}{fraction}");
            let shifted = shifted.trim_start_matches('0');
            let shifted = if shifted.is_empty() { "0" } else { shifted };
            format!("{sign}{shifted}e-{}", fraction.len())
        }
        _ => format!("{sign}0.{whole}{fraction}e{}", whole.len()),
    }
}

#[test]
fn spellings_parse_to_the_same_value() {
    let value: Value = serde_json::from_str(
        r#"{"a/\"\\":[0,-0.50,12345678901234567890123.5,true,null,"\u0001😀\n é"],"":{}}"#,
    )
    .unwrap();
    super::source::check(0x5EED, 500, |source| {
        let text = spell(&value, source, SpellingFreedom::PlainNumbers);
        let read: Value =
            serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
        if read == value {
            Ok(())
        } else {
            Err(format!("{text} is read as {read}"))
        }
    });
    super::source::check(0x5EED, 500, |source| {
        for (number, float) in [
            ("0", 0.0),
            ("-0.50", -0.5),
            ("12.5", 12.5),
            ("7", 7.0),
            ("-1000", -1000.0),
            ("0.001", 0.001),
        ] {
            let text = respell_number(number, source);
            let read: f64 =
                serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
            if read != float {
                return Err(format!("{number} as {text} is {read}"));
            }
        }
        Ok(())
    });
}
