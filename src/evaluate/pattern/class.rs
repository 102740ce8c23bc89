//! Character classes, written as Rust's regex engines spell them. Part of `pattern`; knows no groups and no repetition.

use super::Dialect;
use super::cursor::Cursor;

/// What every character belongs to, for use inside brackets.
const EVERYTHING: &str = "\\x{0}-\\x{10ffff}";

/// `WhiteSpace` and `LineTerminator` of ECMA-262.
const ECMA_WHITE_SPACE: &str =
    concat!("\\x{9}-\\x{d}\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}", "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}");

/// `character` as itself, in a spelling that means the same in and out of brackets and to every engine.
pub(super) fn literal(character: char) -> String {
    if character.is_ascii_alphanumeric() { character.to_string() } else { format!("\\x{{{:x}}}", u32::from(character)) }
}

/// `\d`, `\D`, `\s`, `\S`, `\w` or `\W` outside brackets; `ascii` is Python's flag.
pub(super) fn shorthand(letter: char, ascii: bool, dialect: Dialect) -> String {
    let members = members(letter, ascii, dialect);
    if letter.is_ascii_uppercase() { format!("[^{members}]") } else { format!("[{members}]") }
}

/// What `\d`, `\s` or `\w` contains (in either case of the letter), for use inside brackets.
///
/// CPython: `\w` is `str.isalnum()` or `_`, which are exactly the categories L and N; `\s` is `str.isspace()`, which is Unicode's
/// white space and U+001C to U+001F. ECMA-262: ASCII, save for white space, which is `WhiteSpace` and `LineTerminator`.
fn members(letter: char, ascii: bool, dialect: Dialect) -> &'static str {
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

/// `\b` or `\B` in terms of `word`, a class of one character: for engines whose own idea of a word is another one.
pub(super) fn boundary(letter: char, word: &str) -> String {
    let (start, end) = if letter == 'b' { ("(?!", "(?=") } else { ("(?=", "(?!") };
    format!("(?:(?<={word}){start}{word})|(?<!{word}){end}{word}))")
}

/// One item of a class: a character, which may begin a range, or a set.
enum Item {
    Character(char),
    Set(String),
}

impl Item {
    fn write(self) -> String {
        match self {
            Self::Character(character) => literal(character),
            Self::Set(set) => set,
        }
    }
}

/// A class; the cursor is after its opening bracket, and is left after its closing one.
pub(super) fn class(cursor: &mut Cursor, ascii: bool) -> Result<String, String> {
    let negated = cursor.take("^");
    let ecma = cursor.dialect == Dialect::Ecma;
    // Right after the opening bracket, a closing one is a character to Python, and ends an empty class in ECMAScript.
    let mut may_end = ecma;
    let mut members = String::new();
    while !(may_end && cursor.take("]")) {
        may_end = true;
        let low = item(cursor, ascii)?;
        let is_range = cursor.peek() == Some('-') && cursor.peek_past(1).is_some_and(|next| next != ']');
        if !is_range {
            members.push_str(&low.write());
            continue;
        }
        cursor.take("-");
        match (low, item(cursor, ascii)?) {
            (Item::Character(low), Item::Character(high)) if low <= high => {
                members.push_str(&format!("{}-{}", literal(low), literal(high)));
            }
            (Item::Character(low), Item::Character(high)) => return Err(format!("a bad range in a class: {low}-{high}")),
            // Annex B of ECMA-262 takes the hyphen of `[\w-.]` for a character; Python refuses it.
            (low, high) if ecma => members.push_str(&format!("{}{}{}", low.write(), literal('-'), high.write())),
            _ => return Err("a set at the end of a range in a class".to_owned()),
        }
    }
    Ok(match (negated, members.is_empty()) {
        (false, true) => format!("[^{EVERYTHING}]"),
        (true, true) => format!("[{EVERYTHING}]"),
        (false, false) => format!("[{members}]"),
        (true, false) => format!("[^{members}]"),
    })
}

fn item(cursor: &mut Cursor, ascii: bool) -> Result<Item, String> {
    let Some(character) = cursor.next() else { return Err("a class is not closed".to_owned()) };
    if character != '\\' {
        return Ok(Item::Character(character));
    }
    let Some(letter) = cursor.next() else { return Err("a backslash at the end".to_owned()) };
    match letter {
        'd' | 's' | 'w' => Ok(Item::Set(members(letter, ascii, cursor.dialect).to_owned())),
        'D' | 'S' | 'W' => Ok(Item::Set(shorthand(letter, ascii, cursor.dialect))),
        'p' | 'P' => cursor.property(letter).map(Item::Set),
        'b' => Ok(Item::Character('\u{8}')),
        _ => cursor.character_escape(letter).map(Item::Character),
    }
}
