//! The only loop that talks to a server. Knows instants and bytes, not what an answer means.
//!
//! One dispatcher (`dispatch.rs`) waits for each due instant in turn, then for a free slot, and
//! hands the request to a task of its own. Events go through a channel to [`run`], so that progress
//! and files cost the timed path nothing.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod breaker;
mod client;
pub mod clock;
mod coordinate;
mod cost;
mod dispatch;
mod endpoint;
mod exchange;
mod files;
mod probe;
mod queue;
mod remedy;
mod tls;
mod together;
mod transport;
mod way;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

pub use breaker::{Breaker, InARow, is_error};
pub use client::{Client, DEFAULT_REQUEST_TIMEOUT, DriverOptions, Limits};
pub use coordinate::{Coordination, CoordinatorOptions};
pub use cost::Cost;
pub use endpoint::{ApiKey, Endpoint};
pub use files::{connections_within, local_ports, make_room};
pub use probe::{ModelInfo, Page, models, order, page, version, wait_ready};
pub use remedy::names_a_remedy;
pub use together::{Beginning, Outside, PHASE, Seat, seats};
pub use transport::Socket;

use clock::Clock;
use cost::Meter;
use dispatch::{DispatchOptions, World, dispatch, unsent};
use exchange::{Body, Prepared, Sender, observe};
use queue::Queue;
use sobench_backend::{Adapter, RequestOptions, unsupported};
use sobench_core::case::{Asked, Case};
use sobench_core::error::{Error, Result};
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::run_event::{RunEvent, Tripped};
use sobench_core::schedule::{Schedule, Until};
use sobench_core::shard::Shard;
use sobench_shutdown::Shutdown;

/// The most connections that are opened before the clock starts.
const MAX_OPENED_AHEAD: usize = 8192;

/// Requests due within this time of the begin have their connections before it.
const FIRST_SPAN: Duration = Duration::from_secs(1);

/// As many connections are kept ready as requests are due within this time.
const SPARE_SPAN: Duration = Duration::from_millis(100);

/// The end of a run, after all of its events.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Cases that the run came to: all of them, unless a time ended the run; more than there are
    /// cases where they went round.
    pub cases: usize,
    /// From the begin (the instant from which due times count) to the last end of a request that
    /// was sent.
    pub duration_ns: u64,
    /// What the run took from the machine that it ran on.
    pub cost: Cost,
    /// Why it gave up, if it did.
    pub tripped: Option<Tripped>,
}

/// Sends every case when it is due and observes what happens.
///
/// Bodies are encoded before the clock starts. Due times count from the begin, one for each case;
/// cases go out in the order of their due times, and wait in that order for a free slot where
/// `max_concurrency` is set. After the first shutdown request, or at the schedule's end, no more
/// requests are sent; requests in flight have the drain timeout to end, or until the second
/// request.
///
/// Every event goes to `on_event` as it comes, and nothing of it is kept.
///
/// # Errors
/// A case that cannot be encoded (see [`sobench_backend::check`]); other runs that it is to begin
/// with do not come. What servers do is never an error, but an observation.
pub async fn run(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    cases: &[Case],
    schedule: &Schedule,
    outside: Outside<'_>,
    on_event: impl FnMut(RunEvent),
) -> Result<Ran> {
    let queue = prepare(adapter.as_ref(), request, cases, schedule, "")?;
    drive(client, adapter, request, queue, schedule, outside, on_event).await
}

/// Sends every case of a part as soon as a slot is free, as [`run`] would if all were due at once:
/// the warm-ups.
///
/// Errors: as for [`run`].
pub async fn warm_up(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    cases: &[Case],
    part: Shard,
    shutdown: &Shutdown,
) -> Result<Vec<Observation>> {
    let schedule = Schedule {
        part,
        ..Schedule::of(vec![Duration::ZERO; cases.len()])
    };
    let queue = prepare(adapter.as_ref(), request, cases, &schedule, WARMUP_LABEL)?;
    let mut observations = Vec::with_capacity(cases.len());
    let keep = |event: RunEvent| {
        if let RunEvent::Ended(observation) = event {
            observations.push(*observation);
        }
    };
    drive(
        client,
        adapter,
        request,
        queue,
        &schedule,
        shutdown.clone().into(),
        keep,
    )
    .await?;
    observations.sort_unstable_by_key(|observation| observation.case_index);
    Ok(observations)
}

