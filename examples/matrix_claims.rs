//! How often the sentences of a comparison claim a difference.
//!
//! Draws comparisons from stored runs of one embedded server (`tests/live/matrix_trial.py runs`
//! makes them): contenders and repeats without replacement, so that all contenders are equal. 5 %
//! of the answers are made invalid at random in all runs, so that correct rates vary. Then the same
//! with a contender of 20 % more TPOT, and one of 5 points fewer correct answers:
//! `cargo run --example matrix_claims -- FOLDER`. Optional: comparisons (1000), contenders (3),
//! repeats (3).

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::Range;
use std::path::Path;

use sobench::commands::matrix::report::Load;
use sobench::commands::matrix::report::verdicts::Cause;
use sobench::commands::matrix::verdicts::batches::{CellDecoding, Decoding};
use sobench::commands::matrix::verdicts::{
    CellEvidence, RequestSample, RunEvidence, request_samples, verdicts,
};
use sobench_core::error::{Error, Result};
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_results::metrics::registry::{latencies, rates};
use sobench_runlog::RunLog;
use sobench_runlog::judge::judge;
use sobench_statistics::bootstrap::{RandomSource as _, SplitMix, draw_distinct};

/// Share of answers that are made invalid in every run.
const INVALID: f64 = 0.05;

/// A change of the first contender.
#[derive(Clone, Copy, Debug)]
struct Planted {
    tpot_factor: f64,
    invalid: f64,
}

const PLANTED: [Planted; 3] = [
    Planted {
        tpot_factor: 1.0,
        invalid: 0.0,
    },
    Planted {
        tpot_factor: 1.2,
        invalid: 0.0,
    },
    Planted {
        tpot_factor: 1.0,
        invalid: 0.05,
    },
];

struct StoredRun {
    requests: Vec<RequestSample>,
    tokens: f64,
    seconds: f64,
}

impl StoredRun {
    fn decoding(&self) -> Option<Decoding> {
        Decoding::new(
            &self.requests,
            self.seconds,
            Some(self.tokens / self.seconds),
        )
    }
}

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
    let [constrained, control] =
        ["constrained", "control"].map(|arm| stored(Path::new(folder), arm));
    let (constrained, control) = (constrained?, control?);
    let found = format!(
        "{} constrained, {} control runs",
        constrained.len(),
        control.len()
    );
    print_line(&found)?;
    for planted in PLANTED {
        let mut claimed = 0;
        let mut by_figure: BTreeMap<String, u64> = BTreeMap::new();
        for index in 0..comparisons {
            let mut random = SplitMix::new(1, index);
            let drawn = draw_distinct(&mut random, constrained.len(), contenders * repeats);
            let controls = draw_distinct(&mut random, control.len(), contenders * repeats);
            let runs: Vec<Vec<RequestSample>> = drawn
                .iter()
                .enumerate()
                .map(|(place, run)| {
                    let change = if place < repeats { planted } else { PLANTED[0] };
                    changed(&constrained[*run].requests, change, &mut random)
                })
                .collect();
            let run_evidence = |place: usize| {
                let run = &constrained[drawn[place]];
                RunEvidence {
                    constrained: &runs[place],
                    control: Some(&control[controls[place]].requests),
                    output_throughput: Some(run.tokens / run.seconds),
                    compile_ms: None,
                    distrusted: Vec::new(),
                }
            };
            let decoding = |places: Range<usize>| {
                let mean = |runs: &[StoredRun], drawn: &[usize]| {
                    let places = places.clone();
                    Decoding::mean(places.map(|place| runs[drawn[place]].decoding()))
                };
                CellDecoding {
                    constrained: mean(&constrained, &drawn),
                    control: mean(&control, &controls),
                }
            };
            let names: Vec<String> = (0..contenders).map(|place| format!("c{place}")).collect();
            let cells: Vec<CellEvidence<'_>> = names
                .iter()
                .enumerate()
                .map(|(place, contender)| CellEvidence {
                    follows_rate: false,
                    decoding: decoding(place * repeats..(place + 1) * repeats),
                    dataset: "json",
                    contender,
                    load: Load::AsGiven,
                    output_len: 48,
                    runs: (place * repeats..(place + 1) * repeats)
                        .map(run_evidence)
                        .collect(),
                    invalid_reason: None,
                    failure: None,
                })
                .collect();
            let found = verdicts(&cells);
            let mut figures: Vec<String> = found
                .claims()
                .map(|claim| format!("{:?}", claim.finding.figure()))
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

/// A run with planted changes. Requests change together with their times of the whole answer.
fn changed(
    requests: &[RequestSample],
    planted: Planted,
    random: &mut SplitMix,
) -> Vec<RequestSample> {
    let change = |request: &RequestSample| {
        let mut request = request.clone();
        if let Some(tpot_ms) = request.values.value(&latencies::TPOT) {
            let slower = tpot_ms * planted.tpot_factor;
            request.values.set_value(&latencies::TPOT, Some(slower));
        }
        if random.unit() < INVALID + planted.invalid
            && request.values.hit(&rates::CORRECT_RATE) == Some(true)
        {
            request.values.set_hit(&rates::CORRECT_RATE, Some(false));
            request.judged = Some(Err(Cause::Invalid));
            request.values.set_hit(&rates::COMPLIANCE, Some(false));
            request.copy = random.below(usize::MAX) as u64;
        }
        request
    };
    requests.iter().map(change).collect()
}

fn stored(folder: &Path, arm: &str) -> Result<Vec<StoredRun>> {
    let cannot =
        |error: std::io::Error| Error::environment(format!("{}: {error}", folder.display()));
    let mut runs = Vec::new();
    let mut evaluator = Evaluator::new(EvaluateOptions::default());
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        if !path.to_string_lossy().contains(&format!("-{arm}-")) {
            continue;
        }
        let mut log = RunLog::read(&path)?;
        judge(&mut log, &mut evaluator, None, 1, &())?;
        let samples = log.requests.samples();
        let known = log.record.known_constraints.iter().cloned().collect();
        let ends = samples
            .iter()
            .filter_map(|sample| sample.request_times().end_ns);
        runs.push(StoredRun {
            requests: request_samples(&samples, &log.record.settings.metrics, &known),
            tokens: samples
                .iter()
                .map(|sample| sample.request_times().chunks as f64)
                .sum(),
            seconds: ends.max().unwrap_or(1) as f64 / 1e9,
        });
    }
    Ok(runs)
}

fn print_line(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::environment(format!("cannot write to stdout: {error}")))
}
