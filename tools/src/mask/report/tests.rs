//! Tests of the summary: order of outcomes, censored compiles, the common set, MaskBench's columns.

use super::outcome::OutcomeClass;
use super::testing::{MadeRow, TIMEOUT_MS, instance, measurement, row, times};
use super::*;
use crate::mask::row::{Compile, DeclineClass, StopCause};
use sobench_engine::EngineName::{Guidance, Outlines, Xgrammar};
use sobench_results::metrics::distribution::{self, Bound};

const TIMEOUT_NS: u64 = TIMEOUT_MS * 1_000_000;

fn summary(engines: &[EngineName], rows: &[Row]) -> Summary {
    Summary::build(measurement(engines), || Ok(rows.iter().cloned().map(Ok))).unwrap()
}

/// Every instance outcome with the resulting schema outcome.
fn outcomes() -> Vec<(InstanceOutcome, Option<SchemaOutcome>)> {
    vec![
        (InstanceOutcome::Disputed { accepted: true }, None),
        (InstanceOutcome::NotJudged { accepted: false }, None),
        (InstanceOutcome::Pass, Some(SchemaOutcome::Pass)),
        (
            InstanceOutcome::RejectsValid {
                byte: 1,
                token: None,
            },
            Some(SchemaOutcome::RejectsValid),
        ),
        (
            InstanceOutcome::DeadEnd { byte: 1 },
            Some(SchemaOutcome::DeadEnd),
        ),
        (
            InstanceOutcome::Failed {
                byte: 1,
                message: "limit".into(),
            },
            Some(SchemaOutcome::Failed),
        ),
        (
            InstanceOutcome::AcceptsInvalid { byte: 1 },
            Some(SchemaOutcome::AcceptsInvalid),
        ),
    ]
}

#[test]
fn outcomes_are_sorted_and_have_unique_names() {
    fn check<K: OutcomeClass + std::fmt::Debug>() {
        assert!(K::ALL.is_sorted(), "{:?}", K::ALL);
        for (place, class) in K::ALL.iter().enumerate() {
            assert!(
                !class.name().is_empty() && !class.title().is_empty(),
                "{class:?}"
            );
            assert!(
                K::ALL[..place]
                    .iter()
                    .all(|other| other.name() != class.name() && other.title() != class.title()),
                "{class:?}"
            );
        }
    }
    check::<SchemaOutcome>();
    check::<InstanceClass>();
}

#[test]
fn worst_instance_decides_in_any_order() {
    let order = [Spelling::Maskbench, Spelling::Compact];
    for (first, from_first) in outcomes() {
        for (second, from_second) in outcomes() {
            let made = row(0, Guidance).bare().with(&first).with(&second);
            let expected = from_first
                .max(from_second)
                .unwrap_or(SchemaOutcome::NotJudged);
            assert_eq!(
                SchemaOutcome::from_row(&made, Spelling::Maskbench, &order),
                expected,
                "{first:?}, {second:?}"
            );
        }
    }
    for class in [
        DeclineClass::Unsupported,
        DeclineClass::Invalid,
        DeclineClass::TooLarge,
    ] {
        let declined = SchemaOutcome::from_decline(class);
        assert!(
            SchemaOutcome::RejectsValid < declined
                && declined < SchemaOutcome::DeadEnd
                && !declined.is_fault()
        );
    }
    assert!(
        SchemaOutcome::Failed < SchemaOutcome::Timeout
            && SchemaOutcome::Crash < SchemaOutcome::AcceptsInvalid
    );
    assert!(
        SchemaOutcome::Timeout < SchemaOutcome::OutOfMemory
            && SchemaOutcome::OutOfMemory < SchemaOutcome::Crash
    );
}

