//! `sobench preflight`: asks a server, prints and writes what it enforces.

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
use sobench_core::exit_codes::{COULD_NOT, DONE, NOT_KEPT};
use sobench_core::output_format::OutputFormat;
use sobench_preflight::{self as preflight, Preflight};
use sobench_render::{Document, text};
use sobench_shutdown::Shutdown;

/// Asks, prints, writes.
///
/// # Errors
/// Whatever keeps it from asking: wrong input, no server. A file that cannot be written is told at
/// the end, with exit code 3.
pub fn run(flags: PreflightArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    shutdown.or_abandon(move || ask(&flags))
}

fn ask(flags: &PreflightArgs) -> Result<CommandOutput> {
    let options = &PreflightOptions::new(flags, environment::api_key().as_deref())?;
    if let Some(wanted) = &options.features {
        return features_command::run(options, wanted);
    }
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("no threads to run on: {error}")))?;
    let target = options
        .targets
        .first()
        .ok_or_else(|| Error::internal("a preflight of nobody"))?;
    let target = Target::open(options, target, &runtime)?;
    let told = |cell: &preflight::Cell| {
        if options.progress {
            terminal::say(&format!(
                "{} in {}: {}",
                cell.label(),
                cell.dialect,
                cell.finding.class.name()
            ));
        }
    };
    let found = runtime.block_on(preflight::run(
        &target.client,
        &target.options,
        &Shutdown::new(),
        told,
    ))?;
    Ok(output(
        options,
        exit_code(&found),
        &json::render(&found),
        &page::document(&found),
    ))
}

/// Nothing was learnt where the same request fails without a constraint.
fn exit_code(preflight: &Preflight) -> u8 {
    match () {
        () if preflight.control.failure.is_some() => COULD_NOT,
        () if preflight.passed() => DONE,
        () => NOT_KEPT,
    }
}

/// The end of a command that found something: its file written where one is wanted, its page or its
/// JSON printed. A file that cannot be written costs the exit code and nothing else.
pub(super) fn output(
    options: &PreflightOptions,
    exit_code: u8,
    found: &Value,
    page: &Document,
) -> CommandOutput {
    let file = pretty(found);
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
        .hint("name a file in a folder that is there and may be written to")
    })
}
