//! Objects within objects.

use super::{ConstraintKind, DOUBLING, LadderSpec, Payload};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "nesting-depth",
    label: "nesting",
    unit: "nested objects",
    sizes: DOUBLING,
    kind: ConstraintKind::JsonSchema,
    build: |depth, nonce, _| {
        let depth = usize::try_from(depth).unwrap_or(usize::MAX);
        let open = r#"{"type":"object","properties":{"a":"#.repeat(depth);
        let close = r#"},"required":["a"],"additionalProperties":false}"#.repeat(depth);
        Payload::SchemaText(format!(r#"{open}{{"const":"{nonce}"}}{close}"#))
    },
};
