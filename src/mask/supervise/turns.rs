//! How much of a row's time is the engine's and how much is our own evaluator's, each with the same limit. Knows no clock.

use std::time::Duration;

use crate::mask::assemble::Turn;

/// The time spent by either, as of the last change of turns.
#[derive(Debug)]
pub(super) struct Turns {
    /// For each of the two, all its turns together.
    limit: Duration,
    turn: Turn,
    /// From the beginning of the row.
    since: Duration,
    oracle: Duration,
    engine: Duration,
}

impl Turns {
    /// A row begins with our evaluator.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, turn: Turn::Oracle, since: Duration::ZERO, oracle: Duration::ZERO, engine: Duration::ZERO }
    }

    /// From `now` on, counted from the beginning of the row, it is this one's turn.
    pub(super) fn begin(&mut self, turn: Turn, now: Duration) {
        let spent = now.saturating_sub(self.since);
        match self.turn {
            Turn::Oracle => self.oracle = self.oracle.saturating_add(spent),
            Turn::Engine => self.engine = self.engine.saturating_add(spent),
        }
        (self.turn, self.since) = (turn, now);
    }

    /// When the row is stopped unless the turn changes before, from the beginning of the row.
    pub(super) fn deadline(&self) -> Duration {
        let spent = match self.turn {
            Turn::Oracle => self.oracle,
            Turn::Engine => self.engine,
        };
        self.since.saturating_add(self.limit.saturating_sub(spent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_spends_the_other_s_time() {
        let mut turns = Turns::new(Duration::from_secs(10));
        assert_eq!(turns.deadline(), Duration::from_secs(10));
        for (turn, now, deadline) in [
            (Turn::Engine, 8, 18),
            (Turn::Engine, 9, 18),
            (Turn::Oracle, 12, 14),
            (Turn::Engine, 13, 19),
            (Turn::Oracle, 15, 16),
            (Turn::Engine, 17, 21),
            (Turn::Engine, 30, 30),
        ] {
            turns.begin(turn, Duration::from_secs(now));
            assert_eq!(turns.deadline(), Duration::from_secs(deadline), "{turn:?} at {now}");
        }
        turns.begin(Turn::Oracle, Duration::MAX);
        assert_eq!(turns.deadline(), Duration::MAX);
    }
}
