//! Violations in the start of a document that no further text can remove.
//!
//! The start is validated as if its open containers were closed. A violation is final in two cases.
//! Either the value is finished, and every schema on the way to it applies regardless of what the
//! unfinished values become: `properties` does, `anyOf` and `if` do not. Or the value is unfinished,
//! and more text can only make the violation worse: `maxItems`, `type`, an unknown member.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind as Kind;
use serde_json::Value;

/// Whether the violation remains in every continuation. `open` is the path of the innermost
/// unfinished value; all values on the way to it are unfinished too.
pub(super) fn is_final(error: &ValidationError<'_>, open: &[String]) -> bool {
    if super::aborted_reason(error).is_some() {
        return false;
    }
    let instance: Vec<&str> = tokens(error.instance_path().as_str()).collect();
    let evaluation_path = error.evaluation_path().as_str();
    let mut keywords = tokens(evaluation_path).peekable();
    // The number of steps from the root to the value that the next keyword applies to.
    let mut depth = 0;
    let is_open = |depth: usize| {
        let path = &instance[..depth.min(instance.len())];
        path.len() <= open.len() && path.iter().zip(open).all(|(step, open)| step == open)
    };
    while is_open(depth) {
        let Some(keyword) = keywords.next() else {
            return matches!(error.kind(), Kind::FalseSchema);
        };
        let is_last = keywords.peek().is_none();
        if is_last && !matches!(error.kind(), Kind::FalseSchema) {
            return depth == instance.len() && only_grows(error);
        }
        match keyword {
            "$ref" | "$dynamicRef" | "$recursiveRef" => {}
            "allOf" => {
                keywords.next();
            }
            "properties" | "patternProperties" | "prefixItems" => {
                keywords.next();
                depth += 1;
            }
            "items" => {
                // Before 2020-12 it may be a list of schemas.
                keywords.next_if(|token| token.bytes().all(|byte| byte.is_ascii_digit()));
                depth += 1;
            }
            "additionalProperties" | "additionalItems" => depth += 1,
            _ => return false,
        }
    }
    true
}

/// Whether more text cannot remove this violation of an unfinished value.
fn only_grows(error: &ValidationError<'_>) -> bool {
    let value = error.instance();
    match error.kind() {
        Kind::Type { .. }
        | Kind::MaxLength { .. }
        | Kind::MaxItems { .. }
        | Kind::MaxProperties { .. }
        | Kind::AdditionalProperties { .. }
        | Kind::AdditionalItems { .. } => true,
        Kind::Constant { expected_value } => !may_become(value, expected_value),
        Kind::Enum { options } => options
            .as_array()
            .is_some_and(|options| !options.iter().any(|option| may_become(value, option))),
        _ => false,
    }
}

/// Whether an unfinished value may become `target`.
fn may_become(unfinished: &Value, target: &Value) -> bool {
    match (unfinished, target) {
        (Value::String(start), Value::String(target)) => target.starts_with(start),
        (Value::Number(_), Value::Number(_))
        | (Value::Array(_), Value::Array(_))
        | (Value::Object(_), Value::Object(_)) => true,
        (unfinished, target) => unfinished == target,
    }
}

fn tokens(pointer: &str) -> impl Iterator<Item = &str> {
    pointer.split('/').skip(1)
}
