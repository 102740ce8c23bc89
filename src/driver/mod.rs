//! The only loop that talks to a server. Knows instants and bytes, not what an answer means.
//!
//! One dispatcher (`dispatch.rs`) waits for each due instant in turn, then for a free slot, and hands the request to a task of
//! its own. What tasks have to say goes through a channel to [`run`], so that progress and files cost the timed path nothing.

mod client;
pub(crate) mod clock;
mod cost;
mod dispatch;
mod endpoint;
mod exchange;
mod files;
mod probe;
pub mod schedule;
mod stop;
mod tls;
mod transport;
mod way;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::JoinSet;

pub use client::{Client, DEFAULT_REQUEST_TIMEOUT, DriverOptions, Limits};
pub use cost::Cost;
pub use endpoint::{ApiKey, Endpoint};
pub use files::make_room;
pub use probe::{ModelInfo, Page, models, page, version, wait_ready};
pub use stop::{Stop, StopState, Stopper, stop};
pub(crate) use transport::Socket;

use crate::backend::{Adapter, RequestOptions, unsupported};
use crate::case::{Asked, Case};
use crate::error::{Error, Result};
use crate::observation::{Observation, Outcome, TransportCause};
use clock::Clock;
use cost::Meter;
use dispatch::{News, Terms, World, dispatch, unsent};
use exchange::{Body, Prepared, Sender, observe};
use schedule::{Schedule, Until};

/// The most connections that are opened before the clock starts.
const MAX_OPENED_AHEAD: usize = 8192;

/// Requests due within this time of the begin have their connections before it.
const FIRST_SPAN: Duration = Duration::from_secs(1);

/// As many connections are kept ready as requests are due within this time.
const SPARE_SPAN: Duration = Duration::from_millis(100);

/// What [`run`] tells while it runs, for progress and for files that grow.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A request is being handed to the HTTP client.
    Sent { index: usize },
    /// A case has ended, sent or not. Cases end in any order.
    Ended(&'a Observation),
}

/// What a run brought.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// One observation for each case that the run came to, in the order of the plan: all of them, unless a time ended the run;
    /// more than there are cases where they went round.
    pub observations: Vec<Observation>,
    /// From the begin (the instant from which due times count) to the last end of a request that was sent.
    pub duration_ns: u64,
    /// The begin by the wall clock.
    pub started: SystemTime,
    /// What the run took from the machine that it ran on.
    pub cost: Cost,
}

