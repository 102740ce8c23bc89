//! A schema as the validator has compiled it. Knows the validator's options, and that its trees are as deep as references are many; how
//! much a schema may ask for is the caller's to know.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::Value;

use super::counted::Counted;
use super::outside::NothingOutside;
use super::shape::Demand;
use super::{bounds, clipped, formats, keywords, short_message};
use crate::evaluate::{EvaluateOptions, stack};
use crate::verdict::NotScored;

/// Bytes of stack for compiling a schema of the largest nesting.
pub(super) const STACK_BYTES: usize = 16 << 20;

/// Bytes of stack for each schema that the validator compiles: it drops a row of them by recursion, wherever references lead.
const STACK_BYTES_PER_PART: usize = 2048;

/// Bytes of stack for each schema in place that `unevaluatedProperties` asks: it is compiled by recursion through references, too.
const STACK_BYTES_PER_ASKED: usize = 16 << 10;

/// Backtracking steps after which one name under `patternProperties` with look-around or back-references is given up.
const MAX_PATTERN_STEPS: usize = 50_000;

/// Bytes that one compiled `pattern` may take.
const MAX_PATTERN_BYTES: usize = 32 << 20;

/// A compiled schema, dropped where there is room for that.
pub(super) struct Compiled {
    /// Taken by dropping only.
    validator: Option<Validator<Counted>>,
    stack_bytes: usize,
}

impl Compiled {
    /// Compiles `schema`, which asks for `demand`; where that is impossible, says why.
    pub(super) fn new(
        schema: &Value,
        options: EvaluateOptions,
        given_up: &keywords::GivenUp,
        demand: &Demand,
    ) -> Result<Self, NotScored> {
        let stack_bytes = demand.parts.saturating_mul(STACK_BYTES_PER_PART);
        let asked = demand.in_place.min(usize::try_from(demand.unevaluated).unwrap_or(usize::MAX));
        let room = STACK_BYTES.saturating_add(stack_bytes).saturating_add(asked.saturating_mul(STACK_BYTES_PER_ASKED));
        let validator = stack::with_room(room, || build(schema, options, given_up))??;
        Ok(Self { validator: Some(validator), stack_bytes })
    }

    pub(super) fn validator(&self) -> &Validator<Counted> {
        self.validator.as_ref().expect("it is taken by dropping only")
    }
}

impl Drop for Compiled {
    fn drop(&mut self) {
        let validator = &mut self.validator;
        if stack::with_room(self.stack_bytes, || drop(validator.take())).is_err() {
            // Without a thread to drop it on, it is better left where it is than dropped on a stack that may not do.
            std::mem::forget(self.validator.take());
        }
    }
}

fn build(schema: &Value, options: EvaluateOptions, given_up: &keywords::GivenUp) -> Result<Validator<Counted>, NotScored> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(MAX_PATTERN_STEPS)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    let mut validator_options = jsonschema::options_for::<Counted>()
        .should_validate_formats(options.assert_formats)
        .should_ignore_unknown_formats(true)
        .with_retriever(NothingOutside)
        .with_pattern_options(patterns)
        .with_keyword("pattern", keywords::pattern(given_up))
        .with_keyword("multipleOf", keywords::multiple_of);
    validator_options = bounds::add(validator_options);
    if options.assert_formats {
        validator_options = formats::add_later(validator_options, schema);
    }
    validator_options.build(schema).map_err(|error| NotScored::Unsupported { what: unusable(&error) })
}

/// Why a schema cannot be judged by, in one line.
pub(super) fn unusable(error: &ValidationError<'_>) -> String {
    let ValidationErrorKind::Referencing(cause) = error.kind() else {
        let place = error.instance_path().as_str();
        let place = if place.is_empty() { "the schema".to_owned() } else { format!("schema at {place}") };
        return format!("{place}: {}", short_message(error));
    };
    match cause {
        jsonschema::ReferencingError::Unretrievable { uri, .. } => clipped(&format!("$ref to {uri} is outside the document")),
        jsonschema::ReferencingError::UnknownSpecification { specification } => {
            clipped(&format!("$schema names no published draft: {specification}"))
        }
        cause => clipped(&format!("$ref: {cause}")),
    }
}
