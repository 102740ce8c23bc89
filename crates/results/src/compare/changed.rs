//! Cases that are right on one side and wrong on the other. Knows no statistics.

use std::collections::BTreeMap;

use super::bootstrap::Which;
use super::pairing::Pairing;
use super::side::{Answer, Request, Share, Side};
use crate::metrics::registry::rates;
use sobench_core::case::Arm;

/// What changed its verdict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changed {
    /// Right on the first side and wrong on the second.
    pub worse: usize,
    pub better: usize,
    /// Cases that were judged on both sides.
    pub judged: usize,
    /// Some of them in the order of the file, those that got worse first.
    pub cases: Vec<ChangedCase>,
}

/// A case that changed its verdict. With several runs a side it is the verdict of most of them that
/// counts.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedCase {
    pub case: String,
    pub arm: Option<Arm>,
    pub worse: bool,
    pub a: Seen,
    pub b: Seen,
}

/// What one side made of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Runs in which it was right.
    pub correct: Share,
    /// The first answer that shows the verdict; `None` where the file keeps none.
    pub answer: Option<Answer>,
}

/// Finds at most `limit` of them; `None` where it is not known which requests are the same case.
pub fn changed(a: &Side, b: &Side, pairing: &Pairing, limit: usize) -> Option<Changed> {
    if *pairing == Pairing::None {
        return None;
    }
    let (of_a, of_b) = (
        by_case(a, pairing.units(Which::A))?,
        by_case(b, pairing.units(Which::B))?,
    );
    let mut changed = Changed::default();
    let mut found: Vec<(bool, u32)> = Vec::new();
    for (unit, first) in &of_a {
        let Some(second) = of_b.get(unit) else {
            continue;
        };
        let (Some(was), Some(is)) = (mostly(first), mostly(second)) else {
            continue;
        };
        changed.judged += 1;
        match (was, is) {
            (true, false) => changed.worse += 1,
            (false, true) => changed.better += 1,
            (true, true) | (false, false) => continue,
        }
        found.push((is, *unit));
    }
    // `false` sorts first: what is wrong now.
    found.sort_unstable();
    for (better, unit) in found.into_iter().take(limit) {
        let (first, second) = (&of_a[&unit], &of_b[&unit]);
        changed.cases.push(ChangedCase {
            case: first[0]
                .case
                .clone()
                .unwrap_or_else(|| format!("request {unit}")),
            arm: first[0].arm,
            worse: !better,
            a: seen(first, !better),
            b: seen(second, better),
        });
    }
    Some(changed)
}

fn by_case<'s>(side: &'s Side, units: &[u32]) -> Option<BTreeMap<u32, Vec<&'s Request>>> {
    let mut cases: BTreeMap<u32, Vec<&Request>> = BTreeMap::new();
    for ((_, request), unit) in side.requests()?.into_iter().zip(units) {
        cases.entry(*unit).or_default().push(request);
    }
    Some(cases)
}

/// Our own verdict on a constrained answer, else the vLLM script's, where that is all a file has.
fn verdict(request: &Request) -> Option<bool> {
    let ours = request.in_rate(&rates::CORRECT_RATE);
    if request.arm.is_none() {
        ours.or(request.values.hit(&rates::VLLM_CORRECT_RATE))
    } else {
        ours
    }
}

fn share(requests: &[&Request]) -> Share {
    Share::count(requests.iter().filter_map(|request| verdict(request)))
}

/// Whether it was right in most runs; half of them are not most, and say nothing.
fn mostly(requests: &[&Request]) -> Option<bool> {
    let share = share(requests);
    (share.of > 0 && 2 * share.hits != share.of).then_some(2 * share.hits > share.of)
}

fn seen(requests: &[&Request], correct: bool) -> Seen {
    let shows = requests
        .iter()
        .find(|request| verdict(request) == Some(correct));
    Seen {
        correct: share(requests),
        answer: shows.and_then(|request| request.answer.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{request, side};

    fn case(id: &str, correct: Option<bool>) -> Request {
        let answer = correct.map(|correct| Answer {
            text: format!("{id} {correct}"),
            verdict: String::new(),
        });
        Request {
            case: Some(id.into()),
            answer,
            ..request()
        }
        .with_correct(correct)
    }

    fn found(a: &Side, b: &Side, limit: usize) -> Option<Changed> {
        changed(a, b, &Pairing::of(a, b), limit)
    }

    #[test]
    fn what_got_worse_comes_first_and_all_are_counted() {
        let of = |verdicts: [Option<bool>; 5]| {
            let cases = ["p", "q", "r", "s", "t"]
                .iter()
                .zip(verdicts)
                .map(|(id, correct)| case(id, correct))
                .collect();
            side("s", vec![cases])
        };
        let a = of([Some(false), Some(true), Some(true), None, Some(true)]);
        let b = of([Some(true), Some(true), Some(false), Some(true), Some(false)]);
        let all = found(&a, &b, 9).unwrap();
        assert_eq!((all.worse, all.better, all.judged), (2, 1, 4));
        let shown: Vec<_> = all
            .cases
            .iter()
            .map(|it| (it.case.as_str(), it.worse))
            .collect();
        assert_eq!(shown, [("r", true), ("t", true), ("p", false)]);
        let texts = [&all.cases[0].a, &all.cases[0].b]
            .map(|seen| seen.answer.as_ref().unwrap().text.clone());
        assert_eq!(texts, ["r true", "r false"]);
        let few = found(&a, &b, 1).unwrap();
        assert_eq!((few.cases.len(), few.worse, few.better), (1, 2, 1));
    }

    #[test]
    fn of_several_runs_most_decide() {
        let run = |correct| vec![case("p", Some(correct))];
        let a = side("a", vec![run(true), run(false), run(true)]);
        let half = side("b", vec![run(true), run(false)]);
        let b = side("b", vec![run(false), run(false), run(true)]);
        assert_eq!(found(&a, &half, 9).unwrap().judged, 0);
        let changed = found(&a, &b, 9).unwrap();
        assert_eq!(
            (changed.worse, changed.cases[0].b.correct),
            (1, Share { hits: 1, of: 3 })
        );
        assert_eq!(changed.cases[0].b.answer.as_ref().unwrap().text, "p false");
    }
}
