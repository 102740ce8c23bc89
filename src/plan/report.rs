//! The flags of `sobench report` and of `sobench merge`, turned into what is rendered and how. Opens no file.

use std::path::PathBuf;

use crate::cli::{MergeArgs, RenderingArgs, ReportArgs};
use crate::report::format::Format;
use crate::report::junit::JunitPer;

/// A run log and the form of its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportPlan {
    pub log: PathBuf,
    pub rendering: Rendering,
}

/// The logs of all shards, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergePlan {
    /// Of runs, or of measurements of engines.
    pub logs: Vec<PathBuf>,
    /// Where the merged log goes; `None` keeps none.
    pub output: Option<PathBuf>,
    pub rendering: Rendering,
}

/// The form of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    pub format: Format,
    /// Where it goes; `None` is stdout.
    pub output: Option<PathBuf>,
    pub junit_per: JunitPer,
    /// Whether the text has drawings at its end.
    pub plot: bool,
}

/// There is nothing in these flags that could be wrong without looking at files.
pub fn report_plan(flags: &ReportArgs) -> ReportPlan {
    ReportPlan { log: flags.log.clone(), rendering: rendering(&flags.rendering, flags.output.as_ref()) }
}

/// As [`report_plan`].
pub fn merge_plan(flags: &MergeArgs) -> MergePlan {
    let rendering = rendering(&flags.rendering, flags.report.as_ref());
    MergePlan { logs: flags.logs.clone(), output: flags.output.clone(), rendering }
}

fn rendering(flags: &RenderingArgs, output: Option<&PathBuf>) -> Rendering {
    Rendering { format: flags.format, output: output.cloned(), junit_per: flags.junit_per, plot: flags.plot }
}
