//! Timed HTTP client: sends each request at its due time and records what happens.
//!
//! One dispatcher (`dispatch.rs`) waits for the due time of each request, then for a free slot, and
//! runs the request as a task of its own. Events go through a channel to [`run`], so that progress
//! output and files do not slow the timed path.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod breaker;
mod client;
pub mod clock;
mod concurrent_runs;
mod connection_hint;
mod coordinate;
mod dispatch;
mod endpoint;
mod exchange;
mod live;
mod pooled_connection;
mod probe;
mod queue;
mod resource_usage;
mod rlimit;
mod scrape;
mod tls;
mod transport;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

pub use breaker::{Breaker, ConsecutiveErrors, is_error};
pub use client::{Client, ClientSettings, DEFAULT_REQUEST_TIMEOUT, Limits};
pub use clock::Arrival;
pub use concurrent_runs::{Participant, RunControl, RunStart, STAGGER, participants};
pub use connection_hint::ends_with_hint;
pub use coordinate::{Coordination, CoordinatorSettings};
pub use endpoint::{ApiKey, Endpoint};
pub use probe::{
    ModelInfo, ProbeResponse, get_path, list_models, post_command, post_json, server_version,
    wait_ready, wait_until_loaded,
};
pub use resource_usage::ResourceUsage;
pub use rlimit::{ephemeral_port_count, max_connections_under, raise_open_file_limit};
pub use scrape::{PageAddress, Scrape, ScrapeTotals, Scraper};
pub use transport::Socket;

use clock::Clock;
use dispatch::{DispatchSettings, Executor, dispatch, unsent};
use exchange::{Body, Prepared, Sender, observe};
use live::{Encoder, LiveTurn};
use queue::Queue;
use resource_usage::Meter;
use sobench_backend::{Adapter, BodySettings, unsupported};
use sobench_core::case::{BodyKey, Case};
use sobench_core::error::{Error, Result};
use sobench_core::load::CancelAfter;
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::run_event::{AnswerForm, ErrorLimitReached, RunEvent};
use sobench_core::schedule::{Schedule, Until};
use sobench_core::shard::{Shard, Units};
use sobench_shutdown::Shutdown;

/// Maximum connections that are opened before the clock starts.
const MAX_PRECONNECTED: usize = 8192;

/// Connections for requests that are due within this time of the start are opened before it.
const PRECONNECT_SPAN: Duration = Duration::from_secs(1);

/// Spare connections cover the requests that are due within this time.
const SPARE_SPAN: Duration = Duration::from_millis(100);

/// Totals of a run, returned after its last event.
#[derive(Clone, Debug)]
pub struct RunTotals {
    /// Number of cases that were started: all of them, unless a time limit ended the run; more than
    /// there are cases if they were cycled.
    pub cases: usize,
    /// From the start of the run (the origin of due times) to the end of the last request that was
    /// sent.
    pub duration_ns: u64,
    /// CPU time, memory and connections that the client used.
    pub usage: ResourceUsage,
    /// Why the circuit breaker stopped the run, if it did.
    pub tripped: Option<ErrorLimitReached>,
}

/// Sends every case when it is due and records an observation for each. Bodies are encoded before
/// the clock starts. Due times count from the start of the run, one for each case. Cases are sent
/// in the order of their due times, and wait in that order for a free slot if `max_concurrency` is
/// set. After the first shutdown request, or at the end of the schedule, no more requests are sent.
/// Requests in flight may finish within the drain timeout, unless a second shutdown request comes.
/// Cases with [`Case::cancel_after`] are abandoned then.
/// Every event is passed to `on_event` as it occurs and is not stored.
///
/// # Errors
/// A case cannot be encoded (see [`sobench_backend::check`]), or other runs that start at the same
/// instant are missing. Server behaviour is never an error, but an observation.
pub async fn run(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &BodySettings,
    cases: &[Case],
    schedule: &Schedule,
    control: RunControl<'_>,
    on_event: impl FnMut(RunEvent),
) -> Result<RunTotals> {
    let queue = prepare_queue(&adapter, request, cases, schedule, RUN_LABEL)?;
    drive(client, adapter, queue, schedule, control, on_event).await
}

