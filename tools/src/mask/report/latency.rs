//! Durations of compiling, masking and committing, and memory, summed over rows.

use schemars::JsonSchema;
use serde::Serialize;

use super::outcome::counts_in;
use crate::mask::record::{BatchRow, MaskRecord};
use crate::mask::row::{PassTimes, Row, Spelling, Stage, StopCause, Stopped};
use crate::mask::times::Slope;
use sobench_results::metrics::distribution::{Bound, Distribution, Sizes};

/// Time budget of a server step (llguidance's documentation): the masks of one core must fit into
/// it.
pub const STEP_BUDGET_NS: f64 = 10_000_000.0;

/// The same figures over the engine's own set of schemas and over the common set.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct Sets<T> {
    pub own: T,
    pub common: T,
}

/// A set of schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Own,
    Common,
}

impl Set {
    /// The name in table heads and legends.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Common => "common",
        }
    }
}

impl<T> Sets<T> {
    /// The figures over one of the sets.
    pub fn get(&self, set: Set) -> &T {
        match set {
            Set::Own => &self.own,
            Set::Common => &self.common,
        }
    }
}

/// Compile times; the unit of every count is the schema.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct CompileSummary {
    /// The first compile, without a mask. MaskBench calls this time to first mask.
    pub cold: Distribution,
    /// Creation of a matcher and its first mask, after the compile.
    pub first_mask: Distribution,
    /// Sum of compile and first mask, per schema.
    pub to_first_mask: Distribution,
    /// Compile from the cache.
    pub cached: Distribution,
}

/// Mask times of one spelling; the unit of every count except `schemas` is the token.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct MaskSummary {
    /// Schemas with a started walk.
    pub schemas: u64,
    /// Schemas with a stopped walk, whose durations may be incomplete.
    pub stopped: u64,
    pub cold: PassSummary,
    pub warm: PassSummary,
}

/// One pass over the instances.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct PassSummary {
    pub mask: Distribution,
    pub commit: Distribution,
    /// Mask and commit of the same token.
    pub step: Distribution,
    #[serde(skip)]
    slope: Slope,
    /// Additional nanoseconds per mask for each preceding token.
    pub slope_ns_per_position: Option<f64>,
    /// The capacity of one core at this speed.
    pub one_core: Option<Capacity>,
}

/// Capacity of one core.
#[derive(Clone, Copy, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Capacity {
    /// Masks with commits per second on one core.
    pub masks_per_second: f64,
    /// Sequences that one core masks in 10 ms at the mean step duration.
    pub sequences_by_mean: u64,
    /// The same at the 99th percentile of the step duration.
    pub sequences_by_p99: u64,
}

/// One batch size.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct BatchSummary {
    pub sequences: usize,
    pub distinct: usize,
    pub threads: usize,
    /// The unit of the counts is the step.
    pub step: Distribution,
    pub masks: u64,
    pub masks_per_second: f64,
}

/// Memory of an engine.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct MemorySummary {
    /// Size of a compiled grammar, if the library reports it; the unit of the count is the schema.
    pub grammar: Sizes,
    /// Schemas with a known growth of peak memory after the start of the compile.
    pub peak_known: u64,
    /// Growth of those with growth; the others fitted into memory kept from earlier rows.
    pub peak: Sizes,
}

impl CompileSummary {
    /// Adds a row. A compile that timed out counts as longer than `limit_ns`; other failed compiles
    /// are excluded.
    pub fn add(&mut self, row: &Row, limit_ns: u64) {
        if let Some(compile) = &row.compile {
            self.cold.record(compile.cold_ns);
            self.first_mask.record(compile.first_mask_ns);
            self.to_first_mask
                .record(compile.cold_ns.saturating_add(compile.first_mask_ns));
            self.cached.record(compile.cached_ns);
            return;
        }
        match row
            .stopped
            .as_ref()
            .filter(|stopped| stopped.cause == StopCause::Timeout)
            .map(|stopped| stopped.stage)
        {
            Some(Stage::Compile) => {
                self.cold.censor(limit_ns);
                self.to_first_mask.censor(limit_ns);
            }
            Some(Stage::FirstMask) => {
                self.first_mask.censor(limit_ns);
                self.to_first_mask.censor(limit_ns);
            }
            Some(Stage::Cached) => self.cached.censor(limit_ns),
            Some(Stage::Oracle | Stage::Instance { .. } | Stage::Drafts { .. }) | None => {}
        }
    }
}

