//! `sobench report`: prints the report of a run log.

pub mod args;

use std::path::Path;

use self::args::ReportArgs;
use crate::commands::flags::rendering::{DetailArgs, RenderingArgs};
use crate::commands::output::CommandOutput;
use sobench_core::error::{Error, Result};
use sobench_core::output_files;
use sobench_data::tokenizer::Tokenizer;
use sobench_judge::Evaluator;
use sobench_notices::notice::LogNotice;
use sobench_report::format::{self, FormOptions};
use sobench_report::from_log::{report, with_view};
use sobench_results::runlog::judge::{CountTokens, judge};
use sobench_results::runlog::{Keep, RunLog};
use sobench_shutdown::Shutdown;

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
    let mut log = RunLog::read(&flags.log, Keep::AsSaved)?;
    verdicts(&mut log)?;
    rendered(
        &log,
        &flags.rendering,
        flags.detail,
        flags.output.as_deref(),
    )
}

/// Renders a judged log to the file `output` or to stdout.
///
/// # Errors
/// The report cannot be made or written.
pub(crate) fn rendered(
    log: &RunLog,
    flags: &RenderingArgs,
    detail: DetailArgs,
    output: Option<&Path>,
) -> Result<CommandOutput> {
    let report = report(log)?;
    let options = FormOptions {
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
    let mut stdout = Vec::new();
    with_view(log, &report, |view| match output {
        None => format::write(view, flags.format, options, &mut stdout),
        Some(path) => {
            output_files::write(path, |out| format::write(view, flags.format, options, out))?;
            lines.push(format!(
                "{} written: {}",
                flags.format.name(),
                path.display()
            ));
            Ok(())
        }
    })?;
    let stdout =
        String::from_utf8(stdout).map_err(|_| Error::internal("the report is not UTF-8"))?;
    Ok(CommandOutput {
        stdout,
        lines,
        ..CommandOutput::default()
    })
}

/// Judges a log without verdicts, such as that of a killed run.
///
/// # Errors
/// The log cannot be read again.
pub(crate) fn verdicts(log: &mut RunLog) -> Result<()> {
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
    judge(
        log,
        &mut Evaluator::new(log.record.settings.evaluate),
        count.as_ref().map(|count| count as CountTokens<'_>),
    )
}
