//! The cause of a failure, by leaving out parts of a request while it fails.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::failure::{Failure, Seen};
use super::input::Part;
use sobench_core::constraint::Constraint;
use sobench_core::printable::printable_message;
use sobench_core::schema_keywords::NAME_MAPS;
use sobench_core::schema_part::{pointer_name, pointer_token};
use sobench_core::verdict::Verdict;
use sobench_judge::{Evaluator, JudgeSettings, judge_text, meta_schema_error};
use sobench_reduce::constraint::reduced_constraint;
use sobench_reduce::elements::{
    self, alone, elements, has_broken_reference, place_in, subschemas_around, with_only, without,
};
use sobench_reduce::schema::with_short_names;
use sobench_reduce::search::{MAX_TOGETHER, Together, threshold, together};

/// Something that answers requests with a part.
pub trait Target {
    /// Sends a request. With `is_unique`, the part is made different from all earlier ones, since
    /// servers keep what they compiled and what they refused.
    ///
    /// # Errors
    /// No more requests may be sent.
    fn send(&mut self, part: &Part, is_unique: bool) -> Tried<Seen>;
}

/// What a request showed, unless no more may be sent.
pub type Tried<T> = std::result::Result<T, Stop>;

/// Why no more requests are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// `--max-requests` were sent.
    Budget,
    Interrupted,
    /// The server answers no small request any more, with its words.
    Lost(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Budget => f.write_str("after --max-requests; more can find more"),
            Self::Interrupted => f.write_str("by the user"),
            Self::Lost(why) => f.write_str(&printable_message(why)),
        }
    }
}

/// The cause of a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub failure: Failure,
    /// What fails together, in the part that was given.
    pub places: Vec<Place>,
    /// The number from which on it fails.
    pub limit: Option<Limit>,
    /// What was seen beside: `the 46 other tools are accepted together`.
    pub seen: Vec<String>,
    /// The smallest part that fails.
    pub minimal: Part,
    /// It with other names and values, if it still fails.
    pub anonymous: Option<Part>,
    /// Why the search ended early, if it did: the part may be smaller.
    pub stopped: Option<Stop>,
    /// Whether the smallest part fails without a nonce as well.
    pub is_checked: bool,
}

/// A place in a part.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Place {
    /// The tool that it is in.
    pub tool: Option<String>,
    /// In the schema, or in the tool if it has one: a JSON pointer.
    pub pointer: String,
    /// The keyword and its value, shortened: `"maxLength": 10000`; `None` for a whole subschema.
    pub keyword: Option<String>,
}

/// The number from which on a part fails.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Limit {
    /// What is counted: `tools`, `values`, `maxLength`.
    pub of: String,
    pub accepted_at: u64,
    pub fails_at: u64,
}

/// Numbers of a slow keyword are found to this share.
const SLOW_PRECISION: f64 = 0.1;

/// Keywords of the smallest schema up to which each is left out once.
const MAX_CLEANED: usize = 12;

/// Keywords with a text of any length.
const TEXTS: [&str; 5] = ["title", "description", "$comment", "default", "const"];

/// Keywords with subschemas of which any one may show that the keyword fails.
const BRANCHES: [&str; 6] = [
    "anyOf",
    "oneOf",
    "allOf",
    "prefixItems",
    "patternProperties",
    "dependentSchemas",
];

/// Characters of a value in a sentence.
const VALUE_CHARS: usize = 48;

/// Finds the cause of a failure that `part` shows.
pub fn find(target: &mut impl Target, part: &Part, failure: Failure) -> Cause {
    let mut search = Search {
        target,
        failure,
        is_valid: is_valid_part(part),
        places: Vec::new(),
        limit: None,
        seen: Vec::new(),
        minimal: part.clone(),
    };
    let stopped = search.part(part).err();
    let minimal = search.minimal.clone();
    let again = match stopped {
        None => search.target.send(&minimal, false).ok(),
        Some(_) => None,
    };
    let again = match again {
        Some(Seen::Failed(again)) if again.is_same(&search.failure) => Some(again),
        _ => None,
    };
    let is_checked = again.is_some();
    let anonymous = match is_checked {
        true => anonymous(&minimal).filter(|part| search.fails(part) == Ok(true)),
        false => None,
    };
    Cause {
        anonymous,
        failure: again.unwrap_or(search.failure),
        places: search.places,
        limit: search.limit,
        seen: search.seen,
        minimal,
        stopped,
        is_checked,
    }
}

/// A part with short names in the place of its own; `None` if it has none.
fn anonymous(part: &Part) -> Option<Part> {
    let short = |schema: &Value| Some(with_short_names(schema, b"null")?.0);
    match part {
        Part::Schema(schema) => short(schema).map(Part::Schema),
        Part::Tools(tools) => {
            let mut changed = tools.clone();
            for (number, tool) in changed.iter_mut().enumerate() {
                let function = tool.get_mut("function")?;
                function["name"] = format!("tool_{number}").into();
                if let Some(parameters) = function.get("parameters").and_then(short) {
                    function["parameters"] = parameters;
                }
            }
            (changed != *tools).then_some(Part::Tools(changed))
        }
        Part::Text(_) => None,
    }
}

/// Whether our own judge takes every schema of a part.
fn is_valid_part(part: &Part) -> bool {
    match part {
        Part::Text(constraint) => {
            let compiled = Evaluator::new(JudgeSettings::default()).compile(constraint);
            !matches!(judge_text(&compiled, ""), Verdict::NotScored { .. })
        }
        _ => part
            .schemas()
            .into_iter()
            .all(|(_, schema)| is_valid(schema)),
    }
}