/// A pass with its name.
pub type NamedPass = (&'static str, fn(&MaskSummary) -> &PassSummary);

/// The passes of a measurement, warm first if available: single figures use the first one.
pub fn passes(record: &MaskRecord) -> &'static [NamedPass] {
    const PASSES: [NamedPass; 2] = [("warm", |masks| &masks.warm), ("cold", |masks| &masks.cold)];
    if record.warm { &PASSES } else { &PASSES[1..] }
}

impl MaskSummary {
    /// Adds the durations of a row in `spelling`. A walk that timed out counts once as longer than
    /// `limit_ns`, in both passes: the duration of its single masks is unknown, and without it the
    /// slowest schemas would look like the fastest.
    pub fn add(&mut self, row: &Row, spelling: Spelling, limit_ns: u64) {
        let stopped = row.stopped.as_ref().filter(|stopped: &&Stopped| matches!(stopped.stage, Stage::Instance { spelling: at, .. } if counts_in(at, spelling)));
        if stopped.is_some_and(|stopped| stopped.cause == StopCause::Timeout) {
            self.cold.censor(limit_ns);
            self.warm.censor(limit_ns);
        }
        self.stopped += u64::from(stopped.is_some());
        let mut any = stopped.is_some();
        for times in row
            .times
            .iter()
            .filter(|times| counts_in(times.spelling, spelling))
        {
            any = true;
            self.cold.add(&times.cold);
            self.warm.add(&times.warm);
        }
        self.schemas += u64::from(any);
    }
}

impl PassSummary {
    /// Computes the figures after all rows were added.
    pub fn finish(&mut self) {
        self.slope_ns_per_position = self.slope.ns_per_position();
        self.one_core = self.capacity();
    }

    fn capacity(&self) -> Option<Capacity> {
        let mean_ns = self.step.mean_ns().filter(|ns| *ns > 0.0)?;
        let p99_ns = self.step.percentile(99.0).and_then(Bound::known_ns)?.max(1);
        Some(Capacity {
            masks_per_second: 1e9 / mean_ns,
            sequences_by_mean: (STEP_BUDGET_NS / mean_ns).floor() as u64,
            sequences_by_p99: (STEP_BUDGET_NS / p99_ns as f64).floor() as u64,
        })
    }

    /// Adds a timed-out walk as one mask and one step.
    fn censor(&mut self, limit_ns: u64) {
        self.mask.censor(limit_ns);
        self.step.censor(limit_ns);
    }

    fn add(&mut self, times: &PassTimes) {
        self.mask.merge(&times.mask);
        self.commit.merge(&times.commit);
        self.step.merge(&times.step);
        self.slope.merge(&times.slope);
    }
}

impl BatchSummary {
    /// Creates the summary of one batch size.
    pub fn from_row(row: &BatchRow) -> Self {
        let mut step = Distribution::default();
        step.merge(&row.step);
        Self {
            sequences: row.sequences,
            distinct: row.distinct,
            threads: row.threads,
            step,
            masks: row.masks,
            masks_per_second: row.masks_per_second,
        }
    }
}

impl MemorySummary {
    /// The share (0 to 1) of schemas with memory growth.
    pub fn share_grown(&self) -> Option<f64> {
        (self.peak_known > 0).then(|| self.peak.n() as f64 / self.peak_known as f64)
    }

    /// Adds a row if it compiled.
    pub fn add(&mut self, row: &Row) {
        let Some(compile) = &row.compile else { return };
        compile
            .grammar_bytes
            .into_iter()
            .for_each(|bytes| self.grammar.record(bytes));
        self.peak_known += u64::from(compile.peak_bytes.is_some());
        compile
            .peak_bytes
            .into_iter()
            .filter(|bytes| *bytes > 0)
            .for_each(|bytes| self.peak.record(bytes));
    }
}
