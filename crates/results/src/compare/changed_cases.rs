//! Cases that are correct on one side and incorrect on the other.

use std::collections::BTreeMap;

use super::bootstrap::SideId;
use super::pairing::Pairing;
use super::side::{Answer, Request, Share, Side};
use crate::metrics::registry::rates;
use sobench_core::case::Arm;

/// Cases with a changed verdict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangedCases {
    /// Correct on the first side and incorrect on the second.
    pub worse: usize,
    pub better: usize,
    /// Number of cases judged on both sides.
    pub judged: usize,
    /// Some of the changed cases in file order, those that got worse first.
    pub cases: Vec<ChangedCase>,
}

/// A case with a changed verdict. With several runs per side, the majority decides.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedCase {
    pub case: String,
    pub arm: Option<Arm>,
    pub worse: bool,
    pub a: CaseResult,
    pub b: CaseResult,
}

/// The results of one side for a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseResult {
    /// The share of runs with a correct answer.
    pub correct: Share,
    /// The first answer with the majority verdict; `None` if the file has no answers.
    pub answer: Option<Answer>,
}

/// Finds the changed cases and keeps at most `limit` of them; `None` if requests are not paired.
pub fn changed_cases(a: &Side, b: &Side, pairing: &Pairing, limit: usize) -> Option<ChangedCases> {
    if *pairing == Pairing::None {
        return None;
    }
    let (of_a, of_b) = (
        by_case(a, pairing.case_numbers(SideId::A))?,
        by_case(b, pairing.case_numbers(SideId::B))?,
    );
    let mut changed = ChangedCases::default();
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
    // `false` sorts first: cases that got worse.
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

/// The verdict of sobench, or that of vLLM's script if a file has no other.
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

/// Whether most runs are correct; `None` without verdicts or in case of a tie.
fn mostly(requests: &[&Request]) -> Option<bool> {
    let share = share(requests);
    (share.of > 0 && 2 * share.hits != share.of).then_some(2 * share.hits > share.of)
}

fn seen(requests: &[&Request], correct: bool) -> CaseResult {
    let shows = requests
        .iter()
        .find(|request| verdict(request) == Some(correct));
    CaseResult {
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

    fn found(a: &Side, b: &Side, limit: usize) -> Option<ChangedCases> {
        changed_cases(a, b, &Pairing::new(a, b), limit)
    }

    #[test]
    fn worse_cases_come_first_and_all_are_counted() {
        let side_of = |verdicts: [Option<bool>; 5]| {
            let cases = ["p", "q", "r", "s", "t"]
                .iter()
                .zip(verdicts)
                .map(|(id, correct)| case(id, correct))
                .collect();
            side("s", vec![cases])
        };
        let a = side_of([Some(false), Some(true), Some(true), None, Some(true)]);
        let b = side_of([Some(true), Some(true), Some(false), Some(true), Some(false)]);
        let all = found(&a, &b, 9).unwrap();
        assert_eq!((all.worse, all.better, all.judged), (2, 1, 4));
        let shown: Vec<_> = all
            .cases
            .iter()
            .map(|case| (case.case.as_str(), case.worse))
            .collect();
        assert_eq!(shown, [("r", true), ("t", true), ("p", false)]);
        let texts = [&all.cases[0].a, &all.cases[0].b]
            .map(|seen| seen.answer.as_ref().unwrap().text.clone());
        assert_eq!(texts, ["r true", "r false"]);
        let few = found(&a, &b, 1).unwrap();
        assert_eq!((few.cases.len(), few.worse, few.better), (1, 2, 1));
    }

    #[test]
    fn majority_of_runs_decides() {
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
