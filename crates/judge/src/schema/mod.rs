//! Judges values by a JSON Schema, with the `jsonschema` crate.
//!
//! The draft is that of `$schema`, by default 2020-12. `format` is asserted in every draft unless
//! disabled (`formats.rs`); undefined formats are ignored, as every draft requires. `pattern`
//! follows ECMA-262 and is not anchored. Numbers are compared exactly (`decimal.rs`). A `$ref` may
//! refer to the document or to the meta-schemas of its draft; nothing is fetched.
//!
//! Memory, stack and time are limited: `schema_cost.rs` limits the compile, `step_budget.rs` the
//! validation.
//!
//! Known limitations: `patternProperties` with look-around interprets `\d`, `\w` and `\s` as
//! Unicode classes, and its `.` matches line terminators other than newline. A `multipleOf` of over
//! 19 digits is not scored. Violations of `minContains` and `maxContains` are reported as
//! `contains`, and of `dependentRequired` as `required` (the schema path distinguishes them).

mod decimal;
mod format_starts;
mod formats;
mod keywords;
mod open_scalar;
mod schema_cost;
mod start;
mod step_budget;
mod unfinished_number;
mod unsatisfiable;
mod value_size;

use std::cmp::Reverse;
use std::collections::HashSet;
use std::mem::discriminant;
use std::slice;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ReferencingError, Retrieve, Uri, ValidationError, Validator};
use serde_json::Value;

pub use self::unsatisfiable::unsatisfiable;

use self::schema_cost::SchemaCost;
use self::start::MemberNames;
use self::step_budget::{Budget, CountedJson, Node, StopReason};
use self::value_size::ValueSize;
use super::json_reader::{Document, Partial};
use super::{JudgeSettings, stack};
use sobench_core::schema_part::pointer_token;
use sobench_core::verdict::{NotScored, Reason, Verdict};

/// Maximum nesting of a schema: compiling recurses.
const MAX_SCHEMA_NESTING: usize = 128;

/// Maximum number of values in a schema. The largest of 1,452 schemas of MaskBench has 2,885.
const MAX_SCHEMA_VALUES: usize = 250_000;

/// Maximum bytes of the strings, names and numbers of a schema.
const MAX_SCHEMA_BYTES: usize = 8 << 20;

/// Maximum number of references in a schema: the time of the validator is quadratic in the length
/// of a chain of references.
const MAX_REFERENCES: usize = 20_000;

/// Maximum reads of a document in one validation (`step_budget.rs`): a few seconds of work. A
/// megabyte of one-digit numbers, each under `type`, `minimum` and `maximum`, stays below.
const MAX_STEPS: u64 = 20_000_000;

/// Maximum reads for finding the first violation in document order. All violations are collected,
/// at about 500 bytes each.
const MAX_SORTING_STEPS: u64 = 200_000;

/// Maximum reads for finding any violation, if there are too many to sort.
const MAX_SEARCH_STEPS: u64 = 1_000_000;

/// Schemas evaluated without a read that cost as much as one read.
const SCHEMAS_PER_STEP: u64 = 8;

/// Steps of matching a member name against one pattern of `patternProperties`.
const STEPS_PER_NAME_PATTERN: u64 = 4;

/// Stack bytes for compiling a schema of maximum nesting.
const COMPILE_STACK_BYTES: usize = 16 << 20;

/// Stack bytes for each schema that the validator compiles: it drops chains of them by recursion,
/// across references.
const STACK_BYTES_PER_SCHEMA: usize = 2048;

/// Stack bytes for each in-place schema that `unevaluatedProperties` evaluates: these are compiled
/// by recursion, across references.
const STACK_BYTES_PER_UNEVALUATED: usize = 16 << 10;

/// Maximum backtracking steps for one name under `patternProperties` with look-around or
/// back-references.
const MAX_PATTERN_STEPS: usize = 50_000;

/// Maximum bytes of a compiled pattern of `patternProperties`.
const MAX_PATTERN_BYTES: usize = 32 << 20;

/// Stack bytes per level of a validation. A test with deep schemas and deep documents checks that
/// they suffice.
const STACK_BYTES_PER_LEVEL: usize = 4096;

/// Memory of a violation in bytes, besides the names in its path, which it repeats.
const VIOLATION_BYTES: usize = 512;

/// Maximum characters of a violation's message. Longer ones are cut and end in an ellipsis.
const MAX_MESSAGE_CHARS: usize = 160;

/// Maximum characters of an instance that a message quotes. Longer ones are replaced by "the
/// value".
const MAX_QUOTED_CHARS: usize = 60;

/// Maximum branches that a message names: of an `anyOf`, of an `anyOf` in that branch, and so on.
const MAX_NAMED_BRANCHES: usize = 3;

