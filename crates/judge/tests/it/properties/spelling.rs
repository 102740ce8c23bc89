//! Spells a JSON value in one of the many ways that mean the same: white space, escapes, the order
//! of members, 1 as 1.0 or 10e-1.

use std::fmt::Write as _;

use serde_json::Value;

use super::source::Source;

/// How far from the plainest spelling a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Liberty {
    /// An integer stays without point and exponent: in Draft 4, 1.0 is none.
    PlainNumbers,
    All,
}

/// `value` as a text, spelt as `source` chooses.
pub(super) fn spell(value: &Value, source: &mut Source, liberty: Liberty) -> String {
    let mut text = String::new();
    blank(&mut text, source);
    put(&mut text, value, source, liberty);
    blank(&mut text, source);
    text
}

fn put(text: &mut String, value: &Value, source: &mut Source, liberty: Liberty) {
    match value {
        Value::Null | Value::Bool(_) => {
            write!(text, "{value}").expect("writing to a string does not fail")
        }
        Value::Number(number) if liberty == Liberty::PlainNumbers => text.push_str(number.as_str()),
        Value::Number(number) => text.push_str(&respelt(number.as_str(), source)),
        Value::String(string) => put_string(text, string, source),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                blank(text, source);
                put(text, item, source, liberty);
                blank(text, source);
            }
            text.push(']');
        }
        Value::Object(members) => {
            let members: Vec<(&String, &Value)> = members.iter().collect();
            text.push('{');
            for (index, member) in source.order(members.len()).into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                blank(text, source);
                put_string(text, members[member].0, source);
                blank(text, source);
                text.push(':');
                blank(text, source);
                put(text, members[member].1, source, liberty);
                blank(text, source);
            }
            text.push('}');
        }
    }
}

fn blank(text: &mut String, source: &mut Source) {
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
        let must = matches!(character, '"' | '\\') || character < ' ';
        match (short, source.below(4)) {
            (Some(short), 0..2) => text.push_str(short),
            (None, 0..2) | (_, 2) if !must => text.push(character),
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

/// A number without an exponent, in another spelling of the same value.
fn respelt(number: &str, source: &mut Source) -> String {
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
fn a_text_means_what_it_was_made_of() {
    let value: Value = serde_json::from_str(
        r#"{"a/\"\\":[0,-0.50,12345678901234567890123.5,true,null,"\u0001😀\n é"],"":{}}"#,
    )
    .unwrap();
    super::source::check(0x5EED, 500, |source| {
        let text = spell(&value, source, Liberty::PlainNumbers);
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
            let text = respelt(number, source);
            let read: f64 =
                serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
            if read != float {
                return Err(format!("{number} as {text} is {read}"));
            }
        }
        Ok(())
    });
}