/// Keeps the ids of warm-ups apart from those of the run.
const WARMUP_LABEL: &str = "warmup-";

async fn drive(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    queue: Queue,
    schedule: &Schedule,
    outside: Outside<'_>,
    mut on_event: impl FnMut(RunEvent),
) -> Result<Ran> {
    let Outside {
        shutdown,
        error_limits,
        mut beginning,
    } = outside;
    let (wanted, spare) = ahead(queue.due(), client.options().max_concurrency);
    let (sender_of_events, mut events) = unbounded_channel();
    let (begin, clock_off) = beginning
        .prepare(client.open_ahead(wanted, spare), &shutdown)
        .await?;
    let others = beginning.others();
    let meter = Meter::start();
    let clock = begin.map_or_else(Clock::start, Clock::start_at);
    let max_concurrency = client.options().max_concurrency;
    let breaker = Breaker::new(error_limits, shutdown.clone());
    let options = DispatchOptions {
        max_concurrency,
        until: schedule.until,
        shutdown: shutdown.clone(),
        breaker,
    };
    let sender = Sender {
        client: client.clone(),
        adapter,
        stream: request.stream,
        clock,
        shutdown,
    };
    // A set of one: dropping it, when the caller drops this future, ends the dispatcher and its
    // requests with it.
    let mut dispatcher = JoinSet::new();
    dispatcher.spawn(dispatch(sender, queue, options, sender_of_events));
    let owed = if schedule.until == Until::LastCase {
        schedule.due.len()
    } else {
        0
    };
    let mut ended = Ended {
        has: vec![false; owed],
        part: schedule.part,
    };
    let mut duration_ns = 0;
    let mut tripped = None;
    on_event(RunEvent::Started {
        at: clock.started(),
        clock: clock_off,
    });
    while let Some(event) = events.recv().await {
        match &event {
            RunEvent::Started { .. } => {}
            RunEvent::Sent { index } => {
                ended.place(*index);
            }
            RunEvent::Tripped(reason) => tripped = Some((**reason).clone()),
            RunEvent::Ended(observation) => {
                *ended.place(observation.case_index) = true;
                let timing = &observation.timing;
                duration_ns = timing
                    .sent_ns
                    .and(timing.end_ns)
                    .unwrap_or(0)
                    .max(duration_ns);
            }
        }
        on_event(event);
    }
    let cost = meter.stop(client, clock.now_ns()).beside(others);
    for index in ended.missing() {
        on_event(RunEvent::Ended(Box::new(lost(
            index,
            schedule.due.get(index).copied().unwrap_or_default(),
        ))));
    }
    Ok(Ran {
        cases: schedule.part.share(ended.has.len()),
        duration_ns,
        cost,
        tripped,
    })
}

/// Sends one case now, by the same path as [`run`]: the trial run and the warm-ups. Instants count
/// from the call.
///
/// `label` takes the place of the index in `x-request-id`: servers refuse or mix up equal ids of
/// requests under way, also where the clients are several.
pub async fn send_one(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    case: &Case,
    label: &str,
    shutdown: &Shutdown,
) -> Result<Observation> {
    let body = adapter
        .encode(case, request)
        .map_err(|unsendable| unsendable.into_error(case))?;
    let shutdown = shutdown.clone();
    let sender = Sender {
        client: client.clone(),
        adapter,
        stream: request.stream,
        clock: Clock::start(),
        shutdown,
    };
    let label = match client.options().part {
        Shard::WHOLE => label.to_owned(),
        part => format!("{label}-shard-{}", part.number),
    };
    let prepared = Prepared {
        index: 0,
        label,
        due: Duration::ZERO,
        body: Body::Bytes(body),
    };
    Ok(on_own_thread(&sender, prepared).await)
}

