//! Finds references that ECMAScript and the backtracking engine interpret differently: ECMAScript
//! resets the captures of a repeated group at the start of each iteration, the engine does not.

use sobench_grammar::pattern::{Group, Pattern, Token};

/// Returns a group whose reference may read a capture of an earlier iteration of a common
/// repetition. Groups that capture in every iteration are excluded: there the two agree.
pub(super) fn find_stale_capture(pattern: &Pattern) -> Option<usize> {
    let (tokens, partners) = (&pattern.tokens, pattern.partners());
    let groups = |predicate: fn(Group) -> bool| {
        let matches_predicate =
            move |index: &usize| matches!(&tokens[*index], Token::Open(group) if predicate(*group));
        (0..tokens.len())
            .filter(matches_predicate)
            .map(|open| (open, partners[open]))
    };
    let captures: Vec<(usize, usize)> =
        groups(|group| matches!(group, Group::Capture(_))).collect();
    let is_repeated = |close: usize| matches!(tokens.get(close + 1), Some(Token::Repeat(_)));
    // Look-around runs once regardless of its repetitions.
    let iterated_groups = groups(|group| !matches!(group, Group::Look(_)));
    for (open, close) in iterated_groups.filter(|(_, close)| is_repeated(*close)) {
        for (index, token) in tokens.iter().enumerate().take(close).skip(open) {
            let Token::Reference(number) = token else {
                continue;
            };
            let Some(&(start, end)) = captures.get(number - 1) else {
                continue;
            };
            // In every iteration the group captures before the reference, unless there is an
            // alternative outside of it.
            let is_optional = (open..close)
                .any(|index| !(start..=end).contains(&index) && makes_optional(&tokens[index]));
            if open <= start && end < close && (is_optional || index < start || is_repeated(end)) {
                return Some(*number);
            }
        }
    }
    None
}

/// Whether the token makes its neighbour optional.
fn makes_optional(token: &Token) -> bool {
    match token {
        Token::Alternate => true,
        Token::Repeat(repeat) => repeat.least == 0,
        _ => false,
    }
}
