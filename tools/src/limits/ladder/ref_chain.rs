//! A chain of `$ref`, each to the next definition.

use super::{ConstraintKind, DOUBLING, LadderSpec, Payload};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "ref-chain",
    label: "$ref chain",
    unit: "references in a chain",
    sizes: DOUBLING,
    kind: ConstraintKind::JsonSchema,
    build: |length, nonce, _| {
        let definitions: Vec<String> = (1..length)
            .map(|index| format!(r##""d{index}":{{"$ref":"#/$defs/d{}"}}"##, index + 1))
            .chain([format!(r#""d{length}":{{"const":"{nonce}"}}"#)])
            .collect();
        Payload::SchemaText(format!(
            r##"{{"$defs":{{{}}},"type":"object","properties":{{"a":{{"$ref":"#/$defs/d1"}}}},"required":["a"],"additionalProperties":false}}"##,
            definitions.join(",")
        ))
    },
};
