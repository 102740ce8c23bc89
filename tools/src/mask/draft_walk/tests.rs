//! Tests of drafts with faulty engines and with the real ones.

use std::sync::Arc;

use super::*;
use crate::mask::drafts::{DraftCounts, ForcedTokens, TreeCounts};
use crate::mask::plan::load_vocabulary;
use crate::mask::testing::{FakeGrammar, Quirk};
use sobench_core::constraint::Constraint;
use sobench_engine::vocabulary::shared;
use sobench_engine::{EngineName, EnginePolicy, open_unguarded};

/// Three tokens: the first has 5 bytes, the first two have 10.
const TEXT: &str = "alpha beta gamma";

fn drafted(texts: &[&str], quirk: Quirk, text: &str, length: usize) -> DraftRow {
    let vocabulary = shared();
    let tokens = vocabulary.encode(text);
    let text = DraftText {
        instance: 2,
        text,
        tokens: &tokens,
        is_canonical: true,
    };
    draft_along(&FakeGrammar::new(texts, quirk), &vocabulary, &text, length).unwrap()
}

fn counts(drafts: u64, tokens: u64, accepted: u64) -> DraftCounts {
    DraftCounts {
        drafts,
        tokens,
        accepted,
    }
}

#[test]
fn a_right_engine_has_no_differences() {
    for length in [1, 2, 3, 8] {
        let row = drafted(&[TEXT], Quirk::None, TEXT, length);
        assert_eq!(row.differences, [].into(), "{length}");
        assert_eq!((row.texts, row.positions), (1, 4));
        assert_eq!(row.refused_rollbacks, Default::default());
    }
    // Drafts of the text: two tokens at the first three positions, then the end.
    let row = drafted(&[TEXT], Quirk::None, TEXT, 2);
    assert_eq!(row.along, counts(4, 7, 7));
    // The refused token is the first or the second of the draft.
    assert_eq!(row.leaving, counts(3, 6, 1));
    let times = [&row.times.masks, &row.times.commits, &row.times.rollback];
    assert_eq!(times.map(|times| times.count()), [3, 3, 3]);
}

#[test]
fn drafts_end_at_the_token_that_the_constraint_refuses() {
    let row = drafted(&[TEXT], Quirk::None, "alpha beta", 2);
    // The end is refused.
    assert_eq!((row.positions, row.along), (3, counts(3, 5, 3)));
    assert_eq!(row.differences, [].into());
    let row = drafted(&["alpha"], Quirk::None, TEXT, 3);
    assert_eq!((row.positions, row.along), (2, counts(2, 6, 1)));
    assert_eq!(row.differences, [].into());
    assert_eq!(
        row.times.masks.count(),
        0,
        "no draft was accepted as a whole"
    );
}

#[test]
fn wrong_rollbacks_are_differences_with_a_witness() {
    let row = drafted(&[TEXT], Quirk::ShortRollback(2), TEXT, 2);
    let first = row.first_difference.unwrap();
    assert_eq!(
        (first.check, first.instance, first.position, first.byte),
        (DraftCheck::Mask, 2, 0, 0)
    );
    assert_eq!((first.drafted, first.before.as_str()), (2, ""));
    assert_eq!(row.differences[&DraftCheck::Mask], 3);
    assert_eq!(row.positions, 4, "every position is checked all the same");
    assert_eq!(
        drafted(&[TEXT], Quirk::ShortRollback(2), TEXT, 1).differences,
        [].into()
    );
    let row = drafted(&["alpha", TEXT], Quirk::LostEnd(2), TEXT, 2);
    assert_eq!(
        row.differences.keys().collect::<Vec<_>>(),
        [&DraftCheck::End]
    );
    let first = row.first_difference.unwrap();
    assert_eq!(
        (first.position, first.byte, first.before.as_str()),
        (1, 5, "alpha")
    );
}

#[test]
fn drafts_beyond_the_limit_of_rollback_are_counted_with_the_limit() {
    let row = drafted(&[TEXT], Quirk::RollbackLimit(2), TEXT, 3);
    assert_eq!(row.differences, [].into(), "a refusal is no difference");
    assert_eq!(row.refused_rollbacks.limit, Some(2));
    assert_eq!(
        row.refused_rollbacks.message.as_deref(),
        Some("at most 2, not 3")
    );
    // Three tokens are accepted at the first two positions.
    assert_eq!(row.refused_rollbacks.rollbacks, 2);
    assert_eq!((row.times.masks.count(), row.along), (0, counts(4, 9, 9)));
    let none = drafted(&[TEXT], Quirk::RollbackLimit(0), TEXT, 2);
    assert_eq!(none.refused_rollbacks.limit, Some(0));
    assert_eq!(
        drafted(&[TEXT], Quirk::RollbackLimit(2), TEXT, 2).refused_rollbacks,
        Default::default()
    );
}

