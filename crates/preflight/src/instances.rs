//! Instances of a JSON Schema that break its keywords, to tempt a server into breaking them.
//!
//! [`instances`] creates a valid instance, then changes it for each keyword so that it breaks only
//! this keyword. The judge verifies every text. A violating text is valid without the keyword.
//!
//! Keywords below `anyOf`, `oneOf`, `then`, `else`, `dependentSchemas` and `patternProperties` are
//! untested: their violations are those of the outer keyword, or depend on other values.

use std::cmp::Reverse;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use fancy_regex::{Expr, LookAround};
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Value, json};

use sobench_core::constraint::Constraint;
use sobench_core::schema_part::{pointer_name, pointer_token};
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Compiled, Evaluator, JudgeSettings, judge_text};

/// Maximum number of keywords with a violating instance.
const MAX_TEMPTABLE: usize = 64;
/// Maximum nesting of a schema. The judge has the same limit.
const MAX_NESTING: usize = 128;
/// Maximum recursion of the generator.
const MAX_DEPTH: usize = 64;
/// Maximum subschemas to visit, for all keywords or for one instance.
const MAX_STEPS: usize = 2_000;
/// Maximum bytes of schemas to compile and texts to judge: under a second in a debug build.
const MAX_WORK_BYTES: usize = 2 << 20;
/// Maximum characters of a string, items of an array, and added members.
const MAX_LENGTH: usize = 1_000;
/// Maximum bytes of a violating text.
const MAX_TEXT_BYTES: usize = 32 << 10;
/// Maximum members to remove from an invalid instance.
const MAX_REPAIRS: usize = 16;

/// The keywords to break, by the type of value that they restrict.
const TEMPTABLE: [(&str, &str); 5] = [
    ("", "type enum const"),
    ("string", "minLength maxLength pattern format"),
    (
        "number",
        "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf",
    ),
    ("array", "minItems maxItems uniqueItems"),
    (
        "object",
        "required additionalProperties minProperties maxProperties dependentRequired",
    ),
];

/// Keywords that are always untested.
const NOT_TEMPTABLE: &str = "not if anyOf oneOf contains patternProperties propertyNames \
    dependentSchemas dependencies unevaluatedProperties unevaluatedItems $dynamicRef";

/// Examples of formats.
const FORMATS: [(&str, &str); 9] = [
    ("date", "2025-01-31"),
    ("date-time", "2025-01-31T12:30:00Z"),
    ("time", "12:30:00Z"),
    ("email", "ada@example.com"),
    ("uuid", "123e4567-e89b-42d3-a456-426614174000"),
    ("uri", "https://example.com/a"),
    ("ipv4", "192.0.2.1"),
    ("ipv6", "2001:db8::1"),
    ("hostname", "example.com"),
];

/// The name for the branches of `anyOf` and `oneOf` among merged keywords.
const BRANCHES: &str = "branches";

/// A keyword that an instance can break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Temptable {
    /// JSON pointer of the keyword in the schema, for example `/properties/title/maxLength`.
    pub pointer: String,
    pub keyword: String,
    /// A compact JSON text that breaks only this keyword.
    pub violating: String,
}

/// Valid and violating instances of a schema.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    /// `None` if no valid instance was found. All keywords are then untested.
    pub valid: Option<String>,
    /// Those near the root first.
    pub temptable: Vec<Temptable>,
    /// Pointers of keywords without a violating instance.
    pub untested: Vec<String>,
    /// A text that breaks many of the temptable keywords at once, and their pointers.
    pub all_at_once: Option<AllAtOnce>,
}

type AllAtOnce = (String, Vec<String>);

/// Creates the instances of a schema. The result is deterministic.
pub fn instances(schema: &Value) -> Instances {
    let mut result = Instances::default();
    let mut generator = Generator::new(if is_too_deep(schema) {
        &NOTHING
    } else {
        schema
    });
    let valid = generator.valid_instance();
    let mut tempted = Vec::new();
    for place in places(schema, valid.as_ref().unwrap_or(&Value::Null)) {
        let valid = valid.as_ref().filter(|_| tempted.len() < MAX_TEMPTABLE);
        let Some(violating) = valid.and_then(|valid| generator.violating(&place, valid)) else {
            result.untested.push(place.pointer);
            continue;
        };
        result.temptable.push(Temptable {
            pointer: place.pointer.clone(),
            keyword: place.keyword.to_owned(),
            violating,
        });
        tempted.push(place);
    }
    result.valid = valid.as_ref().map(Value::to_string);
    result.all_at_once = valid.and_then(|valid| generator.all_at_once(&tempted, valid));
    result
}

/// The schema of no value.
static NOTHING: Value = Value::Bool(false);

/// Whether the recursion of serialisers may exhaust the stack.
fn is_too_deep(schema: &Value) -> bool {
    let mut level = vec![schema];
    for _ in 0..MAX_NESTING {
        let members = level.iter().filter_map(|value| value.as_object());
        let items = level.iter().filter_map(|value| value.as_array());
        level = members
            .flat_map(Map::values)
            .chain(items.flatten())
            .collect();
    }
    !level.is_empty()
}

/// A keyword in the schema.
struct Place<'s> {
    pointer: String,
    keyword: &'s str,
    /// The schema that has the keyword.
    schema: &'s Value,
    /// JSON pointer of a value in the valid instance that must satisfy the keyword.
    path: Option<String>,
}

