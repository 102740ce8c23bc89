//! The terminals of `%import common.NAME` in Lark grammars.
//!
//! The names are those of Lark's `common.lark`; the languages are those of llguidance's table of
//! them (ASCII letters; escaped strings that may span lines), because servers that support Lark
//! enforce those. `tests/it/grammars.rs` compares the two.

/// Names and regular expressions; `<NAME>` refers to an earlier entry.
const COMMON: &[(&str, &str)] = &[
    ("DIGIT", "[0-9]"),
    ("HEXDIGIT", "[0-9A-Fa-f]"),
    ("INT", "<DIGIT>+"),
    ("SIGNED_INT", "[+-]?<INT>"),
    ("DECIMAL", r"(<INT>\.<INT>?|\.<INT>)"),
    ("_EXP", "[eE]<SIGNED_INT>"),
    ("FLOAT", "(<INT><_EXP>|<DECIMAL><_EXP>?)"),
    ("SIGNED_FLOAT", "[+-]?<FLOAT>"),
    ("NUMBER", "(<FLOAT>|<INT>)"),
    ("SIGNED_NUMBER", "[+-]?<NUMBER>"),
    ("ESCAPED_STRING", r#""([^"\\]|\\.)*""#),
    ("LCASE_LETTER", "[a-z]"),
    ("UCASE_LETTER", "[A-Z]"),
    ("LETTER", "[A-Za-z]"),
    ("WORD", "<LETTER>+"),
    ("CNAME", "[A-Z_a-z][0-9A-Z_a-z]*"),
    ("WS_INLINE", r"[ \t]+"),
    ("WS", r"[ \t\f\r\n]+"),
    ("CR", r"\r"),
    ("LF", r"\n"),
    ("NEWLINE", r"(\r?\n)+"),
    ("SH_COMMENT", r"#[^\n]*"),
    ("CPP_COMMENT", r"//[^\n]*"),
    ("C_COMMENT", r"/\*([^*]|\*+[^*/])*\*+/"),
    ("SQL_COMMENT", r"--[^\n]*"),
];

/// The regular expression of a common terminal, with references expanded.
pub(super) fn pattern(name: &str) -> Option<String> {
    let index = COMMON.iter().position(|(known, _)| *known == name)?;
    let mut pattern = COMMON[index].1.to_owned();
    for (earlier, expansion) in COMMON[..index].iter().rev() {
        pattern = pattern.replace(&format!("<{earlier}>"), &format!("(?:{expansion})"));
    }
    Some(pattern)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_closed() {
        for (name, _) in COMMON {
            let pattern = pattern(name).unwrap();
            assert!(!pattern.contains('<'), "{name}: {pattern}");
            assert!(regex_syntax::parse(&pattern).is_ok(), "{name}: {pattern}");
        }
        assert_eq!(pattern("NOPE"), None);
    }
}
