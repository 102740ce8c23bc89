//! What this machine has to give for connections, open files and local ports, and what it says when
//! they have run out. Knows no connection.

use super::remedy::causes;

/// What the program needs beside its connections: standard streams, result files, the runtime's
/// own.
const SPARE_FILES: u64 = 256;

/// The open files that so many connections need: two each where the other ends are in this process
/// as well, with the embedded server.
fn needed_for(connections: usize, ends: u64) -> u64 {
    u64::try_from(connections)
        .unwrap_or(u64::MAX)
        .saturating_mul(ends)
        .saturating_add(SPARE_FILES)
}

/// Makes room for so many connections at once, of each of which so many ends are in this process:
/// raises the process's soft limit of open files, as far as its hard limit allows, and never lowers
/// it. Returns the limit that stands where that is too low.
///
/// Many systems start with 1,024, which a thousand requests at once run into. The connections past
/// the limit are observations ([`sobench_core::observation::TransportCause::Local`]) that say
/// nothing of the server.
#[cfg(unix)]
pub fn make_room(connections: usize, ends: u64) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let needed = needed_for(connections, ends);
    let limit = getrlimit(Resource::Nofile);
    // `None` is "no limit".
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

/// Elsewhere sockets are not files.
#[cfg(not(unix))]
pub fn make_room(_connections: usize, _ends: u64) -> Option<u64> {
    None
}

/// Files that a run opens besides its connections: its log, a result, a page.
const OWN_FILES: u64 = 16;

/// What is open beforehand where the system does not say.
const USUALLY_OPEN: u64 = 32;

/// How many connections there may be under a limit of open files that is too low, so that neither
/// the run's own files nor, where the server is in this process (`ends` is 2), the other ends find
/// none: the two would wait for each other.
pub fn connections_within(limit: u64, ends: u64) -> usize {
    // Linux lists them; the one that lists is among them.
    let open =
        std::fs::read_dir("/proc/self/fd").map_or(USUALLY_OPEN, |files| files.count() as u64);
    within(limit, open, ends)
}

fn within(limit: u64, open: u64, ends: u64) -> usize {
    usize::try_from(limit.saturating_sub(open + OWN_FILES) / ends.max(1))
        .unwrap_or(usize::MAX)
        .max(1)
}

/// What the system says to who may open no more files.
#[cfg(unix)]
pub(super) fn no_more_files() -> std::io::Error {
    nix::errno::Errno::EMFILE.into()
}

#[cfg(not(unix))]
pub(super) fn no_more_files() -> std::io::Error {
    std::io::Error::other("no more connections")
}

/// Local ports that the system gives out to connections to one server, where it says so (Linux).
pub fn local_ports() -> Option<u64> {
    ports_in(&std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?)
}

/// Reads `ip_local_port_range` (ip(7)): the first and the last.
fn ports_in(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(str::parse::<u64>);
    let (first, last) = (ends.next()?.ok()?, ends.next()?.ok()?);
    last.checked_sub(first)?.checked_add(1)
}

/// What ran out where no connection could be made for want of something that this machine gives,
/// and what to do; `None` for every other error. By the system's own numbers, never by words.
pub(super) fn ran_out(error: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    causes(error).find_map(|error| {
        error
            .downcast_ref::<std::io::Error>()?
            .raw_os_error()
            .and_then(lacking)
    })
}

#[cfg(unix)]
fn lacking(number: i32) -> Option<&'static str> {
    use nix::errno::Errno;
    match Errno::from_raw(number) {
        Errno::EMFILE => Some(
            "sobench may open no more files: lower --max-concurrency, or raise the limit (ulimit -n)",
        ),
        Errno::ENFILE => Some(
            "the whole system may open no more files: lower --max-concurrency, or raise fs.file-max",
        ),
        Errno::EADDRNOTAVAIL => Some(
            "no local port, or no address, is left for a connection there: lower --max-concurrency or --request-rate, or widen \
             net.ipv4.ip_local_port_range; the port of a closed connection comes back after a minute",
        ),
        Errno::ENOBUFS | Errno::ENOMEM => {
            Some("the system has no memory for another connection: lower --max-concurrency")
        }
        _ => None,
    }
}

#[cfg(not(unix))]
fn lacking(_number: i32) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_end_takes_the_others_files() {
        for (limit, open, ends, expected) in [
            (64, 24, 2, 12),
            (64, 24, 1, 24),
            (40, 30, 2, 1),
            (10, 30, 1, 1),
            (u64::MAX, 0, 0, usize::MAX - 16),
        ] {
            assert_eq!(within(limit, open, ends), expected);
        }
    }

    #[test]
    fn ranges_of_ports_are_counted() {
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

    #[cfg(unix)]
    #[test]
    fn what_ran_out_is_named_with_what_to_do() {
        use nix::errno::Errno;
        let words = |number: Errno| {
            let error = std::io::Error::from_raw_os_error(number as i32);
            ran_out(&std::io::Error::other(error))
        };
        for (number, expected) in [
            (Errno::EMFILE, "ulimit -n"),
            (Errno::ENFILE, "fs.file-max"),
            (Errno::EADDRNOTAVAIL, "ip_local_port_range"),
            (Errno::ENOBUFS, "--max-concurrency"),
            (Errno::ENOMEM, "--max-concurrency"),
        ] {
            assert!(
                words(number).is_some_and(|words| words.contains(expected)),
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
            assert_eq!(words(number), None, "{number}");
        }
        assert_eq!(ran_out(&std::io::Error::other("no number")), None);
    }

    #[test]
    fn the_ends_that_are_here_and_some_spare() {
        for (connections, ends, expected) in [
            (1_000, 2, 2_256),
            (1_000, 1, 1_256),
            (usize::MAX, 2, u64::MAX),
        ] {
            assert_eq!(needed_for(connections, ends), expected);
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_limit_only_rises() {
        use rustix::process::{Resource, getrlimit};
        let before = getrlimit(Resource::Nofile);
        assert_eq!(
            (make_room(1, 1), getrlimit(Resource::Nofile)),
            (None, before)
        );
        let short = make_room(usize::MAX, 1);
        let after = getrlimit(Resource::Nofile);
        assert!(after.current.is_none() || after.current >= before.current);
        assert_eq!((after.maximum, short), (before.maximum, after.current));
    }
}
