//! One child process with its pipes: lines in, events out.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{
    Child as Process, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio,
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::memory;
use sobench_core::error::{Error, Result};

/// Size of the kept end of stderr in bytes.
const STDERR_BYTES: usize = 16 << 10;

/// Maximum length of a line of a child, in bytes.
pub const MAX_LINE_BYTES: u64 = 64 << 20;

/// Capacity of the event queue; a full queue blocks the child.
const EVENT_QUEUE_LENGTH: usize = 64;

/// The command that starts a child process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerCommand {
    pub program: PathBuf,
    pub arguments: Vec<String>,
}

impl WorkerCommand {
    /// The current executable with a hidden subcommand.
    ///
    /// # Errors
    /// The path of the executable cannot be determined.
    pub fn current(subcommand: &str) -> Result<Self> {
        let program = std::env::current_exe().map_err(|error| {
            Error::environment(format!(
                "cannot determine the path of this executable: {error}"
            ))
        })?;
        Ok(Self {
            program,
            arguments: vec![subcommand.to_owned()],
        })
    }
}

/// An event of a child; `None` for a line that is not an event, which is the last one.
pub type Received<E> = Option<Box<E>>;

/// A running child.
pub struct Child<E> {
    process: Process,
    lines: Sender<String>,
    events: Receiver<Received<E>>,
    stderr: Option<JoinHandle<String>>,
}

/// The exit of a child.
pub struct ChildExit {
    /// `None` if the child did not exit by itself or its status is unknown.
    pub status: Option<ExitStatus>,
    /// The end of stderr.
    pub stderr: String,
}

impl<E: DeserializeOwned + Send + 'static> Child<E> {
    /// Starts a child in its own process group, so that Ctrl-C in the terminal does not reach it:
    /// the parent decides when it ends.
    pub fn start(command: &WorkerCommand) -> std::io::Result<Self> {
        let mut starting = Command::new(&command.program);
        starting
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Keeps the panic message, not the backtrace, at the end of stderr.
        starting.env("RUST_BACKTRACE", "0");
        std::os::unix::process::CommandExt::process_group(&mut starting, 0);
        let mut process = starting.spawn()?;
        let missing = || std::io::Error::other("a pipe is missing");
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let (lines, to_write) = channel();
        let (read, events) = sync_channel(EVENT_QUEUE_LENGTH);
        thread::spawn(move || write_lines(stdin, &to_write));
        thread::spawn(move || read_events(stdout, &read));
        let stderr = thread::spawn(move || tail(stderr));
        Ok(Self {
            process,
            lines,
            events,
            stderr: Some(stderr),
        })
    }

    /// Sends a line. A child that does not read it is detected by the missing events.
    pub fn send(&self, line: String) {
        let _ = self.lines.send(line);
    }

    /// The next event within a timeout; disconnected means that the child closed its output.
    pub fn next(&self, within: Duration) -> std::result::Result<Received<E>, RecvTimeoutError> {
        self.events.recv_timeout(within)
    }

    /// Peak resident memory of the child, if known.
    pub fn peak_rss_bytes(&self) -> Option<u64> {
        memory::resident(&self.process.id().to_string()).map(|resident| resident.peak_bytes)
    }

    /// Waits briefly for the child to exit, then kills it.
    pub fn wait_then_kill(mut self) -> ChildExit {
        let has_ended = (0..EXIT_POLLS).any(|_| {
            let has_ended = !matches!(self.process.try_wait(), Ok(None));
            if !has_ended {
                thread::sleep(EXIT_POLL_INTERVAL);
            }
            has_ended
        });
        let exit = self.kill();
        ChildExit {
            status: exit.status.filter(|_| has_ended),
            ..exit
        }
    }

    /// Kills the child.
    pub fn kill(mut self) -> ChildExit {
        self.end();
        let status = self.process.wait().ok();
        let stderr = self
            .stderr
            .take()
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default();
        ChildExit { status, stderr }
    }
}

impl<E> Child<E> {
    /// Kills the process group, since a grandchild could keep the pipes open. If the child has
    /// exited by itself, its own status is kept.
    fn end(&mut self) {
        if let Ok(id) = i32::try_from(self.process.id())
            && let Some(group) = rustix::process::Pid::from_raw(id)
            && matches!(self.process.try_wait(), Ok(None))
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.process.kill();
    }
}

/// Number of polls for the exit of a child that closed its output.
const EXIT_POLLS: u32 = 100;
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);

impl<E> Drop for Child<E> {
    fn drop(&mut self) {
        self.end();
        let _ = self.process.wait();
    }
}

fn write_lines(mut stdin: ChildStdin, lines: &Receiver<String>) {
    for line in lines {
        if stdin
            .write_all(line.as_bytes())
            .and_then(|()| stdin.write_all(b"\n"))
            .and_then(|()| stdin.flush())
            .is_err()
        {
            return;
        }
    }
}

/// Stops at the first line that is not an event.
fn read_events<E: DeserializeOwned>(stdout: ChildStdout, events: &SyncSender<Received<E>>) {
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut stdout)
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut line)
        {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        let event: Received<E> = serde_json::from_slice(&line).ok();
        let is_garbage = event.is_none();
        // Sent before the pipe is closed, since closing it could kill the child.
        if events.send(event).is_err() || is_garbage {
            return;
        }
    }
}

/// Reads to the end and keeps the last bytes.
fn tail(mut stderr: ChildStderr) -> String {
    let mut kept = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut buffer) {
        kept.extend_from_slice(&buffer[..read]);
        if kept.len() > 2 * STDERR_BYTES {
            kept.drain(..kept.len() - STDERR_BYTES);
        }
    }
    let start = kept.len().saturating_sub(STDERR_BYTES);
    String::from_utf8_lossy(&kept[start..]).into_owned()
}
