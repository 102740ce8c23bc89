//! Whether the validity of answers goes with a size of their request or with a tag.
//!
//! Each size and each tag is tested for a trend of the share of valid answers ([`ShareTrend`]; a tag
//! counts as 1). Equal requests with equal answers are one trial. The p-value is that of the smallest
//! of all tests, times their number (Bonferroni).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use super::registry::{Figure, rates};
use sobench_core::constraint::Constraint;
use sobench_facts::Sample;
use sobench_plan::dataset::Cell;
use sobench_statistics::ShareTrend;
use sobench_statistics::contrast::Share;

/// The chance that a dependence is stated though there is none.
const BY_CHANCE: f64 = 0.05;

/// Number of constraints from which on their sizes are not computed, and of tags that are tested.
const MAX_CONSTRAINTS: usize = 10_000;
const MAX_TAGS: usize = 100;

/// The smallest number of requests on each side.
const MIN_REQUESTS: usize = 4;

/// A size of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    Tools,
    PromptTokens,
    /// Of its JSON text.
    ConstraintBytes,
    /// The place of the expected tool among all tools, in percent.
    ToolPosition,
}

/// What the validity of answers depends on.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct Dependence {
    /// `None` for a tag.
    pub size: Option<Size>,
    pub tag: Option<String>,
    /// The size that divides the requests best.
    pub from: u64,
    /// Valid answers of requests of this size or more, or with the tag.
    pub above: Share,
    /// Valid answers of the others.
    pub below: Share,
    /// Of the trend, corrected for the number of tests.
    pub p_value: f64,
}

impl Size {
    /// All sizes, in the order of tables.
    pub const ALL: [Self; 4] = [
        Self::Tools,
        Self::PromptTokens,
        Self::ConstraintBytes,
        Self::ToolPosition,
    ];

    /// The unit.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::PromptTokens => "prompt tokens",
            Self::ConstraintBytes => "bytes of constraint",
            Self::ToolPosition => "% of the tools before the expected one",
        }
    }

    /// The size of each request; `None` if it is unknown, or of a constraint after
    /// `MAX_CONSTRAINTS` others.
    pub fn of(self, samples: &[&Sample<'_>]) -> Vec<Option<u64>> {
        let mut bytes: HashMap<*const Constraint, Option<u64>> = HashMap::new();
        let mut size = |sample: &Sample<'_>| match self {
            Self::Tools => Some(sample.constraint()?.tools()?.tools.len() as u64),
            Self::PromptTokens => sample.tokens().input,
            Self::ToolPosition => tool_position(sample),
            Self::ConstraintBytes => {
                let constraint = sample.constraint()?;
                let address = Arc::as_ptr(constraint);
                match bytes.get(&address) {
                    Some(known) => *known,
                    None if bytes.len() >= MAX_CONSTRAINTS => None,
                    None => *bytes.entry(address).or_insert(json_bytes(constraint)),
                }
            }
        };
        samples.iter().map(|sample| size(sample)).collect()
    }
}

/// The place of the first expected tool among several, from 0 to 100.
fn tool_position(sample: &Sample<'_>) -> Option<u64> {
    let tools = &sample.constraint()?.tools()?.tools;
    let last = tools.len().checked_sub(1).filter(|last| *last > 0)?;
    let reference = sample.request_input().completion.as_deref()?;
    let reference: serde_json::Value = serde_json::from_str(reference).ok()?;
    let call = reference["ground_truth"][0].as_object()?;
    let place = tools
        .iter()
        .position(|tool| call.contains_key(&tool.name))?;
    Some((100 * place / last) as u64)
}

fn json_bytes(constraint: &Constraint) -> Option<u64> {
    Some(serde_json::to_string(constraint).ok()?.len() as u64)
}

