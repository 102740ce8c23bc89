//! Open-file limit and local ports of this machine, and errors when they are exhausted.

use super::connection_hint::causes;

/// Files needed besides connections: standard streams, result files and those of the runtime.
const RESERVED_FILES: u64 = 256;

/// The open files that the connections need: two each if the embedded server holds the other ends
/// in this process.
fn needed_for(connections: usize, ends: u64) -> u64 {
    u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_mul(ends)
        .saturating_add(RESERVED_FILES)
}

/// Raises the soft open-file limit of the process for this many connections, each with `ends` ends
/// in this process, up to the hard limit. Never lowers it. Returns the resulting limit if it is too
/// low. The default on many systems is 1,024, which a thousand concurrent requests exceed. Requests
/// beyond the limit fail with [`sobench_core::observation::TransportCause::Local`], which does not
/// count as a server failure.
pub fn raise_open_file_limit(connections: usize, ends: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let needed = needed_for(connections, ends);
    let limit = getrlimit(Resource::Nofile);
    // `None` means no limit.
    let current = limit.current?;
    let wanted = limit.maximum.map_or(needed, |most| most.min(needed));
    if wanted > current {
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(wanted),
                maximum: limit.maximum,
            },
        );
    }
    getrlimit(Resource::Nofile)
        .current
        .filter(|reached| *reached < needed)
}

/// Files that a run opens besides its connections: run log, result, report page.
const RUN_FILES: u64 = 16;

/// Assumed number of open files if the system does not report it.
const ASSUMED_OPEN_FILES: u64 = 32;

/// The number of connections possible under an open-file limit that is too low. Leaves files for
/// the run itself and, if the server is in this process (`ends` is 2), for the other ends;
/// otherwise the two could deadlock.
pub fn max_connections_under(limit: u64, ends: u64) -> usize {
    // Linux lists them, including the one used for listing.
    let open_files =
        std::fs::read_dir("/proc/self/fd").map_or(ASSUMED_OPEN_FILES, |files| files.count() as u64);
    within(limit, open_files, ends)
}

fn within(limit: u64, open_files: u64, ends: u64) -> usize {
    usize::try_from(limit.saturating_sub(open_files + RUN_FILES) / ends.max(1))
        .unwrap_or(usize::MAX)
        .max(1)
}

/// The system's error for too many open files.
pub(super) fn too_many_open_files() -> std::io::Error {
    nix::errno::Errno::EMFILE.into()
}

/// Number of ephemeral ports for connections to one server, if the system reports it (Linux).
pub fn ephemeral_port_count() -> Option<u64> {
    ports_in(&std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

/// Parses `ip_local_port_range` (ip(7)): the first and the last port.
fn ports_in(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    last.checked_sub(first)?.checked_add(1)
}

/// The exhausted local resource and a hint, if that is why no connection could be made; `None` for
/// other errors. Found by the system's error number, not by text.
pub(super) fn exhausted_resource(
    error: &(dyn std::error::Error + 'static),
) -> Option<&'static str> {
    causes(error).find_map(|error| {
        error
            .downcast_ref::<std::io::Error>()?
            .raw_os_error()
            .and_then(resource_of_errno)
    })
}

fn resource_of_errno(number: i32) -> Option<&'static str> {
    use nix::errno::Errno;
    match Errno::from_raw(number) {
        Errno::EMFILE => Some(
            "open-file limit of sobench reached: lower --max-concurrency, or raise the limit (ulimit -n)",
        ),
        Errno::ENFILE => Some(
            "open-file limit of the system reached: lower --max-concurrency, or raise fs.file-max",
        ),
        Errno::EADDRNOTAVAIL => Some(
            "no local port or address available for the connection: lower --max-concurrency or --request-rate, or widen net.ipv4.ip_local_port_range (the port of a closed connection is free again after a minute)",
        ),
        Errno::ENOBUFS | Errno::ENOMEM => {
            Some("no memory for another connection: lower --max-concurrency")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_shared_by_both_ends() {
        for (limit, open_files, ends, expected) in [
            (64, 24, 2, 12),
            (64, 24, 1, 24),
            (40, 30, 2, 1),
            (10, 30, 1, 1),
            (u64::MAX, 0, 0, usize::MAX - 16),
        ] {
            assert_eq!(within(limit, open_files, ends), expected);
        }
    }

    #[test]
    fn port_ranges_are_counted() {
        for (range, expected) in [
            ("32768\t60999\n", Some(28_232)),
            ("1024 1024", Some(1)),
            ("2 1", None),
            ("", None),
            ("1", None),
            ("a b", None),
        ] {
            assert_eq!(ports_in(range), expected, "{range:?}");
        }
    }

    #[test]
    fn exhausted_resources_come_with_a_hint() {
        use nix::errno::Errno;
        let hint = |number: Errno| {
            let error = std::io::Error::from_raw_os_error(number as i32);
            exhausted_resource(&std::io::Error::other(error))
        };
        for (number, expected) in [
            (Errno::EMFILE, "ulimit -n"),
            (Errno::ENFILE, "fs.file-max"),
            (Errno::EADDRNOTAVAIL, "ip_local_port_range"),
            (Errno::ENOBUFS, "--max-concurrency"),
            (Errno::ENOMEM, "--max-concurrency"),
        ] {
            assert!(
                hint(number).is_some_and(|hint| hint.contains(expected)),
                "{number}"
            );
        }
        for number in [
            Errno::ECONNREFUSED,
            Errno::ECONNRESET,
            Errno::ETIMEDOUT,
            Errno::EHOSTUNREACH,
            Errno::ENETUNREACH,
        ] {
            assert_eq!(hint(number), None, "{number}");
        }
        assert_eq!(
            exhausted_resource(&std::io::Error::other("no number")),
            None
        );
    }

    #[test]
    fn needed_files_include_both_ends_and_a_reserve() {
        for (connections, ends, expected) in [
            (1_000, 2, 2_256),
            (1_000, 1, 1_256),
            (usize::MAX, 2, u64::MAX),
        ] {
            assert_eq!(needed_for(connections, ends), expected);
        }
    }

    #[test]
    fn the_limit_is_never_lowered() {
        use rustix::process::{Resource, getrlimit};
        let before = getrlimit(Resource::Nofile);
        assert_eq!(
            (raise_open_file_limit(1, 1), getrlimit(Resource::Nofile)),
            (None, before)
        );
        let short = raise_open_file_limit(usize::MAX, 1);
        let after = getrlimit(Resource::Nofile);
        assert!(after.current.is_none() || after.current >= before.current);
        assert_eq!((after.maximum, short), (before.maximum, after.current));
    }
}
