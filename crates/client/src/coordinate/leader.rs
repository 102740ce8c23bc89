//! Leader (shard 1): accepts the other shards, answers their time stamps and sets the start
//! instant.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::wire::{Link, Message, PROTOCOL};
use super::{CoordinatorSettings, LEAD};
use crate::clock::{StartInstant, as_ns, instant_in, start_at_unix_ns, unix_ns};
use sobench_core::error::{Error, Result};
use sobench_core::shard::{ClockOffset, Shard};

/// How long a peer may take to send its `Join` message.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Concurrent connections of peers that are not shards, such as port scanners.
const MAX_UNKNOWN_PEERS: usize = 64;

/// The most missing shards listed in an error.
const MAX_NAMED: usize = 20;

pub(super) struct Leader {
    part: Shard,
    options: CoordinatorSettings,
    deadline: Instant,
    state: Arc<watch::Sender<SharedState>>,
    /// Accepts and serves connections; aborted when this is dropped.
    _connections: JoinSet<()>,
}

/// The state of each shard.
#[derive(Default)]
struct SharedState {
    shards: BTreeMap<usize, Stage>,
    /// Why the run cannot start.
    refusal: Option<Error>,
    /// The message to all shards: `Start` or `Refused`.
    message_to_all: Option<Message>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Joined,
    Ready,
    /// Its connection is closed.
    Gone,
}

impl Leader {
    /// # Errors
    /// The address cannot be bound.
    pub(super) async fn listen(
        options: &CoordinatorSettings,
        part: Shard,
        plan_sha256: &str,
    ) -> Result<Self> {
        let listener = bind(&options.address).await.map_err(|error| {
            Error::environment(format!(
                "shard 1 cannot listen on the coordinator address ({error}): {}",
                options.address
            ))
            .hint("give --coordinator a free port of this machine")
        })?;
        let state = Arc::new(watch::Sender::new(SharedState::default()));
        let mut connections = JoinSet::new();
        connections.spawn(accept(
            listener,
            part,
            plan_sha256.to_owned(),
            Arc::clone(&state),
        ));
        let deadline = instant_in(options.timeout);
        Ok(Self {
            part,
            options: options.clone(),
            deadline,
            state,
            _connections: connections,
        })
    }

    /// Waits until all shards are ready, and sends them the start instant.
    pub(super) async fn start(&mut self) -> Result<(StartInstant, ClockOffset)> {
        let of = self.part.of;
        let mut state = self.state.subscribe();
        let is_settled = |state: &SharedState| {
            state.refusal.is_some()
                || (2..=of).all(|number| state.shards.get(&number) == Some(&Stage::Ready))
        };
        // Shards that were ready before the deadline count, even if this is polled later.
        let is_in_time = timeout_at(self.deadline, state.wait_for(is_settled))
            .await
            .is_ok()
            || is_settled(&state.borrow());
        let refusal = state.borrow().refusal.clone();
        if let Some(error) = refusal.or_else(|| (!is_in_time).then(|| self.missing())) {
            self.send_to_all(Message::Refused {
                reason: error.what.clone(),
            });
            // Give the message time to be sent.
            let _ = timeout(
                LEAD,
                state.wait_for(|state| state.shards.values().all(|stage| *stage == Stage::Gone)),
            )
            .await;
            return Err(error);
        }
        let at_ns = unix_ns().saturating_add(as_ns(LEAD));
        self.send_to_all(Message::Start { at_ns });
        let start = start_at_unix_ns(at_ns)
            .ok_or_else(|| Error::internal("the start instant of the shards is out of range"))?;
        Ok((
            start,
            ClockOffset {
                offset_ns: 0,
                uncertainty_ns: 0,
                exchanges: 0,
            },
        ))
    }

    /// Waits until all shards have closed their connections.
    pub(super) async fn leave(self) -> bool {
        let mut state = self.state.subscribe();
        let all_gone =
            state.wait_for(|state| state.shards.values().all(|stage| *stage == Stage::Gone));
        timeout(self.options.timeout, all_gone).await.is_ok()
    }

    fn send_to_all(&self, message_to_all: Message) {
        self.state
            .send_modify(|state| state.message_to_all = Some(message_to_all));
    }

    /// The error that lists the shards that did not join or are not ready.
    fn missing(&self) -> Error {
        let state = self.state.borrow();
        let named = |is_meant: &dyn Fn(Option<&Stage>) -> bool| {
            let numbers = (2..=self.part.of).filter(|number| is_meant(state.shards.get(number)));
            let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
            let more = numbers.len().saturating_sub(MAX_NAMED);
            let shown = numbers[..numbers.len() - more].join(", ");
            (!numbers.is_empty()).then(|| {
                if more > 0 {
                    format!("{shown} and {more} more")
                } else {
                    shown
                }
            })
        };
        let absent = named(&|stage| stage.is_none()).map(|names| format!("did not join: {names}"));
        let unready = named(&|stage| stage == Some(&Stage::Joined))
            .map(|names| format!("did not become ready: {names}"));
        let problems: Vec<String> = absent.into_iter().chain(unready).collect();
        let limit_s = self.options.timeout.as_secs_f64();
        Error::environment(format!(
            "of {} shards, within {limit_s} s, {}",
            self.part.of,
            problems.join("; ")
        ))
        .hint("start the shards at about the same time, or raise --coordinator-timeout")
    }
}

