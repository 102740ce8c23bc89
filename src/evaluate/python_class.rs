//! Character classes and escapes of Python's `re`, written as Rust's regex engines spell them. Part of `python_re.rs`; knows no
//! groups and no repetition.

use super::python_re::{Flags, Flavour};

/// `character` as itself, in a spelling that means the same in and out of brackets and to every engine.
pub(super) fn literal(character: char) -> String {
    if character.is_ascii_alphanumeric() { character.to_string() } else { format!("\\x{{{:x}}}", u32::from(character)) }
}

/// `\d`, `\D`, `\s`, `\S`, `\w` or `\W` outside brackets.
pub(super) fn shorthand(letter: char, flags: Flags, flavour: Flavour) -> String {
    let members = members(letter, flags, flavour);
    if letter.is_ascii_uppercase() { format!("[^{members}]") } else { format!("[{members}]") }
}

/// What `\d`, `\s` or `\w` contains (in either case of the letter), for use inside brackets.
///
/// CPython: `\w` is `str.isalnum()` or `_`, which are exactly the categories L and N; `\s` is `str.isspace()`, which is Unicode's
/// white space and U+001C to U+001F.
fn members(letter: char, flags: Flags, flavour: Flavour) -> &'static str {
    match (letter.to_ascii_lowercase(), flags.ascii, flavour) {
        ('d', true, _) => "0-9",
        ('d', false, _) => "\\d",
        ('s', true, _) => "\\x{9}-\\x{d}\\x{20}",
        ('s', false, Flavour::Re) => "\\s\\x{1c}-\\x{1f}",
        ('s', false, Flavour::RegexPackage) => "\\s",
        (_, true, _) => "0-9A-Za-z_",
        (_, false, Flavour::Re) => "\\p{L}\\p{N}_",
        (_, false, Flavour::RegexPackage) => "\\w",
    }
}

/// `\pL` or `\p{..}`, which `re` does not have and every engine takes; `at` is after the letter `p` or `P`.
pub(super) fn property(chars: &[char], at: &mut usize, letter: char) -> Result<String, String> {
    let rest = &chars[*at..];
    let length = match rest.first() {
        Some('{') => rest.iter().position(|character| *character == '}').ok_or("missing } after \\p")? + 1,
        Some(category) if category.is_ascii_alphabetic() => 1,
        _ => return Err(format!("bad escape \\{letter}")),
    };
    *at += length;
    Ok(format!("\\{letter}{}", rest[..length].iter().collect::<String>()))
}

/// The character that `\` and `letter` stand for, other than classes, assertions and numbers; `at` is after `letter`.
pub(super) fn character_escape(chars: &[char], at: &mut usize, letter: char) -> Result<char, String> {
    let digits = match letter {
        'a' => return Ok('\u{7}'),
        'f' => return Ok('\u{c}'),
        'n' => return Ok('\n'),
        'r' => return Ok('\r'),
        't' => return Ok('\t'),
        'v' => return Ok('\u{b}'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ if letter.is_ascii_alphanumeric() => return Err(format!("bad escape \\{letter}")),
        _ => return Ok(letter),
    };
    let text: String = chars[*at..].iter().take(digits).collect();
    if text.len() != digits || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(format!("bad escape \\{letter}{text}"));
    }
    *at += digits;
    let number = u32::from_str_radix(&text, 16).expect("eight hexadecimal digits fit");
    char::from_u32(number).ok_or_else(|| format!("no character has the number {text}"))
}

/// Up to three octal digits from `at` on.
pub(super) fn octal_escape(chars: &[char], at: &mut usize) -> Result<char, String> {
    let digits: Vec<u32> = chars[*at..].iter().take(3).map_while(|digit| digit.to_digit(8)).collect();
    *at += digits.len();
    let number = digits.iter().fold(0, |number, digit| number * 8 + digit);
    match char::from_u32(number) {
        Some(character) if !digits.is_empty() && number <= 0o377 => Ok(character),
        _ => Err(format!("an octal escape over \\377: \\{number:o}")),
    }
}

/// One item of a class: a character, which may begin a range, or a set.
enum Item {
    Character(char),
    Set(String),
}

/// A class; `at` is after its opening bracket, and is left after its closing one.
pub(super) fn class(chars: &[char], at: &mut usize, flags: Flags, flavour: Flavour) -> Result<String, String> {
    let mut out = String::from("[");
    if chars.get(*at) == Some(&'^') {
        out.push('^');
        *at += 1;
    }
    let first = *at;
    loop {
        let start = *at;
        let Some(character) = chars.get(start) else { return Err("a class is not closed".to_owned()) };
        // Right after the opening bracket, a closing one is a character.
        if *character == ']' && start > first {
            *at += 1;
            out.push(']');
            return Ok(out);
        }
        let low = item(chars, at, flags, flavour)?;
        let is_range = chars.get(*at) == Some(&'-') && chars.get(*at + 1).is_some_and(|next| *next != ']');
        if !is_range {
            match low {
                Item::Character(character) => out.push_str(&literal(character)),
                Item::Set(set) => out.push_str(&set),
            }
            continue;
        }
        *at += 1;
        match (low, item(chars, at, flags, flavour)?) {
            (Item::Character(low), Item::Character(high)) if low <= high => {
                out.push_str(&format!("{}-{}", literal(low), literal(high)));
            }
            _ => return Err(format!("a bad range in a class: {}", chars[start..*at].iter().collect::<String>())),
        }
    }
}

fn item(chars: &[char], at: &mut usize, flags: Flags, flavour: Flavour) -> Result<Item, String> {
    let character = chars[*at];
    *at += 1;
    if character != '\\' {
        return Ok(Item::Character(character));
    }
    let Some(letter) = chars.get(*at).copied() else { return Err("a backslash at the end".to_owned()) };
    *at += 1;
    match letter {
        'd' | 's' | 'w' => Ok(Item::Set(members(letter, flags, flavour).to_owned())),
        'D' | 'S' | 'W' => Ok(Item::Set(shorthand(letter, flags, flavour))),
        'p' | 'P' => property(chars, at, letter).map(Item::Set),
        'b' => Ok(Item::Character('\u{8}')),
        '0'..='7' => {
            *at -= 1;
            octal_escape(chars, at).map(Item::Character)
        }
        _ => character_escape(chars, at, letter).map(Item::Character),
    }
}
