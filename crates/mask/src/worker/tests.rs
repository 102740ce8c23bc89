//! What a worker says, line by line, over an engine for tests.

use super::*;
use crate::corpus::{Content, Entry, Instance};
use crate::protocol::{BatchJob, BatchSource, Done, Heat};
use crate::row::{DeclineClass, InstanceOutcome, Spelling};
use crate::testing::{FakeEngine, Quirk};
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

/// What the worker answers to these jobs.
fn said(quirk: Quirk, jobs: &[Job]) -> Vec<Event> {
    said_with(&setup(), quirk, jobs)
}

fn said_with(setup: &Setup, quirk: Quirk, jobs: &[Job]) -> Vec<Event> {
    let mut input = serde_json::to_string(setup).unwrap() + "\n";
    for job in jobs {
        input += &(serde_json::to_string(job).unwrap() + "\n");
    }
    let mut output = Vec::new();
    serve_with(input.as_bytes(), &mut output, &|_| {
        let (engine, vocabulary, bytes) = (
            Arc::new(FakeEngine(quirk)),
            shared(),
            Arc::new(Vocabulary::of_bytes()),
        );
        Ok(Opened {
            engine,
            vocabulary,
            bytes,
            benches: Vec::new(),
            ready: OnceLock::new(),
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
fn an_entry_is_told_stage_by_stage_and_each_stage_before_it_begins() {
    let events = said(Quirk::None, &[job()]);
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
    // The first two walks pass a place where the end is allowed, which our evaluator then judges.
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
    let told = |event: &&Event| {
        matches!(
            event,
            Event::Pass(_) | Event::Stage(Stage::Oracle) | Event::Walked(_)
        )
    };
    let of_first: Vec<&Event> = events
        .iter()
        .skip_while(|event| **event != Event::Stage(instance(0)))
        .filter(told)
        .take(4)
        .collect();
    let [
        Event::Pass(cold),
        Event::Pass(warm),
        Event::Stage(Stage::Oracle),
        Event::Walked(_),
    ] = of_first[..]
    else {
        panic!("durations come before our evaluator's turn: {of_first:?}");
    };
    assert_eq!(
        (
            cold.heat,
            warm.heat,
            cold.samples.mask.len(),
            warm.samples.mask.len()
        ),
        (Heat::Cold, Heat::Warm, 4, 4)
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
fn each_instance_is_walked_once_where_no_warm_walk_is_asked_for() {
    let events = said_with(
        &Setup {
            warm: false,
            ..setup()
        },
        Quirk::None,
        &[job()],
    );
    let passes: Vec<Heat> = events
        .iter()
        .filter_map(|event| {
            if let Event::Pass(pass) = event {
                Some(pass.heat)
            } else {
                None
            }
        })
        .collect();
    assert_eq!(passes, [Heat::Cold; 3]);
    assert_eq!(outcomes(&events), outcomes(&said(Quirk::None, &[job()])));
}

#[test]
fn an_end_in_the_wrong_place_is_found_by_our_evaluator() {
    let outcomes = outcomes(&said(Quirk::End(2), &[job()]));
    assert_eq!(outcomes[0], InstanceOutcome::AcceptsInvalid { byte: 10 });
    assert_eq!(outcomes[1], InstanceOutcome::AcceptsInvalid { byte: 10 });
}

#[test]
fn what_an_engine_declines_is_told_with_its_words_and_the_next_entry_follows() {
    for (quirk, class, feature, words) in [
        (
            Quirk::Decline,
            DeclineClass::Unsupported,
            Some("it"),
            "no it here",
        ),
        (Quirk::Fail(0), DeclineClass::TooLarge, None, "too much"),
    ] {
        let events = said(quirk, &[job(), job()]);
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
                &*declined[0].words
            ),
            (class, feature, words)
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
fn a_panic_is_told_and_ends_the_worker() {
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
        let events = said(quirk, &[job(), job()]);
        assert_eq!(
            events.last(),
            Some(&Event::Crashed {
                words: expected.into()
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
fn a_batch_is_always_full() {
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
        let events = said(Quirk::None, &[batch(sequences)]);
        let Event::Batch(row) = &events[1] else {
            panic!("{:?}", events[1])
        };
        assert_eq!((row.sequences, row.distinct), (sequences, distinct));
        assert_eq!(row.masks, row.step.count() * sequences as u64);
        assert!(row.step.count() > 0 && row.masks_per_second > 0.0);
        assert_eq!(events[2], Event::Done(Done::default()));
    }
    assert_eq!(
        said(Quirk::Crash(2), &[batch(1)]).last(),
        Some(&Event::Crashed {
            words: "ouch".into()
        })
    );
}

#[test]
fn what_is_no_protocol_is_refused_and_an_engine_that_does_not_open_is_told() {
    let open = |_: &Setup| Err(Error::usage("no such engine").hint("another"));
    let mut output = Vec::new();
    assert!(
        serve_with(&b"hello\n"[..], &mut output, &open)
            .unwrap_err()
            .what
            .contains("mask-worker")
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
