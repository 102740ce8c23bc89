//! Whether the statements on accuracy keep their promises, in simulated runs with planted effects:
//! intervals cover them, rules give false alarms at their level, planned sizes have their power.
//!
//! `cargo run --example accuracy_simulation`. Optional: runs (1000), seed (1). Exit code 1 if a
//! figure is outside its limits.

#![allow(clippy::disallowed_methods)]

use std::io::Write as _;
use std::process::ExitCode;

use sobench_core::error::{Error, Result};
use sobench_render::{Document, Table, text};

#[path = "../crates/results/tests/it/accuracy_simulation.rs"]
mod simulation;

use simulation::simulate;

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default: u64| {
        arguments.get(index).map_or(Ok(default), |text| {
            text.parse()
                .map_err(|_| Error::usage(format!("not a number: {text}")))
        })
    };
    let (runs, seed) = (number(0, 1000)? as usize, number(1, 1)?);
    let checks = simulate(runs, seed);
    let missed = checks.iter().filter(|check| !check.is_met(0.0)).count();
    let rows = checks.iter().map(|check| {
        [
            check.what.clone(),
            format!("{:.1}", check.percent),
            format!("{:.1} to {:.1}", check.least, check.most),
            if check.is_met(0.0) { "" } else { "OUTSIDE" }.to_owned(),
        ]
    });
    let mut page = Document::new(format!("{runs} simulated runs of each design"));
    page.table(Table::new(["figure", "% of runs", "limits", ""], 1).with_rows(rows));
    page.paragraph(format!(
        "{missed} of {} figures outside their limits",
        checks.len()
    ));
    let printed = std::io::stdout().write_all(text::render(&page).as_bytes());
    printed.map_err(|error| Error::environment(format!("cannot write to stdout: {error}")))?;
    Ok(if missed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
