//! How often the sentences of a comparison claim a difference.
//!
//! Draws comparisons from stored runs of one embedded server (`tests/live/matrix_trial.py runs`
//! makes them): contenders and repeats without replacement, so that all contenders are equal. 5 %
//! of the answers are made invalid at random in all runs, so that correct rates vary. Then the same
//! with a contender of 20 % more TPOT, of 3 % more, and of 5 points fewer correct answers:
//! `cargo run --example matrix_claims -- FOLDER`. Optional: comparisons (1000), contenders (3),
//! repeats (3).

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use sobench::commands::matrix::verdicts::batches::{CellDecoding, Decoding};
use sobench::commands::matrix::verdicts::{CellEvidence, verdicts};
use sobench_core::error::{Error, Result};
use sobench_judge::{Evaluator, JudgeSettings};
use sobench_report::contenders::Load;
use sobench_results::compare::read::run_from_log;
use sobench_results::compare::requests::{Request, RequestView};
use sobench_results::compare::side::{Run, Side};
use sobench_results::metrics::registry::{Metric, latencies, rates};
use sobench_runlog::RunLog;
use sobench_runlog::judge::judge;
use sobench_statistics::bootstrap::{RandomSource as _, SplitMix};

/// Share of answers that are made invalid in every run.
const INVALID: f64 = 0.05;

/// A change of the first contender.
#[derive(Clone, Copy, Debug)]
struct Planted {
    tpot_factor: f64,
    invalid: f64,
}

const PLANTED: [Planted; 4] = [
    Planted {
        tpot_factor: 1.0,
        invalid: 0.0,
    },
    Planted {
        tpot_factor: 1.2,
        invalid: 0.0,
    },
    Planted {
        tpot_factor: 1.03,
        invalid: 0.0,
    },
    Planted {
        tpot_factor: 1.0,
        invalid: 0.05,
    },
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| {
        arguments.get(index).map_or(Ok(default), |text| {
            text.parse()
                .map_err(|_| Error::usage(format!("not a number: {text}")))
        })
    };
    let folder = arguments
        .first()
        .ok_or_else(|| Error::usage("the folder of stored runs is missing"))?;
    let (comparisons, contenders) = (number(1, 1000)?, number(2, 3)? as usize);
    let repeats = number(3, 3)? as usize;
    let stored = stored(Path::new(folder))?;
    print_line(&format!("{} constrained runs", stored.len()))?;
    for planted in PLANTED {
        let mut claimed = 0;
        let mut by_figure: BTreeMap<String, u64> = BTreeMap::new();
        for index in 0..comparisons {
            let mut random = SplitMix::new(1, index);
            let drawn = draw_distinct(&mut random, stored.len(), contenders * repeats);
            let names: Vec<String> = (0..contenders).map(|place| format!("c{place}")).collect();
            let cell = |(place, contender)| {
                let runs = drawn.iter().skip(place * repeats).take(repeats);
                let change = if place == 0 { planted } else { PLANTED[0] };
                let runs = runs.map(|run| changed(&stored[*run], change, &mut random));
                let runs: Vec<Run> = runs.collect();
                CellEvidence {
                    decoding: CellDecoding {
                        constrained: Decoding::mean(runs.iter().map(decoding)),
                        control: None,
                    },
                    dataset: "json",
                    contender,
                    load: Load::AsGiven,
                    output_len: 48,
                    side: Side {
                        runs,
                        ..Side::default()
                    },
                    findings: Vec::new(),
                    compile_ms: Vec::new(),
                    invalid_reason: None,
                    failure: None,
                }
            };
            let named = names.iter().map(String::as_str).enumerate();
            let cells: Vec<CellEvidence<'_>> = named.map(cell).collect();
            let found = verdicts(&cells);
            let mut figures: Vec<String> = found
                .claims()
                .filter_map(|claim| Some(claim.finding.figure()?.to_string()))
                .collect();
            claimed += u64::from(!figures.is_empty());
            figures.sort();
            figures.dedup();
            figures
                .into_iter()
                .for_each(|figure| *by_figure.entry(figure).or_default() += 1);
        }
        let share = 100.0 * claimed as f64 / comparisons as f64;
        let line = format!(
            "{planted:?}: {claimed} of {comparisons} claim a difference ({share:.1} %); by figure {by_figure:?}"
        );
        print_line(&line)?;
    }
    Ok(())
}

fn decoding(run: &Run) -> Option<Decoding> {
    let (requests, seconds) = (run.requests.as_ref()?, run.duration_s?);
    let tokens = requests
        .iter()
        .filter_map(|request| request.output_tokens());
    let tokens_per_s = tokens.sum::<u64>() as f64 / seconds;
    Decoding::new(requests, seconds, Some(tokens_per_s))
}

/// A run with planted changes.
fn changed(run: &Run, planted: Planted, random: &mut SplitMix) -> Run {
    let change = |request: RequestView<'_>| {
        let value = |metric: &'static Metric, factor: f64| {
            (metric, request.value(metric).map(|value| factor * value))
        };
        let mut changed = Request {
            case: request.case(),
            arm: request.arm(),
            answered: request.answered(),
            sent_s: request.sent_s(),
            output_tokens: request.output_tokens(),
            ..Request::default()
        };
        let times = [
            value(&latencies::TTFT, 1.0),
            value(&latencies::TPOT, planted.tpot_factor),
            value(&latencies::E2EL, 1.0),
        ];
        for (metric, value) in times {
            changed.values.set_value(metric, value);
        }
        let is_correct = request.hit(&rates::CORRECT_RATE);
        let is_broken = random.unit() < INVALID + planted.invalid;
        let is_correct = is_correct.map(|is_correct| is_correct && !is_broken);
        changed.values.set_hit(&rates::CORRECT_RATE, is_correct);
        changed
    };
    let requests = run.requests.iter().flat_map(|requests| requests.iter());
    Run {
        requests: Some(requests.map(change).collect()),
        ..run.clone()
    }
}

fn stored(folder: &Path) -> Result<Vec<Run>> {
    let cannot =
        |error: std::io::Error| Error::environment(format!("{}: {error}", folder.display()));
    let mut runs = Vec::new();
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if !path.to_string_lossy().contains("-constrained-") {
            continue;
        }
        let mut log = RunLog::read(&path)?;
        judge(&mut log, &mut evaluator, None, 1, &())?;
        runs.push(run_from_log("stored", &log)?);
    }
    Ok(runs)
}

fn print_line(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::environment(format!("cannot write to stdout: {error}")))
}

/// Distinct indices below `count`, in random order (Fisher and Yates).
///
/// # Panics
/// `wanted` is above `count`.
fn draw_distinct(random: &mut SplitMix, count: usize, wanted: usize) -> Vec<usize> {
    assert!(wanted <= count, "there are {count}, {wanted} are needed");
    let mut indices: Vec<usize> = (0..count).collect();
    for place in 0..wanted {
        let other = place + random.below(count - place);
        indices.swap(place, other);
    }
    indices.truncate(wanted);
    indices
}
