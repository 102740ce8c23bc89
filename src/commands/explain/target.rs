//! The servers that are asked: running ones, and the embedded one with each engine, in a child
//! process that can be killed.

use std::io::Write as _;
use std::time::Duration;

use crate::commands::output::CommandOutput;
use crate::commands::preflight::options::{Asked, PreflightTarget};
use sobench_client::Endpoint;
use sobench_core::error::{Error, Result};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings};
use sobench_engine::EngineName;
use sobench_preflight::features::MARKS;
use sobench_process::child::{Child, WorkerCommand};

/// The hidden command of the child.
pub const SERVER_COMMAND: &str = "explain-server";

/// How long a child has to start.
const START_LIMIT: Duration = Duration::from_secs(60);

const COMPILE_FACTOR: u32 = 3;
const MIN_COMPILE_LIMIT: Duration = Duration::from_millis(100);

/// Engines that are asked side by side if none is named.
pub const ENGINES: [EngineName; 3] = [
    EngineName::Guidance,
    EngineName::Xgrammar,
    EngineName::Outlines,
];

/// The embedded server with one engine, in a child process. Dropping it kills the child.
pub struct EngineServer {
    pub engine: EngineName,
    base_url: String,
    _child: Child<String>,
}

impl EngineServer {
    /// Starts the child.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(engine: EngineName, slow: Duration) -> Result<Self> {
        let failed = |why: String| {
            Error::environment(format!("cannot start the engine {}: {why}", engine.name()))
        };
        let mut command = WorkerCommand::current(SERVER_COMMAND)?;
        command.arguments.push(engine.name().to_owned());
        command
            .arguments
            .push(compile_limit(slow).as_secs_f64().to_string());
        let child = Child::<String>::start(&command).map_err(|error| failed(error.to_string()))?;
        match child.next(START_LIMIT) {
            Ok(Some(base_url)) => Ok(Self {
                engine,
                base_url: *base_url,
                _child: child,
            }),
            _ => Err(failed(child.kill().stderr.trim().to_owned())),
        }
    }

    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// The target of requests.
    pub fn target(&self, path: &str) -> PreflightTarget {
        PreflightTarget::Server {
            endpoint: Endpoint {
                base_url: self.base_url.clone(),
                path: path.to_owned(),
                ..Endpoint::default()
            },
            model: None,
            ready_timeout: Duration::ZERO,
        }
    }
}

/// The time limit of a compile of an embedded engine: what takes longer is slow without doubt.
pub fn compile_limit(slow: Duration) -> Duration {
    slow.max(MIN_COMPILE_LIMIT) * COMPILE_FACTOR
}

/// What is asked when a server is opened: nothing but what it is.
pub fn asked(timeout: Duration) -> Asked {
    Asked {
        kinds: Vec::new(),
        output_len: 1,
        timeout,
        all_dialects: false,
        repeats: false,
    }
}

/// Runs the child: serves until its input ends, which is when its parent does.
///
/// # Errors
/// The engine is unknown or cannot be opened.
#[expect(clippy::disallowed_methods, reason = "the address is for its parent")]
pub fn run_server(engine: &str, compile_timeout_s: f64) -> Result<CommandOutput> {
    let server = EmbeddedServer::start(EmbeddedSettings {
        engine: EngineName::parse(engine)?,
        repeats_between: Some(MARKS),
        compile_timeout_s,
        ..EmbeddedSettings::default()
    })?;
    let failed = |error: std::io::Error| Error::environment(format!("cannot write: {error}"));
    let mut stdout = std::io::stdout();
    writeln!(stdout, "\"{}\"", server.base_url()).map_err(failed)?;
    stdout.flush().map_err(failed)?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).map_err(failed)?;
    Ok(CommandOutput::default())
}
