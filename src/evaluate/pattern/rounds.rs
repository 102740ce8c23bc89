//! Finds references that ECMAScript and the backtracking engine read differently: at the beginning of each round of a repetition
//! ECMAScript forgets what the groups in it have captured, and the engine does not. Part of `pattern`.

use super::{Group, Token};

/// A group whose reference may, in a later round of a repetition around both, find a capture of an earlier round. Groups that hold
/// in every round are none: there, the two readings agree.
pub(super) fn forgotten(tokens: &[Token]) -> Option<usize> {
    let spans = spans(tokens);
    let captures: Vec<(usize, usize)> = spans
        .iter()
        .copied()
        .filter(|(open, _)| matches!(&tokens[*open], Token::Open(Group::Plain, text) if text == "("))
        .collect();
    let is_repeated = |close: usize| matches!(tokens.get(close + 1), Some(Token::Repeat(_)));
    for (open, close) in spans.iter().copied().filter(|(_, close)| is_repeated(*close)) {
        for (at, token) in tokens.iter().enumerate().take(close).skip(open) {
            let Token::Reference(number, _) = token else { continue };
            let Some(&(start, end)) = captures.get(number - 1) else { continue };
            // In every round the group is passed before the reference, unless there is a choice outside of it.
            let chosen = (open..close).any(|index| !(start..=end).contains(&index) && is_choice(&tokens[index]));
            if open <= start && end < close && (chosen || at < start || is_repeated(end)) {
                return Some(*number);
            }
        }
    }
    None
}

/// Whether what stands beside or before the token may be passed over.
fn is_choice(token: &Token) -> bool {
    match token {
        Token::Alternate => true,
        Token::Repeat(range) => range.starts_with(['*', '?']) || range.starts_with("{0"),
        _ => false,
    }
}

/// Where groups begin and end, in the order in which they begin.
fn spans(tokens: &[Token]) -> Vec<(usize, usize)> {
    let (mut spans, mut open) = (Vec::new(), Vec::new());
    for (index, token) in tokens.iter().enumerate() {
        match token {
            Token::Open(..) => {
                open.push(spans.len());
                spans.push((index, index));
            }
            Token::Close => {
                let group: usize = open.pop().expect("the parser closes only what it opened");
                spans[group].1 = index;
            }
            _ => {}
        }
    }
    spans
}
