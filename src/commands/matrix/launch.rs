//! A server that is started for its runs and ended after them, with everything that it has started
//! itself. Knows no run.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;

#[cfg(unix)]
use super::watchdog::Watchdog;
use crate::commands::flags::environment::cache_folder;
use crate::commands::matrix::options::PORT;
use sobench_client::{self as driver, Client};
use sobench_core::error::{Error, Result};
use sobench_core::printable::printable;
use sobench_shutdown::Shutdown;

/// A process group, by the id of its leader.
pub(super) type Group = u32;

/// The process group of the launched server that runs, if one does.
#[derive(Clone, Default)]
pub(super) struct LaunchedGroup(Arc<Mutex<Option<Group>>>);

impl LaunchedGroup {
    /// Asks the server to end now, without waiting for it.
    pub(super) fn ask_to_end(&self) {
        let group = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        group.into_iter().for_each(ask_to_end);
    }

    fn set(&self, group: Option<Group>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = group;
    }
}

/// Logs of one name that a folder may hold.
const MAX_SAME_NAMES: u32 = 10_000;

/// How long a server may take to end when it is asked to, before it is ended: so many looks, so far
/// apart.
const LOOKS: u32 = 150;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How much of a log's end an error quotes: at most so many bytes, lines, and characters of each
/// line.
const TAIL_BYTES: u64 = 8 << 10;
const TAIL_LINES: usize = 6;
const TAIL_CHARS: usize = 300;

/// A server of ours. Dropping it ends it.
pub(super) struct Launched {
    process: Child,
    pub(super) port: u16,
    pub(super) log: PathBuf,
    group: LaunchedGroup,
    has_ended: bool,
    /// Ends it where this program is killed.
    #[cfg(unix)]
    watchdog: Option<Watchdog>,
}

