//! Pairs the requests of two sides by case.

use std::collections::HashMap;

use super::bootstrap::SideId;
use super::requests::Requests;
use super::side::Side;
use sobench_core::case::Arm;
use sobench_facts::compact_ids::CompactId;
use sobench_plan::record::condition::Field;

/// Minimum share of common cases among all cases. With fewer, resampling common cases would ignore
/// most requests.
const MIN_COMMON: f64 = 0.5;

/// The pairing of the requests of two sides. Lists have a number for each request of all runs of a
/// side, in order; equal numbers are the same case.
#[derive(Clone, Debug, PartialEq)]
pub enum Pairing {
    /// By case id, with the same dataset.
    ByCase {
        a: Vec<u32>,
        b: Vec<u32>,
        cases: usize,
    },
    /// By position: the files have no case ids, and the prompt lengths are equal one by one.
    ByPlace {
        a: Vec<u32>,
        b: Vec<u32>,
        cases: usize,
    },
    /// The cases differ or are unknown.
    None,
}

impl Pairing {
    /// Pairs the requests of two sides, each with one of the same arm.
    pub fn new(a: &Side, b: &Side) -> Self {
        Self::by(a, b, |arm| arm)
    }

    /// Pairs each request with the same one of another arm.
    pub fn of_arms(a: &Side, b: &Side) -> Self {
        Self::by(a, b, |_| None)
    }

    fn by(a: &Side, b: &Side, arm: fn(Option<Arm>) -> Option<Arm>) -> Self {
        let (Some(runs_a), Some(runs_b)) = (a.run_requests(), b.run_requests()) else {
            return Self::None;
        };
        let mut names = HashMap::new();
        if let (Some(keys_a), Some(keys_b)) = (
            keys(&runs_a, &mut names, arm),
            keys(&runs_b, &mut names, arm),
        ) {
            if !same_dataset(a, b) {
                return Self::None;
            }
            let (a, b, cases) = numbered(&keys_a, &keys_b);
            let common = common(&a, &b, cases);
            if common == 0 || (common as f64) < MIN_COMMON * cases as f64 {
                return Self::None;
            }
            return Self::ByCase { a, b, cases };
        }
        let positions = |runs: &[&Requests]| -> Option<(Vec<u64>, Vec<u32>)> {
            let lengths = |requests: &Requests| {
                let lengths = requests.iter().map(|request| request.input_tokens());
                lengths.collect::<Option<Vec<u64>>>()
            };
            let first = lengths(runs.first()?)?;
            let same = runs
                .iter()
                .all(|requests| lengths(requests).as_ref() == Some(&first));
            let numbers = runs.iter().flat_map(|_| 0..first.len() as u32).collect();
            (same && !first.is_empty()).then_some((first, numbers))
        };
        let named = |runs: &[&Requests]| {
            let mut requests = runs.iter().flat_map(|requests| requests.iter());
            requests.any(|request| request.id().is_some())
        };
        match (positions(&runs_a), positions(&runs_b)) {
            (Some((lengths_a, a)), Some((lengths_b, b)))
                if lengths_a == lengths_b && !named(&runs_a) && !named(&runs_b) =>
            {
                Self::ByPlace {
                    a,
                    b,
                    cases: lengths_a.len(),
                }
            }
            _ => Self::None,
        }
    }

    /// The case number of each request of a side; empty if they are not paired.
    pub fn case_numbers(&self, which: SideId) -> &[u32] {
        match (self, which) {
            (Self::ByCase { a, .. } | Self::ByPlace { a, .. }, SideId::A) => a,
            (Self::ByCase { b, .. } | Self::ByPlace { b, .. }, SideId::B) => b,
            (Self::None, _) => &[],
        }
    }

    /// Number of cases on both sides together.
    pub fn cases(&self) -> usize {
        match self {
            Self::ByCase { cases, .. } | Self::ByPlace { cases, .. } => *cases,
            Self::None => 0,
        }
    }

    /// A description for reports.
    pub fn description(&self) -> &'static str {
        match self {
            Self::ByCase { .. } => "paired by case",
            Self::ByPlace { .. } => {
                "paired by position in the file, because the prompt lengths are equal one by one"
            }
            Self::None => "not paired",
        }
    }
}

/// A case: its arm, its id as a number of its name and its own number, and how many times the id
/// occurred in the run so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    arm: Option<u8>,
    name: u32,
    id_number: u32,
    times: u32,
}

