//! Violations in the start of a document that no further text can remove.
//!
//! The start is validated as if its open containers were closed. A violation is final in two cases.
//! Either the value is finished, and every schema on the way to it applies regardless of what the
//! unfinished values become: `properties` does, `not` and `if` do not, and of the alternatives of
//! `anyOf` and `oneOf`, each must have a final violation. Or the value is unfinished, and more text
//! can only make the violation worse: `maxItems`, `type`, an unknown member.
//!
//! The name of a member is judged before its value starts. If it is unfinished, every name that it
//! may become is ([`MemberNames`]).

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Map, Value};

use super::format_starts;
use super::unfinished_number::UnfinishedNumber;
use sobench_core::schema_part::pointer_token;

/// Maximum names that an unfinished name is completed to.
const MAX_COMPLETIONS: usize = 32;

/// Keywords that judge names by other means than listing them.
const NAME_PATTERNS: [&str; 2] = ["patternProperties", "propertyNames"];

const CONDITIONS: [&str; 2] = ["then", "else"];

const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The start of a document, as it is validated.
pub(super) struct Start<'a> {
    /// The path of the innermost unfinished value; all values on the way to it are unfinished too.
    pub(super) open: &'a [String],
    /// The member of the innermost unfinished value that has no value yet.
    pub(super) name: Option<&'a str>,
    pub(super) names: &'a MemberNames,
}

impl Start<'_> {
    /// Whether the violation remains in every continuation.
    pub(super) fn is_final(&self, error: &ValidationError<'_>) -> bool {
        self.is_final_from(error, 0, 0)
    }

    /// As [`Self::is_final`], where the first `applied` steps of the evaluation path are known to
    /// lead to a schema that applies, at `depth` steps from the root.
    fn is_final_from(&self, error: &ValidationError<'_>, applied: usize, depth: usize) -> bool {
        if super::aborted_reason(error).is_some() {
            return false;
        }
        let instance: Vec<&str> = tokens(error.instance_path().as_str()).collect();
        if self.is_in_nameless_value(&instance) {
            return false;
        }
        let schema_path = error.schema_path().as_str();
        if matches!(error.kind(), Kind::Custom { .. }) && self.names.is_referenced(schema_path) {
            // The library has no evaluation path of such a keyword, but reports it only where it
            // applies.
            return !self.names.has_conditions;
        }
        let evaluation_path = error.evaluation_path().as_str();
        let steps = tokens(evaluation_path).count();
        let mut keywords = tokens(evaluation_path).skip(applied).peekable();
        // The number of steps from the root to the value that the next keyword applies to.
        let mut depth = depth;
        while self.is_open(&instance[..depth.min(instance.len())]) {
            let Some(keyword) = keywords.next() else {
                return matches!(error.kind(), Kind::FalseSchema);
            };
            let is_last = keywords.peek().is_none();
            if is_last && !matches!(error.kind(), Kind::FalseSchema) {
                return depth == instance.len() && self.only_grows(error, steps, depth);
            }
            match keyword {
                "$ref" | "$dynamicRef" | "$recursiveRef" => {}
                // The member that makes it apply stays.
                "allOf" | "dependentSchemas" => {
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
                // The names in the document are whole.
                "propertyNames" => return true,
                _ => return false,
            }
        }
        true
    }

    fn is_open(&self, path: &[&str]) -> bool {
        path.len() <= self.open.len() && path.iter().zip(self.open).all(|(step, open)| step == open)
    }

    /// Whether the value stands for one that has not started.
    fn is_in_nameless_value(&self, path: &[&str]) -> bool {
        let depth = self.open.len();
        let step = self.name.map(pointer_token);
        step.is_some_and(|step| {
            path.len() > depth && self.is_open(&path[..depth]) && path[depth] == step
        })
    }

    /// Whether more text cannot remove this violation of an unfinished value. `steps` are those of
    /// its evaluation path, `depth` those of its instance path.
    fn only_grows(&self, error: &ValidationError<'_>, steps: usize, depth: usize) -> bool {
        let value = error.instance();
        match error.kind() {
            // A number with a fraction may become an integer: 1.5e1.
            Kind::Type { kind } => !(value.is_number() && admits_integers(kind)),
            Kind::MaxLength { .. }
            | Kind::MaxItems { .. }
            | Kind::MaxProperties { .. }
            | Kind::AdditionalProperties { .. }
            | Kind::AdditionalItems { .. }
            // Keywords of this crate fail an unfinished value only if no continuation passes.
            | Kind::Custom { .. } => true,
            Kind::Format { format } => value
                .as_str()
                .is_some_and(|text| !format_starts::may_become(format, text)),
            Kind::UniqueItems => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let finished = items.len() - usize::from(self.open.len() > depth);
                let finished = &items[..finished.min(items.len())];
                (1..finished.len()).any(|index| finished[..index].contains(&finished[index]))
            }
            Kind::Constant { expected_value } => !may_become(value, expected_value),
            Kind::Enum { options } => options
                .as_array()
                .is_some_and(|options| !options.iter().any(|option| may_become(value, option))),
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                // The keyword and the number of the alternative.
                let applied = steps + 1;
                context.iter().all(|errors| errors.iter().any(|error: &ValidationError<'_>| self.is_final_from(error, applied, depth)))
            }
            _ => false,
        }
    }
}

