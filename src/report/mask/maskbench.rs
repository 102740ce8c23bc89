//! The columns of MaskBench's published table, counted as its script counts them (guidance-ai/jsonschemabench,
//! `maskbench/runner.py` and `scripts/maskbench_results.py`), to line up with old figures. Our own figures are elsewhere.

use serde::Serialize;

use super::distribution::{Bound, Distribution};
use super::outcome::{instances_in, stop_in};
use crate::mask::row::{InstanceRow, Row, Spelling, Stage, StopCause};

/// The percentiles of MaskBench's table; 100 is the longest.
pub const PERCENTILES: [f64; 8] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// What is not as in MaskBench, a sentence each.
pub const DIFFERENCES: [&str; 6] = [
    "TBM is mask and commit of the same token, cold, by a nanosecond clock in this process; MaskBench times through Python and \
     cuts to whole microseconds.",
    "TTFM is the compile alone, as there; a timeout is taken for the limit, as there, which is why these means stand in no other \
     table.",
    "Whether the text may end is not asked, as there: an invalid text of which every token is allowed counts as accepted.",
    "A token counts as accepted where the mask allows it; MaskBench's XGrammar adapter asks the matcher and never looks at the mask.",
    "The corpus's label decides, as there; where the corpus has none, our evaluator does.",
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
    pub tokens: u64,
    pub tbm: MaskbenchTimes,
    pub ttfm: MaskbenchTimes,
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
    /// Adds a row by its instances in MaskBench's spelling.
    pub fn add(&mut self, row: &Row, order: &[Spelling], limit_ns: u64) {
        self.schemas += 1;
        if let Some(compile) = &row.compile {
            self.compiles.record(compile.cold_ns);
        }
        let stopped = stop_in(row, Spelling::Maskbench, order).filter(|it| it.stage != Stage::Oracle);
        match (stopped, &row.declined) {
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
            (None, None) => match instances_in(row, Spelling::Maskbench).filter_map(wrong_test).last() {
                Some(Wrong::Validation) => self.validation_error += 1,
                Some(Wrong::Invalidation) => self.invalidation_error += 1,
                None => self.passing += 1,
            },
        }
        let times = row.times.iter().filter(|it| it.spelling == Spelling::Maskbench);
        times.for_each(|it| self.steps.merge(&it.cold.step));
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
        let percentiles = PERCENTILES.map(|p| MaskbenchPercentile { p, us: distribution.percentile(p).map(us) });
        Self { mean_us: distribution.mean_at_limit_ns().map(|ns| ns / 1e3), percentiles: percentiles.to_vec() }
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
    // A walk goes on past an end that was allowed too early, and the mask after the last token is computed only where every token
    // was allowed.
    let accepted = instance.masks > instance.tokens;
    match (valid, accepted) {
        (true, false) => Some(Wrong::Validation),
        (false, true) => Some(Wrong::Invalidation),
        _ => None,
    }
}
