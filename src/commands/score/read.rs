//! Files to stored answers, whatever tool they are from. Knows no verdict.
//!
//! The layouts, as read in vLLM 0.6 to 0.33: `benchmark_serving_structured_output.py` (before 0.8
//! `benchmark_serving_guided.py`) writes `outputs`, a list of `{generated, expected, correctness}`,
//! with `correct_rate(%)` and `errors` beside it; `vllm bench serve --save-detailed` writes
//! `generated_texts` and `errors`, a line a run with `--append-result`.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::constraints::Known;
use super::{Answers, Claim, FileKind, Stored};
use sobench_core::case::Arm;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::{self, Repeated};
use sobench_core::input::{self, lines};
use sobench_core::observation::{Outcome, TransportCause};
use sobench_data::dataset::file::read_text;
use sobench_data::dataset::{DatasetPlan, MAX_DATASET_BYTES, custom};
use sobench_notices::notice::{DatasetNotice, LogNotice};
use sobench_pycompat::nan::without_nan;
use sobench_results::metrics::quality::{Quality, is_correct};
use sobench_results::runlog::{Keep, RunLog};

/// Members of a row: the text, the constraint, what it is called, and what the file says of it.
const ROW_MEMBERS: [&str; 5] = ["text", "constraint", "name", "correct", "json_schema"];

/// What files can be, for messages.
const KNOWN: &str = "give a run log, the JSON of vLLM's structured-output script, the detailed JSON of vllm bench serve, or JSON Lines of \
                     {\"constraint\": ..., \"text\": ...}";

/// Reads one file.
///
/// # Errors
/// Usage, naming the file and the place in it.
pub(super) fn answers(path: &Path, dataset: Option<&DatasetPlan>) -> Result<Answers> {
    let mut answers = read(path, dataset)?;
    if let Some(dataset) =
        dataset.filter(|_| matches!(answers.kind, FileKind::RunLog | FileKind::Rows))
    {
        answers.notices.push(
            LogNotice::DatasetIgnored {
                dataset: dataset.name().to_string(),
            }
            .into(),
        );
    }
    Ok(answers)
}

fn read(path: &Path, dataset: Option<&DatasetPlan>) -> Result<Answers> {
    // Looked at before the rest is read, since a run log may be longer than any other file is
    // taken.
    if RunLog::begins(path)? {
        return run_log(path);
    }
    let name = path.display().to_string();
    if input::first_byte(path, MAX_DATASET_BYTES)?.is_some_and(|byte| byte != b'{') {
        return Err(Error::usage(format!("{name}, line 1: not a JSON object")).hint(KNOWN));
    }
    let text = read_text(path)?;
    let mut repeated = Repeated::default();
    let mut answers = match object(&text) {
        Ok(file) if file.contains_key("outputs") => outputs(&file, dataset, &name)?,
        Ok(file) if file.contains_key("generated_texts") => generated(&[file], dataset, &name)?,
        Ok(file) if !file.contains_key("text") => return Err(no_answers(&file, &name)),
        Ok(_) => by_line(&text, dataset, &name)?,
        // One value over several lines, which is broken: of lines, each would be whole.
        Err(error) if text.trim_start().starts_with('{') && is_one_value(&text) => {
            return Err(Error::usage(format!("{name}: not JSON: {error}")).hint(KNOWN));
        }
        Err(_) => by_line(&text, dataset, &name)?,
    };
    repeated.look(&text, |line| format!("{name}, line {line}"));
    answers
        .notices
        .extend(DatasetNotice::repeated_members(repeated));
    Ok(answers)
}

/// Whether the first line is not a whole value, so that the file cannot be one of JSON Lines.
fn is_one_value(text: &str) -> bool {
    let first = lines(text)
        .next()
        .map_or(Ok(Map::new()), |(_, line)| object(line));
    first.is_err_and(|error| error.is_eof()) && lines(text).nth(1).is_some()
}

/// A JSON object, as Python may have written it.
fn object(text: &str) -> serde_json::Result<Map<String, Value>> {
    serde_json::from_str(text).or_else(|_| serde_json::from_slice(&without_nan(text.as_bytes())))
}