/// Keyword of a violation if there are too many to find the first one.
const UNNAMED: &str = "unnamed";

/// A compiled schema.
pub(super) struct SchemaJudge {
    /// `None` only while dropping.
    validator: Option<Validator<CountedJson>>,
    drop_stack_bytes: usize,
    /// Maximum nesting of in-place schemas at each level of a document.
    in_place_depth: usize,
    budget: Budget,
    names: MemberNames,
}

impl SchemaJudge {
    /// Compiles `schema`. The error is the reason why answers cannot be scored.
    pub(super) fn compile(schema: &Value, options: JudgeSettings) -> Result<Self, NotScored> {
        check_limits(&ValueSize::measure(schema, MAX_SCHEMA_VALUES))?;
        let cost = stack::with_stack(COMPILE_STACK_BYTES, || SchemaCost::estimate(schema))??;
        let name_limits = keywords::check_name_patterns(&cost.name_patterns)?;
        let drop_stack_bytes = cost.schema_count.saturating_mul(STACK_BYTES_PER_SCHEMA);
        let unevaluated_depth = cost
            .in_place_depth
            .min(usize::try_from(cost.unevaluated_schemas).unwrap_or(usize::MAX));
        let stack_bytes = COMPILE_STACK_BYTES
            .saturating_add(drop_stack_bytes)
            .saturating_add(unevaluated_depth.saturating_mul(STACK_BYTES_PER_UNEVALUATED));
        let validator = stack::with_stack(stack_bytes, || build(schema, options))??;
        let budget = Budget {
            steps: MAX_STEPS,
            per_read: 1 + cost.max_schemas_between_reads / SCHEMAS_PER_STEP,
            per_member: cost.max_name_patterns as u64 * STEPS_PER_NAME_PATTERN,
            backtracking: name_limits.may_abort,
            name_bytes: name_limits.max_name_bytes,
        };
        Ok(Self {
            validator: Some(validator),
            drop_stack_bytes,
            in_place_depth: cost.in_place_depth,
            budget,
            names: MemberNames::of_schema(schema),
        })
    }

    fn validator(&self) -> &Validator<CountedJson> {
        self.validator
            .as_ref()
            .expect("the validator is taken only by drop")
    }

    /// Judges a document as its text has it. Only one that is invalid is built, to explain it.
    pub(super) fn judge_document(&self, document: &Document<'_>) -> Verdict {
        self.decide(document)
            .unwrap_or_else(|| self.explain_violation(&document.root().to_value()))
    }

    /// Decides whether a document matches, as far as that needs no explanation: valid, or not
    /// scored. `None` if it is invalid.
    fn decide(&self, document: &Document<'_>) -> Option<Verdict> {
        self.on_stack(document.nesting, || self.check(Node::Text(document.root())))
            .unwrap_or_else(|why| Some(Verdict::NotScored { why }))
    }

    /// Judges `document`. An invalid one is explained by its first violation in document order.
    pub(super) fn judge(&self, document: &Value) -> Verdict {
        let size = ValueSize::measure(document, usize::MAX);
        self.on_stack(size.nesting, || {
            self.check(Node::Built(document))
                .unwrap_or_else(|| self.explain(document, &size))
        })
        .unwrap_or_else(|why| Verdict::NotScored { why })
    }

    /// Explains why `document`, for which [`Self::decide`] has no verdict, is invalid.
    fn explain_violation(&self, document: &Value) -> Verdict {
        let size = ValueSize::measure(document, usize::MAX);
        let verdict = self
            .on_stack(size.nesting, || self.explain(document, &size))
            .unwrap_or_else(|why| Verdict::NotScored { why });
        debug_assert_ne!(verdict, Verdict::Valid, "the forms of a document differ");
        verdict
    }

    /// Runs a validation of a document with this nesting. Validation recurses, in the worst case
    /// through every in-place schema at every level of the document, so it gets a stack of that
    /// size.
    fn on_stack<T>(&self, nesting: usize, work: impl FnOnce() -> T) -> Result<T, NotScored> {
        let levels = (nesting + 1).saturating_mul(self.in_place_depth + 2);
        stack::with_stack(levels.saturating_mul(STACK_BYTES_PER_LEVEL), work)
    }

    /// A violation of the start of a document that no further text can remove, if one is found.
    pub(super) fn final_violation(&self, start: &Partial) -> Option<Reason> {
        self.violation_of_start(start, &start.value, None)
            .or_else(|| self.violation_of_name(start))
    }

