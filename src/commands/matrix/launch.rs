//! A server that is started for its runs, and stopped after them with its child processes.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::commands::flags::environment::cache_folder;
use crate::commands::matrix::options::PORT;
use sobench_client::{Client, wait_ready};
use sobench_core::error::{Error, Result};
use sobench_core::printable::printable;
use sobench_process::watchdog::Watchdog;
use sobench_shutdown::Shutdown;

/// The id of a process group, which is that of its leader.
pub(super) type GroupId = u32;

/// The process group of the running launched server, if any.
#[derive(Clone, Default)]
pub(super) struct LaunchedGroup(Arc<Mutex<Option<GroupId>>>);

impl LaunchedGroup {
    /// Sends SIGTERM to the server without waiting for its end.
    pub(super) fn terminate(&self) {
        let group = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        group.into_iter().for_each(terminate);
    }

    fn set(&self, group: Option<GroupId>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = group;
    }
}

/// The largest number of logs of the same name in a folder.
const MAX_SAME_NAMES: u32 = 10_000;

/// The grace period between SIGTERM and SIGKILL, as a number of checks and their interval.
const STOP_CHECKS: u32 = 150;
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The part at the end of a log that an error quotes: its bytes, lines, and characters per line.
const TAIL_BYTES: u64 = 8 << 10;
const TAIL_LINES: usize = 6;
const TAIL_CHARS: usize = 300;

/// A launched server. Dropping it stops the server.
pub(super) struct LaunchedServer {
    process: Child,
    pub(super) port: u16,
    pub(super) log: PathBuf,
    group: LaunchedGroup,
    is_stopped: bool,
    /// Stops the server if this program is killed.
    watchdog: Option<Watchdog>,
}

impl LaunchedServer {
    /// Starts a command with the shell, in its own process group: the terminal's Ctrl-C does not
    /// reach it, and its children can be stopped with it. `{port}` in the command becomes a free
    /// port. Its output goes to a file in `folder`, or in the user's cache folder.
    ///
    /// # Errors
    /// No free port, no log file, or no shell.
    #[expect(clippy::disallowed_methods, reason = "asks the system for a free port")]
    pub(super) fn start(
        command: &str,
        name: &str,
        folder: Option<&Path>,
        group: &LaunchedGroup,
    ) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|error| Error::environment(format!("no free port for the server: {error}")))?
            .port();
        let command = command.replace(PORT, &port.to_string());
        let (file, log) = open_log(folder, name).map_err(|error| {
            Error::environment(format!(
                "cannot create the log of the server ({error}): {name}"
            ))
        })?;
        let stdout = file
            .try_clone()
            .map_err(|error| Error::environment(format!("{}: {error}", log.display())))?;
        let mut starting = Command::new("sh");
        starting
            .args(["-c", &command])
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(file);
        std::os::unix::process::CommandExt::process_group(&mut starting, 0);
        let process = starting.spawn().map_err(|error| {
            Error::environment(format!("cannot start the server ({error}): {command}"))
        })?;
        group.set(Some(process.id()));
        let mut launched = Self {
            process,
            port,
            log,
            group: group.clone(),
            is_stopped: false,
            watchdog: None,
        };
        let watchdog = Watchdog::new(launched.process.id());
        launched.watchdog = Some(watchdog.map_err(|error| {
            Error::environment(format!("cannot start the watchdog of the server: {error}"))
        })?);
        Ok(launched)
    }

    /// Waits until the server is ready.
    ///
    /// # Errors
    /// The server exited or exceeded `timeout`; the error quotes the end of its log. The user
    /// stopped the program.
    pub(super) fn wait_ready(
        &mut self,
        runtime: &Runtime,
        client: &Client,
        timeout: Duration,
        shutdown: &Shutdown,
    ) -> Result<()> {
        let waited = runtime.block_on(async {
            tokio::select! {
                ready = wait_ready(client, timeout) => ready,
                status = self.wait_exit() => Err(exited(status)),
                () = shutdown.drain_requested() => Err(Error::interrupted("stopped while the server started")),
            }
        });
        // If the port was taken, another server may have answered.
        match (waited, self.status()) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(status)) => Err(self.with_tail(exited(status))),
            (Err(error), _) => Err(self.with_tail(error)),
        }
    }

    /// The exit status, if the server has exited.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Stops the process group: SIGTERM first, and SIGKILL after a number of checks.
    fn stop(&mut self, checks: u32) {
        if std::mem::replace(&mut self.is_stopped, true) {
            return;
        }
        let group = self.process.id();
        terminate(group);
        for _ in 0..checks {
            if self.status().is_some() && !has_processes(group) {
                break;
            }
            thread::sleep(CHECK_INTERVAL);
        }
        kill(group, &mut self.process);
        let _ = self.process.wait();
        self.group.set(None);
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
    }

    async fn wait_exit(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }

    fn with_tail(&self, error: Error) -> Error {
        let tail = tail(&self.log).unwrap_or_default();
        let what = if tail.is_empty() {
            error.what
        } else {
            format!("{}; end of its log: {tail}", error.what)
        };
        Error {
            kind: error.kind,
            what,
            hint: Some(format!("see the log of the server: {}", self.log.display())),
        }
    }
}

