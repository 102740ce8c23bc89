//! Keywords that a server accepts: whether it keeps them, by prompts that ask for answers that break
//! them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::cause::{Place, Stop, Target, Tried, find};
use super::cures::{self, Cure};
use super::failure::{Failure, Seen};
use super::input::Part;
use super::probe::Probe;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Compiled, Evaluator, JudgeSettings, judge_text};
use sobench_preflight::features::Feature;
use sobench_preflight::features::temptation::Temptation;
use sobench_preflight::instances::{Instances, Temptable, instances};

/// A keyword that was tempted.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// The tool whose parameters have the keyword.
    pub(super) tool: Option<String>,
    /// The JSON pointer of the keyword in the schema.
    pub(super) pointer: String,
    /// Complete answers that were judged.
    pub(super) answers: usize,
    /// The first answer that breaks it, with the reason; `None` if there is none.
    pub(super) violation: Option<Violation>,
    /// The smallest schema found in which it is broken.
    pub(super) minimal: Option<Value>,
    /// The places without which it is kept.
    pub(super) with: Vec<Place>,
    /// Changes after which no answer broke it.
    pub(super) cures: Vec<Cure>,
    /// Whether a text that breaks it was found to ask for.
    pub(super) is_tested: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Violation {
    pub(super) answer: String,
    pub(super) reason: String,
}

/// What is known of a keyword. It is never *kept*: silence is no proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum KeptVerdict {
    ViolationSeen,
    NoViolationSeen,
    NotTested,
}

impl Kept {
    fn new(tool: Option<&str>, pointer: &str, is_tested: bool) -> Self {
        Self {
            tool: tool.map(str::to_owned),
            pointer: pointer.to_owned(),
            answers: 0,
            violation: None,
            minimal: None,
            with: Vec::new(),
            cures: Vec::new(),
            is_tested,
        }
    }

    pub(super) fn verdict(&self) -> KeptVerdict {
        match (&self.violation, self.is_tested && self.answers > 0) {
            (Some(_), _) => KeptVerdict::ViolationSeen,
            (None, true) => KeptVerdict::NoViolationSeen,
            (None, false) => KeptVerdict::NotTested,
        }
    }

    /// The place for people: `tool search: /properties/query/maxLength`.
    pub(super) fn name(&self) -> Cow<'_, str> {
        let place = match self.pointer.as_str() {
            "" => "the whole constraint",
            pointer => pointer,
        };
        match &self.tool {
            Some(tool) => format!("tool {tool}: {place}").into(),
            None => place.into(),
        }
    }
}

/// Tokens of an answer, beside those of the text that is asked for.
const MORE_TOKENS: usize = 64;

/// Requests that show how often a server breaks a keyword.
const RATE_TRIES: usize = 4;

/// The chance that a keyword that is broken as often as before is taken as kept.
const MAX_MISS: f64 = 0.01;

/// The most requests for one step of the search.
const MAX_TRIES: usize = 16;

/// Ignored keywords whose cause is looked for.
const MAX_SEARCHED: usize = 3;

/// A schema that answers must follow: the constraint, or the parameters of a tool.
struct Followed<'a> {
    tool: Option<&'a str>,
    schema: &'a Value,
    compiled: Compiled,
}

impl<'a> Followed<'a> {
    fn new(tool: Option<&'a str>, schema: &'a Value) -> Self {
        let constraint = Constraint::JsonSchema(schema.clone().into());
        Self {
            tool,
            schema,
            compiled: Evaluator::new(JudgeSettings::default()).compile(&constraint),
        }
    }

    /// Whether an answer breaks a keyword.
    fn breaks(
        &self,
        probe: &mut Probe<'_>,
        part: &Part,
        each: &Temptable,
        sample: usize,
    ) -> Tried<bool> {
        let asked = self.ask(probe, part, &each.violating, sample)?;
        let broken = asked.and_then(|asked| asked.broken);
        Ok(broken.is_some_and(|(place, _)| place == each.pointer))
    }

