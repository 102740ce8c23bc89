//! `sobench-tools merge`: merges the rows of all shards of `mask`, and reports on the whole.

use clap::Args;

use crate::mask::args::FORMATS;
use crate::mask::measure;
use sobench::commands::flags::paths::InputPath;
use sobench::commands::flags::rendering::SaveArgs;
use sobench::commands::flags::values::formats;
use sobench::commands::output::CommandOutput;
use sobench_core::error::Result;
use sobench_core::output_format::OutputFormat;
use sobench_shutdown::Shutdown;

/// Flags of `sobench-tools merge`.
#[derive(Args, Clone, Debug)]
pub struct MergeArgs {
    /// Rows files of all shards of `sobench-tools mask`, in any order
    #[arg(value_name = "SHARD.JSONL", required = true)]
    rows: Vec<InputPath>,
    #[command(flatten)]
    save: SaveArgs,
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = formats(&FORMATS))]
    format: OutputFormat,
}

/// Merges the rows and prints the report.
///
/// # Errors
/// The files are not all shards of one measurement, or a file cannot be written.
pub fn run(flags: MergeArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || {
        let formats = [&FORMATS[..], &[OutputFormat::Jsonl]].concat();
        let (merged, reports) = flags.save.merged(&formats)?;
        measure::report_merged(&flags.rows, merged.as_deref(), flags.format, &reports)
    })
}
