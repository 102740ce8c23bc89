//! The columns of MaskBench's published table, counted as its script counts them
//! (guidance-ai/jsonschemabench, `maskbench/runner.py` and `scripts/maskbench_results.py`), to line
//! up with old figures. Our own figures are elsewhere.

use serde::Serialize;

use super::outcome::stop_in;
use sobench_mask::row::{InstanceOutcome, InstanceRow, Row, Spelling, Stage, StopCause};
use sobench_results::metrics::distribution::{Bound, Distribution};

/// The percentiles of MaskBench's table; 100 is the longest.
pub const PERCENTILES: [f64; 8] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// The kind of the rows that MaskBench could have.
const JSON_SCHEMA: &str = "json";

/// What is not as in MaskBench, a sentence each.
pub const DIFFERENCES: [&str; 7] = [
    "TBM is mask and commit of the same token, cold, by a nanosecond clock in this process; MaskBench times through Python and \
     cuts to whole microseconds.",
    "TTFM is the compile alone, as there; a timeout is taken for the limit, as there, which is why these means stand in no other \
     table.",
    "Whether the text may end is not asked, as there: an invalid text of which every token is allowed counts as accepted.",
    "A token counts as accepted where the mask allows it; MaskBench's XGrammar adapter asks the matcher and never looks at the mask.",
    "The corpus's label decides, as there; where the corpus has none, our evaluator does.",
    "Schemas that our own evaluator cut short and in which no test was wrong before are counted apart, as not judged; constraints \
     other than JSON schemas, and texts that are no JSON, are not in it.",
    "Percentiles are the smallest value that the share does not exceed, within 0.1 %; MaskBench takes the element at the rounded \
     down place.",
];

/// One engine's column. The unit of the counts is the schema, that of `tokens` the token.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MaskbenchColumn {
    pub schemas: u64,
    /// Every test right, or compiled and no test.
    pub passing: u64,
    pub compile_error: u64,
    pub crash: u64,
    pub out_of_memory: u64,
    pub timeout: u64,
    /// The last wrong test is a valid one that was rejected.
    pub validation_error: u64,
    /// The last wrong test is an invalid one that was accepted.
    pub invalidation_error: u64,
    /// Our own evaluator was stopped, and no test before that was wrong.
    pub not_judged: u64,
    pub tokens: u64,
    pub tbm: MaskbenchTimes,
    pub ttfm: MaskbenchTimes,
    /// Tests that were reached.
    #[serde(skip)]
    tests: u64,
    #[serde(skip)]
    steps: Distribution,
    #[serde(skip)]
    compiles: Distribution,
}

/// Mean and percentiles in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MaskbenchTimes {
    pub mean_us: Option<f64>,
    pub percentiles: Vec<MaskbenchPercentile>,
}

/// A percentile in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MaskbenchPercentile {
    pub p: f64,
    pub us: Option<f64>,
}

impl MaskbenchColumn {
    /// Adds a row of a JSON schema by its instances in MaskBench's spelling, and by nothing else of
    /// it.
    pub fn add(&mut self, row: &Row, order: &[Spelling], limit_ns: u64) {
        if row.kind != JSON_SCHEMA {
            return;
        }
        self.schemas += 1;
        if let Some(compile) = &row.compile {
            self.compiles.record(compile.cold_ns);
        }
        let tests = || {
            row.instances
                .iter()
                .filter(|it| it.spelling == Spelling::Maskbench)
        };
        self.tests += tests().count() as u64;
        let stopped = stop_in(row, Spelling::Maskbench, order).filter(|it| {
            !matches!(
                it.stage,
                Stage::Instance {
                    spelling: Spelling::Verbatim,
                    ..
                }
            )
        });
        let ours = stopped.is_some_and(|it| it.stage == Stage::Oracle);
        match (stopped.filter(|_| !ours), &row.declined) {
            (Some(stopped), _) => match stopped.cause {
                StopCause::Crash => self.crash += 1,
                StopCause::OutOfMemory => self.out_of_memory += 1,
                StopCause::Timeout => {
                    self.timeout += 1;
                    if row.compile.is_none() {
                        self.compiles.censor(limit_ns);
                    }
                }
            },
            (None, Some(_)) => self.compile_error += 1,
            (None, None) => match tests().filter_map(wrong_test).next_back() {
                Some(Wrong::Validation) => self.validation_error += 1,
                Some(Wrong::Invalidation) => self.invalidation_error += 1,
                None if ours => self.not_judged += 1,
                None => self.passing += 1,
            },
        }
        let times = row
            .times
            .iter()
            .filter(|it| it.spelling == Spelling::Maskbench);
        times.for_each(|it| self.steps.merge(&it.cold.step));
    }

    /// Whether there is a text in MaskBench's spelling to count.
    pub fn has_tests(&self) -> bool {
        self.tests > 0
    }

    /// Reads the figures off, once every row was added.
    pub fn finish(&mut self) {
        self.tokens = self.steps.n();
        self.tbm = MaskbenchTimes::of(&self.steps);
        self.ttfm = MaskbenchTimes::of(&self.compiles);
    }
}

impl MaskbenchTimes {
    fn of(distribution: &Distribution) -> Self {
        let us = |bound: Bound| match bound {
            Bound::At(ns) | Bound::Above(ns) => ns as f64 / 1e3,
        };
        let percentiles = PERCENTILES.map(|p| MaskbenchPercentile {
            p,
            us: distribution.percentile(p).map(us),
        });
        Self {
            mean_us: distribution.mean_at_limit_ns().map(|ns| ns / 1e3),
            percentiles: percentiles.to_vec(),
        }
    }
}

/// The two ways in which a test can be wrong.
enum Wrong {
    Validation,
    Invalidation,
}

/// How MaskBench would judge the instance: by its label, by the tokens alone, without the end.
fn wrong_test(instance: &InstanceRow) -> Option<Wrong> {
    let valid = instance.label.or(instance.judged)?;
    // No token spells the text, so that no mask was asked for.
    if instance.masks == 0 && matches!(instance.outcome, InstanceOutcome::NotJudged { .. }) {
        return None;
    }
    // A walk goes on past an end that was allowed too early, and the mask after the last token is
    // computed only where every token was allowed.
    let accepted = instance.masks > instance.tokens;
    match (valid, accepted) {
        (true, false) => Some(Wrong::Validation),
        (false, true) => Some(Wrong::Invalidation),
        _ => None,
    }
}
