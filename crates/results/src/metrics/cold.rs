//! What the first use of a constraint costs: its grammar is compiled. Knows no engine. What that
//! does to everybody else is [`super::cold_load`]'s matter.
//!
//! A use is *cold* if it is the first of its constraint that was sent, unless the constraint was
//! known before the run (the trial request). Uses that were sent while the cold one still waited
//! for its first token wait for the same compile: they are counted apart, and are in no figure. All
//! later ones are *warm*.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Serialize;

use super::difference::Difference;
use super::{MetricsOptions, Sample};
use sobench_core::case::Arm;
use sobench_core::constraint::Constraint;
use sobench_statistics::Summary;

/// First uses of constraints against later ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FirstUses {
    /// Distinct constraints that were sent.
    pub constraints: usize,
    /// Those of them that the server had seen before the run.
    pub known_before: usize,
    /// Answers to first uses, and what follows, of streamed answers with content.
    pub cold: usize,
    /// Answers that waited for the same compile as a first use.
    pub beside_first: usize,
    pub warm: usize,
    pub cold_ttft_ms: Summary,
    pub warm_ttft_ms: Summary,
    /// Mean cold TTFT less mean warm TTFT, in milliseconds.
    pub difference_ms: Option<Difference>,
    /// The same within each constraint that has both, which other prompts do not blur.
    pub paired_difference_ms: Option<Difference>,
}

/// One streamed answer.
pub(super) struct Use<'s, 'a> {
    pub(super) sample: &'s Sample<'a>,
    pub(super) sent_ns: u64,
    pub(super) first_ns: u64,
    pub(super) ttft_ms: f64,
}

impl FirstUses {
    /// Looks at the constrained arm; `known` are the fingerprints of constraints that were sent
    /// before the run. `None` where no constraint was sent.
    pub fn of(
        samples: &[Sample<'_>],
        options: &MetricsOptions,
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
            if let (Some(first), Some(mean)) = (first, Summary::of(later.warm.clone(), &[]).mean) {
                pairs.push(first - mean);
            }
            cold.extend(first);
            warm.extend(later.warm);
        }
        uses.cold = cold.len();
        uses.warm = warm.len();
        uses.difference_ms = Difference::of(&cold, &warm, seed);
        uses.paired_difference_ms = Difference::of_pairs(&pairs, seed);
        uses.cold_ttft_ms = Summary::of(cold, &options.percentiles);
        uses.warm_ttft_ms = Summary::of(warm, &options.percentiles);
        Some(uses)
    }
}

/// TTFTs in milliseconds of cold and of warm uses, as [`FirstUses`] tells them apart.
pub fn ttfts(
    samples: &[Sample<'_>],
    options: &MetricsOptions,
    known: &HashSet<String>,
) -> (Vec<f64>, Vec<f64>) {
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    for (name, group) in by_constraint(samples) {
        let (first, later) = split(&group, options, known.contains(&name));
        cold.extend(first);
        warm.extend(later.warm);
    }
    (cold, warm)
}

/// The constraints that were sent, as fingerprints.
pub fn fingerprints(samples: &[Sample<'_>]) -> HashSet<String> {
    by_constraint(samples)
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

/// Constrained requests that were sent, by the fingerprint of their constraint, in the order of
/// sending.
fn by_constraint<'s, 'a>(samples: &'s [Sample<'a>]) -> Vec<(String, Vec<&'s Sample<'a>>)> {
    let mut names = Fingerprints::default();
    let mut found: HashMap<String, Vec<&Sample<'_>>> = HashMap::new();
    for sample in samples
        .iter()
        .filter(|it| it.arm() == Arm::Constrained && it.moments().sent_ns.is_some())
    {
        if let Some(constraint) = sample.constraint() {
            found.entry(names.of(constraint)).or_default().push(sample);
        }
    }
    let mut groups: Vec<_> = found.into_iter().collect();
    // In an order that does not depend on the map's, so that sums and draws do not either.
    groups.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    groups
        .iter_mut()
        .for_each(|(_, group)| group.sort_by_key(|it| it.moments().sent_ns));
    groups
}

/// Uses of one constraint after the first.
#[derive(Default)]
struct Later {
    beside_first: usize,
    /// TTFTs.
    warm: Vec<f64>,
}

/// The first use's TTFT, if it was cold and has one, and the later uses; `group` in the order of
/// sending.
fn split(group: &[&Sample<'_>], options: &MetricsOptions, is_known: bool) -> (Option<f64>, Later) {
    let mut later = Later::default();
    if is_known {
        later.warm = group
            .iter()
            .filter_map(|it| Use::of(it, options))
            .map(|it| it.ttft_ms)
            .collect();
        return (None, later);
    }
    let Some((first, rest)) = group.split_first() else {
        return (None, later);
    };
    // A first use that got no answer may have compiled or not. Nothing after it can be called cold
    // or warm.
    let Some(first) = Use::of(first, options) else {
        return (None, later);
    };
    for used in rest.iter().filter_map(|it| Use::of(it, options)) {
        if used.sent_ns < first.first_ns {
            later.beside_first += 1;
        } else {
            later.warm.push(used.ttft_ms);
        }
    }
    (Some(first.ttft_ms), later)
}

impl<'s, 'a> Use<'s, 'a> {
    pub(super) fn of(sample: &'s Sample<'a>, options: &MetricsOptions) -> Option<Self> {
        let timing = sample.moments();
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

/// Fingerprints by address: cases of one row share their constraint, and each keeps it alive.
#[derive(Default)]
struct Fingerprints(HashMap<usize, String>);

impl Fingerprints {
    fn of(&mut self, constraint: &Arc<Constraint>) -> String {
        let address = Arc::as_ptr(constraint) as usize;
        self.0
            .entry(address)
            .or_insert_with(|| constraint.fingerprint())
            .clone()
    }
}

#[cfg(test)]
mod tests;
