//! Requests in the order of their turns, in a few bytes each: what they have in common is kept
//! once. Knows no socket and no clock.

use std::time::Duration;

use super::exchange::{Body, Prepared};
use sobench_core::schedule::Until;

/// The requests of a run, ready to go.
pub(super) struct Queue {
    /// What comes before a request's number in `x-request-id`.
    label: &'static str,
    turns: Vec<Turn>,
    bodies: Vec<Body>,
}

/// One request.
#[derive(Clone, Copy)]
struct Turn {
    due: Duration,
    index: u32,
    body: u32,
}

impl Queue {
    /// An empty one with room for so many.
    pub(super) fn new(label: &'static str, requests: usize) -> Self {
        Self {
            label,
            turns: Vec::with_capacity(requests),
            bodies: Vec::new(),
        }
    }

    /// Takes a body, which several requests may have; returns its number.
    pub(super) fn body(&mut self, body: Body) -> u32 {
        self.bodies.push(body);
        (self.bodies.len() - 1) as u32
    }

    /// Adds request `index` of the plan, behind those of lower numbers.
    pub(super) fn push(&mut self, index: usize, due: Duration, body: u32) {
        self.turns.push(Turn {
            due,
            index: index as u32,
            body,
        });
    }

    /// Puts the requests into the order in which they are due; those due together keep the plan's.
    pub(super) fn sort(&mut self) {
        self.turns.sort_by_key(|turn| turn.due);
    }

    /// When they are due, in the order of their turns.
    pub(super) fn due(&self) -> impl Iterator<Item = Duration> + '_ {
        self.turns.iter().map(|turn| turn.due)
    }

    /// The requests in the order of their turns: once, or round and round, each with a number of
    /// its own.
    pub(super) fn in_turn(self, until: Until) -> Box<dyn Iterator<Item = Prepared> + Send> {
        let Self {
            label,
            turns,
            bodies,
        } = self;
        let prepared = move |index: usize, due: Duration, body: u32| {
            let body = bodies[body as usize].clone();
            Prepared {
                index,
                label: format!("{label}{index}"),
                due,
                body,
            }
        };
        match until {
            Until::LastCase | Until::Time(_) => Box::new(
                turns
                    .into_iter()
                    .map(move |turn| prepared(turn.index as usize, turn.due, turn.body)),
            ),
            Until::Cycling(_) if turns.is_empty() => Box::new(std::iter::empty()),
            Until::Cycling(_) => Box::new((0..).map(move |index: usize| {
                prepared(index, Duration::ZERO, turns[index % turns.len()].body)
            })),
        }
    }
}
