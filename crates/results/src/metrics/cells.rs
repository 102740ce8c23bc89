//! The map of tools and context, or of the turns of sessions: figures of each cell, and the cells in
//! which answers are worse.
//!
//! Every item is sent in each cell. A cell is compared with the smallest one over the items of both,
//! by McNemar's exact test in the direction of a loss, with Holm's correction over all cells and
//! figures. Turns are paired by session, and compared in valid answers only, because other turns have
//! other questions.

use std::collections::{BTreeMap, HashMap, HashSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::registry::{Figure, Metric, RunSamples, Values, latencies, rates};
use sobench_core::case::Arm;
use sobench_core::verdict::Verdict;
use sobench_facts::Sample;
use sobench_plan::dataset::Cell;
use sobench_plan::metrics::MetricsSettings;
use sobench_statistics::contrast::{Share, holm};
use sobench_statistics::distributions::binomial_at_most;
use sobench_statistics::paired::{TestPlan, items_needed, smallest_visible_effect};
use sobench_statistics::{Rate, mean};

/// The chance that a map names a cell that is not worse.
pub const BY_CHANCE: f64 = 0.05;

/// The chance that a loss of the stated size is found.
pub const POWER: f64 = 0.95;

/// The figures in which cells are compared.
const COMPARED: [&Metric; 2] = [&rates::CORRECT_RATE, &rates::ACCURACY];

/// The figures of a cell, in the order of tables.
const SHOWN: [&Metric; 5] = [
    &rates::CORRECT_RATE,
    &rates::ACCURACY,
    &rates::MISSED_CALLS,
    &rates::FORBIDDEN_CALLS,
    &rates::LEAKED_MARKUP_RATE,
];

/// The map of a run.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CellMap {
    /// By arm, then from the smallest cell to the largest.
    pub cells: Vec<CellValues>,
    /// The smallest cells that are worse than the first cell: no worse cell has as few tools and as
    /// short a context.
    pub first_worse: Vec<WorseCell>,
    /// Every cell that is worse.
    pub worse: Vec<Cell>,
    /// Comparisons that share the error.
    pub comparisons: usize,
    /// The smallest loss, in percentage points, that this number of items finds in 95 % of runs.
    pub visible_loss_points: Option<f64>,
    /// Prompt tokens that a tool takes, on average.
    pub tokens_per_tool: Option<f64>,
}

/// The figures of an arm in a cell.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct CellValues {
    #[serde(flatten)]
    pub cell: Cell,
    pub arm: Arm,
    pub requests: usize,
    /// The mean.
    pub prompt_tokens: Option<f64>,
    pub ttft_p50_ms: Option<f64>,
    /// By the name of the figure.
    pub rates: BTreeMap<&'static str, Rate>,
}

/// A cell that is worse than the smallest one.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct WorseCell {
    #[serde(flatten)]
    pub cell: Cell,
    /// The name of the figure.
    pub figure: &'static str,
    /// Hits in the smallest cell and in this one, of the items that both have.
    pub smallest: Share,
    pub here: Share,
    /// Items that only the smallest cell has right, and only this one.
    pub lost: usize,
    pub won: usize,
    /// Of this comparison alone.
    pub p_value: f64,
    /// Why most lost items are not right here, and how many of them.
    pub cause: Option<(&'static str, usize)>,
}

/// The cell of a request.
pub fn cell_of(sample: &Sample<'_>) -> Cell {
    Cell::of(&sample.request_input().tags)
}

/// The number of items that find this loss, as a share of 1, in a cell of a map of this many cells, if
/// beside it the share `noise` of the items differs by chance in each direction.
pub fn items_for_loss(cells: usize, loss: f64, noise: f64) -> Option<usize> {
    let comparisons = cells.saturating_sub(1) * COMPARED.len();
    items_needed(loss + 2.0 * noise, loss, plan(comparisons))
}

fn plan(comparisons: usize) -> TestPlan {
    TestPlan {
        error: BY_CHANCE / comparisons.max(1) as f64,
        power: POWER,
    }
}

