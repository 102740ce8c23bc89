//! Tests of walks with a faulty engine.

use super::*;
use crate::mask::testing::{FakeGrammar, Quirk};
use sobench_engine::vocabulary::shared;

/// Three tokens: the first has 5 bytes, the first two have 10.
const TEXT: &str = "alpha beta gamma";

fn traced(texts: &[&str], quirk: Quirk, text: &str) -> Trace {
    let vocabulary = shared();
    let tokens = vocabulary.encode(text);
    let grammar = FakeGrammar::new(texts, quirk);
    let mut mask = TokenMask::new(vocabulary.len());
    let trace = walk(&grammar, &vocabulary, &tokens, &mut mask);
    let warm = second_walk(&grammar, &vocabulary, &tokens, &trace, &mut mask);
    assert_eq!(
        warm.samples.mask.len(),
        trace.samples.mask.len(),
        "the warm walk has the same length"
    );
    assert_eq!(
        (warm.samples.commit.len(), warm.mismatch),
        (trace.samples.commit.len(), None)
    );
    trace
}

fn check(
    texts: &[&str],
    quirk: Quirk,
    text: &str,
    label: Option<bool>,
    judged: Option<bool>,
    expected: &InstanceOutcome,
) {
    let trace = traced(texts, quirk, text);
    let found = outcome(&trace, Labels { label, judged }, None, &shared());
    assert_eq!(
        &found, expected,
        "{texts:?} {quirk:?} {text} {label:?} {judged:?}"
    );
}

#[test]
fn outcomes_follow_from_masks_and_known_validity() {
    use InstanceOutcome::{AcceptsInvalid, DeadEnd, Pass, RejectsValid};
    let (valid, invalid) = (Some(true), Some(false));
    let beta = || Some(" beta".to_owned());
    for (texts, quirk, text, truth, expected) in [
        (vec![TEXT], Quirk::None, TEXT, valid, Pass),
        (
            vec![TEXT],
            Quirk::None,
            TEXT,
            invalid,
            AcceptsInvalid { byte: 16 },
        ),
        (
            vec!["alpha"],
            Quirk::None,
            TEXT,
            valid,
            RejectsValid {
                byte: 5,
                token: beta(),
            },
        ),
        (vec!["alpha"], Quirk::None, TEXT, invalid, Pass),
        (
            vec![TEXT],
            Quirk::None,
            "alpha beta",
            valid,
            RejectsValid {
                byte: 10,
                token: None,
            },
        ),
        (vec![TEXT], Quirk::None, "alpha beta", invalid, Pass),
        (
            vec![TEXT],
            Quirk::DeadEnd(1),
            TEXT,
            valid,
            DeadEnd { byte: 5 },
        ),
        (
            vec![TEXT],
            Quirk::DeadEnd(1),
            TEXT,
            invalid,
            DeadEnd { byte: 5 },
        ),
        (
            vec![TEXT],
            Quirk::DeadEnd(3),
            TEXT,
            valid,
            DeadEnd { byte: 16 },
        ),
        (
            vec![TEXT],
            Quirk::DeadEnd(0),
            TEXT,
            valid,
            DeadEnd { byte: 0 },
        ),
        (vec![TEXT], Quirk::DeadEnd(0), TEXT, invalid, Pass),
        (vec![""], Quirk::None, "", valid, Pass),
        (
            vec!["a"],
            Quirk::None,
            "",
            valid,
            RejectsValid {
                byte: 0,
                token: None,
            },
        ),
    ] {
        check(&texts, quirk, text, truth, truth, &expected);
        check(&texts, quirk, text, truth, None, &expected);
        check(&texts, quirk, text, None, truth, &expected);
    }
}

#[test]
fn conflicting_or_missing_labels_give_no_verdict() {
    for (texts, accepted) in [(vec![TEXT], true), (vec!["alpha"], false)] {
        for label in [true, false] {
            let expected = InstanceOutcome::Disputed { accepted };
            check(
                &texts,
                Quirk::None,
                TEXT,
                Some(label),
                Some(!label),
                &expected,
            );
        }
        check(
            &texts,
            Quirk::None,
            TEXT,
            None,
            None,
            &InstanceOutcome::NotJudged { accepted },
        );
    }
    let trace = traced(&[TEXT], Quirk::End(1), TEXT);
    let disputed = Labels {
        label: Some(true),
        judged: Some(false),
    };
    assert_eq!(
        outcome(&trace, disputed, Some(5), &shared()),
        InstanceOutcome::Disputed { accepted: true }
    );
}

