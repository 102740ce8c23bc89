//! `sobench-tools limits`: tests how large constraints may be, and reports earlier results together.

use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Runtime;

use super::args::LimitsArgs;
use super::probe::Subject;
use super::report::json::{LimitsFile, read};
use super::report::{page, sentences};
use super::{LadderKind, ServerLimits, Step, test_limits};
use sobench::commands::flags::checks::seconds;
use sobench::commands::flags::environment;
use sobench::commands::output::{CommandOutput, check_writable, paths};
use sobench::commands::preflight::args::FORMATS;
use sobench::commands::preflight::options::{Asked, PreflightTarget, TargetPlan};
use sobench::commands::preflight::target::Target;
use sobench::commands::preflight::{number_duplicates, output};
use sobench::terminal;
use sobench_core::error::{Error, Result};
use sobench_core::exit_codes::{CHECK_FAILED, INTERRUPTED, SUCCESS};
use sobench_core::output_format::OutputFormat;
use sobench_preflight::runner::DEFAULT_OUTPUT_LEN;
use sobench_shutdown::Shutdown;

/// Time limit of the requests that only find out what the server is.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Tests each server in turn, until a shutdown signal, and reports the results so far; or reports
/// the results of earlier files together.
///
/// # Errors
/// Invalid input, or a server that does not answer small requests; interrupted before there was a
/// result. If a file can no longer be written, that is reported at the end with exit code 3.
pub fn run(flags: &LimitsArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    let files = flags.save.files(&FORMATS)?;
    let step_timeout = seconds("--step-timeout", flags.step_timeout)?;
    let servers = TargetPlan::new(&flags.target, environment::api_key)?;
    for target in &servers.targets {
        refuse_foreign_server(flags, target)?;
    }
    check_writable(paths(&files))?;
    if !flags.merge.is_empty() {
        let mut merged = Vec::new();
        for file in &flags.merge {
            merged.extend(read(file)?);
        }
        return Ok(report(flags, &files, merged, false));
    }
    let is_selected =
        |ladder: &LadderKind| flags.ladder.is_empty() || flags.ladder.contains(ladder);
    let ladders: Vec<LadderKind> = LadderKind::ALL.into_iter().filter(is_selected).collect();
    let _listener =
        shutdown.listen(|_| terminal::say("stopping: the steps that ended are reported"))?;
    let runtime = Runtime::new()
        .map_err(|error| Error::environment(format!("cannot start threads: {error}")))?;
    let mut tested = Vec::new();
    for target in &servers.targets {
        match test_target(&servers, target, &ladders, step_timeout, &runtime, shutdown) {
            Ok(limits) => tested.push(limits),
            Err(_) if shutdown.is_requested() && !tested.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(report(flags, &files, tested, shutdown.is_requested()))
}

fn refuse_foreign_server(flags: &LimitsArgs, target: &PreflightTarget) -> Result<()> {
    match target {
        PreflightTarget::Server { endpoint, .. }
            if !flags.i_own_this_server && !endpoint.is_loopback()? =>
        {
            Err(Error::usage(format!(
                "the test can stall or end a server, and this one is not on this machine: {}",
                endpoint.public_base_url()
            ))
            .hint("add --i-own-this-server if you own it and it has no other users"))
        }
        _ => Ok(()),
    }
}

fn report(
    flags: &LimitsArgs,
    files: &[(OutputFormat, PathBuf)],
    mut servers: Vec<ServerLimits>,
    is_interrupted: bool,
) -> CommandOutput {
    number_duplicates(servers.iter_mut().map(|server| &mut server.label));
    output(
        flags.format,
        files,
        exit_code(&servers, is_interrupted),
        &LimitsFile::new(&servers),
        &page::document(&servers, flags.detail.detail),
    )
}

fn test_target(
    servers: &TargetPlan,
    target: &PreflightTarget,
    ladders: &[LadderKind],
    step_timeout: Duration,
    runtime: &Runtime,
    shutdown: &Shutdown,
) -> Result<ServerLimits> {
    let asked = Asked {
        kinds: Vec::new(),
        output_len: DEFAULT_OUTPUT_LEN,
        timeout: REQUEST_TIMEOUT,
        all_dialects: false,
        repeats: false,
    };
    let opened = Target::open(servers, target, &asked, runtime)?;
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
        if servers.progress {
            terminal::say(&sentences::progress(ladder, step));
        }
    };
    let tested = test_limits(subject, ladders, step_timeout, shutdown, on_step);
    runtime.block_on(tested)
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
