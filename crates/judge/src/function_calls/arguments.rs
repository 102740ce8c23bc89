//! Compares the arguments of a call with the values that a reference allows, as
//! `simple_function_checker` of `bfcl_eval/eval_checker/ast_eval/ast_checker.py` (bfcl-eval
//! 2026.3.23) does. It compares values of Python, so types differ where JSON has only numbers:
//! `10.0` is no integer.
//!
//! One rule is added. Where a value of an object is an object again, the reference may have lists
//! of allowed values there as well.

use serde_json::{Map, Value};

/// A value that a reference has for a parameter that may be absent.
const ABSENT: &str = "";

/// The type of a value in Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PythonType {
    None,
    Bool,
    Int,
    Float,
    Str,
    List,
    Dict,
}

impl PythonType {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::None,
            Value::Bool(_) => Self::Bool,
            Value::Number(number) if number.to_string().contains(['.', 'e', 'E']) => Self::Float,
            Value::Number(_) => Self::Int,
            Value::String(_) => Self::Str,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Dict,
        }
    }

    /// The type that a schema requires; `None` if it allows several, or has no `type`.
    fn from_schema(schema: &Value) -> Option<Self> {
        match schema.get("type")?.as_str()? {
            "boolean" => Some(Self::Bool),
            "integer" => Some(Self::Int),
            "number" => Some(Self::Float),
            "string" => Some(Self::Str),
            "array" => Some(Self::List),
            "object" => Some(Self::Dict),
            _ => None,
        }
    }
}

/// Whether arguments have the parameters and values of the reference. `parameters` is the schema of
/// the function's arguments, if it is known.
pub(super) fn are_allowed(
    allowed: &Map<String, Value>,
    parameters: Option<&Value>,
    arguments: &Map<String, Value>,
) -> bool {
    let member = |name: &str| parameters.and_then(|schema| schema.get(name));
    let required = member("required").and_then(Value::as_array);
    let mut required = required.into_iter().flatten().filter_map(Value::as_str);
    let properties = member("properties").and_then(Value::as_object);
    let is_allowed = |(name, value): (&String, &Value)| {
        let schema = properties.map(|properties| properties.get(name));
        let values = allowed.get(name);
        // A function that does not have the parameter.
        !matches!(schema, Some(None))
            && values.is_some_and(|values| is_value_allowed(values, schema.flatten(), value))
    };
    required.all(|name| arguments.contains_key(name))
        && arguments.iter().all(is_allowed)
        && absent_are_optional(allowed, arguments)
}

fn absent_are_optional(allowed: &Map<String, Value>, members: &Map<String, Value>) -> bool {
    allowed
        .iter()
        .all(|(name, values)| members.contains_key(name) || listed(values).contains(&ABSENT.into()))
}

/// The allowed values. A single value stands for a list of it.
fn listed(values: &Value) -> &[Value] {
    match values {
        Value::Array(values) => values,
        single => std::slice::from_ref(single),
    }
}

fn is_value_allowed(allowed: &Value, schema: Option<&Value>, value: &Value) -> bool {
    let allowed = listed(allowed);
    let expected = schema.and_then(PythonType::from_schema);
    let items = schema.and_then(|schema| PythonType::from_schema(schema.get("items")?));
    let of_reference = type_of_reference(allowed);
    let own = match PythonType::from_value(value) {
        PythonType::Int if expected == Some(PythonType::Float) => PythonType::Float,
        own => own,
    };
    // A value of the reference's type stands for a variable, and is compared as it is.
    let is_variable = match expected {
        None => false,
        Some(expected) if own == expected => {
            if let (Some(items), Value::Array(list)) = (items, value)
                && !have_type(list, items, allowed)
            {
                return false;
            }
            of_reference.is_some_and(|reference| reference != expected)
        }
        Some(_) if of_reference == Some(own) => true,
        Some(_) => return false,
    };
    match value {
        _ if is_variable => allowed.iter().any(|allowed| is_equal(allowed, value)),
        Value::Object(members) => allowed.iter().any(|allowed| is_object(allowed, members)),
        Value::Array(list) => allowed.iter().any(|allowed| is_list(allowed, list)),
        Value::String(text) => allowed.iter().any(|allowed| is_text(allowed, text)),
        _ => allowed.iter().any(|allowed| is_equal(allowed, value)),
    }
}

fn type_of_reference(allowed: &[Value]) -> Option<PythonType> {
    let mut values = allowed.iter().filter(|value| **value != ABSENT);
    values.next().map(PythonType::from_value)
}

/// Whether the items have the type that the schema requires, or that of an allowed list.
fn have_type(list: &[Value], required: PythonType, allowed: &[Value]) -> bool {
    allowed.iter().any(|allowed| match allowed {
        Value::Array(reference) => {
            let of_reference = type_of_reference(reference);
            list.iter()
                .map(PythonType::from_value)
                .all(|item| item == required || of_reference == Some(item))
        }
        _ => true,
    })
}

fn is_object(allowed: &Value, members: &Map<String, Value>) -> bool {
    let Value::Object(allowed) = allowed else {
        return false;
    };
    members.iter().all(|(name, value): (&String, &Value)| {
        let values = allowed.get(name).map(listed);
        values.is_some_and(|values| {
            values.iter().any(|allowed| match value {
                Value::String(text) => is_text(allowed, text),
                Value::Object(members) if is_object(allowed, members) => true,
                value => is_equal(allowed, value),
            })
        })
    }) && absent_are_optional(allowed, members)
}