    /// Why no member can have a name of which the text has no more than the start, or no value.
    fn violation_of_name(&self, start: &Partial) -> Option<Reason> {
        let name = start.name.as_ref()?;
        let mut value = start.value.clone();
        let pointer: String = start.open.iter().map(|step| format!("/{step}")).collect();
        let taken = value.pointer(&pointer)?.as_object()?;
        let names = if name.is_whole {
            vec![name.text.clone()]
        } else {
            self.names.completions(&name.text, taken)?
        };
        let mut first = None;
        for name in &names {
            let members = value.pointer_mut(&pointer)?.as_object_mut()?;
            members.insert(name.clone(), Value::Null);
            let reason = self.violation_of_start(start, &value, Some(name))?;
            first.get_or_insert(reason);
            value
                .pointer_mut(&pointer)?
                .as_object_mut()?
                .shift_remove(name);
        }
        if let Some(Reason::Schema { message, .. }) = &mut first
            && !name.is_whole
        {
            *message = truncate_message(&format!("no other name starts with {:?}", name.text));
        }
        first
    }

    /// A final violation of `value`, which is that of `start`, perhaps with the member `name`.
    fn violation_of_start(
        &self,
        start: &Partial,
        value: &Value,
        name: Option<&str>,
    ) -> Option<Reason> {
        let size = ValueSize::measure(value, usize::MAX);
        let budget = self.explaining_budget(&size);
        let open: String = start.open.iter().map(|step| format!("/{step}")).collect();
        let scalar = value.pointer(&open)?;
        let kept = start::Start {
            open: &start.open,
            name,
            names: &self.names,
        };
        let search = || {
            let errors = self.validator().iter_errors(Node::Built(value));
            let lasting: Vec<_> = errors.filter(|error| kept.is_final(error)).collect();
            first_violation(value, lasting.iter().collect()).map(violation)
        };
        self.on_stack(size.nesting, || {
            // Where the budget does not suffice, nothing is proved.
            open_scalar::with(scalar, || budget.run(search).ok().flatten())
        })
        .ok()
        .flatten()
    }

    /// The verdict of a document that is valid or cannot be scored. `None` if it is invalid.
    fn check(&self, document: Node<'_>) -> Option<Verdict> {
        let limit = |what| {
            Some(Verdict::NotScored {
                why: NotScored::Limit { what },
            })
        };
        match self.budget.run(|| self.validator().is_valid(document)) {
            Ok(true) => Some(Verdict::Valid),
            Ok(false) => None,
            // An aborted `pattern` may have caused or hidden any violation.
            Err(StopReason::Aborted) => Some(Verdict::NotScored {
                why: pattern_limit(),
            }),
            Err(StopReason::Name) => limit(format!(
                "name over {} bytes under patternProperties with look-around",
                self.budget.name_bytes
            )),
            Err(StopReason::Steps) => limit(format!("validation over {MAX_STEPS} steps")),
        }
    }

    /// Reports the first violation in document order, or any violation if there are too many to
    /// evaluate all. An aborted match or exceeded budget does not change that the document is
    /// invalid.
    fn explain(&self, document: &Value, size: &ValueSize) -> Verdict {
        let sort_budget = self.explaining_budget(size);
        let search_budget = Budget {
            steps: MAX_SEARCH_STEPS,
            ..self.budget
        };
        sort_budget
            .run(|| self.first_in_document_order(document))
            .or_else(|_| search_budget.run(|| self.any_violation(document)))
            .unwrap_or_else(|_| self.unnamed_violation())
    }

    /// The budget for finding the first violation.
    fn explaining_budget(&self, size: &ValueSize) -> Budget {
        let per_read = self
            .budget
            .per_read
            .saturating_mul(1 + (size.path_bytes / VIOLATION_BYTES) as u64);
        Budget {
            steps: MAX_SORTING_STEPS,
            per_read,
            ..self.budget
        }
    }

    fn unnamed_violation(&self) -> Verdict {
        // The library also reports unfinished matches as invalid.
        if self.budget.backtracking {
            let what = format!(
                "{MAX_SEARCH_STEPS} steps to distinguish a violation from an unfinished match of patternProperties"
            );
            return Verdict::NotScored {
                why: NotScored::Limit { what },
            };
        }
        let message =
            format!("breaks the schema; violation not located within {MAX_SEARCH_STEPS} steps");
        let reason = Reason::Schema {
            keyword: UNNAMED.to_owned(),
            instance_path: String::new(),
            schema_path: String::new(),
            message,
        };
        Verdict::Invalid { reason }
    }

    fn any_violation(&self, document: &Value) -> Verdict {
        let Err(error) = self.validator().validate(Node::Built(document)) else {
            return Verdict::Valid;
        };
        match aborted_reason(&error) {
            Some(why) => Verdict::NotScored { why },
            None => Verdict::Invalid {
                reason: violation(&error),
            },
        }
    }