#[test]
fn rows_without_judged_instances_have_the_right_outcome() {
    let order = [Spelling::Maskbench, Spelling::Compact];
    let at = |index, spelling| Stage::Instance { index, spelling };
    let crash = |stage| row(0, Guidance).stopped_at(StopCause::Crash, stage);
    let cut_short = |passed: &[Spelling]| {
        let mut made = crash(Stage::Oracle);
        made.instances = passed
            .iter()
            .map(|spelling| instance(0, *spelling, InstanceOutcome::Pass))
            .collect();
        made
    };
    for (made, maskbench, compact) in [
        (
            row(0, Guidance).bare(),
            SchemaOutcome::NoInstance,
            SchemaOutcome::NoInstance,
        ),
        (
            crash(Stage::Oracle),
            SchemaOutcome::NotJudged,
            SchemaOutcome::NotJudged,
        ),
        (
            cut_short(&[]),
            SchemaOutcome::NotJudged,
            SchemaOutcome::NotJudged,
        ),
        (
            cut_short(&[Spelling::Maskbench]),
            SchemaOutcome::NotJudged,
            SchemaOutcome::NotJudged,
        ),
        (
            cut_short(&[Spelling::Maskbench, Spelling::Compact]),
            SchemaOutcome::Pass,
            SchemaOutcome::NotJudged,
        ),
        (
            cut_short(&[Spelling::Maskbench, Spelling::Verbatim]),
            SchemaOutcome::NotJudged,
            SchemaOutcome::NotJudged,
        ),
        (
            crash(Stage::Compile),
            SchemaOutcome::Crash,
            SchemaOutcome::Crash,
        ),
        (
            crash(Stage::Cached),
            SchemaOutcome::Crash,
            SchemaOutcome::Crash,
        ),
        (
            crash(at(0, Spelling::Maskbench)),
            SchemaOutcome::Crash,
            SchemaOutcome::Crash,
        ),
        (
            crash(at(0, Spelling::Compact)),
            SchemaOutcome::Pass,
            SchemaOutcome::Crash,
        ),
        (
            crash(at(0, Spelling::Verbatim)),
            SchemaOutcome::Crash,
            SchemaOutcome::Crash,
        ),
        (
            row(0, Guidance).declined_with("no"),
            SchemaOutcome::DeclinedUnsupported,
            SchemaOutcome::DeclinedUnsupported,
        ),
    ] {
        assert_eq!(
            SchemaOutcome::from_row(&made, Spelling::Maskbench, &order),
            maskbench,
            "{:?}",
            made.stopped
        );
        assert_eq!(
            SchemaOutcome::from_row(&made, Spelling::Compact, &order),
            compact,
            "{:?}",
            made.stopped
        );
    }
    let worst = crash(at(0, Spelling::Compact)).with(&InstanceOutcome::AcceptsInvalid { byte: 0 });
    assert_eq!(
        SchemaOutcome::from_row(&worst, Spelling::Compact, &order),
        SchemaOutcome::AcceptsInvalid,
        "worse than the crash"
    );
    let found = crash(Stage::Oracle).with(&InstanceOutcome::DeadEnd { byte: 0 });
    assert_eq!(
        SchemaOutcome::from_row(&found, Spelling::Compact, &order),
        SchemaOutcome::DeadEnd,
        "a stop of the evaluator hides no fault"
    );
}

#[test]
fn text_instances_count_in_every_spelling() {
    let mut made = row(0, Guidance).bare();
    made.instances = vec![instance(0, Spelling::Verbatim, InstanceOutcome::Pass)];
    made.times = vec![times(Spelling::Verbatim, &[7_000])];
    let summary = summary(&[Guidance], &[made]);
    for spelling in &summary.engines[0].spellings {
        assert_eq!(
            (
                spelling.schemas.get(SchemaOutcome::Pass),
                spelling.instances.total()
            ),
            (1, 1)
        );
        assert_eq!(spelling.masks.own.warm.mask.n(), 1);
    }
}

#[test]
fn timed_out_compiles_are_censored_and_other_failures_excluded() {
    let out = |index, stage| row(index, Guidance).stopped_at(StopCause::Timeout, stage);
    let rows = [
        row(0, Guidance),
        out(1, Stage::Compile),
        out(2, Stage::FirstMask),
        row(3, Guidance).stopped_at(StopCause::OutOfMemory, Stage::Compile),
        row(4, Guidance).declined_with("no"),
        out(5, Stage::Oracle),
        out(
            6,
            Stage::Instance {
                index: 0,
                spelling: Spelling::Maskbench,
            },
        ),
    ];
    let compile = &summary(&[Guidance], &rows).engines[0].compile.own;
    let figures = |distribution: &distribution::Distribution| {
        (
            distribution.n(),
            distribution.censored(),
            distribution.max(),
        )
    };
    assert_eq!(
        figures(&compile.cold),
        (3, 1, Some(Bound::Above(TIMEOUT_NS)))
    );
    assert_eq!(
        figures(&compile.to_first_mask),
        (4, 2, Some(Bound::Above(TIMEOUT_NS)))
    );
    assert_eq!(
        (compile.cold.mean_ns(), compile.cached.mean_ns()),
        (None, Some(1_000.0))
    );
    assert_eq!(
        compile.to_first_mask.percentile(75.0),
        Some(Bound::Above(TIMEOUT_NS))
    );
    assert!(
        matches!(compile.to_first_mask.percentile(50.0), Some(Bound::At(ns)) if ns.abs_diff(1_500_000) < 1_500)
    );
}