/// The keywords of all reachable subschemas, each once.
fn places<'s>(root: &'s Value, valid: &Value) -> Vec<Place<'s>> {
    let (mut found, mut visited) = (Vec::new(), HashSet::new());
    // Subschemas that apply to a value come first: another way to one may have no value.
    let mut queues = [
        VecDeque::from([(String::new(), Some(String::new()))]),
        VecDeque::new(),
    ];
    while let Some((base, path)) = queues.iter_mut().find_map(VecDeque::pop_front) {
        let Some(schema) = root.pointer(&base).filter(|_| visited.len() < MAX_STEPS) else {
            continue;
        };
        if !visited.insert(base.clone()) {
            continue;
        }
        for (keyword, operand) in schema.as_object().into_iter().flatten() {
            let pointer = format!("{base}/{keyword}");
            let value = path
                .as_ref()
                .and_then(|path| valid.pointer(path))
                .unwrap_or(&Value::Null);
            for (token, end) in subschemas(schema, keyword, value) {
                let path = path.clone().zip(end).map(|(path, end)| path + &end);
                let path = path.filter(|path| valid.pointer(path).is_some());
                queues[usize::from(path.is_none())].push_back((format!("{pointer}{token}"), path));
            }
            if let Some((target, _)) = resolve(root, operand).filter(|_| keyword == "$ref") {
                queues[usize::from(path.is_none())].push_back((target, path.clone()));
            }
            if is_assertion(keyword, operand) {
                found.push(Place {
                    pointer,
                    keyword,
                    schema,
                    path: path.clone(),
                });
            }
        }
    }
    found
}

/// The subschemas of a keyword: the ends of their pointers, and the path from `value` to a value
/// that must satisfy them. No path if none must.
fn subschemas(schema: &Value, keyword: &str, value: &Value) -> Vec<(String, Option<String>)> {
    let below = |name: &String| format!("/{}", pointer_token(name));
    let tokens = match (&schema[keyword], keyword) {
        (Value::Object(named), "properties" | "patternProperties" | "dependentSchemas") => {
            named.keys().map(below).collect()
        }
        (Value::Array(list), "prefixItems" | "items" | "allOf" | "anyOf" | "oneOf") => {
            (0..list.len()).map(|index| format!("/{index}")).collect()
        }
        (_, "items" | "additionalProperties" | "then" | "else") => vec![String::new()],
        _ => Vec::new(),
    };
    let mut names = value.as_object().into_iter().flat_map(Map::keys);
    let additional = names.find(|name| schema["properties"].get(name).is_none());
    let additional = additional.map(below);
    let prefix = schema["prefixItems"].as_array().map_or(0, Vec::len);
    let path = |token: String| match keyword {
        "items" if token.is_empty() => Some(format!("/{prefix}")),
        "properties" | "prefixItems" | "items" => Some(token),
        "allOf" => Some(String::new()),
        "additionalProperties" => additional.clone(),
        _ => None,
    };
    let with_path = tokens.into_iter().map(|token| (token.clone(), path(token)));
    with_path.collect()
}

fn is_assertion(keyword: &str, operand: &Value) -> bool {
    match keyword {
        "additionalProperties" | "unevaluatedProperties" | "unevaluatedItems" => *operand == false,
        "minLength" | "minItems" | "minProperties" => *operand != 0,
        "uniqueItems" => *operand == true,
        "required" => *operand != json!([]),
        _ => type_of_keyword(keyword).is_some() || has_word(NOT_TEMPTABLE, keyword),
    }
}

fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|known| known == word)
}

/// The type of value that a temptable keyword restricts. Empty if it restricts any value.
pub fn type_of_keyword(keyword: &str) -> Option<&'static str> {
    let mut types = TEMPTABLE.iter();
    let found = types.find(|(_, keywords)| has_word(keywords, keyword));
    found.map(|(name, _)| *name)
}

/// The target of a local `$ref`, with its JSON pointer.
fn resolve<'s>(root: &'s Value, reference: &Value) -> Option<(String, &'s Value)> {
    let encoded = reference.as_str()?.strip_prefix('#')?;
    let decoded = percent_encoding::percent_decode_str(encoded);
    let pointer = decoded.decode_utf8().ok()?;
    Some((pointer.to_string(), root.pointer(&pointer)?))
}

/// Adds a keyword to those that hold for the same value.
fn merge(merged: &mut Value, keyword: &str, operand: &Value) {
    match (keyword, &mut merged[keyword], operand) {
        (_, known @ Value::Null, _) => *known = operand.clone(),
        ("properties", Value::Object(known), Value::Object(named)) => {
            for (name, schema) in named {
                let other = known.get(name).unwrap_or(&Value::Null);
                known.insert(name.clone(), json!({"allOf": [other, schema]}));
            }
        }
        ("required", Value::Array(known), Value::Array(names)) => known.extend(names.clone()),
        ("enum" | "type", Value::Array(known), Value::Array(others)) => {
            known.retain(|value| others.contains(value));
        }
        ("type", known @ Value::Array(_), _) => *known = operand.clone(),
        ("items" | "additionalProperties", known, _) => *known = json!({"allOf": [known, operand]}),
        (_, known @ Value::Number(_), Value::Number(_)) => {
            let is_maximum = keyword.to_lowercase().contains("max");
            if (operand.as_f64() < known.as_f64()) == is_maximum {
                *known = operand.clone();
            }
        }
        _ => {}
    }
}