fn no_answers(file: &Map<String, Value>, name: &str) -> Error {
    let is_result = file.contains_key("request_throughput") || file.contains_key("completed");
    let what = if is_result {
        "a result without its answers"
    } else {
        "not a file with answers"
    };
    let hint = if is_result {
        "answers are kept by --save-detailed, and in sobench's run log"
    } else {
        KNOWN
    };
    Error::usage(format!("{what}: {name}")).hint(hint)
}

fn run_log(path: &Path) -> Result<Answers> {
    let log = RunLog::read(path, Keep::Texts)?;
    let mut notices = log.notices.clone();
    notices.extend(log.is_partial().then(|| LogNotice::EndedEarly.into()));
    let claims = log
        .is_judged
        .then(|| Quality::of(&log.requests.samples()).correct_rate)
        .flatten();
    let claims = claims.map(|rate| Claim {
        name: "correct rate, as judged after the run".to_owned(),
        percent: rate.percent,
    });
    let claims = claims.into_iter().collect();
    let stored = log.requests.iter().map(|request| Stored {
        case: request.case(),
        observation: request.observation(),
        unjudgeable: None,
        claimed: if log.is_judged {
            is_correct(request.verdict())
        } else {
            None
        },
    });
    Ok(Answers {
        kind: FileKind::RunLog,
        stored: stored.collect(),
        claims,
        assumptions: Vec::new(),
        notices,
    })
}

fn outputs(
    file: &Map<String, Value>,
    dataset: Option<&DatasetPlan>,
    name: &str,
) -> Result<Answers> {
    let wrong = |words: String| Error::usage(format!("{name}: {words}")).hint(KNOWN);
    let outputs = file["outputs"]
        .as_array()
        .ok_or_else(|| wrong("outputs is no list".to_owned()))?;
    let known = Known::load(dataset, outputs.len(), name)?;
    let mut stored = Vec::with_capacity(outputs.len());
    for (index, output) in outputs.iter().enumerate() {
        let generated = output.get("generated").and_then(Value::as_str);
        let text =
            generated.ok_or_else(|| wrong(format!("outputs[{index}].generated is no text")))?;
        let expected = output.get("expected").and_then(Value::as_str);
        let mut one = answer(
            &known,
            index,
            format!("outputs[{index}]"),
            text,
            expected,
            file,
        );
        one.claimed = output.get("correctness").and_then(Value::as_bool);
        stored.push(one);
    }
    let keys = ["correct_rate(%)", "vllm_correct_rate(%)"];
    let claims = keys
        .iter()
        .filter_map(|key| {
            Some(Claim {
                name: (*key).to_owned(),
                percent: file.get(*key)?.as_f64()?,
            })
        })
        .collect();
    Ok(Answers {
        kind: FileKind::Outputs,
        stored,
        claims,
        assumptions: known.assumptions(),
        notices: Vec::new(),
    })
}

fn generated(
    files: &[Map<String, Value>],
    dataset: Option<&DatasetPlan>,
    name: &str,
) -> Result<Answers> {
    let wrong = |words: &str| Error::usage(format!("{name}: {words}")).hint(KNOWN);
    let (mut stored, mut assumptions) = (Vec::new(), Vec::new());
    for (run, file) in files.iter().enumerate() {
        let texts = file.get("generated_texts").and_then(Value::as_array);
        let texts = texts.ok_or_else(|| wrong("generated_texts is no list"))?;
        let known = Known::load(dataset, texts.len(), name)?;
        for (index, text) in texts.iter().enumerate() {
            let text = text
                .as_str()
                .ok_or_else(|| wrong("generated_texts holds something that is no text"))?;
            let place = if files.len() > 1 {
                format!("run {run}, ")
            } else {
                String::new()
            };
            stored.push(answer(
                &known,
                index,
                format!("{place}generated_texts[{index}]"),
                text,
                None,
                file,
            ));
        }
        assumptions = known.assumptions();
    }
    Ok(Answers {
        kind: FileKind::GeneratedTexts,
        stored,
        claims: Vec::new(),
        assumptions,
        notices: Vec::new(),
    })
}

