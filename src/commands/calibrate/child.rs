//! Runs a client process and measures its CPU time and peak memory.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use std::{io, thread};

use super::cores;
use sobench_client::clock::Stopwatch;
use sobench_process::memory;

/// Interval for reading the client's CPU time and memory. The kernel reports the peak of the memory
/// so far, so only growth after the last read is missed.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A client process that has ended.
#[derive(Debug)]
pub(super) struct FinishedClient {
    pub(super) status: ExitStatus,
    /// User and system time of the process and its children.
    pub(super) cpu_s: Option<f64>,
    /// Seconds since its start, and its CPU time up to then (Linux).
    cpu_samples: Vec<(f64, f64)>,
    pub(super) peak_memory_mib: Option<f64>,
    /// The last lines on stderr.
    pub(super) last_lines: String,
}

impl FinishedClient {
    /// The CPU time between two instants, in seconds since the start; `None` if it was not sampled
    /// at both.
    pub(super) fn cpu_s_between(&self, from_s: f64, to_s: f64) -> Option<f64> {
        let at = |at_s: f64| {
            self.cpu_samples.windows(2).find_map(|pair| {
                let [(before_s, before), (after_s, after)] = *pair else {
                    return None;
                };
                let share = (at_s - before_s) / (after_s - before_s);
                (0.0..=1.0)
                    .contains(&share)
                    .then_some(before + share * (after - before))
            })
        };
        Some(at(to_s)? - at(from_s)?)
    }
}

/// Runs the command to its end on these cores and measures it. No other child process may end
/// meanwhile.
pub(super) fn run(command: &mut Command, client_cores: &[usize]) -> io::Result<FinishedClient> {
    let before_s = cpu_s(Process::EndedChildren);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let watch = Stopwatch::start();
    let mut child = cores::spawn(command, client_cores)?;
    let last_lines = collect_stderr(&mut child);
    let mut peak_memory_mib = None;
    let mut cpu_samples = Vec::new();
    let status = loop {
        let resident = memory::resident(&child.id().to_string());
        peak_memory_mib = resident
            .map(|resident| resident.peak_bytes as f64 / f64::from(1 << 20))
            .or(peak_memory_mib);
        let cpu_s = cpu_s_of(child.id());
        cpu_samples.extend(cpu_s.map(|cpu_s| (watch.time().as_secs_f64(), cpu_s)));
        match child.try_wait()? {
            Some(status) => break status,
            None => thread::sleep(POLL_INTERVAL),
        }
    };
    let cpu_s = before_s
        .zip(cpu_s(Process::EndedChildren))
        .map(|(before_s, after_s)| after_s - before_s);
    Ok(FinishedClient {
        status,
        cpu_s,
        cpu_samples,
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

/// Whose CPU time is read.
#[derive(Clone, Copy)]
pub(super) enum Process {
    Own,
    /// All child processes that have ended and been waited for.
    EndedChildren,
}

/// User and system time so far.
pub(super) fn cpu_s(process: Process) -> Option<f64> {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = getrusage(match process {
        Process::Own => UsageWho::RUSAGE_SELF,
        Process::EndedChildren => UsageWho::RUSAGE_CHILDREN,
    })
    .ok()?;
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Some(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// CPU time so far of a process that runs; `None` on systems other than Linux, or if it has ended.
#[cfg(target_os = "linux")]
fn cpu_s_of(pid: u32) -> Option<f64> {
    let pid = nix::unistd::Pid::from_raw(pid.try_into().ok()?);
    let clock = nix::time::clock_getcpuclockid(pid).ok()?;
    Some(std::time::Duration::from(clock.now().ok()?).as_secs_f64())
}

#[cfg(not(target_os = "linux"))]
fn cpu_s_of(_pid: u32) -> Option<f64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_time_of_a_part_of_the_run_is_interpolated() {
        let mut client = run(&mut Command::new("true"), &[]).unwrap();
        client.cpu_samples = vec![(0.0, 0.0), (1.0, 0.5), (3.0, 2.5)];
        assert_eq!(client.cpu_s_between(0.5, 2.0), Some(1.25));
        assert_eq!(client.cpu_s_between(1.0, 3.0), Some(2.0));
        assert_eq!(client.cpu_s_between(1.0, 3.5), None, "after the end");
    }
}