/// Creates instances of a schema, and verifies them.
struct Generator<'s> {
    root: &'s Value,
    evaluator: Evaluator,
    compiled: Compiled,
    work_left: usize,
    steps_left: usize,
    /// The references that lead to the value. The smallest instance of a schema repeats none, so
    /// recursion fails, and optional members and items are left out.
    references: Vec<String>,
    /// Whether optional members are created.
    is_full: bool,
    /// Selects among several values, and among the branches of `anyOf` and `oneOf`.
    variant: usize,
}

impl<'s> Generator<'s> {
    fn new(root: &'s Value) -> Self {
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        let compiled = compile(&mut evaluator, root.clone());
        Self {
            root,
            evaluator,
            compiled,
            work_left: MAX_WORK_BYTES,
            steps_left: 0,
            references: Vec::new(),
            is_full: true,
            variant: 0,
        }
    }

    fn valid_instance(&mut self) -> Option<Value> {
        if self.compiled.not_scorable().is_some() {
            return None;
        }
        for (is_full, variant) in [(true, 0), (true, 1), (false, 0), (false, 1), (false, 2)] {
            self.is_full = is_full;
            self.references = vec!["#".to_owned()];
            let Some(mut value) = self.example_variant(self.root, variant) else {
                continue;
            };
            // Members that are invalid for a reason that the generator does not know are removed.
            for _ in 0..MAX_REPAIRS {
                match judge_text(&self.compiled, &value.to_string()) {
                    Verdict::Valid => return Some(value),
                    Verdict::Invalid {
                        reason: Reason::Schema { instance_path, .. },
                    } if remove(&mut value, &instance_path) => {}
                    _ => break,
                }
            }
        }
        None
    }

    fn example_variant(&mut self, schema: &Value, variant: usize) -> Option<Value> {
        (self.variant, self.steps_left) = (variant, MAX_STEPS);
        self.example(schema, 0)
    }

    /// A value that satisfies a schema. `None` if none was found.
    fn example(&mut self, schema: &Value, depth: usize) -> Option<Value> {
        let mut merged = json!({ BRANCHES: [] });
        self.flatten(schema, &mut merged, depth)?;
        self.value(merged, depth)
    }

    /// Adds the keywords of a schema, of its `$ref` and of its `allOf`.
    fn flatten(&mut self, schema: &Value, merged: &mut Value, depth: usize) -> Option<()> {
        self.steps_left = self.steps_left.checked_sub(1)?;
        if *schema == false || depth == MAX_DEPTH {
            return None;
        }
        for (keyword, operand) in schema.as_object().into_iter().flatten() {
            match (keyword.as_str(), operand) {
                ("$ref", _) => {
                    let (pointer, target) = resolve(self.root, operand)?;
                    let reference = format!("#{pointer}");
                    if self.references.contains(&reference) {
                        return None;
                    }
                    if merged[&reference].is_null() {
                        merged[&reference] = true.into();
                        self.flatten(target, merged, depth + 1)?;
                    }
                }
                ("allOf", Value::Array(parts)) => {
                    for part in parts {
                        self.flatten(part, merged, depth + 1)?;
                    }
                }
                ("anyOf" | "oneOf", _) => merged[BRANCHES].as_array_mut()?.push(operand.clone()),
                _ => merge(merged, keyword, operand),
            }
        }
        Some(())
    }

    /// A value that satisfies the keywords, and one branch of each `anyOf` and `oneOf`.
    fn value(&mut self, mut merged: Value, depth: usize) -> Option<Value> {
        let Some(Value::Array(branches)) = merged[BRANCHES].as_array_mut()?.pop() else {
            return self.value_of_types(merged, depth);
        };
        let first = self.variant.checked_rem(branches.len())?;
        let mut ordered = branches[first..].iter().chain(&branches[..first]);
        ordered.find_map(|branch| {
            let mut with_branch = merged.clone();
            self.flatten(branch, &mut with_branch, depth + 1)?;
            self.value(with_branch, depth + 1)
        })
    }

    fn value_of_types(&mut self, mut merged: Value, depth: usize) -> Option<Value> {
        if merged.get("enum").or(merged.get("const")).is_some() {
            return self.scalar(&merged);
        }
        let keywords = merged.as_object()?;
        let mut types = match &merged["type"] {
            Value::Array(types) => types.clone(),
            Value::Null => vec![implied_type(keywords).into()],
            name => vec![name.clone()],
        };
        types.sort_by_key(|name| *name == "null");
        let held = self.references.len();
        let references = keywords.keys().filter(|name| name.starts_with('#'));
        self.references.extend(references.cloned());
        let value = types.into_iter().find_map(|name| match name.as_str()? {
            "array" => self.array(&merged, depth),
            "object" => self.object(&merged, depth),
            _ => {
                merged["type"] = name;
                self.scalar(&merged)
            }
        });
        self.references.truncate(held);
        value
    }

    /// A listed value, or one of a type without members and items.
    fn scalar(&mut self, merged: &Value) -> Option<Value> {
        let type_name = merged["type"].as_str();
        let mut values = match (merged.get("const"), &merged["enum"], type_name) {
            (Some(value), ..) => vec![value.clone()],
            (_, Value::Array(values), _) => values.clone(),
            (.., Some("boolean")) => vec![true.into(), false.into()],
            (.., Some("null")) => vec![Value::Null],
            (.., Some("string")) => return self.accepted(merged, texts(merged, self.variant)),
            _ => return self.accepted(merged, numbers(merged, self.variant)),
        };
        let first = self.variant.checked_rem(values.len())?;
        values.rotate_left(first);
        self.accepted(merged, values)
    }

