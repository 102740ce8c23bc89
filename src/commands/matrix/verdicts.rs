//! Compares the contenders of a matrix with each other: the tests behind the sentences of
//! `report/verdicts.rs`. How claims are limited: `docs/decisions/comparison-claims.md`.

pub mod batches;
mod contrast;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use self::batches::CellDecoding;
use self::contrast::{Contrast, RunHits, RunValues};
use super::report::Load;
use super::report::verdicts::{Cause, Figure, Finding, Ruling, Tested, Verdict, Verdicts};
use crate::commands::distinct::distinct;
use sobench_core::case::Arm;
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Outcome, TOO_MANY_REQUESTS};
use sobench_core::verdict::{NotScored, Reason, Verdict as AnswerVerdict};
use sobench_facts::Sample;
use sobench_plan::metrics::MetricsOptions;
use sobench_report::refusals::{Refused, sum_by_keyword};
use sobench_results::compare::contrast::holm;
use sobench_results::metrics::first_uses;
use sobench_results::metrics::registry::{self, Metric, RequestValues, latencies, rates, totals};
use sobench_statistics::Rate;

pub use self::contrast::MIN_REPEATS;

/// The chance that any comparison of a page finds a difference between equal contenders.
const ERROR: f64 = 0.05;

/// Differences that matter: shares in points, others as a share of the larger figure, and at least
/// `MARGIN_MS`. An interval within them says that contenders do not differ.
pub const MARGIN_POINTS: f64 = 5.0;
const MARGIN_SHARE: f64 = 0.1;
const MARGIN_MS: f64 = 0.1;

/// Differences of times below the resolution of the client's instants say nothing, nor of
/// throughputs below this share.
const RESOLUTION_MS: f64 = 0.01;
const RESOLUTION_SHARE: f64 = 0.001;

/// The smallest share of cut answers, in percent, that is worth a sentence.
const MIN_CUT_PERCENT: f64 = 5.0;

/// Number of answers from which it is stated that none is correct.
const MIN_NONE_CORRECT: usize = 5;

/// The values of one request in every metric.
#[derive(Clone, Debug)]
pub struct RequestSample {
    pub case: usize,
    pub arm: Arm,
    pub answered: bool,
    pub values: RequestValues,
    /// Equal for equal requests with equal answers.
    pub copy: u64,
    /// The number of its constraint in the run.
    pub constraint: Option<u32>,
    /// Whether the server had compiled its constraint before: neither a first use nor one that
    /// waited for it.
    pub is_later_use: bool,
    /// Whether the answer to a constrained request is correct, or why not; `None` for requests
    /// that the correct rate leaves out.
    pub judged: Option<Result<(), Cause>>,
    /// `None` if the server did not refuse the constraint.
    pub refusal: Option<Refused>,
}

/// The samples of one constrained run and its control.
#[derive(Clone, Debug)]
pub struct RunEvidence<'a> {
    pub constrained: &'a [RequestSample],
    pub control: Option<&'a [RequestSample]>,
    pub output_throughput: Option<f64>,
    /// TTFT of the first use of a constraint minus that of later uses.
    pub compile_ms: Option<f64>,
    /// What the client may have added to a mean, or taken from a throughput, in the run or its control;
    /// `None` if it is unknown.
    pub distrusted: Vec<(&'static Metric, Option<f64>)>,
}

/// The runs of a contender on a dataset under a load.
#[derive(Clone, Debug)]
pub struct CellEvidence<'a> {
    pub dataset: &'a str,
    pub contender: &'a str,
    pub load: Load,
    pub output_len: u32,
    /// Whether the request rate sets the throughput of every run.
    pub follows_rate: bool,
    pub runs: Vec<RunEvidence<'a>>,
    pub decoding: CellDecoding,
    /// The most frequent reason of invalid answers.
    pub invalid_reason: Option<String>,
    /// Why the contender did not run.
    pub failure: Option<&'a str>,
}

impl RequestSample {
    /// Whether the request is a hit of a rate; `None` if it does not count.
    pub fn hit(&self, metric: &'static Metric) -> Option<bool> {
        let counts = registry::Figure::new(metric).counts(Some(self.arm));
        self.values.hit(metric).filter(|_| counts)
    }
}