fn is_valid(schema: &Value) -> bool {
    meta_schema_error(schema).is_none() && !has_broken_reference(schema)
}

struct Search<'a, T> {
    target: &'a mut T,
    failure: Failure,
    /// Whether candidates must be valid schemas, as the given one is.
    is_valid: bool,
    places: Vec<Place>,
    limit: Option<Limit>,
    seen: Vec<String>,
    /// The smallest part so far that fails.
    minimal: Part,
}

/// The part with a schema in the place of the one that is reduced.
type Wrap<'w> = dyn Fn(&Value) -> Part + 'w;

impl<T: Target> Search<'_, T> {
    /// Whether a part shows the failure; then it is the smallest one so far.
    fn fails(&mut self, part: &Part) -> Tried<bool> {
        self.fails_as(part, true)
    }

    fn fails_as(&mut self, part: &Part, is_unique: bool) -> Tried<bool> {
        if self.is_valid && !is_valid_part(part) {
            return Ok(false);
        }
        let seen = self.target.send(part, is_unique)?;
        let fails = matches!(seen, Seen::Failed(failure) if failure.is_same(&self.failure));
        if fails && size(part) <= size(&self.minimal) {
            self.minimal = part.clone();
        }
        Ok(fails)
    }

    fn part(&mut self, part: &Part) -> Tried<()> {
        match part {
            Part::Schema(schema) => {
                self.schema(schema, None, &|schema| Part::Schema(schema.clone()))
            }
            Part::Tools(tools) => self.tools(tools),
            Part::Text(constraint) => self.text(constraint),
        }
    }

    /// A regular expression, choices or a grammar: pieces are left out.
    fn text(&mut self, constraint: &Constraint) -> Tried<()> {
        let mut smallest = constraint.clone();
        let mut next = 0;
        while let Some(tried) = reduced_constraint(&smallest, next) {
            if self.fails(&Part::Text(tried.clone()))? {
                smallest = tried;
            } else {
                next += 1;
            }
        }
        Ok(())
    }

    fn tools(&mut self, tools: &[Value]) -> Tried<()> {
        let some = |chosen: &[usize]| -> Vec<Value> {
            chosen.iter().map(|place| tools[*place].clone()).collect()
        };
        let found = together(tools.len(), |chosen| {
            match chosen.is_empty() {
                // A request with an empty list is another one.
                true => Ok(false),
                false => self.fails(&Part::Tools(some(chosen))),
            }
        })?;
        match found {
            Together::Without => Ok(()),
            Together::First(number) => self.number_of_tools(tools, number),
            Together::These(chosen) => {
                if chosen.len() == 1 && self.fails(&Part::Tools(tiny_tools(1)))? {
                    self.seen
                        .push("any tool fails, so the tools are not the cause".to_owned());
                    return Ok(());
                }
                self.other_tools(tools, &chosen)?;
                let mut kept = some(&chosen);
                for place in 0..kept.len() {
                    self.tool(&mut kept, place)?;
                }
                Ok(())
            }
        }
    }

    /// What happens without the tools of the cause.
    fn other_tools(&mut self, tools: &[Value], chosen: &[usize]) -> Tried<()> {
        let others: Vec<Value> = (0..tools.len())
            .filter(|place| !chosen.contains(place))
            .map(|place| tools[place].clone())
            .collect();
        if others.is_empty() {
            return Ok(());
        }
        let number = others.len();
        let seen = self.target.send(&Part::Tools(others), true)?;
        let plural = if number == 1 { "tool is" } else { "tools are" };
        self.seen.push(match seen {
            Seen::Answered { .. } => format!("the {number} other {plural} accepted together"),
            Seen::Failed(failure) => {
                format!("the {number} other {plural} {} as well", failure.word())
            }
        });
        Ok(())
    }

    /// Too many tools, any of them.
    fn number_of_tools(&mut self, tools: &[Value], number: usize) -> Tried<()> {
        let last = |number: usize| Part::Tools(tools[tools.len() - number..].to_vec());
        if self.fails(&last(number))? && !self.fails(&last(number.saturating_sub(1)))? {
            self.fails(&Part::Tools(tiny_tools(number)))?;
            self.seen.push("any of them".to_owned());
        }
        self.limit = Some(Limit {
            of: "tools".to_owned(),
            accepted_at: number.saturating_sub(1) as u64,
            fails_at: number as u64,
        });
        Ok(())
    }

    /// Reduces a tool; the others stay.
    fn tool(&mut self, tools: &mut Vec<Value>, place: usize) -> Tried<()> {
        let tool = tools[place].clone();
        let name = tool["function"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let all = tools.clone();
        let with = |function: Map<String, Value>| -> Vec<Value> {
            let mut tools = all.clone();
            tools[place] = json!({"type": "function", "function": function});
            tools
        };
        let Some(function) = tool.get("function").and_then(Value::as_object).cloned() else {
            return Ok(());
        };
        let members: Vec<&String> = function.keys().filter(|key| *key != "name").collect();
        let some = |chosen: &[usize]| -> Map<String, Value> {
            let is_chosen =
                |key: &String| key == "name" || chosen.iter().any(|place| members[*place] == key);
            let chosen = function.iter().filter(|(key, _)| is_chosen(key));
            chosen
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        let found = together(members.len(), |chosen| {
            self.fails(&Part::Tools(with(some(chosen))))
        })?;
        let chosen = match found {
            Together::These(chosen) => chosen,
            Together::Without => {
                *tools = with(some(&[]));
                return self.tool_name(&name, &mut |name| {
                    let mut function = some(&[]);
                    function.insert("name".to_owned(), name.into());
                    Part::Tools(with(function))
                });
            }
            Together::First(_) => return Ok(()),
        };
        let mut kept = some(&chosen);
        for key in chosen.iter().map(|place| members[*place].clone()) {
            let value = kept[&key].clone();
            let frame = kept.clone();
            let with_value = |value: &Value| {
                let mut function = frame.clone();
                function.insert(key.clone(), value.clone());
                Part::Tools(with(function))
            };
            if key == "parameters" {
                self.schema(&value, Some(&name), &with_value)?;
            } else {
                self.places.push(Place {
                    tool: Some(name.clone()),
                    pointer: format!("/function/{key}"),
                    keyword: Some(keyword(&key, &value)),
                });
                self.value(&key, &value, &with_value)?;
            }
            if let Part::Tools(smallest) = &self.minimal
                && let Some(function) = smallest
                    .get(place)
                    .and_then(|tool| tool["function"].as_object())
            {
                kept = function.clone();
            }
        }
        *tools = with(kept);
        Ok(())
    }

    /// Whether a tool fails for its name, and for its length.
    fn tool_name(&mut self, name: &str, with: &mut dyn FnMut(&str) -> Part) -> Tried<()> {
        self.places.push(Place {
            tool: Some(name.to_owned()),
            pointer: "/function/name".to_owned(),
            keyword: Some(keyword("name", &name.into())),
        });
        if self.fails(&with("t"))? {
            self.seen.push("any tool fails".to_owned());
            return Ok(());
        }
        let length = name.chars().count();
        let plain = |length: usize| "t".repeat(length);
        if length > 1 && self.fails(&with(&plain(length)))? {
            let (accepted, fails) = threshold(1, length as u64, 0.0, |tried| {
                self.fails(&with(&plain(usize::try_from(tried).unwrap_or(1))))
            })?;
            self.limit = Some(Limit {
                of: "characters".to_owned(),
                accepted_at: accepted,
                fails_at: fails,
            });
        }
        Ok(())
    }

    /// Reduces a schema.
    fn schema(&mut self, schema: &Value, tool: Option<&str>, wrap: &Wrap<'_>) -> Tried<()> {
        let all = elements(schema);
        let some = |chosen: &[usize]| -> Vec<String> {
            chosen.iter().map(|place| all[*place].clone()).collect()
        };
        let found = together(all.len(), |chosen| {
            self.fails(&wrap(&with_only(schema, &some(chosen))))
        })?;
        let kept = match found {
            Together::These(chosen) => some(&chosen),
            Together::Without => {
                self.places.push(place(schema, "", tool));
                self.seen.push("without any keyword as well".to_owned());
                let bare = with_only(schema, &[]);
                return self.clean(bare, &[], wrap).map(drop);
            }
            Together::First(first) => return self.size(schema, &all[..first], tool, wrap),
        };
        let before = self.places.len();
        self.places
            .extend(kept.iter().map(|element| place(schema, element, tool)));
        let reduced = with_only(schema, &kept);
        let in_reduced: Vec<String> = kept
            .iter()
            .map(|element| place_in(schema, &kept, element))
            .collect();
        let is_moved = kept
            .iter()
            .zip(&in_reduced)
            .any(|(element, place)| element != place);
        let places: Vec<&str> = in_reduced.iter().map(String::as_str).collect();
        let (hoisted, at) = self.hoist(&reduced, &places, tool.is_some(), wrap)?;
        let moved = |place: &&str| {
            let below = place.strip_prefix(at.as_str()).unwrap_or(place);
            let is_wrapped =
                tool.is_some() && !at.is_empty() && !is_object(&alone_at(&reduced, &at));
            format!("{}{below}", if is_wrapped { MEMBER_PLACE } else { "" })
        };
        let places: Vec<String> = places.iter().map(moved).collect();
        // A definition may only be there for what refers to it.
        let is_definition = |place: &&String| {
            elements::is_at_or_in(place, "/$defs") || elements::is_at_or_in(place, "/definitions")
        };
        let needed: Vec<String> = places
            .iter()
            .filter(|place| !is_definition(place))
            .cloned()
            .collect();
        let mut cleaned = self.clean(hoisted, &needed, wrap)?;
        let is_gone = |place: &String| cleaned.pointer(place).is_none();
        if !is_moved
            && places.iter().any(is_gone)
            && at.is_empty()
            && self.places.len() - before == places.len()
        {
            let mut kept = places.iter().map(|place| !is_gone(place));
            let mut index = 0;
            self.places.retain(|_| {
                index += 1;
                index <= before || kept.next().unwrap_or(true)
            });
            let others = leaves(&cleaned);
            let is_new = |leaf: &&String| {
                !needed.iter().any(|place| {
                    elements::is_at_or_in(leaf, place) || elements::is_at_or_in(place, leaf)
                })
            };
            let others = others.iter().filter(is_new);
            self.places
                .extend(others.map(|leaf| place(schema, leaf, tool)));
        } else {
            for (found, place) in self.places[before..].iter_mut().zip(&places) {
                if is_empty_branch(&cleaned, place) {
                    let owner = found.pointer.rfind('/').unwrap_or_default();
                    found.pointer.truncate(owner);
                }
            }
        }
        self.places.dedup();
        for place in &places {
            self.values_at(&mut cleaned, place, wrap)?;
        }
        Ok(())
    }

    /// Takes the deepest subschema around the places that fails alone; returns it and its place.
    fn hoist(
        &mut self,
        schema: &Value,
        places: &[&str],
        is_tool: bool,
        wrap: &Wrap<'_>,
    ) -> Tried<(Value, String)> {
        let mut chain = subschemas_around(schema, places.first().copied().unwrap_or_default());
        chain.retain(|other| {
            places
                .iter()
                .all(|place| elements::is_at_or_in(place, other))
        });
        let root = |level: usize| as_root(alone_at(schema, &chain[level]), is_tool && level > 0);
        let last = chain.len() - 1;
        let mut level = last;
        if last > 0 && !self.fails(&wrap(&root(last)))? {
            // This number of levels around it is needed.
            let (accepted_at, fails_at) = threshold(0, last as u64, 0.0, |around| {
                let around = usize::try_from(around).unwrap_or(last);
                self.fails(&wrap(&root(last - around)))
            })?;
            level = last - usize::try_from(fails_at).unwrap_or(last);
            // A reference to a place outside needs the levels for another reason.
            if fails_at > MAX_TOGETHER as u64 && !has_broken_reference(&root(last)) {
                self.limit = Some(Limit {
                    of: "levels".to_owned(),
                    accepted_at,
                    fails_at,
                });
            }
        }
        Ok((root(level), chain[level].clone()))
    }

    /// Leaves out what is not needed, besides the places.
    fn clean(&mut self, schema: Value, places: &[String], wrap: &Wrap<'_>) -> Tried<Value> {
        let mut cleaned = schema;
        // What refers to a definition goes before it.
        for _ in 0..2 {
            let candidates = removable(&cleaned);
            if candidates.len() > MAX_CLEANED {
                return Ok(cleaned);
            }
            let before = cleaned.clone();
            for candidate in candidates.iter().rev() {
                let mut needed = places.iter();
                if needed.any(|place| elements::is_at_or_in(place, candidate)) {
                    continue;
                }
                if let Some(less) = without(&cleaned, candidate)
                    && self.fails(&wrap(&less))?
                {
                    cleaned = less;
                }
            }
            if cleaned == before {
                break;
            }
        }
        Ok(cleaned)
    }

    /// Reduces the value of the keyword at a place.
    fn values_at(&mut self, schema: &mut Value, at: &str, wrap: &Wrap<'_>) -> Tried<()> {
        let Some(value) = schema.pointer(at).cloned() else {
            return Ok(());
        };
        let name = at.rsplit('/').next().unwrap_or_default().to_owned();
        let whole = schema.clone();
        let with_value = |value: &Value| {
            let mut changed = whole.clone();
            if let Some(place) = changed.pointer_mut(at) {
                *place = value.clone();
            }
            wrap(&changed)
        };
        if value.is_object() || value.is_boolean() {
            return Ok(());
        }
        self.value(&name, &value, &with_value)?;
        if let Part::Schema(smallest) = &self.minimal {
            *schema = smallest.clone();
        }
        Ok(())
    }

    /// The number, length or values from which on a keyword fails.
    fn value(&mut self, name: &str, value: &Value, with: &dyn Fn(&Value) -> Part) -> Tried<()> {
        let (of, most) = match value {
            Value::Number(number) => (name.to_owned(), number.as_u64()),
            Value::String(text) if TEXTS.contains(&name) => {
                ("characters".to_owned(), Some(text.chars().count() as u64))
            }
            Value::Array(items) => return self.items(items, with),
            _ => return Ok(()),
        };
        let Some(most) = most.filter(|most| *most > 1) else {
            return Ok(());
        };
        let at = |tried: u64| match value {
            Value::String(text) => {
                let tried = usize::try_from(tried).unwrap_or(usize::MAX);
                Value::from(text.chars().take(tried).collect::<String>())
            }
            _ => tried.into(),
        };
        // What makes a part unique may be in its description, which would be longer.
        let is_unique = name != "description";
        if self.fails_as(&with(&at(1)), is_unique)? {
            return Ok(());
        }
        let precision = match self.failure {
            Failure::Slow { .. } | Failure::Hangs { .. } => SLOW_PRECISION,
            _ => 0.0,
        };
        let (accepted_at, fails_at) = threshold(1, most, precision, |tried| {
            self.fails_as(&with(&at(tried)), is_unique)
        })?;
        self.limit = Some(Limit {
            of,
            accepted_at,
            fails_at,
        });
        if value.is_number() {
            // The number that the user wrote: one at the limit of a time fails by chance.
            self.minimal = with(value);
        }
        Ok(())
    }

    fn items(&mut self, items: &[Value], with: &dyn Fn(&Value) -> Part) -> Tried<()> {
        let some = |chosen: &[usize]| -> Value {
            chosen.iter().map(|place| items[*place].clone()).collect()
        };
        let found = together(items.len(), |chosen| match chosen.is_empty() {
            true => Ok(false),
            false => self.fails(&with(&some(chosen))),
        })?;
        if let Together::First(number) = found
            && number > 1
        {
            self.limit = Some(Limit {
                of: "values".to_owned(),
                accepted_at: number as u64 - 1,
                fails_at: number as u64,
            });
        }
        Ok(())
    }

    /// A schema that fails for its size: the list of it that is too long, otherwise the smallest
    /// start that fails.
    fn size(
        &mut self,
        schema: &Value,
        first: &[String],
        tool: Option<&str>,
        wrap: &Wrap<'_>,
    ) -> Tried<()> {
        for (at, number) in lists(schema) {
            let some = |kept: usize| -> Option<Value> {
                let (owner, name) = at.rsplit_once('/')?;
                let kept = match schema.pointer(&at)? {
                    Value::Object(members) => members
                        .iter()
                        .take(kept)
                        .map(|(name, member)| (name.clone(), with_only(member, &[])))
                        .collect(),
                    Value::Array(items) => items
                        .iter()
                        .take(kept)
                        .map(|item| with_only(item, &[]))
                        .collect(),
                    _ => Value::Null,
                };
                let mut alone = Map::new();
                alone.extend(
                    schema
                        .pointer(owner)?
                        .get("type")
                        .map(|kind| ("type".to_owned(), kind.clone())),
                );
                alone.insert(name.to_owned(), kept);
                Some(as_root(Value::Object(alone), tool.is_some()))
            };
            let mut fails = |kept: u64| -> Tried<bool> {
                match some(usize::try_from(kept).unwrap_or_default()) {
                    Some(part) => self.fails(&wrap(&part)),
                    None => Ok(false),
                }
            };
            if !fails(number)? {
                continue;
            }
            let (accepted_at, fails_at) = threshold(0, number, 0.0, fails)?;
            self.places.push(Place {
                tool: tool.map(str::to_owned),
                pointer: at.clone(),
                keyword: None,
            });
            self.limit = Some(Limit {
                of: at.rsplit('/').next().unwrap_or_default().to_owned(),
                accepted_at,
                fails_at,
            });
            return Ok(());
        }
        // Without a place: any part may be left out instead of the last one.
        let last = first.last().map_or("the root", |element| element);
        self.seen.push(format!(
            "the first {} parts of the schema fail together, up to {last}; no single list of it does",
            first.len()
        ));
        Ok(())
    }
}

/// Tools that only have a name.
fn tiny_tools(number: usize) -> Vec<Value> {
    let parameters = json!({"type": "object", "properties": {}});
    let tool = |index| json!({"type": "function", "function": {"name": format!("t{index}"), "parameters": parameters}});
    (1..=number).map(tool).collect()
}

/// What may be left out of a schema: its elements, their types, and definitions.
fn removable(schema: &Value) -> Vec<String> {
    let found: Vec<String> = elements(schema);
    let has = |place: &str, name: &str| {
        schema
            .pointer(place)
            .is_some_and(|part| part.get(name).is_some())
    };
    let root = String::new();
    let with_type = found
        .iter()
        .chain([&root])
        .filter(|place| has(place, "type"));
    let types: Vec<String> = with_type.map(|place| format!("{place}/type")).collect();
    let definitions = ["$defs", "definitions"]
        .into_iter()
        .filter(|name| has("", name));
    let definitions: Vec<String> = definitions.map(|name| format!("/{name}")).collect();
    // The last is left out first: a copy of the cause in a definition hides what is needed.
    found.into_iter().chain(types).chain(definitions).collect()
}

/// The elements in which there is no other one.
fn leaves(schema: &Value) -> Vec<String> {
    let all: Vec<String> = elements(schema);
    let has_none = |place: &&String| {
        !all.iter()
            .any(|other| other != *place && elements::is_at_or_in(other, place))
    };
    all.iter().filter(has_none).cloned().collect()
}

/// The lists of a schema with more than [`MAX_TOGETHER`] entries, the longest first.
fn lists(schema: &Value) -> Vec<(String, u64)> {
    let mut owners: Vec<String> = elements(schema);
    owners.push(String::new());
    let mut found: Vec<(String, u64)> = Vec::new();
    for owner in &owners {
        let Some(Value::Object(members)) = schema.pointer(owner) else {
            continue;
        };
        for (name, value) in members {
            let length = match value {
                Value::Object(inner) if name == "properties" => inner.len(),
                Value::Array(items)
                    if matches!(name.as_str(), "anyOf" | "oneOf" | "allOf" | "prefixItems") =>
                {
                    items.len()
                }
                _ => 0,
            };
            if length > MAX_TOGETHER {
                found.push((format!("{owner}/{}", pointer_token(name)), length as u64));
            }
        }
    }
    found.sort_by_key(|(_, length)| std::cmp::Reverse(*length));
    found
}

/// The member that holds a subschema in the parameters of a tool, which must be an object.
const MEMBER_PLACE: &str = "/properties/v";

/// Whether a place is a subschema without keywords in a list of branches or patterns: then what has
/// the list is the cause, with any branch.
fn is_empty_branch(schema: &Value, place: &str) -> bool {
    let owner = place.rsplit('/').nth(1).unwrap_or_default();
    let is_empty = |branch: &Value| branch.as_object().is_some_and(Map::is_empty);
    BRANCHES.contains(&owner) && schema.pointer(place).is_some_and(is_empty)
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| kind == "object")
}