    /// An answer to a prompt that asks for the text, and what it breaks; `None` without a complete one.
    fn ask(
        &self,
        probe: &mut Probe<'_>,
        part: &Part,
        violating: &str,
        sample: usize,
    ) -> Tried<Option<Asked>> {
        let feature = Feature {
            id: "explain".to_owned(),
            keyword: String::new(),
            schema: Value::Null,
            valid: Vec::new(),
            violating: vec![violating.to_owned()],
        };
        let temptation = Temptation::new(&feature, sample).prompt;
        let prompt = match self.tool {
            Some(tool) => format!("Call {tool} with these arguments.\n{temptation}"),
            None => temptation,
        };
        let tokens = u32::try_from(violating.len() + MORE_TOKENS).unwrap_or(u32::MAX);
        let Seen::Answered {
            text,
            is_complete,
            is_call,
            ..
        } = probe.answer(part, &prompt, tokens, self.tool)?
        else {
            return Ok(None);
        };
        if is_call != self.tool.is_some() {
            return Ok(None);
        }
        let broken = match judge_text(&self.compiled, &text) {
            Verdict::Valid => None,
            Verdict::Invalid {
                reason:
                    Reason::Schema {
                        schema_path,
                        message,
                        ..
                    },
            } => Some((schema_path, message)),
            // No JSON at all, and not cut: nothing is enforced.
            Verdict::Invalid { reason } if is_complete => Some((String::new(), reason.to_string())),
            _ => return Ok(None),
        };
        Ok(Some(Asked { text, broken }))
    }
}

/// A complete answer, and which keyword it breaks with the reason.
struct Asked {
    text: String,
    broken: Option<(String, String)>,
}

