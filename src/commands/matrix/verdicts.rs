//! Compares the contenders of a matrix with each other: the tests behind the sentences of
//! `crates/report/src/contenders/verdicts.rs`. How claims are limited: `docs/decisions/comparison-claims.md`.

pub mod batches;

use std::collections::{BTreeMap, HashSet};

use self::batches::CellDecoding;
use super::findings::Finding as Found;
use sobench_core::distinct::distinct;
use sobench_report::contenders::Load;
use sobench_report::contenders::verdicts::{
    Compared, Finding, MARGIN_POINTS, Ruling, Tested, Verdict, Verdicts,
};
use sobench_report::refusals::{Refused, sum_by_keyword};
use sobench_results::compare::measure::{Measured, NoInterval, Resampling, Uncertainty, measure};
use sobench_results::compare::pairing::Pairing;
use sobench_results::compare::run_spread::RunSpread;
use sobench_results::compare::side::Side;
use sobench_results::compare::{self, throughput};
use sobench_results::metrics::judgement::Cause;
use sobench_results::metrics::registry::{Figure, Stat, latencies, rates};
use sobench_statistics::contrast::{MIN_RUNS, holm};

/// Differences that matter, beside [`MARGIN_POINTS`]: a share of the larger figure, and at least
/// `MARGIN_MS`. An interval within them says that contenders do not differ.
const MARGIN_SHARE: f64 = 0.1;
const MARGIN_MS: f64 = 0.1;

/// The smallest share of cut answers, in percent, that is worth a sentence.
const MIN_CUT_PERCENT: f64 = 5.0;

/// Number of answers from which it is stated that none is correct.
const MIN_NONE_CORRECT: usize = 5;

/// The runs of a contender on a dataset under a load.
#[derive(Clone, Debug)]
pub struct CellEvidence<'a> {
    pub dataset: &'a str,
    pub contender: &'a str,
    pub load: Load,
    pub output_len: u32,
    /// The runs with constraints.
    pub side: Side,
    /// What they say of their requests.
    pub findings: Vec<&'a Found>,
    /// For each run, TTFT of the first use of a constraint minus that of later uses.
    pub compile_ms: Vec<f64>,
    pub decoding: CellDecoding,
    /// The most frequent reason of invalid answers.
    pub invalid_reason: Option<String>,
    /// Why the contender did not run.
    pub failure: Option<&'a str>,
}

