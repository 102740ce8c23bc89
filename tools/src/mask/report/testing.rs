//! Handmade rows and measurements for tests.

use super::{Measurement, Summary};
use crate::mask::drafts::{
    DraftCheck, DraftCounts, DraftDifference, DraftRow, DraftTimes, ForcedTokens, RefusedRollbacks,
    TreeCounts,
};
use crate::mask::record::{
    BatchRow, CorpusKind, CorpusRecord, MachineRecord, MaskRecord, MeasuredEngine, Sample,
    VocabularyRecord,
};
use crate::mask::row::{
    Compile, DeclineClass, Declined, InstanceOutcome, InstanceRow, PassTimes, Row, Spelling,
    SpellingTimes, Stage, StopCause, Stopped,
};
use crate::mask::times::Durations;
use sobench_engine::{EngineName, EnginePolicy};
use sobench_notices::notice::Notice;

/// The time limit of a row in these measurements.
pub(crate) const TIMEOUT_MS: u64 = 60_000;

/// A measurement of these engines in the spellings `maskbench` and `compact`.
pub(crate) fn measurement(engines: &[EngineName]) -> Measurement {
    let engine = |name: &EngineName| MeasuredEngine {
        engine: *name,
        version: format!(
            "lib-{} 1.2.3{}",
            name.name(),
            if *name == EngineName::Xgrammar {
                ", port"
            } else {
                ""
            }
        ),
        settings: vec![("whitespace".into(), "any".into())],
        peak_rss_bytes: Some(300 << 20),
        wall_ns: 2_500_000_000,
        open_ns: Some(120_000_000),
    };
    let record = MaskRecord {
        engines: engines.iter().map(engine).collect(),
        corpora: vec![CorpusRecord {
            source: "made-by-hand".into(),
            kind: CorpusKind::Maskbench,
            entries: 5,
            instances: 9,
            unreadable: 1,
            sha256: "0123456789abcdef".repeat(4),
        }],
        selected: 5,
        vocabulary: VocabularyRecord {
            name: "cl100k_base".into(),
            ids: 100_277,
        },
        policy: EnginePolicy::default(),
        spellings: vec![Spelling::Maskbench, Spelling::Compact],
        assert_formats: true,
        warm: true,
        filter: Some("a|b".into()),
        limit: None,
        sample: Some(Sample {
            entries: 5,
            seed: 7,
        }),
        jobs: 2,
        timeout_ms: TIMEOUT_MS,
        memory_limit_bytes: Some(4 << 30),
        drafts: None,
        prove: None,
        shard: None,
        host: MachineRecord {
            os: "linux".into(),
            arch: "x86_64".into(),
            cpu: None,
            threads: 2,
            clock_ns: 25,
        },
    };
    Measurement {
        record,
        batches: Vec::new(),
        sobench_version: "0.0.0".into(),
        date: Some("20260102-030405".into()),
        wall_ns: Some(6_000_000_000),
        interrupted: false,
        notices: Vec::new(),
    }
}

/// Two engines that differ in every reported figure.
pub(crate) fn eventful() -> Summary {
    let engines = [EngineName::Guidance, EngineName::Xgrammar];
    let batch = |engine, sequences: usize, step_ns: u64| {
        let mut step = Durations::default();
        (0..4).for_each(|_| step.record(step_ns));
        let masks_per_second = sequences as f64 * 1e9 / step_ns as f64;
        BatchRow {
            engine,
            sequences,
            distinct: 1,
            threads: 2,
            step,
            masks: 4 * sequences as u64,
            masks_per_second,
        }
    };
    let batches = vec![
        batch(EngineName::Guidance, 1, 20_000),
        batch(EngineName::Guidance, 8, 90_000),
        batch(EngineName::Xgrammar, 1, 5_000),
    ];
    let notices = vec![Notice::Other(
        "a file was not read: \u{1b}[31mred<script>.json".to_owned(),
    )];
    let measurement = Measurement {
        batches,
        notices,
        ..measurement(&engines)
    };
    let rows = eventful_rows();
    Summary::build(measurement, || Ok(rows.iter().cloned().map(Ok)))
        .expect("the rows are of these engines")
}

