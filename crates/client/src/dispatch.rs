//! Dispatcher: sends each case when it is due and a slot is free. The clock and the HTTP exchange
//! are behind [`Executor`], so that tests control both. A session takes one slot for all of its turns
//! (`session.rs`).

mod session;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::breaker::Breaker;
use super::exchange::Prepared;
use super::queue::{Arrival, Queue};
use session::{SessionLimits, converse};
use sobench_core::answer::Answer;
use sobench_core::observation::{Observation, Outcome, Timing};
use sobench_core::run_event::RunEvent;
use sobench_core::schedule::Until;
use sobench_shutdown::Shutdown;

/// Clock and HTTP exchange of the dispatcher.
pub(super) trait Executor: Send + Sync + 'static {
    /// Time since the start.
    fn now(&self) -> Duration;

    /// Waits until this time after the start.
    fn wait_until(&self, at: Duration) -> impl Future<Output = ()> + Send;

    /// Where a request runs, such as the index of a client thread.
    type Location: Copy + Send + Sync + 'static;

    /// Where the next request runs, and the runtime of its task; `None` for the dispatcher's own.
    fn locate(&self) -> (Self::Location, Option<Handle>);

    /// Sends the request now and records what happens.
    fn exchange(
        &self,
        prepared: Prepared,
        location: Self::Location,
    ) -> impl Future<Output = Observation> + Send;
}

/// Settings of the dispatcher.
pub(super) struct DispatchSettings {
    /// The concurrency cap.
    pub(super) max_concurrency: Option<usize>,
    pub(super) until: Until,
    pub(super) shutdown: Shutdown,
    /// Stops the run after too many errors.
    pub(super) breaker: Breaker,
}

/// Whether a case may be sent.
enum Decision {
    /// It is due and has had a slot since this instant; time from here on is client send delay.
    Go { ready: Duration },
    /// No more requests are sent: the time is over, or a shutdown was requested.
    Over,
}

/// Sends the cases of `queue`, which is sorted by due time, and returns when the last request has
/// ended.
pub(super) async fn dispatch<W: Executor>(
    executor: W,
    queue: Queue,
    options: DispatchSettings,
    events: UnboundedSender<RunEvent>,
) {
    let DispatchSettings {
        max_concurrency,
        until,
        shutdown,
        breaker,
    } = options;
    let (executor, breaker) = (Arc::new(executor), Arc::new(breaker));
    let mut slots = Slots::new(max_concurrency);
    let mut requests = JoinSet::new();
    let mut drain_requested = pin!(shutdown.drain_requested());
    let mut has_ended = false;
    for Arrival {
        first: prepared,
        followers,
    } in queue.into_arrivals(until)
    {
        if !has_ended {
            let decision = tokio::select! {
                biased;
                () = &mut drain_requested => Decision::Over,
                decision = wait_for_turn(executor.as_ref(), prepared.due, &mut slots, until) => decision,
            };
            // The request for a shutdown may have come after its check above, and before the answer
            // that freed the slot.
            if let Decision::Go { ready } = decision
                && !shutdown.is_requested()
            {
                let (location, runtime) = executor.locate();
                let dispatched = Dispatched {
                    slot: slots.take(&executor),
                    ready,
                };
                let sending = Sending {
                    executor: Arc::clone(&executor),
                    location,
                    breaker: Arc::clone(&breaker),
                    events: events.clone(),
                };
                if followers.is_empty() {
                    let request = send_single(sending, prepared, dispatched);
                    spawn(&mut requests, runtime, request);
                } else {
                    let limits = SessionLimits {
                        end: until.time(),
                        shutdown: shutdown.clone(),
                    };
                    let session = converse(sending, limits, dispatched, prepared, followers);
                    spawn(&mut requests, runtime, session);
                }
                while requests.try_join_next().is_some() {}
                continue;
            }
            has_ended = true;
        }
        if !until.counts_as_missing(prepared.due) {
            break;
        }
        let later = followers.iter().map(|follower| &follower.prepared);
        for prepared in std::iter::once(&prepared).chain(later) {
            cancel(&events, prepared);
        }
    }
    while requests.join_next().await.is_some() {}
}

/// Starts a task on a runtime, or on the dispatcher's own.
fn spawn(
    requests: &mut JoinSet<()>,
    runtime: Option<Handle>,
    task: impl Future<Output = ()> + Send + 'static,
) {
    match runtime {
        Some(runtime) => requests.spawn_on(task, &runtime),
        None => requests.spawn(task),
    };
}

/// The dispatcher's state of one request, or of one session.
struct Dispatched<W: Executor> {
    slot: Slot<W>,
    /// When the request was due and had a slot.
    ready: Duration,
}

/// What a task needs to send requests.
struct Sending<W: Executor> {
    executor: Arc<W>,
    location: W::Location,
    breaker: Arc<Breaker>,
    events: UnboundedSender<RunEvent>,
}

