//! Pairs of answers to the same request: what the second side lost and won, and where; differences of
//! times and lengths.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Serialize;

use super::bootstrap::SideId;
use super::contrast;
use super::pair_facts::{ENDED, Ended, PairFacts};
use super::pairing::Pairing;
use super::requests::RequestView;
use super::side::Side;
use crate::metrics::registry::{Figure, Metric, latencies, rates};
use sobench_statistics::contrast::{MIN_JUDGED, RateContrast, Share};
use sobench_statistics::distributions::chi_square_above;
use sobench_statistics::order_interval;
use sobench_statistics::paired::{PairedSample, Pairs, sign_test, smallest_p};

/// Numbers of requests in flight above which pairs are a group.
const IN_FLIGHT: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];

/// Numbers of prompt tokens from which pairs are a group.
const PROMPT_TOKENS: [u64; 4] = [256, 1024, 4096, 16_384];

/// Numbers of bytes from which constraints are a group.
const CONSTRAINT_BYTES: [u64; 3] = [1024, 4096, 16_384];

/// Numbers of tools from which sets of tools are a group.
const TOOLS: [u64; 4] = [2, 8, 32, 128];

/// The chance that a page claims a loss of equal sides: of all its claims' chance, what the test with
/// five losses and no gain takes (1 / 32).
pub(super) const LOSS_BY_CHANCE: f64 = 0.032;

/// The chance that losses that are as frequent everywhere seem to be in a given group. Five losses in
/// one half of the pairs are below it.
const PLACE_BY_CHANCE: f64 = 0.01;

/// What the pairs of a group have in common. Of groups of the same pairs, the first one is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    Keyword,
    Tool,
    Kind,
    Schema,
    ConstraintSize,
    NumberOfTools,
    Streaming,
    /// On the second side, when the request was sent.
    InFlight,
    PromptSize,
}

/// Which value the pairs of a group have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupValue {
    Name(Arc<str>),
    Word(&'static str),
    AtLeast(u64),
    Above(u64),
    UpTo(u64),
}

impl fmt::Display for GroupValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Word(word) => f.write_str(word),
            Self::AtLeast(bound) => write!(f, "{bound} or more"),
            Self::Above(bound) => write!(f, "above {bound}"),
            Self::UpTo(bound) => write!(f, "up to {bound}"),
        }
    }
}

/// Pairs that have something in common. A pair is in several groups.
#[derive(Clone, Debug, PartialEq)]
pub struct PairGroup {
    pub by: GroupBy,
    pub value: GroupValue,
    pub pairs: usize,
    pub lost: usize,
    pub won: usize,
    /// Of McNemar's exact test, where copies of a request with the same answers count once.
    pub p_value: f64,
}

/// Differences of a value, second minus first, over pairs in which both sides have it.
#[derive(Clone, Debug, PartialEq)]
pub struct PairedValues {
    pub name: &'static str,
    pub unit: &'static str,
    pub pairs: usize,
    pub median: f64,
    /// Of 95 %, over these pairs; `None` for a bound beyond them.
    pub interval: (Option<f64>, Option<f64>),
    /// Pairs in which the second side has the larger value.
    pub larger: Share,
}

/// All pairs of two sides in which both requests count in the correct rate.
#[derive(Clone, Debug, PartialEq)]
pub struct PairTable {
    /// The numbers of pairs by their end on the first and on the second side, as in [`ENDED`].
    pub ended: [[usize; ENDED.len()]; ENDED.len()],
    /// The difference of the correct rates.
    pub contrast: RateContrast,
    /// Different constraints, and the interval of 95 % of the difference as a share of 1 if the
    /// requests are a sample of constraints; `None` with few.
    pub by_constraint: Option<(usize, (f64, f64))>,
    /// The groups with the smallest p-value first.
    pub groups: Vec<PairGroup>,
    /// Pairs whose answers are equal, of pairs with two answers.
    pub equal_answers: Share,
    pub values: Vec<PairedValues>,
}

