//! `sobench preflight`: tests which constraints a server enforces.

pub mod args;
mod features_command;
mod limits_command;
pub mod options;
pub mod report;
mod target;

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;
use tokio::runtime::Runtime;

use self::args::PreflightArgs;
use self::options::{LimitsOptions, PreflightOptions};
use self::target::Target;
use crate::commands::flags::environment;
use crate::commands::output::{CommandOutput, pretty};
use crate::commands::preflight::report::json::PreflightFile;
use crate::commands::preflight::report::page;
use crate::terminal;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{CHECK_FAILED, ENVIRONMENT, SUCCESS};
use sobench_core::output_files::{check_writable, write_text};
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
    let options = PreflightOptions::new(flags, environment::api_key().as_deref())?;
    // A test can take half an hour.
    for path in [&options.json, &options.html].into_iter().flatten() {
        check_writable(path).map_err(|error| cannot_write(path, &error))?;
    }
    if let Some(features) = &options.features {
        return features_command::run(&options, features, shutdown);
    }
    match &options.limits {
        Some(LimitsOptions::Test(test)) => return limits_command::run(&options, test, shutdown),
        Some(LimitsOptions::Merge(files)) => return limits_command::merge(&options, files),
        None => {}
    }
    shutdown.run_or_abandon(move || run_preflight(&options))
}

fn run_preflight(options: &PreflightOptions) -> Result<CommandOutput> {
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    let target = options
        .targets
        .first()
        .ok_or_else(|| Error::internal("a preflight without a target"))?;
    let target = Target::open(options, target, &runtime)?;
    let on_test = |tested: Tested<'_>| {
        if options.progress {
            terminal::say(&tested.to_string());
        }
    };
    let result = runtime.block_on(preflight::run(
        &target.client,
        &target.options,
        &Shutdown::new(),
        on_test,
    ))?;
    let view = page::View {
        detail: options.detail,
        all_dialects: options.all_dialects,
    };
    Ok(output(
        options,
        exit_code(&result),
        &PreflightFile::new(&result),
        &page::document(&result, view),
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
pub(super) fn number_duplicates<'a>(labels: impl Iterator<Item = &'a mut String>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for label in labels {
        let count = seen.entry(label.clone()).or_default();
        *count += 1;
        if *count > 1 {
            *label = format!("{label} ({count})");
        }
    }
}

/// Writes the requested files, and prints the report or the JSON. If a file cannot be written, only
/// the exit code changes.
pub(super) fn output(
    options: &PreflightOptions,
    exit_code: u8,
    result: &impl Serialize,
    page: &Document,
) -> CommandOutput {
    let file = pretty(result);
    let mut output = CommandOutput {
        exit_code,
        ..CommandOutput::default()
    };
    let mut write_file =
        |path: &Path, text: &str| match write_text(path, text, |error| cannot_write(path, error)) {
            Ok(()) => output.lines.push(format!("written: {}", path.display())),
            Err(error) => {
                output.lines.push(format!("error: {error}"));
                output.exit_code = error.exit_code();
            }
        };
    if let Some(path) = &options.json {
        write_file(path, &file);
    }
    if let Some(path) = &options.html {
        write_file(path, &html::render(page));
    }
    output.stdout = if options.format == OutputFormat::Json {
        file
    } else {
        text::render(page)
    };
    output
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Error {
    Error::environment(format!(
        "cannot write the result ({error}): {}",
        path.display()
    ))
    .hint("give a file in an existing, writable folder")
}
