//! The correctness formula of vLLM's `benchmark_serving_structured_output.py`, for comparison with
//! its result files. Not used for verdicts.
//!
//! The formula ignores the schema. For JSON, it removes all spaces and newlines (also in strings)
//! and tries `json.loads` on the text from the first `{` to the last `}`. For a regex, a matching
//! prefix is enough. Grammars are not judged.

use std::borrow::Cow;

use super::json_reader;
use super::json_scan::{Dialect, Scanner};
use super::regex;
use sobench_core::constraint::Constraint;

/// The script's result for `text`. `None` if the script does not judge the constraint (grammars,
/// structural tags, tools), or if its regex cannot be reproduced.
///
/// Follows CPython 3.11: `json.loads` fails on integers of over 4,300 digits and nesting of nearly
/// 1,000.
pub fn vllm_correct(constraint: &Constraint, text: &str) -> Option<bool> {
    if constraint.is_json() {
        return Some(json_loads_succeeds(text));
    }
    if let Some(choices) = constraint.choices() {
        return Some(choices.iter().any(|choice| choice == text));
    }
    regex::matches_regex_package(constraint.regex()?, text)
}

/// `re.search(r"\{.*\}", text.replace("\n", "").replace(" ", ""))`, then `json.loads`.
fn json_loads_succeeds(text: &str) -> bool {
    let compacted = without_spaces(text);
    let (Some(start), Some(end)) = (compacted.find('{'), compacted.rfind('}')) else {
        return false;
    };
    if end < start {
        return false;
    }
    let candidate = &compacted[start..=end];
    let mut scanner = Scanner::new(candidate).with_repeated_names();
    if scanner.value().is_some() && scanner.is_at_end() {
        return true;
    }
    // `json.loads` accepts one document and trailing white space. Here the last byte is a bracket.
    json_reader::read(candidate, 0, Dialect::Python)
        .is_ok_and(|document| document.end == candidate.len())
}

