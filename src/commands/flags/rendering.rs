//! The form of a run's report.

use clap::Args;

use crate::commands::flags::values::{formats, named};
use sobench_core::output_format::OutputFormat;
use sobench_report::junit::JunitPer;

/// The form of a report.
#[derive(Args, Clone, Debug)]
pub struct RenderingArgs {
    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text",
          value_parser = formats(&OutputFormat::ALL))]
    pub format: OutputFormat,
    /// What one test of junit is
    #[arg(long, value_name = "WHAT", default_value = JunitPer::Case.name(),
          value_parser = named(&JunitPer::ALL, JunitPer::name))]
    pub junit_per: JunitPer,
    /// Draw latencies and the run over its time below the text
    #[arg(long)]
    pub plot: bool,
}