/// One answer of a file that has its constraint from a dataset.
fn answer(
    known: &Known,
    index: usize,
    id: String,
    text: &str,
    expected: Option<&str>,
    file: &Map<String, Value>,
) -> Stored {
    let error = file
        .get("errors")
        .and_then(|errors| errors.get(index))
        .and_then(Value::as_str);
    let due = known.due(index, expected);
    let mut stored = Stored::text(id, due.constraint, text.to_owned());
    stored.case.arm = due.arm;
    stored.case.grammar_oracle = due.oracle;
    stored.unjudgeable = due.unjudgeable;
    if let Some(words) = error.filter(|words| !words.is_empty()) {
        stored.observation.outcome = Outcome::Transport {
            cause: TransportCause::Other,
            message: words.to_owned(),
        };
    }
    stored
}

/// Rows, or results that were appended to each other.
fn by_line(text: &str, dataset: Option<&DatasetPlan>, name: &str) -> Result<Answers> {
    let mut results = Vec::new();
    let mut stored = Vec::new();
    for (number, line) in lines(text) {
        let wrong =
            |words: String| Error::usage(format!("{name}, line {number}: {words}")).hint(KNOWN);
        let members = object(line)
            .map_err(|error| wrong(format!("not a JSON object: {}", json::in_line(&error))))?;
        if members.contains_key("generated_texts") {
            results.push(members);
        } else {
            stored.push(row(&members, number).map_err(wrong)?);
        }
    }
    match (results.is_empty(), stored.is_empty()) {
        (true, true) => {
            Err(Error::usage(format!("there is nothing in this file: {name}")).hint(KNOWN))
        }
        (false, true) => generated(&results, dataset, name),
        (true, false) => {
            let (claims, assumptions, notices) = (Vec::new(), Vec::new(), Vec::new());
            Ok(Answers {
                kind: FileKind::Rows,
                stored,
                claims,
                assumptions,
                notices,
            })
        }
        (false, false) => {
            Err(Error::usage(format!("results and rows in one file: {name}")).hint(KNOWN))
        }
    }
}

fn row(members: &Map<String, Value>, number: usize) -> std::result::Result<Stored, String> {
    let is_known = |name: &str| ROW_MEMBERS.contains(&name) || custom::CONSTRAINTS.contains(&name);
    if let Some(unknown) = members.keys().find(|name| !is_known(name)) {
        return Err(format!("no such member: {unknown}"));
    }
    let text = members
        .get("text")
        .and_then(Value::as_str)
        .ok_or("text has to be a text")?;
    let constraint = match members.get("constraint") {
        Some(Value::Object(inner)) => {
            if let Some(unknown) = inner.keys().find(|name| {
                !custom::CONSTRAINTS.contains(&name.as_str()) && *name != "json_schema"
            }) {
                return Err(format!("no such member of constraint: {unknown}"));
            }
            if members
                .keys()
                .any(|name| name == "json_schema" || custom::CONSTRAINTS.contains(&name.as_str()))
            {
                return Err("constraint, and another one beside it".to_owned());
            }
            spelt_out(inner)?
        }
        Some(_) => {
            return Err(format!(
                "constraint has to be an object with one of {}",
                custom::CONSTRAINTS.join(", ")
            ));
        }
        None => spelt_out(members)?,
    };
    let constraint = constraint.ok_or_else(|| {
        format!(
            "no constraint: none of {}, json_schema",
            custom::CONSTRAINTS.join(", ")
        )
    })?;
    let name = members.get("name").map_or_else(
        || Ok(format!("line {number}")),
        |name| {
            name.as_str()
                .map(str::to_owned)
                .ok_or("name has to be a text")
        },
    )?;
    let mut stored = Stored::text(name, Some(Arc::new(constraint)), text.to_owned());
    stored.case.arm = Arm::Constrained;
    stored.claimed = match members.get("correct") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(correct)) => Some(*correct),
        Some(_) => return Err("correct has to be true or false".to_owned()),
    };
    Ok(stored)
}

/// The constraint among these members; `json_schema` is another name of `json`.
fn spelt_out(
    members: &Map<String, Value>,
) -> std::result::Result<Option<sobench_core::constraint::Constraint>, String> {
    let mut members = members.clone();
    if let Some(schema) = members.remove("json_schema")
        && members.insert("json".to_owned(), schema).is_some()
    {
        return Err("json and json_schema are the same: give one of them".to_owned());
    }
    custom::constraint(&members)
}