    /// The first of `values` that satisfies the keywords for scalars.
    fn accepted(&mut self, keywords: &Value, values: Vec<Value>) -> Option<Value> {
        let types = ["", "string", "number"].map(Some);
        let check = self.compile_some(keywords, |name| types.contains(&type_of_keyword(name)));
        let mut values = values.into_iter();
        values.find(|value| check.accepts(&value.to_string()))
    }

    /// Compiles a schema that has only some of the keywords.
    fn compile_some(&mut self, keywords: &Value, is_wanted: impl Fn(&str) -> bool) -> Compiled {
        let mut schema = keywords.as_object().cloned().unwrap_or_default();
        schema.retain(|keyword, operand| {
            is_wanted(keyword) && (!operand.is_null() || keyword == "const")
        });
        let draft = self.root.get("$schema").cloned();
        schema.extend(draft.map(|draft| ("$schema".to_owned(), draft)));
        compile(&mut self.evaluator, schema.into())
    }

    fn array(&mut self, merged: &Value, depth: usize) -> Option<Value> {
        let items = &merged["items"];
        let prefix = merged["prefixItems"].as_array().or(items.as_array());
        let low = count(&merged["minItems"], 0);
        let high = count(&merged["maxItems"], MAX_LENGTH).min(MAX_LENGTH);
        let wanted = prefix.map_or(1, Vec::len) * usize::from(self.is_full);
        let (variant, mut values) = (self.variant, Vec::new());
        for index in 0..wanted.max(low).min(high) {
            self.variant += usize::from(index > 0 && merged["uniqueItems"] == true);
            let item = prefix.and_then(|prefix| prefix.get(index)).unwrap_or(items);
            let Some(value) = self.example(item, depth + 1) else {
                break;
            };
            values.push(value);
        }
        self.variant = variant;
        (values.len() >= low).then_some(values.into())
    }

    fn object(&mut self, merged: &Value, depth: usize) -> Option<Value> {
        let names = merged["required"].as_array().into_iter().flatten();
        let required: Vec<&str> = names.filter_map(Value::as_str).collect();
        let low = count(&merged["minProperties"], 0).min(MAX_LENGTH);
        let high = count(&merged["maxProperties"], MAX_LENGTH);
        let mut room = high.saturating_sub(required.len());
        let mut members = Map::new();
        for (name, schema) in merged["properties"].as_object().into_iter().flatten() {
            let is_required = required.contains(&name.as_str());
            let is_full = self.is_full && self.steps_left > MAX_STEPS / 2;
            if !is_required && (room == 0 || !is_full && members.len() >= low) {
                continue;
            }
            match self.example(schema, depth + 1) {
                Some(value) => {
                    room -= usize::from(!is_required);
                    members.insert(name.clone(), value);
                }
                None if is_required => return None,
                None => {}
            }
        }
        let additional = &merged["additionalProperties"];
        for name in required {
            if !members.contains_key(name) {
                members.insert(name.to_owned(), self.example(additional, depth + 1)?);
            }
        }
        // A map gets a member, so that the schema of its members applies to something.
        let is_map = self.is_full && members.is_empty() && additional.is_object();
        for index in members.len()..low.max(usize::from(is_map)).min(high) {
            if let Some(value) = self.example(additional, depth + 1) {
                members.insert(format!("extra{index}"), value);
            }
        }
        Some(members.into())
    }

    /// A text that breaks the keyword at `place` and nothing else.
    fn violating(&mut self, place: &Place<'_>, valid: &Value) -> Option<String> {
        let path = place.path.as_ref()?;
        let mut without_keyword = None;
        for index in 0.. {
            let mut changed = valid.clone();
            *changed.pointer_mut(path)? = self.candidate(place, valid.pointer(path)?, index)?;
            let text = changed.to_string();
            self.work_left = self.work_left.checked_sub(text.len())?;
            if text.len() > MAX_TEXT_BYTES {
                continue;
            }
            let reason = judge_text(&self.compiled, &text).into_reason();
            // The judge reports `dependentRequired` as `required`.
            if !matches!(reason, Some(Reason::Schema { keyword, schema_path, .. })
                if keyword == place.keyword || schema_path.starts_with(&place.pointer))
            {
                continue;
            }
            if without_keyword.is_none() {
                let mut schema = self.root.clone();
                remove(&mut schema, &place.pointer);
                self.work_left = self.work_left.checked_sub(schema.to_string().len())?;
                without_keyword = Some(compile(&mut self.evaluator, schema));
            }
            if without_keyword.as_ref()?.accepts(&text) {
                return Some(text);
            }
        }
        None
    }

    /// A value that may break only the keyword at `place`: one similar to `current`, or a new one.
    /// `None` from some index on.
    fn candidate(&mut self, place: &Place<'_>, current: &Value, index: usize) -> Option<Value> {
        let (keyword, operand) = (place.keyword, &place.schema[place.keyword]);
        let mut similar = edits(keyword, operand, current);
        if index < similar.len() {
            return Some(similar.swap_remove(index));
        }
        let (type_name, variant) = (type_of_keyword(keyword)?, index - similar.len());
        let max_variants = match type_name {
            "" => 0,
            "array" | "object" => 1,
            _ => 4,
        };
        if variant >= max_variants {
            return None;
        }
        let mut altered = place.schema.clone();
        altered[keyword].take();
        if let (Some((opposite, distance)), Some(limit)) = (opposite(keyword), operand.as_f64()) {
            altered[opposite] = number(limit + distance);
        }
        if !altered["type"].is_string() {
            altered["type"] = type_name.into();
        }
        self.is_full = true;
        self.references.clear();
        self.example_variant(&altered, variant)
    }

