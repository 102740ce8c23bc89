//! `sobench preflight`: tests which constraints a server enforces.

pub mod args;
mod features_command;
pub mod options;
mod report;
mod target;

use std::path::Path;

use serde_json::Value;
use tokio::runtime::Runtime;

use self::args::PreflightArgs;
use self::options::PreflightOptions;
use self::target::Target;
use crate::commands::flags::environment;
use crate::commands::output::{CommandOutput, pretty};
use crate::commands::preflight::report::{json, page};
use crate::terminal;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{CHECK_FAILED, ENVIRONMENT, SUCCESS};
use sobench_core::output_format::OutputFormat;
use sobench_preflight::{self as preflight, Preflight, Tested};
use sobench_render::{Document, text};
use sobench_shutdown::Shutdown;

/// Runs the command.
///
/// # Errors
/// Invalid input, or no server. If a file cannot be written, that is reported at the end with exit
/// code 3.
pub fn run(flags: &PreflightArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    let options = PreflightOptions::new(flags, environment::api_key().as_deref())?;
    if let Some(features) = &options.features {
        return features_command::run(&options, features, shutdown);
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
        &json::render(&result),
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

/// Writes the JSON file, if requested, and prints the report or the JSON. If the file cannot be
/// written, only the exit code changes.
pub(super) fn output(
    options: &PreflightOptions,
    exit_code: u8,
    result: &Value,
    page: &Document,
) -> CommandOutput {
    let file = pretty(result);
    let mut output = CommandOutput {
        exit_code,
        ..CommandOutput::default()
    };
    if let Some(path) = &options.json {
        match write(path, &file) {
            Ok(()) => output.lines.push(format!("written: {}", path.display())),
            Err(error) => {
                output.lines.push(format!("error: {error}"));
                output.exit_code = error.exit_code();
            }
        }
    }
    output.stdout = if options.format == OutputFormat::Json {
        file
    } else {
        text::render(page)
    };
    output
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| {
        Error::environment(format!(
            "cannot write the result ({error}): {}",
            path.display()
        ))
        .hint("give a file in an existing, writable folder")
    })
}
