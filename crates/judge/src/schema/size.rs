//! Size of a JSON value, measured without recursion.

use serde_json::Value;

/// The size of a value.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// How deep containers lie inside one another.
    pub nesting: usize,
    /// Values of any kind.
    pub values: usize,
    /// Bytes of all strings, names and numbers.
    pub bytes: usize,
    /// Bytes of the names on the way to a value, where they are most.
    pub path_bytes: usize,
    /// Members with the name of a keyword that refers to a schema.
    pub references: usize,
}

impl Size {
    /// Measures `value`, and stops where it has more than `most` values.
    pub(super) fn of(value: &Value, most: usize) -> Self {
        let mut size = Self::default();
        let mut pending = vec![(value, 0, 0)];
        while let Some((value, depth, path_bytes)) = pending.pop() {
            size.nesting = size.nesting.max(depth);
            size.path_bytes = size.path_bytes.max(path_bytes);
            size.values += 1;
            if size.values > most {
                break;
            }
            match value {
                Value::Array(items) => {
                    pending.extend(items.iter().map(|item| (item, depth + 1, path_bytes)))
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
    fn everything_is_counted_until_there_is_too_much() {
        let size = Size::of(&json!({ "ab": [1, "cde", { "$ref": null }] }), 100);
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
        assert_eq!(Size::of(&json!([1, 2, 3, 4]), 2).values, 3);
    }
}
