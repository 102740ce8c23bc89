//! Reduction of a constraint and a text: removes keywords, members and pieces while a failure
//! reproduces. Whether it does is for the caller to find out.

pub mod constraint;
pub mod elements;
pub mod keywords;
pub mod respell;
pub mod schema;
pub mod search;
pub mod tag;

use std::sync::Arc;

use sobench_core::constraint::Constraint;

/// Maximum passes over all pieces.
const MAX_ROUNDS: usize = 8;

/// Tries smaller constraints and texts, within a limit.
pub trait Attempts {
    /// Whether this constraint and this text show the failure.
    fn reproduces(&mut self, constraint: &Constraint, text: &[u8]) -> bool;

    /// Whether more may be tried.
    fn are_left(&self) -> bool;
}

/// The smallest constraint and text that show the failure, starting from these; `None` if these do
/// not.
pub fn smallest(
    attempts: &mut impl Attempts,
    constraint: Constraint,
    text: Vec<u8>,
) -> Option<(Constraint, Vec<u8>)> {
    if !attempts.reproduces(&constraint, &text) {
        return None;
    }
    let mut reduced = Reduced {
        attempts,
        constraint,
        text,
    };
    for _ in 0..MAX_ROUNDS {
        let deeper = reduced.narrow_to_part();
        let smaller_schema = reduced.reduce(|constraint, number| {
            let schema = schema::without_piece(constraint.schema()?, number)?;
            Some(Constraint::JsonSchema(schema.into()))
        });
        let is_plainer = reduced.reduce(constraint::reduced_constraint);
        let smaller_text = reduced.shorten_text();
        if !(deeper || smaller_schema || is_plainer || smaller_text) || !reduced.attempts.are_left()
        {
            break;
        }
    }
    reduced.shorten_names();
    Some((reduced.constraint, reduced.text))
}

/// The smallest so far.
struct Reduced<'a, A> {
    attempts: &'a mut A,
    constraint: Constraint,
    text: Vec<u8>,
}

impl<A: Attempts> Reduced<'_, A> {
    /// Reduces to a single member or item while the failure reproduces; returns whether it did.
    fn narrow_to_part(&mut self) -> bool {
        let mut is_smaller = false;
        while let Some(schema) = self.constraint.schema()
            && self.attempts.are_left()
        {
            let mut parts = schema::subschemas(schema, &self.text)
                .into_iter()
                .map(|(schema, text)| (Constraint::JsonSchema(Arc::new(schema)), text));
            let Some((part, text)) =
                parts.find(|(part, text)| self.attempts.reproduces(part, text))
            else {
                break;
            };
            (self.constraint, self.text, is_smaller) = (part, text, true);
        }
        is_smaller
    }

    /// Shortens long names and values.
    fn shorten_names(&mut self) {
        let schema = self.constraint.schema();
        let short = schema.and_then(|schema| schema::with_short_names(schema, &self.text));
        let Some((schema, text)) = short else {
            return;
        };
        let constraint = Constraint::JsonSchema(Arc::new(schema));
        if self.attempts.reproduces(&constraint, &text) {
            (self.constraint, self.text) = (constraint, text);
        }
    }

    /// Tries one candidate after another and continues from each that shows the failure; returns
    /// whether there was any.
    fn reduce(&mut self, candidate: impl Fn(&Constraint, usize) -> Option<Constraint>) -> bool {
        let mut is_smaller = false;
        let mut next = 0;
        while self.attempts.are_left() {
            let Some(tried) = candidate(&self.constraint, next) else {
                break;
            };
            if self.attempts.reproduces(&tried, &self.text) {
                (self.constraint, is_smaller) = (tried, true);
            } else {
                next += 1;
            }
        }
        is_smaller
    }

    /// Removes pieces of the text; returns whether it did.
    fn shorten_text(&mut self) -> bool {
        let mut is_smaller = false;
        let mut next = 0;
        let is_json = self.constraint.is_json();
        while self.attempts.are_left() {
            let piece = match is_json {
                true => pieces(&self.text).into_iter().nth(next),
                false => schema::chunks(self.text.len()).into_iter().nth(next),
            };
            let Some(piece) = piece else { break };
            let text = schema::without_range(&self.text, piece);
            if self.attempts.reproduces(&self.constraint, &text) {
                (self.text, is_smaller) = (text, true);
            } else {
                next += 1;
            }
        }
        is_smaller
    }
}

/// Maximum pieces of a string or number that are tried: down to 1/32 of it.
const MAX_PIECES: usize = 62;

/// Removable pieces of a JSON text, longest first: members and items with a comma, string contents,
/// white space, and halves, quarters and so on of these and of numbers.
fn pieces(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut pieces = Vec::new();
    // Start of the current member or item of every open bracket.
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(length) = respell::piece_length(&text[at..]) {
            let end = at + length;
            let (all, is_removable) = match text[at] {
                b'"' => (at + 1..end.saturating_sub(1).max(at + 1), true),
                first => (at..end, first.is_ascii_whitespace()),
            };
            pieces.extend(subranges(all.clone()));
            pieces.extend((is_removable && !all.is_empty()).then_some(all));
            at = end;
            continue;
        }
        match text[at] {
            b'{' | b'[' => open.push(at + 1),
            byte @ (b'}' | b']' | b',') => {
                if let Some(start) = open.last_mut() {
                    if at > *start {
                        // With the comma after it, or before it for the last one.
                        let before = usize::from(byte != b',' && text[*start - 1] == b',');
                        pieces.push(*start - before..at + usize::from(byte == b','));
                    }
                    *start = at + 1;
                }
                if byte != b',' {
                    open.pop();
                }
            }
            _ => {}
        }
        at += 1;
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
    pieces
}

/// Halves, quarters and so on of a range.
fn subranges(all: std::ops::Range<usize>) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (start, length) = (all.start, all.len());
    let parts = schema::chunks(length)
        .into_iter()
        .filter(move |range| range.len() < length)
        .take(MAX_PIECES);
    parts.map(move |range| start + range.start..start + range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removable_pieces_are_members_items_and_string_parts() {
        let text = br#"{"a":[1,2],"b":"x\"yz"}"#;
        let left = |piece: std::ops::Range<usize>| {
            String::from_utf8([&text[..piece.start], &text[piece.end..]].concat()).unwrap()
        };
        let all: Vec<String> = pieces(text).into_iter().map(left).collect();
        for expected in [
            r#"{"b":"x\"yz"}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":[2],"b":"x\"yz"}"#,
            r#"{"a":[1],"b":"x\"yz"}"#,
            r#"{"a":[1,2],"b":""}"#,
            r#"{"a":[1,2],"b":"x\"y"}"#,
        ] {
            assert!(
                all.iter().any(|text| text == expected),
                "{expected} of {all:#?}"
            );
        }
        assert_eq!(schema::chunks(3), [0..2, 2..3, 0..1, 1..2, 2..3]);
        assert!(schema::chunks(0).is_empty());
        assert!(pieces(b"{\"a").iter().all(|piece| piece.end <= 3));
        let shown = |text: &'static str| -> Vec<&str> {
            pieces(text.as_bytes())
                .into_iter()
                .map(|piece| &text[piece])
                .collect()
        };
        assert_eq!(
            shown("[ \n, 2.5"),
            [" \n,", " \n", "2.", " ", "\n", " ", "5", "2", ".", "5"]
        );
    }
}
