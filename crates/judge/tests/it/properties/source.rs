//! Where generated cases come from: a sequence of choices, random at first, and made shorter and
//! smaller where a case fails. Knows nothing of what is generated.

use std::panic::{self, AssertUnwindSafe};

use sobench_testkit::random::Random;

/// Attempts at making a failing case smaller.
const MAX_ATTEMPTS: usize = 3_000;

/// Choices that a case is made of; 0 is always the simplest one, and what comes after the end is 0.
pub(super) struct Source {
    choices: Vec<u64>,
    at: usize,
    /// Makes up choices after the end; without it a case is repeated.
    random: Option<Random>,
}

impl Source {
    /// A number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        let choice = match (self.choices.get(self.at), &mut self.random) {
            (Some(choice), _) => *choice,
            (None, Some(random)) => {
                let choice = random.below(u64::MAX);
                self.choices.push(choice % 1_000_000);
                choice % 1_000_000
            }
            (None, None) => 0,
        };
        self.at += 1;
        usize::try_from(choice % limit as u64).expect("below a usize")
    }

    /// True once in `times`.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) + 1 == times
    }

    pub(super) fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    /// The positions below `length` in some order.
    pub(super) fn order(&mut self, length: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..length).collect();
        for last in (1..length).rev() {
            order.swap(last, last - self.below(last + 1));
        }
        order
    }
}

/// Runs `property` on `cases` cases of the stream that `seed` begins; the first one that fails is
/// made small and shown.
pub(super) fn check(seed: u64, cases: usize, property: impl Fn(&mut Source) -> Result<(), String>) {
    let run = |source: &mut Source| {
        panic::catch_unwind(AssertUnwindSafe(|| property(source)))
            .unwrap_or_else(|_| Err("it panicked, see above".to_owned()))
    };
    for case in 0..cases {
        // Steps apart, so that neighbouring cases have nothing in common.
        let random =
            Random(seed.wrapping_add((case as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1);
        let mut source = Source {
            choices: Vec::new(),
            at: 0,
            random: Some(random),
        };
        if let Err(message) = run(&mut source) {
            let (choices, message) = smallest(source.choices, message, &run);
            panic!(
                "case {case} of seed {seed:#x}, {} choices when made small:\n{message}",
                choices.len()
            );
        }
    }
}

/// Leaves choices out, sets them to 0, halves and lowers them, as long as the case still fails.
fn smallest(
    mut choices: Vec<u64>,
    mut message: String,
    run: &impl Fn(&mut Source) -> Result<(), String>,
) -> (Vec<u64>, String) {
    let mut attempts = 0;
    loop {
        let mut smaller = false;
        for candidate in candidates(&choices) {
            attempts += 1;
            if attempts > MAX_ATTEMPTS {
                return (choices, message);
            }
            let mut source = Source {
                choices: candidate,
                at: 0,
                random: None,
            };
            if let Err(found) = run(&mut source) {
                source.choices.truncate(source.at);
                (choices, message, smaller) = (source.choices, found, true);
                break;
            }
        }
        if !smaller {
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
    let lower = (0..original.len()).flat_map(move |place| {
        let original = original.clone();
        let was = original[place];
        let lower = [0, was / 2, was.saturating_sub(1)]
            .into_iter()
            .filter(move |lower| *lower < was);
        lower.map(move |lower| {
            let mut changed = original.clone();
            changed[place] = lower;
            changed
        })
    });
    without.chain(lower)
}

#[test]
fn a_failing_case_is_made_small() {
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
        message.ends_with("2 choices when made small:\n[500]"),
        "{message}"
    );
}
