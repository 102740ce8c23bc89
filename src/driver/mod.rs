//! The only loop that talks to a server. Knows instants and bytes, not what an answer means.
//!
//! One dispatcher waits for each due instant in turn, then for a free slot, and hands the request to a task of its own. What
//! tasks have to say goes through a channel to [`run`], so that progress and files cost the timed path nothing.

mod client;
mod clock;
mod endpoint;
mod exchange;
mod files;
mod probe;
pub mod schedule;
mod stop;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

pub use client::{Client, DEFAULT_REQUEST_TIMEOUT, DriverOptions, Limits};
pub use endpoint::{ApiKey, Endpoint};
pub use files::make_room;
pub use probe::{ModelInfo, Page, models, page, version, wait_ready};
pub use stop::{Stop, StopState, Stopper, stop};

use crate::backend::{Adapter, RequestOptions};
use crate::case::Case;
use crate::error::{Error, Result};
use crate::observation::{Observation, Outcome, Timing, TransportCause};
use clock::Clock;
use exchange::{Prepared, Sender, observe};

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
    /// One observation for each case, in the order of the plan.
    pub observations: Vec<Observation>,
    /// From the begin (the instant from which due times count) to the last end of a request that was sent.
    pub duration_ns: u64,
    /// The begin by the wall clock.
    pub started: SystemTime,
}

/// Sends every case when it is due and observes what happens.
///
/// Bodies are encoded before the clock starts. `due` counts from the begin, one for each case; cases go out in the order of
/// their due times, and wait in that order for a free slot where `max_concurrency` is set. After the first signal of `stop` no
/// more requests are sent; requests under way have the drain timeout to end, or until the second signal.
///
/// Errors: a case that cannot be encoded (see [`crate::backend::check`]). What servers do is never an error, but an observation.
pub async fn run(
    client: &Client,
    adapter: Arc<dyn Adapter>,
    request: &RequestOptions,
    cases: &[Case],
    due: &[Duration],
    stop: Stop,
    mut progress: impl FnMut(Event<'_>),
) -> Result<RunOutcome> {
    let queue = prepare(adapter.as_ref(), request, cases, due)?;
    let (tell, mut told) = unbounded_channel();
    let clock = Clock::start();
    let sender = Sender { client: client.clone(), adapter, stream: request.stream, clock, stop };
    // A set of one: dropping it, when the caller drops this future, ends the dispatcher and its requests with it.
    let mut dispatcher = JoinSet::new();
    dispatcher.spawn(dispatch(sender, queue, tell));
    let mut observations: Vec<Option<Observation>> = vec![None; cases.len()];
    while let Some(news) = told.recv().await {
        match news {
            News::Sent { index } => progress(Event::Sent { index }),
            News::Ended(observation) => {
                progress(Event::Ended(&observation));
                let index = observation.case_index;
                observations[index] = Some(*observation);
            }
        }
    }
    let observations: Vec<_> = observations
        .into_iter()
        .zip(due)
        .enumerate()
        .map(|(index, (seen, due))| seen.unwrap_or_else(|| lost(index, *due)))
        .collect();
    let sent = observations.iter().filter(|observation| observation.timing.sent_ns.is_some());
    let duration_ns = sent.filter_map(|observation| observation.timing.end_ns).max().unwrap_or(0);
    Ok(RunOutcome { observations, duration_ns, started: clock.started() })
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
    Ok(observe(&sender, Prepared { index: 0, label: label.to_owned(), due: Duration::ZERO, body }).await)
}

/// What the dispatcher and the requests' tasks report.
enum News {
    Sent { index: usize },
    Ended(Box<Observation>),
}

/// Encodes every body and puts the cases in the order in which they are due; cases due together keep the plan's order.
fn prepare(adapter: &dyn Adapter, request: &RequestOptions, cases: &[Case], due: &[Duration]) -> Result<Vec<Prepared>> {
    if cases.len() != due.len() {
        return Err(Error::internal(format!("{} cases with {} due times", cases.len(), due.len())));
    }
    let mut queue = Vec::with_capacity(cases.len());
    for (index, (case, due)) in cases.iter().zip(due).enumerate() {
        let body = adapter.encode(case, request).map_err(|unsendable| unsendable.into_error(case))?;
        queue.push(Prepared { index, label: index.to_string(), due: *due, body });
    }
    queue.sort_by_key(|prepared| prepared.due);
    Ok(queue)
}

async fn dispatch(sender: Sender, queue: Vec<Prepared>, tell: UnboundedSender<News>) {
    let slots = sender.client.options().max_concurrency.map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
    let sender = Arc::new(sender);
    let mut stop = sender.stop.clone();
    let mut requests = JoinSet::new();
    for prepared in queue {
        let slot = tokio::select! {
            biased;
            () = stop.signalled() => None,
            slot = turn(&sender.clock, prepared.due, slots.as_ref()) => Some(slot),
        };
        let Some(slot) = slot else {
            let unsent = observation(prepared.index, prepared.due, Outcome::Cancelled);
            // Only fails when nobody is left to be told.
            let _ = tell.send(News::Ended(Box::new(unsent)));
            continue;
        };
        let (sender, tell) = (Arc::clone(&sender), tell.clone());
        requests.spawn(async move {
            let _ = tell.send(News::Sent { index: prepared.index });
            let observation = observe(&sender, prepared).await;
            drop(slot);
            let _ = tell.send(News::Ended(Box::new(observation)));
        });
        while requests.try_join_next().is_some() {}
    }
    while requests.join_next().await.is_some() {}
}

/// Waits until the case is due, then for a free slot. There is one waiter at a time, so slots go out in due order.
async fn turn(clock: &Clock, due: Duration, slots: Option<&Arc<Semaphore>>) -> Option<OwnedSemaphorePermit> {
    clock.sleep_until(due).await;
    match slots {
        None => None,
        Some(slots) => Some(Arc::clone(slots).acquire_owned().await.expect("the semaphore is never closed")),
    }
}

fn observation(index: usize, due: Duration, outcome: Outcome) -> Observation {
    Observation {
        case_index: index,
        outcome,
        timing: Timing { due_ns: clock::as_ns(due), ..Timing::default() },
        text: String::new(),
        reasoning: String::new(),
        finish_reason: None,
        usage: None,
    }
}

/// A request whose task died is an observation too: a defect of ours must not make a run look smaller than it was.
fn lost(index: usize, due: Duration) -> Observation {
    let message = "sobench lost this request (its task panicked): please report this".to_owned();
    observation(index, due, Outcome::Transport { cause: TransportCause::Other, message })
}
