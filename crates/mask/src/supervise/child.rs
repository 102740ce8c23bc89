//! One child process with its pipes. Knows lines and events, not what they are about.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::process::{
    Child as Process, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio,
};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::memory;
use crate::plan::WorkerCommand;
use crate::protocol::{BROKEN, Event, MAX_LINE_BYTES};

/// Bytes of stderr that are kept, the last ones.
const STDERR_BYTES: usize = 16 << 10;

/// Events that wait to be taken in; a child that says more waits.
const EVENTS_WAITING: usize = 64;

/// A running child.
pub(super) struct Child {
    process: Process,
    lines: Sender<String>,
    events: Receiver<Box<Event>>,
    stderr: Option<JoinHandle<String>>,
}

/// What is left of a child.
pub(super) struct Remains {
    /// `None` where it did not end by itself, or nobody saw how.
    pub(super) status: Option<ExitStatus>,
    /// The end of what it wrote to stderr.
    pub(super) stderr: String,
}

impl Child {
    /// Starts a child, out of reach of the terminal's Ctrl-C: the parent decides when it ends.
    pub(super) fn start(command: &WorkerCommand) -> std::io::Result<Self> {
        let mut starting = Command::new(&command.program);
        starting
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // The last words are to be the cause, not where in the program it was.
        starting.env("RUST_BACKTRACE", "0");
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut starting, 0);
        let mut process = starting.spawn()?;
        let missing = || std::io::Error::other("a pipe is missing");
        let stdin = process.stdin.take().ok_or_else(missing)?;
        let stdout = process.stdout.take().ok_or_else(missing)?;
        let stderr = process.stderr.take().ok_or_else(missing)?;
        let (lines, to_write) = channel();
        let (read, events) = sync_channel(EVENTS_WAITING);
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

    /// Sends a line; that a child does not take it in shows when no event comes.
    pub(super) fn send(&self, line: String) {
        let _ = self.lines.send(line);
    }

    /// The next event, within a time; disconnected means that the child has closed its output.
    pub(super) fn next(&self, within: Duration) -> Result<Box<Event>, RecvTimeoutError> {
        self.events.recv_timeout(within)
    }

    /// The most resident memory that it had, as far as the system says so.
    pub(super) fn peak_rss_bytes(&self) -> Option<u64> {
        memory::resident(&self.process.id().to_string()).map(|resident| resident.peak_bytes)
    }

    /// Waits a moment for the child to end by itself, then ends it.
    pub(super) fn bury(mut self) -> Remains {
        let has_ended = (0..PATIENCE).any(|_| {
            let has_ended = !matches!(self.process.try_wait(), Ok(None));
            if !has_ended {
                thread::sleep(PAUSE);
            }
            has_ended
        });
        let remains = self.kill();
        Remains {
            status: remains.status.filter(|_| has_ended),
            ..remains
        }
    }

    /// Ends the child now.
    pub(super) fn kill(mut self) -> Remains {
        self.end();
        let status = self.process.wait().ok();
        let stderr = self
            .stderr
            .take()
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default();
        Remains { status, stderr }
    }

    /// Ends it with whatever it has started itself, which could keep its pipes open. It may have
    /// ended by itself; then its own status is what counts.
    fn end(&mut self) {
        #[cfg(unix)]
        if let Ok(id) = i32::try_from(self.process.id())
            && let Some(group) = rustix::process::Pid::from_raw(id)
            && matches!(self.process.try_wait(), Ok(None))
        {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.process.kill();
    }
}

/// Pauses that a child is given to end after it has closed its output.
const PATIENCE: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

impl Drop for Child {
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

/// Ends at the first line that is no event, for which a crash is sent: there is no telling what it
/// would have been.
fn read_events(stdout: ChildStdout, events: &SyncSender<Box<Event>>) {
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
        let event = serde_json::from_slice(&line);
        let is_garbage = event.is_err();
        // Told before the pipe is closed, which could be what the child dies of.
        if events
            .send(event.unwrap_or_else(|_| {
                Box::new(Event::Crashed {
                    words: BROKEN.to_owned(),
                })
            }))
            .is_err()
            || is_garbage
        {
            return;
        }
    }
}

/// Reads to the end, and keeps the last bytes.
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
