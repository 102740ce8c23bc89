//! Several clients that carry one load begin at one instant, and know what their clocks are off
//! each other. Knows no request.
//!
//! Shard 1 leads: it listens, and the others connect. A line of JSON is a message. Each says which
//! shard it is and which plan it has, and, when it could begin, that it is ready; when all are, the
//! leader names an instant by its clock. Each then exchanges stamps with the leader, as NTP does
//! (RFC 5905, section 8): the offset of two clocks is ((received - sent) + (answered - heard)) / 2,
//! and cannot be wrong by more than half the round trip that the exchange took. Of some tens of
//! exchanges the one with the shortest round trip counts. They are repeated after the run, so that
//! drift shows.

mod leader;
mod member;
mod wire;

use std::fmt;
use std::time::Duration;

use super::clock::Begin;
use leader::Leader;
use member::Member;
use sobench_core::error::{Error, Result};
use sobench_core::shard::{ClockOffset, Shard};
use sobench_shutdown::Shutdown;

/// From the instant at which all are ready to the begin: time for everybody to hear of it, to
/// measure clocks and to open connections.
const LEAD: Duration = Duration::from_secs(3);

/// Where shards find each other, and how long one waits for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorOptions {
    /// `HOST:PORT`, as the others find shard 1 under it.
    pub address: String,
    pub timeout: Duration,
}

/// One shard's place among the others.
pub struct Coordination {
    role: Role,
    clock: Option<ClockOffset>,
}

enum Role {
    Leader(Leader),
    Member(Member),
}

impl fmt::Debug for Coordination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordination")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

impl Coordination {
    /// Shard 1 begins to listen; the others wait for it, and say which plan they have.
    ///
    /// # Errors
    /// There is no listening there, nobody listens in time, or the plan is another one; the user
    /// stopped it.
    pub async fn join(
        options: &CoordinatorOptions,
        part: Shard,
        plan_sha256: &str,
        shutdown: &Shutdown,
    ) -> Result<Self> {
        let joining = async {
            Ok(match part.number {
                1 => Role::Leader(Leader::listen(options, part, plan_sha256).await?),
                _ => Role::Member(Member::join(options, part, plan_sha256).await?),
            })
        };
        let role = tokio::select! {
            role = joining => role?,
            () = shutdown.drain_requested() => return Err(stopped()),
        };
        Ok(Self { role, clock: None })
    }

    /// Waits until all shards are ready, and until this one knows its clock.
    ///
    /// # Errors
    /// A shard did not come in time, left, or has another plan; the begin has passed; the user
    /// stopped it.
    pub(super) async fn begin(&mut self, shutdown: &Shutdown) -> Result<Begin> {
        let beginning = async {
            match &mut self.role {
                Role::Leader(leader) => leader.begin().await,
                Role::Member(member) => member.begin().await,
            }
        };
        let (begin, clock) = tokio::select! {
            begun = beginning => begun?,
            () = shutdown.drain_requested() => return Err(stopped()),
        };
        self.clock = Some(clock);
        Ok(begin)
    }

    /// What this machine's clock is off shard 1's, as it was measured last.
    pub(super) fn clock(&self) -> Option<ClockOffset> {
        self.clock
    }

    /// Measures the clock once more, after the run. `None` where shard 1 does not answer any more.
    pub async fn measure_again(&mut self) -> Option<ClockOffset> {
        match &mut self.role {
            Role::Leader(_) => self.clock,
            Role::Member(member) => member.measure().await.ok(),
        }
    }

    /// Shard 1 stays until the others have measured their clocks, for as long as it waited for them
    /// to come; whether they have.
    pub async fn leave(self, shutdown: &Shutdown) -> bool {
        match self.role {
            Role::Member(_) => true,
            Role::Leader(leader) => tokio::select! {
                all = leader.leave() => all,
                () = shutdown.drain_requested() => false,
            },
        }
    }
}

fn stopped() -> Error {
    Error::interrupted("stopped while the other shards were waited for")
        .hint("nothing was measured")
}

#[cfg(test)]
mod tests;
