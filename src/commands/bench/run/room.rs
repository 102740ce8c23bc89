//! Whether this machine has what the connections of a run take. Knows no request.

use crate::commands::bench::session::Session;
use crate::driver;

/// Makes room for the connections of all runs that go on at once, and says where the system does not give enough.
pub(super) fn room_notices(cap: Option<usize>, session: &Session, requests: usize, runs: usize) -> Vec<String> {
    let connections = cap.map_or(requests, |most| most.min(requests));
    let all = connections.saturating_mul(runs);
    let remedy = "those past it fail here, not in the server; lower --max-concurrency, or";
    let ends = if session.is_embedded() { 2 } else { 1 };
    let files = driver::make_room(all, ends).map(|limit| {
        session.client.keep_within((driver::connections_within(limit, ends) / runs).max(1));
        format!("the system allows {limit} open files, too few for {all} requests at once, should it come to that: {remedy} raise the limit (ulimit -n)")
    });
    let ports = driver::local_ports().filter(|ports| *ports < connections as u64).map(|ports| {
        format!(
            "the system has {ports} local ports for connections to one server, too few for {connections} requests at once, should it come \
             to that: {remedy} widen net.ipv4.ip_local_port_range"
        )
    });
    files.into_iter().chain(ports).collect()
}
