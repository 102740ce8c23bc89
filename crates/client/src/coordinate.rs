//! Coordination of shards: several clients start one load at the same instant and measure their
//! clock offsets.
//!
//! Shard 1 leads: it listens, and the others connect. Each message is one line of JSON. A member
//! sends its shard number and the digest of its plan, and later that it is ready. When all are
//! ready, the leader sends a start instant by its clock. Each member then exchanges time stamps
//! with the leader, as NTP does (RFC 5905, section 8): the offset of two clocks is ((received -
//! sent) + (answered - returned)) / 2, with an error of at most half the round trip. Of 32
//! exchanges the one with the shortest round trip is used. The exchanges are repeated after the run
//! to show drift.

mod leader;
mod member;
mod wire;

use std::fmt;
use std::time::Duration;

use super::clock::StartInstant;
use leader::Leader;
use member::Member;
use sobench_core::error::{Error, Result};
use sobench_core::shard::{ClockOffset, Shard};
use sobench_shutdown::Shutdown;

/// From the instant at which all shards are ready to the start: time to receive the start message,
/// to measure clocks and to open connections.
const LEAD: Duration = Duration::from_secs(3);

/// The address of the coordinator, and how long shards wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorSettings {
    /// `HOST:PORT` of shard 1, as the other shards reach it.
    pub address: String,
    pub timeout: Duration,
}

/// The connection of one shard to the others.
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
    /// Starts to listen (shard 1), or connects to shard 1 and sends the plan's digest (other
    /// shards).
    ///
    /// # Errors
    /// The address cannot be bound, shard 1 does not listen in time, the plans differ, or the user
    /// stopped the run.
    pub async fn join(
        options: &CoordinatorSettings,
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

    /// Waits until all shards are ready and the clock offset is measured.
    ///
    /// # Errors
    /// A shard did not join in time, left, or has another plan; the start instant has passed; the
    /// user stopped the run.
    pub(super) async fn start(&mut self, shutdown: &Shutdown) -> Result<StartInstant> {
        let starting = async {
            match &mut self.role {
                Role::Leader(leader) => leader.start().await,
                Role::Member(member) => member.start().await,
            }
        };
        let (start, clock) = tokio::select! {
            started = starting => started?,
            () = shutdown.drain_requested() => return Err(stopped()),
        };
        self.clock = Some(clock);
        Ok(start)
    }

    /// The offset of this machine's clock from that of shard 1, as measured last.
    pub(super) fn clock(&self) -> Option<ClockOffset> {
        self.clock
    }

    /// Measures the clock offset again, after the run. `None` if shard 1 does not answer.
    pub async fn measure_again(&mut self) -> Option<ClockOffset> {
        match &mut self.role {
            Role::Leader(_) => self.clock,
            Role::Member(member) => member.measure().await.ok(),
        }
    }

    /// Shard 1 waits until the others have measured their clocks, at most the coordinator timeout.
    /// Returns whether they have.
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
    Error::interrupted("stopped while waiting for the other shards")
        .hint("start all shards again; no request was sent")
}

#[cfg(test)]
mod tests;