impl Dependence {
    /// What the validity of constrained answers depends on most; `None` if chance may explain it.
    pub fn new(constrained: &[&Sample<'_>]) -> Option<Self> {
        let mut seen = HashSet::new();
        let valid = |sample: &Sample<'_>| Figure::new(&rates::CORRECT_RATE).hit(sample);
        let trials: Vec<(&Sample<'_>, bool)> = constrained
            .iter()
            .filter_map(|sample| Some((*sample, valid(sample)?)))
            .filter(|(sample, _)| seen.insert(sample.copy_hash()))
            .collect();
        let hits = trials.iter().filter(|(_, is_valid)| *is_valid).count();
        if hits == 0 || hits == trials.len() {
            return None;
        }
        let samples: Vec<&Sample<'_>> = trials.iter().map(|(sample, _)| *sample).collect();
        let sizes = Size::ALL.map(|size| (Some(size), None, size.of(&samples)));
        // Most tags of some datasets name a single row.
        let mut tags: BTreeMap<&String, usize> = BTreeMap::new();
        for tag in samples
            .iter()
            .flat_map(|sample| &sample.request_input().tags)
        {
            *tags.entry(tag).or_default() += 1;
        }
        let range = MIN_REQUESTS..=samples.len().saturating_sub(MIN_REQUESTS);
        tags.retain(|tag, count| range.contains(count) && !Cell::is_named_by(tag));
        let has = |sample: &&Sample<'_>, tag| sample.request_input().tags.contains(tag);
        let tags = tags.into_keys().take(MAX_TAGS).map(|tag| {
            let scores = samples
                .iter()
                .map(|sample| Some(u64::from(has(sample, tag))));
            (None, Some(tag), scores.collect::<Vec<_>>())
        });
        let test = |(size, tag, scores): (Option<Size>, Option<&String>, Vec<Option<u64>>)| {
            let known = scores.into_iter().zip(&trials);
            let known: Vec<(u64, bool)> = known
                .filter_map(|(score, (_, is_valid))| Some((score?, *is_valid)))
                .collect();
            let (from, below, above) = best_split(&known)?;
            let trend: Vec<(f64, bool)> = known
                .iter()
                .map(|(score, hit)| (*score as f64, *hit))
                .collect();
            Some(Self {
                size,
                tag: tag.cloned(),
                from,
                above,
                below,
                p_value: ShareTrend::new(&trend)?.p_value,
            })
        };
        let tests: Vec<Self> = sizes.into_iter().chain(tags).filter_map(test).collect();
        let count = tests.len() as f64;
        let found = tests.into_iter().reduce(|one, other| {
            if other.p_value < one.p_value {
                other
            } else {
                one
            }
        })?;
        let p_value = (found.p_value * count).min(1.0);
        (p_value <= BY_CHANCE).then_some(Self { p_value, ..found })
    }
}

/// The value from which on the share of hits differs most, with the shares below it and from it on.
fn best_split(trials: &[(u64, bool)]) -> Option<(u64, Share, Share)> {
    let mut sorted = trials.to_vec();
    sorted.sort_unstable_by_key(|(score, _)| *score);
    let all = Share::count(sorted.iter().map(|(_, hit)| *hit));
    let mut below = Share::default();
    let mut best: Option<(f64, (u64, Share, Share))> = None;
    for (index, (score, hit)) in sorted.iter().enumerate() {
        let above = Share {
            hits: all.hits - below.hits,
            of: all.of - below.of,
        };
        let is_new = index > 0 && sorted[index - 1].0 < *score;
        if is_new && below.of.min(above.of) >= MIN_REQUESTS {
            let difference = above.percent()? - below.percent()?;
            // The statistic of two shares, without its constant part.
            let size = (above.of * below.of) as f64 * difference * difference;
            if best.is_none_or(|(known, _)| size > known) {
                best = Some((size, (*score, below, above)));
            }
        }
        below.of += 1;
        below.hits += usize::from(*hit);
    }
    best.map(|(_, split)| split)
}

impl fmt::Display for Dependence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { above, below, .. } = self;
        let share = |share: &Share| format!("{} of {}", share.hits, share.of);
        let (above, below) = (share(above), share(below));
        match (self.size, &self.tag) {
            (Some(size), _) => {
                let (from, unit) = (self.from, size.unit());
                write!(
                    f,
                    "valid: {above} with {from} {unit} or more, {below} with fewer"
                )
            }
            (None, tag) => {
                let tag = tag.as_deref().unwrap_or_default();
                write!(f, "valid: {above} with the tag {tag}, {below} without")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::verdict::{Reason, Verdict};
    use sobench_facts::testing::{TestRequest, test_request, with_samples};

    fn found(of: impl Fn(usize) -> (u64, bool)) -> Option<String> {
        let request = |index: usize| {
            let (tokens, is_valid) = of(index);
            let reason = Reason::Choice;
            TestRequest {
                input: Some(tokens),
                verdict: match is_valid {
                    true => Verdict::Valid,
                    false => Verdict::Invalid { reason },
                },
                text: index.to_string().leak(),
                ..test_request()
            }
        };
        let requests: Vec<TestRequest<'_>> = (0..8).map(request).collect();
        with_samples(&requests, |samples| {
            let samples: Vec<&Sample<'_>> = samples.iter().collect();
            Dependence::new(&samples).map(|found| found.to_string())
        })
    }

    #[test]
    fn a_size_that_divides_valid_and_invalid_answers_is_named() {
        let by_length = found(|index| (100 + 50 * (index as u64 % 2), index % 2 == 0));
        let expected = "valid: 0 of 4 with 150 prompt tokens or more, 4 of 4 with fewer";
        assert_eq!(by_length.as_deref(), Some(expected));
        assert_eq!(
            found(|index| (100 + 50 * (index as u64 % 2), index < 4)),
            None
        );
        assert_eq!(found(|index| (100, index < 4)), None, "one size");
        assert_eq!(found(|index| (100 + index as u64, true)), None, "all valid");
    }

    #[test]
    fn copies_are_one_trial() {
        assert_eq!(best_split(&[(1, true), (2, false)]), None, "too few");
        let split = best_split(&[
            (1, true),
            (1, true),
            (1, true),
            (1, true),
            (5, false),
            (5, true),
            (6, false),
            (9, false),
        ]);
        let (from, below, above) = split.unwrap();
        assert_eq!((from, below.hits, above.hits), (5, 4, 1));
    }
}
