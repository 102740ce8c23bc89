//! Any JSON object: the mode without a schema.

use serde_json::Value;

use sobench_core::verdict::{Reason, Verdict};

/// Whether `document` is an object. Another value breaks the schema `{"type": "object"}`, and is
/// reported so.
pub(super) fn judge(document: &Value) -> Verdict {
    if document.is_object() {
        return Verdict::Valid;
    }
    let reason = Reason::Schema {
        keyword: "type".to_owned(),
        instance_path: String::new(),
        schema_path: "/type".to_owned(),
        message: "the value is not an object".to_owned(),
    };
    Verdict::Invalid { reason }
}
