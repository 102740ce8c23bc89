//! The flags of `sobench report`, turned into what is rendered and how. Opens no file.

use std::path::PathBuf;

use crate::cli::ReportArgs;
use crate::report::format::Format;
use crate::report::junit::JunitPer;

/// A run log and the form of its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPlan {
    pub log: PathBuf,
    pub format: Format,
    /// Where it goes; `None` is stdout.
    pub output: Option<PathBuf>,
    pub junit_per: JunitPer,
    /// Whether the text has drawings at its end.
    pub plot: bool,
}

/// There is nothing in these flags that could be wrong without looking at files.
pub fn report_plan(flags: &ReportArgs) -> ReportPlan {
    ReportPlan {
        log: flags.log.clone(),
        format: flags.format,
        output: flags.output.clone(),
        junit_per: flags.junit_per,
        plot: flags.plot,
    }
}
