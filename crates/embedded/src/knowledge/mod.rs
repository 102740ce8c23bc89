//! Planted knowledge: the answers that the synthetic model knows, so that the true accuracy of a run
//! is known.
//!
//! Whether it knows an item depends on the kind of the arm: without the schema, with the schema in
//! the prompt, or with a constraint. With the probability `correlation`, one uniform number decides
//! for all arms of an item. Otherwise each arm has a number of its own. The probability that the
//! answers of two arms with the probabilities `p` and `q` are both right is therefore
//! `correlation * min(p, q) + (1 - correlation) * p * q`. Seed, item and arm determine the numbers.
//!
//! Constrained answers are still written under the masks of the engine.

mod changed;
mod document;
mod texts;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};

use super::request::GenerationRequest;
use super::seeds::Draws;
use sobench_core::case::{Arm, Case};
use sobench_core::constraint::Constraint;
use sobench_core::error::Error;

pub(super) use texts::answer_text;

/// The correlation if it is not given.
const DEFAULT_CORRELATION: f64 = 0.5;

/// Probabilities that the model knows the right answer, written as
/// `P_FREE,P_PROMPT,P_CONSTRAINED[,CORRELATION]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knowledge {
    /// Without the schema ([`Arm::Free`]).
    pub free: f64,
    /// With the schema in the prompt, without a constraint ([`Arm::Control`]).
    pub prompt: f64,
    /// With a constraint (all other arms).
    pub constrained: f64,
    /// Share of the items for which one random number decides in all arms.
    pub correlation: f64,
}

impl Knowledge {
    /// The probability for an arm.
    pub fn probability(&self, arm: Arm) -> f64 {
        match arm {
            Arm::Free => self.free,
            Arm::Control => self.prompt,
            _ => self.constrained,
        }
    }

    /// Whether the model knows the right answer to an item in an arm.
    pub fn knows(&self, seed: u64, item: u32, arm: Arm) -> bool {
        let mut shared = Draws::new(seed, &format!("item {item}"));
        let unit = if shared.unit() < self.correlation {
            shared.unit()
        } else {
            Draws::new(seed, &format!("item {item}, arm {}", arm.name())).unit()
        };
        unit < self.probability(arm)
    }
}

impl fmt::Display for Knowledge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            free,
            prompt,
            constrained,
            correlation,
        } = self;
        write!(f, "{free},{prompt},{constrained},{correlation}")
    }
}

impl FromStr for Knowledge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<f64>> = text
            .split(',')
            .map(|number| {
                let number = number.trim().parse().ok();
                number.filter(|number| (0.0..=1.0).contains(number))
            })
            .collect();
        let (free, prompt, constrained, correlation) = match numbers.as_deref() {
            Some([free, prompt, constrained]) => {
                (*free, *prompt, *constrained, DEFAULT_CORRELATION)
            }
            Some([free, prompt, constrained, correlation]) => {
                (*free, *prompt, *constrained, *correlation)
            }
            _ => {
                return Err(
                    "expected three or four numbers from 0 to 1, such as 0.4,0.5,0.6".to_owned(),
                );
            }
        };
        Ok(Self {
            free,
            prompt,
            constrained,
            correlation,
        })
    }
}

/// Identifies the content of a request.
type Key = [u8; 16];

/// The known answers of a server.
#[derive(Debug, Default)]
pub(super) struct KnownAnswers(RwLock<HashMap<Key, Arc<str>>>);

impl KnownAnswers {
    /// The answer to a request, if it is known.
    pub(super) fn get(&self, request: &GenerationRequest) -> Option<Arc<str>> {
        let answers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if answers.is_empty() {
            return None;
        }
        answers.get(&key(request)).map(Arc::clone)
    }

    /// Adds the answer to a request. The first answer to equal requests is kept.
    pub(super) fn add(&self, request: &GenerationRequest, answer: String) {
        let mut answers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Vacant(entry) = answers.entry(key(request)) {
            entry.insert(answer.into());
        }
    }
}

fn key(request: &GenerationRequest) -> Key {
    let constraint = request.constraint.as_deref().map(Constraint::fingerprint);
    let hash = Sha256::new()
        .chain_update([u8::from(request.thinking.is_on)])
        .chain_update(constraint.unwrap_or_default())
        .chain_update([0])
        .chain_update(&request.prompt)
        .finalize();
    std::array::from_fn(|index| hash[index])
}

/// The error for a run in which no request has an answer that the model could know.
pub(super) fn no_references(cases: &[Case]) -> Error {
    let has_calls = cases.iter().any(|case| case.completion.is_some());
    let why = if has_calls {
        "the references of the dataset are not texts, JSON, numbers or choices"
    } else {
        "the dataset has no references"
    };
    Error::usage(format!("--embedded-knows has no effect: {why}")).hint(
        "use a dataset with references, such as extract, or custom rows with the member reference",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Items of each test.
    const ITEMS: u32 = 20_000;

    #[test]
    fn probabilities_are_numbers_from_0_to_1() {
        let parsed: Knowledge = "0.4, 0.5,1".parse().unwrap();
        assert_eq!(parsed.to_string(), "0.4,0.5,1,0.5");
        assert_eq!("0.4,0.5,1,0".parse::<Knowledge>().unwrap().correlation, 0.0);
        for wrong in ["", "0.5", "0.5,0.5", "0.5,0.5,1.1", "a,b,c", "0,0,0,0,0"] {
            let error = wrong.parse::<Knowledge>().unwrap_err();
            assert_eq!(
                error,
                "expected three or four numbers from 0 to 1, such as 0.4,0.5,0.6"
            );
        }
    }

    #[test]
    fn shares_and_their_overlap_are_as_planted() {
        for correlation in [0.0, 0.3, 1.0] {
            let knowledge = Knowledge {
                free: 0.2,
                prompt: 0.5,
                constrained: 0.6,
                correlation,
            };
            let share = |is_known: &dyn Fn(u32) -> bool| {
                let known = (0..ITEMS).filter(|item| is_known(*item)).count();
                known as f64 / f64::from(ITEMS)
            };
            let knows = |item, arm| knowledge.knows(7, item, arm);
            // Four standard errors of a share of 0.5.
            let limit = 2.0 / f64::from(ITEMS).sqrt();
            for arm in Arm::ALL {
                let found = share(&|item| knows(item, arm));
                assert!(
                    (found - knowledge.probability(arm)).abs() < limit,
                    "{arm:?} {found}"
                );
            }
            let both = share(&|item| knows(item, Arm::Control) && knows(item, Arm::ConstraintOnly));
            let expected = correlation * 0.5 + (1.0 - correlation) * 0.5 * 0.6;
            assert!(
                (both - expected).abs() < limit,
                "{correlation}: {both} {expected}"
            );
        }
    }
}