impl CellMap {
    /// `None` without a map.
    pub fn new(samples: &[Sample<'_>], options: &MetricsSettings) -> Option<Self> {
        let mut members: BTreeMap<(Arm, Cell), Vec<&Sample<'_>>> = BTreeMap::new();
        for sample in samples {
            let cell = cell_of(sample);
            if cell != Cell::default() {
                members
                    .entry((sample.arm(), cell))
                    .or_default()
                    .push(sample);
            }
        }
        if members.is_empty() {
            return None;
        }
        let constrained: Vec<(Cell, &[&Sample<'_>])> = members
            .iter()
            .filter(|((arm, _), _)| *arm == Arm::Constrained)
            .map(|((_, cell), samples)| (*cell, &samples[..]))
            .collect();
        let tests = tests(&constrained);
        let (held, _) = holm(&tests, BY_CHANCE, |test, level| test.p_value <= 1.0 - level);
        let worse: Vec<WorseCell> = tests
            .iter()
            .zip(held)
            .filter(|(_, held)| *held)
            .map(|(test, _)| test.clone())
            .collect();
        let is_first = |test: &&WorseCell| {
            let mut others = worse.iter().filter(|other| other.cell != test.cell);
            !others.any(|other| is_within(other.cell, test.cell))
        };
        let mut worse_cells: Vec<Cell> = worse.iter().map(|test| test.cell).collect();
        worse_cells.dedup();
        Some(Self {
            first_worse: worse.iter().filter(is_first).cloned().collect(),
            worse: worse_cells,
            comparisons: tests.len(),
            visible_loss_points: visible_loss(&tests).map(|share| 100.0 * share),
            tokens_per_tool: tokens_per_tool(&constrained),
            cells: members
                .iter()
                .map(|((arm, cell), samples)| CellValues::new(*arm, *cell, samples, options))
                .collect(),
        })
    }
}

/// The smallest loss of valid answers that is found in every cell, as a share of 1, if as many items
/// differ by chance as seem to. Late turns that few sessions have do not count.
fn visible_loss(tests: &[WorseCell]) -> Option<f64> {
    let most = tests.iter().map(|test| test.here.of).max()?;
    let of_valid = tests
        .iter()
        .filter(|test| test.figure == rates::CORRECT_RATE.name && 2 * test.here.of >= most);
    let visible = of_valid.map(|test| {
        let by_chance = 2 * test.lost.min(test.won);
        let discordant = by_chance as f64 / test.here.of as f64;
        smallest_visible_effect(test.here.of, discordant, plan(tests.len()))
    });
    visible.reduce(|one, other| Some(f64::max(one?, other?)))?
}

/// Whether a cell has at most as many tools, as long a context and as many turns as another.
fn is_within(cell: Cell, other: Cell) -> bool {
    let sizes = |cell: Cell| {
        [
            cell.tools.map(|tools| tools as u32),
            cell.context_tokens,
            cell.turn,
        ]
    };
    let mut sizes = sizes(cell).into_iter().zip(sizes(other));
    sizes.all(|(size, other)| size <= other)
}

impl CellValues {
    fn new(arm: Arm, cell: Cell, samples: &[&Sample<'_>], options: &MetricsSettings) -> Self {
        let run = RunSamples::new(samples, 0, options, None).of_arm(Some(arm));
        let mut metrics = SHOWN.to_vec();
        metrics.push(&latencies::TTFT);
        let values = Values::selected(&metrics, &run);
        let rates = SHOWN
            .into_iter()
            .filter_map(|metric| Some((metric.name, values.rate(metric)?)));
        let tokens = samples
            .iter()
            .filter_map(|sample| Some(sample.tokens().input? as f64));
        Self {
            cell,
            arm,
            requests: samples.len(),
            prompt_tokens: mean(&tokens.collect::<Vec<f64>>()),
            ttft_p50_ms: values.summary(&latencies::TTFT).median,
            rates: rates.collect(),
        }
    }
}

/// Compares each cell with the first one, by the items that both have.
fn tests(cells: &[(Cell, &[&Sample<'_>])]) -> Vec<WorseCell> {
    let Some(((_, smallest), others)) = cells.split_first() else {
        return Vec::new();
    };
    let smallest: HashMap<u32, &Sample<'_>> = by_item(smallest).collect();
    let mut tests = Vec::new();
    for (cell, samples) in others {
        for metric in COMPARED {
            if cell.turn.is_some() && metric.name != rates::CORRECT_RATE.name {
                continue;
            }
            let mut items = HashSet::new();
            let hit = |sample: &Sample<'_>| Figure::new(metric).hit(sample);
            let mut seen = HashSet::new();
            let (mut before, mut here) = (Share::default(), Share::default());
            let (mut lost, mut won) = (Vec::new(), 0);
            for (item, sample) in by_item(samples) {
                let Some(first) = smallest.get(&item) else {
                    continue;
                };
                let (Some(was), Some(is)) = (hit(first), hit(sample)) else {
                    continue;
                };
                // Equal requests with equal answers are one trial, and later turns of a session too.
                if !items.insert(item) || !seen.insert((first.copy_hash(), sample.copy_hash())) {
                    continue;
                }
                before.of += 1;
                here.of += 1;
                before.hits += usize::from(was);
                here.hits += usize::from(is);
                match (was, is) {
                    (true, false) => lost.push(sample),
                    (false, true) => won += 1,
                    _ => {}
                }
            }
            if before.of > 0 {
                tests.push(WorseCell {
                    cell: *cell,
                    figure: metric.name,
                    smallest: before,
                    here,
                    lost: lost.len(),
                    won,
                    p_value: binomial_at_most(won, lost.len() + won, 0.5),
                    cause: cause(&lost),
                });
            }
        }
    }
    tests
}

/// Requests by their item, or by their session.
fn by_item<'s, 'a>(samples: &[&'s Sample<'a>]) -> impl Iterator<Item = (u32, &'s Sample<'a>)> {
    let item = |sample: &Sample<'_>| sample.turn().map(|turn| turn.session).or(sample.item());
    samples
        .iter()
        .filter_map(move |sample| Some((item(sample)?, *sample)))
}

/// Why most of these requests are not right, and how many of them.
fn cause(lost: &[&Sample<'_>]) -> Option<(&'static str, usize)> {
    let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
    for sample in lost {
        let is_missed = || sample.call_due() == Some(true) && sample.made_call() == Some(false);
        let is_forbidden = || sample.call_due() == Some(false) && sample.made_call() == Some(true);
        let name = match sample.verdict() {
            _ if !sample.outcome().is_answer() => sample.outcome().name(),
            Verdict::Invalid { reason } => reason.name(),
            _ if is_missed() => "missed_call",
            _ if is_forbidden() => "forbidden_call",
            _ => "wrong_answer",
        };
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count)
}

/// The mean, over items and contexts, of the prompt tokens that more tools take, by tool.
fn tokens_per_tool(cells: &[(Cell, &[&Sample<'_>])]) -> Option<f64> {
    let mut by_context: BTreeMap<Option<u32>, Vec<&(Cell, &[&Sample<'_>])>> = BTreeMap::new();
    for cell in cells {
        by_context
            .entry(cell.0.context_tokens)
            .or_default()
            .push(cell);
    }
    let mut all = Vec::new();
    for row in by_context.values() {
        let ((few, few_samples), (many, many_samples)) = (row.first()?, row.last()?);
        let more = many
            .tools?
            .checked_sub(few.tools?)
            .filter(|more| *more > 0)?;
        let few_samples: HashMap<u32, &Sample<'_>> = by_item(few_samples).collect();
        all.extend(by_item(many_samples).filter_map(|(item, sample)| {
            let before = few_samples.get(&item)?.tokens().input?;
            Some((sample.tokens().input? as f64 - before as f64) / more as f64)
        }));
    }
    mean(&all)
}