#[test]
fn branches_are_compared_by_fork_and_by_rollback() {
    let texts = ["alpha beta gamma", "alpha delta epsilon"];
    let row = drafted(&texts, Quirk::None, TEXT, 2);
    // Only the second position has two allowed tokens.
    assert_eq!(
        row.trees,
        TreeCounts {
            trees: 1,
            branches: 4
        }
    );
    assert_eq!((row.differences, row.times.fork.count()), ([].into(), 2));
    let row = drafted(&texts, Quirk::WrongFork, TEXT, 2);
    assert_eq!(
        row.differences.into_iter().collect::<Vec<_>>(),
        [(DraftCheck::Fork, 2)]
    );
}

#[test]
fn forced_tokens_are_compared_with_the_tokens_of_the_text() {
    let forced = |quirk| {
        let mut forced = drafted(&[TEXT], quirk, TEXT, 2).forced;
        (forced.mask_ns, forced.saved_ns, forced.ask_ns) = (0, 0, 0);
        forced
    };
    let counts = ForcedTokens {
        positions: 4,
        one_allowed: 3,
        ..ForcedTokens::default()
    };
    assert_eq!(
        forced(Quirk::None),
        ForcedTokens {
            canonical: 3,
            ..counts
        },
        "three masks allow one token"
    );
    assert_eq!(
        forced(Quirk::Forces),
        ForcedTokens {
            canonical: 3,
            jumped: 3,
            jumps: 1,
            ..counts
        }
    );
    let bytes = forced(Quirk::ForcesBytes);
    assert_eq!((bytes.jumped, bytes.canonical), (0, 0));
    assert_eq!(bytes.not_canonical, 16 + 11 + 6, "all bytes that are left");
    let other = drafted(&[TEXT], Quirk::Forces, "alpha beta", 2).forced;
    // The text ends where the third token is forced.
    assert_eq!((other.canonical, other.uncompared), (2, 2));
}

#[test]
fn failures_of_the_ordinary_walk_end_the_drafts() {
    let row = drafted(&[TEXT], Quirk::Fail(2), TEXT, 2);
    assert_eq!((row.positions, row.differences), (2, [].into()));
    let text = DraftText {
        instance: 0,
        text: TEXT,
        tokens: &shared().encode(TEXT),
        is_canonical: true,
    };
    let crash = FakeGrammar::new(&[TEXT], Quirk::Crash(2));
    let crashed = draft_along(&crash, &shared(), &text, 2);
    assert!(matches!(crashed, Err(EngineError::Crashed { .. })));
}

#[test]
fn the_engines_restore_every_position() {
    let vocabulary = load_vocabulary(
        concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/tokenizer"),
        None,
    )
    .unwrap();
    let schema = serde_json::json!({"type": "object", "properties": {
        "name": {"type": "string"}, "size": {"enum": [1, 20]}}, "required": ["name", "size"],
        "additionalProperties": false});
    let constraint = Constraint::JsonSchema(Arc::new(schema));
    for name in [
        EngineName::Guidance,
        EngineName::Xgrammar,
        EngineName::Outlines,
    ] {
        let engine = open_unguarded(name, &vocabulary, &EnginePolicy::default()).unwrap();
        let grammar = engine.compile(&constraint).unwrap();
        for (text, is_whole) in [
            (r#"{"name": "Ada", "size": 20}"#, true),
            (r#"{"name": "Ada", "size": 3}"#, false),
        ] {
            let tokens = vocabulary.encode_exactly(text).unwrap();
            let text = DraftText {
                instance: 0,
                text,
                tokens: &tokens,
                is_canonical: true,
            };
            let row = draft_along(&*grammar, &vocabulary, &text, 4).unwrap();
            assert_eq!(
                row.first_difference,
                None,
                "{name:?}: {text:?}",
                text = text.text
            );
            assert_eq!(row.refused_rollbacks, Default::default());
            assert_eq!(
                row.positions == tokens.len() as u64 + 1,
                is_whole,
                "{name:?}: {row:?}"
            );
            assert!(
                row.trees.trees > 0 && row.times.masks.count() > 0,
                "{row:?}"
            );
        }
    }
}
