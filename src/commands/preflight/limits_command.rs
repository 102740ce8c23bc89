//! `sobench preflight --limits`: tests how large constraints may be, and reports earlier results
//! together.

use tokio::runtime::Runtime;

use crate::commands::flags::paths::InputPath;
use crate::commands::output::CommandOutput;
use crate::commands::preflight::options::{LimitsTest, PreflightOptions, PreflightTarget};
use crate::commands::preflight::report::limits::json::{LimitsFile, read};
use crate::commands::preflight::report::limits::{page, sentences};
use crate::commands::preflight::target::Target;
use crate::commands::preflight::{number_duplicates, output};
use crate::terminal;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{CHECK_FAILED, INTERRUPTED, SUCCESS};
use sobench_preflight::limits::probe::Subject;
use sobench_preflight::limits::{LadderKind, ServerLimits, Step, test_limits};
use sobench_shutdown::Shutdown;

/// Tests each server in turn, until a shutdown signal. Results so far are then reported.
///
/// # Errors
/// Invalid input, or a server that does not answer small requests; interrupted before there was a
/// result. If a file can no longer be written, that is reported at the end with exit code 3.
pub(super) fn run(
    options: &PreflightOptions,
    test: &LimitsTest,
    shutdown: &Shutdown,
) -> Result<CommandOutput> {
    let _listener =
        shutdown.listen(|_| terminal::say("stopping: the steps that ended are reported"))?;
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    let mut servers = Vec::new();
    for target in &options.targets {
        match test_target(options, target, test, &runtime, shutdown) {
            Ok(limits) => servers.push(limits),
            Err(_) if shutdown.is_requested() && !servers.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(report(options, servers, shutdown.is_requested()))
}

/// Reports the results in these files together.
///
/// # Errors
/// A file cannot be read, or has no results of this command.
pub(super) fn merge(options: &PreflightOptions, files: &[InputPath]) -> Result<CommandOutput> {
    let mut servers = Vec::new();
    for file in files {
        servers.extend(read(file)?);
    }
    Ok(report(options, servers, false))
}

fn report(
    options: &PreflightOptions,
    mut servers: Vec<ServerLimits>,
    is_interrupted: bool,
) -> CommandOutput {
    number_duplicates(servers.iter_mut().map(|server| &mut server.label));
    output(
        options,
        exit_code(&servers, is_interrupted),
        &LimitsFile::new(&servers),
        &page::document(&servers, options.detail),
    )
}

fn test_target(
    options: &PreflightOptions,
    target: &PreflightTarget,
    test: &LimitsTest,
    runtime: &Runtime,
    shutdown: &Shutdown,
) -> Result<ServerLimits> {
    let opened = Target::open(options, target, runtime)?;
    let label = match target {
        PreflightTarget::Embedded { engine } => Some(engine.name()),
        PreflightTarget::Server { .. } => None,
    };
    let subject = Subject {
        client: &opened.client,
        options: &opened.options,
        label,
    };
    let on_step = |ladder: LadderKind, step: &Step| {
        if options.progress {
            terminal::say(&sentences::progress(ladder, step));
        }
    };
    runtime.block_on(test_limits(
        subject,
        &test.ladders,
        test.step_timeout,
        shutdown,
        on_step,
    ))
}

fn exit_code(servers: &[ServerLimits], is_interrupted: bool) -> u8 {
    if is_interrupted {
        INTERRUPTED
    } else if servers
        .iter()
        .any(|server| server.bad_ladders().next().is_some())
    {
        CHECK_FAILED
    } else {
        SUCCESS
    }
}
