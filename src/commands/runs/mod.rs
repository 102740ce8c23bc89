//! `sobench runs`: lists and removes the run logs in the user's cache.

use std::fs;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;

use super::output::{CommandOutput, pretty};
use super::report::verdicts;
use super::run_cache::{CacheLimit, CachedLog, cached, over_limit};
use crate::commands::flags::values::{Described, described};
use sobench_core::dates::iso_8601;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_core::printable::{NAME_CHARS, printable};
use sobench_plan::record::RunRecord;
use sobench_render::{Document, Table, text};
use sobench_report::from_log::report;
use sobench_runlog::RunLog;
use sobench_shutdown::Shutdown;

/// The flags of `sobench runs`, which lists them without a command.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct RunsArgs {
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    #[command(flatten)]
    pub list: ListArgs,
}

/// What to do with the run logs in the cache.
#[derive(Clone, Debug, Subcommand)]
pub enum RunsCommand {
    /// List the run logs in the cache, newest first
    List(ListArgs),
    /// Remove old run logs from the cache
    Clean(CleanArgs),
}

/// The flags of `sobench runs list`.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = described(&FORMATS))]
    pub format: OutputFormat,
}

/// The flags of `sobench runs clean`.
#[derive(Args, Clone, Debug)]
pub struct CleanArgs {
    /// Number of newest run logs to keep
    #[arg(long, value_name = "COUNT", default_value_t = CacheLimit::DEFAULT.logs)]
    pub keep: usize,
    /// Total size of the run logs to keep, in MiB
    #[arg(long, value_name = "MIB", default_value_t = CacheLimit::DEFAULT.bytes >> 20)]
    pub keep_mib: u64,
    /// List the run logs that would be removed, and remove nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The formats of the list.
const FORMATS: [Described<OutputFormat>; 2] = [
    Described(OutputFormat::Text, "text", "A table"),
    Described(OutputFormat::Json, "json", "One JSON value"),
];

/// Run logs in the table.
const SHOWN: usize = 20;

/// The widest name of a file, of a server, and the widest verdict; longer ones wrap.
const FILE_CHARS: usize = 46;
const SERVER_CHARS: usize = 22;
const VERDICT_CHARS: usize = 34;

/// The largest log that is judged for its verdict.
const MAX_JUDGED_BYTES: u64 = 32 << 20;

/// The version of the JSON. It is raised when a key changes its meaning or is removed.
const FORMAT_VERSION: u32 = 1;

/// A row of the list.
#[derive(Debug, Serialize)]
struct ListedRun {
    path: String,
    bytes: u64,
    /// ISO 8601 in UTC; `None` for a file that is not a readable run log.
    started: Option<String>,
    model: Option<String>,
    /// The engine of the embedded server, or the address of another one.
    server: Option<String>,
    dataset: Option<String>,
    requests: Option<usize>,
    /// Whether the constraint was enforced, as the report says it; `None` for a large or unreadable
    /// log.
    verdict: Option<String>,
    #[serde(skip)]
    age: Duration,
}

/// Lists or removes run logs.
///
/// # Errors
/// The cache folder cannot be read, or a log cannot be removed.
pub fn run(flags: RunsArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || match flags.command {
        Some(RunsCommand::List(flags)) => list(flags.format),
        Some(RunsCommand::Clean(flags)) => clean(&flags),
        None => list(flags.list.format),
    })
}

fn list(format: OutputFormat) -> Result<CommandOutput> {
    let (folder, logs) = cached()?;
    let total_bytes = logs.iter().map(|log| log.bytes).sum();
    let shown = match format {
        OutputFormat::Json => logs.len(),
        _ => SHOWN,
    };
    let runs: Vec<ListedRun> = logs.iter().take(shown).map(listed).collect();
    let stdout = match format {
        OutputFormat::Json => pretty(&json!({
            "format": "sobench-runs",
            "format_version": FORMAT_VERSION,
            "folder": folder.display().to_string(),
            "runs": runs,
        })),
        _ => text::render(&page(&folder, &runs, logs.len(), total_bytes)),
    };
    Ok(CommandOutput {
        stdout,
        ..CommandOutput::default()
    })
}

