//! What walks show of an engine that goes wrong in known places.

use super::*;
use crate::testing::{FakeGrammar, Quirk};
use sobench_engine::vocabulary::shared;

/// Three tokens, of which the first has 5 bytes and the first two 10.
const TEXT: &str = "alpha beta gamma";

fn traced(texts: &[&str], quirk: Quirk, text: &str) -> Trace {
    let vocabulary = shared();
    let tokens = vocabulary.encode(text);
    let grammar = FakeGrammar::new(texts, quirk);
    let mut mask = TokenMask::new(vocabulary.len());
    let trace = walk(&grammar, &vocabulary, &tokens, &mut mask);
    let warm = again(&grammar, &vocabulary, &tokens, &trace, &mut mask);
    assert_eq!(
        warm.samples.mask.len(),
        trace.samples.mask.len(),
        "the warm walk goes as far"
    );
    assert_eq!(
        (warm.samples.commit.len(), warm.fault),
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
fn the_outcome_is_what_the_mask_did_to_a_text_of_known_worth() {
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
fn nobody_is_blamed_where_the_labels_disagree_or_are_missing() {
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
fn a_library_that_gives_up_is_quoted() {
    for (quirk, byte, words) in [
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
            &InstanceOutcome::Failed { byte, words },
        );
    }
    assert_eq!(
        traced(&[TEXT], Quirk::Crash(1), TEXT).halt,
        Halt::Crashed {
            words: "ouch".into()
        }
    );
}

#[test]
fn a_second_walk_has_to_be_as_the_first() {
    let failed = |words: &str| Halt::Failed {
        words: words.to_owned(),
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
            failed("the first walk's mask allowed 1 tokens here, the second's 2"),
        ),
        (
            Quirk::DeadEnd(0),
            1,
            0,
            failed("the first walk's mask allowed 1 tokens here, the second's 0"),
        ),
        (
            Quirk::Crash(3),
            3,
            16,
            Halt::Crashed {
                words: "ouch".into(),
            },
        ),
    ] {
        let mut mask = TokenMask::new(vocabulary.len());
        let warm = again(
            &FakeGrammar::new(&[TEXT], quirk),
            &vocabulary,
            &tokens,
            &trace,
            &mut mask,
        );
        assert_eq!(
            (warm.samples.mask.len(), &warm.fault),
            (
                masks,
                &Some(Fault {
                    halt: halt.clone(),
                    byte
                })
            ),
            "{quirk:?}"
        );
        let Halt::Failed { words } = halt else {
            continue;
        };
        let expected = InstanceOutcome::Failed {
            byte,
            words: format!("on the second walk: {words}"),
        };
        assert_eq!(warm.fault.unwrap().outcome(&trace.halt), Some(expected));
        let told = Fault {
            halt: failed("b"),
            byte,
        }
        .outcome(&failed("a"));
        assert_eq!(told, None, "the first walk's own failure is told");
    }
}

#[test]
fn an_end_that_is_allowed_too_early_accepts_something_invalid() {
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
        "there is a whole text of 10 bytes"
    );
}

#[test]
fn every_mask_and_every_commit_has_its_duration() {
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
