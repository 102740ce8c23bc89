//! The flags of the format of a report.

use clap::Args;

use crate::commands::flags::values::{formats, named};
use sobench_core::output_format::OutputFormat;
use sobench_report::junit::JunitPer;
use sobench_report::text::Detail;

/// The format of a report.
#[derive(Args, Clone, Debug)]
pub struct RenderingArgs {
    /// Format of the report
    #[arg(long, value_name = "FORMAT", default_value = "text",
          value_parser = formats(&OutputFormat::ALL))]
    pub format: OutputFormat,
    /// Content of one test in the format junit
    #[arg(long, value_name = "WHAT", default_value = JunitPer::Case.name(),
          value_parser = named(&JunitPer::ALL, JunitPer::name))]
    pub junit_per: JunitPer,
    /// Print charts of the latencies and of the run over time below the text
    #[arg(long)]
    pub plot: bool,
}

/// What happens to existing files.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct ForceArgs {
    /// Overwrite files that sobench did not write
    #[arg(long)]
    pub force: bool,
}

/// How much a text report shows.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct DetailArgs {
    /// Amount of detail in the text report: one screen, or every table
    #[arg(long, value_name = "DETAIL", default_value = Detail::Summary.name(),
          value_parser = named(&Detail::ALL, Detail::name))]
    pub detail: Detail,
}
