//! `sobench report`: prints the report of a run log.

pub mod args;

use std::io::{BufWriter, Write as _};
use std::path::PathBuf;

use self::args::ReportArgs;
use crate::commands::flags::rendering::{DetailArgs, RenderingArgs};
use crate::commands::large_output::{cannot_store, large_output, text_for_stdout};
use crate::commands::output::CommandOutput;
use crate::commands::parquet::write_form;
use crate::commands::run_cache;
use crate::terminal::InputProgress;
use sobench_core::error::Result;
use sobench_core::ordered_work::threads;
use sobench_core::output_files;
use sobench_core::output_format::OutputFormat;
use sobench_core::progress::Progress;
use sobench_data::tokenizer::Tokenizer;
use sobench_judge::Evaluator;
use sobench_notices::notice::LogNotice;
use sobench_report::format::FormSettings;
use sobench_report::from_log::{report, with_view};
use sobench_runlog::RunLog;
use sobench_runlog::judge::{CountTokens, judge};
use sobench_shutdown::Shutdown;

/// Requests for which one more thread is started to judge them.
const REQUESTS_PER_THREAD: usize = 1000;

/// Runs `sobench report`.
///
/// # Errors
/// The file is not a complete run log, or the report cannot be written.
pub fn run(flags: ReportArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.run_or_abandon(move || report_of(&flags))
}

/// Runs the command without signal handling.
///
/// # Errors
/// As for [`run`].
pub fn report_of(flags: &ReportArgs) -> Result<CommandOutput> {
    let files = flags.save.files(&OutputFormat::ALL)?;
    let progress = InputProgress::of_files();
    let path = match &flags.log {
        Some(path) => path.to_path_buf(),
        None => run_cache::newest(1)?.remove(0),
    };
    let mut log = RunLog::read_with(&path, &progress)?;
    verdicts(&mut log, &progress)?;
    drop(progress);
    rendered(&log, &flags.rendering, flags.detail, &files)
}

/// Renders a judged log to stdout and to files.
///
/// # Errors
/// The report cannot be made or written.
pub(crate) fn rendered(
    log: &RunLog,
    flags: &RenderingArgs,
    detail: DetailArgs,
    files: &[(OutputFormat, PathBuf)],
) -> Result<CommandOutput> {
    let report = report(log)?;
    let options = FormSettings {
        detailed: log.record.settings.report.detailed,
        junit_per: flags.junit_per,
        detail: detail.detail,
        plot: flags.plot,
    };
    let mut lines: Vec<String> = log
        .notices
        .iter()
        .map(|notice| format!("warning: {notice}"))
        .collect();
    let mut stdout = large_output();
    with_view(log, &report, |view| {
        for (format, path) in files {
            output_files::write(path, |out| write_form(view, *format, options, out))?;
            lines.push(format!("{} written: {}", format.name(), path.display()));
        }
        let mut out = BufWriter::new(&mut stdout);
        write_form(view, flags.format, options, &mut out)?;
        out.flush().map_err(|error| cannot_store(&error))
    })?;
    Ok(CommandOutput {
        stdout: text_for_stdout(&mut stdout)?,
        lines,
        ..CommandOutput::default()
    })
}

/// Judges a log without verdicts, such as that of a killed run.
///
/// # Errors
/// The log cannot be read again.
pub(crate) fn verdicts(log: &mut RunLog, progress: &dyn Progress) -> Result<()> {
    if log.is_judged {
        return Ok(());
    }
    let tokenizer = log
        .record
        .settings
        .tokenizer
        .as_deref()
        .map_or_else(|| Ok(Tokenizer::embedded()), Tokenizer::open);
    if let Err(error) = &tokenizer {
        log.notices.push(
            LogNotice::TokensNotCounted {
                why: error.what.clone(),
            }
            .into(),
        );
    }
    let count = tokenizer
        .ok()
        .map(|tokenizer| move |text: &str| tokenizer.count(text));
    let requests = log.requests.len();
    judge(
        log,
        &mut Evaluator::new(log.record.settings.evaluate),
        count.as_ref().map(|count| count as CountTokens<'_>),
        threads(requests / REQUESTS_PER_THREAD),
        progress,
    )
}
