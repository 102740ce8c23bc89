//! `sobench merge`: the logs of all shards of a run made one log, and its report, by the code that any report is made by; the rows of a
//! measurement of engines are `measure`'s. Knows no server.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use super::again::{rendered, verdicts};
use super::record::timestamp;
use crate::ending::Ending;
use crate::error::{Error, Result};
use crate::plan::MergePlan;
use crate::runlog::merge::Shards;
use crate::runlog::write::{Access, Sink};
use crate::runlog::{Keep, RunLog, Source};
use crate::try_file::make_folder;
use crate::{mask, measure};

/// Makes one log, and its report.
///
/// # Errors
/// The logs are not those of all shards of one run; the merged log or the report cannot be written.
pub fn command(plan: &MergePlan) -> Result<Ending> {
    if let Some(first) = plan.logs.first().filter(|path| path.is_file())
        && mask::is_rows_file(first)?
    {
        return measure::merged(plan);
    }
    let mut shards = Shards::read(plan.logs.iter().map(|path| Source::file(path)))?;
    for log in shards.logs_mut() {
        verdicts(log)?;
    }
    let notices: Vec<String> = shards.logs().iter().flat_map(|log| log.notices.clone()).collect();
    let mut sink = plan.output.as_deref().map_or_else(|| Ok(Sink::in_memory()), new_log)?;
    let spell = |unix_ns: u64| timestamp(UNIX_EPOCH + Duration::from_nanos(unix_ns));
    if let Err(error) = shards.write(&mut sink, spell) {
        // Half a log would read as one of a run that was killed.
        let _ = plan.output.as_ref().map(std::fs::remove_file);
        return Err(error);
    }
    drop(shards);
    let mut log = RunLog::from_source(sink.source(), Keep::AsSaved)?;
    log.notices.splice(0..0, notices);
    let mut ending = rendered(&log, &plan.rendering)?;
    ending.lines.extend(plan.output.iter().map(|path| format!("run log: {}", path.display())));
    Ok(ending)
}

/// A file for the merged log. What is there stays as it is: it may be a log that cannot be had again.
fn new_log(path: &Path) -> Result<Sink> {
    make_folder(path).and_then(|()| Sink::create_new(path, Access::Usual)).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Error::usage(format!("there is a file of this name already: {}", path.display()))
            .hint("give --output another name, or move the file away"),
        _ => Error::environment(format!("the merged log cannot be written ({error}): {}", path.display()))
            .hint("give --output a file that can be written to"),
    })
}