/// A pair of requests.
struct Pair<'a> {
    sides: [RequestView<'a>; 2],
    facts: [&'a PairFacts; 2],
    /// Equal for copies: the same request with the same answers.
    copies: [Option<u64>; 2],
}

impl Pair<'_> {
    /// Whether each side is correct.
    fn is_correct(&self) -> [bool; 2] {
        self.facts.map(|facts| facts.ended.is_ok())
    }
}

impl PairTable {
    /// Pairs the nth request of a case on the first side with the nth one on the second. `None`
    /// without pairs of run logs.
    pub fn new(a: &Side, b: &Side, pairing: &Pairing) -> Option<Self> {
        let pairs = pairs(a, b, pairing)?;
        let contrast = contrast::contrast(Figure::new(&rates::CORRECT_RATE), a, b, pairing)?;
        let mut ended = [[0; ENDED.len()]; ENDED.len()];
        let place = |end: Ended| ENDED.iter().position(|other| *other == end).unwrap_or(0);
        for pair in &pairs {
            let [first, second] = pair.facts.map(|facts| place(facts.ended));
            ended[first][second] += 1;
        }
        let answers = pairs.iter().filter_map(|pair| {
            let are_answers = pair.sides.iter().all(|request| request.answered());
            are_answers.then_some(pair.copies[0]?.eq(&pair.copies[1]?))
        });
        let tokens = |request: &RequestView<'_>| Some(request.output_tokens()? as f64);
        let time = |metric: &'static Metric| {
            let value = move |request: &RequestView<'_>| request.in_distribution(metric);
            PairedValues::new(&pairs, metric.label, "ms", value)
        };
        let times = [&latencies::TTFT, &latencies::TPOT, &latencies::E2EL].map(time);
        let lengths = PairedValues::new(&pairs, "output tokens", "tokens", tokens);
        (!pairs.is_empty()).then(|| Self {
            ended,
            contrast,
            by_constraint: by_constraint(&pairs),
            groups: groups(&pairs),
            equal_answers: Share::count(answers),
            values: times.into_iter().chain([lengths]).flatten().collect(),
        })
    }

    /// Number of pairs.
    pub fn pairs(&self) -> usize {
        self.ended.iter().flatten().sum()
    }

    /// Pairs that are correct only on the first side.
    pub fn lost(&self) -> usize {
        self.ended[0][1..].iter().sum()
    }

    /// Pairs that are correct only on the second side.
    pub fn won(&self) -> usize {
        self.ended[1..].iter().map(|row| row[0]).sum()
    }

    /// Whether the second side lost more than it won, by McNemar's exact test in this direction. It
    /// is the first question of a page with pairs, so that it has most of the error of all claims:
    /// five losses and no gain are enough, as in [`sobench_statistics::paired::TestPlan::LOSS`].
    pub fn is_loss(&self) -> bool {
        let pairs = self.contrast.pairs();
        pairs.is_some_and(|sample| {
            sample.clusters_a > sample.clusters_b && sample.p_value() / 2.0 <= LOSS_BY_CHANCE
        })
    }

    /// The group that explains the losses best, if most are in it and they are not as frequent in the
    /// other pairs.
    pub fn cause_of_loss(&self) -> Option<&PairGroup> {
        let least = chi_square_above(PLACE_BY_CHANCE, 1.0);
        let net = self.lost().saturating_sub(self.won());
        let has_most = |group: &&PairGroup| 2 * group.lost.saturating_sub(group.won) > net;
        let losing = self.groups.iter().filter(has_most);
        let all = log_likelihood(self.lost(), self.pairs());
        self.best(losing)
            .filter(|group| 2.0 * (self.fit(group) - all) >= least)
    }

    /// The group that explains best what differs, among those that differ at a level of all groups
    /// together: most differences of one direction are in it, and few pairs without one.
    pub fn cause(&self, level: f64) -> Option<&PairGroup> {
        let error = (1.0 - level) / self.tests(1.0 - level) as f64;
        self.best(self.groups.iter().filter(|group| group.p_value <= error))
    }

    fn best<'g>(&self, groups: impl Iterator<Item = &'g PairGroup>) -> Option<&'g PairGroup> {
        groups.max_by(|one, other| {
            let fit = self.fit(one).total_cmp(&self.fit(other));
            fit.then(other.by.cmp(&one.by))
        })
    }

    /// The log-likelihood of the losses, or of the gains, if they are as frequent as seen in the
    /// group and outside of it.
    fn fit(&self, group: &PairGroup) -> f64 {
        let (count, all) = match group.lost > group.won {
            true => (group.lost, self.lost()),
            false => (group.won, self.won()),
        };
        let outside = self.pairs() - group.pairs;
        log_likelihood(count, group.pairs) + log_likelihood(all - count, outside)
    }

    /// The number of groups that share the error: those with enough differences for the test at
    /// their share of it (Tarone, "A modified Bonferroni method for discrete data", 1990).
    fn tests(&self, error: f64) -> usize {
        let differing = self.groups.iter().map(|group| group.lost + group.won);
        let mut smallest: Vec<f64> = differing.map(smallest_p).collect();
        smallest.sort_unstable_by(f64::total_cmp);
        let able = |tests: usize| smallest.partition_point(|p| *p <= error / tests as f64);
        (1..=smallest.len().max(1))
            .find(|tests| able(*tests) <= *tests)
            .unwrap_or(1)
    }
}

