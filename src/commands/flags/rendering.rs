//! The form of a run's report.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::report::format::Format;
use crate::report::junit::JunitPer;

/// The form of a report.
#[derive(Args, Clone, Debug)]
pub struct RenderingArgs {
    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = Format::Text.name(),
          value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name))
              .map(|name| Format::ALL.into_iter().find(|it| it.name() == name).expect("the parser let only listed names through")))]
    pub format: Format,
    /// What one test of junit is
    #[arg(long, value_name = "WHAT", default_value = JunitPer::Case.name(),
          value_parser = PossibleValuesParser::new(JunitPer::ALL.map(JunitPer::name))
              .map(|name| JunitPer::ALL.into_iter().find(|it| it.name() == name).expect("the parser let only listed names through")))]
    pub junit_per: JunitPer,
    /// Draw latencies and the run over its time below the text
    #[arg(long)]
    pub plot: bool,
}
