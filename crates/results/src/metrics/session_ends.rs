//! How sessions end.

use sobench_core::observation::Outcome;
use sobench_core::verdict::Verdict;
use sobench_facts::Sample;
use sobench_judge::accuracy::Grade;
use sobench_statistics::Rate;

/// How a session ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionEnd {
    pub(super) is_cut_off: bool,
    pub(super) is_finished: bool,
    /// `None` without a judged or a failed turn.
    pub(super) is_valid: Option<bool>,
    /// `None` without a reference of the last turn.
    pub(super) is_right: Option<bool>,
    pub(super) first_sent_ns: Option<u64>,
    pub(super) last_end_ns: Option<u64>,
}

impl SessionEnd {
    fn new(turns: &[&Sample<'_>]) -> Self {
        let outcomes = || turns.iter().map(|turn| turn.outcome());
        let is_finished = outcomes().all(Outcome::is_answer);
        let is_cancelled = |outcome: &Outcome| *outcome == Outcome::Cancelled;
        let has_failed = outcomes().any(|outcome| !outcome.is_answer() && !is_cancelled(outcome));
        let verdicts = || turns.iter().map(|turn| turn.verdict());
        let has_invalid = verdicts().any(|verdict| matches!(verdict, Verdict::Invalid { .. }));
        let has_valid = verdicts().any(|verdict| matches!(verdict, Verdict::Valid));
        let last = turns.iter().max_by_key(|turn| number(turn));
        let has_reference = last.is_some_and(|last| last.request_input().score.is_some());
        let is_right = last.is_some_and(|last| last.grade() == Some(Grade::Right));
        Self {
            is_cut_off: !is_finished && !has_failed,
            is_finished,
            is_valid: (has_valid || has_invalid || has_failed)
                .then_some(is_finished && !has_invalid),
            is_right: has_reference.then_some(is_finished && is_right),
            first_sent_ns: turns.iter().filter_map(|turn| turn.sent_ns()).min(),
            last_end_ns: turns.iter().filter_map(|turn| turn.end_ns()).max(),
        }
    }
}

/// The number of a turn in its session; 0 for single requests.
pub(super) fn number(sample: &Sample<'_>) -> u32 {
    sample.turn().map_or(0, |turn| turn.turn)
}

/// The ends of the sessions of which all turns are in a group and one was sent. A session that was
/// repeated has the same number again, and other turns.
pub(super) fn ends(samples: &[&Sample<'_>]) -> Vec<SessionEnd> {
    let is_in_session = |sample: &&&Sample<'_>| sample.turn().is_some();
    let turns: Vec<&Sample<'_>> = samples.iter().filter(is_in_session).copied().collect();
    // In plan order, the first turn of a session comes before the others.
    let sessions = turns.chunk_by(|one, two| number(one) < number(two));
    let is_complete = |turns: &&[&Sample<'_>]| {
        let count = turns[0].turn().map_or(0, |turn| turn.of);
        let session = |sample: &Sample<'_>| sample.turn().map(|turn| turn.session);
        turns.len() == count as usize
            && turns.iter().all(|turn| session(turn) == session(turns[0]))
            && turns.iter().any(|turn| turn.sent_ns().is_some())
    };
    sessions.filter(is_complete).map(SessionEnd::new).collect()
}

/// The percentage of sessions that are a hit, of those that the run did not cut off.
pub(super) fn percent(
    ends: &[SessionEnd],
    hit: impl Fn(&SessionEnd) -> Option<bool>,
) -> Option<f64> {
    let counted = ends.iter().filter(|end| !end.is_cut_off);
    rate(counted.filter_map(hit)).map(|rate| rate.percent)
}

/// The share of hits.
pub(super) fn rate(hits: impl Iterator<Item = bool>) -> Option<Rate> {
    let (of, hits) = hits.fold((0, 0), |(of, hits), hit| (of + 1, hits + usize::from(hit)));
    Rate::new(hits, of)
}
