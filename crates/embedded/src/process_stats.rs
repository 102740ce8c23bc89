//! Memory and CPU time of this process, for `/metrics`. Values that the system does not provide are
//! `None`.

use serde::Serialize;

use sobench_core::proc_status::status_bytes;

/// Memory and CPU time of the process that the server runs in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ProcessStats {
    /// Resident memory (Linux).
    pub resident_memory_bytes: Option<u64>,
    /// User and system CPU time of all threads.
    pub cpu_s: Option<f64>,
    /// When the server started, in seconds since 1970.
    pub start_time_s: u64,
}

impl ProcessStats {
    pub(super) fn read(start_time_s: u64) -> Self {
        Self {
            resident_memory_bytes: std::fs::read_to_string("/proc/self/status")
                .ok()
                .and_then(|status| status_bytes(&status, "VmRSS")),
            cpu_s: cpu_seconds(),
            start_time_s,
        }
    }
}

fn cpu_seconds() -> Option<f64> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Some(time.tv_sec as f64 + time.tv_nsec as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_cpu_time() {
        let stats = ProcessStats::read(7);
        assert!(stats.resident_memory_bytes.unwrap() > 1 << 20);
        assert!(stats.cpu_s.unwrap() > 0.0);
        assert_eq!(stats.start_time_s, 7);
    }
}
