//! A `oneOf` of objects that differ in a constant.

use super::{ConstraintKind, LadderSpec, Payload};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "oneof-width",
    label: "oneOf width",
    unit: "alternatives of oneOf",
    sizes: &[1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 30_000],
    kind: ConstraintKind::JsonSchema,
    build: |width, nonce, _| {
        let alternatives: Vec<String> = (0..width).map(|index: u64| {
            format!(
                r#"{{"type":"object","properties":{{"k":{{"const":"{nonce}{index}"}}}},"required":["k"],"additionalProperties":false}}"#
            )
        }).collect();
        Payload::SchemaText(format!(r#"{{"oneOf":[{}]}}"#, alternatives.join(",")))
    },
};
