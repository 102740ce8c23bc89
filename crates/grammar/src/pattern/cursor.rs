//! Cursor over a pattern, with escapes that denote a character or a set.

use super::{Member, Syntax};

/// A position in a pattern.
pub(super) struct Cursor<'t> {
    /// The remaining text.
    pub(super) rest: &'t str,
    pub(super) syntax: Syntax,
}

impl<'t> Cursor<'t> {
    pub(super) fn is_python(&self) -> bool {
        self.syntax != Syntax::Ecma
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let character = chars.next();
        self.rest = chars.as_str();
        character
    }

    /// Consumes `text` if it comes next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Consumes at most `most` characters while they are `wanted`.
    pub(super) fn take_while(&mut self, most: usize, wanted: impl Fn(char) -> bool) -> &'t str {
        let taken = self
            .rest
            .chars()
            .take(most)
            .take_while(|character| wanted(*character))
            .map(char::len_utf8)
            .sum();
        let (text, rest) = self.rest.split_at(taken);
        self.rest = rest;
        text
    }

    /// Consumes the text up to and including `end`.
    pub(super) fn until(&mut self, end: char) -> Result<&'t str, String> {
        let (text, rest) = self
            .rest
            .split_once(end)
            .ok_or_else(|| format!("missing {end}"))?;
        self.rest = rest;
        Ok(text)
    }

    /// Decodes the escape `letter`, except assertions and references; the cursor is after `letter`.
    pub(super) fn escape(&mut self, letter: char, ascii: bool) -> Result<Member, String> {
        match letter {
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => Ok(Member::Set { letter, ascii }),
            'p' | 'P' if self.syntax != Syntax::Python => self.property(letter),
            'N' if self.syntax == Syntax::Python && self.take("{") => {
                Ok(Member::Property(format!("\\N{{{}}}", self.until('}')?)))
            }
            _ => self.character(letter).map(Member::Character),
        }
    }

    /// `\p{..}` or `\pL`.
    fn property(&mut self, letter: char) -> Result<Member, String> {
        if self.take("{") {
            return Ok(Member::Property(format!(
                "\\{letter}{{{}}}",
                self.until('}')?
            )));
        }
        match self.next() {
            Some(category) if category.is_ascii_alphabetic() && self.is_python() => {
                Ok(Member::Property(format!("\\{letter}{category}")))
            }
            _ => Err(format!("bad escape \\{letter}")),
        }
    }

    fn character(&mut self, letter: char) -> Result<char, String> {
        let python = self.is_python();
        match letter {
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\u{b}'),
            'a' if python => Ok('\u{7}'),
            'c' if !python => match self.next() {
                Some(letter) if letter.is_ascii_alphabetic() => Ok(char::from(letter as u8 % 32)),
                _ => Err("bad escape \\c".to_owned()),
            },
            '0' if !python && !self.rest.starts_with(|digit: char| digit.is_ascii_digit()) => {
                Ok('\0')
            }
            '0'..='7' if python => {
                let digits = format!(
                    "{letter}{}",
                    self.take_while(2, |digit| ('0'..='7').contains(&digit))
                );
                let number = u8::from_str_radix(&digits, 8);
                number
                    .map(char::from)
                    .map_err(|_| format!("bad escape \\{digits}"))
            }
            'x' => self.hex_number(2).and_then(|number| self.scalar(number)),
            'u' if python => self.hex_number(4).and_then(|number| self.scalar(number)),
            'u' => self.unicode_escape(),
            'U' if python => self.hex_number(8).and_then(|number| self.scalar(number)),
            _ if letter.is_ascii_alphanumeric() => Err(format!("bad escape \\{letter}")),
            _ => Ok(letter),
        }
    }

    /// ECMAScript's `\u{1f600}`, four digits, or two groups of four for a surrogate pair.
    fn unicode_escape(&mut self) -> Result<char, String> {
        if self.take("{") {
            let digits = self.until('}')?;
            let number =
                u32::from_str_radix(digits, 16).map_err(|_| format!("bad escape \\u{{{digits}}}"));
            return number.and_then(|number| self.scalar(number));
        }
        let unit = self.hex_number(4)?;
        if (0xd800..0xdc00).contains(&unit) && self.take("\\u") {
            let low = self.hex_number(4)?;
            if (0xdc00..0xe000).contains(&low) {
                return self.scalar(0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
            }
        }
        self.scalar(unit)
    }

    fn hex_number(&mut self, digits: usize) -> Result<u32, String> {
        let text = self.take_while(digits, |digit| digit.is_ascii_hexdigit());
        if text.len() != digits {
            return Err(format!("escape with too few digits: {text}"));
        }
        Ok(u32::from_str_radix(text, 16).expect("eight hexadecimal digits fit"))
    }

    fn scalar(&self, number: u32) -> Result<char, String> {
        match char::from_u32(number) {
            Some(character) => Ok(character),
            // Python strings may contain surrogates, Rust strings do not.
            None if self.syntax == Syntax::Python && number <= u32::from(char::MAX) => {
                Ok(char::REPLACEMENT_CHARACTER)
            }
            None => Err(format!("not a Unicode scalar: {number:x}")),
        }
    }
}