fn is_list(allowed: &Value, list: &[Value]) -> bool {
    let allowed = match allowed {
        Value::Array(allowed) => &allowed[..],
        // The checker takes the mark of a parameter that may be absent as an empty list.
        Value::String(mark) if mark == ABSENT => &[],
        _ => return false,
    };
    let is_item = |(allowed, item): (&Value, &Value)| match item {
        Value::Object(members) => is_object(allowed, members) || is_equal(allowed, item),
        Value::String(text) => is_text(allowed, text),
        item => is_equal(allowed, item),
    };
    allowed.len() == list.len() && allowed.iter().zip(list).all(is_item)
}

fn is_text(allowed: &Value, text: &str) -> bool {
    let allowed = allowed.as_str();
    allowed.is_some_and(|allowed| standardized(allowed) == standardized(text))
}

/// As `standardize_string`.
fn standardized(text: &str) -> String {
    let significant = text
        .chars()
        .filter(|character| !matches!(character, ' ' | ',' | '.' | '/' | '-' | '_' | '*' | '^'));
    significant
        .flat_map(char::to_lowercase)
        .map(|character| if character == '\'' { '"' } else { character })
        .collect()
}

/// `==` of Python: booleans are numbers.
fn is_equal(one: &Value, other: &Value) -> bool {
    let number = |value: &Value| match value {
        Value::Bool(value) => Some(f64::from(u8::from(*value))),
        value => value.as_f64(),
    };
    match (one, other) {
        (Value::Array(one), Value::Array(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| is_equal(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| {
                    other.get(name).is_some_and(|other| is_equal(value, other))
                })
        }
        (one, other) => one == other || number(one).is_some_and(|one| number(other) == Some(one)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, allowed: &Value, value: &Value, expected: bool) {
        let parameters = json!({"type": "object", "properties": {"x": schema}});
        let object = |value: &Value| Map::from_iter([("x".to_owned(), value.clone())]);
        assert_eq!(
            are_allowed(&object(allowed), Some(&parameters), &object(value)),
            expected,
            "{value} by {schema} and {allowed}"
        );
    }

    /// Verdicts of `ast_checker`.
    #[test]
    fn types_are_those_of_python() {
        let (int, float) = (json!({"type": "integer"}), json!({"type": "number"}));
        for (schema, allowed, value, expected) in [
            (&int, json!([10]), json!(10), true),
            (&int, json!([10]), json!(10.0), false),
            (&int, json!([10]), json!("10"), false),
            (&int, json!([1]), json!(true), false),
            (&int, json!([10.0]), json!(10.0), true),
            (&int, json!(["count"]), json!("count"), true),
            (&int, json!(["count"]), json!("Count"), false),
            (&float, json!([10]), json!(10), true),
            (&float, json!([10.5, ""]), json!(10.5), true),
            (&float, json!([10]), json!(10.0), true),
            (&float, json!([10.5]), json!(true), false),
        ] {
            check(schema, &allowed, &value, expected);
        }
    }

    #[test]
    fn items_of_lists_have_the_type_of_the_schema_or_the_reference() {
        let floats = json!({"type": "array", "items": {"type": "number"}});
        let texts = json!({"type": "array", "items": {"type": "string"}});
        let objects = json!({"type": "array", "items": {"type": "object"}});
        for (schema, allowed, value, expected) in [
            (&floats, json!([[1.0, 2.0]]), json!([1.0, 2.0]), true),
            (&floats, json!([[1.0, 2.0]]), json!([1, 2]), false),
            (&floats, json!([[1, 2]]), json!([1, 2]), true),
            (&floats, json!([[1, 2], ""]), json!([1.0, 2]), true),
            (&floats, json!([[1, 2], ""]), json!([]), true),
            (&floats, json!([[1, 2]]), json!([2, 1]), false),
            (
                &texts,
                json!([["New York", "x"]]),
                json!(["new-york", "X"]),
                true,
            ),
            (&texts, json!([["a"]]), json!(["a", "b"]), false),
            (
                &objects,
                json!([[{"a": ["X"], "b": [1, ""]}]]),
                json!([{"a": "x"}]),
                true,
            ),
            (
                &objects,
                json!([[{"a": ["X"], "b": [1]}]]),
                json!([{"a": "x"}]),
                false,
            ),
        ] {
            check(schema, &allowed, &value, expected);
        }
    }

    #[test]
    fn parameters_are_those_of_the_function_and_the_reference() {
        let parameters = json!({
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "required": ["a"],
        });
        let object = |value: Value| value.as_object().cloned().unwrap();
        let allowed = object(json!({"a": ["x", ""], "b": ["y", ""], "c": ["z", ""]}));
        for (arguments, expected) in [
            (json!({"a": "x"}), true),
            (json!({"a": "x", "b": "y"}), true),
            // The function requires `a`, and has no `c`.
            (json!({"b": "y"}), false),
            (json!({"a": "x", "c": "z"}), false),
        ] {
            let arguments = object(arguments);
            assert_eq!(
                are_allowed(&allowed, Some(&parameters), &arguments),
                expected
            );
        }
        let without_schema = object(json!({"b": "y", "c": "z"}));
        assert!(are_allowed(&allowed, None, &without_schema));
    }
}
