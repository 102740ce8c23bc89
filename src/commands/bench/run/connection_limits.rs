//! Raises the limits on connections and warns if they are too low.

use crate::commands::bench::session::Session;
use sobench_notices::notice::{BenchNotice, Notice};

/// Raises the open-file limit for the connections of all concurrent runs, each with a share of
/// `requests`. Returns notices on limits
/// that are too low.
pub(super) fn connection_limit_notices(
    session: &Session,
    requests: usize,
    runs: usize,
) -> Vec<Notice> {
    let options = session.client.options();
    let requests = options.part.share(requests);
    let cap = options.max_concurrency;
    let connections = cap.map_or(requests, |most| most.min(requests));
    let all = connections.saturating_mul(runs);
    let ends = if session.is_embedded() { 2 } else { 1 };
    let files = sobench_client::raise_open_file_limit(all, ends).map(|limit| {
        session.client.limit_open_connections(
            (sobench_client::max_connections_under(limit, ends) / runs).max(1),
        );
        BenchNotice::OpenFileLimit {
            open_files: limit,
            requests: all,
        }
        .into()
    });
    let ports = sobench_client::ephemeral_port_count().filter(|ports| *ports < connections as u64);
    let ports = ports.map(|ports| {
        BenchNotice::LocalPortLimit {
            ports,
            requests: connections,
        }
        .into()
    });
    files.into_iter().chain(ports).collect()
}
