//! Asserts formats equally in every draft: formats of later drafts are also asserted in earlier
//! ones.
//!
//! The drafts leave undefined formats to the implementation. Decoding engines enforce a `uuid` in
//! every draft, so it is asserted in every draft.

use std::sync::{Arc, LazyLock};

use jsonschema::{Draft, Retrieve, ValidationOptions, Validator};
use serde_json::{Value, json};

use super::step_budget::CountedJson;

/// Options of the validator.
pub(super) type Options<'i> = ValidationOptions<'i, Arc<dyn Retrieve>, CountedJson>;

/// Formats of 2020-12 that an earlier draft lacks, each with a validator for it.
static LATER_FORMATS: LazyLock<Vec<(&'static str, Validator)>> = LazyLock::new(|| {
    let names = "date time duration uuid regex json-pointer relative-json-pointer uri-reference uri-template iri iri-reference \
                 idn-email idn-hostname";
    let options = jsonschema::options().should_validate_formats(true);
    let validator = |name| {
        options
            .build(&json!({ "format": name }))
            .expect("a schema of one known format compiles")
    };
    names
        .split_whitespace()
        .map(|name| (name, validator(name)))
        .collect()
});

/// Adds the formats that the draft of `schema` lacks.
pub(super) fn add_later_formats<'i>(mut options: Options<'i>, schema: &Value) -> Options<'i> {
    let draft = Draft::default().detect(schema);
    for (name, validator) in &*LATER_FORMATS {
        if !options.is_known_format(draft, name) {
            options =
                options.with_format(*name, |text: &str| validator.is_valid(&Value::from(text)));
        }
    }
    options
}
