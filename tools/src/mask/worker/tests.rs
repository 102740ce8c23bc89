//! Tests of the worker's events with a fake engine.

use super::*;
use crate::mask::corpus::{Content, Entry, Instance};
use crate::mask::protocol::{BatchJob, BatchSource, Done, PassKind};
use crate::mask::row::{DeclineClass, InstanceOutcome, Spelling};
use crate::mask::testing::{FakeEngine, Quirk};
use sobench_core::constraint::Constraint;
use sobench_engine::vocabulary::shared;
use sobench_engine::{EngineName, EnginePolicy};

const TEXT: &str = "alpha beta gamma";

fn setup() -> Setup {
    Setup {
        engine: EngineName::Guidance,
        policy: EnginePolicy::default(),
        tokenizer: "cl100k_base".into(),
        eos_token: None,
        memory_limit_bytes: None,
        assert_formats: true,
        warm: true,
        spellings: vec![Spelling::Compact],
        drafts: None,
        prove: Vec::new(),
    }
}

fn entry() -> Entry {
    let text = |text: &str, label| Instance {
        content: Content::Text(text.into()),
        label,
    };
    Entry {
        name: "a".into(),
        tags: Vec::new(),
        constraint: Constraint::Choice([TEXT.to_owned(), "alpha".to_owned()].into()),
        instances: vec![
            text(TEXT, Some(true)),
            text("alpha beta", None),
            text("alpha", Some(false)),
        ],
    }
}

/// The events of a worker for these jobs.
fn events_of(quirk: Quirk, jobs: &[Job]) -> Vec<Event> {
    events_with(&setup(), quirk, jobs)
}