/// Sends every case of a shard as soon as a slot is free, as [`run`] does if all are due at once.
/// Used for warm-ups.
///
/// Errors: as for [`run`].
pub async fn warm_up(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &BodySettings,
    cases: &[Case],
    part: Shard,
    shutdown: &Shutdown,
) -> Result<Vec<Observation>> {
    let schedule = Schedule {
        part,
        ..Schedule::new(vec![Duration::ZERO; cases.len()])
    };
    let queue = prepare_queue(&adapter, request, cases, &schedule, WARMUP_LABEL)?;
    let mut observations = Vec::with_capacity(cases.len());
    let control = shutdown.clone().into();
    let keep = keep_ended(|observation| observations.push(observation));
    drive(client, adapter, queue, &schedule, control, keep).await?;
    observations.sort_unstable_by_key(|observation| observation.case_index);
    Ok(observations)
}

/// Sends cases again after a run, each as soon as a slot is free. The indices of the observations
/// are those of `cases`. `form` distinguishes these requests from those of the run in
/// `x-request-id`.
///
/// # Errors
/// As for [`run`].
pub async fn repeat(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &BodySettings,
    cases: &[Case],
    form: AnswerForm,
    shutdown: &Shutdown,
    on_end: impl FnMut(Observation),
) -> Result<()> {
    let label = match form {
        AnswerForm::Streamed => "streamed-again-",
        AnswerForm::Whole => "whole-",
    };
    let schedule = Schedule::new(vec![Duration::ZERO; cases.len()]);
    let queue = prepare_queue(&adapter, request, cases, &schedule, label)?;
    let control = shutdown.clone().into();
    let keep = keep_ended(on_end);
    drive(client, adapter, queue, &schedule, control, keep)
        .await
        .map(drop)
}

/// Passes on the observations of requests that ended.
fn keep_ended(mut on_end: impl FnMut(Observation)) -> impl FnMut(RunEvent) {
    move |event| {
        if let RunEvent::Ended(observation) = event {
            on_end(*observation);
        }
    }
}

/// The request ids of the run are the indices of its cases.
const RUN_LABEL: &str = "";

/// Distinguishes the request ids of warm-ups from those of the run.
const WARMUP_LABEL: &str = "warmup-";