impl<W: Executor> Sending<W> {
    /// Sends a request now, which was due and had a slot at `ready`. `free` takes the observation, and
    /// frees the slot where the request holds one.
    async fn send<T>(
        &self,
        prepared: Prepared,
        ready: Duration,
        free: impl FnOnce(&Observation) -> T,
    ) -> T {
        // Events are not received only if the run was dropped.
        let _ = self.events.send(RunEvent::Sent {
            index: prepared.index,
        });
        let mut observation = self.executor.exchange(prepared, self.location).await;
        // Before the slot is freed, so that no request takes it if this error stops the run.
        let now = self.executor.now();
        let (index, outcome) = (observation.case_index, &observation.outcome);
        let tripped = self.breaker.ended(index, outcome, now);
        let freed = free(&observation);
        if let Some(tripped) = tripped {
            let _ = self
                .events
                .send(RunEvent::ErrorLimitReached(Box::new(tripped)));
        }
        observation.timing.ready_ns = Some(super::clock::as_ns(ready));
        debug_assert!(observation.timing.is_in_order(), "{:?}", observation.timing);
        let _ = self.events.send(RunEvent::Ended(Box::new(observation)));
        freed
    }
}

/// A single request, as a task of its own.
async fn send_single<W: Executor>(
    sending: Sending<W>,
    prepared: Prepared,
    dispatched: Dispatched<W>,
) {
    let Dispatched { slot, ready } = dispatched;
    sending.send(prepared, ready, |_| drop(slot)).await;
}

/// Records a request that is not sent.
fn cancel(events: &UnboundedSender<RunEvent>, prepared: &Prepared) {
    let observation = unsent(prepared.index, prepared.due, Outcome::Cancelled);
    // Fails only if the run was dropped.
    let _ = events.send(RunEvent::Ended(Box::new(observation)));
}

/// Waits until the case is due, then for a free slot, unless sending ends first. Only one case
/// waits at a time, so slots are given in due order.
async fn wait_for_turn<W: Executor>(
    executor: &W,
    due: Duration,
    slots: &mut Slots,
    until: Until,
) -> Decision {
    let end = until.time();
    if end.is_some_and(|end| due > end) {
        return Decision::Over;
    }
    executor.wait_until(due).await;
    let over = async {
        match end {
            Some(end) => executor.wait_until(end).await,
            None => std::future::pending().await,
        }
    };
    let freed = tokio::select! {
        biased;
        freed = slots.wait_for_slot() => freed,
        () = over => return Decision::Over,
    };
    // A cycled case is due at 0 and would be sent for ever if slots are always free. Other cases
    // may be due exactly at the end.
    if due.is_zero() && end.is_some_and(|end| executor.now() >= end) {
        return Decision::Over;
    }
    Decision::Go {
        ready: due.max(freed),
    }
}

/// The slots under the cap. Each freed slot carries its instant, so that waiting for the server is
/// separated from client send delay.
struct Slots {
    /// Slots that have not been used yet; `None` without a cap.
    unused: Option<usize>,
    release: UnboundedSender<Duration>,
    freed: UnboundedReceiver<Duration>,
}

/// A slot in use, until it is dropped: at the end of its request, or by a panic of its task.
struct Slot<W: Executor> {
    executor: Arc<W>,
    release: Option<UnboundedSender<Duration>>,
}

impl Slots {
    fn new(max_concurrency: Option<usize>) -> Self {
        let (release, freed) = unbounded_channel();
        Self {
            unused: max_concurrency,
            release,
            freed,
        }
    }

    /// Waits for a free slot and returns since when it has been free. Cancel-safe.
    async fn wait_for_slot(&mut self) -> Duration {
        match &mut self.unused {
            None => Duration::ZERO,
            Some(0) => self.freed.recv().await.expect("this side holds a sender"),
            Some(left) => {
                *left -= 1;
                Duration::ZERO
            }
        }
    }

    /// Takes the slot that [`Slots::wait_for_slot`] returned.
    fn take<W: Executor>(&self, executor: &Arc<W>) -> Slot<W> {
        Slot {
            executor: Arc::clone(executor),
            release: self.unused.is_some().then(|| self.release.clone()),
        }
    }
}

impl<W: Executor> Drop for Slot<W> {
    fn drop(&mut self) {
        if let Some(release) = &self.release {
            // Fails only if the dispatcher is gone.
            let _ = release.send(self.executor.now());
        }
    }
}

/// The observation of a case that was not sent.
pub(super) fn unsent(index: usize, due: Duration, outcome: Outcome) -> Observation {
    Observation {
        case_index: index,
        outcome,
        timing: Timing {
            due_ns: super::clock::as_ns(due),
            ..Timing::default()
        },
        answer: Answer::default(),
        finish_reason: None,
        usage: None,
    }
}

#[cfg(test)]
mod tests;
