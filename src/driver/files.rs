//! The limit of open files, which bounds connections. Knows no connection.

/// What the program needs beside its connections: standard streams, result files, the runtime's own.
const SPARE_FILES: u64 = 256;

/// The open files that so many connections need. Twice as many: the embedded server holds the other ends in the same process.
pub(super) fn needed_for(connections: usize) -> u64 {
    u64::try_from(connections).unwrap_or(u64::MAX).saturating_mul(2).saturating_add(SPARE_FILES)
}

/// Raises the process's soft limit to `needed`, as far as its hard limit allows; never lowers it.
///
/// Many systems start with 1,024, which a thousand requests at once run into. Where it cannot be raised nothing is lost but the
/// connections past it, and those are observations (`transport`, "too many open files").
#[cfg(unix)]
pub(super) fn raise_limit(needed: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    // `None` is "no limit".
    let Some(current) = limit.current else { return };
    let wanted = limit.maximum.map_or(needed, |most| most.min(needed));
    if wanted > current {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}

/// Elsewhere sockets are not files.
#[cfg(not(unix))]
pub(super) fn raise_limit(_needed: u64) {}

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
        raise_limit(1);
        assert_eq!(getrlimit(Resource::Nofile), before);
        raise_limit(u64::MAX);
        let after = getrlimit(Resource::Nofile);
        assert!(after.current.is_none() || after.current >= before.current);
        assert_eq!(after.maximum, before.maximum);
    }
}
