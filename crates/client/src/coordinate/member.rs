//! Member (any shard but the first): connects to the leader and measures its clock offset.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::CoordinatorSettings;
use super::wire::{Link, Message, PROTOCOL};
use crate::clock::{StartInstant, instant_in, start_at_unix_ns, unix_ns};
use sobench_core::error::{Error, Result};
use sobench_core::shard::{ClockOffset, Shard};

/// Exchanges per measurement. Round trips vary on a shared network; the shortest one is used.
const EXCHANGES: usize = 32;

/// Pause between two exchanges, so that they do not all wait in the same network queue.
const EXCHANGE_PAUSE: Duration = Duration::from_millis(2);

/// Timeout of one reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause between two attempts to connect to the leader.
const CONNECT_RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct Member {
    link: Link,
    address: String,
    /// How long to wait for a message of the leader.
    deadline: Instant,
}

/// The four instants of an exchange: sent and returned by the local clock, received and answered by
/// the leader's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) sent_ns: u64,
    pub(super) received_ns: u64,
    pub(super) answered_ns: u64,
    pub(super) returned_ns: u64,
}

impl Exchange {
    /// Offset to add to the local clock to get the leader's.
    pub(super) fn offset_ns(self) -> i64 {
        let ahead = i128::from(self.received_ns) - i128::from(self.sent_ns);
        let behind = i128::from(self.answered_ns) - i128::from(self.returned_ns);
        i64::try_from((ahead + behind) / 2).unwrap_or(if ahead > 0 { i64::MAX } else { i64::MIN })
    }

    /// Time on the network, both ways.
    pub(super) fn round_trip_ns(self) -> u64 {
        let elapsed = self.returned_ns.saturating_sub(self.sent_ns);
        elapsed.saturating_sub(self.answered_ns.saturating_sub(self.received_ns))
    }
}

/// The offset by the exchange with the shortest round trip; `None` without exchanges.
pub(super) fn best_offset(exchanges: &[Exchange]) -> Option<ClockOffset> {
    let best_offset = exchanges
        .iter()
        .min_by_key(|exchange| exchange.round_trip_ns())?;
    let uncertainty_ns = best_offset.round_trip_ns().div_ceil(2);
    Some(ClockOffset {
        offset_ns: best_offset.offset_ns(),
        uncertainty_ns,
        exchanges: exchanges.len(),
    })
}

impl Member {
    /// # Errors
    /// The leader does not listen in time, or has another plan.
    pub(super) async fn join(
        options: &CoordinatorSettings,
        part: Shard,
        plan_sha256: &str,
    ) -> Result<Self> {
        let CoordinatorSettings {
            address,
            timeout: limit,
        } = options;
        let mut link = connect(address, instant_in(*limit)).await.map_err(|error| {
            Error::environment(format!("shard {part} found no coordinator within {} s ({error}): {address}", limit.as_secs_f64()))
                .hint("check that shard 1 is running and that its port is open, or raise --coordinator-timeout")
        })?;
        let join = Message::Join {
            protocol: PROTOCOL,
            shard: part.number,
            of: part.of,
            plan_sha256: plan_sha256.to_owned(),
        };
        let welcome = async {
            link.send(&join).await?;
            link.receive().await
        };
        match timeout(REPLY_TIMEOUT, welcome)
            .await
            .map_err(io::Error::from)
            .and_then(|answer| answer)
        {
            Ok(Message::Welcome {}) => {
                // The leader's timeout started earlier, and the leader decides.
                let deadline = instant_in(*limit + REPLY_TIMEOUT);
                Ok(Self {
                    link,
                    address: address.clone(),
                    deadline,
                })
            }
            Ok(Message::Refused { reason }) => Err(refused(&reason)),
            Ok(_) => Err(lost_leader(address, "unexpected reply to Join")),
            Err(error) => Err(lost_leader(address, &error.to_string())),
        }
    }

    pub(super) async fn start(&mut self) -> Result<(StartInstant, ClockOffset)> {
        let address = self.address.clone();
        let lost = |error: io::Error| lost_leader(&address, &error.to_string());
        self.link.send(&Message::Ready {}).await.map_err(lost)?;
        let message = timeout_at(self.deadline, self.link.receive()).await;
        let at_ns = match message
            .map_err(io::Error::from)
            .and_then(|message| message)
            .map_err(lost)?
        {
            Message::Start { at_ns } => at_ns,
            Message::Refused { reason } => return Err(refused(&reason)),
            _ => {
                return Err(lost_leader(
                    &address,
                    "unexpected message in place of Start",
                ));
            }
        };
        let clock = self.measure().await.map_err(lost)?;
        let local_ns = at_ns.checked_add_signed(clock.offset_ns.saturating_neg());
        let start = local_ns.and_then(start_at_unix_ns).ok_or_else(|| {
            Error::environment(format!(
                "the start instant from shard 1 had passed when it arrived: {address}"
            ))
            .hint("run the shards on a network with a round trip below a second")
        })?;
        Ok((start, clock))
    }

    /// # Errors
    /// The leader is gone.
    pub(super) async fn measure(&mut self) -> io::Result<ClockOffset> {
        let mut exchanges = Vec::with_capacity(EXCHANGES);
        while exchanges.len() < EXCHANGES {
            exchanges.push(timeout(REPLY_TIMEOUT, self.exchange()).await??);
            sleep(EXCHANGE_PAUSE).await;
        }
        best_offset(&exchanges).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    async fn exchange(&mut self) -> io::Result<Exchange> {
        let sent_at_ns = unix_ns();
        self.link
            .send(&Message::Stamp {
                sent_ns: sent_at_ns,
            })
            .await?;
        let answer = self.link.receive().await?;
        let returned_ns = unix_ns();
        match answer {
            Message::Stamped {
                sent_ns,
                received_ns,
                answered_ns,
            } if sent_ns == sent_at_ns => Ok(Exchange {
                sent_ns,
                received_ns,
                answered_ns,
                returned_ns,
            }),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

async fn connect(address: &str, deadline: Instant) -> io::Result<Link> {
    loop {
        let connected = timeout_at(deadline, TcpStream::connect(address))
            .await
            .map_err(io::Error::from)
            .and_then(|connected| connected);
        match connected.and_then(Link::new) {
            Ok(link) => return Ok(link),
            Err(error) if instant_in(CONNECT_RETRY_PAUSE) >= deadline => return Err(error),
            Err(_) => sleep(CONNECT_RETRY_PAUSE).await,
        }
    }
}

fn refused(reason: &str) -> Error {
    Error::usage(format!(
        "shard 1 refused to start: {}",
        sobench_core::printable::printable(reason, 400)
    ))
    .hint(
        "start all shards at about the same time with the same flags and files, except for --shard",
    )
}

fn lost_leader(address: &str, why: &str) -> Error {
    Error::environment(format!(
        "lost the connection to shard 1, or the address is not a coordinator ({why}): {address}"
    ))
    .hint("see the output of shard 1; no request was sent")
}
