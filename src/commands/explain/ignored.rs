//! Keywords that a server accepts: whether it keeps them, by prompts that ask for answers that break
//! them.

use serde_json::{Value, json};

use super::cause::Stop;
use super::failure::Seen;
use super::input::Part;
use super::probe::Probe;
use sobench_core::constraint::Constraint;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Compiled, Evaluator, JudgeSettings, judge_text};
use sobench_preflight::features::Feature;
use sobench_preflight::features::temptation::Temptation;
use sobench_preflight::instances::{Temptable, instances};

/// A keyword that was tempted.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    /// The JSON pointer of the keyword in the schema.
    pub(super) pointer: String,
    /// Complete answers that were judged.
    pub(super) answers: usize,
    /// The first answer that breaks it, with the reason; `None` if there is none.
    pub(super) violation: Option<(String, String)>,
    /// Whether the keyword is broken without the rest of the schema, too, and that schema.
    pub(super) alone: Option<Value>,
    /// Whether a text that breaks it was found to ask for.
    pub(super) is_tested: bool,
}

/// Tokens of an answer, beside those of the text that is asked for.
const MORE_TOKENS: usize = 64;

/// Tempts each keyword of a schema. Tools and other constraints are not tempted.
///
/// # Errors
/// No more requests may be sent.
pub(super) fn keywords(
    probe: &mut Probe<'_>,
    part: &Part,
    samples: usize,
    all: &mut Vec<Kept>,
) -> Result<(), Stop> {
    let Part::Schema(schema) = part else {
        return Ok(());
    };
    let found = instances(schema);
    let compiled = compiled(schema);
    // One answer may show several; those that it shows are not asked for again.
    let mut broken: Vec<(String, String, String)> = Vec::new();
    if let Some((text, _)) = found
        .all_at_once
        .as_ref()
        .filter(|(_, places)| places.len() > 2)
    {
        let feature = feature("", text.clone());
        if let Some((answer, Some((place, reason)))) = ask(probe, part, &feature, 0, &compiled)? {
            broken.push((place, answer, reason));
        }
    }
    for Temptable {
        pointer,
        keyword,
        violating,
    } in &found.temptable
    {
        let mut kept = Kept {
            pointer: pointer.clone(),
            answers: 0,
            violation: None,
            alone: None,
            is_tested: true,
        };
        if let Some((_, answer, reason)) = broken.iter().find(|(place, ..)| place == pointer) {
            kept.violation = Some((answer.clone(), reason.clone()));
            kept.answers = 1;
        }
        let feature = feature(keyword, violating.clone());
        for sample in 0..samples {
            if kept.violation.is_some() {
                break;
            }
            let Some((answer, found)) = ask(probe, part, &feature, sample, &compiled)? else {
                continue;
            };
            kept.answers += 1;
            if let Some((place, reason)) = &found
                && place.is_empty()
            {
                // Nothing is kept, so no keyword needs a test.
                *all = vec![Kept {
                    pointer: String::new(),
                    violation: Some((answer, reason.clone())),
                    ..kept
                }];
                return Ok(());
            }
            kept.violation = found
                .filter(|(place, _)| place == pointer)
                .map(|(_, reason)| (answer, reason));
        }
        if kept.violation.is_some() {
            kept.alone = alone(probe, schema, pointer, samples)?;
        }
        all.push(kept);
    }
    all.extend(found.untested.into_iter().map(|pointer| Kept {
        pointer,
        answers: 0,
        violation: None,
        alone: None,
        is_tested: false,
    }));
    Ok(())
}

/// The keyword with its type only, as a member of an object, if a server breaks it there as well.
fn alone(
    probe: &mut Probe<'_>,
    schema: &Value,
    pointer: &str,
    samples: usize,
) -> Result<Option<Value>, Stop> {
    let Some((owner, name)) = pointer.rsplit_once('/') else {
        return Ok(None);
    };
    let Some(keywords) = schema.pointer(owner).and_then(Value::as_object) else {
        return Ok(None);
    };
    let kept = keywords
        .iter()
        .filter(|(keyword, _)| *keyword == name || *keyword == "type");
    let member: serde_json::Map<String, Value> = kept
        .map(|(keyword, value)| (keyword.clone(), value.clone()))
        .collect();
    let small = json!({"type": "object", "properties": {"v": member}, "required": ["v"]});
    let found = instances(&small);
    let place = format!("/properties/v/{name}");
    let Some(tempted) = found
        .temptable
        .iter()
        .find(|tempted| tempted.pointer == place)
    else {
        return Ok(None);
    };
    let (part, compiled) = (Part::Schema(small.clone()), compiled(&small));
    let feature = feature(name, tempted.violating.clone());
    for sample in 0..samples {
        if let Some((_, Some((found, _)))) = ask(probe, &part, &feature, sample, &compiled)?
            && found == place
        {
            return Ok(Some(small));
        }
    }
    Ok(None)
}

fn compiled(schema: &Value) -> Compiled {
    let constraint = Constraint::JsonSchema(schema.clone().into());
    Evaluator::new(JudgeSettings::default()).compile(&constraint)
}

fn feature(keyword: &str, violating: String) -> Feature {
    Feature {
        id: "explain".to_owned(),
        keyword: keyword.to_owned(),
        schema: Value::Null,
        valid: Vec::new(),
        violating: vec![violating],
    }
}

/// An answer, and which keyword it breaks with the reason; `None` without a complete answer.
type Asked = Option<(String, Option<(String, String)>)>;

fn ask(
    probe: &mut Probe<'_>,
    part: &Part,
    feature: &Feature,
    sample: usize,
    compiled: &Compiled,
) -> Result<Asked, Stop> {
    let temptation = Temptation::new(feature, sample);
    let length: usize = feature.violating.iter().map(String::len).sum();
    let tokens = u32::try_from(length + MORE_TOKENS).unwrap_or(u32::MAX);
    let Seen::Answered {
        text, is_complete, ..
    } = probe.answer(part, &temptation.prompt, tokens)?
    else {
        return Ok(None);
    };
    Ok(match judge_text(compiled, &text) {
        Verdict::Valid => Some((text, None)),
        Verdict::Invalid {
            reason:
                Reason::Schema {
                    schema_path,
                    message,
                    ..
                },
        } => Some((text, Some((schema_path, message)))),
        // No JSON at all, and not cut: nothing is enforced.
        Verdict::Invalid { reason } if is_complete => {
            Some((text, Some((String::new(), reason.to_string()))))
        }
        _ => None,
    })
}
