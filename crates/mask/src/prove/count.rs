//! How much was decided and how much of it was wrong, by proof. Knows no engine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::finding::{Proof, Reading};

/// Decisions of one proof; the unit is a prefix with a token, the end counted as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// That could have been wrong.
    pub decided: u64,
    /// That were, and nothing declared explains it.
    pub wrong: u64,
    /// That a declared departure explains, by its name, and those of which that could not be told,
    /// as `unclear`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub declared: BTreeMap<String, u64>,
}

/// Every proof's count; absent where nothing was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Counts(BTreeMap<Proof, Count>);

impl Counts {
    /// So many more were decided.
    pub fn decided(&mut self, proof: Proof, times: u64) {
        if times > 0 {
            self.0.entry(proof).or_default().decided += times;
        }
    }

    /// So many of what was decided were not right.
    pub fn wrong(&mut self, proof: Proof, reading: &Reading, times: u64) {
        let count = self.0.entry(proof).or_default();
        match reading.name() {
            None => count.wrong += times,
            Some(name) => *count.declared.entry(name).or_default() += times,
        }
    }

    /// One proof's count.
    pub fn of(&self, proof: Proof) -> Count {
        self.0.get(&proof).cloned().unwrap_or_default()
    }

    /// Adds what others counted.
    pub fn add(&mut self, other: &Self) {
        for (proof, count) in &other.0 {
            let sum = self.0.entry(*proof).or_default();
            sum.decided += count.decided;
            sum.wrong += count.wrong;
            for (name, times) in &count.declared {
                *sum.declared.entry(name.clone()).or_default() += times;
            }
        }
    }

    /// Every proof of which something was decided.
    pub fn iter(&self) -> impl Iterator<Item = (Proof, &Count)> {
        self.0.iter().map(|(proof, count)| (*proof, count))
    }

    /// All that was decided, and all of it that was wrong.
    pub fn totals(&self) -> (u64, u64) {
        self.0.values().fold((0, 0), |(decided, wrong), count| {
            (decided + count.decided, wrong + count.wrong)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_engine::Departure;

    #[test]
    fn what_is_declared_is_no_error() {
        let mut counts = Counts::default();
        counts.decided(Proof::RefusesToken, 10);
        counts.wrong(Proof::RefusesToken, &Reading::Error, 2);
        counts.wrong(
            Proof::RefusesToken,
            &Reading::Declared(vec![Departure::Escapes]),
            3,
        );
        let mut sum = counts.clone();
        sum.add(&counts);
        let count = sum.of(Proof::RefusesToken);
        assert_eq!(
            (count.decided, count.wrong, count.declared["escapes"]),
            (20, 4, 6)
        );
        assert_eq!(
            (sum.totals(), sum.of(Proof::DeadEnd)),
            ((20, 4), Count::default())
        );
    }
}