fn events_with(setup: &Setup, quirk: Quirk, jobs: &[Job]) -> Vec<Event> {
    let mut input = serde_json::to_string(setup).unwrap() + "\n";
    for job in jobs {
        input += &(serde_json::to_string(job).unwrap() + "\n");
    }
    let mut output = Vec::new();
    serve_with(input.as_bytes(), &mut output, &|_| {
        let (engine, vocabulary, bytes) = (
            Arc::new(FakeEngine(quirk)),
            shared(),
            Arc::new(Vocabulary::single_bytes()),
        );
        Ok(OpenedEngine {
            engine,
            vocabulary,
            bytes,
            proof_engines: Vec::new(),
            indexes: OnceLock::new(),
        })
    })
    .unwrap();
    String::from_utf8(output)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn job() -> Job {
    Job::Entry(Box::new(entry()))
}

fn outcomes(events: &[Event]) -> Vec<InstanceOutcome> {
    let walked = events.iter().filter_map(|event| match event {
        Event::Walked(row) => Some(row.outcome.clone()),
        _ => None,
    });
    walked.collect()
}

#[test]
fn stages_are_reported_before_they_start() {
    let events = events_of(Quirk::None, &[job()]);
    let Event::Ready(ready) = &events[0] else {
        panic!("{:?}", events[0])
    };
    assert_eq!(
        (&*ready.version, ready.vocabulary_ids),
        ("fake 1", shared().len())
    );
    let stages: Vec<Stage> = events
        .iter()
        .filter_map(|event| {
            if let Event::Stage(stage) = event {
                Some(*stage)
            } else {
                None
            }
        })
        .collect();
    let instance = |index| Stage::Instance {
        index,
        spelling: Spelling::Verbatim,
    };
    // The first two walks pass a position where the end is allowed, which the evaluator then
    // judges.
    let judged = [
        instance(0),
        Stage::Oracle,
        instance(1),
        Stage::Oracle,
        instance(2),
    ];
    assert_eq!(
        stages[..4],
        [
            Stage::Oracle,
            Stage::Compile,
            Stage::FirstMask,
            Stage::Cached
        ]
    );
    assert_eq!(stages[4..], judged);
    let compiled = events.iter().find_map(|event| {
        if let Event::Compiled(compile) = event {
            Some(*compile)
        } else {
            None
        }
    });
    assert_eq!(compiled.unwrap().grammar_bytes, Some(7));
    let matches_spelling = |event: &&Event| {
        matches!(
            event,
            Event::Pass(_) | Event::Stage(Stage::Oracle) | Event::Walked(_)
        )
    };
    let of_first: Vec<&Event> = events
        .iter()
        .skip_while(|event| **event != Event::Stage(instance(0)))
        .filter(matches_spelling)
        .take(4)
        .collect();
    let [
        Event::Pass(cold),
        Event::Pass(warm),
        Event::Stage(Stage::Oracle),
        Event::Walked(_),
    ] = of_first[..]
    else {
        panic!("durations come before the evaluator: {of_first:?}");
    };
    assert_eq!(
        (
            cold.kind,
            warm.kind,
            cold.samples.mask.len(),
            warm.samples.mask.len()
        ),
        (PassKind::Cold, PassKind::Warm, 4, 4)
    );
    assert_eq!(
        outcomes(&events),
        [
            InstanceOutcome::Pass,
            InstanceOutcome::Pass,
            InstanceOutcome::Disputed { accepted: true }
        ]
    );
    assert!(matches!(events.last(), Some(Event::Done(_))));
}

#[test]
fn without_warm_walks_each_instance_is_walked_once() {
    let events = events_with(
        &Setup {
            warm: false,
            ..setup()
        },
        Quirk::None,
        &[job()],
    );
    let passes: Vec<PassKind> = events
        .iter()
        .filter_map(|event| {
            if let Event::Pass(pass) = event {
                Some(pass.kind)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(passes, [PassKind::Cold; 3]);
    assert_eq!(
        outcomes(&events),
        outcomes(&events_of(Quirk::None, &[job()]))
    );
}

#[test]
fn drafts_follow_after_all_walks() {
    let setup = Setup {
        drafts: Some(2),
        ..setup()
    };
    let events = events_with(&setup, Quirk::None, &[job()]);
    let last_walk = events
        .iter()
        .rposition(|event| matches!(event, Event::Walked(_)))
        .unwrap();
    let drafts: Vec<_> = events[last_walk..]
        .iter()
        .filter_map(|event| match event {
            Event::Stage(Stage::Drafts { index, spelling }) => Some((*index, *spelling, None)),
            Event::Drafts(row) => Some((0, Spelling::Verbatim, Some(row.positions))),
            _ => None,
        })
        .collect();
    let verbatim = Spelling::Verbatim;
    assert_eq!(
        drafts,
        [
            (0, verbatim, None),
            (0, verbatim, Some(4)),
            (1, verbatim, None),
            (0, verbatim, Some(3)),
            (2, verbatim, None),
            (0, verbatim, Some(2)),
        ]
    );
    assert_eq!(
        outcomes(&events),
        outcomes(&events_of(Quirk::None, &[job()]))
    );
    assert!(matches!(events.last(), Some(Event::Done(_))));
}

#[test]
fn evaluator_detects_wrongly_allowed_ends() {
    let outcomes = outcomes(&events_of(Quirk::End(2), &[job()]));
    assert_eq!(outcomes[0], InstanceOutcome::AcceptsInvalid { byte: 10 });
    assert_eq!(outcomes[1], InstanceOutcome::AcceptsInvalid { byte: 10 });
}

#[test]
fn declines_carry_the_engine_message_and_the_worker_continues() {
    for (quirk, class, feature, message) in [
        (
            Quirk::Decline,
            DeclineClass::Unsupported,
            Some("it"),
            "no it here",
        ),
        (Quirk::Fail(0), DeclineClass::TooLarge, None, "too much"),
    ] {
        let events = events_of(quirk, &[job(), job()]);
        let declined: Vec<_> = events
            .iter()
            .filter_map(|event| {
                if let Event::Declined(declined) = event {
                    Some(declined)
                } else {
                    None
                }
            })
            .collect();
        assert_eq!(declined.len(), 2);
        assert_eq!(
            (
                declined[0].class,
                declined[0].feature.as_deref(),
                &*declined[0].message
            ),
            (class, feature, message)
        );
        assert_eq!(
            events
                .iter()
                .filter(|event| matches!(event, Event::Done(_)))
                .count(),
            2
        );
        assert!(outcomes(&events).is_empty());
    }
}

#[test]
fn panics_are_reported_and_end_the_worker() {
    for (quirk, expected, reached) in [
        (Quirk::Panic, "panic: boom", Stage::Compile),
        (Quirk::Crash(0), "ouch", Stage::FirstMask),
        (
            Quirk::Crash(1),
            "ouch",
            Stage::Instance {
                index: 0,
                spelling: Spelling::Verbatim,
            },
        ),
    ] {
        let events = events_of(quirk, &[job(), job()]);
        assert_eq!(
            events.last(),
            Some(&Event::Crashed {
                message: expected.into()
            })
        );
        let last_stage = events.iter().rev().find_map(|event| {
            if let Event::Stage(stage) = event {
                Some(*stage)
            } else {
                None
            }
        });
        assert_eq!(last_stage, Some(reached));
    }
}

#[test]
fn batches_are_always_full() {
    let source = || BatchSource {
        entry: entry(),
        instance: 0,
        spelling: Spelling::Verbatim,
    };
    let batch = |sequences| {
        Job::Batch(BatchJob {
            sequences,
            sources: vec![source(), source()],
        })
    };
    for (sequences, distinct) in [(1, 1), (5, 2)] {
        let events = events_of(Quirk::None, &[batch(sequences)]);
        let Event::Batch(row) = &events[1] else {
            panic!("{:?}", events[1])
        };
        assert_eq!((row.sequences, row.distinct), (sequences, distinct));
        assert_eq!(row.masks, row.step.count() * sequences as u64);
        assert!(row.step.count() > 0 && row.masks_per_second > 0.0);
        assert_eq!(events[2], Event::Done(Done::default()));
    }
    assert_eq!(
        events_of(Quirk::Crash(2), &[batch(1)]).last(),
        Some(&Event::Crashed {
            message: "ouch".into()
        })
    );
}

#[test]
fn invalid_input_is_rejected_and_open_failures_are_reported() {
    let open = |_: &Setup| Err(Error::usage("no such engine").hint("another"));
    let mut output = Vec::new();
    assert_eq!(
        serve_with(&b"hello\n"[..], &mut output, &open)
            .unwrap_err()
            .what,
        "invalid input for mask-worker: expected value at line 1 column 1"
    );
    serve_with(&b""[..], &mut output, &open).unwrap();
    assert!(output.is_empty());
    let setup = serde_json::to_string(&setup()).unwrap() + "\n";
    serve_with(setup.as_bytes(), &mut output, &open).unwrap();
    let event: Event = serde_json::from_slice(&output).unwrap();
    assert_eq!(
        event,
        Event::CannotOpen {
            what: "no such engine".into(),
            hint: Some("another".into())
        }
    );
}