fn alone_at(schema: &Value, place: &str) -> Value {
    alone(schema, place).unwrap_or_else(|| schema.clone())
}

/// A subschema as a root; as a member of one if that must be an object.
fn as_root(mut part: Value, must_be_object: bool) -> Value {
    if !must_be_object || is_object(&part) {
        return part;
    }
    let mut root = json!({"type": "object", "properties": {}});
    for name in ["$defs", "definitions"] {
        if let Some(definitions) = part
            .as_object_mut()
            .and_then(|part| part.shift_remove(name))
        {
            root[name] = definitions;
        }
    }
    root["properties"]["v"] = part;
    root
}

fn place(schema: &Value, pointer: &str, tool: Option<&str>) -> Place {
    let value = schema.pointer(pointer);
    let name = pointer.rsplit('/').next().unwrap_or_default();
    let name = pointer_name(name);
    let is_empty_list =
        value.is_some_and(|value| *value == json!({})) && NAME_MAPS.contains(&name.as_str());
    let is_keyword = is_empty_list || value.is_some_and(|value| !value.is_object());
    let (pointer, keyword) = match value {
        Some(value) if is_keyword => {
            let (owner, _) = pointer.rsplit_once('/').unwrap_or_default();
            (owner.to_owned(), Some(keyword(&name, value)))
        }
        _ => (pointer.to_owned(), None),
    };
    Place {
        tool: tool.map(str::to_owned),
        pointer,
        keyword,
    }
}