    /// A text that breaks many of the keywords, with their pointers.
    fn all_at_once(&mut self, places: &[Place<'_>], valid: Value) -> Option<AllAtOnce> {
        let mut checks = Vec::new();
        for place in places {
            let mut schema = place.schema.clone();
            // `additionalProperties` depends on the names of `properties`, not on their schemas.
            let named = schema["properties"].as_object_mut().into_iter().flatten();
            named.for_each(|(_, schema)| *schema = json!({}));
            let is_needed = |keyword: &str| keyword == place.keyword || keyword == "properties";
            let check = self.compile_some(&schema, is_needed);
            checks.push((place, place.path.as_deref()?, check));
        }
        // Inner values come first: later changes of outer values must keep what is broken in them.
        // A value of another type excludes other changes of the same value.
        checks.sort_by_key(|(place, path, _)| {
            let is_exclusive = type_of_keyword(place.keyword) == Some("");
            (Reverse(path.matches('/').count()), is_exclusive)
        });
        let is_broken = |value: &Value, (_, path, check): &(&Place<'_>, &str, Compiled)| {
            let found = value.pointer(path).map(Value::to_string);
            found.is_some_and(|text| !check.accepts(&text))
        };
        let mut value = valid;
        for (index, check) in checks.iter().enumerate() {
            let (place, path, _) = check;
            let mut kept: Vec<_> = checks[..index].iter().collect();
            kept.retain(|other| other.1.starts_with(path) && is_broken(&value, other));
            kept.push(check);
            let current = value.pointer(path).cloned().unwrap_or_default();
            let mut candidates = (0..).map_while(|index| self.candidate(place, &current, index));
            let changed = candidates.find_map(|candidate| {
                let mut changed = value.clone();
                *changed.pointer_mut(path)? = candidate;
                let is_short = changed.to_string().len() <= MAX_TEXT_BYTES;
                let mut kept = kept.iter();
                (is_short && kept.all(|check| is_broken(&changed, check))).then_some(changed)
            });
            value = changed.unwrap_or(value);
        }
        checks.retain(|check| is_broken(&value, check));
        let pointers = checks.iter().map(|(place, ..)| place.pointer.clone());
        let pointers: Vec<String> = pointers.collect();
        (!pointers.is_empty()).then(|| (value.to_string(), pointers))
    }
}

fn compile(evaluator: &mut Evaluator, schema: Value) -> Compiled {
    evaluator.compile(&Constraint::JsonSchema(Arc::new(schema)))
}

/// A limit of a length, or of a number of items or members.
fn count(limit: &Value, default: usize) -> usize {
    // The cast saturates.
    limit.as_f64().map_or(default, |limit| limit as usize)
}

fn implied_type(keywords: &Map<String, Value>) -> &'static str {
    let of_keyword = |keyword: &String| match keyword.as_str() {
        "properties" => Some("object"),
        "items" | "prefixItems" => Some("array"),
        keyword => type_of_keyword(keyword),
    };
    keywords.keys().find_map(of_keyword).unwrap_or("string")
}

/// The keyword for the other side of a limit, and the difference of both limits.
fn opposite(keyword: &str) -> Option<(String, f64)> {
    match keyword.split_at_checked(3)? {
        ("min", what) => Some((format!("max{what}"), -1.0)),
        ("max", what) => Some((format!("min{what}"), 1.0)),
        _ if keyword == "exclusiveMinimum" => Some(("maximum".to_owned(), 0.0)),
        _ if keyword == "exclusiveMaximum" => Some(("minimum".to_owned(), 0.0)),
        _ => None,
    }
}

/// The number without the rounding errors of sums.
fn number(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return Value::from(number as i64);
    }
    let rounded = format!("{number:.10}").parse::<f64>();
    rounded.map_or(Value::Null, Value::from)
}

/// Numbers that may satisfy the keywords.
fn numbers(keywords: &Value, variant: usize) -> Vec<Value> {
    let unit = keywords["multipleOf"].as_f64().unwrap_or(1.0);
    let step = unit * variant as f64;
    let mut numbers = vec![unit + step, 0.0];
    let limits = ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"];
    let ends = limits.iter().filter_map(|limit| keywords[limit].as_f64());
    let ends: Vec<f64> = ends.collect();
    for end in &ends {
        let multiple = (end / unit).floor() * unit;
        let (up, down) = (multiple + unit + step, multiple - unit - step);
        numbers.extend([multiple + step, up, down, *end, end + 0.5, end - 0.5]);
    }
    numbers.push(ends.iter().sum::<f64>() / ends.len().max(1) as f64);
    numbers.into_iter().map(number).collect()
}

/// Strings that may satisfy the keywords.
fn texts(keywords: &Value, variant: usize) -> Vec<Value> {
    let low = count(&keywords["minLength"], 0);
    let high = count(&keywords["maxLength"], usize::MAX);
    if low > high.min(MAX_LENGTH) {
        return Vec::new();
    }
    let mut texts = Vec::new();
    if let Some(pattern) = keywords["pattern"].as_str() {
        let around = LookArounds::new(pattern);
        let asked = around.texts(true).concat();
        for wanted in [low + variant, 0] {
            let text = text_of_pattern(&around.rest, wanted);
            texts.extend(text.map(|text| format!("{asked}{text}")));
        }
        texts.extend(text_of_pattern(&around.rest, 0));
        texts.push(asked);
    }
    let example = FORMATS.iter().find(|(name, _)| keywords["format"] == *name);
    texts.extend(example.map(|(_, example)| (*example).to_owned()));
    for text in texts.clone() {
        let padding = "a".repeat((low + variant).saturating_sub(text.chars().count()));
        texts.extend([format!("{padding}{text}"), format!("{text}{padding}")]);
    }
    let start = ["text", "0", "! "].get(variant).copied().unwrap_or("");
    for start in [start.to_owned(), format!("{variant}text")] {
        texts.push(start.chars().cycle().take(4.clamp(low, high)).collect());
    }
    texts.into_iter().map(Value::String).collect()
}