/// Takes the values of every request of a run. `known` are the fingerprints of constraints that the
/// server had received before.
pub fn request_samples(
    samples: &[Sample<'_>],
    options: &MetricsOptions,
    known: &HashSet<String>,
) -> Vec<RequestSample> {
    let later = first_uses::later_uses(samples, options, known);
    let mut by_address: HashMap<*const Constraint, u32> = HashMap::new();
    let mut by_content: HashMap<String, u32> = HashMap::new();
    let mut number = |constraint: &Arc<Constraint>| {
        *by_address
            .entry(Arc::as_ptr(constraint))
            .or_insert_with(|| {
                let next = by_content.len() as u32;
                *by_content.entry(constraint.fingerprint()).or_insert(next)
            })
    };
    samples
        .iter()
        .map(|sample| RequestSample {
            case: sample.case_index(),
            arm: sample.arm(),
            answered: sample.outcome().is_answer(),
            values: RequestValues::new(sample, options),
            copy: sample.copy_hash(),
            constraint: sample.constraint().map(&mut number),
            is_later_use: later.contains(&sample.case_index()),
            judged: judged(sample),
            refusal: Refused::new(sample),
        })
        .collect()
}

/// See [`RequestSample::judged`]. An answer that violated its constraint before it was cut is
/// invalid.
fn judged(sample: &Sample<'_>) -> Option<Result<(), Cause>> {
    if sample.arm() != Arm::Constrained {
        return None;
    }
    let is_overloaded = matches!(
        sample.outcome(),
        Outcome::Rejected {
            status: TOO_MANY_REQUESTS,
            ..
        }
    );
    match sample.verdict() {
        AnswerVerdict::Valid => Some(Ok(())),
        AnswerVerdict::Invalid {
            reason: Reason::Truncated,
        } => Some(Err(Cause::Truncated)),
        AnswerVerdict::Invalid { .. } => Some(Err(Cause::Invalid)),
        AnswerVerdict::NotScored {
            why: NotScored::Refused,
        } if !is_overloaded => Some(Err(Cause::Refused)),
        AnswerVerdict::NotScored {
            why: NotScored::Refused | NotScored::Failed,
        } => Some(Err(Cause::Failed)),
        AnswerVerdict::NotScored { .. } => None,
    }
}

/// The share of hits over several runs of the same requests, with its 95 % interval. Requests are
/// the trials: repeats of a request and copies count as far as they vary, as in the comparison of
/// two contenders. `None` if no request counts.
pub fn rate_of_runs<'a>(
    runs: impl Iterator<Item = &'a [RequestSample]>,
    hit: impl Fn(&RequestSample) -> Option<bool>,
) -> Option<Rate> {
    let hits: Vec<RunHits> = runs.map(|run| run_hits(run, &hit)).collect();
    contrast::rate(&hits)
}

fn run_hits(requests: &[RequestSample], hit: impl Fn(&RequestSample) -> Option<bool>) -> RunHits {
    requests
        .iter()
        .filter_map(|request| Some((request.case, (hit(request)?, request.copy))))
        .collect()
}

/// Compares all contenders with each other, on each dataset and under each load.
pub fn verdicts(cells: &[CellEvidence<'_>]) -> Verdicts {
    let mut found = Vec::new();
    let mut tests: Vec<(Verdict, Contrast)> = Vec::new();
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
                for figure in figures(first, second) {
                    match compare(first, second, figure) {
                        Compared::Tested(contrast, tested) => tests
                            .push((verdict(&[first, second], Finding::Tested(tested)), contrast)),
                        Compared::Not(finding) => found.push(verdict(&[first, second], finding)),
                        Compared::NoValues => {}
                    }
                }
            }
        }
    }
    let contrasts: Vec<Contrast> = tests.iter().map(|(_, contrast)| *contrast).collect();
    let (_, level) = holm(&contrasts, ERROR, |contrast, level| contrast.differs(level));
    let comparisons = tests.len();
    found.extend(
        tests
            .into_iter()
            .map(|(verdict, contrast)| decided(verdict, &contrast, level)),
    );
    Verdicts {
        comparisons,
        interval_percent: (comparisons > 0).then_some(100.0 * level),
        verdicts: found,
    }
}