/// The keys of all requests; `None` if one has no id. `names` are the names of ids of both sides.
fn keys<'s>(
    runs: &[&'s Requests],
    names: &mut HashMap<&'s str, u32>,
    arm: fn(Option<Arm>) -> Option<Arm>,
) -> Option<Vec<Key>> {
    let mut keys = Vec::with_capacity(runs.iter().map(|requests| requests.len()).sum());
    for requests in runs {
        let shared: Vec<u32> = requests
            .ids()
            .names()
            .map(|name| {
                let next = names.len() as u32;
                *names.entry(name).or_insert(next)
            })
            .collect();
        let mut seen: HashMap<CompactId, u32> = HashMap::new();
        for request in requests.iter() {
            let id = request.id()?;
            let times = seen.entry(id).or_default();
            *times += 1;
            keys.push(Key {
                arm: arm(request.arm()).map(|arm| arm as u8),
                name: shared[id.name as usize],
                id_number: id.number,
                times: *times,
            });
        }
    }
    Some(keys)
}

/// The number of cases that are on both sides.
fn common(a: &[u32], b: &[u32], cases: usize) -> usize {
    let mut is_on_side = vec![[false; 2]; cases];
    for (side, numbers) in [a, b].into_iter().enumerate() {
        for number in numbers {
            is_on_side[*number as usize][side] = true;
        }
    }
    is_on_side
        .iter()
        .filter(|sides| **sides == [true; 2])
        .count()
}

/// Whether all runs are known to have the same dataset. Ids identify cases only within a dataset.
fn same_dataset(a: &Side, b: &Side) -> bool {
    let mut hashes = a
        .runs
        .iter()
        .chain(&b.runs)
        .map(|run| run.conditions.get(&Field::Dataset));
    let first = hashes.next().flatten();
    first.is_some() && hashes.all(|hash| hash == first)
}

fn numbered(a: &[Key], b: &[Key]) -> (Vec<u32>, Vec<u32>, usize) {
    let mut numbers = HashMap::new();
    let mut number = |key: &Key| {
        let next = numbers.len() as u32;
        *numbers.entry(*key).or_insert(next)
    };
    let a = a.iter().map(&mut number).collect();
    let b = b.iter().map(&mut number).collect();
    (a, b, numbers.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::requests::Request;
    use crate::compare::testing::{request, side};

    fn case(id: &str, correct: bool) -> Request {
        Request {
            case: Some(id.into()),
            ..request()
        }
        .with_correct(correct)
    }

    #[test]
    fn equal_ids_of_the_same_dataset_are_pairs() {
        let a = side(
            "a",
            vec![vec![case("x", true), case("y", false), case("z", true)]],
        );
        let b = side(
            "b",
            vec![vec![case("y", true), case("x", true), case("w", true)]],
        );
        let pairing = Pairing::new(&a, &b);
        assert_eq!(
            pairing,
            Pairing::ByCase {
                a: vec![0, 1, 2],
                b: vec![1, 0, 3],
                cases: 4
            }
        );
        let mut other = b;
        other.runs[0]
            .conditions
            .insert(Field::Dataset, "another".into());
        assert_eq!(Pairing::new(&a, &other), Pairing::None);
        other.runs[0].conditions.remove(&Field::Dataset);
        assert_eq!(
            Pairing::new(&a, &other),
            Pairing::None,
            "an unknown dataset is not the same"
        );
        let disjoint = side("b", vec![vec![case("p", true), case("q", true)]]);
        assert_eq!(Pairing::new(&a, &disjoint), Pairing::None);
    }

    #[test]
    fn arm_is_part_of_the_key_and_repeated_ids_are_counted() {
        let control = Request {
            arm: Some(Arm::Control),
            ..case("y", true)
        };
        let a = side(
            "a",
            vec![vec![case("x", true), case("x", true), case("y", true)]],
        );
        let b = side("b", vec![vec![case("x", true), case("x", true), control]]);
        assert_eq!(
            Pairing::new(&a, &b),
            Pairing::ByCase {
                a: vec![0, 1, 2],
                b: vec![0, 1, 3],
                cases: 4
            }
        );
    }

    #[test]
    fn without_ids_prompt_lengths_decide() {
        let with_lengths = |lengths: [u64; 3]| {
            let request = |tokens| Request {
                case: None,
                input_tokens: Some(tokens),
                ..request()
            };
            side(
                "s",
                vec![lengths.map(request).to_vec(), lengths.map(request).to_vec()],
            )
        };
        let positions = vec![0, 1, 2, 0, 1, 2];
        let expected = Pairing::ByPlace {
            a: positions.clone(),
            b: positions,
            cases: 3,
        };
        assert_eq!(
            Pairing::new(&with_lengths([5, 6, 5]), &with_lengths([5, 6, 5])),
            expected
        );
        assert_eq!(
            Pairing::new(&with_lengths([5, 6, 5]), &with_lengths([5, 6, 7])),
            Pairing::None
        );
    }
}
