//! What holds of a grammar in either notation and of any text. Knows both notations by name only.

use sobench_core::constraint::GrammarDialect;
use sobench_grammar::{Membership, Recogniser, compile, convert};

/// Characters of a text that are judged: a chart grows with the cube of the length at worst.
const MAX_TEXT_CHARS: usize = 64;

/// A grammar that compiles decides every text, agrees with itself on its beginnings, and keeps its
/// sentences in the other notation.
pub(crate) fn check(dialect: GrammarDialect, grammar: &str, text: &str) {
    let Ok(recogniser) = compile(dialect, grammar) else {
        return;
    };
    let text: String = text.chars().take(MAX_TEXT_CHARS).collect();
    let text = text.as_str();
    let membership = recogniser.recognise(text);
    agrees_with_its_beginnings(&recogniser, text, &membership);
    for to in [GrammarDialect::Ebnf, GrammarDialect::Lark] {
        let Ok(converted) = convert(dialect, to, grammar) else {
            continue;
        };
        let again =
            compile(to, &converted.text).expect("a conversion was read before it was handed out");
        let converted_membership = again.recognise(text);
        let is_limited = |it: &Membership| matches!(it, Membership::Limit { .. });
        if !is_limited(&membership) && !is_limited(&converted_membership) {
            assert_eq!(
                converted_membership, membership,
                "{text:?} in {to:?}: {}",
                converted.text
            );
        }
    }
}

fn agrees_with_its_beginnings(recogniser: &Recogniser, text: &str, membership: &Membership) {
    if !recogniser.is_prefix("") {
        // A language without a sentence has no beginning of one either.
        assert!(
            matches!(
                membership,
                Membership::NotMember { byte: 0 } | Membership::Limit { .. }
            ),
            "{membership:?}"
        );
        return;
    }
    let dead_from = match membership {
        Membership::Member => usize::MAX,
        Membership::NotMember { byte } if *byte == text.len() => usize::MAX,
        Membership::NotMember { byte } => *byte,
        Membership::Limit { .. } => return,
    };
    assert!(
        dead_from == usize::MAX || text.is_char_boundary(dead_from),
        "byte {dead_from} of {text:?}"
    );
    for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
        let beginning = &text[..end];
        assert_eq!(
            recogniser.is_prefix(beginning),
            end <= dead_from,
            "{beginning:?} of {text:?}, {membership:?}"
        );
    }
}
