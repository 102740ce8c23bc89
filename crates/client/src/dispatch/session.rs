//! A session: its turns, each sent when those before it have ended and its delay has passed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

use super::{Dispatched, Executor, unsent};
use crate::breaker::Breaker;
use crate::clock::as_ns;
use crate::exchange::Prepared;
use crate::queue::Follower;
use sobench_core::observation::Outcome;
use sobench_core::run_event::RunEvent;
use sobench_shutdown::Shutdown;

/// State that all turns of a session share.
pub(super) struct SessionContext<W: Executor> {
    pub(super) executor: Arc<W>,
    pub(super) location: W::Location,
    pub(super) breaker: Arc<Breaker>,
    /// No turn is sent after this time.
    pub(super) end: Option<Duration>,
    pub(super) shutdown: Shutdown,
    pub(super) events: UnboundedSender<RunEvent>,
}

/// Sends the turns of a session, which holds one slot until the last of them has ended. Turns after
/// one without an answer are not sent: each ends as cancelled.
pub(super) async fn converse<W: Executor>(
    context: SessionContext<W>,
    dispatched: Dispatched<W>,
    first: Prepared,
    followers: Vec<Follower>,
) {
    let context = Arc::new(context);
    let mut ends: Vec<Option<Duration>> = vec![None; followers.len() + 1];
    let mut waiting: Vec<Option<Follower>> = followers.into_iter().map(Some).collect();
    let mut turns = JoinSet::new();
    turns.spawn(send_turn(Arc::clone(&context), 0, first, dispatched.ready));
    while let Some(joined) = turns.join_next().await {
        // The caller records turns whose task panicked.
        let Ok((position, Some(end))) = joined else {
            continue;
        };
        ends[position as usize] = Some(end);
        for (place, follower) in waiting.iter_mut().enumerate() {
            let is_next = |follower: &&Follower| follower.after.contains(&position);
            let due = follower
                .as_ref()
                .filter(is_next)
                .and_then(|next| due(next, &ends));
            if let Some((due, next)) = due.zip(follower.take_if(|_| due.is_some())) {
                let mut prepared = next.prepared;
                prepared.due = due;
                turns.spawn(follow(Arc::clone(&context), place as u32 + 1, prepared));
            }
        }
    }
    drop(dispatched);
    let unsent_turns = waiting.into_iter().flatten();
    unsent_turns.for_each(|follower| context.cancel(&follower.prepared));
}

/// When a turn is due; `None` before the turns before it have ended with an answer.
fn due(follower: &Follower, ends: &[Option<Duration>]) -> Option<Duration> {
    let before = follower
        .after
        .iter()
        .map(|position| ends[*position as usize]);
    let last = before.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    Some(last.saturating_add(follower.delay))
}

/// Waits until a turn is due, and sends it unless the run ends before.
async fn follow<W: Executor>(
    context: Arc<SessionContext<W>>,
    position: u32,
    prepared: Prepared,
) -> (u32, Option<Duration>) {
    let due = prepared.due;
    let is_over = context.end.is_some_and(|end| due > end);
    let is_due = async {
        tokio::select! {
            biased;
            () = context.shutdown.drain_requested() => false,
            () = context.executor.wait_until(due) => !context.shutdown.is_requested(),
        }
    };
    if is_over || !is_due.await {
        context.cancel(&prepared);
        return (position, None);
    }
    send_turn(context, position, prepared, due).await
}

/// Sends a turn now. Returns its position and when it ended, if it has an answer.
async fn send_turn<W: Executor>(
    context: Arc<SessionContext<W>>,
    position: u32,
    prepared: Prepared,
    ready: Duration,
) -> (u32, Option<Duration>) {
    let SessionContext {
        executor,
        location,
        breaker,
        events,
        ..
    } = &*context;
    // These fail only if the run was dropped.
    let _ = events.send(RunEvent::Sent {
        index: prepared.index,
    });
    let mut observation = executor.exchange(prepared, *location).await;
    let now = executor.now();
    let tripped = breaker.ended(observation.case_index, &observation.outcome, now);
    if let Some(tripped) = tripped {
        let _ = events.send(RunEvent::ErrorLimitReached(Box::new(tripped)));
    }
    observation.timing.ready_ns = Some(as_ns(ready));
    debug_assert!(observation.timing.is_in_order(), "{:?}", observation.timing);
    let end = observation.timing.end_ns.map(Duration::from_nanos);
    let end = end.filter(|_| observation.outcome.is_answer());
    let _ = events.send(RunEvent::Ended(Box::new(observation)));
    (position, end)
}

impl<W: Executor> SessionContext<W> {
    /// Records a turn that is not sent.
    fn cancel(&self, prepared: &Prepared) {
        let observation = unsent(prepared.index, prepared.due, Outcome::Cancelled);
        // Fails only if the run was dropped.
        let _ = self.events.send(RunEvent::Ended(Box::new(observation)));
    }
}
