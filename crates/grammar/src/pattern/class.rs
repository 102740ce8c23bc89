//! Classes of characters in brackets.

use super::cursor::Cursor;
use super::{Member, Token};

/// A class; the cursor is after its opening bracket, and is left after its closing one.
pub(super) fn class(cursor: &mut Cursor<'_>, ascii: bool) -> Result<Token, String> {
    let negated = cursor.take("^");
    // Right after the opening bracket, a closing one is a character to Python, and ends an empty
    // class in ECMAScript.
    let mut may_end = !cursor.is_python();
    let mut members = Vec::new();
    while !(may_end && cursor.take("]")) {
        may_end = true;
        let low = member(cursor, ascii)?;
        let is_range = cursor
            .rest
            .strip_prefix('-')
            .is_some_and(|after| !after.is_empty() && !after.starts_with(']'));
        if !is_range {
            members.push(low);
            continue;
        }
        cursor.take("-");
        match (low, member(cursor, ascii)?) {
            (Member::Character(low), Member::Character(high)) if low <= high => {
                members.push(Member::Range(low, high))
            }
            (Member::Character(low), Member::Character(high)) => {
                return Err(format!("a bad range in a class: {low}-{high}"));
            }
            // Annex B of ECMA-262 takes the hyphen of `[\w-.]` for a character; Python refuses it.
            (low, high) if !cursor.is_python() => {
                members.extend([low, Member::Character('-'), high])
            }
            _ => return Err("a set at the end of a range in a class".to_owned()),
        }
    }
    Ok(Token::Class { negated, members })
}

fn member(cursor: &mut Cursor<'_>, ascii: bool) -> Result<Member, String> {
    match cursor.next() {
        None => Err("a class is not closed".to_owned()),
        Some('\\') => match cursor.next() {
            None => Err("a backslash at the end".to_owned()),
            Some('b') => Ok(Member::Character('\u{8}')),
            Some(letter) => cursor.escape(letter, ascii),
        },
        Some(character) => Ok(Member::Character(character)),
    }
}
