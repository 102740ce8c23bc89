//! Shard 1: listens for the others, tells them the time, and names the begin. Knows no connection's
//! other end but by what it says.

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
use super::{CoordinatorOptions, LEAD};
use crate::clock::{Begin, as_ns, begin_at_unix_ns, instant_in, unix_ns};
use sobench_core::error::{Error, Result};
use sobench_core::shard::{ClockOffset, Shard};

/// How long who connects may take to say who it is.
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections at a time beside those of the shards: what knocks at an open port.
const MAX_STRANGERS: usize = 64;

/// Shards that are named where they are missing.
const MAX_NAMED: usize = 20;

pub(super) struct Leader {
    part: Shard,
    options: CoordinatorOptions,
    deadline: Instant,
    table: Arc<watch::Sender<Table>>,
    /// Listens, and attends to each that has come. Ends with this.
    _attending: JoinSet<()>,
}

/// Who has come, and how far.
#[derive(Default)]
struct Table {
    shards: BTreeMap<usize, Stage>,
    /// Why nobody can begin.
    fault: Option<Error>,
    /// What is said to all: `Start` or `Refused`.
    word: Option<Message>,
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
    /// Nobody can listen there.
    pub(super) async fn listen(
        options: &CoordinatorOptions,
        part: Shard,
        plan_sha256: &str,
    ) -> Result<Self> {
        let listener = bind(&options.address).await.map_err(|error| {
            Error::environment(format!(
                "shard 1 cannot listen for the others ({error}): {}",
                options.address
            ))
            .hint("give --coordinator a port of this machine that is free")
        })?;
        let table = Arc::new(watch::Sender::new(Table::default()));
        let mut attending = JoinSet::new();
        attending.spawn(accept(
            listener,
            part,
            plan_sha256.to_owned(),
            Arc::clone(&table),
        ));
        let deadline = instant_in(options.timeout);
        Ok(Self {
            part,
            options: options.clone(),
            deadline,
            table,
            _attending: attending,
        })
    }

    /// Waits until all are ready, and names the begin to them.
    pub(super) async fn begin(&mut self) -> Result<(Begin, ClockOffset)> {
        let of = self.part.of;
        let mut table = self.table.subscribe();
        let is_settled = |table: &Table| {
            table.fault.is_some()
                || (2..=of).all(|number| table.shards.get(&number) == Some(&Stage::Ready))
        };
        // What came before the limit counts, also where nobody looked until now.
        let is_in_time = timeout_at(self.deadline, table.wait_for(is_settled))
            .await
            .is_ok()
            || is_settled(&table.borrow());
        let fault = table.borrow().fault.clone();
        if let Some(error) = fault.or_else(|| (!is_in_time).then(|| self.missing())) {
            self.say(Message::Refused {
                words: error.what.clone(),
            });
            // Time for the word to leave.
            let _ = timeout(
                LEAD,
                table.wait_for(|table| table.shards.values().all(|stage| *stage == Stage::Gone)),
            )
            .await;
            return Err(error);
        }
        let at_ns = unix_ns().saturating_add(as_ns(LEAD));
        self.say(Message::Start { at_ns });
        let begin = begin_at_unix_ns(at_ns)
            .ok_or_else(|| Error::internal("the begin of all shards cannot be waited for"))?;
        Ok((
            begin,
            ClockOffset {
                offset_ns: 0,
                uncertainty_ns: 0,
                exchanges: 0,
            },
        ))
    }

    /// Waits until all have closed their connections.
    pub(super) async fn leave(self) -> bool {
        let mut table = self.table.subscribe();
        let all_gone =
            table.wait_for(|table| table.shards.values().all(|stage| *stage == Stage::Gone));
        timeout(self.options.timeout, all_gone).await.is_ok()
    }

    fn say(&self, word: Message) {
        self.table.send_modify(|table| table.word = Some(word));
    }

