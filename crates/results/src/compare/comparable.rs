//! Whether two sides were asked the same under the same conditions. Knows no statistics.

use std::collections::BTreeSet;

use serde::Serialize;

use super::side::Side;
use crate::record::condition::{Field, INFINITE, NONE, Weight};

/// A condition on all sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub field: Field,
    /// A value each side, in their order; several values of one side's runs are joined. `None`
    /// where a side does not tell.
    pub values: Vec<Option<String>>,
    pub finding: Finding,
}

/// What a condition means for the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// Known on every side, and the same.
    Same,
    /// Not known on one side or on several.
    NotKnown,
    /// It differs, and figures cannot be held against each other.
    Stops,
    /// It differs, would stop the comparison, and the user allowed it.
    Allowed,
    /// It differs, and the reader has to know.
    Notice,
    /// It differs, as it very likely should.
    Listed,
}

/// Every condition that some side knows, in the order of [`Field::ALL`].
pub fn conditions(sides: &[Side], allowed: &[Field]) -> Vec<Condition> {
    Field::ALL
        .into_iter()
        .filter_map(|field| condition(sides, field, allowed))
        .collect()
}

/// Whether nothing stops the comparison.
pub fn comparable(conditions: &[Condition]) -> bool {
    conditions
        .iter()
        .all(|condition| condition.finding != Finding::Stops)
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
    let finding = match weight(sides, field) {
        Weight::Stops if differs && allowed.contains(&field) => Finding::Allowed,
        Weight::Stops if differs => Finding::Stops,
        Weight::Listed if differs => Finding::Listed,
        Weight::Stops | Weight::Notice if differs => Finding::Notice,
        _ if values.iter().flatten().any(Option::is_none) => Finding::NotKnown,
        _ => Finding::Same,
    };
    let joined = |of_side: &BTreeSet<Option<&String>>| {
        let words: Vec<&str> = of_side.iter().flatten().map(|it| it.as_str()).collect();
        (!words.is_empty()).then(|| words.join(" and "))
    };
    Some(Condition {
        field,
        values: values.iter().map(joined).collect(),
        finding,
    })
}

/// Without a rate and without a cap all requests are under way at once: then their number is the
/// load, and it stops like one. Elsewhere it only says how much was seen.
fn weight(sides: &[Side], field: Field) -> Weight {
    let at_once = |side: &Side| {
        side.runs.iter().any(|run| {
            let is = |field: Field, value: &str| {
                run.conditions.get(&field).is_some_and(|it| it == value)
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

    fn check(field: Field, values: [Option<&str>; 2], allowed: &[Field], expected: Finding) {
        let sides = values.map(|value| {
            let mut side = side("s", vec![vec![]]);
            side.runs[0].conditions = value
                .map(|value| (field, value.to_owned()))
                .into_iter()
                .collect();
            side
        });
        let found = conditions(&sides, allowed);
        let found: Vec<_> = found.iter().map(|it| (it.field, it.finding)).collect();
        assert_eq!(found, [(field, expected)], "{values:?}");
    }

    #[test]
    fn only_what_matters_stops() {
        check(Field::Model, [Some("a"), Some("b")], &[], Finding::Stops);
        check(
            Field::Model,
            [Some("a"), Some("b")],
            &[Field::Dataset],
            Finding::Stops,
        );
        check(
            Field::Model,
            [Some("a"), Some("b")],
            &[Field::Model],
            Finding::Allowed,
        );
        check(
            Field::Model,
            [Some("a"), Some("a")],
            &[Field::Model],
            Finding::Same,
        );
        check(Field::Model, [Some("a"), None], &[], Finding::NotKnown);
        check(Field::Seed, [Some("1"), Some("2")], &[], Finding::Notice);
        check(
            Field::ServerVersion,
            [Some("1"), Some("2")],
            &[],
            Finding::Listed,
        );
        check(
            Field::NumPrompts,
            [Some("1"), Some("2")],
            &[],
            Finding::Notice,
        );
    }

    #[test]
    fn all_at_once_the_number_of_requests_is_the_load() {
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
        assert!(!comparable(&conditions(&sides, &[])));
        assert!(comparable(&conditions(&sides, &[Field::NumPrompts])));
    }

    #[test]
    fn runs_of_one_side_are_held_to_the_same() {
        let mut one = side("a", vec![vec![], vec![]]);
        one.runs[1].conditions.insert(Field::Model, "other".into());
        let found = conditions(&[one.clone(), one], &[]);
        let model = found.iter().find(|it| it.field == Field::Model).unwrap();
        assert_eq!(
            (model.finding, model.values[0].as_deref()),
            (Finding::Stops, Some("m and other"))
        );
    }
}