fn listed(log: &CachedLog) -> ListedRun {
    let record: Option<RunRecord> = RunLog::read_record(&log.path).ok();
    let record = record.as_ref();
    ListedRun {
        path: log.path.display().to_string(),
        bytes: log.bytes,
        started: record
            .and_then(|record| iso_8601(&record.date()))
            .map(|date| format!("{date}Z")),
        model: record.map(|record| record.server.model_id.clone()),
        server: record.map(|record| match &record.server.engine {
            Some(engine) => engine.name.clone(),
            None => record.server.base_url.clone(),
        }),
        dataset: record.map(|record| record.settings.dataset.source.name.clone()),
        requests: record.map(RunRecord::own_requests),
        verdict: record.and_then(|_| verdict(log).ok()?),
        age: sobench_client::clock::since(log.modified),
    }
}

/// The answer to the first question of the report.
fn verdict(log: &CachedLog) -> Result<Option<String>> {
    if log.bytes > MAX_JUDGED_BYTES {
        return Ok(None);
    }
    let mut log = RunLog::read_with(&log.path, &())?;
    verdicts(&mut log, &())?;
    Ok(Some(report(&log)?.enforced().text))
}

fn page(folder: &Path, runs: &[ListedRun], all: usize, total_bytes: u64) -> Document {
    let mut document = Document::new("sobench: run logs in the cache");
    let mut table = Table::new(["age", "file", "server", "requests", "enforced?"], 3)
        .left_aligned(4)
        .wrapped(1, FILE_CHARS)
        .wrapped(2, SERVER_CHARS)
        .wrapped(4, VERDICT_CHARS);
    for run in runs {
        let name = Path::new(&run.path).file_name().unwrap_or_default();
        table.row([
            age(run.age),
            printable(&name.to_string_lossy(), NAME_CHARS),
            printable(run.server.as_deref().unwrap_or_default(), NAME_CHARS),
            run.requests
                .map_or_else(|| "unknown".to_owned(), |count| count.to_string()),
            run.verdict.clone().unwrap_or_else(|| "unknown".to_owned()),
        ]);
    }
    document.titled_table(
        "Run logs, newest first",
        (!runs.is_empty()).then_some(table),
    );
    let CacheLimit { logs, bytes } = CacheLimit::DEFAULT;
    document.facts([
        ("shown", format!("{} of {all} run logs", runs.len())),
        (
            "folder",
            format!("{} ({})", folder.display(), size(total_bytes)),
        ),
        (
            "limit",
            format!(
                "every run removes all but the newest {logs} logs and {}",
                size(bytes)
            ),
        ),
        (
            "use",
            "sobench report --last; sobench compare --last 2".to_owned(),
        ),
    ]);
    document
}

/// An age in its largest unit.
fn age(age: Duration) -> String {
    match age.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min", seconds / 60),
        seconds @ 3600..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} d", seconds / 86_400),
    }
}

fn clean(flags: &CleanArgs) -> Result<CommandOutput> {
    let limit = CacheLimit {
        logs: flags.keep,
        bytes: flags.keep_mib.saturating_mul(1 << 20),
    };
    let (_, logs) = cached()?;
    let removed = over_limit(&logs, limit);
    let mut stdout = String::new();
    for log in removed {
        if !flags.dry_run {
            fs::remove_file(&log.path).map_err(|error| {
                Error::environment(format!("cannot remove {}: {error}", log.path.display()))
                    .hint("check the permissions of the file and its folder")
            })?;
        }
        stdout.push_str(&format!("{}\n", log.path.display()));
    }
    let bytes: u64 = removed.iter().map(|log| log.bytes).sum();
    let verb = if flags.dry_run {
        "would remove"
    } else {
        "removed"
    };
    let (count, kept) = (removed.len(), logs.len() - removed.len());
    Ok(CommandOutput {
        stdout,
        lines: vec![format!(
            "{verb} {count} run logs ({}); {kept} kept",
            size(bytes)
        )],
        ..CommandOutput::default()
    })
}

/// A size in the largest unit that leaves a number of at least one.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
