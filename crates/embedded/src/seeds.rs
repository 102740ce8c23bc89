//! Chooses the random seed of each answer, so that repeated runs get the same answers.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::failure::Failure;

/// Limit on the number of distinct requests whose repetitions are counted.
const MAX_COUNTED_REQUESTS: usize = 1_000_000;

/// Assigns seeds.
///
/// A request with a `seed` always gets the same answer. Otherwise, a request with an `x-request-id`
/// gets the answer of that id. Otherwise, the n-th repetition of a request gets the n-th answer:
/// the arrival order decides which of several equal requests gets which answer, but not the set of
/// answers.
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

    /// The seed of a request. `constraint` is its fingerprint. It separates the counts of requests
    /// but is not part of the seed, so that a constrained answer and its control use the same
    /// random numbers.
    pub(super) fn draw(
        &self,
        prompt: &str,
        constraint: &str,
        seed: Option<i64>,
        request_id: Option<&str>,
    ) -> Result<u64, Failure> {
        let key = match (seed, request_id) {
            (Some(seed), _) => format!("seed {seed}"),
            (None, Some(id)) => format!("id {id}"),
            (None, None) => format!("ordinal {}", self.ordinal(prompt, constraint)?),
        };
        let hash = Sha256::new()
            .chain_update(self.server.to_le_bytes())
            .chain_update((key.len() as u64).to_le_bytes())
            .chain_update(key)
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
        if ordinals.len() >= MAX_COUNTED_REQUESTS && !ordinals.contains_key(&key) {
            let message = format!(
                "more than {MAX_COUNTED_REQUESTS} different requests; use seed or x-request-id"
            );
            return Err(Failure::busy(message));
        }
        let next = ordinals.entry(key).or_default();
        *next += 1;
        Ok(*next - 1)
    }
}

/// Random numbers: SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number
/// generators").
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draws(u64);

impl Draws {
    /// The numbers of the model, which this seed alone determines.
    pub(super) fn of_model(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers that a seed and a label determine.
    pub(super) fn new(seed: u64, label: &str) -> Self {
        let hash = Sha256::new()
            .chain_update(label)
            .chain_update(seed.to_le_bytes())
            .finalize();
        Self(u64::from_le_bytes(std::array::from_fn(|index| hash[index])))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Uniform in `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `count`, or 0 if that is 0.
    pub(super) fn below(&mut self, count: usize) -> usize {
        let drawn = usize::try_from(self.next() >> 1).unwrap_or(usize::MAX);
        drawn.checked_rem(count).unwrap_or(0)
    }

    /// Uniform in `[0, 1)`, in single precision.
    pub(super) fn unit_f32(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 24) as f32
    }

    /// A token below `bound`, which must not be zero. The bias is below 2^-40 for the bounds in use.
    pub(super) fn token_below(&mut self, bound: u32) -> u32 {
        ((u64::from(bound) * (self.next() >> 32)) >> 32) as u32
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
            "a control uses the same random numbers"
        );
    }

    #[test]
    fn a_seed_or_a_request_id_determines_the_answer() {
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

    #[test]
    fn random_numbers_match_the_published_ones() {
        let mut draws = Draws::of_model(1_234_567);
        assert_eq!(
            [draws.next(), draws.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
        let mut draws = Draws::of_model(3);
        assert!(
            (0..1000).all(|_| draws.token_below(7) < 7 && (0.0..1.0).contains(&draws.unit_f32()))
        );
    }
}
