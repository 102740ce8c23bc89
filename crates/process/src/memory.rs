//! Resident memory, its peak and the address-space limit of a process. Linux only; unknown on other
//! systems.

/// Resident memory in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    pub now_bytes: u64,
    /// Peak since the process started, or since [`reset_peak`].
    pub peak_bytes: u64,
}

/// Resident memory of a process (`self` or a process id); `None` if unknown.
pub fn resident(process: &str) -> Option<Resident> {
    parse(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

/// Resets the peak to the current resident memory; returns whether that succeeded.
pub fn reset_peak() -> bool {
    // proc(5): writing 5 resets the peak resident set size.
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Whether the system supports address-space limits.
pub const HAS_LIMIT: bool = cfg!(target_os = "linux");

/// Limits the address space of this process to `bytes`.
#[cfg(target_os = "linux")]
pub fn limit(bytes: u64) -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard_limit = getrlimit(Resource::As).maximum.unwrap_or(u64::MAX);
    let bytes = Some(bytes.min(hard_limit));
    Ok(setrlimit(
        Resource::As,
        Rlimit {
            current: bytes,
            maximum: bytes,
        },
    )?)
}

/// No-op on systems without such a limit.
#[cfg(not(target_os = "linux"))]
pub fn limit(_bytes: u64) -> std::io::Result<()> {
    Ok(())
}

/// Makes the kernel kill this process when its parent dies, where supported.
pub fn die_with_parent() {
    #[cfg(target_os = "linux")]
    {
        // If this fails, the end of stdin still ends an idle worker.
        let _ =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
}

fn parse(status: &str) -> Option<Resident> {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib << 10)
    };
    Some(Resident {
        now_bytes: bytes("VmRSS:")?,
        peak_bytes: bytes("VmHWM:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_status_is_parsed() {
        let status = "Name:\tsobench\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n";
        assert_eq!(
            parse(status),
            Some(Resident {
                now_bytes: 1 << 20,
                peak_bytes: 2 << 20
            })
        );
        assert_eq!(parse("VmRSS:\t1024 kB\n"), None);
        assert_eq!(parse("VmHWM:\tx kB\nVmRSS:\t1 kB\n"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn own_resident_memory_is_positive() {
        let resident = resident("self").unwrap();
        assert!(resident.now_bytes > 0 && resident.peak_bytes > 0);
    }
}