impl Drop for LaunchedServer {
    fn drop(&mut self) {
        self.stop(STOP_CHECKS);
    }
}

fn exited(status: ExitStatus) -> Error {
    Error::environment(format!("the server exited before it was ready ({status})"))
}

pub(super) fn terminate(group: GroupId) {
    signal(group, rustix::process::Signal::TERM);
}

fn kill(group: GroupId, _process: &mut Child) {
    signal(group, rustix::process::Signal::KILL);
}

fn signal(group: GroupId, signal: rustix::process::Signal) {
    if let Some(group) = pid(group) {
        // The group may have ended already.
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Whether the group has processes left.
fn has_processes(group: GroupId) -> bool {
    pid(group).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

fn pid(group: GroupId) -> Option<rustix::process::Pid> {
    i32::try_from(group)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
}

/// Creates a new log file that only the user can read, because a server may print its API key.
fn open_log(folder: Option<&Path>, name: &str) -> io::Result<(File, PathBuf)> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => cache_folder("launches")?,
    };
    std::fs::create_dir_all(&folder)?;
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let safe: String = name
        .chars()
        .map(|character| match character {
            _ if character.is_ascii_alphanumeric() => character,
            _ => '-',
        })
        .take(60)
        .collect();
    for number in 1..=MAX_SAME_NAMES {
        let path = folder.join(format!("server-{safe}-{number}.log"));
        match options.open(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, path)),
        }
    }
    Err(io::Error::new(
        ErrorKind::AlreadyExists,
        format!("{MAX_SAME_NAMES} logs of this name exist"),
    ))
}

/// The last non-empty lines of a log, on one line.
fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take(TAIL_LINES)
        .map(|line| printable(line.trim(), TAIL_CHARS))
        .collect();
    lines.reverse();
    Ok(lines.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_client::{ClientSettings, Endpoint};

    fn client(port: u16) -> Client {
        let endpoint = Endpoint {
            base_url: format!("http://127.0.0.1:{port}"),
            path: "/v1/completions".to_owned(),
            ..Endpoint::default()
        };
        Client::new(ClientSettings::with_defaults(endpoint)).expect("the address is valid")
    }

    #[test]
    fn an_early_exit_is_reported_with_the_end_of_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Runtime::new().unwrap();
        let command = "echo loading; echo 'no such model: {port}' >&2; exit 7";
        let mut server = LaunchedServer::start(
            command,
            "a b",
            Some(folder.path()),
            &LaunchedGroup::default(),
        )
        .unwrap();
        let error = server
            .wait_ready(
                &runtime,
                &client(server.port),
                Duration::from_secs(3600),
                &Shutdown::new(),
            )
            .unwrap_err();
        let port = server.port;
        assert_eq!(
            error.what,
            format!(
                "the server exited before it was ready (exit status: 7); end of its log: loading | no such model: {port}"
            )
        );
        assert_eq!(server.log, folder.path().join("server-a-b-1.log"));
        let next = LaunchedServer::start(
            "exit 0",
            "a b",
            Some(folder.path()),
            &LaunchedGroup::default(),
        )
        .unwrap();
        assert_eq!(
            next.log,
            folder.path().join("server-a-b-2.log"),
            "no log is overwritten"
        );
    }

    /// Whether a process runs; a zombie does not.
    #[cfg(target_os = "linux")]
    fn runs(process: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stopping_the_server_stops_its_process_group() {
        let folder = tempfile::tempdir().unwrap();
        // The leader exits on SIGTERM, and its child ignores it.
        let command = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
        let mut server =
            LaunchedServer::start(command, "x", Some(folder.path()), &LaunchedGroup::default())
                .unwrap();
        let mut child = String::new();
        while child.is_empty() {
            child = tail(&server.log).unwrap();
        }
        assert!(runs(&child));
        server.stop(2);
        while runs(&child) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_shutdown_request_ends_the_wait() {
        let folder = tempfile::tempdir().unwrap();
        let (runtime, shutdown) = (Runtime::new().unwrap(), Shutdown::new());
        let mut server = LaunchedServer::start(
            "exec sleep 3600",
            "x",
            Some(folder.path()),
            &LaunchedGroup::default(),
        )
        .unwrap();
        shutdown.request();
        let error = server
            .wait_ready(
                &runtime,
                &client(server.port),
                Duration::from_secs(3600),
                &shutdown,
            )
            .unwrap_err();
        assert_eq!(error.exit_code(), 130);
    }
}