/// Encodes every body of the part that is sent, once for all cases that share it, and puts the
/// cases in the order in which they are due; cases due together keep the plan's order.
fn prepare(
    adapter: &dyn Adapter,
    request: &RequestOptions,
    cases: &[Case],
    schedule: &Schedule,
    label: &'static str,
) -> Result<Queue> {
    let Schedule { due, until, part } = schedule;
    if cases.len() != due.len() {
        return Err(Error::internal(format!(
            "{} cases with {} due times",
            cases.len(),
            due.len()
        )));
    }
    if *part != Shard::WHOLE && matches!(until, Until::Cycling(_)) {
        return Err(Error::internal("a part of cases that go round"));
    }
    let mut queue = Queue::new(label, part.share(cases.len()));
    let mut bodies: HashMap<Asked, u32> = HashMap::new();
    let taken = cases
        .iter()
        .zip(due)
        .enumerate()
        .filter(|(index, _)| part.takes(*index));
    for (index, (case, due)) in taken {
        let body = match bodies.entry(case.asked()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(place) => *place.insert(queue.body(encode(adapter, request, case)?)),
        };
        queue.push(index, *due, body);
    }
    queue.sort();
    Ok(queue)
}

fn encode(adapter: &dyn Adapter, request: &RequestOptions, case: &Case) -> Result<Body> {
    match unsupported(adapter.kind(), case) {
        Some(unsendable) => Ok(Body::Unsupported(unsendable.what.into())),
        None => Ok(Body::Bytes(
            adapter
                .encode(case, request)
                .map_err(|unsendable| unsendable.into_error(case))?,
        )),
    }
}

/// How many connections are opened before the clock starts, and how many are kept ready besides
/// those in use.
///
/// Under a cap there are never more requests under way than that. Without one, those that are due
/// within the first second have theirs, and what comes later is opened ahead of need: as many are
/// kept ready as are due within the densest [`SPARE_SPAN`]. `due` never falls.
fn ahead(due: impl Iterator<Item = Duration>, cap: Option<usize>) -> (usize, usize) {
    let due: Vec<Duration> = due.collect();
    let most = cap
        .unwrap_or(usize::MAX)
        .min(due.len())
        .min(MAX_OPENED_AHEAD);
    if cap.is_some_and(|cap| cap <= MAX_OPENED_AHEAD) {
        return (most, 0);
    }
    let soon = due.partition_point(|due| *due <= FIRST_SPAN);
    let densest = (0..due.len())
        .map(|first| due[first..].partition_point(|at| *at <= due[first] + SPARE_SPAN))
        .max();
    let spare = densest.unwrap_or(0).min(most);
    (
        (soon + spare).min(most),
        if soon == due.len() { 0 } else { spare },
    )
}

/// Which of the cases that the run came to have ended.
struct Ended {
    has: Vec<bool>,
    /// Nobody waits for the others.
    part: Shard,
}

impl Ended {
    /// The place of a case, which need not have been known of before.
    fn place(&mut self, index: usize) -> &mut bool {
        if self.has.len() <= index {
            self.has.resize(index + 1, false);
        }
        &mut self.has[index]
    }

    /// Cases without an end.
    fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let missing = self
            .has
            .iter()
            .enumerate()
            .filter(|(index, ended)| !**ended && self.part.takes(*index));
        missing.map(|(index, _)| index)
    }
}

impl World for Sender {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns())
    }

    async fn wait_until(&self, at: Duration) {
        self.clock.sleep_until(at).await;
    }

    /// The number of one of the client's own threads, where its connections live.
    type Place = usize;

    fn place(&self) -> (usize, Option<Handle>) {
        let (number, handle) = self.client.thread();
        (number, Some(handle.clone()))
    }

    async fn exchange(&self, prepared: Prepared, thread: usize) -> Observation {
        observe(self, prepared, thread).await
    }
}

/// Runs the exchange on one of the client's own threads, where its connection lives.
async fn on_own_thread(sender: &Sender, prepared: Prepared) -> Observation {
    let (index, due) = (prepared.index, prepared.due);
    let sender = sender.clone();
    let client = sender.client.clone();
    let (thread, handle) = client.thread();
    // A set of one: dropping it, when the caller drops this future, ends the request with it.
    let mut set = JoinSet::new();
    set.spawn_on(
        async move { observe(&sender, prepared, thread).await },
        handle,
    );
    set.join_next()
        .await
        .and_then(std::result::Result::ok)
        .unwrap_or_else(|| lost(index, due))
}

/// A request whose task died is an observation too: a defect of ours must not make a run look
/// smaller than it was.
fn lost(index: usize, due: Duration) -> Observation {
    let message = "sobench lost this request (its task panicked): please report this".to_owned();
    unsent(
        index,
        due,
        Outcome::Transport {
            cause: TransportCause::Other,
            message,
        },
    )
}
