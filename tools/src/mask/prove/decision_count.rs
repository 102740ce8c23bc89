//! Counts of decisions and wrong decisions, by proof.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::{Interpretation, Proof};
use sobench_core::contract::names;

/// Decisions of one proof; the unit is a prefix with a token, where the end counts as a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct DecisionCount {
    /// Checked decisions.
    pub decided: u64,
    /// Wrong decisions that no declared departure explains.
    pub wrong: u64,
    /// Wrong decisions explained by declared departures, by name; `unclear` if the experiments were
    /// inconclusive.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub declared: BTreeMap<String, u64>,
}

/// Counts by proof; absent if there were no decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(transparent)]
#[schemars(extend("propertyNames" = names(Proof::ALL.map(Proof::name))))]
pub struct DecisionCounts(BTreeMap<Proof, DecisionCount>);

impl DecisionCounts {
    /// Adds decisions.
    pub fn add_decided(&mut self, proof: Proof, times: u64) {
        if times > 0 {
            self.0.entry(proof).or_default().decided += times;
        }
    }

    /// Adds wrong decisions.
    pub fn add_wrong(&mut self, proof: Proof, interpretation: &Interpretation, times: u64) {
        let count = self.0.entry(proof).or_default();
        match interpretation.name() {
            None => count.wrong += times,
            Some(name) => *count.declared.entry(name).or_default() += times,
        }
    }

    /// One proof's count.
    pub fn for_proof(&self, proof: Proof) -> DecisionCount {
        self.0.get(&proof).cloned().unwrap_or_default()
    }

    /// Adds other counts.
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

    /// All proofs with decisions.
    pub fn iter(&self) -> impl Iterator<Item = (Proof, &DecisionCount)> {
        self.0.iter().map(|(proof, count)| (*proof, count))
    }

    /// Total decisions and total wrong decisions.
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
    fn declared_departures_are_not_errors() {
        let mut counts = DecisionCounts::default();
        counts.add_decided(Proof::RefusesToken, 10);
        counts.add_wrong(Proof::RefusesToken, &Interpretation::Error, 2);
        counts.add_wrong(
            Proof::RefusesToken,
            &Interpretation::Declared(vec![Departure::Escapes]),
            3,
        );
        let mut sum = counts.clone();
        sum.add(&counts);
        let count = sum.for_proof(Proof::RefusesToken);
        assert_eq!(
            (count.decided, count.wrong, count.declared["escapes"]),
            (20, 4, 6)
        );
        assert_eq!(
            (sum.totals(), sum.for_proof(Proof::DeadEnd)),
            ((20, 4), DecisionCount::default())
        );
    }
}