    fn first_in_document_order(&self, document: &Value) -> Verdict {
        // The library reports a violation next to an unfinished match of `patternProperties` only
        // if it holds for either result of the match.
        let errors = self.validator().iter_errors(Node::Built(document));
        let (unfinished, violations): (Vec<_>, Vec<_>) =
            errors.partition(|error| aborted_reason(error).is_some());
        match (
            first_violation(document, violations.iter().collect()),
            unfinished.last().and_then(aborted_reason),
        ) {
            (Some(error), _) => Verdict::Invalid {
                reason: explained_violation(document, error, MAX_NAMED_BRANCHES),
            },
            (None, Some(why)) => Verdict::NotScored { why },
            (None, None) => Verdict::Valid,
        }
    }
}

impl Drop for SchemaJudge {
    fn drop(&mut self) {
        let mut validator = self.validator.take();
        if stack::with_stack(self.drop_stack_bytes, || drop(validator.take())).is_err() {
            // Without memory for a stack, leaking is better than an overflow.
            std::mem::forget(validator);
        }
    }
}

/// The first violation of its draft's meta-schema in a JSON Schema. `None` if there is none, and if
/// the draft is unknown or the schema exceeds a limit.
pub fn meta_schema_error(schema: &Value) -> Option<String> {
    check_limits(&ValueSize::measure(schema, MAX_SCHEMA_VALUES)).ok()?;
    let check = || match jsonschema::meta::validate(schema) {
        Err(error) if !matches!(error.kind(), ValidationErrorKind::Referencing(_)) => {
            Some(unusable_reason(&error))
        }
        Ok(()) | Err(_) => None,
    };
    stack::with_stack(COMPILE_STACK_BYTES, check).ok()?
}

/// Refuses external references: a schema never opens a socket or a file.
struct NoExternalReferences;

impl Retrieve for NoExternalReferences {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("{uri} is outside the document").into())
    }
}

fn build(schema: &Value, options: JudgeSettings) -> Result<Validator<CountedJson>, NotScored> {
    let patterns = PatternOptions::fancy_regex()
        .backtrack_limit(MAX_PATTERN_STEPS)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES);
    let validator_options = jsonschema::options_for::<CountedJson>()
        .should_validate_formats(options.assert_formats)
        .should_ignore_unknown_formats(true)
        .with_retriever(NoExternalReferences)
        .with_pattern_options(patterns);
    let mut validator_options = keywords::register(validator_options);
    if options.assert_formats {
        validator_options = formats::add_later_formats(validator_options, schema);
    }
    validator_options.build(schema).map_err(|error| {
        let what = match error.kind() {
            // `schema_cost.rs` has refused those that are reachable. The registry visits the others
            // in any order, so none is named.
            ValidationErrorKind::Referencing(ReferencingError::Unretrievable { .. }) => {
                "a $ref in an unused part of the schema leads outside the document".to_owned()
            }
            _ => unusable_reason(&error),
        };
        NotScored::Unsupported { what }
    })
}

/// One-line reason why a schema cannot be used.
fn unusable_reason(error: &ValidationError<'_>) -> String {
    let ValidationErrorKind::Referencing(cause) = error.kind() else {
        let location = error.instance_path().as_str();
        let location = if location.is_empty() {
            "the schema".to_owned()
        } else {
            format!("schema at {location}")
        };
        return format!("{location}: {}", short_message(error));
    };
    truncate_message(&match cause {
        ReferencingError::Unretrievable { uri, .. } => {
            format!("$ref to {uri} is outside the document")
        }
        ReferencingError::UnknownSpecification { specification } => {
            format!("$schema names no published draft: {specification}")
        }
        cause => format!("$ref: {cause}"),
    })
}

fn check_limits(size: &ValueSize) -> Result<(), NotScored> {
    let limit = |what: String| Err(NotScored::Limit { what });
    if size.values > MAX_SCHEMA_VALUES {
        return limit(format!("schema of over {MAX_SCHEMA_VALUES} values"));
    }
    if size.bytes > MAX_SCHEMA_BYTES {
        return limit(format!("schema over {MAX_SCHEMA_BYTES} bytes"));
    }
    if size.nesting > MAX_SCHEMA_NESTING {
        return limit(format!("schema nesting over {MAX_SCHEMA_NESTING}"));
    }
    if size.references > MAX_REFERENCES {
        return limit(format!("schema of over {MAX_REFERENCES} references"));
    }
    Ok(())
}

/// Reason why an error is not a violation.
fn aborted_reason(error: &ValidationError<'_>) -> Option<NotScored> {
    match error.kind() {
        ValidationErrorKind::BacktrackLimitExceeded { .. } => Some(pattern_limit()),
        ValidationErrorKind::RegexEngineFailure { message } => Some(NotScored::Unsupported {
            what: truncate_message(message),
        }),
        _ => None,
    }
}

fn pattern_limit() -> NotScored {
    NotScored::Limit {
        what: "pattern over its limit of backtracking steps".to_owned(),
    }
}