/// Sends every case when it is due and observes what happens.
///
/// Bodies are encoded before the clock starts. Due times count from the begin, one for each case; cases go out in the order of
/// their due times, and wait in that order for a free slot where `max_concurrency` is set. After the first signal of `stop`, or at
/// the schedule's end, no more requests are sent; requests under way have the drain timeout to end, or until the second signal.
///
/// Errors: a case that cannot be encoded (see [`crate::backend::check`]). What servers do is never an error, but an observation.
pub async fn run(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    cases: &[Case],
    schedule: &Schedule,
    stop: Stop,
    progress: impl FnMut(Event<'_>),
) -> Result<RunOutcome> {
    let queue = prepare(adapter.as_ref(), request, cases, &schedule.due, "")?;
    Ok(drive(client, adapter, request, queue, schedule, stop, progress).await)
}

/// Sends every case as soon as a slot is free, as [`run`] would if all were due at once: the warm-ups.
///
/// Errors: as for [`run`].
pub async fn warm_up(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    cases: &[Case],
    stop: Stop,
) -> Result<Vec<Observation>> {
    let schedule = Schedule::of(vec![Duration::ZERO; cases.len()]);
    let queue = prepare(adapter.as_ref(), request, cases, &schedule.due, WARMUP_LABEL)?;
    Ok(drive(client, adapter, request, queue, &schedule, stop, |_| {}).await.observations)
}

/// Keeps the ids of warm-ups apart from those of the run.
const WARMUP_LABEL: &str = "warmup-";

async fn drive(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    queue: Vec<Prepared>,
    schedule: &Schedule,
    stop: Stop,
    mut progress: impl FnMut(Event<'_>),
) -> RunOutcome {
    let (wanted, spare) = ahead(&schedule.due, client.options().max_concurrency);
    client.open_ahead(wanted, spare).await;
    let (tell, mut told) = unbounded_channel();
    let meter = Meter::start();
    let clock = Clock::start();
    let max_concurrency = client.options().max_concurrency;
    let terms = Terms { max_concurrency, until: schedule.until, stop: stop.clone() };
    let sender = Sender { client: client.clone(), adapter, stream: request.stream, clock, stop };
    // A set of one: dropping it, when the caller drops this future, ends the dispatcher and its requests with it.
    let mut dispatcher = JoinSet::new();
    dispatcher.spawn(dispatch(sender, queue, terms, tell));
    let owed = if schedule.until == Until::LastCase { schedule.due.len() } else { 0 };
    let mut seen = Seen(vec![None; owed]);
    while let Some(news) = told.recv().await {
        match news {
            News::Sent { index } => {
                seen.place(index);
                progress(Event::Sent { index });
            }
            News::Ended(observation) => {
                progress(Event::Ended(&observation));
                let index = observation.case_index;
                *seen.place(index) = Some(*observation);
            }
        }
    }
    let observations = seen.into_observations(&schedule.due);
    let sent = observations.iter().filter(|observation| observation.timing.sent_ns.is_some());
    let duration_ns = sent.filter_map(|observation| observation.timing.end_ns).max().unwrap_or(0);
    RunOutcome { cost: meter.stop(client, clock.now_ns()), observations, duration_ns, started: clock.started() }
}

/// Sends one case now, by the same path as [`run`]: the trial run and the warm-ups. Instants count from the call.
///
/// `label` takes the place of the index in `x-request-id`: servers refuse or mix up equal ids of requests under way.
pub async fn send_one(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    case: &Case,
    label: &str,
    stop: Stop,
) -> Result<Observation> {
    let body = adapter.encode(case, request).map_err(|unsendable| unsendable.into_error(case))?;
    let sender = Sender { client: client.clone(), adapter, stream: request.stream, clock: Clock::start(), stop };
    let prepared = Prepared { index: 0, label: label.to_owned(), due: Duration::ZERO, body: Body::Bytes(body) };
    Ok(on_own_thread(&sender, prepared).await)
}

/// Encodes every body, once for all cases that share it, and puts the cases in the order in which they are due; cases due together keep the plan's order.
fn prepare(
    adapter: &dyn Adapter,
    request: &RequestOptions,
    cases: &[Case],
    due: &[Duration],
    label: &str,
) -> Result<Vec<Prepared>> {
    if cases.len() != due.len() {
        return Err(Error::internal(format!("{} cases with {} due times", cases.len(), due.len())));
    }
    let mut queue = Vec::with_capacity(cases.len());
    let mut bodies: HashMap<Asked, Body> = HashMap::new();
    for (index, (case, due)) in cases.iter().zip(due).enumerate() {
        let body = match bodies.entry(case.asked()) {
            Entry::Occupied(known) => known.get().clone(),
            Entry::Vacant(place) => place.insert(encode(adapter, request, case)?).clone(),
        };
        queue.push(Prepared { index, label: format!("{label}{index}"), due: *due, body });
    }
    queue.sort_by_key(|prepared| prepared.due);
    Ok(queue)
}

fn encode(adapter: &dyn Adapter, request: &RequestOptions, case: &Case) -> Result<Body> {
    match unsupported(adapter.kind(), case) {
        Some(unsendable) => Ok(Body::Unsupported(unsendable.what.into())),
        None => Ok(Body::Bytes(adapter.encode(case, request).map_err(|unsendable| unsendable.into_error(case))?)),
    }
}

/// How many connections are opened before the clock starts, and how many are kept ready besides those in use.
///
/// Under a cap there are never more requests under way than that. Without one, those that are due within the first second have
/// theirs, and what comes later is opened ahead of need: as many are kept ready as are due within the densest [`SPARE_SPAN`].
fn ahead(due: &[Duration], cap: Option<usize>) -> (usize, usize) {
    let most = cap.unwrap_or(usize::MAX).min(due.len()).min(MAX_OPENED_AHEAD);
    if cap.is_some_and(|cap| cap <= MAX_OPENED_AHEAD) {
        return (most, 0);
    }
    let mut due = due.to_vec();
    due.sort_unstable();
    let soon = due.partition_point(|due| *due <= FIRST_SPAN);
    let densest = (0..due.len()).map(|first| due[first..].partition_point(|at| *at <= due[first] + SPARE_SPAN)).max();
    let spare = densest.unwrap_or(0).min(most);
    ((soon + spare).min(most), if soon == due.len() { 0 } else { spare })
}

/// What has been told of each case so far.
struct Seen(Vec<Option<Observation>>);

impl Seen {
    /// The place of a case, which need not have been known of before.
    fn place(&mut self, index: usize) -> &mut Option<Observation> {
        if self.0.len() <= index {
            self.0.resize(index + 1, None);
        }
        &mut self.0[index]
    }

    /// All of them; what was never told of is [`lost`].
    fn into_observations(self, due: &[Duration]) -> Vec<Observation> {
        let lost = |index: usize| lost(index, due.get(index).copied().unwrap_or_default());
        self.0.into_iter().enumerate().map(|(index, seen)| seen.unwrap_or_else(|| lost(index))).collect()
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
    set.spawn_on(async move { observe(&sender, prepared, thread).await }, handle);
    set.join_next().await.and_then(std::result::Result::ok).unwrap_or_else(|| lost(index, due))
}

/// A request whose task died is an observation too: a defect of ours must not make a run look smaller than it was.
fn lost(index: usize, due: Duration) -> Observation {
    let message = "sobench lost this request (its task panicked): please report this".to_owned();
    unsent(index, due, Outcome::Transport { cause: TransportCause::Other, message })
}