/// Values that may break the keyword, similar to a value that satisfies it.
fn edits(keyword: &str, operand: &Value, current: &Value) -> Vec<Value> {
    let with = |name: &str| {
        let mut changed = current.clone();
        if changed[name].is_null() {
            changed[name] = "text".into();
        }
        changed
    };
    let without = |mut changed: Value, name: &Value| {
        let pointer = format!("/{}", pointer_token(name.as_str()?));
        remove(&mut changed, &pointer).then_some(changed)
    };
    let step = operand.as_f64().unwrap_or_default();
    match (keyword, operand, current) {
        ("type" | "enum" | "const", ..) => {
            let text_and_numbers = [json!("purple"), json!(987), json!(1.5)];
            let others = [json!(true), json!(null), json!([]), json!({})];
            text_and_numbers.into_iter().chain(others).collect()
        }
        ("pattern", Value::String(pattern), _) => LookArounds::new(pattern).broken(),
        ("multipleOf", ..) => vec![number(step / 2.0), number(step * 1.5)],
        ("required", Value::Array(names), _) => {
            let changed = names.iter().map(|name| without(current.clone(), name));
            changed.flatten().collect()
        }
        ("dependentRequired", Value::Object(dependent), Value::Object(_)) => {
            let changed = dependent
                .iter()
                .map(|(name, others)| without(with(name), &others[0]));
            changed.flatten().collect()
        }
        ("additionalProperties", _, Value::Object(_)) => vec![with("extra")],
        ("maxItems", _, Value::Array(items)) => {
            let limit = count(operand, 0).min(MAX_LENGTH);
            vec![items.iter().cycle().take(limit + 1).cloned().collect()]
        }
        ("uniqueItems", _, Value::Array(items)) => {
            let kept = [items.len(), items.len().saturating_sub(1)];
            let repeat = |kept| items.iter().take(kept).chain(items.first()).cloned();
            kept.map(|kept| repeat(kept).collect()).to_vec()
        }
        _ => Vec::new(),
    }
}

/// Removes the innermost member of an object that a JSON pointer leads through. Returns whether
/// there was one.
fn remove(value: &mut Value, mut pointer: &str) -> bool {
    while let Some((parent, token)) = pointer.rsplit_once('/') {
        if let Some(Value::Object(members)) = value.pointer_mut(parent) {
            let name = pointer_name(token);
            return members.shift_remove(&name).is_some();
        }
        pointer = parent;
    }
    false
}

/// What the look-around of a pattern asks for and forbids, and the pattern without it.
struct LookArounds {
    /// Whether the pattern is asked for, and the pattern.
    found: Vec<(bool, String)>,
    rest: String,
}

impl LookArounds {
    fn new(pattern: &str) -> Self {
        let mut around = Self {
            found: Vec::new(),
            rest: pattern.to_owned(),
        };
        let Ok(mut tree) = Expr::parse_tree(pattern) else {
            return around;
        };
        around.take(&mut tree.expr);
        if !around.found.is_empty() && is_regular(&tree.expr) {
            around.rest.clear();
            tree.expr.to_str(&mut around.rest, 0);
        }
        around
    }

    fn take(&mut self, expression: &mut Expr) {
        if let Expr::LookAround(inner, kind) = expression {
            let mut text = String::new();
            if is_regular(inner) {
                inner.to_str(&mut text, 0);
            }
            let is_asked = matches!(kind, LookAround::LookAhead | LookAround::LookBehind);
            self.found.push((is_asked, text));
            *expression = Expr::Empty;
        }
        expression
            .children_iter_mut()
            .for_each(|child| self.take(child));
    }

    /// Texts of what is asked for, or of what is forbidden.
    fn texts(&self, is_asked: bool) -> Vec<String> {
        let found = self.found.iter();
        found
            .filter(|(asked, _)| *asked == is_asked)
            .filter_map(|(_, pattern)| text_of_pattern(pattern, 0))
            .collect()
    }

    /// Texts that may match the pattern but for its look-around.
    fn broken(&self) -> Vec<Value> {
        let Some(text) = text_of_pattern(&self.rest, 0).filter(|_| !self.found.is_empty()) else {
            return Vec::new();
        };
        let forbidden = self.texts(false).concat();
        let [longer, other] = [8, 1].map(|wanted| text_of_pattern(&self.rest, wanted));
        let all = [
            format!("{forbidden}{text}"),
            format!("{text}{forbidden}"),
            forbidden,
            text,
        ];
        let all = all.into_iter().chain(longer).chain(other);
        all.map(Value::String).collect()
    }
}

/// Whether an expression has neither look-around nor references, which have no other spelling.
fn is_regular(expression: &Expr) -> bool {
    let is_it = matches!(
        expression,
        Expr::Empty
            | Expr::Any { .. }
            | Expr::Assertion(_)
            | Expr::Literal { .. }
            | Expr::Concat(_)
            | Expr::Alt(_)
            | Expr::Group(_)
            | Expr::Repeat { .. }
            | Expr::Delegate { .. }
    );
    is_it && expression.children_iter().all(is_regular)
}

