//! Cases that are correct in fewer, or more, runs of one side than of the other.

use std::cmp::{Ordering, Reverse};
use std::collections::{HashMap, HashSet};

use super::bootstrap::SideId;
use super::pairing::Pairing;
use super::requests::RequestView;
use super::side::{Answer, Side};
use crate::metrics::registry::{Figure, rates};
use sobench_core::case::Arm;
use sobench_statistics::contrast::Share;

/// Cases with a changed verdict.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChangedCases {
    /// Cases whose share of correct runs fell: with one run a side, correct on the first side and
    /// incorrect on the second.
    pub worse: usize,
    pub better: usize,
    /// Number of cases judged on both sides.
    pub judged: usize,
    /// Some of the changed cases, those that got worse first, by the size of the change and in file
    /// order.
    pub cases: Vec<ChangedCase>,
}

/// A case with a changed share of correct runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedCase {
    pub case: String,
    pub arm: Option<Arm>,
    pub worse: bool,
    pub a: CaseResult,
    pub b: CaseResult,
    /// A shell line that sends the request to the second side again, if its answer got worse.
    pub curl: Option<String>,
}

/// The results of one side for a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseResult {
    /// The share of runs with a correct answer.
    pub correct: Share,
    /// The first answer with the verdict that became rarer, on the first side, or more frequent, on
    /// the second; `None` if the file has no answers. Its text is read
    /// from the file ([`super::files::read_texts`]).
    pub answer: Option<Answer>,
    /// The run and the request of the answer.
    pub place: Option<(usize, usize)>,
}

/// Finds the changed cases and keeps at most `limit` of them; `None` if requests are not paired.
pub fn changed_cases(a: &Side, b: &Side, pairing: &Pairing, limit: usize) -> Option<ChangedCases> {
    if *pairing == Pairing::None {
        return None;
    }
    let [units_a, units_b] = [SideId::A, SideId::B].map(|which| pairing.case_numbers(which));
    let of_a = by_case(a, units_a, pairing.cases())?;
    let of_b = by_case(b, units_b, pairing.cases())?;
    let mut changed = ChangedCases::default();
    let mut found = Vec::new();
    for (unit, (first, second)) in of_a.iter().zip(&of_b).enumerate() {
        if first.of == 0 || second.of == 0 {
            continue;
        }
        changed.judged += 1;
        // The shares with a common denominator.
        let (was, is) = (first.hits * second.of, second.hits * first.of);
        let is_better = match is.cmp(&was) {
            Ordering::Less => false,
            Ordering::Equal => continue,
            Ordering::Greater => true,
        };
        let count = if is_better {
            &mut changed.better
        } else {
            &mut changed.worse
        };
        *count += 1;
        let change = was.abs_diff(is) as f64 / (first.of * second.of) as f64;
        // Shares have few values: the same change has the same number.
        found.push((is_better, Reverse((change * 1e6) as u64), unit as u32));
    }
    // `false` sorts first: cases that got worse.
    found.sort_unstable();
    found.truncate(limit);
    let shown: HashSet<u32> = found.iter().map(|(.., unit)| *unit).collect();
    let (shown_a, shown_b) = (
        requests_of(a, units_a, &shown)?,
        requests_of(b, units_b, &shown)?,
    );
    for (better, _, unit) in found {
        let (first, second) = (&shown_a[&unit], &shown_b[&unit]);
        let (_, case) = first[0];
        changed.cases.push(ChangedCase {
            case: case.case().unwrap_or_else(|| format!("request {unit}")),
            arm: case.arm(),
            worse: !better,
            a: seen(first, !better),
            b: seen(second, better),
            curl: None,
        });
    }
    Some(changed)
}

/// The verdicts of each case.
fn by_case(side: &Side, units: &[u32], cases: usize) -> Option<Vec<Share>> {
    let mut shares = vec![Share::default(); cases];
    for ((_, request), unit) in side.requests()?.zip(units) {
        if let Some(hit) = verdict(request) {
            let share = &mut shares[*unit as usize];
            share.of += 1;
            share.hits += usize::from(hit);
        }
    }
    Some(shares)
}

/// The requests of some cases, with the indices of their runs.
fn requests_of<'s>(
    side: &'s Side,
    units: &[u32],
    shown: &HashSet<u32>,
) -> Option<HashMap<u32, Vec<(usize, RequestView<'s>)>>> {
    let mut found: HashMap<u32, Vec<(usize, RequestView<'_>)>> = HashMap::new();
    for (request, unit) in side.requests()?.zip(units) {
        if shown.contains(unit) {
            found.entry(*unit).or_default().push(request);
        }
    }
    Some(found)
}

/// The verdict of sobench, or that of vLLM's script if a file has no other.
fn verdict(request: RequestView<'_>) -> Option<bool> {
    let ours = request.in_rate(Figure::new(&rates::CORRECT_RATE));
    if request.arm().is_none() {
        ours.or(request.hit(&rates::VLLM_CORRECT_RATE))
    } else {
        ours
    }
}

fn seen(requests: &[(usize, RequestView<'_>)], correct: bool) -> CaseResult {
    let verdicts = requests.iter().filter_map(|(_, request)| verdict(*request));
    let shows = requests
        .iter()
        .find(|(_, request)| verdict(*request) == Some(correct));
    CaseResult {
        correct: Share::count(verdicts),
        answer: shows.and_then(|(_, request)| {
            Some(Answer {
                text: String::new(),
                verdict: request.verdict()?.to_owned(),
            })
        }),
        place: shows.map(|(run, request)| (*run, request.index())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::requests::Request;
    use crate::compare::testing::{request, side};

    fn case(id: &str, correct: Option<bool>) -> Request {
        Request {
            case: Some(id.into()),
            verdict: correct.map(|correct| format!("{id} {correct}")),
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
        let verdicts = [&all.cases[0].a, &all.cases[0].b]
            .map(|seen| seen.answer.as_ref().unwrap().verdict.clone());
        assert_eq!(verdicts, ["r true", "r false"]);
        assert_eq!(all.cases[0].a.place, Some((0, 2)));
        let few = found(&a, &b, 1).unwrap();
        assert_eq!((few.cases.len(), few.worse, few.better), (1, 2, 1));
    }

    #[test]
    fn cases_that_fail_in_more_runs_are_worse() {
        let run = |p, q| vec![case("p", Some(p)), case("q", Some(q))];
        let valid = || run(true, true);
        let a = side("a", vec![valid(), valid(), valid()]);
        let b = side("b", vec![valid(), run(false, false), run(true, false)]);
        let changed = found(&a, &b, 9).unwrap();
        assert_eq!((changed.worse, changed.better, changed.judged), (2, 0, 2));
        let shown: Vec<_> = changed
            .cases
            .iter()
            .map(|case| (case.case.as_str(), case.b.correct.hits, case.b.correct.of))
            .collect();
        assert_eq!(shown, [("q", 1, 3), ("p", 2, 3)], "the larger change first");
        assert_eq!(changed.cases[1].b.place, Some((1, 0)));
        assert_eq!(
            changed.cases[1].b.answer.as_ref().unwrap().verdict,
            "p false"
        );
        // The same share of another number of runs is no change.
        let half = side("a", vec![run(true, true), run(false, true)]);
        let four = side(
            "b",
            vec![valid(), run(false, true), valid(), run(false, true)],
        );
        let same = found(&half, &four, 9).unwrap();
        assert_eq!((same.worse, same.better, same.judged), (0, 0, 2));
    }
}
