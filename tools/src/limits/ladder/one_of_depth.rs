//! A tree of `oneOf`: two alternatives at each level, so that a level doubles the schema. Compilers
//! that expand alternatives take exponential time in the depth, which may be quadratic in the size
//! ([GHSA-q9q8-922v-2c42](https://github.com/vllm-project/vllm/security/advisories/GHSA-q9q8-922v-2c42)).

use super::{ConstraintKind, LadderSpec, Payload};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "oneof-depth",
    label: "oneOf depth",
    unit: "levels of oneOf",
    sizes: &[1, 2, 3, 4, 5, 6, 8, 10, 12, 13],
    kind: ConstraintKind::JsonSchema,
    build: |depth, nonce, _| {
        let leaf = format!(r#"{{"const":"{nonce}"}}"#);
        Payload::SchemaText((0..depth).fold(leaf, |below, _| {
            let alternative = |key: char| {
                format!(
                    r#"{{"type":"object","properties":{{"k":{{"const":"{key}"}},"v":{below}}},"required":["k","v"],"additionalProperties":false}}"#
                )
            };
            format!(r#"{{"oneOf":[{},{}]}}"#, alternative('a'), alternative('b'))
        }))
    },
};
