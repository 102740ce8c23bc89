//! Normalises one spelling variation of JSON at a time, leaving all other bytes unchanged, and
//! reorders members.

use std::ops::Range;

use serde_json::Value;

use crate::schema;

/// Maximum digits of a number that is written out; numbers with a larger exponent keep it.
const MAX_DIGITS: usize = 64;

/// The text without leading and trailing white space.
pub fn trimmed(text: &str) -> String {
    text.trim_matches([' ', '\t', '\n', '\r']).to_owned()
}

/// The text without white space between its tokens.
pub fn without_spaces(text: &str) -> String {
    rewritten(text, PieceKind::Space, |_| String::new())
}

/// The text with minimal escapes in strings.
pub fn with_least_escapes(text: &str) -> String {
    with_strings(text, |text| Some(text.to_owned()))
}

/// The text with minimal escapes, and with a letter for each character that has only a `\u` escape
/// and for U+007F to U+009F: another text of the same length.
pub fn with_plain_characters(text: &str) -> String {
    let is_plain = |character: &char| {
        !character.is_control() || matches!(character, '\u{8}' | '\u{c}' | '\n' | '\r' | '\t')
    };
    let letters = |text: &str| {
        text.chars()
            .map(|character| if is_plain(&character) { character } else { 'a' })
            .collect::<String>()
    };
    with_least_escapes(&with_strings(text, |text| {
        Some(letters(text)).filter(|plain| plain != text)
    }))
}

/// The text with integers as plain digits, and exponents with a sign.
pub fn with_plain_numbers(text: &str) -> String {
    rewritten(text, PieceKind::Number, plain_number)
}

/// The text in compact form, with members in the order of `like`, or in the order of the
/// `properties` in `schema` that name most of them. `None` for invalid JSON.
pub fn in_order(text: &str, like: Option<&Value>, schema: Option<&Value>) -> Option<String> {
    reordered_text(text, like, schema, false)
}

/// As [`in_order`], without unnamed members.
pub fn without_unnamed_members(text: &str, schema: &Value) -> Option<String> {
    reordered_text(text, None, Some(schema), true)
}

fn reordered_text(
    text: &str,
    like: Option<&Value>,
    schema: Option<&Value>,
    without_unnamed_members: bool,
) -> Option<String> {
    let maps = schema.map(property_maps).unwrap_or_default();
    let value: Value = serde_json::from_str(text).ok()?;
    Some(ordered(&value, like, &maps, without_unnamed_members).to_string())
}

/// The white space, string, number or other character that contains the byte at `at`.
pub fn piece_around(text: &str, at: usize) -> Option<Range<usize>> {
    let mut end = 0;
    pieces(text).find_map(|(_, piece)| {
        let start = end;
        end += piece.len();
        (end > at).then_some(start..end)
    })
}

/// The text with every string replaced for which `other` returns a replacement.
pub fn with_strings(text: &str, other: impl Fn(&str) -> Option<String>) -> String {
    rewritten(text, PieceKind::Text, |text| {
        let other = serde_json::from_str::<String>(text)
            .ok()
            .and_then(|value| other(&value));
        other.map_or_else(|| text.to_owned(), |value| Value::from(value).to_string())
    })
}

/// Members by name, or items, of the object or array in a complete or truncated text, each with the
/// range of its value.
pub fn children(text: &str) -> Vec<(Option<String>, Range<usize>)> {
    let mut children = Vec::new();
    let (mut depth, mut at) = (0_usize, 0);
    let (mut name, mut value): (Option<String>, Option<Range<usize>>) = (None, None);
    for (kind, piece) in pieces(text) {
        let start = at;
        at += piece.len();
        let (opens, closes) = (matches!(piece, "{" | "["), matches!(piece, "}" | "]"));
        depth -= usize::from(closes).min(depth);
        match piece {
            _ if depth == 0 || kind == PieceKind::Space => {}
            ":" if depth == 1 => {
                name = value
                    .take()
                    .and_then(|range| serde_json::from_str(&text[range]).ok());
            }
            "," if depth == 1 => children.extend(value.take().map(|value| (name.take(), value))),
            _ => value = Some(value.map_or(start, |range| range.start)..at),
        }
        depth += usize::from(opens);
    }
    children.extend(value.map(|value| (name, value)));
    children
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Space,
    /// A string with its quotes.
    Text,
    Number,
    Other,
}