#[test]
fn common_set_is_passed_by_every_engine_in_the_headline_spelling() {
    let engines = [Guidance, Xgrammar];
    let slow = |index| {
        let mut slow = row(index, Xgrammar);
        slow.times = vec![
            times(Spelling::Maskbench, &[2_000_000, 20_000_000]),
            times(Spelling::Compact, &[5_000]),
        ];
        slow
    };
    let wrong = InstanceOutcome::RejectsValid {
        byte: 0,
        token: Some("{".into()),
    };
    let mut compact_only = row(3, Xgrammar);
    compact_only.instances[1].outcome = wrong.clone();
    let rows = [
        row(0, Guidance),
        slow(0),
        row(1, Guidance),
        slow(1).with(&wrong),
        row(2, Guidance).declined_with("no"),
        row(2, Xgrammar),
        row(3, Guidance),
        compact_only,
        row(4, Guidance).bare(),
        row(4, Xgrammar).bare(),
    ];
    let summary = summary(&engines, &rows);
    assert_eq!(
        summary.common_schemas, 2,
        "0 and 3: failures in another spelling only do not matter"
    );
    let [guidance, xgrammar] = &summary.engines[..] else {
        panic!("two engines")
    };
    let n = |engine: &EngineSummary| {
        (
            engine.headline().masks.own.schemas,
            engine.headline().masks.common.schemas,
        )
    };
    assert_eq!((n(guidance), n(xgrammar)), ((3, 2), (4, 2)));
    assert_eq!(
        (
            guidance.compile.own.cold.n(),
            guidance.compile.common.cold.n()
        ),
        (4, 2)
    );
    let own = &xgrammar.headline().masks.own.warm.mask;
    assert_eq!(
        (own.n(), own.share_above(distribution::VERY_SLOW_NS)),
        (10, Some(0.2))
    );
    assert_eq!(xgrammar.headline().masks.common.warm.mask.n(), 5);
    assert_eq!(
        xgrammar.headline().schemas.get(SchemaOutcome::NoInstance),
        1
    );
}

#[test]
fn unknown_engines_and_unreadable_rows_are_errors() {
    let foreign = Summary::build(measurement(&[Guidance]), || Ok([Ok(row(7, Outlines))]));
    assert!(foreign.unwrap_err().what.ends_with("outlines"));
    let torn = Summary::build(measurement(&[Guidance]), || {
        Ok([Err::<Row, _>(Error::environment("cannot read rows: x"))])
    });
    assert!(torn.is_err());
}

#[test]
fn capacity_counts_sequences_per_ten_milliseconds() {
    let summary = summary(&[Guidance], &[row(0, Guidance)]);
    let capacity = summary.engines[0]
        .headline()
        .masks
        .own
        .warm
        .one_core
        .unwrap();
    // Steps of 11, 22 and 33 us: the mean is 22, and the 99th percentile is the maximum.
    assert!((capacity.masks_per_second - 1e9 / 22_000.0).abs() < 1e-6);
    assert_eq!(
        (capacity.sequences_by_mean, capacity.sequences_by_p99),
        (454, 302)
    );
    assert_eq!(latency::PassSummary::default().one_core, None);
    let slope = summary.engines[0]
        .headline()
        .masks
        .own
        .warm
        .slope_ns_per_position
        .unwrap();
    assert!((slope - 10_000.0).abs() < 1e-6);
}