impl Launched {
    /// Starts a command by the shell, in a process group of its own, so that the terminal's Ctrl-C
    /// does not reach it and its children can be ended with it. `{port}` in the command becomes a
    /// free port. What it prints goes to a file in `folder`, or in the user's cache.
    ///
    /// # Errors
    /// There is no free port, no place for the log, or no shell.
    #[expect(clippy::disallowed_methods, reason = "asks the system for a free port")]
    pub(super) fn start(
        command: &str,
        name: &str,
        folder: Option<&Path>,
        group: &LaunchedGroup,
    ) -> Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .and_then(|listener| listener.local_addr())
            .map_err(|error| Error::environment(format!("no free port for a server: {error}")))?
            .port();
        let command = command.replace(PORT, &port.to_string());
        let (file, log) = open_log(folder, name).map_err(|error| {
            Error::environment(format!(
                "no file for what the server prints ({error}): {name}"
            ))
        })?;
        let both = file
            .try_clone()
            .map_err(|error| Error::environment(format!("{}: {error}", log.display())))?;
        // The shell becomes the program where it can, so that there is one process less between.
        let [shell, flag] = if cfg!(unix) {
            ["sh", "-c"]
        } else {
            ["cmd", "/C"]
        };
        let mut starting = Command::new(shell);
        starting
            .args([flag, &command])
            .stdin(Stdio::null())
            .stdout(both)
            .stderr(file);
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut starting, 0);
        let process = starting.spawn().map_err(|error| {
            Error::environment(format!("cannot be started ({error}): {command}"))
        })?;
        group.set(Some(process.id()));
        #[cfg_attr(not(unix), expect(unused_mut))]
        let mut launched = Self {
            process,
            port,
            log,
            group: group.clone(),
            has_ended: false,
            #[cfg(unix)]
            watchdog: None,
        };
        #[cfg(unix)]
        {
            let watchdog = Watchdog::over(launched.process.id());
            launched.watchdog = Some(watchdog.map_err(|error| {
                Error::environment(format!("nobody can watch over a server: {error}"))
            })?);
        }
        Ok(launched)
    }

    /// Waits until it answers.
    ///
    /// # Errors
    /// It ended, or took longer than `timeout`; the end of what it printed says why. The user does
    /// not want to wait any more.
    pub(super) fn wait_ready(
        &mut self,
        runtime: &Runtime,
        client: &Client,
        timeout: Duration,
        shutdown: &Shutdown,
    ) -> Result<()> {
        let waited = runtime.block_on(async {
            tokio::select! {
                ready = driver::wait_ready(client, timeout) => ready,
                status = self.ending() => Err(ended(status)),
                () = shutdown.drain_requested() => Err(Error::interrupted("stopped while a server started")),
            }
        });
        // Somebody else may have answered at the port of a server that could not have it.
        match (waited, self.status()) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(status)) => Err(self.with_tail(ended(status))),
            (Err(error), _) => Err(self.with_tail(error)),
        }
    }

    /// How it ended, if it did.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        self.process.try_wait().ok().flatten()
    }

    /// Ends it: asks the whole group first, and after so many looks does not ask.
    fn stop(&mut self, looks: u32) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let group = self.process.id();
        ask_to_end(group);
        for _ in 0..looks {
            if self.status().is_some() && !is_there(group) {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        end(group, &mut self.process);
        let _ = self.process.wait();
        self.group.set(None);
        #[cfg(unix)]
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.dismiss();
        }
    }

    async fn ending(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.status() {
                return status;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn with_tail(&self, error: Error) -> Error {
        let said = tail(&self.log).unwrap_or_default();
        let what = if said.is_empty() {
            error.what
        } else {
            format!("{}; it said: {said}", error.what)
        };
        Error {
            kind: error.kind,
            what,
            hint: Some(format!(
                "everything that it printed is in {}",
                self.log.display()
            )),
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        self.stop(LOOKS);
    }
}

fn ended(status: ExitStatus) -> Error {
    Error::environment(format!("the server ended before it was ready ({status})"))
}

#[cfg(unix)]
pub(super) fn ask_to_end(group: Group) {
    signal(group, rustix::process::Signal::TERM);
}

#[cfg(unix)]
fn end(group: Group, _process: &mut Child) {
    signal(group, rustix::process::Signal::KILL);
}

#[cfg(unix)]
fn signal(group: Group, signal: rustix::process::Signal) {
    if let Some(group) = pid(group) {
        // A group that has gone needs nothing.
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Whether anybody of the group is left.
#[cfg(unix)]
fn is_there(group: Group) -> bool {
    pid(group).is_some_and(|group| rustix::process::test_kill_process_group(group).is_ok())
}

#[cfg(unix)]
fn pid(group: Group) -> Option<rustix::process::Pid> {
    i32::try_from(group)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
}

#[cfg(not(unix))]
pub(super) fn ask_to_end(_group: Group) {}

#[cfg(not(unix))]
fn end(_group: Group, process: &mut Child) {
    let _ = process.kill();
}

#[cfg(not(unix))]
fn is_there(_group: Group) -> bool {
    false
}

/// A file that nobody has written to, which only the user can read: a server may print its key.
fn open_log(folder: Option<&Path>, name: &str) -> io::Result<(File, PathBuf)> {
    let folder = match folder {
        Some(folder) => folder.to_owned(),
        None => cache_folder("launches")?,
    };
    std::fs::create_dir_all(&folder)?;
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let safe: String = name
        .chars()
        .map(|it| if it.is_ascii_alphanumeric() { it } else { '-' })
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
        format!("{MAX_SAME_NAMES} logs have this name"),
    ))
}

/// The last lines that say anything.
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use sobench_client::{DriverOptions, Endpoint};

    fn client(port: u16) -> Client {
        let endpoint = Endpoint {
            base_url: format!("http://127.0.0.1:{port}"),
            path: "/v1/completions".to_owned(),
            ..Endpoint::default()
        };
        Client::new(DriverOptions::plain(endpoint)).expect("the address is one")
    }

    #[test]
    fn a_server_that_ends_says_why_and_is_waited_for_no_longer() {
        let folder = tempfile::tempdir().unwrap();
        let runtime = Runtime::new().unwrap();
        let command = "echo loading; echo 'no such model: {port}' >&2; exit 7";
        let mut server = Launched::start(
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
                "the server ended before it was ready (exit status: 7); it said: loading | no such model: {port}"
            )
        );
        assert_eq!(server.log, folder.path().join("server-a-b-1.log"));
        let next = Launched::start(
            "exit 0",
            "a b",
            Some(folder.path()),
            &LaunchedGroup::default(),
        )
        .unwrap();
        assert_eq!(
            next.log,
            folder.path().join("server-a-b-2.log"),
            "no log is written over"
        );
    }

    /// Whether a process runs: one that has ended and that nobody has asked about does not.
    #[cfg(target_os = "linux")]
    fn runs(process: &str) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_whole_group_ends_with_the_server() {
        let folder = tempfile::tempdir().unwrap();
        // The leader ends when it is asked to, and its child does not.
        let command = "sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait";
        let mut server =
            Launched::start(command, "x", Some(folder.path()), &LaunchedGroup::default()).unwrap();
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
    fn the_user_need_not_wait() {
        let folder = tempfile::tempdir().unwrap();
        let (runtime, shutdown) = (Runtime::new().unwrap(), Shutdown::new());
        let mut server = Launched::start(
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
