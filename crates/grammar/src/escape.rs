//! Decodes escapes in strings and character classes of each notation.

use super::charset::CharSet;
use super::error::{GrammarError, Position};

/// Iterates over the scalars of a string or class after decoding escapes.
struct Scalars<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    position: Position<'t>,
    dialect: Escapes,
}

/// The set of escapes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    /// Strings of EBNF (xgrammar, GBNF): C's escapes, `\xHH`, `\uHHHH`, `\UHHHHHHHH`.
    Ebnf,
    /// Character classes of EBNF: the same, and punctuation as in regular expressions.
    EbnfClass,
    /// Strings of Lark as in llguidance: JSON's escapes and `\xHH`, plus `\U` of stock Lark.
    Lark,
}

/// Decodes an EBNF string, given without its quotes.
pub(super) fn ebnf_text(inner: &str, position: Position<'_>) -> Result<String, GrammarError> {
    Scalars::new(inner, position, Escapes::Ebnf).collect()
}

/// Decodes a Lark string, given without its quotes.
pub(super) fn lark_text(inner: &str, position: Position<'_>) -> Result<String, GrammarError> {
    Scalars::new(inner, position, Escapes::Lark).collect()
}

/// Parses an EBNF character class, given without its brackets.
///
/// As in xgrammar and GBNF, `-` is literal at either end and after a range, and `^` negates only at
/// the start.
pub(super) fn ebnf_class(inner: &str, position: Position<'_>) -> Result<CharSet, GrammarError> {
    let (negated, inner) = match inner.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, inner),
    };
    if inner.is_empty() {
        return Err(
            position.unsupported("empty character class, which engines interpret differently")
        );
    }
    let mut ranges = Vec::new();
    let mut scalars = Scalars::new(inner, position, Escapes::EbnfClass);
    while let Some(first) = scalars.next().transpose()? {
        let mut last = first;
        if scalars.at_range() {
            scalars.rest.next();
            last = scalars
                .next()
                .transpose()?
                .expect("a range has an upper end");
        }
        if last < first {
            return Err(position.syntax(format!("reversed character range: {first}-{last}")));
        }
        ranges.push((u32::from(first), u32::from(last)));
    }
    let set = CharSet::new(ranges);
    Ok(if negated { set.complement() } else { set })
}

impl<'t> Scalars<'t> {
    fn new(inner: &'t str, position: Position<'t>, dialect: Escapes) -> Self {
        Self {
            rest: inner.chars().peekable(),
            position,
            dialect,
        }
    }

    /// Whether a `-` follows, with something after it.
    fn at_range(&self) -> bool {
        let mut ahead = self.rest.clone();
        ahead.next() == Some('-') && ahead.next().is_some()
    }

    fn escape(&mut self) -> Result<char, GrammarError> {
        let Some(letter) = self.rest.next() else {
            return Err(self.position.syntax("backslash at the end"));
        };
        match letter {
            '"' | '\\' => return Ok(letter),
            'n' => return Ok('\n'),
            'r' => return Ok('\r'),
            't' => return Ok('\t'),
            'b' => return Ok('\u{8}'),
            'f' => return Ok('\u{c}'),
            '/' => return Ok('/'),
            'x' => return self.hex_byte(),
            'u' => return self.unicode(4),
            'U' => return self.unicode(8),
            _ => {}
        }
        match (self.dialect, letter) {
            (Escapes::Ebnf | Escapes::EbnfClass, 'a') => Ok('\u{7}'),
            (Escapes::Ebnf | Escapes::EbnfClass, 'v') => Ok('\u{b}'),
            (Escapes::Ebnf | Escapes::EbnfClass, 'e') => Ok('\u{1b}'),
            (Escapes::Ebnf | Escapes::EbnfClass, '0') => Ok('\0'),
            (Escapes::Ebnf | Escapes::EbnfClass, '\'' | '?' | '[' | ']' | '-') => Ok(letter),
            (Escapes::EbnfClass, '^' | '$' | '.' | '*' | '+' | '(' | ')' | '{' | '}' | '|') => {
                Ok(letter)
            }
            _ => Err(self.position.syntax(format!("unknown escape: \\{letter}"))),
        }
    }

