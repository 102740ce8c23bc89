//! Waits until the server answers a test request (`--ready-check-timeout-sec`).

use super::sending::Sending;
use crate::commands::bench::options::Target;
use sobench_client::wait_until_loaded;
use sobench_core::case::{Arm, Case};
use sobench_core::error::Result;

/// Waits until the server answers a request of the run without its constraint, or refuses it for
/// another reason. Returns the number of requests.
///
/// # Errors
/// As for [`wait_until_loaded`].
pub(super) async fn wait_for_answer(
    sending: &Sending<'_>,
    target: &Target,
    cases: &[Case],
) -> Result<usize> {
    let (Target::Server(server), Some(case)) = (target, cases.first()) else {
        return Ok(0);
    };
    let case = Case {
        arm: Arm::Control,
        ..case.clone()
    };
    let mut requests = 0;
    wait_until_loaded(&sending.session.client, server.ready_timeout, async || {
        requests += 1;
        sending.send(&case, &format!("ready-{requests}")).await
    })
    .await?;
    Ok(requests)
}
