//! Writes instances as text in a given spelling.
//!
//! Only white space and escapes in strings change. Numbers keep the digits of their file in every
//! spelling, since `1e5`, `1e+5` and `100000.0` are different texts to an engine. (MaskBench's
//! script converts numbers through Python, as its files were written, so there is no difference on
//! those.) Repeated members are kept.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::corpus::Content;
use super::row::Spelling;

/// The instance's text in a spelling; `None` if there is none: text has only the verbatim spelling,
/// and JSON has none.
pub(super) fn spell(content: &Content, spelling: Spelling) -> Option<Cow<'_, str>> {
    match (content, spelling) {
        (Content::Text(text), Spelling::Verbatim) => Some(Cow::Borrowed(text)),
        (Content::Text(_), _) | (Content::Json(_), Spelling::Verbatim) => None,
        (Content::Json(json), spelling) => Some(rewritten(json.get(), spelling).into()),
    }
}

/// The instance's text; JSON in compact spelling.
pub(super) fn spell_compact(content: &Content) -> Cow<'_, str> {
    match content {
        Content::Text(text) => Cow::Borrowed(text),
        Content::Json(json) => rewritten(json.get(), Spelling::Compact).into(),
    }
}

/// JSON text on one line with unchanged digits.
pub(super) fn on_one_line(json: &RawValue) -> Box<RawValue> {
    let compact = rewritten(json.get(), Spelling::Compact);
    RawValue::from_string(compact).expect("only white space and escapes were rewritten")
}

/// JSON text with different white space and minimal escapes in strings: quotes, backslashes and
/// control characters, as in `json.dumps(..., ensure_ascii=False)` and `serde_json`.
fn rewritten(json: &str, spelling: Spelling) -> String {
    let mut writer = Writer {
        out: String::with_capacity(json.len() * 2),
        spelling,
        depth: 0,
    };
    let mut rest = json;
    let mut before = None;
    while let Some(byte) = rest.bytes().next() {
        let length = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                rest = &rest[1..];
                continue;
            }
            b'"' => sobench_reduce::respell::string_length(rest.as_bytes()),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => rest
                .find([' ', '\t', '\n', '\r', ',', ']', '}', ':'])
                .unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        writer.token(byte, token, before);
        (rest, before) = (after, Some(byte));
    }
    writer.out
}

struct Writer {
    out: String,
    spelling: Spelling,
    depth: usize,
}

impl Writer {
    /// Writes a token whose first byte is `byte`; `before` is the first byte of the previous token.
    fn token(&mut self, byte: u8, token: &str, before: Option<u8>) {
        let is_first = matches!(before, Some(b'{' | b'['));
        match byte {
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if !is_first {
                    self.line();
                }
            }
            _ if is_first => self.line(),
            _ => {}
        }
        match byte {
            b'"' => match serde_json::from_str::<String>(token) {
                Ok(text) => self
                    .out
                    .push_str(&serde_json::Value::String(text).to_string()),
                // A lone surrogate can only be written as an escape.
                Err(_) => self.out.push_str(token),
            },
            _ => self.out.push_str(token),
        }
        match byte {
            b'{' | b'[' => self.depth += 1,
            b':' if self.spelling != Spelling::Compact => self.out.push(' '),
            b',' if self.spelling == Spelling::Maskbench => self.out.push(' '),
            b',' => self.line(),
            _ => {}
        }
    }

    fn line(&mut self) {
        if self.spelling == Spelling::Pretty {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n("  ", self.depth));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> Content {
        Content::Json(serde_json::from_str(text).unwrap())
    }

    fn check(text: &str, spelling: Spelling, expected: &str) {
        assert_eq!(spell(&content(text), spelling).unwrap(), expected);
    }

    #[test]
    fn spellings_change_white_space_and_keep_digits() {
        let text = "{ \"b\" :[1.0,\t1e5,-0 ,123456789012345678901],\"a\":{ },\"\\u00e9\\n\":[\n],\"\\u007f\":[{\"x,:\":\"\\u0001\\\"\\\\\\/\"}]}";
        check(
            text,
            Spelling::Compact,
            "{\"b\":[1.0,1e5,-0,123456789012345678901],\"a\":{},\"é\\n\":[],\"\u{7f}\":[{\"x,:\":\"\\u0001\\\"\\\\/\"}]}",
        );
        check(
            text,
            Spelling::Maskbench,
            "{\"b\": [1.0, 1e5, -0, 123456789012345678901], \"a\": {}, \"é\\n\": [], \"\u{7f}\": [{\"x,:\": \"\\u0001\\\"\\\\/\"}]}",
        );
        check(
            r#"{"a":[1,{"b":[]}]}"#,
            Spelling::Pretty,
            "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ]\n}",
        );
        check("7", Spelling::Pretty, "7");
        check(r#""\ud800""#, Spelling::Compact, r#""\ud800""#);
        let lines: Box<RawValue> = serde_json::from_str("{\n\"a\": [\r\n1e5,\t1]\n}").unwrap();
        assert_eq!(on_one_line(&lines).get(), r#"{"a":[1e5,1]}"#);
        check(
            r#"{"a":1,"a":true}"#,
            Spelling::Maskbench,
            r#"{"a": 1, "a": true}"#,
        );
    }

    #[test]
    fn without_exponents_output_equals_serde_json() {
        let text = r#"[{"a":[[],{},[{"b":null}]],"ü\"\\":"\t\u0000\u007f\ud83e\udd80"},true,-1.50,"",[["x"]]]"#;
        let value: serde_json::Value = serde_json::from_str(text).unwrap();
        check(text, Spelling::Compact, &value.to_string());
        check(text, Spelling::Pretty, &format!("{value:#}"));
        for spelling in Spelling::JSON {
            let spelt = spell(&content(text), spelling).unwrap().into_owned();
            assert_eq!(
                serde_json::from_str::<serde_json::Value>(&spelt).unwrap(),
                value
            );
        }
    }

    #[test]
    fn text_has_only_the_verbatim_spelling() {
        let text = Content::Text(" {} ".to_owned());
        assert_eq!(spell(&text, Spelling::Verbatim).unwrap(), " {} ");
        assert!(
            Spelling::JSON
                .into_iter()
                .all(|spelling| spell(&text, spelling).is_none())
        );
        assert!(spell(&content("null"), Spelling::Verbatim).is_none());
    }
}
