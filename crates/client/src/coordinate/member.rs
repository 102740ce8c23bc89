//! A shard that is not the first: finds the leader, and measures its clock against the leader's.
//! Knows no other shard.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::CoordinatorOptions;
use super::wire::{Link, Message, PROTOCOL};
use crate::clock::{Begin, begin_at_unix_ns, instant_in, unix_ns};
use sobench_core::error::{Error, Result};
use sobench_core::shard::{ClockOffset, Shard};

/// Exchanges of one measurement. Round trips on a network that others use vary much, and only the
/// shortest counts.
const EXCHANGES: usize = 32;

/// Between two exchanges, so that not all of them meet the same queue.
const PAUSE: Duration = Duration::from_millis(2);

/// The most that one answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks for a leader that does not listen yet.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

pub(super) struct Member {
    link: Link,
    address: String,
    /// Until when a word of the leader is waited for.
    deadline: Instant,
}

/// The four instants of an exchange: asked and heard by the own clock, received and answered by the
/// other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) sent_ns: u64,
    pub(super) received_ns: u64,
    pub(super) answered_ns: u64,
    pub(super) heard_ns: u64,
}

impl Exchange {
    /// What has to be added to the own clock's instants for the other's.
    pub(super) fn offset_ns(self) -> i64 {
        let ahead = i128::from(self.received_ns) - i128::from(self.sent_ns);
        let behind = i128::from(self.answered_ns) - i128::from(self.heard_ns);
        i64::try_from((ahead + behind) / 2).unwrap_or(if ahead > 0 { i64::MAX } else { i64::MIN })
    }

    /// The time on the way, there and back.
    pub(super) fn round_trip_ns(self) -> u64 {
        let there = self.heard_ns.saturating_sub(self.sent_ns);
        there.saturating_sub(self.answered_ns.saturating_sub(self.received_ns))
    }
}

/// What the best of some exchanges says; `None` without any.
pub(super) fn best(exchanges: &[Exchange]) -> Option<ClockOffset> {
    let best = exchanges
        .iter()
        .min_by_key(|exchange| exchange.round_trip_ns())?;
    let uncertainty_ns = best.round_trip_ns().div_ceil(2);
    Some(ClockOffset {
        offset_ns: best.offset_ns(),
        uncertainty_ns,
        exchanges: exchanges.len(),
    })
}

impl Member {
    /// # Errors
    /// Nobody listens there in time, or the leader has another plan.
    pub(super) async fn join(
        options: &CoordinatorOptions,
        part: Shard,
        plan_sha256: &str,
    ) -> Result<Self> {
        let CoordinatorOptions {
            address,
            timeout: limit,
        } = options;
        let mut link = connect(address, instant_in(*limit)).await.map_err(|error| {
            Error::environment(format!("shard {part} found no coordinator within {} s ({error}): {address}", limit.as_secs_f64()))
                .hint("shard 1 listens there once it is ready: is it running, and is the port open? --coordinator-timeout waits longer")
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
        match timeout(ANSWER_TIMEOUT, welcome)
            .await
            .map_err(io::Error::from)
            .and_then(|answer| answer)
        {
            Ok(Message::Welcome {}) => {
                // The leader's patience began before this, and it has the last word.
                let deadline = instant_in(*limit + ANSWER_TIMEOUT);
                Ok(Self {
                    link,
                    address: address.clone(),
                    deadline,
                })
            }
            Ok(Message::Refused { words }) => Err(refused(&words)),
            Ok(_) => Err(gone(address, "its answer makes no sense")),
            Err(error) => Err(gone(address, &error.to_string())),
        }
    }

    pub(super) async fn begin(&mut self) -> Result<(Begin, ClockOffset)> {
        let address = self.address.clone();
        let lost = |error: io::Error| gone(&address, &error.to_string());
        self.link.send(&Message::Ready {}).await.map_err(lost)?;
        let word = timeout_at(self.deadline, self.link.receive()).await;
        let at_ns = match word
            .map_err(io::Error::from)
            .and_then(|word| word)
            .map_err(lost)?
        {
            Message::Start { at_ns } => at_ns,
            Message::Refused { words } => return Err(refused(&words)),
            _ => return Err(gone(&address, "its word makes no sense")),
        };
        let clock = self.measure().await.map_err(lost)?;
        let own_ns = at_ns.checked_add_signed(clock.offset_ns.saturating_neg());
        let begin = own_ns.and_then(begin_at_unix_ns).ok_or_else(|| {
            Error::environment(format!(
                "the begin that shard 1 named had passed when this shard knew of it: {address}"
            ))
            .hint("the network between them takes seconds: run the shards closer together")
        })?;
        Ok((begin, clock))
    }

    /// # Errors
    /// The leader is gone.
    pub(super) async fn measure(&mut self) -> io::Result<ClockOffset> {
        let mut exchanges = Vec::with_capacity(EXCHANGES);
        while exchanges.len() < EXCHANGES {
            exchanges.push(timeout(ANSWER_TIMEOUT, self.exchange()).await??);
            sleep(PAUSE).await;
        }
        best(&exchanges).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    async fn exchange(&mut self) -> io::Result<Exchange> {
        let asked_ns = unix_ns();
        self.link
            .send(&Message::Stamp { sent_ns: asked_ns })
            .await?;
        let answer = self.link.receive().await?;
        let heard_ns = unix_ns();
        match answer {
            Message::Stamped {
                sent_ns,
                received_ns,
                answered_ns,
            } if sent_ns == asked_ns => Ok(Exchange {
                sent_ns,
                received_ns,
                answered_ns,
                heard_ns,
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
            .and_then(|it| it);
        match connected.and_then(Link::new) {
            Ok(link) => return Ok(link),
            Err(error) if instant_in(LOOK_AGAIN) >= deadline => return Err(error),
            Err(_) => sleep(LOOK_AGAIN).await,
        }
    }
}

fn refused(words: &str) -> Error {
    Error::usage(format!("shard 1 does not begin: {}", sobench_core::printable::printable(words, 400)))
        .hint("start all shards of a run with the same flags and files but for --shard, about at the same time")
}

fn gone(address: &str, why: &str) -> Error {
    Error::environment(format!(
        "shard 1 is not there any more, or what answers there is no coordinator ({why}): {address}"
    ))
    .hint("what shard 1 said last tells why; nothing was measured")
}
