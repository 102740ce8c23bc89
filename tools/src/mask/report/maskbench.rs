//! The columns of MaskBench's published table, counted as its scripts do
//! (guidance-ai/jsonschemabench, `maskbench/runner.py` and `scripts/maskbench_results.py`), for
//! comparison with published figures.

use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::stop_affecting;
use crate::mask::row::{InstanceOutcome, InstanceRow, Row, Spelling, Stage, StopCause};
use sobench_results::metrics::distribution::{Bound, Distribution};

/// Percentiles of MaskBench's table; 100 is the maximum.
pub const PERCENTILES: [f64; 8] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0];

/// The constraint kind that MaskBench supports.
const JSON_SCHEMA: &str = "json";

/// Differences from MaskBench, one sentence each.
pub const DIFFERENCES: [&str; 7] = [
    "TBM is mask plus commit of a token, cold, with a nanosecond clock in the engine's process; MaskBench times through Python and \
     truncates to microseconds.",
    "TTFM is the compile alone, as in MaskBench; a timeout counts as the limit, as in MaskBench, so these means are in no other \
     table.",
    "The end is not checked, as in MaskBench: an invalid text counts as accepted if every token is allowed.",
    "A token counts as accepted if the mask allows it; MaskBench's XGrammar adapter uses the matcher and ignores the mask.",
    "The label of the corpus decides, as in MaskBench; without a label, the evaluator decides.",
    "Schemas stopped by the evaluator without an earlier wrong test are counted separately, as not judged; constraints \
     other than JSON schemas, and text instances, are excluded.",
    "A percentile is the smallest value that the share does not exceed, within 0.1 %; MaskBench takes the element at the rounded \
     down index.",
];

/// One engine's column. The unit of the counts is the schema; that of `tokens` is the token.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct MaskbenchColumn {
    pub schemas: u64,
    /// All tests correct, or compiled without tests.
    pub passing: u64,
    pub compile_error: u64,
    pub crash: u64,
    pub out_of_memory: u64,
    pub timeout: u64,
    /// The last wrong test is a valid one that was rejected.
    pub validation_error: u64,
    /// The last wrong test is an invalid one that was accepted.
    pub invalidation_error: u64,
    /// The evaluator was stopped, and no earlier test was wrong.
    pub not_judged: u64,
    pub tokens: u64,
    pub tbm: MaskbenchTimes,
    pub ttfm: MaskbenchTimes,
    /// Reached tests.
    #[serde(skip)]
    tests: u64,
    #[serde(skip)]
    steps: Distribution,
    #[serde(skip)]
    compiles: Distribution,
}

/// Mean and percentiles in microseconds.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct MaskbenchTimes {
    pub mean_us: Option<f64>,
    pub percentiles: Vec<MaskbenchPercentile>,
}

/// A percentile in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct MaskbenchPercentile {
    pub p: f64,
    pub us: Option<f64>,
}

impl MaskbenchColumn {
    /// Adds a row of a JSON schema, using only its instances in MaskBench's spelling.
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
                .filter(|instance| instance.spelling == Spelling::Maskbench)
        };
        self.tests += tests().count() as u64;
        let stopped = stop_affecting(row, Spelling::Maskbench, order).filter(|stopped| {
            !matches!(
                stopped.stage,
                Stage::Instance {
                    spelling: Spelling::Verbatim,
                    ..
                }
            )
        });
        let is_oracle_stop = stopped.is_some_and(|stopped| stopped.stage == Stage::Oracle);
        match (stopped.filter(|_| !is_oracle_stop), &row.declined) {
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
                None if is_oracle_stop => self.not_judged += 1,
                None => self.passing += 1,
            },
        }
        let times = row
            .times
            .iter()
            .filter(|times| times.spelling == Spelling::Maskbench);
        times.for_each(|times| self.steps.merge(&times.cold.step));
    }

    /// Whether there is a test in MaskBench's spelling.
    pub fn has_tests(&self) -> bool {
        self.tests > 0
    }

    /// Computes the figures after all rows were added.
    pub fn finish(&mut self) {
        self.tokens = self.steps.n();
        self.tbm = MaskbenchTimes::from_distribution(&self.steps);
        self.ttfm = MaskbenchTimes::from_distribution(&self.compiles);
    }
}

impl MaskbenchTimes {
    fn from_distribution(distribution: &Distribution) -> Self {
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

/// The kinds of wrong tests.
enum Wrong {
    Validation,
    Invalidation,
}

/// MaskBench's judgement of an instance: by its label and the tokens, without the end.
fn wrong_test(instance: &InstanceRow) -> Option<Wrong> {
    let valid = instance.label.or(instance.judged)?;
    // No tokens encode the text, so no mask was computed.
    if instance.masks == 0 && matches!(instance.outcome, InstanceOutcome::NotJudged { .. }) {
        return None;
    }
    // A walk continues past an early end, and the mask after the last token is computed only if
    // every token was allowed.
    let accepted = instance.masks > instance.tokens;
    match (valid, accepted) {
        (true, false) => Some(Wrong::Validation),
        (false, true) => Some(Wrong::Invalidation),
        _ => None,
    }
}
