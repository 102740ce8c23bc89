//! Required properties of an object.

use super::{ConstraintKind, LadderSpec, Payload};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "properties",
    label: "properties",
    unit: "required properties",
    sizes: &[1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000],
    kind: ConstraintKind::JsonSchema,
    build: |count, nonce, _| {
        let names: Vec<String> = (0..count)
            .map(|index| format!(r#""{nonce}{index}""#))
            .collect();
        let members: Vec<String> = names
            .iter()
            .map(|name| format!(r#"{name}:{{"type":"string"}}"#))
            .collect();
        Payload::SchemaText(format!(
            r#"{{"type":"object","properties":{{{}}},"required":[{}],"additionalProperties":false}}"#,
            members.join(","),
            names.join(",")
        ))
    },
};
