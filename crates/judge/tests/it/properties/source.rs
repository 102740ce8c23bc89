//! Source of generated cases: a sequence of random choices, which is shrunk if a case fails.

use std::panic::{self, AssertUnwindSafe};

use sobench_testkit::random::Random;

/// Maximum attempts to shrink a failing case.
const MAX_ATTEMPTS: usize = 3_000;

/// Choices of a case. 0 is always the simplest choice, and also used after the end.
pub(super) struct Source {
    choices: Vec<u64>,
    position: usize,
    /// Generates choices after the end. `None` when a case is repeated.
    random: Option<Random>,
}

impl Source {
    /// Draws a number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let choice = match (self.choices.get(self.position), &mut self.random) {
            (Some(choice), _) => *choice,
            (None, Some(random)) => {
                let choice = random.below(u64::MAX);
                self.choices.push(choice % 1_000_000);
                choice % 1_000_000
            }
            (None, None) => 0,
        };
        self.position += 1;
        usize::try_from(choice % limit as u64).expect("below a usize")
    }

    /// Draws `true` with probability 1 / `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }

    pub(super) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// Draws a permutation of the numbers below `length`.
    pub(super) fn permutation(&mut self, length: usize) -> Vec<usize> {
        let mut permutation: Vec<usize> = (0..length).collect();
        for last in (1..length).rev() {
            permutation.swap(last, last - self.below(last + 1));
        }
        permutation
    }
}

/// Runs `property` on `cases` cases from `seed`. The first failing case is shrunk and reported.
pub(super) fn check(seed: u64, cases: usize, property: impl Fn(&mut Source) -> Result<(), String>) {
    let run = |source: &mut Source| {
        panic::catch_unwind(AssertUnwindSafe(|| property(source)))
            .unwrap_or_else(|_| Err("the test panicked, see above".to_owned()))
    };
    for case in 0..cases {
        // Well separated seeds, so that neighbouring cases are independent.
        let random =
            Random(seed.wrapping_add((case as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1);
        let mut source = Source {
            choices: Vec::new(),
            position: 0,
            random: Some(random),
        };
        if let Err(message) = run(&mut source) {
            let (choices, message) = shrink(source.choices, message, &run);
            panic!(
                "case {case} of seed {seed:#x}, {} choices after shrinking:\n{message}",
                choices.len()
            );
        }
    }
}

/// Removes choices, sets them to 0, halves and decrements them while the case still fails.
fn shrink(
    mut choices: Vec<u64>,
    mut message: String,
    run: &impl Fn(&mut Source) -> Result<(), String>,
) -> (Vec<u64>, String) {
    let mut attempts = 0;
    loop {
        let mut is_smaller = false;
        for candidate in candidates(&choices) {
            attempts += 1;
            if attempts > MAX_ATTEMPTS {
                return (choices, message);
            }
            let mut source = Source {
                choices: candidate,
                position: 0,
                random: None,
            };
            if let Err(found) = run(&mut source) {
                source.choices.truncate(source.position);
                (choices, message, is_smaller) = (source.choices, found, true);
                break;
            }
        }
        if !is_smaller {
            return (choices, message);
        }
    }
}

fn candidates(choices: &[u64]) -> impl Iterator<Item = Vec<u64>> + use<> {
    let original = choices.to_vec();
    let without = [32, 8, 4, 2, 1].into_iter().flat_map({
        let original = original.clone();
        move |span: usize| {
            let original = original.clone();
            (0..(original.len() + 1).saturating_sub(span))
                .rev()
                .map(move |start| {
                    let mut shorter = original.clone();
                    shorter.drain(start..start + span);
                    shorter
                })
        }
    });
    let lower = (0..original.len()).flat_map(move |index| {
        let original = original.clone();
        let value = original[index];
        let lower = [0, value / 2, value.saturating_sub(1)]
            .into_iter()
            .filter(move |lower| *lower < value);
        lower.map(move |lower| {
            let mut changed = original.clone();
            changed[index] = lower;
            changed
        })
    });
    without.chain(lower)
}

#[test]
fn failing_cases_are_shrunk() {
    let property = |source: &mut Source| {
        let numbers: Vec<usize> = (0..source.below(20)).map(|_| source.below(1000)).collect();
        if numbers.iter().any(|number| *number >= 500) {
            Err(format!("{numbers:?}"))
        } else {
            Ok(())
        }
    };
    let failure = panic::catch_unwind(|| check(7, 100, property)).unwrap_err();
    let message = failure.downcast_ref::<String>().unwrap();
    assert!(
        message.ends_with("2 choices after shrinking:\n[500]"),
        "{message}"
    );
}
