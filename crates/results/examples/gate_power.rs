//! How often the default gate fails.
//!
//! Without arguments, on simulated runs, equal ones and degraded ones. Prints the table of
//! `fixtures/baselines/gate-power.csv`, in some minutes: `cargo run --release -p sobench-results
//! --example gate_power > fixtures/baselines/gate-power.csv`.
//!
//! With a folder of stored runs (`tests/live/gate_trial.py` makes it), on sides that are drawn from
//! them without replacement: each folder in it has runs of equal servers in `a`, and of a slower
//! server in `b`. Optional: runs a side (3), pairs (10000).

#![allow(clippy::disallowed_methods)]

#[path = "../tests/it/gate/simulation.rs"]
mod simulation;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use simulation::{PLANTED, SIZES, Setting, broken};
use sobench_core::error::{Error, Result};
use sobench_results::compare::gate::{
    GateSummary, GateVerdict, Ruling, evaluate_rules, interval_level,
};
use sobench_results::compare::measure::Resampling;
use sobench_results::compare::rules::ChangeRule;
use sobench_results::compare::run_spread::RunSpread;
use sobench_results::compare::side::{Run, Side};
use sobench_results::compare::{Gate, files};
use sobench_statistics::bootstrap::{SplitMix, draw_distinct, resamples_for};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| {
        arguments.get(index).map_or(Ok(default), |text| {
            text.parse()
                .map_err(|_| Error::usage(format!("not a number: {text}")))
        })
    };
    match arguments.first() {
        Some(folder) => stored(
            Path::new(folder),
            number(1, 3)? as usize,
            number(2, 10_000)?,
        ),
        None => simulated(),
    }
}

fn simulated() -> Result<()> {
    print_line("validity_pp,latency_percent,requests,runs,all_valid,pairs,called")?;
    for (requests, runs, all_valid) in SIZES {
        for planted in PLANTED {
            let nothing = planted == PLANTED[0];
            let pairs: u64 = if nothing { 1000 } else { 200 };
            let setting = Setting {
                planted,
                requests,
                runs,
                all_valid,
            };
            let called = (0..pairs)
                .into_par_iter()
                .filter(|pair| !broken(setting, *pair).is_empty())
                .count();
            let (validity, latency) = (planted.validity_pp, planted.latency_percent);
            let all_valid = u8::from(all_valid);
            print_line(&format!(
                "{validity},{latency},{requests},{runs},{all_valid},{pairs},{called}"
            ))?;
        }
    }
    Ok(())
}

/// What gates said about pairs of sides.
#[derive(Default)]
struct Tally {
    pairs: u64,
    failed: u64,
    undecided: u64,
    broken: BTreeMap<String, u64>,
    undecided_rules: BTreeMap<String, u64>,
}

fn stored(folder: &Path, runs: usize, pairs: u64) -> Result<()> {
    let gate = Gate {
        changes: ChangeRule::defaults()?,
        ..Gate::default()
    };
    let mut all_equal: Vec<Vec<Run>> = Vec::new();
    for load in ["quiet", "busy"] {
        let read = |name: &str| -> Result<Vec<Run>> {
            let path = folder.join(load).join(name);
            let side = files::read_side(&path.to_string_lossy(), |_| Ok(()), &())?;
            let distrusted = side.runs.iter().filter(|run| !run.distrusted.is_empty());
            print_line(&format!(
                "{load}/{name}: {} runs, {} with distrusted metrics",
                side.runs.len(),
                distrusted.count()
            ))?;
            Ok(side.runs)
        };
        let (equal, slower) = (read("a")?, read("b")?);
        let slow = tally(&equal, Some(&slower), runs, pairs / 10, &gate);
        print_tally(&format!("{load}, second side slower"), &slow)?;
        all_equal.push(equal);
    }
    // Half of the pairs of equal sides from each load.
    for (equal, load) in all_equal.iter().zip(["quiet", "busy"]) {
        let same = tally(equal, None, runs, pairs / 2, &gate);
        print_tally(&format!("{load}, equal sides"), &same)?;
    }
    Ok(())
}

/// Compares pairs of sides: the first from `a`, the second from `b`, or from other runs of `a`.
fn tally(a: &[Run], b: Option<&[Run]>, runs: usize, pairs: u64, gate: &Gate) -> Tally {
    let level = interval_level(gate.changes.len());
    let pair = |number: u64| {
        let mut random = SplitMix::new(1, number);
        let mut drawn = draw_distinct(&mut random, a.len(), 2 * runs);
        let second: Vec<&Run> = match b {
            None => drawn
                .split_off(runs)
                .iter()
                .map(|index| &a[*index])
                .collect(),
            Some(b) => draw_distinct(&mut random, b.len(), runs)
                .iter()
                .map(|index| &b[*index])
                .collect(),
        };
        let first: Vec<&Run> = drawn[..runs].iter().map(|index| &a[*index]).collect();
        let side = |name: &str, runs: Vec<&Run>| Side {
            name: name.to_owned(),
            runs: runs.into_iter().cloned().collect(),
        };
        let resampling = Resampling {
            resamples: resamples_for(level),
            seed: number,
        };
        let changes = evaluate_rules(
            &side("a", first),
            &side("b", second),
            &gate.changes,
            level,
            &RunSpread::default(),
            resampling,
        );
        let rulings = changes.iter().map(|change| change.ruling).collect();
        let mut tally = Tally {
            pairs: 1,
            ..Tally::default()
        };
        match GateSummary::new(gate, &[rulings], Vec::new()).verdict {
            GateVerdict::Failed => tally.failed = 1,
            GateVerdict::Undecided => tally.undecided = 1,
            GateVerdict::Passed => {}
        }
        for change in changes {
            let rule = change.rule.to_string();
            match change.ruling {
                Ruling::Broken | Ruling::Absent => *tally.broken.entry(rule).or_default() += 1,
                Ruling::Kept => {}
                _ => *tally.undecided_rules.entry(rule).or_default() += 1,
            }
        }
        tally
    };
    (0..pairs)
        .into_par_iter()
        .map(pair)
        .reduce(Tally::default, Tally::plus)
}

impl Tally {
    fn plus(mut self, other: Self) -> Self {
        self.pairs += other.pairs;
        self.failed += other.failed;
        self.undecided += other.undecided;
        for (rule, count) in other.broken {
            *self.broken.entry(rule).or_default() += count;
        }
        for (rule, count) in other.undecided_rules {
            *self.undecided_rules.entry(rule).or_default() += count;
        }
        self
    }
}

fn print_tally(name: &str, tally: &Tally) -> Result<()> {
    let share = |count: u64| 100.0 * count as f64 / tally.pairs as f64;
    print_line(&format!(
        "{name}: {} pairs, {} failed ({:.2} %), {} undecided ({:.2} %); broken rules {:?}; undecided rules {:?}",
        tally.pairs,
        tally.failed,
        share(tally.failed),
        tally.undecided,
        share(tally.undecided),
        tally.broken,
        tally.undecided_rules
    ))
}

fn print_line(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::environment(format!("cannot write to stdout: {error}")))
}
