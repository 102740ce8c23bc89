//! Formats by one reading in every draft: a name that a later draft defined is asserted in the
//! earlier ones, too.
//!
//! The drafts leave formats that they do not define to the implementation. Decoding engines do not
//! look at the draft when they force a `uuid`, so neither do we when we check one.

use std::sync::{Arc, LazyLock};

use jsonschema::{Draft, Retrieve, ValidationOptions, Validator};
use serde_json::{Value, json};

use super::counted::Counted;

/// Options of a validator of our documents.
pub(super) type Options<'i> = ValidationOptions<'i, Arc<dyn Retrieve>, Counted>;

/// Formats of 2020-12 that some earlier draft lacks, each with a validator for nothing else.
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

/// Adds what the draft of `schema` lacks.
pub(super) fn add_later<'i>(mut options: Options<'i>, schema: &Value) -> Options<'i> {
    let draft = Draft::default().detect(schema);
    for (name, validator) in &*LATER_FORMATS {
        if !options.is_known_format(draft, name) {
            options =
                options.with_format(*name, |text: &str| validator.is_valid(&Value::from(text)));
        }
    }
    options
}
