//! Which seed each answer is drawn from, so that the same run gives the same answers. Knows no
//! model.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::failure::Failure;

/// Different requests whose repetitions are counted.
const COUNTED_REQUESTS: usize = 1_000_000;

/// Hands out seeds.
///
/// A request with a `seed` always gets the same answer. One with an `x-request-id` gets the answer
/// of that id. Otherwise the n-th time that a request is made it gets the n-th answer: which of
/// several equal requests gets which answer depends on how they arrive, the answers that there are
/// do not.
pub(super) struct Seeds {
    server: u64,
    ordinals: Mutex<HashMap<[u8; 16], u64>>,
}

impl Seeds {
    pub(super) fn new(server: u64) -> Self {
        Self {
            server,
            ordinals: Mutex::default(),
        }
    }

    /// The seed for a request. `constraint` is its fingerprint; the constraint tells requests apart
    /// when they are counted, but does not go into the seed, so a constrained answer and its
    /// control are drawn from the same random numbers.
    pub(super) fn draw(
        &self,
        prompt: &str,
        constraint: &str,
        seed: Option<i64>,
        request_id: Option<&str>,
    ) -> Result<u64, Failure> {
        let which = match (seed, request_id) {
            (Some(seed), _) => format!("seed {seed}"),
            (None, Some(id)) => format!("id {id}"),
            (None, None) => format!("ordinal {}", self.ordinal(prompt, constraint)?),
        };
        let hash = Sha256::new()
            .chain_update(self.server.to_le_bytes())
            .chain_update((which.len() as u64).to_le_bytes())
            .chain_update(which)
            .chain_update(prompt)
            .finalize();
        Ok(u64::from_le_bytes(std::array::from_fn(|index| hash[index])))
    }

    fn ordinal(&self, prompt: &str, constraint: &str) -> Result<u64, Failure> {
        let hash = Sha256::new()
            .chain_update(constraint)
            .chain_update([0])
            .chain_update(prompt)
            .finalize();
        let key = std::array::from_fn(|index| hash[index]);
        let mut ordinals = self.ordinals.lock().unwrap_or_else(PoisonError::into_inner);
        if ordinals.len() >= COUNTED_REQUESTS && !ordinals.contains_key(&key) {
            let message = format!(
                "{COUNTED_REQUESTS} different requests were counted; give a seed or an x-request-id from here on"
            );
            return Err(Failure::busy(message));
        }
        let next = ordinals.entry(key).or_default();
        *next += 1;
        Ok(*next - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_run_gets_the_same_seeds() {
        let run = || {
            let seeds = Seeds::new(1);
            let draw = |prompt: &str, constraint: &str| {
                seeds.draw(prompt, constraint, None, None).unwrap()
            };
            [
                draw("a", ""),
                draw("a", ""),
                draw("b", ""),
                draw("a", "x"),
                draw("a", "x"),
            ]
        };
        let [first, second, other, constrained, again] = run();
        assert_eq!(run(), [first, second, other, constrained, again]);
        assert!(first != second && first != other);
        assert_eq!(
            (first, second),
            (constrained, again),
            "a control draws the same numbers"
        );
    }

    #[test]
    fn a_seed_or_an_id_decides_alone() {
        let draw = |server, seed, id| Seeds::new(server).draw("a", "", seed, id).unwrap();
        let seeds = Seeds::new(1);
        seeds.draw("a", "", None, None).unwrap();
        assert_eq!(
            seeds.draw("a", "", Some(7), Some("x")).unwrap(),
            draw(1, Some(7), None)
        );
        assert_eq!(
            seeds.draw("a", "", None, Some("x")).unwrap(),
            draw(1, None, Some("x"))
        );
        assert_ne!(draw(1, Some(7), None), draw(2, Some(7), None));
        assert_ne!(draw(1, None, Some("x")), draw(1, None, Some("y")));
    }
}