async fn drive(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    queue: Queue,
    schedule: &Schedule,
    control: RunControl<'_>,
    mut on_event: impl FnMut(RunEvent),
) -> Result<RunTotals> {
    let RunControl {
        shutdown,
        error_limits,
        start: mut run_start,
    } = control;
    let (connections, spare) = connections_to_open(queue.due(), client.options().max_concurrency);
    let (event_sender, mut events) = unbounded_channel();
    let (start, clock_offset) = run_start
        .prepare(client.preconnect(connections, spare), &shutdown)
        .await?;
    let other_runs = run_start.other_runs();
    let meter = Meter::start();
    let clock = start.map_or_else(Clock::start, Clock::start_at);
    let max_concurrency = client.options().max_concurrency;
    let breaker = Breaker::new(error_limits, shutdown.clone());
    let options = DispatchSettings {
        max_concurrency,
        until: schedule.until,
        shutdown: shutdown.clone(),
        breaker,
    };
    let sender = Sender {
        client: client.clone(),
        adapter,
        clock,
        shutdown,
    };
    // A set of one: if the caller drops this future, the set aborts the dispatcher and its
    // requests.
    let mut dispatcher = JoinSet::new();
    dispatcher.spawn(dispatch(sender, queue, options, event_sender));
    let expected_cases = if schedule.until == Until::LastCase {
        schedule.due.len()
    } else {
        0
    };
    let mut ended = Ended {
        has_ended: vec![false; expected_cases],
        part: schedule.part,
        units: &schedule.units,
    };
    let mut duration_ns = 0;
    let mut tripped = None;
    on_event(RunEvent::Started {
        at: clock.started(),
        clock: clock_offset,
    });
    while let Some(event) = events.recv().await {
        match &event {
            RunEvent::Started { .. } | RunEvent::Repeated(_) | RunEvent::ServerSampled { .. } => {}
            RunEvent::Sent { index } => {
                ended.flag(*index);
            }
            RunEvent::ErrorLimitReached(reason) => tripped = Some((**reason).clone()),
            RunEvent::Ended(observation) => {
                *ended.flag(observation.case_index) = true;
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
    let usage = meter
        .stop(client, clock.now_ns())
        .with_other_runs(other_runs);
    for index in ended.missing() {
        on_event(RunEvent::Ended(Box::new(panicked(
            index,
            schedule.due.get(index).copied().unwrap_or_default(),
        ))));
    }
    Ok(RunTotals {
        cases: schedule.units.share(schedule.part, ended.has_ended.len()),
        duration_ns,
        usage,
        tripped,
    })
}

/// Sends one case now, through the same code as [`run`]: the trial request. Instants count from the
/// call. `label` replaces the index in `x-request-id`: servers refuse or confuse equal ids of
/// concurrent requests, including those of other clients.
pub async fn send_one(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &BodySettings,
    case: &Case,
    label: &str,
    shutdown: &Shutdown,
) -> Result<Observation> {
    let body = adapter
        .encode(case, request)
        .map_err(|unsendable| unsendable.into_error(case))?;
    let form = request.form(case);
    Ok(send_body(client, adapter, body, form, None, label, shutdown).await)
}

/// Sends an encoded body now, as [`send_one`] does, and closes the connection after `cancel_after`.
pub async fn send_body(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    body: Bytes,
    form: AnswerForm,
    cancel_after: Option<CancelAfter>,
    label: &str,
    shutdown: &Shutdown,
) -> Observation {
    let sender = Sender {
        client: client.clone(),
        adapter,
        clock: Clock::start(),
        shutdown: shutdown.clone(),
    };
    let label = match client.options().part {
        Shard::WHOLE => label.to_owned(),
        part => format!("{label}-shard-{}", part.number),
    };
    let prepared = Prepared {
        index: 0,
        label,
        due: Duration::ZERO,
        body: Body::Bytes(body, form),
        cancel_after,
        session: None,
    };
    on_own_thread(&sender, prepared).await
}

/// Encodes the body of every case of the shard, once for all cases that share it, and sorts the
/// cases by due time; cases with equal due times keep the plan's order. Only requests of the run
/// itself are abandoned.
fn prepare_queue(
    adapter: &Arc<dyn Adapter>,
    request: &BodySettings,
    cases: &[Case],
    schedule: &Schedule,
    label: &'static str,
) -> Result<Queue> {
    let Schedule {
        due,
        until,
        part,
        units,
    } = schedule;
    if cases.len() != due.len() {
        return Err(Error::internal(format!(
            "{} cases with {} due times",
            cases.len(),
            due.len()
        )));
    }
    if *part != Shard::WHOLE && matches!(until, Until::Cycling(_)) {
        return Err(Error::internal("a shard of a load that cycles its cases"));
    }
    let mut queue = Queue::new(label, units.share(*part, cases.len()));
    let mut bodies: HashMap<BodyKey, u32> = HashMap::new();
    let mut encoder: Option<Arc<Encoder>> = None;
    let taken = cases
        .iter()
        .zip(due)
        .enumerate()
        .filter(|(index, _)| units.takes(*part, *index));
    for (index, (case, due)) in taken {
        let body = match bodies.entry(case.body_key()) {
            Entry::Occupied(body) => *body.get(),
            Entry::Vacant(entry) => {
                *entry.insert(queue.body(encode(adapter.as_ref(), request, case)?))
            }
        };
        let cancel_after = case.cancel_after.filter(|_| label == RUN_LABEL);
        match case.turn.as_deref().filter(|_| units.are_sessions()) {
            Some(turn) => {
                let first = index.saturating_sub(turn.turn.saturating_sub(1) as usize);
                let live = LiveTurn::new(case, &cases[first..index], || {
                    let new = || {
                        Arc::new(Encoder {
                            adapter: Arc::clone(adapter),
                            request: request.clone(),
                        })
                    };
                    Arc::clone(encoder.get_or_insert_with(new))
                });
                queue.push_turn(index, *due, body, cancel_after, turn, live);
            }
            None => queue.push(index, *due, body, cancel_after),
        }
    }
    queue.sort();
    Ok(queue)
}

fn encode(adapter: &dyn Adapter, request: &BodySettings, case: &Case) -> Result<Body> {
    match unsupported(adapter.kind(), case) {
        Some(unsendable) => Ok(Body::Unsupported(unsendable.what.into())),
        None => Ok(Body::Bytes(
            adapter
                .encode(case, request)
                .map_err(|unsendable| unsendable.into_error(case))?,
            request.form(case),
        )),
    }
}

/// The number of connections to open before the clock starts, and of spare ones to keep open
/// besides those in use. With a concurrency cap, the cap is the number. Without one, requests that
/// are due within the first second get a connection each, and the spare ones cover the densest
/// [`SPARE_SPAN`] of the schedule. `due` is sorted.
fn connections_to_open(due: impl Iterator<Item = Duration>, cap: Option<usize>) -> (usize, usize) {
    let due: Vec<Duration> = due.collect();
    let most = cap
        .unwrap_or(usize::MAX)
        .min(due.len())
        .min(MAX_PRECONNECTED);
    if cap.is_some_and(|cap| cap <= MAX_PRECONNECTED) {
        return (most, 0);
    }
    let soon = due.partition_point(|due| *due <= PRECONNECT_SPAN);
    let densest = (0..due.len())
        .map(|first| due[first..].partition_point(|at| *at <= due[first] + SPARE_SPAN))
        .max();
    let spare = densest.unwrap_or(0).min(most);
    (
        (soon + spare).min(most),
        if soon == due.len() { 0 } else { spare },
    )
}

/// Which of the started cases have ended.
struct Ended<'s> {
    has_ended: Vec<bool>,
    /// Cases outside this shard are not expected to end.
    part: Shard,
    units: &'s Units,
}

impl Ended<'_> {
    /// The flag of a case; grows the list if the index is new.
    fn flag(&mut self, index: usize) -> &mut bool {
        if self.has_ended.len() <= index {
            self.has_ended.resize(index + 1, false);
        }
        &mut self.has_ended[index]
    }

    /// Cases that did not end.
    fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        let missing = self
            .has_ended
            .iter()
            .enumerate()
            .filter(|(index, ended)| !**ended && self.units.takes(self.part, *index));
        missing.map(|(index, _)| index)
    }
}