fn violation(error: &ValidationError<'_>) -> Reason {
    let keyword = match error.kind() {
        // The schema `false` has no keyword.
        ValidationErrorKind::FalseSchema => "false",
        kind => kind.keyword(),
    };
    Reason::Schema {
        keyword: keyword.to_owned(),
        instance_path: error.instance_path().as_str().to_owned(),
        schema_path: error.schema_path().as_str().to_owned(),
        message: short_message(error),
    }
}

/// The violation, whose message names the branch of `anyOf` or `oneOf` that nearly fits. `levels`
/// limits the branches in branches.
fn explained_violation(document: &Value, error: &ValidationError<'_>, levels: usize) -> Reason {
    let mut reason = violation(error);
    if levels > 0
        && let Some((branch, inner)) = near_branch(document, error)
        && let Reason::Schema { message, .. } = &mut reason
    {
        let inner = explained_violation(document, inner, levels - 1);
        *message = truncate_message(&format!("nearly branch {branch}, which {inner}"));
    }
    reason
}

/// The branch of `anyOf` or `oneOf` that nearly fits, counted from 1, and its first violation.
/// `None` if no branch is nearer than all others.
fn near_branch<'e>(
    document: &Value,
    error: &'e ValidationError<'_>,
) -> Option<(usize, &'e ValidationError<'static>)> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return None;
    };
    let depth = depth(error);
    let ranks = context.iter().map(|errors| branch_rank(errors, depth));
    let ranked = (1..).zip(ranks);
    let mut ranked: Vec<_> = ranked
        .filter_map(|(branch, rank)| Some((rank?, branch)))
        .collect();
    ranked.sort_unstable();
    let (best, branch) = *ranked.first()?;
    let is_nearest = ranked.get(1).is_none_or(|(other, _)| *other != best);
    let first = first_violation(document, context[branch - 1].iter().collect())
        .filter(|error| is_nearest && aborted_reason(error).is_none());
    Some((branch, first?))
}

/// How far a branch is from fitting a value at this depth of the document: failed discriminators
/// (`const` and `enum` of its members), then all violations, then how deep they are. `None` if the
/// branch is for another type.
fn branch_rank(
    errors: &[ValidationError<'_>],
    value_depth: usize,
) -> Option<(usize, usize, Reverse<usize>)> {
    let (mut discriminators, mut deepest) = (0, 0);
    for error in errors {
        let depth = depth(error).saturating_sub(value_depth);
        let options: Option<&[Value]> = match error.kind() {
            ValidationErrorKind::Type { .. } | ValidationErrorKind::FalseSchema => Some(&[]),
            ValidationErrorKind::Constant { expected_value } => {
                Some(slice::from_ref(expected_value))
            }
            ValidationErrorKind::Enum { options } => options.as_array().map(Vec::as_slice),
            _ => None,
        };
        let has_type = |option| discriminant(option) == discriminant(&**error.instance());
        if depth == 0 && options.is_some_and(|options| !options.iter().any(has_type)) {
            return None;
        }
        discriminators +=
            usize::from(depth == 1 && options.is_some_and(|options| !options.is_empty()));
        deepest = deepest.max(depth);
    }
    Some((discriminators, errors.len(), Reverse(deepest)))
}

/// Levels of the document above the value of a violation.
fn depth(error: &ValidationError<'_>) -> usize {
    error.instance_path().as_str().matches('/').count()
}

/// The validator's message without a long instance.
fn short_message(error: &ValidationError<'_>) -> String {
    if let ValidationErrorKind::Enum { options } = error.kind()
        && options.as_array().is_some_and(Vec::is_empty)
    {
        return "no value satisfies the schema: `enum` has no options".to_owned();
    }
    if is_quotable(error.instance()) {
        truncate_message(&error.to_string())
    } else {
        truncate_message(&error.masked_with("the value").to_string())
    }
}

fn is_quotable(instance: &Value) -> bool {
    match instance {
        Value::Array(_) | Value::Object(_) => false,
        scalar => scalar.to_string().chars().count() <= MAX_QUOTED_CHARS,
    }
}

/// An instance as quoted in messages of this crate.
fn quote_or_describe(instance: &Value) -> String {
    if is_quotable(instance) {
        instance.to_string()
    } else {
        "the value".to_owned()
    }
}

fn truncate_message(message: &str) -> String {
    match message.char_indices().nth(MAX_MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.to_owned(),
    }
}

/// Returns the first violation by position in the document, then by schema path, then by message,
/// so that the result is deterministic.
fn first_violation<'e, 'i>(
    document: &Value,
    mut errors: Vec<&'e ValidationError<'i>>,
) -> Option<&'e ValidationError<'i>> {
    let (mut value, mut path) = (document, String::new());
    let length = |error: &ValidationError<'_>| error.instance_path().as_str().len();
    while errors.iter().all(|error| length(error) > path.len()) {
        let next = |error: &ValidationError<'_>| {
            error.instance_path().as_str()[path.len()..]
                .split('/')
                .nth(1)
                .map(str::to_owned)
        };
        let tokens: HashSet<String> = errors.iter().copied().filter_map(next).collect();
        let Some((token, child)) = children(value).find(|(token, _)| tokens.contains(token)) else {
            break;
        };
        errors.retain(|error| next(error).as_ref() == Some(&token));
        path = path + "/" + &token;
        value = child;
    }
    errors.into_iter().min_by_key(|error| {
        (
            length(error),
            error.schema_path().as_str().to_owned(),
            error.masked().to_string(),
        )
    })
}