    /// Which shards are not there, or not ready.
    fn missing(&self) -> Error {
        let table = self.table.borrow();
        let named = |is_meant: &dyn Fn(Option<&Stage>) -> bool| {
            let numbers = (2..=self.part.of).filter(|number| is_meant(table.shards.get(number)));
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
        let words: Vec<String> = absent.into_iter().chain(unready).collect();
        let limit_s = self.options.timeout.as_secs_f64();
        Error::environment(format!("of {} shards, within {limit_s} s, {}", self.part.of, words.join("; ")))
            .hint("nothing was measured; start them about at the same time, or raise --coordinator-timeout")
    }
}

/// Listens where the others look, which for them need not be an address of this machine: on all of
/// its addresses, but where it is one of this machine alone.
async fn bind(address: &str) -> io::Result<TcpListener> {
    let (host, port) = address
        .rsplit_once(':')
        .ok_or(io::ErrorKind::InvalidInput)?;
    let port: u16 = port.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let own = match host.parse::<IpAddr>() {
        Ok(own) if own.is_loopback() => own,
        Ok(IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) if host == "localhost" => Ipv4Addr::LOCALHOST.into(),
        Ok(IpAddr::V4(_)) | Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    };
    TcpListener::bind((own, port)).await
}

async fn accept(
    listener: TcpListener,
    part: Shard,
    plan_sha256: String,
    table: Arc<watch::Sender<Table>>,
) {
    let mut attending = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while attending.try_join_next().is_some() {}
        let Ok((stream, _)) = accepted else {
            // Out of files, for a moment.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        if attending.len() < part.of + MAX_STRANGERS {
            attending.spawn(attend(
                stream,
                part,
                plan_sha256.clone(),
                Arc::clone(&table),
            ));
        }
    }
}

/// One connection, from its first word to its end. What does not speak our language is nobody.
async fn attend(
    stream: TcpStream,
    part: Shard,
    plan_sha256: String,
    table: Arc<watch::Sender<Table>>,
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
    let mut is_welcome = false;
    table.send_modify(|table| {
        let objection = match () {
            () if protocol != PROTOCOL => Some(format!(
                "shard {shard} speaks another version of coordination: {protocol}"
            )),
            () if of != part.of => Some(format!(
                "shard {shard} is one of {of}, and shard 1 one of {}",
                part.of
            )),
            () if other != plan_sha256 => {
                Some(format!("shard {shard} has another plan than shard 1"))
            }
            () if !(2..=of).contains(&shard) => Some(format!(
                "there are two shards 1, or there is no such shard: {shard}"
            )),
            () if table.shards.contains_key(&shard) => {
                Some(format!("there are two shards {shard}"))
            }
            () => None,
        };
        is_welcome = objection.is_none();
        match objection {
            None => drop(table.shards.insert(shard, Stage::Joined)),
            // Who comes late changes nothing for those who have begun.
            Some(words) if table.word.is_none() => {
                table.fault.get_or_insert(different(words));
            }
            Some(_) => {}
        }
    });
    if !is_welcome {
        let words = table.borrow().fault.as_ref().map_or_else(
            || "the run has begun".to_owned(),
            |fault| fault.what.clone(),
        );
        let _ = link.send(&Message::Refused { words }).await;
        return;
    }
    // Only fails where the other side is gone, as it will show below.
    let _ = link.send(&Message::Welcome {}).await;
    let _ = converse(&mut link, shard, &table).await;
    table.send_modify(|table| {
        table.shards.insert(shard, Stage::Gone);
        if table.word.is_none() {
            let error = Error::environment(format!("shard {shard} left before the begin"))
                .hint("what it said last tells why; nothing was measured");
            table.fault.get_or_insert(error);
        }
    });
}

fn different(words: String) -> Error {
    Error::usage(words).hint("start all shards of a run with the same flags and files but for --shard; nothing was measured")
}

/// Answers what a shard asks, and says to it what is said to all, until it is gone.
async fn converse(
    link: &mut Link,
    shard: usize,
    table: &Arc<watch::Sender<Table>>,
) -> io::Result<()> {
    let mut told = table.subscribe();
    let mut is_told = false;
    loop {
        let word = async {
            told.wait_for(|table| table.word.is_some())
                .await
                .ok()?
                .word
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
                    Message::Ready {} => table.send_modify(|table| {
                        table.shards.insert(shard, Stage::Ready);
                    }),
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
            Some(word) = word, if !is_told => {
                is_told = true;
                link.send(&word).await?;
                if let Message::Refused { .. } = word {
                    // Were it closed at once, what the shard says meanwhile could cost it the word.
                    let _ = timeout(LEAD, async { while link.receive().await.is_ok() {} }).await;
                    return Ok(());
                }
            }
        }
    }
}
