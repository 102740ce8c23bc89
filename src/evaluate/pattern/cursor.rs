//! A place in a pattern, and the escapes that stand for one character. Part of `pattern`; knows no groups and no repetition.

use super::Dialect;

/// A pattern being read from left to right.
pub(super) struct Cursor {
    chars: Vec<char>,
    at: usize,
    pub dialect: Dialect,
}

impl Cursor {
    pub(super) fn new(pattern: &str, dialect: Dialect) -> Self {
        Self { chars: pattern.chars().collect(), at: 0, dialect }
    }

    pub(super) fn position(&self) -> usize {
        self.at
    }

    pub(super) fn rewind(&mut self, position: usize) {
        self.at = position;
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let character = self.peek();
        self.at += usize::from(character.is_some());
        character
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.peek_past(0)
    }

    /// The character `distance` after the one that comes next.
    pub(super) fn peek_past(&self, distance: usize) -> Option<char> {
        self.chars.get(self.at + distance).copied()
    }

    /// Takes `text` if it comes next.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(distance, expected)| self.peek_past(distance) == Some(expected));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// Takes characters as long as they are `wanted`, `most` at most.
    pub(super) fn take_while(&mut self, most: usize, wanted: impl Fn(char) -> bool) -> String {
        let taken: String = self.chars[self.at..].iter().copied().take(most).take_while(|character| wanted(*character)).collect();
        self.at += taken.chars().count();
        taken
    }

    /// Takes everything up to `end`, and `end`.
    pub(super) fn until(&mut self, end: char) -> Result<String, String> {
        let text = self.take_while(usize::MAX, |character| character != end);
        match self.next() {
            Some(_) => Ok(text),
            None => Err(format!("missing {end}")),
        }
    }

    /// `\p{..}` or `\pL`, passed on as it is; the cursor is after `letter`, which is `p` or `P`.
    pub(super) fn property(&mut self, letter: char) -> Result<String, String> {
        if self.take("{") {
            return Ok(format!("\\{letter}{{{}}}", self.until('}')?));
        }
        match self.next() {
            Some(category) if category.is_ascii_alphabetic() && self.dialect != Dialect::Ecma => {
                Ok(format!("\\{letter}{category}"))
            }
            _ => Err(format!("bad escape \\{letter}")),
        }
    }

    /// The character that a backslash and `letter` stand for, other than classes, assertions and back-references; the cursor is
    /// after `letter`.
    pub(super) fn character_escape(&mut self, letter: char) -> Result<char, String> {
        let python = self.dialect != Dialect::Ecma;
        match letter {
            'f' => Ok('\u{c}'),
            'n' => Ok('\n'),
            'r' => Ok('\r'),
            't' => Ok('\t'),
            'v' => Ok('\u{b}'),
            'a' if python => Ok('\u{7}'),
            'c' if !python => self.control_escape(),
            '0' if !python && !self.peek().is_some_and(|digit| digit.is_ascii_digit()) => Ok('\0'),
            '0'..='7' if python => {
                self.at -= 1;
                self.octal_escape()
            }
            'x' => self.hex_escape(2),
            'u' if python => self.hex_escape(4),
            'u' => self.unicode_escape(),
            'U' if python => self.hex_escape(8),
            _ if letter.is_ascii_alphanumeric() => Err(format!("bad escape \\{letter}")),
            _ => Ok(letter),
        }
    }

    /// ECMAScript's `\cJ`.
    fn control_escape(&mut self) -> Result<char, String> {
        match self.next() {
            Some(letter) if letter.is_ascii_alphabetic() => Ok(char::from(letter as u8 % 32)),
            _ => Err("bad escape \\c".to_owned()),
        }
    }

    /// Up to three octal digits.
    fn octal_escape(&mut self) -> Result<char, String> {
        let digits = self.take_while(3, |digit| ('0'..='7').contains(&digit));
        match u32::from_str_radix(&digits, 8) {
            Ok(number) if number <= 0o377 => char::from_u32(number).ok_or_else(|| format!("bad escape \\{digits}")),
            _ => Err(format!("bad escape \\{digits}")),
        }
    }

    fn hex_escape(&mut self, digits: usize) -> Result<char, String> {
        let number = self.hex_number(digits)?;
        char::from_u32(number).ok_or_else(|| format!("no text has a character of the number {number:x}"))
    }

    /// ECMAScript's `\u{1f600}`, or four digits, or two times four for a surrogate pair.
    fn unicode_escape(&mut self) -> Result<char, String> {
        if self.take("{") {
            let digits = self.until('}')?;
            let number = u32::from_str_radix(&digits, 16).map_err(|_| format!("bad escape \\u{{{digits}}}"))?;
            return char::from_u32(number).ok_or_else(|| format!("no text has a character of the number {number:x}"));
        }
        let start = self.at;
        let unit = self.hex_number(4)?;
        if (0xd800..0xdc00).contains(&unit) && self.take("\\u") {
            let low = self.hex_number(4)?;
            if (0xdc00..0xe000).contains(&low) {
                let scalar = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(scalar).expect("a surrogate pair is a scalar value"));
            }
        }
        self.at = start;
        self.hex_escape(4)
    }

    fn hex_number(&mut self, digits: usize) -> Result<u32, String> {
        let text = self.take_while(digits, |digit| digit.is_ascii_hexdigit());
        if text.len() != digits {
            return Err(format!("an escape with too few digits: {text}"));
        }
        Ok(u32::from_str_radix(&text, 16).expect("eight hexadecimal digits fit"))
    }
}
