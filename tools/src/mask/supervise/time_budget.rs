//! Time accounting of a job: each participant has the same time limit.

use std::collections::BTreeMap;
use std::time::Duration;

/// Time spent by each participant as of the last switch.
#[derive(Debug)]
pub(super) struct TimeBudget<T> {
    /// Limit of each participant's total time.
    limit: Duration,
    current: T,
    /// Start of the current turn, since the start of the job.
    since: Duration,
    spent: BTreeMap<T, Duration>,
}

impl<T: Copy + Ord> TimeBudget<T> {
    pub(super) fn new(limit: Duration, first: T) -> Self {
        Self {
            limit,
            current: first,
            since: Duration::ZERO,
            spent: BTreeMap::new(),
        }
    }

    /// The participant whose time is running.
    pub(super) fn current(&self) -> T {
        self.current
    }

    /// Switches to another participant at `now`, measured since the start of the job.
    pub(super) fn switch_to(&mut self, current: T, now: Duration) {
        let spent = self.spent.entry(self.current).or_default();
        *spent = spent.saturating_add(now.saturating_sub(self.since));
        (self.current, self.since) = (current, now);
    }

    /// The time since the start of the job at which it is stopped, unless the participant changes
    /// before.
    pub(super) fn deadline(&self) -> Duration {
        let spent = self.spent.get(&self.current).copied().unwrap_or_default();
        self.since.saturating_add(self.limit.saturating_sub(spent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::row_builder::TimeOwner;

    #[test]
    fn each_participant_has_its_own_time_limit() {
        let mut budget = TimeBudget::new(Duration::from_secs(10), TimeOwner::Oracle);
        assert_eq!(budget.deadline(), Duration::from_secs(10));
        for (current, now, deadline) in [
            (TimeOwner::Engine, 8, 18),
            (TimeOwner::Engine, 9, 18),
            (TimeOwner::Oracle, 12, 14),
            (TimeOwner::Engine, 13, 19),
            (TimeOwner::Oracle, 15, 16),
            (TimeOwner::Engine, 17, 21),
            (TimeOwner::Engine, 30, 30),
        ] {
            budget.switch_to(current, Duration::from_secs(now));
            assert_eq!(
                budget.deadline(),
                Duration::from_secs(deadline),
                "{current:?} at {now}"
            );
        }
        budget.switch_to(TimeOwner::Oracle, Duration::MAX);
        assert_eq!(budget.deadline(), Duration::MAX);
    }
}
