//! Pairs the requests of two sides by case.

use std::collections::{HashMap, HashSet};

use super::bootstrap::SideId;
use super::side::{Request, Side};
use crate::metrics::registry::Metric;
use crate::record::condition::Field;
use sobench_core::case::Arm;
use sobench_statistics::paired::Pairs;

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
    /// Pairs the requests of two sides.
    pub fn new(a: &Side, b: &Side) -> Self {
        let (Some(requests_a), Some(requests_b)) = (a.requests(), b.requests()) else {
            return Self::None;
        };
        if let (Some(keys_a), Some(keys_b)) = (keys(&requests_a), keys(&requests_b)) {
            if !same_dataset(a, b) {
                return Self::None;
            }
            let set_a: HashSet<Key<'_>> = keys_a.iter().copied().collect();
            let set_b: HashSet<Key<'_>> = keys_b.iter().copied().collect();
            let common = set_a.intersection(&set_b).count() as f64;
            if common == 0.0 || common < MIN_COMMON * set_a.union(&set_b).count() as f64 {
                return Self::None;
            }
            let (a, b, cases) = numbered(&keys_a, &keys_b);
            return Self::ByCase { a, b, cases };
        }
        let positions = |side: &Side| -> Option<(Vec<u64>, Vec<u32>)> {
            let lengths = |requests: &[Request]| {
                requests
                    .iter()
                    .map(|request| request.input_tokens)
                    .collect::<Option<Vec<u64>>>()
            };
            let first = lengths(side.runs.first()?.requests.as_ref()?)?;
            let same = side
                .runs
                .iter()
                .all(|run| run.requests.as_deref().and_then(lengths).as_ref() == Some(&first));
            let numbers = side
                .runs
                .iter()
                .flat_map(|_| 0..first.len() as u32)
                .collect();
            (same && !first.is_empty()).then_some((first, numbers))
        };
        let named = |requests: &[(usize, &Request)]| {
            requests.iter().any(|(_, request)| request.case.is_some())
        };
        match (positions(a), positions(b)) {
            (Some((lengths_a, a)), Some((lengths_b, b)))
                if lengths_a == lengths_b && !named(&requests_a) && !named(&requests_b) =>
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

    /// Counts the pairs of a rate, run by run in the given order; `None` if the sides are not
    /// paired or have different numbers of runs.
    pub fn pairs(&self, a: &Side, b: &Side, rate: &Metric) -> Option<Pairs> {
        if *self == Self::None || a.runs.len() != b.runs.len() {
            return None;
        }
        let hits_of_a: HashMap<(usize, u32), bool> = self.hits(a, SideId::A, rate)?.collect();
        let mut pairs = Pairs::default();
        for (key, b) in self.hits(b, SideId::B, rate)? {
            if let Some(a) = hits_of_a.get(&key) {
                pairs.add(*a, b);
            }
        }
        Some(pairs)
    }

    fn hits<'s>(
        &'s self,
        side: &'s Side,
        which: SideId,
        rate: &'s Metric,
    ) -> Option<impl Iterator<Item = ((usize, u32), bool)> + 's> {
        let numbered = side.requests()?.into_iter().zip(self.case_numbers(which));
        Some(
            numbered.filter_map(move |((run, request), unit)| {
                Some(((run, *unit), request.in_rate(rate)?))
            }),
        )
    }
}

/// Arm, id, and how many times the id occurred in the run so far.
type Key<'s> = (Option<Arm>, &'s str, usize);

/// The keys of all requests; `None` if one has no id.
fn keys<'s>(requests: &[(usize, &'s Request)]) -> Option<Vec<Key<'s>>> {
    let mut seen: HashMap<(usize, &str), usize> = HashMap::new();
    let key = |(run, request): &(usize, &'s Request)| {
        let id = request.case.as_deref()?;
        let times = seen.entry((*run, id)).or_default();
        *times += 1;
        Some((request.arm, id, *times))
    };
    requests.iter().map(key).collect()
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

fn numbered(a: &[Key<'_>], b: &[Key<'_>]) -> (Vec<u32>, Vec<u32>, usize) {
    let mut numbers = HashMap::new();
    let mut number = |key: &Key<'_>| {
        let next = numbers.len() as u32;
        *numbers
            .entry((key.0, key.1.to_owned(), key.2))
            .or_insert(next)
    };
    let a = a.iter().map(&mut number).collect();
    let b = b.iter().map(&mut number).collect();
    (a, b, numbers.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::{request, side};
    use crate::metrics::registry::rates;

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
        assert_eq!(
            pairing.pairs(&a, &b, &rates::CORRECT_RATE),
            Some(Pairs {
                both: 1,
                only_b: 1,
                ..Pairs::default()
            })
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