#[test]
fn engine_errors_are_reported_verbatim() {
    for (quirk, byte, message) in [
        (Quirk::Fail(0), 0, "too much".to_owned()),
        (Quirk::Fail(2), 10, "too much".to_owned()),
        (
            Quirk::Refuse(1),
            5,
            format!("not {}", shared().encode(" beta")[0]),
        ),
    ] {
        check(
            &[TEXT],
            quirk,
            TEXT,
            Some(true),
            Some(true),
            &InstanceOutcome::Failed { byte, message },
        );
    }
    assert_eq!(
        traced(&[TEXT], Quirk::Crash(1), TEXT).halt,
        Halt::Crashed {
            message: "ouch".into()
        }
    );
}

#[test]
fn second_walk_must_match_the_first() {
    let failed = |message: &str| Halt::Failed {
        message: message.to_owned(),
    };
    let (vocabulary, tokens) = (shared(), shared().encode(TEXT));
    let trace = traced(&[TEXT], Quirk::None, TEXT);
    for (quirk, masks, byte, halt) in [
        (Quirk::Fail(1), 1, 5, failed("too much")),
        (
            Quirk::Refuse(1),
            2,
            5,
            failed(&format!("not {}", tokens[1])),
        ),
        (
            Quirk::End(2),
            3,
            10,
            failed("the mask allowed 1 tokens on the first walk and 2 on the second"),
        ),
        (
            Quirk::DeadEnd(0),
            1,
            0,
            failed("the mask allowed 1 tokens on the first walk and 0 on the second"),
        ),
        (
            Quirk::Crash(3),
            3,
            16,
            Halt::Crashed {
                message: "ouch".into(),
            },
        ),
    ] {
        let mut mask = TokenMask::new(vocabulary.len());
        let warm = second_walk(
            &FakeGrammar::new(&[TEXT], quirk),
            &vocabulary,
            &tokens,
            &trace,
            &mut mask,
        );
        assert_eq!(
            (warm.samples.mask.len(), &warm.mismatch),
            (
                masks,
                &Some(WalkMismatch {
                    halt: halt.clone(),
                    byte
                })
            ),
            "{quirk:?}"
        );
        let Halt::Failed { message } = halt else {
            continue;
        };
        let expected = InstanceOutcome::Failed {
            byte,
            message: format!("on the second walk: {message}"),
        };
        assert_eq!(warm.mismatch.unwrap().outcome(&trace.halt), Some(expected));
        let outcome = WalkMismatch {
            halt: failed("b"),
            byte,
        }
        .outcome(&failed("a"));
        assert_eq!(outcome, None, "the failure of the first walk is reported");
    }
}

#[test]
fn early_end_counts_as_accepts_invalid() {
    let trace = traced(&[TEXT], Quirk::End(2), TEXT);
    assert_eq!(
        (&trace.ends[..], &trace.halt, trace.byte),
        (&[10][..], &Halt::Accepted, 16)
    );
    let labels = Labels {
        label: Some(true),
        judged: Some(true),
    };
    assert_eq!(
        outcome(&trace, labels, Some(10), &shared()),
        InstanceOutcome::AcceptsInvalid { byte: 10 }
    );
    assert_eq!(
        outcome(&trace, labels, None, &shared()),
        InstanceOutcome::Pass,
        "the text of 10 bytes is complete"
    );
}

#[test]
fn every_mask_and_commit_is_timed() {
    for (texts, text, masks, commits) in [
        (vec![TEXT], TEXT, 4, 3),
        (vec!["alpha"], TEXT, 2, 1),
        (vec![""], "", 1, 0),
    ] {
        let samples = traced(&texts, Quirk::None, text).samples;
        assert_eq!(
            (samples.mask.len(), samples.commit.len()),
            (masks, commits),
            "{texts:?} {text}"
        );
    }
}
