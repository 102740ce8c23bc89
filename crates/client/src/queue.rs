//! Queue of encoded requests in due order. Bodies that several requests share are stored once. Of a
//! session, only the first turn is in the queue; the others follow it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::exchange::{Body, Prepared};
use super::live::LiveTurn;
use sobench_core::case::Turn;
use sobench_core::load::CancelAfter;
use sobench_core::schedule::Until;

/// The encoded requests of a run.
pub(super) struct Queue {
    /// Prefix of a request's index in `x-request-id`.
    label: &'static str,
    entries: Vec<Entry>,
    /// The later turns of sessions by the index of their first turn.
    followers: HashMap<u32, Vec<FollowerEntry>>,
    /// The number of requests, with followers.
    requests: usize,
    bodies: Vec<Body>,
}

/// A request of the queue, with the turns that follow it if it is the first of a session.
pub(super) struct Arrival {
    pub(super) first: Prepared,
    pub(super) followers: Vec<Follower>,
}

/// A later turn of a session.
pub(super) struct Follower {
    /// Its due time is set when the turns before it have ended.
    pub(super) prepared: Prepared,
    /// Positions in the session of the turns that end before it.
    pub(super) after: Vec<u32>,
    /// From the end of the last of them until it is due.
    pub(super) delay: Duration,
    /// Makes its body from an answer; `None` if its body is known.
    pub(super) live: Option<Arc<LiveTurn>>,
}

struct FollowerEntry {
    entry: Entry,
    after: Vec<u32>,
    delay: Duration,
    live: Option<Arc<LiveTurn>>,
}

/// One request.
#[derive(Clone, Copy)]
struct Entry {
    due: Duration,
    index: u32,
    body: u32,
    cancel_after: Option<CancelAfter>,
    session: Option<u32>,
}

impl Queue {
    /// An empty queue with capacity for this many requests.
    pub(super) fn new(label: &'static str, requests: usize) -> Self {
        Self {
            label,
            entries: Vec::with_capacity(requests),
            followers: HashMap::new(),
            requests: 0,
            bodies: Vec::new(),
        }
    }

    /// Adds a body, which several requests may share; returns its index.
    pub(super) fn body(&mut self, body: Body) -> u32 {
        self.bodies.push(body);
        (self.bodies.len() - 1) as u32
    }

    /// Adds request `index` of the plan, in ascending order.
    pub(super) fn push(
        &mut self,
        index: usize,
        due: Duration,
        body: u32,
        cancel_after: Option<CancelAfter>,
    ) {
        self.requests += 1;
        self.entries.push(Entry {
            due,
            index: index as u32,
            body,
            cancel_after,
            session: None,
        });
    }

    /// Adds request `index` of the plan, a turn of a session, in ascending order.
    pub(super) fn push_turn(
        &mut self,
        index: usize,
        due: Duration,
        body: u32,
        cancel_after: Option<CancelAfter>,
        turn: &Turn,
        live: Option<LiveTurn>,
    ) {
        self.push(index, due, body, cancel_after);
        if let Some(last) = self.entries.last_mut() {
            last.session = Some(turn.session);
        }
        // Turns are numbered from 1.
        let position = turn.turn.saturating_sub(1);
        if position == 0 {
            return;
        }
        if let Some(entry) = self.entries.pop() {
            let first = entry.index - position;
            self.followers
                .entry(first)
                .or_default()
                .push(FollowerEntry {
                    entry,
                    after: turn.after.iter().map(|turn| turn - 1).collect(),
                    delay: Duration::from_millis(turn.delay_ms),
                    live: live.map(Arc::new),
                });
        }
    }

    /// Sorts the requests by due time; equal ones keep the plan's order.
    pub(super) fn sort(&mut self) {
        self.entries.sort_by_key(|entry| entry.due);
    }

    /// The due times in order.
    pub(super) fn due(&self) -> impl Iterator<Item = Duration> + '_ {
        self.entries.iter().map(|entry| entry.due)
    }

    /// The requests in order: once, or cycled, each with an index of its own.
    pub(super) fn into_arrivals(self, until: Until) -> Box<dyn Iterator<Item = Arrival> + Send> {
        let Self {
            label,
            entries,
            followers,
            requests,
            bodies,
        } = self;
        let sessions = entries.len();
        let prepared = move |lap: usize, due: Duration, entry: Entry| {
            let index = lap * requests + entry.index as usize;
            let session = entry
                .session
                .map(|session| lap * sessions + session as usize);
            Prepared {
                index,
                label: format!("{label}{index}"),
                due,
                body: bodies[entry.body as usize].clone(),
                cancel_after: entry.cancel_after,
                session,
            }
        };
        let arrival = move |lap: usize, due: Duration, entry: Entry| {
            let followers = followers.get(&entry.index).map_or(&[][..], Vec::as_slice);
            let follower = |follower: &FollowerEntry| Follower {
                prepared: prepared(lap, due, follower.entry),
                after: follower.after.clone(),
                delay: follower.delay,
                live: follower.live.clone(),
            };
            Arrival {
                first: prepared(lap, due, entry),
                followers: followers.iter().map(follower).collect(),
            }
        };
        match until {
            Until::LastCase | Until::Time(_) => Box::new(
                entries
                    .into_iter()
                    .map(move |entry| arrival(0, entry.due, entry)),
            ),
            Until::Cycling(_) if entries.is_empty() => Box::new(std::iter::empty()),
            Until::Cycling(_) => Box::new((0..).map(move |number: usize| {
                let entry = entries[number % sessions];
                arrival(number / sessions, Duration::ZERO, entry)
            })),
        }
    }
}