/// Tempts each keyword of a schema, and of the parameters of tools. Other constraints are not
/// tempted. A second request for a keyword is sent after the first one of all.
///
/// # Errors
/// No more requests may be sent; what was found so far is in `all`.
pub(super) fn keywords(
    probe: &mut Probe<'_>,
    part: &Part,
    samples: usize,
    all: &mut Vec<Kept>,
) -> Result<(), Stop> {
    // A call can only be asked for by the name of its tool.
    let is_asked =
        |(tool, _): &(Option<&str>, &Value)| tool.is_some() || matches!(part, Part::Schema(_));
    let schemas: Vec<(Followed<'_>, Instances)> = part
        .schemas()
        .into_iter()
        .filter(is_asked)
        .map(|(tool, schema)| (Followed::new(tool, schema), instances(schema)))
        .collect();
    let mut tempted: Vec<(&Followed<'_>, &Temptable)> = Vec::new();
    for (schema, found) in &schemas {
        tempted.extend(found.temptable.iter().map(|each| (schema, each)));
    }
    let tested = tempted
        .iter()
        .map(|(schema, each)| Kept::new(schema.tool, &each.pointer, true));
    let untested = schemas.iter().flat_map(|(schema, found)| {
        let pointers = found.untested.iter();
        pointers.map(|pointer| Kept::new(schema.tool, pointer, false))
    });
    *all = tested.chain(untested).collect();
    // One answer may show several; those that it shows are not asked for again.
    for (schema, found) in &schemas {
        let text = found.all_at_once.as_ref();
        let Some((text, _)) = text.filter(|(_, places)| places.len() > 2) else {
            continue;
        };
        if let Some(Asked {
            text,
            broken: Some((place, reason)),
        }) = schema.ask(probe, part, text, 0)?
        {
            let mut kept = all.iter_mut();
            let is_it = |kept: &&mut Kept| {
                kept.pointer == place && kept.tool.as_deref() == schema.tool && kept.is_tested
            };
            if let Some(kept) = kept.find(is_it) {
                kept.answers = 1;
                kept.violation = Some(Violation {
                    answer: text,
                    reason,
                });
            }
        }
    }
    for sample in 0..samples {
        for (index, (schema, each)) in tempted.iter().enumerate() {
            let kept = &mut all[index];
            if kept.violation.is_some() {
                continue;
            }
            let Some(Asked { text, broken }) = schema.ask(probe, part, &each.violating, sample)?
            else {
                continue;
            };
            kept.answers += 1;
            let Some((place, reason)) = broken else {
                continue;
            };
            let is_nothing_kept = place.is_empty();
            if is_nothing_kept || place == each.pointer {
                kept.violation = Some(Violation {
                    answer: text,
                    reason,
                });
            }
            if is_nothing_kept {
                // No keyword needs a test.
                let whole = Kept {
                    pointer: String::new(),
                    ..kept.clone()
                };
                *all = vec![whole];
                return Ok(());
            }
        }
    }
    let mut searched = 0;
    for (index, (schema, each)) in tempted.iter().enumerate() {
        if all[index].violation.is_some() {
            searched += 1;
            explain(probe, part, schema, each, &mut all[index], searched)?;
        }
    }
    Ok(())
}

/// The smallest schema in which a keyword is broken, and changes after which it is not.
fn explain(
    probe: &mut Probe<'_>,
    part: &Part,
    schema: &Followed<'_>,
    each: &Temptable,
    kept: &mut Kept,
    number: usize,
) -> Result<(), Stop> {
    let Some((owner, name)) = each.pointer.rsplit_once('/') else {
        return Ok(());
    };
    let Some(Value::Object(keywords)) = schema.schema.pointer(owner) else {
        return Ok(());
    };
    let mut search = Tempted {
        probe,
        part,
        tool: schema.tool,
        keyword: name,
        operand: &keywords[name],
        tries: RATE_TRIES,
    };
    let small = alone(keywords, name);
    if search.is_broken(&small)? {
        kept.minimal = Some(small);
    }
    if number > MAX_SEARCHED {
        return Ok(());
    }
    // How often it is broken decides how often a step is tried.
    let mut broken = 1;
    for sample in 0..RATE_TRIES {
        broken += usize::from(schema.breaks(search.probe, part, each, sample)?);
    }
    let rate = (broken + 1) as f64 / (RATE_TRIES + 3) as f64;
    let tries = (MAX_MISS.ln() / (1.0 - rate).ln()).ceil();
    search.tries = (tries as usize).min(MAX_TRIES);
    if kept.minimal.is_none() {
        let failure = Failure::Ignored {
            keyword: name.to_owned(),
        };
        let cause = find(&mut search, &Part::Schema(schema.schema.clone()), failure);
        if let Some(stop) = cause.stopped {
            return Err(stop);
        }
        if let Part::Schema(minimal) = cause.minimal {
            kept.minimal = Some(minimal);
        }
        let is_other = |place: &Place| {
            let keyword =
                cures::keyword_of(place).map_or_else(String::new, |name| format!("/{name}"));
            place.pointer.clone() + &keyword != each.pointer
        };
        kept.with = cause.places.into_iter().filter(is_other).collect();
    }
    for cure in cures::of_keyword(part, schema.tool, owner, name, keywords) {
        let Some(changed) = cure.part.schema(schema.tool) else {
            continue;
        };
        let changed = Followed::new(schema.tool, changed);
        // The same text must break it, or the schema is looser.
        let (mut answers, mut is_broken) = (0, false);
        for sample in 0..search.tries {
            let asked = changed.ask(search.probe, &cure.part, &each.violating, sample)?;
            answers += usize::from(asked.is_some());
            is_broken |= asked.is_some_and(|asked| asked.broken.is_some());
            if is_broken {
                break;
            }
        }
        if !is_broken && answers == search.tries {
            kept.cures.push(cure);
        }
    }
    Ok(())
}

/// The keyword with its type only, as a member of an object.
fn alone(keywords: &Map<String, Value>, name: &str) -> Value {
    let kept = keywords
        .iter()
        .filter(|(keyword, _)| *keyword == name || *keyword == "type");
    let member: Map<String, Value> = kept
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect();
    json!({"type": "object", "properties": {"v": member}, "required": ["v"]})
}

/// A target in which a schema fails if answers break one of its keywords.
struct Tempted<'p, 'a> {
    probe: &'p mut Probe<'a>,
    /// The whole part, of which a tool gets the schema.
    part: &'p Part,
    tool: Option<&'p str>,
    keyword: &'p str,
    operand: &'p Value,
    /// Requests after which it counts as kept.
    tries: usize,
}

impl Tempted<'_, '_> {
    fn is_broken(&mut self, schema: &Value) -> Tried<bool> {
        let part = match (self.part, self.tool) {
            (Part::Tools(tools), Some(name)) => {
                let is_it = |tool: &&Value| tool["function"]["name"] == *name;
                let mut tool = tools.iter().find(is_it).cloned().unwrap_or_default();
                tool["function"]["parameters"] = schema.clone();
                Part::Tools(vec![tool])
            }
            _ => Part::Schema(schema.clone()),
        };
        let found = instances(schema);
        let is_it = |each: &&Temptable| {
            each.keyword == self.keyword && schema.pointer(&each.pointer) == Some(self.operand)
        };
        let Some(each) = found.temptable.iter().find(is_it) else {
            return Ok(false);
        };
        let followed = Followed::new(self.tool, schema);
        for sample in 0..self.tries {
            if followed.breaks(self.probe, &part, each, sample)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Target for Tempted<'_, '_> {
    fn send(&mut self, part: &Part, _is_unique: bool) -> Tried<Seen> {
        let is_broken = match part {
            Part::Schema(schema) => self.is_broken(schema)?,
            _ => false,
        };
        Ok(match is_broken {
            true => Seen::Failed(Failure::Ignored {
                keyword: self.keyword.to_owned(),
            }),
            false => Seen::Answered {
                ms: 0.0,
                text: String::new(),
                is_complete: true,
                is_call: false,
            },
        })
    }
}
