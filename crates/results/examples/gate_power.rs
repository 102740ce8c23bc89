//! How often gates fail, are undecided and pass on simulated runs, equal ones and degraded ones.
//! Prints the table of `fixtures/baselines/gate-power.csv`, in some minutes: `cargo run --release -p
//! sobench-results --example gate_power > fixtures/baselines/gate-power.csv`.

#![allow(clippy::disallowed_methods)]

#[path = "../tests/it/gate/simulation.rs"]
mod simulation;

use std::io::Write as _;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use simulation::{PAIRS, SETTINGS};
use sobench_core::error::{Error, Result};
use sobench_results::compare::gate::GateVerdict;

fn main() -> Result<()> {
    print_line(
        "rules,runs,requests,server,validity_pp,slower_percent,pairs,failed,undecided,passed",
    )?;
    for setting in SETTINGS {
        let verdicts: Vec<GateVerdict> = (0..PAIRS)
            .into_par_iter()
            .map(|pair| setting.verdict(pair))
            .collect();
        let [failed, undecided, passed] = [
            GateVerdict::Failed,
            GateVerdict::Undecided,
            GateVerdict::Passed,
        ]
        .map(|verdict| verdicts.iter().filter(|found| **found == verdict).count());
        print_line(&format!(
            "{}{PAIRS},{failed},{undecided},{passed}",
            setting.start_of_line()
        ))?;
    }
    Ok(())
}

fn print_line(line: &str) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|error| Error::environment(format!("cannot write to stdout: {error}")))
}