/// The rows of [`eventful`]; one is missing.
pub(crate) fn eventful_rows() -> Vec<Row> {
    use EngineName::{Guidance, Xgrammar};
    let mut tagged = row(1, Guidance).declined_with("Unimplemented keys: [\"if\"]");
    tagged.tags = vec!["if".into(), "<b>&\u{1b}".into()];
    let mut slow = row(0, Xgrammar);
    slow.times[0] = times(Spelling::Maskbench, &[3_000, 4_000, 2_500_000, 31_000_000]);
    let mut wrong = row(1, Xgrammar).with(&InstanceOutcome::AcceptsInvalid { byte: 12 });
    wrong.tags.clone_from(&tagged.tags);
    let rejects = InstanceOutcome::RejectsValid {
        byte: 7,
        token: Some("\u{1b}\"</td>".into()),
    };
    let at = |spelling| Stage::Instance { index: 0, spelling };
    vec![
        row(0, Guidance).with(&InstanceOutcome::Disputed { accepted: true }),
        tagged,
        row(2, Guidance).with(&InstanceOutcome::RejectsValid {
            byte: 9,
            token: None,
        }),
        row(3, Guidance).bare(),
        row(4, Guidance).with(&InstanceOutcome::Failed {
            byte: 2,
            message: "too many items".into(),
        }),
        slow.with(&InstanceOutcome::Disputed { accepted: false }),
        wrong,
        row(2, Xgrammar)
            .with(&rejects)
            .with(&InstanceOutcome::DeadEnd { byte: 1 }),
        row(3, Xgrammar).stopped_at(StopCause::Timeout, Stage::Compile),
        row(4, Xgrammar).stopped_at(StopCause::Crash, at(Spelling::Compact)),
    ]
}

/// A row with a compile of 1 ms, a first mask of 0.5 ms, and one passed instance of three tokens in
/// each spelling.
pub(crate) fn row(index: usize, engine: EngineName) -> Row {
    let spellings = [Spelling::Maskbench, Spelling::Compact];
    Row {
        index,
        entry: format!("entry-{index}.json"),
        engine,
        tags: vec!["type".into(), "type".into()],
        kind: "json".into(),
        route: None,
        declined: None,
        stopped: None,
        compile: Some(Compile {
            cold_ns: 1_000_000,
            first_mask_ns: 500_000,
            cached_ns: 1_000,
            grammar_bytes: Some(4096),
            peak_bytes: Some(1 << 20),
        }),
        instances: spellings
            .map(|spelling| instance(0, spelling, InstanceOutcome::Pass))
            .to_vec(),
        times: spellings
            .map(|spelling| times(spelling, &[10_000, 20_000, 30_000]))
            .to_vec(),
        drafts: None,
    }
}

/// A valid instance of three tokens.
pub(crate) fn instance(index: usize, spelling: Spelling, outcome: InstanceOutcome) -> InstanceRow {
    let before = outcome.byte().map(|_| "{\"naïve\": [1.5,\n".to_owned());
    InstanceRow {
        index,
        spelling,
        label: Some(true),
        judged: Some(true),
        outcome,
        tokens: 3,
        masks: 4,
        before,
    }
}

/// One walk; a commit takes a tenth of its mask, and cold takes twice as long as warm.
pub(crate) fn times(spelling: Spelling, masks_ns: &[u64]) -> SpellingTimes {
    let pass = |factor: u64| {
        let mut times = PassTimes::default();
        for (position, ns) in masks_ns.iter().map(|ns| ns * factor).enumerate() {
            times.mask.record(ns);
            times.commit.record(ns / 10);
            times.step.record(ns + ns / 10);
            times.slope.record(position, ns);
        }
        times
    };
    SpellingTimes {
        spelling,
        cold: pass(2),
        warm: pass(1),
    }
}

/// Three engines with drafts of four tokens on two corpora: one is right, one refuses rollbacks of
/// more than two tokens, and one restores a wrong mask. The drafts of another row were stopped.
pub(crate) fn drafted() -> Summary {
    let engines = [
        EngineName::Guidance,
        EngineName::Xgrammar,
        EngineName::Outlines,
    ];
    let mut measurement = measurement(&engines);
    measurement.record.drafts = Some(4);
    let mut corpus = measurement.record.corpora[0].clone();
    corpus.source = "also-made-by-hand".into();
    measurement.record.corpora.push(corpus);
    let rows = drafted_rows();
    Summary::build(measurement, || Ok(rows.iter().cloned().map(Ok)))
        .expect("the rows are of these engines")
}

