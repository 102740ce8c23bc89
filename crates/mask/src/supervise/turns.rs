//! How much time of a job each of its participants spends, all with the same limit. Knows no clock.

use std::collections::BTreeMap;
use std::time::Duration;

/// The time that each has spent as of the last change of turns.
#[derive(Debug)]
pub(super) struct Turns<T> {
    /// For each, all its turns together.
    limit: Duration,
    turn: T,
    /// From the beginning of the job.
    since: Duration,
    spent: BTreeMap<T, Duration>,
}

impl<T: Copy + Ord> Turns<T> {
    pub(super) fn new(limit: Duration, first: T) -> Self {
        Self {
            limit,
            turn: first,
            since: Duration::ZERO,
            spent: BTreeMap::new(),
        }
    }

    /// Whose turn it is.
    pub(super) fn turn(&self) -> T {
        self.turn
    }

    /// From `now` on, counted from the beginning of the job, it is this one's turn.
    pub(super) fn begin(&mut self, turn: T, now: Duration) {
        let spent = self.spent.entry(self.turn).or_default();
        *spent = spent.saturating_add(now.saturating_sub(self.since));
        (self.turn, self.since) = (turn, now);
    }

    /// When the job is stopped unless the turn changes before, from its beginning.
    pub(super) fn deadline(&self) -> Duration {
        let spent = self.spent.get(&self.turn).copied().unwrap_or_default();
        self.since.saturating_add(self.limit.saturating_sub(spent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::Turn;

    #[test]
    fn neither_spends_the_other_s_time() {
        let mut turns = Turns::new(Duration::from_secs(10), Turn::Oracle);
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
            assert_eq!(
                turns.deadline(),
                Duration::from_secs(deadline),
                "{turn:?} at {now}"
            );
        }
        turns.begin(Turn::Oracle, Duration::MAX);
        assert_eq!(turns.deadline(), Duration::MAX);
    }
}