#[test]
fn maskbench_counts_the_last_wrong_test_by_label_and_tokens() {
    let instance = |label: bool, outcome, masks| InstanceRow {
        label: Some(label),
        judged: Some(true),
        masks,
        ..instance(0, Spelling::Maskbench, outcome)
    };
    let masked_out = || {
        instance(
            true,
            InstanceOutcome::RejectsValid {
                byte: 1,
                token: Some("x".into()),
            },
            2,
        )
    };
    let end_masked_out = || {
        instance(
            true,
            InstanceOutcome::RejectsValid {
                byte: 9,
                token: None,
            },
            4,
        )
    };
    let verbatim = |instance: InstanceRow| InstanceRow {
        spelling: Spelling::Verbatim,
        ..instance
    };
    let swallowed = || instance(false, InstanceOutcome::AcceptsInvalid { byte: 9 }, 4);
    for (instances, expected) in [
        (vec![end_masked_out()], "passing"),
        (vec![masked_out()], "validation_error"),
        (vec![masked_out(), swallowed()], "invalidation_error"),
        (vec![swallowed(), masked_out()], "validation_error"),
        (
            vec![instance(
                true,
                InstanceOutcome::AcceptsInvalid { byte: 1 },
                4,
            )],
            "passing",
        ),
        (
            vec![instance(
                true,
                InstanceOutcome::AcceptsInvalid { byte: 1 },
                2,
            )],
            "validation_error",
        ),
        (
            vec![instance(false, InstanceOutcome::Pass, 4)],
            "invalidation_error",
        ),
        (vec![instance(false, InstanceOutcome::Pass, 2)], "passing"),
        (
            vec![instance(
                false,
                InstanceOutcome::Disputed { accepted: true },
                4,
            )],
            "invalidation_error",
        ),
        (
            vec![instance(
                true,
                InstanceOutcome::NotJudged { accepted: false },
                0,
            )],
            "passing",
        ),
        (
            vec![instance(
                true,
                InstanceOutcome::Failed {
                    byte: 0,
                    message: "no".into(),
                },
                0,
            )],
            "validation_error",
        ),
        (vec![verbatim(masked_out())], "passing"),
        (vec![], "passing"),
    ] {
        let mut made = row(0, Guidance);
        made.instances = instances;
        // A second, declined schema keeps the column when the first schema has no test.
        let mut declined = row(1, Guidance).declined_with("no");
        declined.instances = vec![instance(true, InstanceOutcome::Pass, 4)];
        let column = serde_json::to_value(
            &summary(&[Guidance], &[made.clone(), declined]).engines[0].maskbench,
        )
        .unwrap();
        assert_eq!(
            column[expected].as_u64(),
            Some(1),
            "{:?}: {column}",
            made.instances
        );
    }
}

#[test]
fn maskbench_skips_other_texts_and_counts_evaluator_stops_as_not_judged() {
    let column = |rows: &[Row]| summary(&[Guidance], rows).engines[0].maskbench.clone();
    let mut text = row(0, Guidance).bare();
    text.instances = vec![instance(0, Spelling::Verbatim, InstanceOutcome::Pass)];
    let mut regex = row(1, Guidance);
    regex.kind = "regex".into();
    assert_eq!(
        (column(&[text.clone()]), column(&[regex.clone(), text])),
        (None, None)
    );
    let ours = |index, outcome: &InstanceOutcome| {
        let mut made = row(index, Guidance).stopped_at(StopCause::Timeout, Stage::Oracle);
        made.instances = vec![instance(0, Spelling::Maskbench, outcome.clone())];
        made
    };
    let wrong = InstanceOutcome::RejectsValid {
        byte: 1,
        token: None,
    };
    let mut rejected = ours(2, &wrong);
    rejected.instances[0].masks = 1;
    let column = column(&[
        row(0, Guidance),
        regex,
        rejected,
        ours(3, &InstanceOutcome::Pass),
    ])
    .unwrap();
    assert_eq!(
        (
            column.schemas,
            column.passing,
            column.validation_error,
            column.not_judged
        ),
        (3, 1, 1, 1)
    );
    assert_eq!((column.timeout, column.tokens), (0, 3));
}

#[test]
fn maskbench_counts_timeouts_as_the_limit_and_uses_cold_steps() {
    let rows = [
        row(0, Guidance),
        row(1, Guidance).stopped_at(StopCause::Timeout, Stage::Compile),
        row(2, Guidance).declined_with("no"),
        row(3, Guidance).stopped_at(StopCause::OutOfMemory, Stage::Compile),
    ];
    let column = summary(&[Guidance], &rows).engines[0]
        .maskbench
        .clone()
        .unwrap();
    assert_eq!(
        (
            column.schemas,
            column.passing,
            column.timeout,
            column.compile_error,
            column.out_of_memory
        ),
        (4, 1, 1, 1, 1)
    );
    assert_eq!(
        column.ttfm.mean_us,
        Some(f64::midpoint(1_000.0, TIMEOUT_NS as f64 / 1e3))
    );
    assert_eq!((column.tokens, column.tbm.mean_us), (3, Some(44.0)));
}

#[test]
fn disputed_instances_are_listed_once_with_every_engine() {
    let disputed = |accepted| InstanceOutcome::Disputed { accepted };
    let rows = [
        row(0, Guidance).with(&disputed(true)),
        row(0, Xgrammar).with(&disputed(false)),
    ];
    let summary = summary(&[Guidance, Xgrammar], &rows);
    let listed: Vec<_> = summary.disputes.iter().collect();
    assert_eq!((summary.disputes.total(), listed[0].instance), (1, 1));
    assert_eq!(
        (&listed[0].accepted_by[..], &listed[0].rejected_by[..]),
        (&[Guidance][..], &[Xgrammar][..])
    );
    assert_eq!(
        summary.common_schemas, 1,
        "disputed instances do not affect the outcome"
    );
}