/// `"maxLength": 10000`, with a long value cut.
fn keyword(name: &str, value: &Value) -> String {
    let text = value.to_string();
    let cut: String = text.chars().take(VALUE_CHARS).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!("\"{name}\": {cut}{more}")
}

/// The bytes of a part as JSON.
pub fn size(part: &Part) -> usize {
    match part {
        Part::Schema(schema) => schema.to_string().len(),
        Part::Tools(tools) => tools.iter().map(|tool| tool.to_string().len()).sum(),
        Part::Text(constraint) => serde_json::to_string(constraint).unwrap_or_default().len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rule<'a> = Box<dyn Fn(&Part) -> Option<Failure> + 'a>;

    /// A server with exact rules, which counts its requests.
    struct Scripted<'a> {
        rule: Rule<'a>,
        requests: usize,
    }

    impl Target for Scripted<'_> {
        fn send(&mut self, part: &Part, _: bool) -> Tried<Seen> {
            self.requests += 1;
            if self.requests > 200 {
                return Err(Stop::Budget);
            }
            Ok(match (self.rule)(part) {
                Some(failure) => Seen::Failed(failure),
                None => Seen::Answered {
                    is_call: false,
                    ms: 1.0,
                    text: String::new(),
                    is_complete: true,
                },
            })
        }
    }

    fn refused(message: &str) -> Option<Failure> {
        Some(Failure::Refused {
            status: 400,
            message: message.to_owned(),
        })
    }

    /// Whether some subschema, at any place, is so.
    fn any(value: &Value, is: &dyn Fn(&Value) -> bool) -> bool {
        is(value)
            || match value {
                Value::Object(members) => members.values().any(|inner| any(inner, is)),
                Value::Array(items) => items.iter().any(|inner| any(inner, is)),
                _ => false,
            }
    }

    fn document(part: &Part) -> Value {
        match part {
            Part::Schema(schema) => schema.clone(),
            Part::Tools(tools) => Value::Array(tools.clone()),
            Part::Text(constraint) => serde_json::to_value(constraint).unwrap(),
        }
    }

    fn explain<'a>(part: &Part, rule: impl Fn(&Value) -> Option<Failure> + 'a) -> (Cause, usize) {
        let mut target = Scripted {
            rule: Box::new(move |part: &Part| rule(&document(part))),
            requests: 0,
        };
        let Ok(Seen::Failed(failure)) = target.send(part, true) else {
            panic!("the part is accepted: {part:?}");
        };
        let cause = find(&mut target, part, failure);
        (cause, target.requests)
    }

    /// A schema of 60 members on three levels, with this one deep inside.
    fn large(inner: impl Into<Value>) -> Value {
        let inner: Value = inner.into();
        let leaf = |place: usize| json!({"type": "string", "description": format!("member {place}"), "minLength": 1});
        let members = |from: usize| -> Map<String, Value> {
            (from..from + 15)
                .map(|place| (format!("m{place}"), leaf(place)))
                .collect()
        };
        let mut deep = members(30);
        deep.insert(
            "formats".to_owned(),
            json!({"type": "array", "items": {"type": "object", "properties": {"query": inner}}}),
        );
        let mut middle = members(15);
        middle.insert(
            "options".to_owned(),
            json!({"type": "object", "properties": deep, "required": ["m30", "formats"]}),
        );
        let mut outer = members(0);
        outer.insert(
            "body".to_owned(),
            json!({"type": "object", "properties": middle, "additionalProperties": false}),
        );
        json!({"type": "object", "title": "Large", "properties": outer, "required": ["m0", "body"]})
    }

    fn tool(name: &str, parameters: &Value) -> Value {
        json!({"type": "function", "function": {"name": name, "description": "does something", "parameters": parameters}})
    }

    fn tools(number: usize, special: (usize, &str, Value)) -> Part {
        let plain = json!({"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}, "required": ["path"]});
        let (place, name, parameters) = special;
        Part::Tools(
            (0..number)
                .map(|index| match index {
                    index if index == place => tool(name, &parameters),
                    index => tool(&format!("tool_{index}"), &plain),
                })
                .collect(),
        )
    }

    fn has(keyword: &'static str) -> impl Fn(&Value) -> bool {
        move |value: &Value| value.get(keyword).is_some()
    }

    fn shown(cause: &Cause) -> String {
        let places = cause.places.iter().map(|place| {
            let tool = place.tool.as_deref().unwrap_or_default();
            format!(
                "{tool}{} {}",
                place.pointer,
                place.keyword.as_deref().unwrap_or_default()
            )
        });
        let limit = cause.limit.as_ref().map_or_else(String::new, |limit| {
            format!(" [{} {}..{}]", limit.of, limit.accepted_at, limit.fails_at)
        });
        (places.collect::<Vec<_>>().join(" + ").trim().to_owned() + &limit)
            .trim()
            .to_owned()
    }

    const DEEP: &str =
        "/properties/body/properties/options/properties/formats/items/properties/query";

    /// The planted cause of each case, what is found, and the smallest part.
    #[test]
    fn planted_causes_are_found() {
        let number =
            |value: &Value, keyword: &str| value.get(keyword).and_then(Value::as_u64).unwrap_or(0);
        let is_bounded = move |value: &Value| number(value, "maxLength") >= 2000;
        let bounded = json!({"type": "string", "maxLength": 10000});
        let deep_keyword = |keyword: &str| format!("{DEEP} {keyword}").trim().to_owned();
        type ValueRule = Box<dyn Fn(&Value) -> Option<Failure>>;
        let when = |is: Box<dyn Fn(&Value) -> bool>, message: &'static str| -> ValueRule {
            Box::new(move |value: &Value| {
                if any(value, &*is) {
                    refused(message)
                } else {
                    None
                }
            })
        };
        let cases: Vec<(&str, Part, ValueRule, String, Value)> = vec![
            (
                "refused keyword",
                Part::Schema(large(json!({"not": {"type": "null"}}))),
                when(Box::new(has("not")), "not is unsupported"),
                format!("{DEEP}/not"),
                json!({"not": {}}),
            ),
            (
                "bound",
                Part::Schema(large(bounded)),
                when(Box::new(is_bounded), "too large"),
                deep_keyword("\"maxLength\": 10000") + " [maxLength 1999..2000]",
                json!({"maxLength": 10000}),
            ),
            (
                "non-ASCII name",
                Part::Schema(large(
                    json!({"type": "object", "properties": {"größe": {"type": "integer"}, "b": {}}}),
                )),
                Box::new(|value: &Value| {
                    if value.to_string().is_ascii() {
                        None
                    } else {
                        refused("bad name")
                    }
                }),
                format!("{DEEP}/properties/größe"),
                json!({"properties": {"größe": {}}}),
            ),
            (
                "pattern",
                Part::Schema(large(json!({"type": "string", "pattern": "^(?=a)b$"}))),
                when(
                    Box::new(|value: &Value| {
                        value
                            .get("pattern")
                            .is_some_and(|pattern| pattern.to_string().contains("(?="))
                    }),
                    "look-ahead",
                ),
                deep_keyword("\"pattern\": \"^(?=a)b$\""),
                json!({"pattern": "^(?=a)b$"}),
            ),
            (
                "description too long",
                Part::Schema(large(json!({"description": "d".repeat(5000)}))),
                when(
                    Box::new(|value: &Value| {
                        value
                            .get("description")
                            .and_then(Value::as_str)
                            .is_some_and(|text| text.len() > 1024)
                    }),
                    "description",
                ),
                deep_keyword(&format!("\"description\": \"{}...", "d".repeat(47)))
                    + " [characters 1024..1025]",
                json!({"description": "d".repeat(1025)}),
            ),
            (
                "type of a list",
                Part::Schema(large(json!({"type": ["string", "null"]}))),
                when(
                    Box::new(|value: &Value| value.get("type").is_some_and(Value::is_array)),
                    "type list",
                ),
                deep_keyword(""),
                json!({"type": ["string", "null"]}),
            ),
            (
                "values of an enum",
                Part::Schema(large(json!({"enum": (0..900).collect::<Vec<_>>()}))),
                when(
                    Box::new(|value: &Value| {
                        value
                            .get("enum")
                            .and_then(Value::as_array)
                            .is_some_and(|all| all.len() > 500)
                    }),
                    "enum too large",
                ),
                deep_keyword("\"enum\": [0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,...")
                    + " [values 500..501]",
                json!({"enum": (0..501).collect::<Vec<_>>()}),
            ),
            (
                "a reference cycle",
                Part::Schema(
                    json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": {"type": "string"}},
                "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}),
                ),
                Box::new(|value: &Value| {
                    let target = |from: &str| {
                        value
                            .pointer(&format!("/$defs/{from}/$ref"))
                            .and_then(Value::as_str)
                            .map(str::to_owned)
                    };
                    if target("x").as_deref() == Some("#/$defs/y")
                        && target("y").as_deref() == Some("#/$defs/x")
                    {
                        refused("infinite")
                    } else {
                        None
                    }
                }),
                "/$defs/y \"$ref\": \"#/$defs/x\"".to_owned(),
                json!({"type": "object", "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}}),
            ),
            (
                "two keywords together",
                Part::Schema(large(
                    json!({"type": "string", "pattern": "a", "format": "date", "maxLength": 3}),
                )),
                when(
                    Box::new(|value: &Value| {
                        value.get("pattern").is_some() && value.get("format").is_some()
                    }),
                    "both",
                ),
                format!("{DEEP} \"pattern\": \"a\" + {DEEP} \"format\": \"date\""),
                json!({"pattern": "a", "format": "date"}),
            ),
            (
                "root keyword",
                Part::Schema({
                    let mut schema = large(json!({}));
                    schema["additionalProperties"] = false.into();
                    schema["$schema"] = "http://json-schema.org/draft-04/schema#".into();
                    schema
                }),
                when(Box::new(has("$schema")), "draft"),
                "\"$schema\": \"http://json-schema.org/draft-04/schema#\"".to_owned(),
                json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
            ),
            (
                "members of an object",
                Part::Schema(large(
                    json!({"type": "object", "properties": (0..150).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect::<Map<_, _>>()}),
                )),
                when(
                    Box::new(|value: &Value| {
                        value
                            .get("properties")
                            .and_then(Value::as_object)
                            .is_some_and(|all| all.len() > 100)
                    }),
                    "too many",
                ),
                format!("{DEEP}/properties [properties 100..101]"),
                json!({"type": "object", "properties": (0..101).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect::<Map<_, _>>()}),
            ),
        ];
        let mut all_requests = Vec::new();
        for (name, part, rule, expected, minimal) in cases {
            let (cause, requests) = explain(&part, rule);
            assert_eq!(shown(&cause), expected, "{name}");
            assert_eq!(document(&cause.minimal), minimal, "{name}");
            assert!(cause.is_checked && cause.stopped.is_none(), "{name}");
            all_requests.push(requests);
        }
        all_requests.sort_unstable();
        assert!(
            all_requests[all_requests.len() / 2] <= 25
                && all_requests.iter().all(|requests| *requests <= 60),
            "{all_requests:?}"
        );
    }

    #[test]
    fn planted_causes_in_tools_are_found() {
        let bounded = large(json!({"type": "string", "maxLength": 10000}));
        let is_bounded = |value: &Value| {
            any(value, &|value: &Value| {
                value
                    .get("maxLength")
                    .and_then(Value::as_u64)
                    .is_some_and(|most| most >= 2000)
            })
        };
        let (cause, requests) = explain(&tools(47, (31, "crawl_site", bounded)), move |value| {
            if is_bounded(value) {
                refused("too large")
            } else {
                None
            }
        });
        assert_eq!(
            shown(&cause),
            format!("crawl_site{DEEP} \"maxLength\": 10000 [maxLength 1999..2000]")
        );
        assert_eq!(cause.seen, ["the 46 other tools are accepted together"]);
        assert_eq!(
            document(&cause.minimal),
            json!([{"type": "function", "function": {"name": "crawl_site",
            "parameters": {"properties": {"v": {"maxLength": 10000}}}}}])
        );
        assert!(requests <= 60, "{requests}");
        let plain = json!({"type": "object"});
        let number = |value: &Value| value.as_array().map_or(0, Vec::len);
        let (cause, requests) = explain(&tools(47, (0, "a", plain.clone())), move |value| {
            if number(value) >= 32 {
                refused("too many tools")
            } else {
                None
            }
        });
        assert_eq!(
            (shown(&cause).as_str(), cause.seen.join(",").as_str()),
            ("[tools 31..32]", "any of them")
        );
        assert!(requests <= 60, "{requests}");
        let names = |value: &Value| -> Vec<String> {
            value
                .as_array()
                .unwrap()
                .iter()
                .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let (cause, _) = explain(
            &tools(12, (5, &"n".repeat(80), plain.clone())),
            move |value| {
                if names(value).iter().any(|name| name.len() > 64) {
                    refused("name")
                } else {
                    None
                }
            },
        );
        assert!(
            shown(&cause).ends_with("[characters 64..65]"),
            "{}",
            shown(&cause)
        );
        let (cause, _) = explain(&tools(12, (5, "my tool", plain.clone())), move |value| {
            if names(value).iter().any(|name| name.contains(' ')) {
                refused("name")
            } else {
                None
            }
        });
        assert_eq!(shown(&cause), "my tool/function/name \"name\": \"my tool\"");
        let (cause, _) = explain(&tools(12, (5, "odd", plain)), move |value| {
            let names = names(value);
            if names.iter().any(|name| name == "odd") && names.iter().any(|name| name == "tool_9") {
                refused("clash")
            } else {
                None
            }
        });
        assert_eq!(
            shown(&cause),
            "odd/function/name \"name\": \"odd\" + tool_9/function/name \"name\": \"tool_9\""
        );
    }

    #[test]
    fn levels_slow_keywords_texts_and_budgets() {
        let nested = (0..20).fold(
            json!({"type": "integer"}),
            |inner, _| json!({"type": "object", "properties": {"n": inner}}),
        );
        fn depth(value: &Value) -> usize {
            value
                .pointer("/properties/n")
                .map_or(0, |inner| 1 + depth(inner))
        }
        let (cause, _) = explain(&Part::Schema(nested), |value| {
            if depth(value) > 8 {
                refused("too deep")
            } else {
                None
            }
        });
        assert_eq!(
            cause
                .limit
                .as_ref()
                .map(|limit| (limit.accepted_at, limit.fails_at)),
            Some((8, 9)),
            "{cause:?}"
        );
        let slow = |value: &Value| {
            any(value, &|value: &Value| {
                value
                    .get("maxLength")
                    .and_then(Value::as_u64)
                    .is_some_and(|most| most > 40)
                    && value.get("minLength").is_some()
            })
            .then_some(Failure::Slow {
                ms: 13_000.0,
                without_ms: 1.0,
            })
        };
        let (cause, requests) = explain(
            &Part::Schema(large(
                json!({"type": "string", "minLength": 5, "maxLength": 80}),
            )),
            slow,
        );
        assert_eq!(cause.places.len(), 2, "{cause:?}");
        assert!(
            cause
                .limit
                .as_ref()
                .is_some_and(|limit| limit.fails_at <= 44)
                && requests < 60
        );
        let regex = Part::Text(Constraint::Regex("abc(?=d)ef".into()));
        let (cause, _) = explain(&regex, |value| {
            if value.to_string().contains("(?=d)") {
                refused("look-ahead")
            } else {
                None
            }
        });
        assert_eq!(cause.minimal, Part::Text(Constraint::Regex("(?=d)".into())));
        // Not repeatable, and endless: the search ends.
        let grows = std::cell::Cell::new(0);
        let (cause, requests) = explain(&Part::Schema(large(json!({"const": 1}))), move |_| {
            grows.set(grows.get() + 1);
            if grows.get() % 2 == 1 {
                refused("odd")
            } else {
                None
            }
        });
        assert!(requests <= 201, "{cause:?}");
    }
}
