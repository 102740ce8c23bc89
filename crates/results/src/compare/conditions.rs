//! Checks whether the runs of a comparison have the same conditions.

use std::collections::BTreeSet;

use serde::Serialize;

use super::side::Side;
use sobench_plan::record::condition::{Field, INFINITE, NONE, Weight};

/// Separates several values of one side.
pub const SEVERAL: &str = " and ";

/// A condition on all sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub field: Field,
    /// The values by side; several values of one side's runs are joined. `None` if a side does not
    /// record it.
    pub values: Vec<Option<String>>,
    pub effect: ConditionEffect,
}

/// The effect of a condition on the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConditionEffect {
    /// Known on every side, and equal.
    Same,
    /// Unknown on at least one side.
    NotKnown,
    /// It differs and prevents the comparison.
    Stops,
    /// It differs and would prevent the comparison, but the user allowed it.
    Allowed,
    /// It differs and may affect the figures.
    Notice,
    /// It differs as expected.
    Listed,
}

/// Every condition known on some side, in the order of [`Field::ALL`].
pub fn conditions(sides: &[Side], allowed: &[Field]) -> Vec<Condition> {
    Field::ALL
        .into_iter()
        .filter_map(|field| condition(sides, field, allowed))
        .collect()
}

/// Whether no condition prevents the comparison.
pub fn is_comparable(conditions: &[Condition]) -> bool {
    conditions
        .iter()
        .all(|condition| condition.effect != ConditionEffect::Stops)
}

fn condition(sides: &[Side], field: Field, allowed: &[Field]) -> Option<Condition> {
    let values: Vec<BTreeSet<Option<&String>>> = sides
        .iter()
        .map(|side| {
            side.runs
                .iter()
                .map(|run| run.conditions.get(&field))
                .collect()
        })
        .collect();
    let known: BTreeSet<&String> = values.iter().flatten().flatten().copied().collect();
    if known.is_empty() {
        return None;
    }
    let differs = known.len() > 1;
    let effect = match weight(sides, field) {
        Weight::Stops if differs && allowed.contains(&field) => ConditionEffect::Allowed,
        Weight::Stops if differs => ConditionEffect::Stops,
        Weight::Listed if differs => ConditionEffect::Listed,
        Weight::Stops | Weight::Notice if differs => ConditionEffect::Notice,
        _ if values.iter().flatten().any(Option::is_none) => ConditionEffect::NotKnown,
        _ => ConditionEffect::Same,
    };
    let joined = |of_side: &BTreeSet<Option<&String>>| {
        let texts: Vec<&str> = of_side
            .iter()
            .flatten()
            .map(|value| value.as_str())
            .collect();
        (!texts.is_empty()).then(|| texts.join(SEVERAL))
    };
    Some(Condition {
        field,
        values: values.iter().map(joined).collect(),
        effect,
    })
}

/// Without a rate and a cap, all requests are sent at once. Then their number determines the load,
/// and a different number prevents the comparison. Otherwise it is only the sample size.
fn weight(sides: &[Side], field: Field) -> Weight {
    let at_once = |side: &Side| {
        side.runs.iter().any(|run| {
            let is = |field: Field, value: &str| {
                run.conditions
                    .get(&field)
                    .is_some_and(|found| found == value)
            };
            is(Field::RequestRate, INFINITE)
                && is(Field::MaxConcurrency, NONE)
                && !run.conditions.contains_key(&Field::Ramp)
        })
    };
    match field {
        Field::NumPrompts if sides.iter().any(at_once) => Weight::Stops,
        _ => field.weight(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::testing::side;

    fn check(
        field: Field,
        values: [Option<&str>; 2],
        allowed: &[Field],
        expected: ConditionEffect,
    ) {
        let sides = values.map(|value| {
            let mut side = side("s", vec![vec![]]);
            side.runs[0].conditions = value
                .map(|value| (field, value.to_owned()))
                .into_iter()
                .collect();
            side
        });
        let found = conditions(&sides, allowed);
        let found: Vec<_> = found
            .iter()
            .map(|condition| (condition.field, condition.effect))
            .collect();
        assert_eq!(found, [(field, expected)], "{values:?}");
    }

    #[test]
    fn only_relevant_conditions_prevent_comparison() {
        check(
            Field::Model,
            [Some("a"), Some("b")],
            &[],
            ConditionEffect::Stops,
        );
        check(
            Field::Model,
            [Some("a"), Some("b")],
            &[Field::Dataset],
            ConditionEffect::Stops,
        );
        check(
            Field::Model,
            [Some("a"), Some("b")],
            &[Field::Model],
            ConditionEffect::Allowed,
        );
        check(
            Field::Model,
            [Some("a"), Some("a")],
            &[Field::Model],
            ConditionEffect::Same,
        );
        check(
            Field::Model,
            [Some("a"), None],
            &[],
            ConditionEffect::NotKnown,
        );
        check(
            Field::Seed,
            [Some("1"), Some("2")],
            &[],
            ConditionEffect::Notice,
        );
        check(
            Field::ServerVersion,
            [Some("1"), Some("2")],
            &[],
            ConditionEffect::Listed,
        );
        check(
            Field::NumPrompts,
            [Some("1"), Some("2")],
            &[],
            ConditionEffect::Notice,
        );
    }

    #[test]
    fn number_of_requests_is_the_load_if_all_are_sent_at_once() {
        let sides = ["100", "200"].map(|number| {
            let mut side = side("s", vec![vec![]]);
            let values = [
                (Field::NumPrompts, number),
                (Field::RequestRate, INFINITE),
                (Field::MaxConcurrency, NONE),
            ];
            side.runs[0].conditions = values
                .map(|(field, value)| (field, value.to_owned()))
                .into();
            side
        });
        assert!(!is_comparable(&conditions(&sides, &[])));
        assert!(is_comparable(&conditions(&sides, &[Field::NumPrompts])));
    }

    #[test]
    fn runs_of_one_side_need_equal_conditions() {
        let mut one = side("a", vec![vec![], vec![]]);
        one.runs[1].conditions.insert(Field::Model, "other".into());
        let found = conditions(&[one.clone(), one], &[]);
        let model = found
            .iter()
            .find(|condition| condition.field == Field::Model)
            .unwrap();
        assert_eq!(
            (model.effect, model.values[0].as_deref()),
            (ConditionEffect::Stops, Some("m and other"))
        );
    }
}
