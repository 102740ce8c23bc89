//! The commands, one folder each, with their flags, options and output.

pub mod accept;
pub mod bench;
pub mod calibrate;
pub mod compare;
pub mod completions;
pub mod datasets;
pub mod explain;

pub mod flags;
mod large_output;
pub mod man;
pub mod matrix;
pub mod merge;
pub mod output;
mod parquet;
pub mod preflight;
pub mod report;
mod run_cache;
pub mod runs;
pub mod score;
pub mod serve;
pub mod wire;

#[cfg(test)]
mod every_metric_tests;

use self::bench::args::BenchArgs;
use self::matrix::options::Benchmark;
use self::output::CommandOutput;
use sobench_core::error::Result;
use sobench_shutdown::Shutdown;

/// `sobench [bench]`: one run, a comparison of several, or a dry run. `sobench matrix` is always a
/// comparison.
///
/// # Errors
/// A wrong flag, or a failed run.
pub fn bench(flags: &BenchArgs, is_matrix: bool, shutdown: &Shutdown) -> Result<CommandOutput> {
    let output = match Benchmark::new(flags, is_matrix)? {
        Benchmark::Run(plan) => Ok(bench::run::run(&plan, shutdown)?.into()),
        Benchmark::Matrix(plan) => matrix::command(&plan, shutdown),
        Benchmark::DryRun(plan) => matrix::dry_run::command(&plan),
    };
    Ok(output?.or_save_with("--save"))
}