/// The text in pieces.
fn pieces(text: &str) -> impl Iterator<Item = (PieceKind, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let first = rest.bytes().next()?;
        let length = piece_length(rest.as_bytes())
            .unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
        let (piece, after) = rest.split_at(length);
        rest = after;
        let kind = match first {
            b'"' => PieceKind::Text,
            b' ' | b'\t' | b'\n' | b'\r' => PieceKind::Space,
            b'-' | b'0'..=b'9' => PieceKind::Number,
            _ => PieceKind::Other,
        };
        Some((kind, piece))
    })
}

/// The length of the string, white space or number at the start of `rest`; `None` for other
/// characters.
pub fn piece_length(rest: &[u8]) -> Option<usize> {
    let all_of = |bytes: &[u8]| rest.iter().take_while(|byte| bytes.contains(byte)).count();
    match rest.first()? {
        b'"' => Some(string_length(rest)),
        b' ' | b'\t' | b'\n' | b'\r' => Some(all_of(b" \t\n\r")),
        b'-' | b'0'..=b'9' => Some(all_of(b"+-.eE0123456789")),
        _ => None,
    }
}

/// The text with every piece of one kind rewritten.
fn rewritten(text: &str, kind: PieceKind, other: impl Fn(&str) -> String) -> String {
    pieces(text)
        .map(|(of, piece)| {
            if of == kind {
                other(piece)
            } else {
                piece.to_owned()
            }
        })
        .collect()
}

/// An integer as plain digits; other numbers with a sign in the exponent.
fn plain_number(number: &str) -> String {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, ""));
    let (sign, mantissa) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |mantissa| ("-", mantissa));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let Ok(power) = (if exponent.is_empty() {
        Ok(0)
    } else {
        exponent.parse::<i64>()
    }) else {
        return number.to_owned();
    };
    let digits = format!("{whole}{fraction}");
    let point = i64::try_from(whole.len())
        .unwrap_or(i64::MAX)
        .saturating_add(power);
    let signed = || match number.split_once(['e', 'E']) {
        Some((mantissa, power)) if !power.starts_with(['+', '-']) => format!("{mantissa}e+{power}"),
        _ => number.to_owned(),
    };
    let Some(point) = usize::try_from(point)
        .ok()
        .filter(|point| *point <= MAX_DIGITS)
    else {
        return signed();
    };
    let (before, after) = digits.split_at(point.min(digits.len()));
    if after.bytes().any(|digit| digit != b'0') {
        return signed();
    }
    let before = format!("{before}{}", "0".repeat(point.saturating_sub(digits.len())));
    match before.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => format!("{sign}{digits}"),
    }
}

/// The names of each schema's `properties` and `required`, in order.
fn property_maps(schema: &Value) -> Vec<Vec<String>> {
    let map = |schema: &Value| {
        let names = schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|properties| properties.keys().cloned());
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let mut all: Vec<String> = names.collect();
        for name in required.filter_map(Value::as_str) {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
        all
    };
    schema::nested_values(schema)
        .map(map)
        .filter(|names| !names.is_empty())
        .collect()
}

fn ordered(
    value: &Value,
    like: Option<&Value>,
    maps: &[Vec<String>],
    without_unnamed_members: bool,
) -> Value {
    match value {
        Value::Array(items) => {
            let like = |place| like.and_then(|like: &Value| like.get::<usize>(place));
            items
                .iter()
                .enumerate()
                .map(|(place, item)| ordered(item, like(place), maps, without_unnamed_members))
                .collect()
        }
        Value::Object(members) => {
            let like_of = |name: &String| like.and_then(|like| like.get(name.as_str()));
            let member = |(name, member): (&String, &Value)| {
                (
                    name.clone(),
                    ordered(member, like_of(name), maps, without_unnamed_members),
                )
            };
            let mut members: Vec<(String, Value)> = members.iter().map(member).collect();
            match like.and_then(Value::as_object) {
                Some(like) => sort_members(&mut members, like.keys()),
                None => {
                    if let Some(map) = maps.iter().max_by_key(|map: &&Vec<String>| {
                        map.iter()
                            .filter(|name| members.iter().any(|(member, _)| member == *name))
                            .count()
                    }) {
                        sort_members(&mut members, map.iter());
                        members.retain(|(name, _)| !without_unnamed_members || map.contains(name));
                    }
                }
            }
            Value::Object(members.into_iter().collect())
        }
        other => other.clone(),
    }
}