#[test]
fn witnesses_are_first_per_kind_and_schema_worst_first() {
    let rejects = InstanceOutcome::RejectsValid {
        byte: 3,
        token: Some("\"a".into()),
    };
    let accepts = InstanceOutcome::AcceptsInvalid { byte: 8 };
    let rows: Vec<Row> = (0..30)
        .map(|index| {
            row(index, Guidance)
                .with(&rejects)
                .with(&rejects)
                .with(&accepts)
        })
        .collect();
    let summary = summary(&[Guidance], &rows);
    let witnesses: Vec<_> = summary.engines[0].witnesses.iter().collect();
    assert_eq!(witnesses.len(), 2 * witness::MAX_WITNESSES);
    assert_eq!(
        (witnesses[0].class, witnesses[0].instance, witnesses[0].byte),
        (InstanceClass::AcceptsInvalid, 3, 8)
    );
    assert_eq!(
        (
            witnesses[20].class,
            witnesses[20].instance,
            witnesses[21].entry_index
        ),
        (InstanceClass::RejectsValid, 1, 1)
    );
    assert!(
        witnesses
            .iter()
            .all(|witness| witness.spelling == Spelling::Maskbench),
        "the other spelling has nothing new"
    );
}

#[test]
fn stopped_walks_are_counted_and_timeouts_censored() {
    let stage = Stage::Instance {
        index: 0,
        spelling: Spelling::Compact,
    };
    for (cause, censored) in [
        (StopCause::Timeout, 1),
        (StopCause::Crash, 0),
        (StopCause::OutOfMemory, 0),
    ] {
        let mut stopped = row(0, Guidance).stopped_at(cause, stage);
        stopped.times.truncate(1);
        let engine = &summary(&[Guidance], &[stopped, row(1, Guidance)]).engines[0];
        let figures = |place: usize| {
            let masks = &engine.spellings[place].masks.own;
            (masks.schemas, masks.stopped, masks.warm.mask.n())
        };
        assert_eq!(
            (figures(0), figures(1)),
            ((2, 0, 6), (2, 1, 3 + censored)),
            "{cause:?}"
        );
        let own = &engine.spellings[1].masks.own;
        for distribution in [
            &own.warm.mask,
            &own.warm.step,
            &own.cold.mask,
            &own.cold.step,
        ] {
            assert_eq!(distribution.censored(), censored, "{cause:?}");
            assert_eq!(
                distribution.max() == Some(Bound::Above(TIMEOUT_NS)),
                censored == 1,
                "{cause:?}"
            );
            assert_eq!(distribution.mean_ns().is_none(), censored == 1, "{cause:?}");
        }
        assert_eq!(
            (own.warm.commit.censored(), own.warm.one_core.is_none()),
            (0, censored == 1)
        );
    }
}

#[test]
fn rows_without_memory_growth_are_counted_but_in_no_percentile() {
    let peak = |index: usize, peak_bytes| {
        let mut made = row(index, Guidance);
        made.compile = made.compile.map(|compile| Compile {
            peak_bytes,
            ..compile
        });
        made
    };
    let rows = [
        peak(0, Some(0)),
        peak(1, Some(0)),
        peak(2, Some(0)),
        peak(3, Some(512)),
        peak(4, None),
    ];
    let memory = &summary(&[Guidance], &rows).engines[0].memory;
    assert_eq!(
        (
            memory.peak_known,
            memory.peak.n(),
            memory.peak.percentile(50.0)
        ),
        (4, 1, Some(512))
    );
    assert_eq!(
        (
            memory.share_grown(),
            latency::MemorySummary::default().share_grown()
        ),
        (Some(0.25), None)
    );
}

#[test]
fn tags_count_each_schema_once_most_faults_first() {
    let mut wrong = row(0, Guidance).with(&InstanceOutcome::DeadEnd { byte: 0 });
    wrong.tags = vec!["not".into()];
    let mut declined = row(1, Guidance).declined_with("no");
    declined.tags = vec!["$ref".into()];
    let summary = summary(&[Guidance], &[wrong, declined, row(2, Guidance)]);
    let tags: Vec<(&str, u64)> = summary
        .tags
        .sorted()
        .iter()
        .map(|tag| (tag.tag, tag.schemas()))
        .collect();
    assert_eq!(tags, [("not", 1), ("$ref", 1), ("type", 1)]);
}
