//! Queue of encoded requests in due order. Bodies that several requests share are stored once.

use std::time::Duration;

use super::exchange::{Body, Prepared};
use sobench_core::load::CancelAfter;
use sobench_core::schedule::Until;

/// The encoded requests of a run.
pub(super) struct Queue {
    /// Prefix of a request's index in `x-request-id`.
    label: &'static str,
    entries: Vec<Entry>,
    bodies: Vec<Body>,
}

/// One request.
#[derive(Clone, Copy)]
struct Entry {
    due: Duration,
    index: u32,
    body: u32,
    cancel_after: Option<CancelAfter>,
}

impl Queue {
    /// An empty queue with capacity for this many requests.
    pub(super) fn new(label: &'static str, requests: usize) -> Self {
        Self {
            label,
            entries: Vec::with_capacity(requests),
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
        self.entries.push(Entry {
            due,
            index: index as u32,
            body,
            cancel_after,
        });
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
    pub(super) fn into_requests(self, until: Until) -> Box<dyn Iterator<Item = Prepared> + Send> {
        let Self {
            label,
            entries,
            bodies,
        } = self;
        let prepared = move |index: usize, due: Duration, entry: Entry| {
            let body = bodies[entry.body as usize].clone();
            Prepared {
                index,
                label: format!("{label}{index}"),
                due,
                body,
                cancel_after: entry.cancel_after,
            }
        };
        match until {
            Until::LastCase | Until::Time(_) => Box::new(
                entries
                    .into_iter()
                    .map(move |entry| prepared(entry.index as usize, entry.due, entry)),
            ),
            Until::Cycling(_) if entries.is_empty() => Box::new(std::iter::empty()),
            Until::Cycling(_) => Box::new((0..).map(move |index: usize| {
                prepared(index, Duration::ZERO, entries[index % entries.len()])
            })),
        }
    }
}
