//! This process's memory: how much it has, how much it had at most, how much it may have. Linux
//! only; elsewhere nothing is known.

/// Resident memory at one time, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Resident {
    pub(super) now_bytes: u64,
    /// The most since the process began, or since [`forget_peak`].
    pub(super) peak_bytes: u64,
}

/// Resident memory of a process, `self` or a number; `None` where the system cannot say.
pub(super) fn resident(process: &str) -> Option<Resident> {
    parse(&std::fs::read_to_string(format!("/proc/{process}/status")).ok()?)
}

/// Makes the peak start again from what is resident now; whether that was possible.
pub(super) fn forget_peak() -> bool {
    // proc(5): writing 5 resets the peak resident set size.
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}

/// Whether this system keeps a process to an address space.
pub(super) const HAS_LIMIT: bool = cfg!(target_os = "linux");

/// Keeps this process to an address space of `bytes`.
#[cfg(target_os = "linux")]
pub(super) fn limit(bytes: u64) -> std::io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let most = getrlimit(Resource::As).maximum.unwrap_or(u64::MAX);
    let bytes = Some(bytes.min(most));
    Ok(setrlimit(
        Resource::As,
        Rlimit {
            current: bytes,
            maximum: bytes,
        },
    )?)
}

/// There is no such limit here.
#[cfg(not(target_os = "linux"))]
pub(super) fn limit(_bytes: u64) -> std::io::Result<()> {
    Ok(())
}

/// Ends this process when its parent dies, where the system does that.
pub(super) fn die_with_parent() {
    #[cfg(target_os = "linux")]
    {
        // Where it fails, the end of stdin still ends an idle worker.
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
    fn the_status_file_is_read() {
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
    fn this_process_has_memory() {
        let resident = resident("self").unwrap();
        assert!(resident.now_bytes > 0 && resident.peak_bytes > 0);
    }
}
