//! The number of tools, of which one must be called.

use std::sync::Arc;

use serde_json::json;

use super::{LadderSpec, Payload};
use sobench_core::constraint::{Constraint, ConstraintKind};
use sobench_core::tools::{Tool, ToolChoice, ToolSet};

pub(super) const SPEC: LadderSpec = LadderSpec {
    name: "tools",
    label: "tools",
    unit: "tools, one of which must be called",
    sizes: &[1, 3, 10, 30, 100, 300, 1000, 3000, 10_000],
    kind: ConstraintKind::Tools,
    build: |count, nonce, _| {
        let parameters = json!({
            "type": "object",
            "properties": {"text": {"type": "string"}},
            "required": ["text"],
            "additionalProperties": false,
        });
        let tools = (0..count)
            .map(|index| Tool::function(format!("{nonce}_{index}"), parameters.clone()))
            .collect();
        Payload::Constraint(Constraint::Tools(Arc::new(ToolSet {
            tools,
            choice: ToolChoice::Required,
            parallel_tool_calls: None,
        })))
    },
};
