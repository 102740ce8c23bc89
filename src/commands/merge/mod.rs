//! `sobench merge`: the logs of all shards of a run made one log, and its report, by the code that
//! any report is made by; the rows of a measurement of engines are `measure`'s. Knows no server.

pub mod args;

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use self::args::MergeArgs;
use crate::commands::mask::measure;
use crate::commands::output::CommandOutput;
use crate::commands::report::{rendered, verdicts};
use sobench_core::dates::timestamp;
use sobench_core::error::{Error, Result};
use sobench_core::output_files::make_folder;
use sobench_mask as mask;
use sobench_notices::notice::Notice;
use sobench_results::runlog::merge::Shards;
use sobench_results::runlog::write::{Access, Sink};
use sobench_results::runlog::{Keep, RunLog, Source};
use sobench_shutdown::Shutdown;

/// Makes one log, and its report.
///
/// # Errors
/// The logs are not those of all shards of one run; the merged log or the report cannot be written.
pub fn run(flags: MergeArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.or_abandon(move || merge(&flags))
}

fn merge(flags: &MergeArgs) -> Result<CommandOutput> {
    if let Some(first) = flags.logs.first().filter(|path| path.is_file())
        && mask::is_rows_file(first)?
    {
        return measure::merged(
            &flags.logs,
            flags.output.as_deref(),
            &flags.rendering,
            flags.report.as_deref(),
        );
    }
    let mut shards = Shards::read(flags.logs.iter().map(|path| Source::file(path)))?;
    for log in shards.logs_mut() {
        verdicts(log)?;
    }
    let notices: Vec<Notice> = shards
        .logs()
        .iter()
        .flat_map(|log| log.notices.clone())
        .collect();
    let mut sink = flags
        .output
        .as_deref()
        .map_or_else(|| Ok(Sink::in_memory()), new_log)?;
    let spell = |unix_ns: u64| timestamp(UNIX_EPOCH + Duration::from_nanos(unix_ns));
    if let Err(error) = shards.write(&mut sink, spell) {
        // Half a log would read as one of a run that was killed.
        let _ = flags.output.as_ref().map(std::fs::remove_file);
        return Err(error);
    }
    drop(shards);
    let mut log = RunLog::from_source(sink.source(), Keep::AsSaved)?;
    log.notices.splice(0..0, notices);
    let mut output = rendered(&log, &flags.rendering, flags.report.as_deref())?;
    output.lines.extend(
        flags
            .output
            .iter()
            .map(|path| format!("run log: {}", path.display())),
    );
    Ok(output.or_save_with("--report"))
}

/// A file for the merged log. What is there stays as it is: it may be a log that cannot be had
/// again.
fn new_log(path: &Path) -> Result<Sink> {
    make_folder(path)
        .and_then(|()| Sink::create_new(path, Access::Usual))
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Error::usage(format!(
                "there is a file of this name already: {}",
                path.display()
            ))
            .hint("give --output another name, or move the file away"),
            _ => Error::environment(format!(
                "the merged log cannot be written ({error}): {}",
                path.display()
            ))
            .hint("give --output a file that can be written to"),
        })
}
