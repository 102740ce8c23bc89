//! The dispatcher: hands each case out when it is due and a slot is free, until sending ends. Knows
//! no socket and no clock but through [`World`], so that tests step both.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::breaker::Breaker;
use super::exchange::Prepared;
use super::queue::Queue;
use sobench_core::answer::Answer;
use sobench_core::observation::{Observation, Outcome, Timing};
use sobench_core::run_event::RunEvent;
use sobench_core::schedule::Until;
use sobench_shutdown::Shutdown;

/// What the dispatcher needs of the world.
pub(super) trait World: Send + Sync + 'static {
    /// Time since the begin.
    fn now(&self) -> Duration;

    /// Waits until so long after the begin.
    fn wait_until(&self, at: Duration) -> impl Future<Output = ()> + Send;

    /// What of the client a request needs to know, such as which of its threads it runs on.
    type Place: Send;

    /// Where the next request goes, and the runtime of its task; `None` for the dispatcher's own.
    fn place(&self) -> (Self::Place, Option<Handle>);

    /// Sends the request now and observes what happens.
    fn exchange(
        &self,
        prepared: Prepared,
        place: Self::Place,
    ) -> impl Future<Output = Observation> + Send;
}

/// How the dispatcher goes about it.
pub(super) struct DispatchOptions {
    /// The most requests under way at a time.
    pub(super) max_concurrency: Option<usize>,
    pub(super) until: Until,
    pub(super) shutdown: Shutdown,
    /// Stops the run after too many errors.
    pub(super) breaker: Breaker,
}

/// What became of a case's turn.
enum Turn {
    /// It is due and has a slot since this instant: what goes by from here is the client's own
    /// delay.
    Go { ready: Duration },
    /// Sending is over, by time or by a signal.
    Over,
}

/// Sends the cases of `queue`, which are in the order in which they are due, and returns when the
/// last request has ended.
pub(super) async fn dispatch<W: World>(
    world: W,
    queue: Queue,
    options: DispatchOptions,
    events: UnboundedSender<RunEvent>,
) {
    let DispatchOptions {
        max_concurrency,
        until,
        shutdown,
        breaker,
    } = options;
    let (world, breaker) = (Arc::new(world), Arc::new(breaker));
    let mut slots = Slots::new(max_concurrency);
    let mut requests = JoinSet::new();
    let mut drain_requested = pin!(shutdown.drain_requested());
    let mut is_over = false;
    for prepared in queue.in_turn(until) {
        if !is_over {
            let turn = tokio::select! {
                biased;
                () = &mut drain_requested => Turn::Over,
                turn = turn(world.as_ref(), prepared.due, &mut slots, until) => turn,
            };
            if let Turn::Go { ready } = turn {
                let (place, runtime) = world.place();
                let going = Going {
                    slot: slots.taken(&world),
                    breaker: Arc::clone(&breaker),
                    ready,
                };
                let request = send(Arc::clone(&world), prepared, place, going, events.clone());
                match runtime {
                    Some(runtime) => requests.spawn_on(request, &runtime),
                    None => requests.spawn(request),
                };
                while requests.try_join_next().is_some() {}
                continue;
            }
            is_over = true;
        }
        if !until.owes(prepared.due) {
            break;
        }
        // Only fails when the run was dropped.
        let _ = events.send(RunEvent::Ended(Box::new(unsent(
            prepared.index,
            prepared.due,
            Outcome::Cancelled,
        ))));
    }
    while requests.join_next().await.is_some() {}
}

/// What a request has from the dispatcher.
struct Going<W: World> {
    slot: Slot<W>,
    breaker: Arc<Breaker>,
    /// Since when nothing but the client itself holds it back.
    ready: Duration,
}

/// One request, as a task of its own.
async fn send<W: World>(
    world: Arc<W>,
    prepared: Prepared,
    place: W::Place,
    going: Going<W>,
    events: UnboundedSender<RunEvent>,
) {
    let _ = events.send(RunEvent::Sent {
        index: prepared.index,
    });
    let mut observation = world.exchange(prepared, place).await;
    // Before the slot is free: nobody is to take it when this was the last error that the run puts
    // up with.
    let tripped = going
        .breaker
        .ended(observation.case_index, &observation.outcome, world.now());
    drop(going.slot);
    if let Some(tripped) = tripped {
        let _ = events.send(RunEvent::Tripped(Box::new(tripped)));
    }
    observation.timing.ready_ns = Some(super::clock::as_ns(going.ready));
    debug_assert!(observation.timing.is_in_order(), "{:?}", observation.timing);
    let _ = events.send(RunEvent::Ended(Box::new(observation)));
}

/// Waits until the case is due, then for a free slot, unless sending ends first. There is one
/// waiter at a time, so slots go out in due order.
async fn turn<W: World>(world: &W, due: Duration, slots: &mut Slots, until: Until) -> Turn {
    let end = until.time();
    if end.is_some_and(|end| due > end) {
        return Turn::Over;
    }
    world.wait_until(due).await;
    let over = async {
        match end {
            Some(end) => world.wait_until(end).await,
            None => std::future::pending().await,
        }
    };
    let freed = tokio::select! {
        biased;
        freed = slots.free_one() => freed,
        () = over => return Turn::Over,
    };
    // Cases that are due at the very begin would go on for ever where slots are always free. Any
    // other may be due at the very end.
    if due.is_zero() && end.is_some_and(|end| world.now() >= end) {
        return Turn::Over;
    }
    Turn::Go {
        ready: due.max(freed),
    }
}

/// The slots under the cap. Each that is freed says when, so that waiting for the server is told
/// from the client's own delay.
struct Slots {
    /// Those that nobody has had yet; `None` without a cap.
    untouched: Option<usize>,
    give_back: UnboundedSender<Duration>,
    freed: UnboundedReceiver<Duration>,
}

/// A slot that is taken, until it is dropped: by the end of its request, or by its task's panic.
struct Slot<W: World> {
    world: Arc<W>,
    give_back: Option<UnboundedSender<Duration>>,
}

impl Slots {
    fn new(max_concurrency: Option<usize>) -> Self {
        let (give_back, freed) = unbounded_channel();
        Self {
            untouched: max_concurrency,
            give_back,
            freed,
        }
    }

    /// Waits for a free slot; returns since when it has been free. Cancelling the wait loses
    /// nothing.
    async fn free_one(&mut self) -> Duration {
        match &mut self.untouched {
            None => Duration::ZERO,
            Some(0) => self.freed.recv().await.expect("this side holds a sender"),
            Some(left) => {
                *left -= 1;
                Duration::ZERO
            }
        }
    }

    /// The slot that was found free.
    fn taken<W: World>(&self, world: &Arc<W>) -> Slot<W> {
        Slot {
            world: Arc::clone(world),
            give_back: self.untouched.is_some().then(|| self.give_back.clone()),
        }
    }
}

impl<W: World> Drop for Slot<W> {
    fn drop(&mut self) {
        if let Some(give_back) = &self.give_back {
            // Only fails when the dispatcher is gone.
            let _ = give_back.send(self.world.now());
        }
    }
}

/// What is known of a case that nobody was asked.
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
