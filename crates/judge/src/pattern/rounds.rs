//! Finds references that ECMAScript and the backtracking engine read differently: at the beginning
//! of each round of a repetition ECMAScript forgets what the groups in it have captured, and the
//! engine does not. Part of `pattern`.

use sobench_grammar::pattern::{Group, Pattern, Token};

/// A group whose reference may, in a later round of a repetition around both, find a capture of an
/// earlier round. Groups that hold in every round are none: there, the two readings agree.
pub(super) fn forgotten(pattern: &Pattern) -> Option<usize> {
    let (tokens, partners) = (&pattern.tokens, pattern.partners());
    let groups = |wanted: fn(Group) -> bool| {
        let is_wanted =
            move |index: &usize| matches!(&tokens[*index], Token::Open(group) if wanted(*group));
        (0..tokens.len())
            .filter(is_wanted)
            .map(|open| (open, partners[open]))
    };
    let captures: Vec<(usize, usize)> =
        groups(|group| matches!(group, Group::Capture(_))).collect();
    let is_repeated = |close: usize| matches!(tokens.get(close + 1), Some(Token::Repeat(_)));
    // Look-around is run once, however often it is repeated.
    let rounds = groups(|group| !matches!(group, Group::Look(_)));
    for (open, close) in rounds.filter(|(_, close)| is_repeated(*close)) {
        for (at, token) in tokens.iter().enumerate().take(close).skip(open) {
            let Token::Reference(number) = token else {
                continue;
            };
            let Some(&(start, end)) = captures.get(number - 1) else {
                continue;
            };
            // In every round the group is passed before the reference, unless there is a choice
            // outside of it.
            let chosen = (open..close)
                .any(|index| !(start..=end).contains(&index) && is_choice(&tokens[index]));
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
        Token::Repeat(repeat) => repeat.least == 0,
        _ => false,
    }
}
