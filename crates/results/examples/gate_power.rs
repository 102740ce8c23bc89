//! Prints the table of `fixtures/baselines/gate-power.csv`: how often the default gate fails on
//! simulated runs, equal ones and degraded ones. Takes some minutes: `cargo run --release -p
//! sobench-results --example gate_power > fixtures/baselines/gate-power.csv`.

#![allow(clippy::disallowed_methods)]

#[path = "../tests/it/gate/simulation.rs"]
mod simulation;

use std::io::Write as _;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

use simulation::{PLANTED, Setting, broken};

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "validity_pp,latency_percent,requests,runs,pairs,called"
    )?;
    for (requests, runs) in [(200, 1), (1000, 1), (200, 5)] {
        for planted in PLANTED {
            let nothing = planted == PLANTED[0];
            let pairs: u64 = if nothing { 1000 } else { 200 };
            let setting = Setting {
                planted,
                requests,
                runs,
            };
            let called = (0..pairs)
                .into_par_iter()
                .filter(|pair| !broken(setting, *pair).is_empty())
                .count();
            let (validity, latency) = (planted.validity_pp, planted.latency_percent);
            writeln!(
                out,
                "{validity},{latency},{requests},{runs},{pairs},{called}"
            )?;
            out.flush()?;
        }
    }
    Ok(())
}
