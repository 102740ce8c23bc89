//! What compiling, masking and committing took, added up over rows. Knows no outcome but the stops
//! that cut a duration off.

use serde::Serialize;
use serde_json::json;

use super::outcome::counts_in;
use sobench_mask::record::{BatchRow, MaskRecord};
use sobench_mask::row::{PassTimes, Row, Spelling, Stage, StopCause, Stopped};
use sobench_mask::times::Slope;
use sobench_results::metrics::distribution::{Bound, Distribution, Sizes};

/// A server's step, as llguidance's documentation budgets it: what one core's masks have to fit
/// into.
pub const STEP_BUDGET_NS: f64 = 10_000_000.0;

/// The same figures over the engine's own set of schemas, and over the common one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sets<T> {
    pub own: T,
    pub common: T,
}

/// Which schemas a figure is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    Own,
    Common,
}

impl Set {
    /// The name in heads and legends.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Common => "common",
        }
    }
}

impl<T> Sets<T> {
    /// The figures over one of the two.
    pub fn get(&self, set: Set) -> &T {
        match set {
            Set::Own => &self.own,
            Set::Common => &self.common,
        }
    }
}

/// What compiling took; the unit of every count is the schema.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CompileSummary {
    /// The first compile, without a mask. This is what MaskBench prints as time to first mask.
    pub cold: Distribution,
    /// A matcher and its first mask, after the compile.
    pub first_mask: Distribution,
    /// Compile and first mask, added schema by schema.
    pub to_first_mask: Distribution,
    /// Asked of the compile cache again.
    pub cached: Distribution,
}

/// What the masks of one spelling took; the unit of every count but `schemas` is the token.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MaskSummary {
    /// Schemas of which a walk was begun.
    pub schemas: u64,
    /// Schemas of which a walk was stopped. Not every mask and commit of that walk may be among the
    /// durations.
    pub stopped: u64,
    pub cold: PassSummary,
    pub warm: PassSummary,
}

/// One pass over the instances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PassSummary {
    pub mask: Distribution,
    pub commit: Distribution,
    /// Mask and commit of the same token.
    pub step: Distribution,
    slope: Slope,
}

/// What one core carries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// Masks with their commits that one core computes in a second.
    pub masks_per_second: f64,
    /// Sequences that one core masks inside a step of 10 ms, where every mask costs the mean.
    pub sequences_by_mean: u64,
    /// The same where every mask costs as much as the 99th of 100.
    pub sequences_by_p99: u64,
}

/// Several sequences at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BatchSummary {
    pub sequences: usize,
    pub distinct: usize,
    pub threads: usize,
    /// The unit of its counts is the step.
    pub step: Distribution,
    pub masks: u64,
    pub masks_per_second: f64,
}

/// What memory the engine took.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemorySummary {
    /// Of a compiled grammar, where the library can say; the unit of the count is the schema.
    pub grammar: Sizes,
    /// Schemas of which the system said how far the process peaked above what it had before the
    /// compile.
    pub peak_known: u64,
    /// Of them, those that made the process grow at all, and by how much; the others fitted into
    /// memory kept from earlier rows.
    pub peak: Sizes,
}

impl CompileSummary {
    /// Adds a row. A compile that timed out counts as longer than `limit_ns`; one that ended
    /// without a grammar does not count.
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
            .filter(|it| it.cause == StopCause::Timeout)
            .map(|it| it.stage)
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
            Some(Stage::Oracle | Stage::Instance { .. }) | None => {}
        }
    }
}

/// One of the walks over an instance, by its name.
pub type NamedPass = (&'static str, fn(&MaskSummary) -> &PassSummary);

/// The walks of a measurement, warm ones first if there were any: figures that stand alone are of
/// the first.
pub fn passes(about: &MaskRecord) -> &'static [NamedPass] {
    const PASSES: [NamedPass; 2] = [("warm", |it| &it.warm), ("cold", |it| &it.cold)];
    if about.warm { &PASSES } else { &PASSES[1..] }
}

impl MaskSummary {
    /// Adds what a row has of `spelling`. A walk that ran into the time limit counts once as longer
    /// than `limit_ns`, in either pass: whether a single mask took that long is not known, and
    /// without it the slowest schemas would look like the fastest.
    pub fn add(&mut self, row: &Row, spelling: Spelling, limit_ns: u64) {
        let in_walk = |it: &&Stopped| matches!(it.stage, Stage::Instance { spelling: at, .. } if counts_in(at, spelling));
        let stopped = row.stopped.as_ref().filter(in_walk);
        if stopped.is_some_and(|it| it.cause == StopCause::Timeout) {
            self.cold.censor(limit_ns);
            self.warm.censor(limit_ns);
        }
        self.stopped += u64::from(stopped.is_some());
        let mut any = stopped.is_some();
        for times in row
            .times
            .iter()
            .filter(|it| counts_in(it.spelling, spelling))
        {
            any = true;
            self.cold.add(&times.cold);
            self.warm.add(&times.warm);
        }
        self.schemas += u64::from(any);
    }
}

impl PassSummary {
    /// Nanoseconds that a mask takes longer for every token before it.
    pub fn slope_ns_per_position(&self) -> Option<f64> {
        self.slope.ns_per_position()
    }

    /// What one core carries at this pace.
    pub fn capacity(&self) -> Option<Capacity> {
        let mean_ns = self.step.mean_ns().filter(|ns| *ns > 0.0)?;
        let p99_ns = self.step.percentile(99.0).and_then(Bound::known_ns)?.max(1);
        Some(Capacity {
            masks_per_second: 1e9 / mean_ns,
            sequences_by_mean: (STEP_BUDGET_NS / mean_ns).floor() as u64,
            sequences_by_p99: (STEP_BUDGET_NS / p99_ns as f64).floor() as u64,
        })
    }

    /// Adds a walk that did not end in time, as one mask and one step.
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

impl Serialize for PassSummary {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entry = json!({
            "mask": self.mask,
            "commit": self.commit,
            "step": self.step,
            "slope_ns_per_position": self.slope_ns_per_position(),
            "one_core": self.capacity(),
        });
        entry.serialize(serializer)
    }
}

impl BatchSummary {
    /// The figures of one batch size.
    pub fn of(row: &BatchRow) -> Self {
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
    /// Which share (0 to 1) of the schemas made the process grow.
    pub fn share_grown(&self) -> Option<f64> {
        (self.peak_known > 0).then(|| self.peak.n() as f64 / self.peak_known as f64)
    }

    /// Adds a row, where it compiled.
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