/// Compares all contenders with each other, on each dataset and under each load.
pub fn verdicts(cells: &[CellEvidence<'_>]) -> Verdicts {
    let mut found = Vec::new();
    let mut tests: Vec<(Verdict, Measured)> = Vec::new();
    for (dataset, load) in distinct(cells.iter().map(|cell| (cell.dataset, cell.load))) {
        let here: Vec<&CellEvidence<'_>> = cells
            .iter()
            .filter(|cell| (cell.dataset, cell.load) == (dataset, load))
            .collect();
        let verdict = |contenders: &[&CellEvidence<'_>], finding: Finding| Verdict {
            contenders: contenders
                .iter()
                .map(|cell| cell.contender.to_owned())
                .collect(),
            dataset: dataset.to_owned(),
            load,
            finding,
        };
        let facts = here
            .iter()
            .filter_map(|cell| Some(verdict(&[cell], cell.refuses().or_else(|| cell.failed())?)));
        found.extend(facts);
        let none_correct = here
            .iter()
            .filter_map(|cell| Some(verdict(&[cell], cell.none_correct()?)));
        found.extend(none_correct);
        let held_up = here.iter().filter_map(|cell| {
            let answers = cell.decoding.held_up()?;
            Some(verdict(&[cell], Finding::HeldUp { answers }))
        });
        found.extend(held_up);
        // A contender that refuses every request has no other figures.
        let measured: Vec<&CellEvidence<'_>> =
            here.into_iter().filter(|cell| cell.has_answers()).collect();
        if measured.len() > 1 {
            found.extend(cut(&measured).map(|finding| verdict(&measured, finding)));
        }
        for (index, first) in measured.iter().enumerate() {
            for second in &measured[index + 1..] {
                for finding in compared(first, second) {
                    match finding {
                        Ok((figure, measured)) => {
                            let finding = Finding::Tested(Tested::new(figure, &measured));
                            tests.push((verdict(&[first, second], finding), measured));
                        }
                        Err(finding) => found.push(verdict(&[first, second], finding)),
                    }
                }
            }
        }
    }
    let (_, level) = holm(
        &tests,
        compare::CLAIMED_BY_CHANCE,
        |(_, measured), level| measured.spread.sign(level, None).is_some(),
    );
    let comparisons = tests.len();
    found.extend(
        tests
            .into_iter()
            .map(|(verdict, measured)| decided(verdict, &measured, level)),
    );
    Verdicts {
        comparisons,
        interval_percent: (comparisons > 0).then_some(100.0 * level),
        verdicts: found,
    }
}

/// The ruling on a tested difference. The worse contender comes first if they differ.
fn decided(mut verdict: Verdict, measured: &Measured, level: f64) -> Verdict {
    let Finding::Tested(tested) = &mut verdict.finding else {
        return verdict;
    };
    if let Some((low, high)) = measured.spread.interval(level) {
        // First minus second.
        (tested.low, tested.high) = (-high, -low);
    }
    let margin = margin(tested.figure, tested.levels);
    tested.ruling = if measured.spread.sign(level, None).is_some() {
        Ruling::Differs
    } else if tested.low >= -margin && tested.high <= margin {
        Ruling::DoesNotDiffer
    } else {
        Ruling::Unclear
    };
    let is_second_worse = (tested.difference > 0.0) == tested.figure.is_gain();
    if is_second_worse && tested.ruling != Ruling::DoesNotDiffer {
        verdict.contenders.swap(0, 1);
        tested.levels.swap(0, 1);
        tested.difference = -tested.difference;
        (tested.low, tested.high) = (-tested.high, -tested.low);
    }
    verdict
}

fn margin(figure: Compared, [first, second]: [f64; 2]) -> f64 {
    let share = MARGIN_SHARE * first.abs().max(second.abs());
    match figure.is_rate() {
        true => MARGIN_POINTS,
        false if figure.is_gain() => share,
        false => share.max(MARGIN_MS),
    }
}

/// The figures in which two contenders are compared: those that lead a comparison of runs, and
/// compliance if answers were cut.
fn figures(first: &CellEvidence<'_>, second: &CellEvidence<'_>) -> Vec<Figure> {
    let sides = [&first.side, &second.side];
    let is_cut = |cell: &CellEvidence<'_>| cell.shares().1.contains_key(&Cause::Truncated);
    let compliance = Figure::new(&rates::COMPLIANCE);
    let mut figures = compare::leading_figures();
    figures.extend((is_cut(first) || is_cut(second)).then_some(compliance));
    figures.retain(|figure| {
        let follows_rate = |side: &&Side| throughput::follows_rate(side, figure.metric);
        !sides.iter().all(follows_rate)
    });
    figures
}

/// What is measured of each figure, or why it is not compared.
fn compared(
    first: &CellEvidence<'_>,
    second: &CellEvidence<'_>,
) -> Vec<Result<(Compared, Measured), Finding>> {
    let figures = figures(first, second);
    let pairing = Pairing::new(&first.side, &second.side);
    // Runs are compared, without resamples.
    let none = Resampling {
        resamples: 1,
        seed: 0,
    };
    let spread = RunSpread::default();
    let measured = measure(&first.side, &second.side, &pairing, &figures, &spread, none);
    let leading = compare::leading(measured.iter());
    let named = measured
        .into_iter()
        .zip(leading)
        .filter(|(measured, leads)| {
            let is_known = !matches!(measured.spread, Uncertainty::None(_));
            *leads || !is_known || measured.metric == Figure::new(&rates::COMPLIANCE)
        });
    let named = named.map(|(measured, _)| (Compared::Figure(measured.metric), measured));
    let compile = compile_time(first, second).map(|found| (Compared::CompileTime, found));
    let repeats = first.side.runs.len().min(second.side.runs.len());
    let unequal = first.decoding.unequal(second.decoding);
    let finding = |(figure, measured): (Compared, Measured)| {
        let is_of_steps = [&latencies::TTFT, &latencies::TPOT].contains(&measured.metric.metric);
        let is_named = matches!(figure, Compared::Figure(_));
        if measured.a.is_none() || measured.b.is_none() {
            return None;
        }
        if let Some(answers) = unequal.filter(|_| is_of_steps && is_named) {
            return Some(Err(Finding::FewerAtOnce { figure, answers }));
        }
        match measured.spread {
            Uncertainty::None(NoInterval::Distrusted) => Some(Err(Finding::Distrusted { figure })),
            _ if is_named && !figure.is_rate() && repeats < MIN_RUNS => {
                Some(Err(Finding::TooFewRepeats { figure, repeats }))
            }
            Uncertainty::None(_) => None,
            _ => Some(Ok((figure, measured))),
        }
    };
    named.chain(compile).filter_map(finding).collect()
}

/// The difference of compile times; two runs each are enough for one that is large. `None` if it is
/// unknown.
fn compile_time(first: &CellEvidence<'_>, second: &CellEvidence<'_>) -> Option<Measured> {
    let figure = Figure::from_distribution(&latencies::TTFT, Stat::Mean);
    let sides = [first, second];
    let of_runs = sides.map(|cell| &cell.compile_ms[..]);
    Measured::of_runs(figure, sides.map(|cell| &cell.side), of_runs)
}

/// The shares of answers that were cut at the token limit; `None` if all are small.
fn cut(cells: &[&CellEvidence<'_>]) -> Option<Finding> {
    let share = |cell: &&CellEvidence<'_>| {
        let (_, causes) = cell.shares();
        causes.get(&Cause::Truncated).copied().unwrap_or(0.0)
    };
    let shares_percent: Vec<f64> = cells.iter().map(share).collect();
    let is_large = shares_percent.iter().any(|share| *share >= MIN_CUT_PERCENT);
    is_large.then(|| Finding::Cut {
        shares_percent,
        output_len: cells[0].output_len,
    })
}

impl CellEvidence<'_> {
    fn failed(&self) -> Option<Finding> {
        let reason = self
            .failure
            .filter(|_| self.side.runs.is_empty())?
            .to_owned();
        Some(Finding::DidNotRun { reason })
    }

    /// The constraints of all requests.
    fn constraints(&self) -> HashSet<u32> {
        // Every repeat has the same requests.
        self.findings
            .iter()
            .filter_map(|found| found.constraint)
            .collect()
    }

    fn has_answers(&self) -> bool {
        let mut findings = self.findings.iter();
        let has_answer = self.findings.is_empty() || findings.any(|found| found.refusal.is_none());
        has_answer && !self.side.runs.is_empty()
    }

    fn refuses(&self) -> Option<Finding> {
        let refusals = self.findings.iter();
        let refusals: Vec<(u32, &Refused)> = refusals
            .filter_map(|found| Some((found.constraint?, found.refusal.as_ref()?)))
            .collect();
        let keywords = refusals
            .iter()
            .map(|(constraint, refused)| (*constraint, refused.keyword.clone()));
        let (refused, by_keyword) = sum_by_keyword(keywords);
        let mut by_words: BTreeMap<&str, HashSet<u32>> = BTreeMap::new();
        for (constraint, refusal) in &refusals {
            by_words
                .entry(&refusal.message)
                .or_default()
                .insert(*constraint);
        }
        let (words, with_words) = by_words.iter().max_by_key(|(_, refused)| refused.len())?;
        Some(Finding::Refuses {
            refused,
            constraints: self.constraints().len(),
            words: (*words).to_owned(),
            with_words: with_words.len(),
            by_keyword,
        })
    }

    /// Whether the server accepts requests, and none of enough answers is correct.
    fn none_correct(&self) -> Option<Finding> {
        let (answers, causes) = self.shares();
        let is_any_correct = 100.0 - causes.values().sum::<f64>() > 1e-6;
        let is_stated = self.has_answers() && answers >= MIN_NONE_CORRECT && !is_any_correct;
        is_stated.then(|| Finding::NoneCorrect {
            answers,
            causes: causes.into_iter().collect(),
            reason: self.invalid_reason.clone(),
        })
    }

    /// The number of requests that count, and the share of each cause in percent.
    fn shares(&self) -> (usize, BTreeMap<Cause, f64>) {
        let judged = self.findings.iter().filter_map(|found| found.judged);
        let counted: Vec<Result<(), Cause>> = judged.collect();
        let mut shares = BTreeMap::new();
        for cause in counted.iter().filter_map(|judged| judged.err()) {
            *shares.entry(cause).or_insert(0.0) += 100.0 / counted.len() as f64;
        }
        (counted.len(), shares)
    }
}

#[cfg(test)]
mod tests;
