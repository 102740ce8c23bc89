//! Writes instances as text, in the ways that JSON allows. Knows no engine and no corpus.
//!
//! Numbers keep the digits of their file in every spelling. MaskBench's script reads and writes them through Python, which would
//! write `1e5` as `100000.0`; that is another text for the same value, and the file's is what its author wrote.

use std::borrow::Cow;
use std::io;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::corpus::Content;
use super::row::Spelling;

/// The instance's text in a spelling; `None` where there is none: text is written only verbatim, and JSON never.
pub(super) fn spell(content: &Content, spelling: Spelling) -> Option<Cow<'_, str>> {
    match (content, spelling) {
        (Content::Text(text), Spelling::Verbatim) => Some(Cow::Borrowed(text)),
        (Content::Json(value), Spelling::Maskbench) => Some(write(value, PythonFormatter).into()),
        (Content::Json(value), Spelling::Compact) => Some(write(value, serde_json::ser::CompactFormatter).into()),
        (Content::Json(value), Spelling::Pretty) => Some(write(value, PrettyFormatter::new()).into()),
        (Content::Text(_), _) | (Content::Json(_), Spelling::Verbatim) => None,
    }
}

fn write(value: &Value, formatter: impl Formatter) -> String {
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, formatter)).expect("a JSON value can be written to memory");
    String::from_utf8(bytes).expect("JSON is written as UTF-8")
}

/// The separators of Python's `json.dumps(value, ensure_ascii=False)`.
struct PythonFormatter;

impl Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, spelling: Spelling, expected: &str) {
        let content = Content::Json(serde_json::from_str(text).unwrap());
        assert_eq!(spell(&content, spelling).unwrap(), expected);
    }

    #[test]
    fn every_spelling_has_its_white_space_and_keeps_the_digits() {
        let text = r#"{"b":[1.0,1e5,-0,123456789012345678901],"a":{},"é\n":[],"\u007f":[{"x":"\u0001\"\\/"}]}"#;
        check(
            text,
            Spelling::Compact,
            "{\"b\":[1.0,1e5,-0,123456789012345678901],\"a\":{},\"é\\n\":[],\"\u{7f}\":[{\"x\":\"\\u0001\\\"\\\\/\"}]}",
        );
        check(
            text,
            Spelling::Maskbench,
            "{\"b\": [1.0, 1e5, -0, 123456789012345678901], \"a\": {}, \"é\\n\": [], \"\u{7f}\": [{\"x\": \"\\u0001\\\"\\\\/\"}]}",
        );
        check(r#"{"a":[1,{"b":[]}]}"#, Spelling::Pretty, "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ]\n}");
        check("7", Spelling::Pretty, "7");
    }

    #[test]
    fn text_is_written_verbatim_and_json_is_not() {
        let text = Content::Text(" {} ".to_owned());
        assert_eq!(spell(&text, Spelling::Verbatim).unwrap(), " {} ");
        assert!(Spelling::OF_JSON.into_iter().all(|spelling| spell(&text, spelling).is_none()));
        assert!(spell(&Content::Json(Value::Null), Spelling::Verbatim).is_none());
    }
}
