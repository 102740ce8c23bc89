//! Never-seen JSON Schemas for `--cold-schema-every`.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use serde_json::{Value, json};

use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_results::metrics::cold_load::COLD_TAG;

/// Gives every `every`-th constrained case a schema with one more optional member of an unused
/// name, and tags it. Prompts stay as they are, so that only the constraint is new; valid answers
/// stay valid. Returns the number of changed cases.
///
/// Names are random and not drawn from the seed of the run: a server that has seen a run would know
/// its schemas.
///
/// # Errors
/// There is no constrained case with a JSON Schema.
pub(super) fn inject(cases: &mut [Case], every: usize) -> Result<usize> {
    inject_with(cases, every, |index| {
        let bits = [0_u8, 1].map(|half| RandomState::new().hash_one((half, index)));
        format!("__optional_field_{:016x}{:016x}", bits[0], bits[1])
    })
}

fn inject_with(cases: &mut [Case], every: usize, name: impl Fn(usize) -> String) -> Result<usize> {
    let constrained = cases
        .iter_mut()
        .enumerate()
        .filter(|(_, case)| case.arm.sends_constraint());
    let mut injected = 0;
    for (index, case) in constrained
        .skip(every.saturating_sub(1))
        .step_by(every.max(1))
    {
        if let Some(constraint) = case
            .constraint
            .as_deref()
            .and_then(|schema| with_member(schema, &name(index)))
        {
            case.constraint = Some(Arc::new(constraint));
            case.tags.push(COLD_TAG.to_owned());
            injected += 1;
        }
    }
    if injected > 0 {
        return Ok(injected);
    }
    Err(Error::usage(format!(
        "--cold-schema-every {every} finds no JSON Schema to change"
    ))
    .hint("use a dataset with JSON Schemas, and more constrained requests than that"))
}

fn with_member(constraint: &Constraint, name: &str) -> Option<Constraint> {
    let mut schema = Value::clone(constraint.schema()?);
    let properties = schema
        .as_object_mut()?
        .entry("properties")
        .or_insert_with(|| json!({}));
    properties
        .as_object_mut()?
        .insert(name.to_owned(), json!({"type": "string"}));
    Some(Constraint::JsonSchema(Arc::new(schema)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_core::case::{Arm, Prompt};

    fn cases(constraint: &Constraint, arms: &[Arm]) -> Vec<Case> {
        let case = |(index, arm): (usize, &Arm)| Case {
            arm: *arm,
            ..Case::new(
                format!("json-{index}"),
                Prompt::Text("?".into()),
                Some(Arc::new(constraint.clone())),
                8,
            )
        };
        arms.iter().enumerate().map(case).collect()
    }

    fn schema(value: Value) -> Constraint {
        Constraint::JsonSchema(Arc::new(value))
    }

    #[test]
    fn every_kth_constrained_request_has_a_new_schema() {
        use Arm::{Constrained as C, Control};
        let before = cases(
            &schema(json!({"type": "object", "properties": {"a": {}}})),
            &[C, Control, C, C, C, Control, C, C],
        );
        let mut after = before.clone();
        assert_eq!(inject(&mut after, 2).unwrap(), 3);
        let changed: Vec<usize> = (0..8)
            .filter(|&index| after[index].constraint != before[index].constraint)
            .collect();
        assert_eq!(
            changed,
            [2, 4, 7],
            "the second, fourth and sixth constrained one"
        );
        let tagged: Vec<usize> = (0..8)
            .filter(|&index| after[index].tags == [COLD_TAG])
            .collect();
        assert_eq!(tagged, changed);
        assert_ne!(after[2].constraint, after[4].constraint);
        assert!(
            after
                .iter()
                .zip(&before)
                .all(|(after, before)| after.prompt == before.prompt)
        );
        let mut again = before;
        inject(&mut again, 2).unwrap();
        assert_ne!(
            again[2].constraint, after[2].constraint,
            "no two runs use a name"
        );
    }

    #[test]
    fn a_new_schema_accepts_the_same_answers() {
        let mut one = cases(
            &schema(json!({"type": "object", "properties": {"a": {}}, "required": ["a"]})),
            &[Arm::Constrained],
        );
        inject_with(&mut one, 1, |index| format!("new{index}")).unwrap();
        let expected = json!({"type": "object", "properties": {"a": {}, "new0": {"type": "string"}}, "required": ["a"]});
        assert_eq!(one[0].constraint.as_deref(), Some(&schema(expected)));
        let mut bare = cases(&schema(json!({})), &[Arm::Constrained]);
        assert_eq!(inject(&mut bare, 1).unwrap(), 1);
    }

    #[test]
    fn a_dataset_without_schemas_is_an_error() {
        for (constraint, every) in [
            (Constraint::Regex("a".into()), 1),
            (schema(json!(true)), 1),
            (schema(json!({})), 3),
        ] {
            let error = inject(&mut cases(&constraint, &[Arm::Constrained; 2]), every).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{constraint:?}");
        }
        assert!(inject(&mut cases(&schema(json!({})), &[Arm::Control; 4]), 2).is_err());
    }
}
