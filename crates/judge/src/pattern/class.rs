//! Character classes and word boundaries in the syntax of Rust's regex engines.

use super::Dialect;
use sobench_grammar::pattern::Member;

/// `WhiteSpace` and `LineTerminator` of ECMA-262.
const ECMA_WHITE_SPACE: &str = concat!(
    "\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}",
    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}"
);

/// Converts a character class.
pub(super) fn class(negated: bool, members: &[Member], dialect: Dialect) -> String {
    let converted: String = members
        .iter()
        .map(|member| class_member(member, dialect))
        .collect();
    match (negated, members) {
        (false, []) => "[^\\x{0}-\\x{10ffff}]".to_owned(),
        (true, []) => "(?s:.)".to_owned(),
        (false, _) => format!("[{converted}]"),
        (true, _) => format!("[^{converted}]"),
    }
}

/// Converts a class member, for use inside brackets.
fn class_member(member: &Member, dialect: Dialect) -> String {
    match member {
        Member::Character(character) => literal(*character),
        Member::Range(low, high) => format!("{}-{}", literal(*low), literal(*high)),
        Member::Set { letter, ascii } if letter.is_ascii_uppercase() => {
            format!("[^{}]", shorthand_set(*letter, *ascii, dialect))
        }
        Member::Set { letter, ascii } => shorthand_set(*letter, *ascii, dialect).to_owned(),
        Member::Property(property) => property.clone(),
    }
}

/// Escapes `character` so that it is literal inside and outside of brackets in every engine.
pub(super) fn literal(character: char) -> String {
    if character.is_ascii_alphanumeric() {
        character.to_string()
    } else {
        format!("\\x{{{:x}}}", u32::from(character))
    }
}

/// The characters of `\d`, `\s` or `\w` (in either case of the letter), for use inside brackets.
///
/// CPython: `\w` is `str.isalnum()` or `_`, which are exactly the categories L and N; `\s` is
/// `str.isspace()`, which is Unicode's white space and U+001C to U+001F. ECMA-262: ASCII, save for
/// white space, which is `WhiteSpace` and `LineTerminator`.
fn shorthand_set(letter: char, ascii: bool, dialect: Dialect) -> &'static str {
    let ascii = ascii || dialect == Dialect::Ecma;
    match (letter.to_ascii_lowercase(), dialect) {
        ('d', _) if ascii => "0-9",
        ('d', _) => "\\d",
        ('s', Dialect::Ecma) => ECMA_WHITE_SPACE,
        ('s', _) if ascii => "\\x{9}-\\x{d}\\x{20}",
        ('s', Dialect::Re) => "\\s\\x{1c}-\\x{1f}",
        ('s', _) => "\\s",
        (_, _) if ascii => "0-9A-Za-z_",
        (_, Dialect::Re) => "\\p{L}\\p{N}_",
        (_, _) => "\\w",
    }
}

/// `\b`, or `\B` if `negated`, with the word characters of `re`, for engines with another
/// definition.
pub(super) fn boundary(negated: bool, ascii: bool) -> String {
    let word = format!("[{}]", shorthand_set('w', ascii, Dialect::Re));
    let (start, end) = if negated {
        ("(?=", "(?!")
    } else {
        ("(?!", "(?=")
    };
    format!("(?:(?<={word}){start}{word})|(?<!{word}){end}{word}))")
}
