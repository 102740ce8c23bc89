//! Runs a client process and measures its CPU time and peak memory.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{io, thread};

/// Interval for reading the client's memory. The kernel reports the peak so far, so only growth
/// after the last read is missed.
const MEMORY_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A client process that has ended.
#[derive(Debug)]
pub(super) struct FinishedClient {
    pub(super) status: ExitStatus,
    /// User and system time of the process and its children.
    pub(super) cpu_s: Option<f64>,
    pub(super) peak_memory_mib: Option<f64>,
    /// The last lines on stderr.
    pub(super) last_lines: String,
}

/// Runs the command to its end and measures it. No other child process may end meanwhile.
pub(super) fn run(command: &mut Command) -> io::Result<FinishedClient> {
    let before_s = children_cpu_s();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let last_lines = collect_stderr(&mut child);
    let mut peak_memory_mib = None;
    let status = loop {
        peak_memory_mib = peak_memory_of(child.id()).or(peak_memory_mib);
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(MEMORY_POLL_INTERVAL),
        }
    };
    let cpu_s = before_s
        .zip(children_cpu_s())
        .map(|(before_s, after_s)| after_s - before_s);
    Ok(FinishedClient {
        status,
        cpu_s,
        peak_memory_mib,
        last_lines: last_lines.join().unwrap_or_default(),
    })
}

/// Reads stderr in a thread, so that a client does not block on a full pipe.
fn collect_stderr(child: &mut Child) -> thread::JoinHandle<String> {
    let stderr = child.stderr.take();
    thread::spawn(move || {
        let all = stderr
            .and_then(|stderr| io::read_to_string(stderr).ok())
            .unwrap_or_default();
        let last: Vec<&str> = all
            .lines()
            .rev()
            .filter(|line| !line.trim().is_empty())
            .take(3)
            .collect();
        last.into_iter().rev().collect::<Vec<_>>().join(" / ")
    })
}

/// CPU time of all child processes that have ended and been waited for.
#[cfg(unix)]
fn children_cpu_s() -> Option<f64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

#[cfg(not(unix))]
fn children_cpu_s() -> Option<f64> {
    None
}

/// `VmHWM` (Linux); `None` on other systems, or if the process has ended.
fn peak_memory_of(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}