/// Binds the port of the coordinator address. The host may be a name that only the other shards can
/// resolve, so all interfaces are bound, except for a loopback address.
async fn bind(address: &str) -> io::Result<TcpListener> {
    let (host, port) = address
        .rsplit_once(':')
        .ok_or(io::ErrorKind::InvalidInput)?;
    let port: u16 = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let local = match host.parse::<IpAddr>() {
        Ok(local) if local.is_loopback() => local,
        Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) if host == "localhost" => Ipv4Addr::LOCALHOST.into(),
        Ok(IpAddr::V4(_)) | Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    };
    TcpListener::bind((local, port)).await
}

async fn accept(
    listener: TcpListener,
    part: Shard,
    plan_sha256: String,
    state: Arc<watch::Sender<SharedState>>,
) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            // Out of file descriptors for a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if connections.len() < part.of + MAX_UNKNOWN_PEERS {
            connections.spawn(handle_peer(
                stream,
                part,
                plan_sha256.clone(),
                Arc::clone(&state),
            ));
        }
    }
}

/// Serves one connection. Peers that send no `Join`, or an invalid one, are ignored.
async fn handle_peer(
    stream: TcpStream,
    part: Shard,
    plan_sha256: String,
    state: Arc<watch::Sender<SharedState>>,
) {
    let Ok(mut link) = Link::new(stream) else {
        return;
    };
    let Ok(Ok(Message::Join {
        protocol,
        shard,
        of,
        plan_sha256: other,
    })) = timeout(JOIN_TIMEOUT, link.receive()).await
    else {
        return;
    };
    let mut is_accepted = false;
    state.send_modify(|state| {
        let objection = match () {
            () if protocol != PROTOCOL => Some(format!(
                "shard {shard} uses another version of the coordination protocol: {protocol}"
            )),
            () if of != part.of => Some(format!(
                "shard {shard} is one of {of}, but shard 1 is one of {}",
                part.of
            )),
            () if other != plan_sha256 => {
                Some(format!("shard {shard} has another plan than shard 1"))
            }
            () if !(2..=of).contains(&shard) => {
                Some(format!("duplicate or unknown shard: {shard}"))
            }
            () if state.shards.contains_key(&shard) => Some(format!("duplicate shard {shard}")),
            () => None,
        };
        is_accepted = objection.is_none();
        match objection {
            None => drop(state.shards.insert(shard, Stage::Joined)),
            // A late shard does not affect a run that has started.
            Some(reason) if state.message_to_all.is_none() => {
                state.refusal.get_or_insert(plan_mismatch(reason));
            }
            Some(_) => {}
        }
    });
    if !is_accepted {
        let reason = state.borrow().refusal.as_ref().map_or_else(
            || "the run has started".to_owned(),
            |refusal| refusal.what.clone(),
        );
        let _ = link.send(&Message::Refused { reason }).await;
        return;
    }
    // Fails only if the peer is gone, which `serve` reports.
    let _ = link.send(&Message::Welcome {}).await;
    let _ = serve(&mut link, shard, &state).await;
    state.send_modify(|state| {
        state.shards.insert(shard, Stage::Gone);
        if state.message_to_all.is_none() {
            let error = Error::environment(format!("shard {shard} left before the start"))
                .hint("see the output of that shard; no request was sent");
            state.refusal.get_or_insert(error);
        }
    });
}

fn plan_mismatch(reason: String) -> Error {
    Error::usage(reason).hint("start all shards with the same flags and files, except for --shard")
}

/// Answers the shard's time stamps and sends it the message to all, until it is gone.
async fn serve(
    link: &mut Link,
    shard: usize,
    state: &Arc<watch::Sender<SharedState>>,
) -> io::Result<()> {
    let mut updates = state.subscribe();
    let mut is_sent = false;
    loop {
        let message_to_all = async {
            updates
                .wait_for(|state| state.message_to_all.is_some())
                .await
                .ok()?
                .message_to_all
                .clone()
        };
        tokio::select! {
            biased;
            message = link.receive() => {
                let received_ns = unix_ns();
                match message? {
                    Message::Stamp { sent_ns } => {
                        let answered_ns = unix_ns();
                        link.send(&Message::Stamped { sent_ns, received_ns, answered_ns }).await?;
                    }
                    Message::Ready {} => state.send_modify(|state| {
                        state.shards.insert(shard, Stage::Ready);
                    }),
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
            Some(message_to_all) = message_to_all, if !is_sent => {
                is_sent = true;
                link.send(&message_to_all).await?;
                if let Message::Refused { .. } = message_to_all {
                    // Closing at once could reset the connection before the shard has read the
                    // message.
                    let _ = timeout(LEAD, async { while link.receive().await.is_ok() {} }).await;
                    return Ok(());
                }
            }
        }
    }
}
