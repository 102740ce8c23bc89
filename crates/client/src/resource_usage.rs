//! Client overhead: CPU time, memory and connections that a run uses.
//!
//! All values are read from the operating system before and after the run, never during it. Values
//! that the system does not provide are `None`.

use std::num::NonZero;
use std::time::Duration;

use super::client::Client;
use super::clock;
use sobench_core::proc_status::status_bytes;

/// The client overhead of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceUsage {
    /// From the start of the run until after its last request: the time over which CPU time was
    /// counted.
    pub wall: Duration,
    /// User and system CPU time of all threads of this process.
    pub cpu: Option<Duration>,
    /// The share of the machine's CPU time in use, by all processes, 0 to 1 (Linux).
    pub machine_busy: Option<f64>,
    /// Cores that this process may use.
    pub cores: Option<usize>,
    /// Threads of this client and of the concurrent runs; `None` for as many as there are cores.
    pub threads: Option<usize>,
    /// Concurrent runs in this process: CPU time and memory include theirs.
    pub other_runs: usize,
    /// Peak resident memory of this process, including the time before the run (Linux).
    pub peak_memory_bytes: Option<u64>,
    /// Implausible kernel time stamps of received packets, over all concurrent runs; `None` if
    /// there were none.
    pub implausible_stamps: Option<u64>,
    /// Connections opened by the client, including those before the run.
    pub connections_opened: u64,
    /// Connections that a request had to wait for because no open one was free. The wait is between
    /// due and sent.
    pub connections_waited_for: u64,
}

impl ResourceUsage {
    /// Adds concurrent runs in this process, each with the same number of threads.
    pub(super) fn with_other_runs(self, other_runs: usize) -> Self {
        Self {
            threads: self.threads.map(|threads| threads * (other_runs + 1)),
            other_runs,
            ..self
        }
    }
}

/// A measurement under way.
pub(super) struct Meter {
    cpu: Option<Duration>,
    machine: Option<MachineTime>,
    implausible_stamps: u64,
}

impl Meter {
    pub(super) fn start() -> Self {
        Self {
            cpu: process_cpu(),
            machine: machine_time(),
            implausible_stamps: clock::implausible_stamps(),
        }
    }

    /// The usage over the `wall_ns` since the start.
    pub(super) fn stop(self, client: &Client, wall_ns: u64) -> ResourceUsage {
        let (connections_opened, connections_waited_for) = client.connections();
        ResourceUsage {
            wall: Duration::from_nanos(wall_ns),
            cpu: process_cpu()
                .zip(self.cpu)
                .map(|(after, before)| after.saturating_sub(before)),
            machine_busy: machine_time()
                .zip(self.machine)
                .and_then(|(after, before)| after.busy_since(before)),
            threads: Some(client.thread_count()),
            other_runs: 0,
            cores: std::thread::available_parallelism().ok().map(NonZero::get),
            peak_memory_bytes: peak_memory_bytes(),
            implausible_stamps: Some(clock::implausible_stamps() - self.implausible_stamps)
                .filter(|count| *count > 0),
            connections_opened: connections_opened as u64,
            connections_waited_for: connections_waited_for as u64,
        }
    }
}

/// CPU time of the machine since boot, in kernel ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MachineTime {
    busy: u64,
    all: u64,
}

impl MachineTime {
    /// The share of the time since `before` that was not idle. `None` if no tick passed.
    fn busy_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|&all| all > 0)?;
        Some(self.busy.saturating_sub(before.busy).min(all) as f64 / all as f64)
    }

    /// Reads the first line of `/proc/stat` (proc(5)): user, nice, system, idle, iowait, irq,
    /// softirq, steal. The time of guests is part of user. Stolen time counts as busy.
    fn read(stat: &str) -> Option<Self> {
        let ticks: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .take(8)
            .map(|tick| tick.parse().ok())
            .collect::<Option<_>>()?;
        let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or(0);
        let all = ticks.iter().sum::<u64>();
        Some(Self {
            busy: all - idle,
            all,
        })
    }
}

fn machine_time() -> Option<MachineTime> {
    MachineTime::read(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The POSIX process clock: nanoseconds, unlike the ticks of `/proc/self/stat`.
fn process_cpu() -> Option<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(Duration::new(
        u64::try_from(time.tv_sec).ok()?,
        u32::try_from(time.tv_nsec).ok()?,
    ))
}

fn peak_memory_bytes() -> Option<u64> {
    peak_of(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn peak_of(status: &str) -> Option<u64> {
    status_bytes(status, "VmHWM")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_and_status_are_parsed() {
        let before = MachineTime::read("cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n").unwrap();
        assert_eq!(
            before,
            MachineTime {
                busy: 150,
                all: 1000
            }
        );
        let after = MachineTime::read("cpu  160 0 65 820 55 0 0 0 7 0\n").unwrap();
        assert_eq!(after.busy_since(before), Some(0.75));
        assert_eq!(before.busy_since(before), None);
        for odd in ["", "cpu", "cpu x", "intr 1 2 3 4"] {
            assert_eq!(MachineTime::read(odd), None, "{odd:?}");
        }
        assert_eq!(
            peak_of("Name:\tx\nVmHWM:\t    1234 kB\nVmRSS:\t 1 kB\n"),
            Some(1234 * 1024)
        );
        assert_eq!(peak_of("VmRSS:\t 1 kB\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_used_cpu_and_memory() {
        let before = process_cpu().unwrap();
        let mut sum = 0_u64;
        while process_cpu().unwrap() == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(peak_memory_bytes().unwrap() > 1 << 20);
        assert!(machine_time().is_some());
    }
}