/// The ruling on a tested difference. The worse contender comes first if they differ.
fn decided(mut verdict: Verdict, contrast: &Contrast, level: f64) -> Verdict {
    let Finding::Tested(tested) = &mut verdict.finding else {
        return verdict;
    };
    let unit = if tested.figure.is_rate() { 100.0 } else { 1.0 };
    let (low, high) = contrast.interval(level);
    (tested.low, tested.high) = (unit * low, unit * high);
    let margin = margin(tested.figure, tested.levels);
    tested.ruling = if contrast.differs(level) {
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

fn margin(figure: Figure, [first, second]: [f64; 2]) -> f64 {
    let share = MARGIN_SHARE * first.abs().max(second.abs());
    match figure {
        Figure::CorrectRate | Figure::Accuracy | Figure::Compliance => MARGIN_POINTS,
        Figure::OutputThroughput => share,
        _ => share.max(MARGIN_MS),
    }
}

/// The figures in which two contenders are compared.
fn figures(first: &CellEvidence<'_>, second: &CellEvidence<'_>) -> Vec<Figure> {
    let both = |has: fn(&RunEvidence<'_>) -> bool| {
        [first, second].iter().all(|cell| cell.runs.iter().any(has))
    };
    let mut figures = vec![Figure::CorrectRate];
    let is_scored = |cell: &CellEvidence<'_>| {
        let mut runs = cell.hits(&rates::ACCURACY).into_iter();
        runs.any(|hits| !hits.is_empty())
    };
    if is_scored(first) && is_scored(second) {
        figures.push(Figure::Accuracy);
    }
    let is_cut = |cell: &CellEvidence<'_>| cell.shares().1.contains_key(&Cause::Truncated);
    if is_cut(first) || is_cut(second) {
        figures.push(Figure::Compliance);
    }
    let has_compile_time = both(|run| run.compile_ms.is_some());
    if both(|run| run.control.is_some()) {
        figures.extend([Figure::TtftAdded, Figure::TpotAdded]);
        figures.extend((!has_compile_time).then_some(Figure::FirstTtftAdded));
    } else {
        figures.extend([Figure::Ttft, Figure::Tpot]);
    }
    figures.push(Figure::E2el);
    let follows_rate = first.follows_rate && second.follows_rate;
    figures.extend((!follows_rate).then_some(Figure::OutputThroughput));
    figures.extend(has_compile_time.then_some(Figure::CompileCold));
    figures
}

enum Compared {
    Tested(Contrast, Tested),
    Not(Finding),
    NoValues,
}

fn compare(first: &CellEvidence<'_>, second: &CellEvidence<'_>, figure: Figure) -> Compared {
    let metric = match figure {
        Figure::CorrectRate => &rates::CORRECT_RATE,
        Figure::Accuracy => &rates::ACCURACY,
        Figure::Compliance => &rates::COMPLIANCE,
        Figure::TtftAdded | Figure::FirstTtftAdded | Figure::Ttft | Figure::CompileCold => {
            &latencies::TTFT
        }
        Figure::TpotAdded | Figure::Tpot => &latencies::TPOT,
        Figure::E2el => &latencies::E2EL,
        Figure::OutputThroughput => &totals::OUTPUT_THROUGHPUT,
    };
    let contrast = if figure.is_rate() {
        Contrast::of_shares(&first.hits(metric), &second.hits(metric))
    } else {
        let doubt = |cell: &CellEvidence<'_>| -> Option<f64> {
            let doubts = cell.runs.iter().flat_map(|run| &run.distrusted);
            let doubts = doubts.filter(|(own, _)| *own == metric);
            doubts
                .map(|(_, added)| *added)
                .try_fold(0.0, |most: f64, added| Some(most.max(added?)))
        };
        let Some((one, other)) = doubt(first).zip(doubt(second)) else {
            return Compared::Not(Finding::Distrusted { figure });
        };
        let doubt = one + other;
        let is_held_up = |cell: &&CellEvidence<'_>| cell.decoding.held_up().is_some();
        match figure {
            Figure::TpotAdded | Figure::TtftAdded if [first, second].iter().any(is_held_up) => {
                return Compared::NoValues;
            }
            Figure::TpotAdded | Figure::TtftAdded | Figure::Tpot | Figure::Ttft => {
                if let Some(answers) = first.decoding.unequal(second.decoding) {
                    return Compared::Not(Finding::FewerAtOnce { figure, answers });
                }
            }
            _ => {}
        }
        let [one, other] = [first, second].map(|cell| cell.values(figure, metric));
        if one.is_empty() || other.is_empty() {
            return Compared::NoValues;
        }
        let repeats = one.len().min(other.len());
        if repeats < MIN_REPEATS {
            return Compared::Not(Finding::TooFewRepeats { figure, repeats });
        }
        let resolution = match figure {
            Figure::OutputThroughput => {
                let largest = one.iter().chain(&other).flat_map(BTreeMap::values);
                RESOLUTION_SHARE * largest.fold(0.0, |most: f64, value| most.max(*value))
            }
            _ => RESOLUTION_MS,
        };
        Contrast::of_means(&one, &other, resolution).map(|found| found.with_doubt(doubt))
    };
    let Some(contrast) = contrast else {
        return Compared::NoValues;
    };
    let unit = if figure.is_rate() { 100.0 } else { 1.0 };
    let tested = Tested {
        figure,
        // Decided when all contrasts are known.
        ruling: Ruling::Unclear,
        levels: contrast.levels.map(|level| unit * level),
        difference: unit * contrast.difference,
        low: f64::NAN,
        high: f64::NAN,
    };
    Compared::Tested(contrast, tested)
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
        let reason = self.failure.filter(|_| self.runs.is_empty())?.to_owned();
        Some(Finding::DidNotRun { reason })
    }

    /// The constraints of all requests.
    fn constraints(&self) -> HashSet<u32> {
        // Every repeat has the same requests.
        let requests = self.runs.iter().flat_map(|run| run.constrained);
        requests.filter_map(|request| request.constraint).collect()
    }

    fn has_answers(&self) -> bool {
        let mut requests = self.runs.iter().flat_map(|run| run.constrained);
        requests.any(|request| request.refusal.is_none())
    }

    fn refuses(&self) -> Option<Finding> {
        let requests = self.runs.iter().flat_map(|run| run.constrained);
        let refusals: Vec<(u32, &Refused)> = requests
            .filter_map(|request| Some((request.constraint?, request.refusal.as_ref()?)))
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

    fn hits(&self, metric: &'static Metric) -> Vec<RunHits> {
        self.runs
            .iter()
            .map(|run| run_hits(run.constrained, |request| request.hit(metric)))
            .collect()
    }

    /// The number of requests that count, and the share of each cause in percent.
    fn shares(&self) -> (usize, BTreeMap<Cause, f64>) {
        let counted: Vec<Result<(), Cause>> = self
            .runs
            .iter()
            .flat_map(|run| run.constrained)
            .filter_map(|request| request.judged)
            .collect();
        let mut shares = BTreeMap::new();
        for cause in counted.iter().filter_map(|judged| judged.err()) {
            *shares.entry(cause).or_insert(0.0) += 100.0 / counted.len() as f64;
        }
        (counted.len(), shares)
    }

    /// The values of each run that has some.
    fn values(&self, figure: Figure, metric: &Metric) -> Vec<RunValues> {
        let value = |request: &RequestSample| {
            let value = request.values.value(metric).filter(|_| request.answered)?;
            Some((request.case, value))
        };
        let single = |value: Option<f64>| value.map(|value| (0, value)).into_iter().collect();
        let run_values = |run: &RunEvidence<'_>| -> RunValues {
            match figure {
                Figure::OutputThroughput => single(run.output_throughput),
                Figure::CompileCold => single(run.compile_ms),
                Figure::TtftAdded | Figure::FirstTtftAdded | Figure::TpotAdded => {
                    let control = run.control.into_iter().flatten();
                    let control: HashMap<usize, f64> = control.filter_map(value).collect();
                    let added =
                        |(case, value): (usize, f64)| Some((case, value - control.get(&case)?));
                    let counts = |request: &&RequestSample| match figure {
                        Figure::TtftAdded => request.is_later_use,
                        Figure::FirstTtftAdded => !request.is_later_use,
                        _ => true,
                    };
                    let constrained = run.constrained.iter().filter(counts).filter_map(value);
                    constrained.filter_map(added).collect()
                }
                _ => run.constrained.iter().filter_map(value).collect(),
            }
        };
        let all = self.runs.iter().map(run_values);
        all.filter(|values| !values.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests;