/// The text without spaces and line feeds.
fn without_spaces(text: &str) -> Cow<'_, str> {
    let is_kept = |byte: &u8| !matches!(byte, b' ' | b'\n');
    if text.as_bytes().iter().all(is_kept) {
        return Cow::Borrowed(text);
    }
    let kept = text.bytes().filter(is_kept).collect();
    Cow::Owned(String::from_utf8(kept).expect("only ASCII characters were removed"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use sobench_core::constraint::GrammarDialect;

    fn json(text: &str) -> Option<bool> {
        vllm_correct(&Constraint::JsonSchema(Arc::new(Value::Bool(true))), text)
    }

    /// Results of the script's formula under CPython 3.11.7.
    #[test]
    fn json_results_match_python() {
        for (text, expected) in [
            ("{\"a\":1}", true),
            ("", false),
            ("[1,2]", false),
            ("\"x\"", false),
            ("Sure: {\"a\": 1} ok", true),
            ("{\"a\":1} {\"b\":2}", false),
            ("```json\n{\"a\": \"x y\"}\n```", true),
            ("{\"a\":NaN,\"b\":-Infinity,\"c\":Infinity}", true),
            ("{\"a\":-NaN}", false),
            ("{\"a\":1,\"a\":2}", true),
            ("{\"a\":\"\\ud800\"}", true),
            ("{\"a\":\"x\ty\"}", false),
            ("{\"a\":\"x\ny\"}", true),
            ("{\"a\":\"x\ry\"}", false),
            ("{\"a\":\t1\r}", true),
            ("{\"a\":\"\u{7f}\"}", true),
            ("{\"a\":\"\u{0}\"}", false),
            ("{\"a\":tr ue}", true),
            ("{\"a\":1 2}", true),
            ("{\"a\":\"tr\nue\"}", true),
            ("{\"a\":01}", false),
            ("{\"a\":1.}", false),
            ("{\"a\":.5}", false),
            ("{\"a\":-0}", true),
            ("{\"a\":1e400}", true),
            ("{\"a\":+1}", false),
            ("{\"a\":1,}", false),
            ("{a:1}", false),
            ("{'a':1}", false),
            ("}{", false),
            ("{", false),
            ("}", false),
            ("{}", true),
            ("{}}", false),
            ("{{}}", false),
            ("{\"a\":\"\\x41\"}", false),
            ("{\"a\":\"\\u00e9\\/\"}", true),
            ("{\"a\":\"\\u12\"}", false),
            ("{\"a\":True}", false),
            ("\u{a0}{\"a\":1}\u{2003}", true),
            ("{\"a\":\u{a0}1}", false),
            ("{\"a\":1}\u{85}", true),
            ("\u{feff}{\"a\":1}", true),
            ("[{\"a\":1}]", true),
            ("[{\"a\":1},{\"b\":2}]", false),
            ("{\"a\":\"}\"", false),
            ("{\"a\":\"{\"}", true),
            ("text } then {\"a\":1}", true),
            ("{\"a\":\u{b}1}", false),
            ("{\"a\":[1,]}", false),
            ("{\"k\":nul}", false),
            ("{\"a\":1}//}", false),
            ("{\"a\": Infinity}", true),
            ("{\"a\": infinity}", false),
            ("{\"\u{e9}\":\"\u{fc}\"}", true),
            ("{\"a\":0x1F}", false),
            ("{\"a\":\"\\u 0041\"}", true),
            ("{\"a\":1E5,\"b\":1e+5,\"c\":1e-}", false),
            ("{\"a\":\"\\ud83d\\ude00\"}", true),
            ("{\"a\":\"\\ud83d\\u0041\"}", true),
            ("{\"a\":\"\\u+123\"}", false),
            ("{\"a\":\u{661}}", false),
        ] {
            assert_eq!(json(text), Some(expected), "{text:?}");
        }
    }

    /// Results for texts that are generated because of their length.
    #[test]
    fn long_json_results_match_python() {
        for (text, expected) in [
            ("1".repeat(4300), true),
            ("1".repeat(4301), false),
            (format!("-{}", "1".repeat(4300)), true),
            (format!("{}.5", "1".repeat(5000)), true),
            (format!("{}{}", "[".repeat(900), "]".repeat(900)), true),
            (format!("{}{}", "[".repeat(1100), "]".repeat(1100)), false),
        ] {
            assert_eq!(
                json(&format!("{{\"a\":{text}}}")),
                Some(expected),
                "{} bytes",
                text.len()
            );
        }
    }

    /// Results of `regex.match` of the package `regex` 2026.5.9.
    #[test]
    fn regex_results_match_python() {
        for (pattern, text, expected) in [
            ("\\w+@\\w+\\.com\\n", "turing@enigma.com\n", true),
            ("\\w+@\\w+\\.com\\n", "turing@enigma.com\nand more", true),
            ("\\w+@\\w+\\.com\\n", "turing@enigma.com", false),
            ("a$", "a\n", true),
            ("a$", "a\n\n", false),
            ("a\\Z", "a\n", false),
            ("^b", "ab", false),
            ("", "anything", true),
            ("\\w+", "\u{301}", true),
            ("\\w", "\u{b2}", false),
            ("\\s", "\u{1c}", false),
            ("\\s", "\u{85}", true),
            ("\\d", "\u{663}", true),
            ("(?i)YES", "yes!", true),
            ("a{,2}b", "aab", true),
            ("a{,}b", "aaab", true),
            ("(a)\\1", "aab", true),
            ("a++b", "aab", true),
            ("(?=.*\\d)\\w+", "ab1", true),
            ("(?<=a)b", "ab", false),
            ("\\p{L}", "\u{e9}", true),
            ("x|", "y", true),
            ("(?s)a.b", "a\nb", true),
            ("a.b", "a\nb", false),
            ("[[a]+$", "[a[", true),
            ("\\bfoo", "foo bar", true),
            ("[^]a]", "b", true),
            ("\\x41\\u0042", "ABC", true),
            ("(?x)a b # c", "ab", true),
            ("(?P<q>[\"'])x(?P=q)", "\"x\"", true),
        ] {
            let constraint = Constraint::Regex(pattern.into());
            assert_eq!(
                vllm_correct(&constraint, text),
                Some(expected),
                "{pattern:?} on {text:?}"
            );
        }
    }

    #[test]
    fn choices_are_compared_and_grammars_are_not_judged() {
        let choices = Constraint::Choice(["Positive".to_owned(), "Negative".to_owned()].into());
        assert_eq!(vllm_correct(&choices, "Positive"), Some(true));
        assert_eq!(vllm_correct(&choices, "Positive "), Some(false));
        let grammar = Constraint::Grammar {
            dialect: GrammarDialect::Ebnf,
            text: "root ::= \"a\"".into(),
        };
        assert_eq!(vllm_correct(&grammar, "a"), None);
        assert_eq!(vllm_correct(&Constraint::Regex("(".into()), "a"), None);
    }
}
