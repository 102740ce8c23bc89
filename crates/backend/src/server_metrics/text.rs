//! Lines of Prometheus' text format.
//!
//! Format: <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>. The
//! crate `prometheus-parse` 0.2.5 does not read names with a colon, which vLLM, SGLang and
//! llama.cpp use, or label values with a comma.

use std::borrow::Cow;

/// The name, the labels (without braces) and the value of a line; `None` for comments, empty and
/// malformed lines. A time stamp after the value is ignored.
pub(super) fn line(line: &str) -> Option<(&str, &str, f64)> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    let (name, labels, rest) = split(line)?;
    let value = rest.split_ascii_whitespace().next()?;
    Some((name, labels, number(value)?))
}

/// A series as the user names it.
pub(super) struct SeriesName<'n> {
    pub(super) name: &'n str,
    labels: Vec<(&'n str, Cow<'n, str>)>,
}

impl<'n> SeriesName<'n> {
    /// `None` if it is not `name` or `name{label="value",...}`.
    pub(super) fn parse(text: &'n str) -> Option<Self> {
        let (name, labels, rest) = split(text.trim())?;
        let mut pairs = Labels(labels);
        let labels: Vec<_> = pairs.by_ref().collect();
        let is_whole = pairs.0.trim_matches([' ', ',']).is_empty();
        (rest.is_empty() && is_whole).then_some(Self { name, labels })
    }

    /// Whether a series has all of the labels.
    pub(super) fn fits(&self, labels: &str) -> bool {
        self.labels
            .iter()
            .all(|(name, value)| label_value(labels, name).as_ref() == Some(value))
    }
}

/// The name, the labels and the rest of a line.
fn split(line: &str) -> Option<(&str, &str, &str)> {
    let end = line
        .find(|letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '_' | ':')))
        .unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    if !name.starts_with(|first: char| !first.is_ascii_digit()) {
        return None;
    }
    let rest = rest.trim_start();
    let Some(rest) = rest.strip_prefix('{') else {
        let is_apart = rest.is_empty() || line[end..].starts_with([' ', '\t']);
        return is_apart.then_some((name, "", rest));
    };
    let close = closing_brace(rest)?;
    Some((name, &rest[..close], rest[close + 1..].trim_start()))
}

/// The first `}` outside of quotes.
fn closing_brace(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.bytes().position(|byte| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'\\' if is_quoted && !was_escaped => is_escaped = true,
            b'"' if !was_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        byte == b'}' && !is_quoted
    })
}

/// The value of a label.
pub(super) fn label_value<'l>(labels: &'l str, name: &str) -> Option<Cow<'l, str>> {
    Labels(labels)
        .find(|(own, _)| *own == name)
        .map(|(_, value)| value)
}

/// Pairs of names and values; ends at the first malformed one.
struct Labels<'l>(&'l str);

impl<'l> Iterator for Labels<'l> {
    type Item = (&'l str, Cow<'l, str>);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.0.trim_start_matches([' ', '\t', ',']);
        let (name, value) = rest.split_once('=')?;
        let value = value.trim_start().strip_prefix('"')?;
        let mut is_escaped = false;
        let end = value.bytes().position(|byte| {
            let was_escaped = std::mem::take(&mut is_escaped);
            is_escaped = byte == b'\\' && !was_escaped;
            byte == b'"' && !was_escaped
        })?;
        self.0 = &value[end + 1..];
        Some((name.trim(), unescaped(&value[..end])))
    }
}

fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return value.into();
    }
    let mut text = String::with_capacity(value.len());
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match (letter, letter == '\\') {
            (_, true) => match letters.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            (letter, false) => text.push(letter),
        }
    }
    text.into()
}

/// A number as Go writes it: also `+Inf`, `-Inf` and `NaN`.
pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_into_name_labels_and_value() {
        for (text, expected) in [
            ("a 1", Some(("a", "", 1.0))),
            (
                "vllm:x_total{} 2.5e3 1700000000",
                Some(("vllm:x_total", "", 2500.0)),
            ),
            ("a{b=\"c\"} +Inf", Some(("a", "b=\"c\"", f64::INFINITY))),
            (
                "a {b=\"}\\\"\",c=\"1,2\"} 3",
                Some(("a", "b=\"}\\\"\",c=\"1,2\"", 3.0)),
            ),
            ("  a\t4  ", Some(("a", "", 4.0))),
            ("# HELP a b", None),
            ("", None),
            ("a", None),
            ("a x", None),
            ("a{b=\"c} 1", None),
            ("1a 1", None),
            ("a-b 1", None),
            ("{b=\"c\"} 1", None),
            ("<html>", None),
        ] {
            assert_eq!(line(text), expected, "{text}");
        }
        assert!(line("a NaN").is_some_and(|(_, _, value)| value.is_nan()));
    }

    #[test]
    fn label_values_are_unescaped() {
        let labels = r#"model="a\"b, c=\"d\"",path="C:\\x\ny", le="0.5","#;
        assert_eq!(label_value(labels, "model").unwrap(), "a\"b, c=\"d\"");
        assert_eq!(label_value(labels, "path").unwrap(), "C:\\x\ny");
        assert_eq!(label_value(labels, "le").unwrap(), "0.5");
        assert_eq!(label_value(labels, "c"), None, "a value is not a label");
        assert_eq!(label_value("a=b", "a"), None);
    }

    #[test]
    fn names_of_the_user_may_have_labels() {
        let wanted = SeriesName::parse("x:y{a=\"1\", b=\"2\"}").unwrap();
        assert_eq!(wanted.name, "x:y");
        assert!(wanted.fits("b=\"2\",c=\"3\",a=\"1\""));
        assert!(!wanted.fits("a=\"1\""));
        assert!(SeriesName::parse("x").unwrap().fits("a=\"1\""));
        for wrong in ["", "a b", "a{", "a{b=c}", "a{b=\"c\"} 1", "-", "ä"] {
            assert!(SeriesName::parse(wrong).is_none(), "{wrong}");
        }
    }
}