    /// Two hex digits. A third digit is ambiguous: xgrammar reads all hex digits, llama.cpp two.
    fn hex_byte(&mut self) -> Result<char, GrammarError> {
        let value = self.hex(2)?;
        if self.dialect != Escapes::Lark && self.rest.peek().is_some_and(char::is_ascii_hexdigit) {
            return Err(self.position.unsupported(
                "\\xHH followed by a hex digit, which engines interpret differently",
            ));
        }
        Ok(char::from_u32(value).expect("two hex digits are a scalar"))
    }

    /// A code point of `digits` hex digits; in Lark also a surrogate pair, as in JSON.
    fn unicode(&mut self, digits: usize) -> Result<char, GrammarError> {
        let mut value = self.hex(digits)?;
        if self.dialect == Escapes::Lark && (0xD800..0xDC00).contains(&value) {
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('\\') && ahead.next() == Some('u') {
                self.rest = ahead;
                let low = self.hex(4)?;
                value = if (0xDC00..0xE000).contains(&low) {
                    0x1_0000 + ((value - 0xD800) << 10) + (low - 0xDC00)
                } else {
                    value
                };
            }
        }
        char::from_u32(value).ok_or_else(|| {
            self.position
                .syntax(format!("escape is not a Unicode scalar: {value:x}"))
        })
    }

    fn hex(&mut self, digits: usize) -> Result<u32, GrammarError> {
        let mut value = 0;
        for _ in 0..digits {
            match self.rest.next().and_then(|digit| digit.to_digit(16)) {
                Some(digit) => value = (value << 4) | digit,
                None => {
                    return Err(self
                        .position
                        .syntax(format!("escape with fewer than {digits} hex digits")));
                }
            }
        }
        Ok(value)
    }
}

impl Iterator for Scalars<'_> {
    type Item = Result<char, GrammarError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(match self.rest.next()? {
            '\\' => self.escape(),
            scalar => Ok(scalar),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::tests::end_of;
    use super::*;

    #[test]
    fn escapes_of_strings_are_decoded() {
        for (inner, ebnf, lark) in [
            ("a-b", Some("a-b"), Some("a-b")),
            (r#"\n\t\r\\\""#, Some("\n\t\r\\\""), Some("\n\t\r\\\"")),
            (r"\x41\u00e9\U0001F600", Some("Aé😀"), Some("Aé😀")),
            (r"\ud83d\ude00", None, Some("😀")),
            (r"\ud83d", None, None),
            (r"\ud83d\u0041", None, None),
            (r"\0\e\'\[", Some("\0\u{1b}'["), None),
            (r"\x4g", None, None),
            (r"\x411", None, Some("A1")),
            (r"\d", None, None),
            ("\\", None, None),
        ] {
            assert_eq!(
                ebnf_text(inner, end_of("")).ok().as_deref(),
                ebnf,
                "EBNF {inner}"
            );
            assert_eq!(
                lark_text(inner, end_of("")).ok().as_deref(),
                lark,
                "Lark {inner}"
            );
        }
    }

    #[test]
    fn dashes_at_the_ends_of_classes_are_literal() {
        let set = |text: &str| {
            Some(CharSet::new(
                text.chars()
                    .map(|scalar| (u32::from(scalar), u32::from(scalar))),
            ))
        };
        for (inner, expected) in [
            ("abc", set("abc")),
            ("a-c", set("abc")),
            ("a-", set("a-")),
            ("-a", set("-a")),
            ("a-c-e", set("abc-e")),
            ("+--", set("+,-")),
            (r"\]\\\-x", set("]\\-x")),
            (r"\x41-\x43", set("ABC")),
            ("^a-z", Some(CharSet::new([(97, 122)]).complement())),
            ("c-a", None),
            ("^", None),
            ("", None),
            (r"\d", None),
        ] {
            assert_eq!(ebnf_class(inner, end_of("")).ok(), expected, "{inner}");
        }
    }
}
