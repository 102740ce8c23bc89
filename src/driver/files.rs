//! The limit of open files, which bounds connections. Knows no connection.

/// What the program needs beside its connections: standard streams, result files, the runtime's own.
const SPARE_FILES: u64 = 256;

/// The open files that so many connections need. Twice as many: the embedded server holds the other ends in the same process.
fn needed_for(connections: usize) -> u64 {
    u64::try_from(connections).unwrap_or(u64::MAX).saturating_mul(2).saturating_add(SPARE_FILES)
}

/// Makes room for so many connections at once: raises the process's soft limit of open files, as far as its hard limit allows,
/// and never lowers it. Returns the limit that stands where that is too low.
///
/// Many systems start with 1,024, which a thousand requests at once run into. The connections past the limit are observations
/// (`transport`, "too many open files") that say nothing of the server.
#[cfg(unix)]
pub fn make_room(connections: usize) -> Option<u64> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let needed = needed_for(connections);
    let limit = getrlimit(Resource::Nofile);
    // `None` is "no limit".
    let current = limit.current?;
    let wanted = limit.maximum.map_or(needed, |most| most.min(needed));
    if wanted > current {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
    getrlimit(Resource::Nofile).current.filter(|reached| *reached < needed)
}

/// Elsewhere sockets are not files.
#[cfg(not(unix))]
pub fn make_room(_connections: usize) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_and_some_spare() {
        assert_eq!(needed_for(1_000), 2_256);
        assert_eq!(needed_for(usize::MAX), u64::MAX);
    }

    #[cfg(unix)]
    #[test]
    fn the_limit_only_rises() {
        use rustix::process::{Resource, getrlimit};
        let before = getrlimit(Resource::Nofile);
        assert_eq!((make_room(1), getrlimit(Resource::Nofile)), (None, before));
        let short = make_room(usize::MAX);
        let after = getrlimit(Resource::Nofile);
        assert!(after.current.is_none() || after.current >= before.current);
        assert_eq!((after.maximum, short), (before.maximum, after.current));
    }
}