/// A text for a pattern. Optional repetitions are used until it has `wanted` bytes. `None` if the
/// pattern has references. The text may not match, because anchors are ignored.
fn text_of_pattern(pattern: &str, wanted: usize) -> Option<String> {
    let mut text = String::new();
    write_match(&regex_syntax::parse(pattern).ok()?, wanted, &mut text)?;
    Some(text)
}

fn write_match(hir: &Hir, wanted: usize, text: &mut String) -> Option<()> {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => text.push_str(str::from_utf8(&literal.0).ok()?),
        HirKind::Class(Class::Unicode(class)) => {
            let ranges = class.iter().map(|range| range.start()..=range.end());
            let ranges: Vec<_> = ranges.collect();
            let has = |letter: &char| ranges.iter().any(|range| range.contains(letter));
            let usual = "aA1 ".chars().find(has);
            text.push(usual.or(ranges.first().map(|range| *range.start()))?);
        }
        HirKind::Class(Class::Bytes(_)) => return None,
        HirKind::Capture(capture) => write_match(&capture.sub, wanted, text)?,
        HirKind::Alternation(parts) => write_match(parts.first()?, wanted, text)?,
        HirKind::Concat(parts) => {
            for part in parts {
                write_match(part, wanted, text)?;
            }
        }
        HirKind::Repetition(repetition) => {
            for index in 0..repetition.max.unwrap_or(u32::MAX) {
                let length = text.len();
                if index >= repetition.min && length >= wanted {
                    break;
                }
                write_match(&repetition.sub, wanted, text)?;
                if text.len() == length {
                    break;
                }
            }
        }
    }
    (text.len() <= 4 * MAX_LENGTH).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks all texts with the `jsonschema` crate, and returns the pointers of `temptable` and of
    /// `untested`.
    fn checked(schema: &Value) -> (Instances, String, String) {
        let found = instances(schema);
        let options = jsonschema::options().should_validate_formats(true);
        let validator = options.build(schema).unwrap();
        let broken = |text: &str| -> Vec<String> {
            let value: Value = serde_json::from_str(text).unwrap();
            let errors = validator.iter_errors(&value);
            errors
                .map(|error| error.schema_path().to_string())
                .collect()
        };
        assert!(found.valid.iter().all(|valid| broken(valid).is_empty()));
        let mut pointers = Vec::new();
        for Temptable {
            pointer,
            keyword,
            violating,
        } in &found.temptable
        {
            let broken = broken(violating);
            assert!(
                broken.iter().all(|path| path.starts_with(pointer)),
                "{violating}: {broken:?}"
            );
            assert!(
                !broken.is_empty() && pointer.ends_with(keyword),
                "{violating}"
            );
            pointers.push(pointer.as_str());
        }
        if let Some((text, all)) = &found.all_at_once {
            let broken = broken(text);
            let is_broken = |pointer: &String| broken.iter().any(|path| path.starts_with(pointer));
            assert!(all.iter().all(is_broken), "{text}: {all:?}, {broken:?}");
        }
        let (temptable, untested) = (pointers.join(" "), found.untested.join(" "));
        (found, temptable, untested)
    }

    /// In each line: a schema, the pointers of temptable keywords, and those of untested ones.
    const CASES: &str = r##"
{"type": "string", "minLength": 2, "maxLength": 5, "minItems": 0, "uniqueItems": false, "required": []} | /type /minLength /maxLength |
{"type": ["string", "null"], "pattern": "^[A-Z]{2}-\\d+$"} | /type /pattern |
{"pattern": "^(ab|c)+$", "minLength": 5, "maxLength": 8} | /pattern /minLength /maxLength |
{"type": "string", "pattern": "^(?=a)b"} | | /type /pattern
{"type": "string", "pattern": "^(?=a)\\w+$"} | /type /pattern |
{"type": "string", "pattern": "^(?=.*[A-Z])(?=.*\\d).{8,}$"} | /type /pattern |
{"type": "string", "pattern": "^(?!.*--)[a-z-]+$"} | /type /pattern |
{"type": "string", "pattern": "^[a-z]+(?<!o)$"} | /type /pattern |
{"items": {"type": "string", "format": "email", "maxLength": 40}} | /items/type /items/format /items/maxLength |
{"prefixItems": [{"format": "date"}, {"format": "date-time"}, {"format": "time"}]} | /prefixItems/0/format /prefixItems/1/format /prefixItems/2/format |
{"prefixItems": [{"format": "uuid"}, {"format": "uri"}, {"format": "ipv4"}]} | /prefixItems/0/format /prefixItems/1/format /prefixItems/2/format |
{"prefixItems": [{"format": "ipv6"}, {"format": "hostname"}, {"format": "x"}]} | /prefixItems/0/format /prefixItems/1/format | /prefixItems/2/format
{"enum": ["red", 2]} | /enum |
{"const": {"a": null}} | /const |
{"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 3} | /type /minimum /maximum /multipleOf |
{"exclusiveMinimum": 0, "exclusiveMaximum": 0.1} | /exclusiveMinimum /exclusiveMaximum |
{"type": "number", "multipleOf": 0.01} | /type /multipleOf |
{"items": {"enum": [1, 2, 3, 4]}, "minItems": 2, "maxItems": 3, "uniqueItems": true} | /minItems /maxItems /uniqueItems /items/enum |
{"prefixItems": [{"type": "boolean"}], "items": {"const": 1}, "minItems": 2} | /minItems /prefixItems/0/type /items/const |
{"properties": {"a": {}, "b": true}, "required": ["a"], "additionalProperties": false} | /required /additionalProperties |
{"properties": {"a": {}, "b": {}}, "minProperties": 1, "maxProperties": 2} | /minProperties /maxProperties |
{"properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}} | /dependentRequired |
{"additionalProperties": {"type": "null"}} | /additionalProperties/type |
{"items": {"$ref": "#/$defs/a%20b"}, "$defs": {"a b": {"allOf": [{"minimum": 1}, {"maximum": 2}]}}} | /$defs/a b/allOf/0/minimum /$defs/a b/allOf/1/maximum |
{"properties": {"a": {"$ref": "#/$defs/n"}, "b": {"allOf": [{"$ref": "#/$defs/n"}]}}, "$defs": {"n": {"maxLength": 9}}} | /$defs/n/maxLength |
{"anyOf": [{"type": "null", "not": {}}, {"type": "integer"}], "minimum": 2} | /minimum | /anyOf /anyOf/0/type /anyOf/0/not /anyOf/1/type
{"oneOf": [{"properties": {"a": {"const": 1}}}, {"required": ["b"]}], "if": {}} | | /oneOf /if /oneOf/1/required /oneOf/0/properties/a/const
{"type": "object", "properties": {"next": {"$ref": "#"}, "list": {"type": "array", "items": {"$ref": "#"}}}} | /type /properties/list/type |
{"properties": {"x/y~": {"minimum": 1}}, "propertyNames": {"maxLength": 4}, "not": {"required": ["z"]}} | /properties/x~1y~0/minimum | /propertyNames /not
"##;

    #[test]
    fn keywords_are_broken_one_at_a_time() {
        for case in CASES.trim().lines() {
            let [schema, temptable, untested] = case.split(" |").collect::<Vec<_>>()[..] else {
                panic!("{case}");
            };
            let (_, found, rest) = checked(&serde_json::from_str(schema).unwrap());
            assert_eq!(
                (&*found, &*rest),
                (temptable.trim(), untested.trim()),
                "{schema}"
            );
        }
    }

    #[test]
    fn a_nested_schema_is_broken_at_every_keyword() {
        let schema = json!({
            "type": "object",
            "properties": {
                "title": {"type": "string", "minLength": 5, "maxLength": 80},
                "state": {"type": "string", "enum": ["open", "closed"]},
                "key": {"type": "string", "pattern": "^[A-Z]+-[0-9]{1,4}$"},
                "author": {"type": "object", "properties": {
                    "email": {"type": "string", "format": "email"},
                }, "required": ["email"]},
                "labels": {"type": "array", "maxItems": 3, "items": {
                    "type": "object",
                    "properties": {"name": {"type": "string", "maxLength": 20}},
                    "required": ["name"],
                    "additionalProperties": false,
                }},
            },
            "required": ["title", "state", "author"],
            "additionalProperties": false,
        });
        let (found, _, untested) = checked(&schema);
        // A value of another type is not in the list either.
        assert_eq!(untested, "/properties/state/type");
        assert_eq!(found.temptable.len(), 20);
        let long = found
            .temptable
            .iter()
            .find(|found| found.pointer == "/properties/title/maxLength");
        let long: Value = serde_json::from_str(&long.unwrap().violating).unwrap();
        assert_eq!(long["title"].as_str().unwrap().len(), 81);
        let (text, broken) = found.all_at_once.clone().unwrap();
        assert!(broken.len() >= 8, "{text}: {broken:?}");
        assert_eq!(found, instances(&schema));
    }

    #[test]
    fn hostile_schemas_have_no_instances() {
        let items = |inner| Value::Object(Map::from_iter([("items".to_owned(), inner)]));
        let deep = (0..1000).fold(json!({"type": "null"}), |inner, _| items(inner));
        let endless = json!({"required": ["a"], "properties": {"a": {"$ref": "#"}}});
        let wide =
            json!({"allOf": vec![json!({"$ref": "#/$defs/a"}); 200], "$defs": {"a": {"type": 7}}});
        let broken = json!({"$ref": "#/nowhere", "minLength": "x", "required": 1, "enum": {}});
        for schema in [
            json!(null),
            json!(3),
            json!([1]),
            json!(false),
            deep,
            endless,
            wide,
            broken,
        ] {
            let found = instances(&schema);
            assert_eq!(
                (&found.valid, &found.all_at_once),
                (&None, &None),
                "{schema}"
            );
            assert!(found.temptable.is_empty(), "{schema}");
            assert_eq!(found.untested.is_empty(), !schema.is_object(), "{schema}");
        }
        let any = Instances {
            valid: Some("\"text\"".to_owned()),
            ..Instances::default()
        };
        assert_eq!(
            [instances(&json!(true)), instances(&json!({}))],
            [any.clone(), any]
        );
    }

    #[test]
    fn large_schemas_are_tested_in_part() {
        let names = (0..500).map(|index| (format!("m{index}"), json!({"maxLength": 3})));
        let found = instances(&json!({"properties": names.collect::<Map<_, _>>()}));
        assert_eq!(
            (found.temptable.len(), found.untested.len()),
            (MAX_TEMPTABLE, 436)
        );
        assert_eq!(found.all_at_once.unwrap().1.len(), MAX_TEMPTABLE);
    }
}
