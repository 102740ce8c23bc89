//! Judges `json_object`: the answer must be a JSON object.

use serde_json::Value;

use sobench_core::verdict::{Reason, Verdict};

/// Whether `document`, or the start of one, is an object. Other values are reported as violations of `{"type":
/// "object"}`.
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