/// The log-likelihood of a number of hits at the share of them that was seen.
fn log_likelihood(hits: usize, of: usize) -> f64 {
    let part = |count: usize| match count {
        0 => 0.0,
        count => count as f64 * (count as f64 / of as f64).ln(),
    };
    part(hits) + part(of - hits)
}

impl PairedValues {
    fn new(
        pairs: &[Pair<'_>],
        name: &'static str,
        unit: &'static str,
        value: impl Fn(&RequestView<'_>) -> Option<f64>,
    ) -> Option<Self> {
        let both = pairs.iter().filter_map(|pair| {
            let [first, second] = [&pair.sides[0], &pair.sides[1]].map(&value);
            Some(second? - first?)
        });
        let mut differences: Vec<f64> = both.collect();
        differences.sort_unstable_by(f64::total_cmp);
        let count = differences.len();
        let middle = differences.get(count / 2)?;
        let median = f64::midpoint(differences[(count - 1) / 2], *middle);
        let (low, high) = order_interval(count, 50.0);
        let at = |rank: Option<usize>| rank.map(|rank| differences[rank - 1]);
        Some(Self {
            name,
            unit,
            pairs: count,
            median,
            interval: (at(low), at(high)),
            larger: Share::count(differences.iter().map(|difference| *difference > 0.0)),
        })
    }
}

/// `None` if requests are not paired.
fn pairs<'a>(a: &'a Side, b: &'a Side, pairing: &Pairing) -> Option<Vec<Pair<'a>>> {
    if *pairing == Pairing::None {
        return None;
    }
    let mut firsts: Vec<Vec<RequestView<'a>>> = vec![Vec::new(); pairing.cases()];
    for ((_, request), case) in a.requests()?.zip(pairing.case_numbers(SideId::A)) {
        firsts[*case as usize].push(request);
    }
    let mut times = vec![0; pairing.cases()];
    let mut found = Vec::new();
    for ((_, second), case) in b.requests()?.zip(pairing.case_numbers(SideId::B)) {
        let case = *case as usize;
        let first = firsts[case].get(times[case]);
        times[case] += 1;
        let Some(first) = first else { continue };
        if let (Some(facts_a), Some(facts_b)) = (first.pair_facts(), second.pair_facts()) {
            found.push(Pair {
                sides: [*first, second],
                facts: [facts_a, facts_b],
                copies: [first.copy(), second.copy()],
            });
        }
    }
    Some(found)
}

fn by_constraint(pairs: &[Pair<'_>]) -> Option<(usize, (f64, f64))> {
    let mut clusters: IndexMap<u64, Pairs> = IndexMap::new();
    for pair in pairs {
        let constraint = pair.facts[0].constraint.as_ref()?;
        let [first, second] = pair.is_correct();
        clusters
            .entry(constraint.hash)
            .or_default()
            .add(first, second);
    }
    let count = clusters.len();
    let clusters: Vec<Pairs> = clusters.into_values().collect();
    let interval = PairedSample::from_clusters(&clusters).interval(0.95)?;
    (count >= MIN_JUDGED).then_some((count, interval))
}

/// The groups that some pairs are not in, those with the smallest p-value first.
fn groups(pairs: &[Pair<'_>]) -> Vec<PairGroup> {
    #[derive(Default)]
    struct Count {
        pairs: usize,
        lost: usize,
        won: usize,
        /// Without copies.
        lost_once: usize,
        won_once: usize,
    }
    let mut known = HashSet::new();
    let mut counts: IndexMap<(GroupBy, GroupValue), Count> = IndexMap::new();
    for pair in pairs {
        let (is_lost, is_won) = match pair.is_correct() {
            [true, false] => (true, false),
            [false, true] => (false, true),
            _ => (false, false),
        };
        let is_first = match pair.copies {
            [Some(first), Some(second)] => known.insert((first, second)),
            _ => true,
        };
        for group in groups_of(pair) {
            let count = counts.entry(group).or_default();
            count.pairs += 1;
            count.lost += usize::from(is_lost);
            count.won += usize::from(is_won);
            count.lost_once += usize::from(is_lost && is_first);
            count.won_once += usize::from(is_won && is_first);
        }
    }
    let all = pairs.len();
    let mut groups: Vec<PairGroup> = counts
        .into_iter()
        .filter(|(_, count)| count.pairs < all)
        .map(|((by, value), count)| PairGroup {
            by,
            value,
            pairs: count.pairs,
            lost: count.lost,
            won: count.won,
            p_value: sign_test(count.lost_once, count.won_once),
        })
        .collect();
    groups.sort_by(|one, other| one.p_value.total_cmp(&other.p_value));
    groups
}

fn groups_of(pair: &Pair<'_>) -> Vec<(GroupBy, GroupValue)> {
    let [first, second] = pair.facts;
    let mut groups = Vec::new();
    let mut add = |by, value| groups.push((by, value));
    let named = |name: &Arc<str>| GroupValue::Name(Arc::clone(name));
    let tool = first.tool.as_ref().or(second.tool.as_ref());
    if let Some(constraint) = &first.constraint {
        add(GroupBy::Kind, GroupValue::Word(constraint.kind));
        let of_tool = tool.and_then(|tool| constraint.tools.get(tool));
        let keywords = of_tool.unwrap_or(&constraint.keywords);
        let keywords = keywords.iter().map(named);
        keywords.for_each(|keyword| add(GroupBy::Keyword, keyword));
        match constraint.tools.len() {
            0 => add(GroupBy::Schema, named(&constraint.name)),
            tools => at_least(&TOOLS, tools as u64, |least| {
                add(GroupBy::NumberOfTools, least);
            }),
        }
        let bytes = constraint.bytes as u64;
        at_least(&CONSTRAINT_BYTES, bytes, |least| {
            add(GroupBy::ConstraintSize, least);
        });
    }
    if let Some(tool) = tool {
        add(GroupBy::Tool, GroupValue::Name(tool.as_str().into()));
    }
    let streaming = if second.streamed { "streamed" } else { "whole" };
    add(GroupBy::Streaming, GroupValue::Word(streaming));
    if let Some(in_flight) = pair.sides[1].in_flight() {
        for most in IN_FLIGHT {
            let value = match in_flight > most {
                true => GroupValue::Above(most),
                false => GroupValue::UpTo(most),
            };
            add(GroupBy::InFlight, value);
        }
    }
    if let Some(tokens) = pair.sides[0].input_tokens() {
        at_least(&PROMPT_TOKENS, tokens, |least| {
            add(GroupBy::PromptSize, least);
        });
    }
    groups
}

/// Adds a group for each bound that a number reaches.
fn at_least(bounds: &[u64], number: u64, add: impl FnMut(GroupValue)) {
    let reached = bounds.iter().filter(|bound| number >= **bound);
    reached
        .map(|bound| GroupValue::AtLeast(*bound))
        .for_each(add);
}
