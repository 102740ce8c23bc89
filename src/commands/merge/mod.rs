//! `sobench merge`: combines the logs of all shards of a run into one log and prints its report.

pub mod args;

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use self::args::MergeArgs;
use crate::commands::output::CommandOutput;
use crate::commands::report::{rendered, verdicts};
use sobench_core::dates::timestamp;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::ENVIRONMENT;
use sobench_core::output_files::create_parent_folder;
use sobench_core::output_format::OutputFormat;
use sobench_notices::notice::Notice;
use sobench_runlog::merge::Shards;
use sobench_runlog::write::{Access, Sink};
use sobench_runlog::{RunLog, Source};
use sobench_shutdown::Shutdown;

/// Merges the logs and prints the report.
///
/// # Errors
/// The logs do not belong to all shards of one run; the merged log or the report cannot be written.
pub fn run(flags: MergeArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || merge(&flags))
}

fn merge(flags: &MergeArgs) -> Result<CommandOutput> {
    let (merged, reports) = flags.save.merged(&OutputFormat::ALL)?;
    let merged = merged.as_deref();
    let is_lost = |path: &Path| match path.metadata() {
        Ok(file) => file.is_file() && file.len() == 0,
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    let logs = flags.logs.iter();
    let given = logs.filter(|path| !flags.allow_missing || !is_lost(path));
    let mut shards = Shards::read(given.map(|path| Source::file(path)), flags.allow_missing)?;
    for log in shards.logs_mut() {
        verdicts(log, &())?;
    }
    let notices: Vec<Notice> = shards
        .logs()
        .iter()
        .flat_map(|log| log.notices.clone())
        .collect();
    let mut sink = merged.map_or_else(|| Ok(Sink::in_memory()), new_log)?;
    let format_time = |unix_ns: u64| timestamp(UNIX_EPOCH + Duration::from_nanos(unix_ns));
    if let Err(error) = shards.write(&mut sink, format_time) {
        // A partial log would look like the log of a killed run.
        let _ = merged.map(std::fs::remove_file);
        return Err(error);
    }
    drop(shards);
    let mut log = RunLog::from_source(sink.source(), &())?;
    log.notices.splice(0..0, notices);
    let mut output = rendered(&log, &flags.rendering, flags.detail, &reports)?;
    let merged = merged.map(|path| format!("run log: {}", path.display()));
    output.lines.extend(merged);
    if log.is_partial() {
        output.exit_code = ENVIRONMENT;
    }
    Ok(output.or_save_with("--save"))
}

/// Creates the merged log. An existing file is not overwritten, because it may be the only copy of
/// a log.
fn new_log(path: &Path) -> Result<Sink> {
    create_parent_folder(path)
        .and_then(|()| Sink::create_new(path, Access::Default))
        .map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                Error::usage(format!("output file exists already: {}", path.display()))
                    .hint("give --save another name, or move the file")
            }
            _ => Error::environment(format!(
                "cannot write the merged log: {}: {error}",
                path.display()
            ))
            .hint("give --save a writable path"),
        })
}