impl Executor for Sender {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns())
    }

    async fn wait_until(&self, at: Duration) {
        self.clock.sleep_until(at).await;
    }

    /// The index of the client thread that owns the connection.
    type Location = usize;

    fn locate(&self) -> (usize, Option<Handle>) {
        let (number, handle) = self.client.thread();
        (number, Some(handle.clone()))
    }

    async fn exchange(&self, prepared: Prepared, thread: usize) -> Observation {
        observe(self, prepared, thread).await
    }
}

/// Runs the exchange on one of the client's threads, which owns the connection.
async fn on_own_thread(sender: &Sender, prepared: Prepared) -> Observation {
    let (index, due) = (prepared.index, prepared.due);
    let sender = sender.clone();
    let client = sender.client.clone();
    let (thread, handle) = client.thread();
    // A set of one: if the caller drops this future, the set aborts the request.
    let mut set = JoinSet::new();
    set.spawn_on(
        async move { observe(&sender, prepared, thread).await },
        handle,
    );
    set.join_next()
        .await
        .and_then(std::result::Result::ok)
        .unwrap_or_else(|| panicked(index, due))
}

/// Observation for a request whose task panicked, so that a defect in sobench does not reduce the
/// request count.
fn panicked(index: usize, due: Duration) -> Observation {
    let message = "the task of this request panicked: this is a bug in sobench".to_owned();
    unsent(
        index,
        due,
        Outcome::Transport {
            cause: TransportCause::Other,
            message,
        },
    )
}
