//! Checks of files against their contracts, the JSON Schemas in `schemas/contracts`.

use serde_json::Value;

/// Validates a file against a contract.
///
/// # Errors
/// The violations, one on each line.
pub fn check(contract: &str, file: &Value) -> Result<(), String> {
    let schema: Value = serde_json::from_str(contract).expect("the contract is JSON");
    jsonschema::draft202012::meta::validate(&schema)
        .map_err(|error| format!("invalid contract: {error}"))?;
    let validator = jsonschema::draft202012::new(&schema).expect("the contract is a schema");
    let errors: Vec<String> = validator
        .iter_errors(file)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors.join("\n"))
    }
}

/// The file with this value at a JSON pointer, whose last part is a new or known member.
pub fn with_member(file: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = file.clone();
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    changed
        .pointer_mut(parent)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .insert(member.to_owned(), value);
    changed
}
