//! The cost of the first use of a constraint, which compiles its grammar. The effect on concurrent
//! requests is in [`super::cold_load`].
//!
//! A use is *cold* if it is the first sent use of its constraint, unless the constraint was known
//! before the run (trial request). Uses sent before the first token of the cold use wait for the
//! same compilation; they are only counted. All later uses are *warm*.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use sobench_core::case::Arm;
use sobench_core::constraint::Constraint;
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::contrast::Difference;
use sobench_statistics::{Summary, mean};

/// First uses of constraints compared with later uses.
#[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema, Serialize)]
pub struct FirstUses {
    /// Distinct constraints that were sent.
    pub constraints: usize,
    /// Constraints that the server knew before the run.
    pub known_before: usize,
    /// Number of streamed answers to first uses.
    pub cold: usize,
    /// Number of answers that waited for the same compilation as a first use.
    pub beside_first: usize,
    pub warm: usize,
    pub cold_ttft_ms: Summary,
    pub warm_ttft_ms: Summary,
    /// Mean cold TTFT minus mean warm TTFT, in milliseconds.
    pub difference_ms: Option<Difference>,
    /// The mean difference within constraints that have both, which removes differences between
    /// prompts.
    pub paired_difference_ms: Option<Difference>,
}

/// A streamed answer.
pub(super) struct ConstraintUse<'s, 'a> {
    pub(super) sample: &'s Sample<'a>,
    pub(super) sent_ns: u64,
    pub(super) first_ns: u64,
    pub(super) ttft_ms: f64,
}

impl FirstUses {
    /// Compares uses in the constrained arm. `known` are the fingerprints of constraints sent
    /// before the run. `None` if no constraint was sent.
    pub fn new(
        samples: &[Sample<'_>],
        options: &MetricsSettings,
        known: &HashSet<String>,
        seed: u64,
    ) -> Option<Self> {
        let groups = by_constraint(samples);
        if groups.is_empty() {
            return None;
        }
        let mut uses = Self {
            constraints: groups.len(),
            ..Self::default()
        };
        let (mut cold, mut warm, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        for (name, group) in groups {
            let is_known = known.contains(&name);
            uses.known_before += usize::from(is_known);
            let (first, later) = split(&group, options, is_known);
            uses.beside_first += later.beside_first;
            let later_ms: Vec<f64> = later.warm.iter().map(|used| used.ttft_ms).collect();
            if let (Some(first), Some(mean)) = (first, mean(&later_ms)) {
                pairs.push(first - mean);
            }
            cold.extend(first);
            warm.extend(later_ms);
        }
        uses.cold = cold.len();
        uses.warm = warm.len();
        uses.difference_ms = Difference::from_samples(&cold, &warm, seed);
        uses.paired_difference_ms = Difference::from_pairs(&pairs, seed);
        uses.cold_ttft_ms = Summary::new(cold, &options.percentiles);
        uses.warm_ttft_ms = Summary::new(warm, &options.percentiles);
        Some(uses)
    }
}

/// TTFTs in milliseconds of cold and of warm uses, as defined by [`FirstUses`].
pub fn ttfts(
    samples: &[Sample<'_>],
    options: &MetricsSettings,
    known: &HashSet<String>,
) -> (Vec<f64>, Vec<f64>) {
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for (name, group) in by_constraint(samples) {
        let (first, later) = split(&group, options, known.contains(&name));
        cold.extend(first);
        warm.extend(later.warm.iter().map(|used| used.ttft_ms));
    }
    (cold, warm)
}

/// The case indices of warm uses, as defined by [`FirstUses`].
pub fn later_uses(
    samples: &[Sample<'_>],
    options: &MetricsSettings,
    known: &HashSet<String>,
) -> HashSet<usize> {
    let groups = by_constraint(samples);
    let later = groups
        .iter()
        .flat_map(|(name, group)| split(group, options, known.contains(name)).1.warm);
    later.map(|used| used.sample.case_index()).collect()
}

/// The fingerprints of the constraints that were sent.
pub fn fingerprints(samples: &[Sample<'_>]) -> HashSet<String> {
    by_constraint(samples)
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// Sent constrained requests by the fingerprint of their constraint, in send order.
fn by_constraint<'s, 'a>(samples: &'s [Sample<'a>]) -> Vec<(String, Vec<&'s Sample<'a>>)> {
    let mut names = Fingerprints::default();
    let mut found: HashMap<String, Vec<&Sample<'_>>> = HashMap::new();
    for sample in samples.iter().filter(|sample| {
        sample.arm() == Arm::Constrained && sample.request_times().sent_ns.is_some()
    }) {
        if let Some(constraint) = sample.constraint() {
            found.entry(names.get(constraint)).or_default().push(sample);
        }
    }
    let mut groups: Vec<_> = found.into_iter().collect();
    // Sorted, so that sums and resamples do not depend on the order of the map.
    groups.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    groups
        .iter_mut()
        .for_each(|(_, group)| group.sort_by_key(|sample| sample.request_times().sent_ns));
    groups
}

/// Uses of one constraint after the first.
#[derive(Default)]
struct Later<'s, 'a> {
    beside_first: usize,
    warm: Vec<ConstraintUse<'s, 'a>>,
}

/// The TTFT of the first use, if it was cold and has one, and the later uses. `group` is in send
/// order.
fn split<'s, 'a>(
    group: &[&'s Sample<'a>],
    options: &MetricsSettings,
    is_known: bool,
) -> (Option<f64>, Later<'s, 'a>) {
    let mut later = Later::default();
    if is_known {
        later.warm = group
            .iter()
            .filter_map(|sample| ConstraintUse::new(sample, options))
            .collect();
        return (None, later);
    }
    let Some((first, rest)) = group.split_first() else {
        return (None, later);
    };
    // A failed first use may have compiled the constraint or not, so later uses are neither cold
    // nor warm.
    let Some(first) = ConstraintUse::new(first, options) else {
        return (None, later);
    };
    for used in rest
        .iter()
        .filter_map(|sample| ConstraintUse::new(sample, options))
    {
        if used.sent_ns < first.first_ns {
            later.beside_first += 1;
        } else {
            later.warm.push(used);
        }
    }
    (Some(first.ttft_ms), later)
}

impl<'s, 'a> ConstraintUse<'s, 'a> {
    pub(super) fn new(sample: &'s Sample<'a>, options: &MetricsSettings) -> Option<Self> {
        let timing = sample.request_times();
        let ttft_ms = sample
            .latency(options)
            .ttft_ms
            .filter(|_| sample.outcome().is_answer())?;
        Some(Self {
            sample,
            sent_ns: timing.sent_ns?,
            first_ns: timing.first_content_ns?,
            ttft_ms,
        })
    }
}

/// Fingerprints by address: the cases of a row share their constraint and keep it alive.
#[derive(Default)]
struct Fingerprints(HashMap<usize, String>);

impl Fingerprints {
    fn get(&mut self, constraint: &Arc<Constraint>) -> String {
        let address = Arc::as_ptr(constraint) as usize;
        self.0
            .entry(address)
            .or_insert_with(|| constraint.fingerprint())
            .clone()
    }
}

#[cfg(test)]
mod tests;
