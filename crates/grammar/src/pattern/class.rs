//! Parses bracketed character classes.

use super::cursor::Cursor;
use super::{Member, Token};

/// Parses a class; the cursor is after its opening bracket, and ends after its closing one.
pub(super) fn class(cursor: &mut Cursor<'_>, ascii: bool) -> Result<Token, String> {
    let negated = cursor.take("^");
    // Directly after the opening bracket, a closing bracket is literal in Python and ends an empty
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
                members.push(Member::Range(low, high));
            }
            (Member::Character(low), Member::Character(high)) => {
                return Err(format!("reversed range in a class: {low}-{high}"));
            }
            // Annex B of ECMA-262 treats the hyphen of `[\w-.]` as literal; Python refuses it.
            (low, high) if !cursor.is_python() => {
                members.extend([low, Member::Character('-'), high]);
            }
            _ => return Err("range in a class ends in a set".to_owned()),
        }
    }
    Ok(Token::Class { negated, members })
}

fn member(cursor: &mut Cursor<'_>, ascii: bool) -> Result<Member, String> {
    match cursor.next() {
        None => Err("unclosed class".to_owned()),
        Some('\\') => match cursor.next() {
            None => Err("backslash at the end".to_owned()),
            Some('b') => Ok(Member::Character('\u{8}')),
            Some(letter) => cursor.escape(letter, ascii),
        },
        Some(character) => Ok(Member::Character(character)),
    }
}