/// Unnamed members come last, in their previous order.
fn sort_members<'a>(members: &mut [(String, Value)], names: impl Iterator<Item = &'a String>) {
    let places: std::collections::HashMap<&String, usize> = names
        .enumerate()
        .map(|(place, name)| (name, place))
        .collect();
    members.sort_by_key(|(name, _)| places.get(name).copied().unwrap_or(usize::MAX));
}

/// Length in bytes of the string at the start of `json`, including quotes; the whole length if the
/// string is unterminated.
pub fn string_length(json: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = json.iter().copied().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(json.len(), |end| end + 2)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_spelling_variation_is_normalized_separately() {
        let text =
            " {\"a\\u0062\": [1.0, 2e1 ,-0, 1.5e3, 1.25, 1e-2, 2.5E0],\t\"c\\\"\" :\"x\\/ y\"}\n";
        for (respelt, expected) in [
            (trimmed(text), text.trim()),
            (
                without_spaces(text),
                r#"{"a\u0062":[1.0,2e1,-0,1.5e3,1.25,1e-2,2.5E0],"c\"":"x\/ y"}"#,
            ),
            (
                with_least_escapes(text),
                " {\"ab\": [1.0, 2e1 ,-0, 1.5e3, 1.25, 1e-2, 2.5E0],\t\"c\\\"\" :\"x/ y\"}\n",
            ),
            (
                with_plain_numbers(text),
                " {\"a\\u0062\": [1, 20 ,0, 1500, 1.25, 1e-2, 2.5e+0],\t\"c\\\"\" :\"x\\/ y\"}\n",
            ),
            (
                with_plain_numbers("1e99999999999999999999"),
                "1e99999999999999999999",
            ),
            (with_plain_numbers("1e400"), "1e+400"),
            (with_least_escapes("\"open"), "\"open"),
            (
                with_plain_characters("\"\\u0000\\u0061\\n\u{7f}\u{9f}é\""),
                "\"aa\\naaé\"",
            ),
        ] {
            assert_eq!(respelt, expected);
        }
    }

    #[test]
    fn every_byte_belongs_to_one_piece() {
        let text = "{ \r\n\"a\\\"b\":-1.5e3}";
        let around = |at| piece_around(text, at).map(|range| &text[range]);
        for (at, expected) in [
            (0, "{"),
            (1, " \r\n"),
            (3, " \r\n"),
            (4, "\"a\\\"b\""),
            (10, ":"),
            (15, "-1.5e3"),
            (17, "}"),
        ] {
            assert_eq!(around(at), Some(expected), "{at}");
        }
        assert_eq!(around(text.len()), None);
        assert_eq!(piece_around("\"é", 2), Some(0..3));
    }

    #[test]
    fn children_are_found_in_complete_and_truncated_texts() {
        let shown = |text: &str| -> Vec<String> {
            let children = children(text).into_iter();
            children
                .map(|(name, place)| format!("{}={}", name.unwrap_or_default(), &text[place]))
                .collect()
        };
        assert_eq!(
            shown(r#" {"a" : [1, {"b":2}] ,"c":"x,y" } "#),
            [r#"a=[1, {"b":2}]"#, r#"c="x,y""#]
        );
        assert_eq!(shown(r#"[1, [2,3],"x"#), ["=1", "=[2,3]", "=\"x"]);
        assert_eq!(shown(r#"{"a":{"b":[1,"#), [r#"a={"b":[1,"#]);
        assert!(shown("12").is_empty() && shown("{}").is_empty() && shown("]]").is_empty());
    }

    #[test]
    fn members_are_ordered_like_another_text_or_the_schema() {
        let like = json!({"b": {"d": 1, "c": 2}, "a": 0});
        let schema = json!({"properties": {"b": {"properties": {"d": true, "c": true}}, "a": true}, "required": ["z"]});
        let text = r#"{"z":1,"a":0,"x":3,"b":{"c":2,"d":1}}"#;
        assert_eq!(
            in_order(text, Some(&like), None).unwrap(),
            r#"{"b":{"d":1,"c":2},"a":0,"z":1,"x":3}"#
        );
        assert_eq!(
            in_order(text, None, Some(&schema)).unwrap(),
            r#"{"b":{"d":1,"c":2},"a":0,"z":1,"x":3}"#
        );
        assert_eq!(in_order("{", None, None), None);
        assert_eq!(
            without_unnamed_members(text, &schema).unwrap(),
            r#"{"b":{"d":1,"c":2},"a":0,"z":1}"#
        );
    }
}
