//! Measures the size of a JSON value without recursion.

use serde_json::Value;

/// The size of a value.
#[derive(Debug, Default)]
pub(super) struct ValueSize {
    /// Nesting of containers.
    pub nesting: usize,
    /// Number of values.
    pub values: usize,
    /// Bytes of all strings, names and numbers.
    pub bytes: usize,
    /// Maximum bytes of the names on the path to a value.
    pub path_bytes: usize,
    /// Number of members named like a reference keyword.
    pub references: usize,
}

impl ValueSize {
    /// Measures `value`. Stops after more than `max_values` values.
    pub(super) fn measure(value: &Value, max_values: usize) -> Self {
        let mut size = Self::default();
        let mut pending = vec![(value, 0, 0)];
        while let Some((value, depth, path_bytes)) = pending.pop() {
            size.nesting = size.nesting.max(depth);
            size.path_bytes = size.path_bytes.max(path_bytes);
            size.values += 1;
            if size.values > max_values {
                break;
            }
            match value {
                Value::Array(items) => {
                    pending.extend(items.iter().map(|item| (item, depth + 1, path_bytes)));
                }
                Value::Object(members) => {
                    for (name, member) in members {
                        size.bytes += name.len();
                        size.references += usize::from(matches!(
                            name.as_str(),
                            "$ref" | "$dynamicRef" | "$recursiveRef"
                        ));
                        pending.push((member, depth + 1, path_bytes + name.len()));
                    }
                }
                Value::String(text) => size.bytes += text.len(),
                Value::Number(number) => size.bytes += number.as_str().len(),
                Value::Bool(_) | Value::Null => {}
            }
        }
        size
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_counted_up_to_the_limit() {
        let size = ValueSize::measure(&json!({ "ab": [1, "cde", { "$ref": null }] }), 100);
        assert_eq!(
            (
                size.nesting,
                size.values,
                size.bytes,
                size.path_bytes,
                size.references
            ),
            (3, 6, 10, 6, 1)
        );
        assert_eq!(ValueSize::measure(&json!([1, 2, 3, 4]), 2).values, 3);
    }
}
