//! `sobench preflight`: tests which constraints a server enforces.

pub mod args;
mod features_command;
pub mod options;
pub mod report;
pub mod target;

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Serialize;
use tokio::runtime::Runtime;

use self::args::PreflightArgs;
pub(crate) use self::features_command::survey;
use self::options::PreflightPlan;
use self::target::Target;
use crate::commands::flags::environment;
use crate::commands::output::{CommandOutput, check_writable, paths, pretty};
use crate::commands::preflight::report::json::PreflightFile;
use crate::commands::preflight::report::page;
use crate::terminal;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{CHECK_FAILED, ENVIRONMENT, SUCCESS};
use sobench_core::output_format::OutputFormat;
use sobench_preflight::{self as preflight, Preflight, Tested};
use sobench_render::{Document, html, text};
use sobench_shutdown::Shutdown;

/// Runs the command.
///
/// # Errors
/// Invalid input, no server, or a file that cannot be written. If it can no longer be written at the
/// end, only the exit code changes.
pub fn run(flags: &PreflightArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    let options = PreflightPlan::new(flags, environment::api_key)?;
    // A test can take half an hour.
    check_writable(paths(&options.files))?;
    if let Some(features) = &options.features {
        return features_command::run(&options, features, shutdown);
    }
    shutdown.run_or_abandon(move || run_preflight(&options))
}

fn run_preflight(options: &PreflightPlan) -> Result<CommandOutput> {
    let result = measure(options)?;
    let view = page::View {
        detail: options.detail,
        all_dialects: options.asked.all_dialects,
    };
    Ok(output(
        options.format,
        &options.files,
        exit_code(&result),
        &PreflightFile::new(&result),
        &page::document(&result, view),
    ))
}

/// Tests kinds of constraints.
///
/// # Errors
/// No server.
pub(crate) fn measure(options: &PreflightPlan) -> Result<Preflight> {
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    let servers = &options.servers;
    let target = servers
        .targets
        .first()
        .ok_or_else(|| Error::internal("a preflight without a target"))?;
    let target = Target::open(servers, target, &options.asked, &runtime)?;
    let on_test = |tested: Tested<'_>| {
        if servers.progress {
            terminal::say(&tested.to_string());
        }
    };
    runtime.block_on(preflight::run(
        &target.client,
        &target.options,
        &Shutdown::new(),
        on_test,
    ))
}

/// If the same request fails without a constraint, there is no result.
fn exit_code(preflight: &Preflight) -> u8 {
    match () {
        () if preflight.control.failure.is_some() => ENVIRONMENT,
        () if preflight.passed() => SUCCESS,
        () => CHECK_FAILED,
    }
}

/// Numbers equal labels of servers.
pub fn number_duplicates<'a>(labels: impl Iterator<Item = &'a mut String>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for label in labels {
        let count = seen.entry(label.clone()).or_default();
        *count += 1;
        if *count > 1 {
            *label = format!("{label} ({count})");
        }
    }
}

/// Writes the requested files, and prints the report or the JSON.
pub fn output(
    format: OutputFormat,
    files: &[(OutputFormat, PathBuf)],
    exit_code: u8,
    result: &impl Serialize,
    page: &Document,
) -> CommandOutput {
    let rendered = |format| match format {
        OutputFormat::Json => pretty(result),
        OutputFormat::Html => html::render(page),
        _ => text::render(page),
    };
    let mut output = CommandOutput {
        exit_code,
        stdout: rendered(format),
        ..CommandOutput::default()
    };
    for (format, path) in files {
        output.write(path, &rendered(*format));
    }
    output.or_save_with("--save")
}