fn admits_integers(kind: &TypeKind) -> bool {
    match kind {
        TypeKind::Single(kind) => *kind == JsonType::Integer,
        TypeKind::Multiple(kinds) => kinds.contains(JsonType::Integer),
    }
}

/// Whether an unfinished value may become `target`.
fn may_become(unfinished: &Value, target: &Value) -> bool {
    match (unfinished, target) {
        (Value::String(start), Value::String(target)) => target.starts_with(start),
        (Value::Number(start), Value::Number(target)) => {
            UnfinishedNumber::parse(start.as_str()).may_equal(target.as_str())
        }
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => true,
        (unfinished, target) => unfinished == target,
    }
}

/// All names in a schema, which may be those of members, and what some of them mean.
pub(super) struct MemberNames {
    sorted: Vec<String>,
    /// Whether names outside the list may be treated differently.
    has_patterns: bool,
    /// What references lead to.
    targets: Vec<String>,
    /// Whether a part may apply to the start of a value only.
    has_conditions: bool,
}

impl MemberNames {
    pub(super) fn of_schema(schema: &Value) -> Self {
        let mut names = Self {
            sorted: Vec::new(),
            has_patterns: false,
            targets: Vec::new(),
            has_conditions: false,
        };
        names.add(schema);
        names.sorted.sort_unstable();
        names.sorted.dedup();
        names
    }

    fn add(&mut self, schema: &Value) {
        match schema {
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    let to = member.as_str().filter(|_| REFERENCES.contains(&&**name));
                    self.targets.extend(to.map(str::to_owned));
                    self.has_patterns |= to.is_some_and(|to| !to.starts_with('#'))
                        || NAME_PATTERNS.contains(&&**name);
                    self.has_conditions |= CONDITIONS.contains(&&**name);
                    self.sorted.push(name.clone());
                    self.add(member);
                }
            }
            _ => {}
        }
    }

    /// Whether a reference may lead to the part of the schema with this path, or to one around it.
    fn is_referenced(&self, path: &str) -> bool {
        self.targets.iter().any(|target| {
            let pointer = target.strip_prefix('#').unwrap_or("");
            !pointer.starts_with('/') || path.starts_with(pointer) || pointer.contains('%')
        })
    }

    /// The names that stand for all that `start` may become: one that the schema does not have, and
    /// those that it has. Names that `taken` has are left out: they may not be repeated. `None` if
    /// this is not known.
    pub(super) fn completions(
        &self,
        start: &str,
        taken: &Map<String, Value>,
    ) -> Option<Vec<String>> {
        let first = self.sorted.partition_point(|name| name.as_str() < start);
        let known: Vec<&String> = self.sorted[first..]
            .iter()
            .take_while(|name| name.starts_with(start))
            .take(MAX_COMPLETIONS + 1)
            .collect();
        if self.has_patterns || known.len() > MAX_COMPLETIONS {
            return None;
        }
        let mut unknown = start.to_owned();
        while known.contains(&&unknown) || taken.contains_key(&unknown) {
            unknown.push('_');
        }
        let free = known.into_iter().filter(|name| !taken.contains_key(*name));
        Some([unknown].into_iter().chain(free.cloned()).collect())
    }
}

fn tokens(pointer: &str) -> impl Iterator<Item = &str> {
    pointer.split('/').skip(1)
}