/// The children of a value in document order, with their JSON pointer tokens.
fn children(value: &Value) -> Box<dyn Iterator<Item = (String, &Value)> + '_> {
    match value {
        Value::Array(items) => Box::new(
            items
                .iter()
                .enumerate()
                .map(|(index, item)| (index.to_string(), item)),
        ),
        Value::Object(members) => Box::new(
            members
                .iter()
                .map(|(name, per_member)| (pointer_token(name), per_member)),
        ),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sobench_testkit::repository_path;

    use super::*;
    use crate::json_reader;
    use crate::json_scan::Dialect;

    fn judge(schema: &Value, document: &Value) -> Verdict {
        SchemaJudge::compile(schema, JudgeSettings::default())
            .unwrap()
            .judge(document)
    }

    /// The verdict of a document as its text has it, which must be that of the document that is
    /// built.
    fn verdict_of_both_forms(judge: &SchemaJudge, text: &str) -> Verdict {
        let document = json_reader::read(text, 0, Dialect::Rfc8259).unwrap();
        let verdict = judge.judge(&document.root().to_value());
        let decided = match &verdict {
            Verdict::Invalid { .. } => None,
            verdict => Some(verdict.clone()),
        };
        assert_eq!(judge.decide(&document), decided, "{text}");
        verdict
    }

    /// Numbers in many spellings, under the keywords that look at numbers.
    #[test]
    fn numbers_of_both_forms_get_the_same_verdict() {
        let numbers = "0 -0 0.0 1 1.0 -1 1e0 1E2 10e-1 12e-1 0e-5 1E400 1e-400 1234e10 5e-1 0.1 99.99 \
                       9007199254740993 -18446744073709551617 18446744073709551616.0 123456789012345678.5";
        let schemas = [
            json!({"type": "integer"}),
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}),
            json!({"type": ["number", "null"]}),
            json!({"const": 1}),
            json!({"enum": [0, "a", 0.1, 18446744073709551616u128.to_string()]}),
            json!({"minimum": 0, "exclusiveMaximum": 100}),
            json!({"multipleOf": 0.5}),
        ];
        for schema in &schemas {
            let judge = SchemaJudge::compile(schema, JudgeSettings::default()).unwrap();
            let list = json!({"items": schema, "uniqueItems": true});
            let lists = SchemaJudge::compile(&list, JudgeSettings::default()).unwrap();
            let mut counts = [0, 0];
            for number in numbers.split_whitespace() {
                let verdict = verdict_of_both_forms(&judge, number);
                counts[usize::from(verdict == Verdict::Valid)] += 1;
                for other in numbers.split_whitespace() {
                    verdict_of_both_forms(&lists, &format!("[{number}, {other}]"));
                }
            }
            assert!(counts[1] > 0, "{schema}");
        }
    }

    /// A document as its text has it gets the verdict of the document that is built.
    #[test]
    fn both_forms_of_a_document_get_the_same_verdict() {
        let (mut valid, mut invalid) = (0, 0);
        for draft in ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"] {
            let path = format!("fixtures/json-schema-test-suite/{draft}.jsonl");
            let lines = std::fs::read_to_string(repository_path(&path)).unwrap();
            for line in lines.lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                let group = &row["group"];
                let judge = SchemaJudge::compile(&group["schema"], JudgeSettings::default());
                let Ok(judge) = judge else { continue };
                for test in group["tests"].as_array().unwrap() {
                    match verdict_of_both_forms(&judge, &test["data"].to_string()) {
                        Verdict::Valid => valid += 1,
                        _ => invalid += 1,
                    }
                }
            }
        }
        assert!(valid > 250 && invalid > 250, "{valid} and {invalid}");
    }

    fn reason(schema: &Value, document: &Value) -> (String, String, String, String) {
        match judge(schema, document) {
            Verdict::Invalid {
                reason:
                    Reason::Schema {
                        keyword,
                        instance_path,
                        schema_path,
                        message,
                    },
            } => (keyword, instance_path, schema_path, message),
            verdict => panic!("{verdict:?}"),
        }
    }

    #[test]
    fn the_first_violation_in_document_order_is_reported() {
        let schema = json!({
            "properties": { "a": { "type": "string" }, "b": { "items": { "multipleOf": 2, "pattern": "^x" } } },
            "additionalProperties": { "$ref": "#/$defs/short" },
            "$defs": { "short": { "maxLength": 1 } },
        });
        for (document, keyword, instance_path, schema_path) in [
            (
                json!({ "b": [2, 3, "y"], "a": 1 }),
                "multipleOf",
                "/b/1",
                "/properties/b/items/multipleOf",
            ),
            (
                json!({ "b": [2, "y", 3], "a": 1 }),
                "pattern",
                "/b/1",
                "/properties/b/items/pattern",
            ),
            (
                json!({ "a": 1, "b": [3] }),
                "type",
                "/a",
                "/properties/a/type",
            ),
            (
                json!({ "x/y~": "long", "a": 1 }),
                "maxLength",
                "/x~1y~0",
                "/$defs/short/maxLength",
            ),
        ] {
            let (found, at, schema_location, _) = reason(&schema, &document);
            assert_eq!(
                (found.as_str(), at.as_str(), schema_location.as_str()),
                (keyword, instance_path, schema_path),
                "{document}"
            );
        }
    }

    #[test]
    fn messages_are_short_and_do_not_quote_long_values() {
        let long = "x".repeat(10_000);
        for schema in [
            json!({ "type": "integer" }),
            json!({ "pattern": "^y" }),
            json!({ "enum": ["z".repeat(1000)] }),
        ] {
            let (_, _, _, message) = reason(&schema, &json!(long));
            assert!(
                message.starts_with("the value ")
                    && message.chars().count() <= MAX_MESSAGE_CHARS + 1,
                "{message}"
            );
        }
        let (_, _, _, message) = reason(&json!({ "multipleOf": 2 }), &json!(3));
        assert_eq!(message, "3 is not a multiple of 2");
    }

    #[test]
    fn the_message_names_the_branch_that_nearly_fits() {
        let shape = |kind: &str, size: &str| {
            json!({ "type": "object", "properties": { "kind": { "const": kind }, "name": {}, size: { "type": "number" } },
                "required": ["kind", size, "name"], "additionalProperties": false })
        };
        let shapes =
            json!([shape("square", "side"), shape("circle", "radius"), { "type": "null" }]);
        let short = json!({ "type": "string", "maxLength": 2 });
        let nested =
            json!([{ "type": "integer" }, { "items": { "oneOf": [short, { "type": "null" }] } }]);
        let deep = (0..9).fold(
            short.clone(),
            |inner, _| json!({ "anyOf": [{ "type": "null" }, inner] }),
        );
        for (branches, value, expected) in [
            (
                &shapes,
                json!({ "kind": "circle", "side": 1, "name": "" }),
                "nearly branch 2, which breaks `additionalProperties` at /v",
            ),
            (
                &shapes,
                json!({ "kind": "circle", "radius": 1 }),
                "nearly branch 2, which breaks `required` at /v: \"name\" is a required property",
            ),
            (
                &shapes,
                json!({ "kind": "disk", "radius": 1, "name": "" }),
                "nearly branch 2, which breaks `const` at /v/kind: \"circle\" was expected",
            ),
            (&shapes, json!({}), "the value is not valid"),
            (&shapes, json!("circle"), "\"circle\" is not valid"),
            (
                &json!([{ "enum": ["a", 1] }, { "type": "null" }]),
                json!("b"),
                "nearly branch 1, which breaks `enum` at /v: \"b\" is not one of",
            ),
            (
                &json!([{ "enum": ["a"] }, { "type": "null" }]),
                json!(1),
                "1 is not valid",
            ),
            (
                &json!([{ "const": 1 }, { "const": 2 }]),
                json!(3),
                "3 is not valid",
            ),
            (
                &json!([false, short]),
                json!("abc"),
                "nearly branch 2, which breaks `maxLength` at /v",
            ),
            (
                &nested,
                json!(["a", "abc"]),
                "nearly branch 2, which breaks `oneOf` at /v/1: nearly branch 1, which breaks `maxLength` at /v/1: ",
            ),
        ] {
            for keyword in ["anyOf", "oneOf"] {
                let schema = json!({ "properties": { "v": { keyword: branches } } });
                let document = json!({ "v": value });
                let (found, path, _, message) = reason(&schema, &document);
                assert_eq!((&*found, &*path), (keyword, "/v"), "{value}");
                assert!(message.starts_with(expected), "{value}: {message}");
                assert!(
                    message.chars().count() <= MAX_MESSAGE_CHARS + 1,
                    "{message}"
                );
            }
        }
        let (_, _, _, message) = reason(&deep, &json!("abc"));
        assert_eq!(
            message.matches("nearly branch 2").count(),
            MAX_NAMED_BRANCHES,
            "{message}"
        );
        let long = json!({ "anyOf": [{ "properties": { "n".repeat(500): false } }] });
        let (_, _, _, message) = reason(&long, &json!({ "n".repeat(500): 1 }));
        assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS + 1, "{message}");
    }

    #[test]
    fn too_many_violations_to_sort_name_no_branch() {
        let schema = json!({ "anyOf": [{ "items": { "type": "string", "minimum": 3 } }, { "type": "null" }] });
        let (found, _, _, message) = reason(&schema, &json!(vec![1; 300]));
        assert_eq!(
            (&*found, message.starts_with("nearly branch 1")),
            ("anyOf", true),
            "{message}"
        );
        let (found, _, _, message) = reason(&schema, &json!(vec![1; 150_000]));
        assert_eq!(
            (&*found, message.starts_with("the value is not")),
            ("anyOf", true),
            "{message}"
        );
    }

    #[test]
    fn an_aborted_match_is_not_scored_and_the_next_answer_is_judged() {
        let slow = json!({ "pattern": "(?=(a+)+$)(a|aa)+\\1b" });
        for schema in [json!({ "anyOf": [slow, { "type": "integer" }] }), slow] {
            let judge = SchemaJudge::compile(&schema, JudgeSettings::default()).unwrap();
            let verdict = judge.judge(&json!("a".repeat(40)));
            assert!(
                matches!(
                    verdict,
                    Verdict::NotScored {
                        why: NotScored::Limit { .. }
                    }
                ),
                "{schema}: {verdict:?}"
            );
            assert!(matches!(judge.judge(&json!("c")), Verdict::Invalid { .. }));
        }
    }

    #[test]
    fn formats_of_later_drafts_are_asserted_in_earlier_ones() {
        for draft in [
            "http://json-schema.org/draft-04/schema#",
            "http://json-schema.org/draft-07/schema#",
        ] {
            for (format, wrong) in [
                ("uuid", "1234"),
                ("date", "2023-02-30"),
                ("duration", "PT"),
                ("regex", "("),
            ] {
                let schema = json!({ "$schema": draft, "format": format });
                assert_eq!(reason(&schema, &json!(wrong)).0, "format", "{schema}");
            }
        }
    }

    #[test]
    fn deep_schemas_on_deep_documents_do_not_overflow_the_stack() {
        let mut schema = json!({ "items": { "$ref": "#" } });
        for _ in 0..60 {
            schema = json!({ "allOf": [schema] });
        }
        let mut document = json!(1);
        for _ in 0..super::super::json_reader::MAX_NESTING {
            document = json!([document]);
        }
        assert_eq!(judge(&schema, &document), Verdict::Valid);
        let text = document.to_string();
        let judge = SchemaJudge::compile(&schema, JudgeSettings::default()).unwrap();
        assert_eq!(verdict_of_both_forms(&judge, &text), Verdict::Valid);
        let refused = SchemaJudge::compile(
            &json!({ "allOf": [{ "not": schema }, {}], "not": nested_not(70) }),
            JudgeSettings::default(),
        );
        assert!(matches!(refused, Err(NotScored::Limit { .. })));
    }

    fn nested_not(depth: usize) -> Value {
        (0..depth).fold(json!({}), |schema, _| json!({ "allOf": [schema] }))
    }

    #[test]
    fn unusable_schemas_are_refused_with_a_reason() {
        for (schema, why) in [
            (
                json!({ "$ref": "https://example.com/a.json" }),
                "$ref to https://example.com/a.json is outside the document",
            ),
            // The registry visits references in any order. The first one of the document is
            // reported.
            (
                json!({ "properties": { "a": { "$schema": "a.json" }, "b": { "$ref": "d.json#/x" }, "c": { "$ref": "c.json#/x" } } }),
                "$ref to d.json is outside",
            ),
            (
                json!({ "$defs": { "a": { "$ref": "a.json" }, "b": { "$ref": "b.json" } } }),
                "a $ref in an unused part of the schema",
            ),
            (
                json!({ "$schema": "urn:x" }),
                "$schema names no published draft: urn:x",
            ),
            (
                json!({ "properties": { "a": { "pattern": "(" } } }),
                "unclosed group",
            ),
            (json!({ "multipleOf": 0 }), "multipleOf"),
        ] {
            let Err(NotScored::Unsupported { what }) =
                SchemaJudge::compile(&schema, JudgeSettings::default())
            else {
                panic!("{schema} compiles");
            };
            assert!(what.contains(why), "{what}");
        }
    }
}