/// The rows of [`drafted`].
pub(crate) fn drafted_rows() -> Vec<Row> {
    let with = |index, engine, drafts| Row {
        drafts: Some(drafts),
        ..row(index, engine)
    };
    let mut limited = drafts();
    limited.times = DraftTimes::default();
    limited.refused_rollbacks = RefusedRollbacks {
        rollbacks: 3,
        limit: Some(2),
        message: Some("at most 2 tokens\u{1b}".into()),
    };
    let mut wrong = drafts();
    wrong.differences = [(DraftCheck::Mask, 2), (DraftCheck::Failed, 1)].into();
    wrong.first_difference = Some(DraftDifference {
        check: DraftCheck::Mask,
        instance: 0,
        position: 2,
        byte: 6,
        drafted: 4,
        before: "{\"naïve\u{1b}".into(),
        message: Some("too many <items>".into()),
    });
    let stage = Stage::Drafts {
        index: 0,
        spelling: Spelling::Maskbench,
    };
    vec![
        with(0, EngineName::Guidance, drafts()),
        with(6, EngineName::Guidance, drafts()),
        with(0, EngineName::Xgrammar, limited),
        row(6, EngineName::Xgrammar).stopped_at(StopCause::Timeout, stage),
        with(0, EngineName::Outlines, wrong),
    ]
}

/// Drafts of four tokens along a text of five.
pub(crate) fn drafts() -> DraftRow {
    let durations = |values: &[u64]| {
        let mut durations = Durations::default();
        values.iter().for_each(|ns| durations.record(*ns));
        durations
    };
    DraftRow {
        texts: 1,
        positions: 6,
        along: DraftCounts {
            drafts: 6,
            tokens: 18,
            accepted: 18,
        },
        leaving: DraftCounts {
            drafts: 4,
            tokens: 14,
            accepted: 5,
        },
        times: DraftTimes {
            masks: durations(&[40_000, 50_000, 60_000]),
            commits: durations(&[4_000, 5_000, 6_000]),
            rollback: durations(&[300, 400, 500]),
            fork: durations(&[700, 800]),
        },
        trees: TreeCounts {
            trees: 1,
            branches: 4,
        },
        forced: ForcedTokens {
            positions: 6,
            one_allowed: 3,
            jumped: 2,
            jumps: 1,
            canonical: 2,
            not_canonical: 1,
            uncompared: 1,
            mask_ns: 60_000,
            saved_ns: 20_000,
            ask_ns: 2_000,
        },
        ..DraftRow::default()
    }
}

/// Modifications of handmade rows.
pub(crate) trait MadeRow {
    /// The same entry, declined.
    fn declined_with(self, message: &str) -> Self;

    /// The same entry, stopped; without instances if stopped before them.
    fn stopped_at(self, cause: StopCause, stage: Stage) -> Self;

    /// The same entry with one more instance of this outcome in every spelling.
    fn with(self, outcome: &InstanceOutcome) -> Self;

    /// The same entry without its instances.
    fn bare(self) -> Self;
}

impl MadeRow for Row {
    fn declined_with(mut self, message: &str) -> Self {
        let declined = Declined {
            class: DeclineClass::Unsupported,
            feature: None,
            message: message.to_owned(),
            after_ns: 5,
        };
        self.declined = Some(declined);
        (self.compile, self.instances, self.times) = (None, Vec::new(), Vec::new());
        self
    }

    fn stopped_at(mut self, cause: StopCause, stage: Stage) -> Self {
        self.stopped = Some(Stopped {
            cause,
            stage,
            message: "gone".into(),
            after_ns: 9,
        });
        if !matches!(stage, Stage::Instance { .. } | Stage::Drafts { .. }) {
            (self.compile, self.instances, self.times) = (None, Vec::new(), Vec::new());
        }
        self
    }

    fn with(mut self, outcome: &InstanceOutcome) -> Self {
        let index = self
            .instances
            .iter()
            .map(|instance| instance.index + 1)
            .max()
            .unwrap_or(0);
        self.instances.extend(
            [Spelling::Maskbench, Spelling::Compact]
                .map(|spelling| instance(index, spelling, outcome.clone())),
        );
        self
    }

    fn bare(mut self) -> Self {
        (self.instances, self.times) = (Vec::new(), Vec::new());
        self
    }
}
