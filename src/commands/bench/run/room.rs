//! Whether this machine has what the connections of a run take. Knows no request.

use crate::commands::bench::session::Session;
use sobench_client as driver;
use sobench_notices::notice::{BenchNotice, Notice};

/// Makes room for the connections of all runs that go on at once, and says where the system does
/// not give enough.
pub(super) fn room_notices(
    cap: Option<usize>,
    session: &Session,
    requests: usize,
    runs: usize,
) -> Vec<Notice> {
    let connections = cap.map_or(requests, |most| most.min(requests));
    let all = connections.saturating_mul(runs);
    let ends = if session.is_embedded() { 2 } else { 1 };
    let files = driver::make_room(all, ends).map(|limit| {
        session
            .client
            .keep_within((driver::connections_within(limit, ends) / runs).max(1));
        BenchNotice::OpenFileLimit {
            open_files: limit,
            requests: all,
        }
        .into()
    });
    let ports = driver::local_ports().filter(|ports| *ports < connections as u64);
    let ports = ports.map(|ports| {
        BenchNotice::LocalPortLimit {
            ports,
            requests: connections,
        }
        .into()
    });
    files.into_iter().chain(ports).collect()
}
