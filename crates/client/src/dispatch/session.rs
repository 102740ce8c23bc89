//! A session: its turns, each sent when those before it have ended and its delay has passed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::{Dispatched, Executor, Sending, cancel};
use crate::exchange::Prepared;
use crate::queue::Follower;
use sobench_core::answer::Answer;
use sobench_core::case::Message;
use sobench_core::observation::Observation;
use sobench_shutdown::Shutdown;

/// When no turn is sent any more.
pub(super) struct SessionLimits {
    pub(super) end: Option<Duration>,
    pub(super) shutdown: Shutdown,
}

/// Sends the turns of a session, which holds one slot until the last of them has ended. Turns after
/// one without an answer are not sent: each ends as cancelled.
pub(super) async fn converse<W: Executor>(
    sending: Sending<W>,
    limits: SessionLimits,
    dispatched: Dispatched<W>,
    first: Prepared,
    followers: Vec<Follower>,
) {
    let (sending, limits) = (Arc::new(sending), Arc::new(limits));
    let is_live = followers.iter().any(|follower| follower.live.is_some());
    let mut ends: Vec<Option<TurnEnd>> = Vec::new();
    ends.resize_with(followers.len() + 1, || None);
    // Messages that were sent in place of the planned ones, by position.
    let mut sent: HashMap<u32, Arc<[Message]>> = HashMap::new();
    let mut waiting: Vec<Option<Follower>> = followers.into_iter().map(Some).collect();
    let mut turns = JoinSet::new();
    let ready = dispatched.ready;
    turns.spawn(send_turn(Arc::clone(&sending), 0, first, ready, is_live));
    while let Some(joined) = turns.join_next().await {
        // The caller records turns whose task panicked.
        let Ok((position, Some(end))) = joined else {
            continue;
        };
        ends[position as usize] = Some(end);
        for (place, follower) in (1..).zip(&mut waiting) {
            let is_next = |follower: &&Follower| follower.after.contains(&position);
            let next = follower.as_ref().filter(is_next);
            let Some(due) = next.and_then(|next| due(next, &ends)) else {
                continue;
            };
            let Some(Follower {
                mut prepared, live, ..
            }) = follower.take()
            else {
                continue;
            };
            prepared.due = due;
            if let Some(live) = live {
                let answer = ends[live.base as usize]
                    .as_ref()
                    .and_then(|end| end.answer.as_ref());
                let (messages, body) =
                    live.body(sent.get(&live.base), answer.unwrap_or(&Answer::default()));
                sent.insert(place, messages);
                prepared.body = body;
            }
            let (sending, limits) = (Arc::clone(&sending), Arc::clone(&limits));
            turns.spawn(follow(sending, limits, place, prepared, is_live));
        }
    }
    drop(dispatched);
    let unsent_turns = waiting.into_iter().flatten();
    unsent_turns.for_each(|follower| cancel(&sending.events, &follower.prepared));
}

/// The end of a turn with an answer.
struct TurnEnd {
    at: Duration,
    /// Of a live session only.
    answer: Option<Answer>,
}

/// When a turn is due; `None` before the turns before it have ended with an answer.
fn due(follower: &Follower, ends: &[Option<TurnEnd>]) -> Option<Duration> {
    let end = |position: &u32| ends[*position as usize].as_ref().map(|end| end.at);
    let before = follower.after.iter().map(end);
    let last = before.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    Some(last.saturating_add(follower.delay))
}

/// Waits until a turn is due, and sends it unless the run ends before.
async fn follow<W: Executor>(
    sending: Arc<Sending<W>>,
    limits: Arc<SessionLimits>,
    position: u32,
    prepared: Prepared,
    keeps_answer: bool,
) -> (u32, Option<TurnEnd>) {
    let due = prepared.due;
    let is_over = limits.end.is_some_and(|end| due > end);
    let is_due = async {
        tokio::select! {
            biased;
            () = limits.shutdown.drain_requested() => false,
            () = sending.executor.wait_until(due) => !limits.shutdown.is_requested(),
        }
    };
    if is_over || !is_due.await {
        cancel(&sending.events, &prepared);
        return (position, None);
    }
    send_turn(sending, position, prepared, due, keeps_answer).await
}

/// Sends a turn now. Returns its position and when it ended, if it has an answer.
async fn send_turn<W: Executor>(
    sending: Arc<Sending<W>>,
    position: u32,
    prepared: Prepared,
    ready: Duration,
    keeps_answer: bool,
) -> (u32, Option<TurnEnd>) {
    let end = |observation: &Observation| {
        let at = observation.timing.end_ns.map(Duration::from_nanos);
        let at = at.filter(|_| observation.outcome.is_answer())?;
        let answer = keeps_answer.then(|| observation.answer.clone());
        Some(TurnEnd { at, answer })
    };
    (position, sending.send(prepared, ready, end).await)
}
