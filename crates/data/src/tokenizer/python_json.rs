//! JSON text as CPython's `json.dumps` writes it. Prompts of vLLM's scripts contain such text.

use serde_json::{Number, Value};

/// Which characters of a string are written as escapes (`ensure_ascii`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// Everything outside printable ASCII, as UTF-16 code units: Python's default.
    NonAscii,
    /// Only characters that JSON requires to be escaped.
    Needed,
}

/// Whitespace settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Spaces per level, with each item on a separate line. `None` writes a single line.
    pub indent: Option<usize>,
    pub item_separator: String,
    pub key_separator: String,
}

impl Layout {
    /// Python's default: one line, `", "` and `": "`.
    pub fn line() -> Self {
        Self {
            indent: None,
            item_separator: ", ".to_owned(),
            key_separator: ": ".to_owned(),
        }
    }

    /// Python's default with `indent`: no space follows a comma.
    pub fn indented(indent: usize) -> Self {
        Self {
            indent: Some(indent),
            item_separator: ",".to_owned(),
            ..Self::line()
        }
    }
}

/// `json.dumps(value)` for `value = json.loads(text)`: members in the order of the text, integers
/// of any size unchanged, other numbers as the `repr` of the nearest double.
pub fn dumps(value: &Value) -> String {
    dumps_with(value, Escape::NonAscii, &Layout::line())
}

/// `json.dumps` with `ensure_ascii`, `indent` and `separators` set.
pub fn dumps_with(value: &Value, escape: Escape, layout: &Layout) -> String {
    let mut writer = Writer {
        out: String::new(),
        escape,
        layout,
        depth: 0,
    };
    writer.value(value);
    writer.out
}

/// Python's `repr` of a double: the shortest digits that read back, with an exponent below 1e-4 and
/// from 1e16 on.
pub fn float_repr(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = shortest(value);
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("scientific notation has an exponent");
    let exponent: i32 = exponent
        .parse()
        .expect("the exponent of a double is a small integer");
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let (sign, digits) = mantissa
        .strip_prefix('-')
        .map_or(("", mantissa), |digits| ("-", digits));
    let digits = digits.replace('.', "");
    if exponent < 0 {
        return format!(
            "{sign}0.{}{digits}",
            "0".repeat(exponent.unsigned_abs() as usize - 1)
        );
    }
    let before_point = exponent as usize + 1;
    let digits = format!("{digits:0<before_point$}");
    let (whole, fraction) = digits.split_at(before_point);
    format!(
        "{sign}{whole}.{}",
        if fraction.is_empty() { "0" } else { fraction }
    )
}

/// The shortest digits that read back, in scientific notation. Of two equally near ones, Python
/// takes the even one and Rust's shortest form the greater one. Rust's form with a given number of
/// digits rounds to even.
fn shortest(value: f64) -> String {
    let greater = format!("{value:e}");
    let digits = greater
        .chars()
        .take_while(|letter| *letter != 'e')
        .filter(char::is_ascii_digit)
        .count();
    let nearest = format!("{value:.*e}", digits - 1);
    if nearest.parse() == Ok(value) {
        nearest
    } else {
        greater
    }
}

struct Writer<'a> {
    out: String,
    escape: Escape,
    layout: &'a Layout,
    depth: usize,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Null => self.out.push_str("null"),
            Value::Bool(true) => self.out.push_str("true"),
            Value::Bool(false) => self.out.push_str("false"),
            Value::Number(number) => self.number(number),
            Value::String(text) => self.string(text),
            Value::Array(items) => {
                self.container('[', ']', items, |writer, item| writer.value(item));
            }
            Value::Object(members) => self.container('{', '}', members, |writer, (name, value)| {
                writer.string(name);
                writer.out.push_str(&writer.layout.key_separator);
                writer.value(value);
            }),
        }
    }

    fn container<I: IntoIterator>(
        &mut self,
        open: char,
        close: char,
        items: I,
        write: impl Fn(&mut Self, I::Item),
    ) {
        self.out.push(open);
        self.depth += 1;
        let mut is_empty = true;
        for item in items {
            if !is_empty {
                self.out.push_str(&self.layout.item_separator);
            }
            is_empty = false;
            self.new_line();
            write(self, item);
        }
        self.depth -= 1;
        if !is_empty {
            self.new_line();
        }
        self.out.push(close);
    }

    fn new_line(&mut self) {
        if let Some(indent) = self.layout.indent {
            self.out.push('\n');
            self.out
                .extend(std::iter::repeat_n(' ', indent * self.depth));
        }
    }

    fn number(&mut self, number: &Number) {
        let text = number.to_string();
        if text.contains(['.', 'e', 'E']) {
            let double = text.parse().expect("a JSON number reads as a double");
            self.out.push_str(&float_repr(double));
        } else {
            // Python's integers have no negative zero.
            self.out.push_str(if text == "-0" { "0" } else { &text });
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for character in text.chars() {
            match character {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                ' '..='~' => self.out.push(character),
                _ if self.escape == Escape::NonAscii || character < ' ' => {
                    self.code_units(character);
                }
                _ => self.out.push(character),
            }
        }
        self.out.push('"');
    }

    fn code_units(&mut self, character: char) {
        for unit in character.encode_utf16(&mut [0; 2]) {
            self.out.push_str(&format!("\\u{unit:04x}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(dumps(&value), expected, "for {json}");
    }

    /// Right-hand sides printed by `json.dumps(json.loads(left))` of CPython 3.11.
    #[test]
    fn numbers_match_python() {
        for (json, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "-0.0"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            ("1.0", "1.0"),
            ("1e2", "100.0"),
            ("0.10", "0.1"),
            ("1E-4", "0.0001"),
            ("0.00001", "1e-05"),
            ("1e15", "1000000000000000.0"),
            ("1e16", "1e+16"),
            ("123456789012345678.0", "1.2345678901234568e+17"),
            ("9007199254740993.0", "9007199254740992.0"),
            ("2.5e-300", "2.5e-300"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            // Exactly between two shortest forms.
            ("1286065912525275.25", "1286065912525275.2"),
            ("-2152548015248394.25", "-2152548015248394.2"),
            ("1e400", "Infinity"),
            ("-1e400", "-Infinity"),
        ] {
            check(json, expected);
        }
    }

    #[test]
    fn strings_match_python() {
        check(
            r#""a\/b\"\\\n\r\t\b\f\u0001\u007f é 😀 \u2028""#,
            r#""a/b\"\\\n\r\t\b\f\u0001\u007f \u00e9 \ud83d\ude00 \u2028""#,
        );
        let value = Value::from("é\u{7f}\u{1}<&>'");
        assert_eq!(
            dumps_with(&value, Escape::Needed, &Layout::line()),
            "\"é\u{7f}\\u0001<&>'\""
        );
    }

    #[test]
    fn containers_keep_their_order() {
        check(
            r#"{"b":[1,2,{}],"a":{"x":null,"y":[true,false,[]]}}"#,
            r#"{"b": [1, 2, {}], "a": {"x": null, "y": [true, false, []]}}"#,
        );
        // The last of two equal names wins, in the position of the first.
        check(r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#);
    }

    #[test]
    fn indentation_matches_python() {
        let value: Value = serde_json::from_str(r#"{"a":[1,{}],"b":"c"}"#).unwrap();
        let expected = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"c\"\n}";
        assert_eq!(
            dumps_with(&value, Escape::NonAscii, &Layout::indented(2)),
            expected
        );
    }
}
