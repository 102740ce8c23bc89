//! Properties of grammars in both notations.

use sobench_core::constraint::GrammarDialect;
use sobench_grammar::{Membership, Recogniser, compile, convert};

/// Maximum length of a text in characters: the work is cubic in the worst case.
const MAX_TEXT_CHARS: usize = 64;

/// A grammar that compiles decides every text, is consistent for its prefixes, and keeps its
/// language in the other notation.
pub(crate) fn check(dialect: GrammarDialect, grammar: &str, text: &str) {
    let Ok(recogniser) = compile(dialect, grammar) else {
        return;
    };
    let text: String = text.chars().take(MAX_TEXT_CHARS).collect();
    let text = text.as_str();
    let membership = recogniser.recognise(text);
    check_prefixes(&recogniser, text, &membership);
    for to in [GrammarDialect::Ebnf, GrammarDialect::Lark] {
        let Ok(converted) = convert(dialect, to, grammar) else {
            continue;
        };
        let recompiled = compile(to, &converted.text).expect("the converter compiles its result");
        let converted_membership = recompiled.recognise(text);
        let is_limited = |membership: &Membership| matches!(membership, Membership::Limit { .. });
        if !is_limited(&membership) && !is_limited(&converted_membership) {
            assert_eq!(
                converted_membership, membership,
                "{text:?} in {to:?}: {}",
                converted.text
            );
        }
    }
}

fn check_prefixes(recogniser: &Recogniser, text: &str, membership: &Membership) {
    if !recogniser.is_prefix("") {
        // An empty language has no prefixes.
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
        let prefix = &text[..end];
        assert_eq!(
            recogniser.is_prefix(prefix),
            end <= dead_from,
            "{prefix:?} of {text:?}, {membership:?}"
        );
    }
}
