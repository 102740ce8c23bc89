//! The flags of `sobench report`: clap types only.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use crate::report::format::Format;

/// Which run log is rendered, and how.
#[derive(Args, Clone, Debug)]
pub struct ReportArgs {
    /// Run log, as a run writes it (`--run-log`)
    #[arg(value_name = "RUN.JSONL")]
    pub log: PathBuf,
    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = Format::Text.name(),
          value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name))
              .map(|name| Format::ALL.into_iter().find(|it| it.name() == name).expect("the parser let only listed names through")))]
    pub format: Format,
}
