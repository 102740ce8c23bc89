//! Waits until the server answers a test request (`--ready-check-timeout-sec`).
//!
//! A server may list its models before it has loaded them. As vLLM's `wait_for_endpoint`, the test
//! request is repeated until it has an answer. It carries no constraint.

use std::time::Duration;

use super::sending::Sending;
use crate::commands::bench::options::Target;
use sobench_core::case::{Arm, Case};
use sobench_core::error::{Error, Result};
use sobench_core::observation::{Outcome, failure_message};
use sobench_core::printable::printable_message;

/// Waits until the server answers, or refuses the request for another reason. Returns the number of
/// requests.
///
/// # Errors
/// The server is not ready in time, or a request cannot be sent.
pub(super) async fn wait_until_loaded(
    sending: &Sending<'_>,
    target: &Target,
    cases: &[Case],
) -> Result<usize> {
    let Target::Server(server) = target else {
        return Ok(0);
    };
    let Some(case) = cases.first().filter(|_| !server.ready_timeout.is_zero()) else {
        return Ok(0);
    };
    let case = Case {
        arm: Arm::Control,
        ..case.clone()
    };
    let pause = sending.session.client.options().limits.ready_poll;
    let mut requests = 0;
    let mut last = String::new();
    let answered = async {
        loop {
            let seen = sending.send(&case, &format!("ready-{requests}")).await?;
            requests += 1;
            if !is_loading(&seen.outcome) {
                return Ok(requests);
            }
            last = printable_message(&failure_message(&seen.outcome));
            tokio::time::sleep(pause).await;
        }
    };
    let waited = tokio::time::timeout(server.ready_timeout, answered).await;
    waited.unwrap_or_else(|_| Err(not_ready(server.ready_timeout, &last)))
}

/// Whether a server may answer the same request later: it is not up, or it loads its model.
fn is_loading(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Transport { .. }
            | Outcome::ServerError {
                status: 500..=504,
                ..
            }
    )
}

fn not_ready(timeout: Duration, last: &str) -> Error {
    Error::environment(format!(
        "the server did not answer a test request within {} s: {last}",
        timeout.as_secs_f64()
    ))
    .hint("raise --ready-check-timeout-sec, or check the server's log")
}
