//! Reads stored answers from run logs, results of other tools and JSON Lines.
//!
//! The layouts, as read in vLLM 0.6 to 0.33: `benchmark_serving_structured_output.py` (before 0.8
//! `benchmark_serving_guided.py`) writes `outputs`, a list of `{generated, expected, correctness}`,
//! with `correct_rate(%)` and `errors` beside it; `vllm bench serve --save-detailed` writes
//! `generated_texts` and `errors`, a line a run with `--append-result`.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::answer_lines;
use super::constraints::Known;
use super::{
    Answers, Claim, FileKind, LoggedRows, Row, Rows, Stored, UnreadableRow, csv_rows, lm_eval,
};
use crate::terminal::InputProgress;
use sobench_core::answer::{CallForm, ToolCall};
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::json::{self, DuplicateKeys};
use sobench_core::input::{self, Lines, lines};
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::tools::ToolSet;
use sobench_core::verdict::Verdict;
use sobench_data::dataset::file::read_text;
use sobench_data::dataset::{DatasetPlan, check_schema, custom};
use sobench_judge::accuracy::{Reference, Scorer};
use sobench_notices::notice::{DatasetNotice, LogNotice};
use sobench_pycompat::nan::without_nan;
use sobench_results::metrics::judgement::is_correct;
use sobench_results::metrics::registry::rates::CORRECT_RATE;
use sobench_runlog::RunLog;

/// The hint that lists the layouts.
const LAYOUTS_HINT: &str = "give a run log, the JSON of vLLM's structured-output script, the detailed JSON of vllm bench serve, samples of \
                     lm-eval, CSV with a column text, or JSON Lines of {\"constraint\": ..., \"text\": ...} or {\"tools\": ..., \"tool_calls\": ...}";

/// Reads one file.
///
/// # Errors
/// Usage, naming the file and the place in it: no row can be read.
pub(super) fn answers(path: &Path, name: &str, dataset: Option<&DatasetPlan>) -> Result<Answers> {
    let answers = if RunLog::is_run_log(path)? {
        // A run log is recognised first: its layout is that of JSON Lines.
        run_log(path)?
    } else if csv_rows::is_file(path)? {
        csv_answers(path, name, dataset)?
    } else if let (Some(plan), true) = (dataset, answer_lines::is_file(path)?) {
        answer_lines::answers(path, name, plan)?
    } else if is_lines_of_rows(path, name)? {
        Answers::rows(Rows::Lines(path.to_owned()))
    } else {
        read_whole(path, name, dataset)?
    };
    Ok(with_dataset_notice(answers, dataset))
}

/// As [`answers`], for a file that is no run log, with all rows in memory.
///
/// # Errors
/// The same as [`answers`].
pub(super) fn answers_in_memory(
    path: &Path,
    name: &str,
    dataset: Option<&DatasetPlan>,
) -> Result<Answers> {
    let answers = read_whole(path, name, dataset)?;
    Ok(with_dataset_notice(answers, dataset))
}

/// The rows of a CSV file, with their own constraints or those of the dataset.
fn csv_answers(path: &Path, name: &str, dataset: Option<&DatasetPlan>) -> Result<Answers> {
    let lines = csv_rows::rows(path, name)?;
    let mut read = lines
        .iter()
        .filter_map(|(_, members)| members.as_ref().ok());
    if let (Some(plan), false) = (dataset, read.any(csv_rows::has_constraint)) {
        return answer_lines::from_members(lines, name, plan);
    }
    let rows = lines.into_iter().map(|(number, members)| {
        let id = format!("line {number}");
        match members {
            Ok(members) => row_of(members, id),
            Err(message) => Row::unreadable(id, message, Map::new()),
        }
    });
    Ok(Answers::rows(Rows::Memory(rows.collect())))
}

fn with_dataset_notice(mut answers: Answers, dataset: Option<&DatasetPlan>) -> Answers {
    if let Some(dataset) =
        dataset.filter(|_| matches!(answers.kind, FileKind::RunLog | FileKind::Rows))
    {
        answers.notices.push(
            LogNotice::DatasetIgnored {
                dataset: dataset.source.name().to_string(),
            }
            .into(),
        );
    }
    answers
}

/// The error for a file of which no row can be read: it may have another layout.
pub(super) fn no_readable_row(first: &UnreadableRow, name: &str) -> Error {
    Error::usage(format!("{name}, {}: {}", first.id, first.message)).hint(LAYOUTS_HINT)
}

/// Whether a file has a row on its first line, and more lines. Other layouts are one value, or one
/// result of another tool a line.
fn is_lines_of_rows(path: &Path, name: &str) -> Result<bool> {
    if input::first_byte(path, u64::MAX)?.is_some_and(|byte| byte != b'{') {
        return Err(Error::usage(format!("{name}, line 1: not a JSON object")).hint(LAYOUTS_HINT));
    }
    let mut lines = Lines::open(path, u64::MAX)?;
    let (Some(Ok((_, first))), Some(Ok(_))) = (lines.next(), lines.next()) else {
        return Ok(false);
    };
    Ok(match object(&first) {
        Ok(members) => !members.contains_key("generated_texts"),
        Err(error) => !error.is_eof(),
    })
}

fn read_whole(path: &Path, name: &str, dataset: Option<&DatasetPlan>) -> Result<Answers> {
    let text = read_text(path)?;
    let mut repeated = DuplicateKeys::default();
    let mut answers = match object(&text) {
        Ok(file) if file.contains_key("outputs") => outputs(&file, dataset, name)?,
        Ok(file) if file.contains_key("generated_texts") => generated(&[file], dataset, name)?,
        Ok(file) if !file.contains_key("text") && !file.contains_key("tools") => {
            return Err(no_answers(&file, name));
        }
        Ok(_) => by_line(&text, dataset, name)?,
        // One value over several lines, with a syntax error.
        Err(error) if text.trim_start().starts_with('{') && is_one_value(&text) => {
            return Err(Error::usage(format!("{name}: not JSON: {error}")).hint(LAYOUTS_HINT));
        }
        Err(_) => by_line(&text, dataset, name)?,
    };
    repeated.scan(&text, |line| format!("{name}, line {line}"));
    answers
        .notices
        .extend(DatasetNotice::repeated_members(repeated));
    Ok(answers)
}

/// Whether the file is one JSON value over several lines: its first line is an incomplete value.
fn is_one_value(text: &str) -> bool {
    let first = lines(text)
        .next()
        .map_or(Ok(Map::new()), |(_, line)| object(line));
    first.is_err_and(|error| error.is_eof()) && lines(text).nth(1).is_some()
}

/// Parses a JSON object; accepts the `NaN` that Python writes.
fn object(text: &str) -> serde_json::Result<Map<String, Value>> {
    serde_json::from_str(text).or_else(|_| serde_json::from_slice(&without_nan(text.as_bytes())))
}

fn no_answers(file: &Map<String, Value>, name: &str) -> Error {
    let is_result = file.contains_key("request_throughput") || file.contains_key("completed");
    let what = if is_result {
        "a result without answers"
    } else {
        "no answers in this file"
    };
    let hint = if is_result {
        "save answers with --save-detailed, or score sobench's run log"
    } else {
        LAYOUTS_HINT
    };
    Error::usage(format!("{what}: {name}")).hint(hint)
}

fn run_log(path: &Path) -> Result<Answers> {
    let log = RunLog::read_with(path, &InputProgress::of_files())?;
    let mut notices = log.notices.clone();
    notices.extend(log.is_partial().then(|| LogNotice::EndedEarly.into()));
    let claims = log
        .is_judged
        .then(|| CORRECT_RATE.rate(&log.requests.samples()))
        .flatten();
    let claims = claims.map(|rate| Claim {
        name: "correct rate in the run log".to_owned(),
        percent: rate.percent,
    });
    let is_claimed = |verdict: &Verdict| log.is_judged.then(|| is_correct(verdict)).flatten();
    let requests = log.requests.iter();
    Ok(Answers {
        kind: FileKind::RunLog,
        channel: log.record.server.expected_channel(),
        claims: claims.into_iter().collect(),
        rows: Rows::RunLog(Box::new(LoggedRows {
            claimed: requests
                .map(|request| is_claimed(request.verdict()))
                .collect(),
            // Figures of the run are dropped.
            requests: log.into_lines(),
        })),
        assumptions: Vec::new(),
        notices,
    })
}

/// A request of a run log as a row.
pub(super) fn logged_row(case: Case, observation: Observation, claimed: Option<bool>) -> Row {
    Row::Answer(Box::new(Stored {
        reference: planned_reference(&case),
        case,
        observation,
        unjudgeable: None,
        claimed,
        members: Map::new(),
    }))
}

fn outputs(
    file: &Map<String, Value>,
    dataset: Option<&DatasetPlan>,
    name: &str,
) -> Result<Answers> {
    let wrong = |message: String| Error::usage(format!("{name}: {message}")).hint(LAYOUTS_HINT);
    let outputs = file["outputs"]
        .as_array()
        .ok_or_else(|| wrong("`outputs` is not an array".to_owned()))?;
    let known = Known::load(dataset, outputs.len(), name)?;
    let mut rows = Vec::with_capacity(outputs.len());
    for (index, output) in outputs.iter().enumerate() {
        let id = format!("outputs[{index}]");
        let Some(text) = output.get("generated").and_then(Value::as_str) else {
            let message = format!("`{id}.generated` is not a string");
            rows.push(Row::unreadable(id, message, Map::new()));
            continue;
        };
        let expected = output.get("expected").and_then(Value::as_str);
        let mut one = answer(&known, index, id, text, expected, file);
        one.claimed = output.get("correctness").and_then(Value::as_bool);
        rows.push(Row::Answer(Box::new(one)));
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
        rows: Rows::Memory(rows),
        channel: None,
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
    let wrong = |message: &str| Error::usage(format!("{name}: {message}")).hint(LAYOUTS_HINT);
    let (mut rows, mut assumptions) = (Vec::new(), Vec::new());
    for (run, file) in files.iter().enumerate() {
        let texts = file.get("generated_texts").and_then(Value::as_array);
        let texts = texts.ok_or_else(|| wrong("`generated_texts` is not an array"))?;
        let known = Known::load(dataset, texts.len(), name)?;
        for (index, text) in texts.iter().enumerate() {
            let prefix = if files.len() > 1 {
                format!("run {run}, ")
            } else {
                String::new()
            };
            let id = format!("{prefix}generated_texts[{index}]");
            rows.push(match text.as_str() {
                Some(text) => Row::Answer(Box::new(answer(&known, index, id, text, None, file))),
                None => Row::unreadable(id, "not a string".to_owned(), Map::new()),
            });
        }
        assumptions = known.assumptions();
    }
    Ok(Answers {
        kind: FileKind::GeneratedTexts,
        rows: Rows::Memory(rows),
        channel: None,
        claims: Vec::new(),
        assumptions,
        notices: Vec::new(),
    })
}

/// One answer whose constraint comes from a dataset.
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
    let mut stored = Stored::from_text(id, due.prompt, due.constraint, text.to_owned());
    stored.case.arm = due.arm;
    stored.case.grammar_oracle = due.oracle;
    stored.unjudgeable = due.unjudgeable;
    if let Some(message) = error.filter(|message| !message.is_empty()) {
        stored.observation.outcome = Outcome::Transport {
            cause: TransportCause::Other,
            message: message.to_owned(),
        };
    }
    stored
}

impl Row {
    fn unreadable(id: String, message: String, members: Map<String, Value>) -> Self {
        Self::Unreadable(UnreadableRow {
            id,
            message,
            members,
        })
    }
}

/// A line of JSON Lines.
#[derive(Debug)]
pub(super) enum Line {
    Row(Row),
    /// The members of a result that `--append-result` wrote.
    Result(Map<String, Value>),
}

/// Reads the row with these members; `id` names it.
fn row_of(members: Map<String, Value>, id: String) -> Row {
    let stored = match lm_eval::is_sample(&members) {
        true => lm_eval::row(&members).and_then(|members| row(&members, &id)),
        false => row(&members, &id),
    };
    match stored {
        Ok(stored) => Row::Answer(Box::new(Stored { members, ..stored })),
        Err(message) => Row::unreadable(id, message, members),
    }
}

/// Reads one line; `id` names it.
pub(super) fn line(text: &str, id: String) -> Line {
    match object(text) {
        Ok(members) if members.contains_key("generated_texts") => Line::Result(members),
        Ok(members) => Line::Row(row_of(members, id)),
        Err(error) => {
            let message = format!("not a JSON object: {}", json::message_without_line(&error));
            Line::Row(Row::unreadable(id, message, Map::new()))
        }
    }
}

impl Answers {
    /// Rows of JSON Lines.
    fn rows(rows: Rows) -> Self {
        Self {
            kind: FileKind::Rows,
            rows,
            channel: None,
            claims: Vec::new(),
            assumptions: Vec::new(),
            notices: Vec::new(),
        }
    }
}

/// Reads JSON Lines: rows, or results that `--append-result` wrote. A row with an error does not
/// stop the others.
fn by_line(text: &str, dataset: Option<&DatasetPlan>, name: &str) -> Result<Answers> {
    let mut results = Vec::new();
    let mut rows = Vec::new();
    for (number, text) in lines(text) {
        match line(text, format!("line {number}")) {
            Line::Row(row) => rows.push(row),
            Line::Result(members) => results.push(members),
        }
    }
    match (results.is_empty(), rows.is_empty()) {
        (true, true) => Err(Error::usage(format!("empty file: {name}")).hint(LAYOUTS_HINT)),
        (false, true) => generated(&results, dataset, name),
        (true, false) => Ok(Answers::rows(Rows::Memory(rows))),
        (false, false) => Err(
            Error::usage(format!("results and rows in one file: {name}"))
                .hint("put them into two files"),
        ),
    }
}

/// The member of a row with the calls of an answer, in the form of a message of chat completions.
const TOOL_CALLS: &str = "tool_calls";

/// The members that say which request a row answers, the first that it has. Rows without them, with
/// equal constraints, are taken as answers to one request.
pub(super) const PROMPTS: [&str; 4] = ["prompt", "messages", "id", "name"];

/// The prompt of a row; only compared with those of other rows.
pub(super) fn prompt(member: Option<&Value>) -> Prompt {
    Prompt::Text(match member {
        None => "".into(),
        Some(Value::String(text)) => text.as_str().into(),
        Some(other) => other.to_string().into(),
    })
}

/// Reads one row; `place` names it if it has no name.
fn row(members: &Map<String, Value>, place: &str) -> std::result::Result<Stored, String> {
    let tool_calls = tool_calls(members)?;
    let text = match string(members, "text")? {
        None if !members.contains_key("tools") => return Err("member `text` is missing".to_owned()),
        text => text.unwrap_or_default(),
    };
    let constraint = if members.contains_key("tools") {
        tools(members)?
    } else {
        text_constraint(members)?
    };
    let name = match (string(members, "name")?, members.get("id")) {
        (Some(name), _) => name.to_owned(),
        (None, Some(Value::String(id))) => id.clone(),
        (None, Some(id @ Value::Number(_))) => id.to_string(),
        (None, _) => place.to_owned(),
    };
    let claimed = match members.get("correct") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(correct)) => Some(*correct),
        Some(_) => return Err("`correct` is not true or false".to_owned()),
    };
    let prompt = prompt(PROMPTS.iter().find_map(|member| members.get(*member)));
    let mut stored = Stored::from_text(name, prompt, Some(Arc::new(constraint)), text.to_owned());
    stored.observation.answer.tool_calls = tool_calls;
    if let Some(reason) = string(members, "finish_reason")? {
        stored.finish(reason.to_owned());
    }
    stored.case.completion = string(members, "completion")?.map(Into::into);
    stored.case.grammar_oracle = string(members, "grammar_oracle")?.map(Into::into);
    stored.reference = reference(members, stored.case.constraint.as_deref())?;
    stored.case.arm = Arm::Constrained;
    stored.claimed = claimed;
    Ok(stored)
}

/// The reference of a request of a run log, if its dataset has one that is scored.
fn planned_reference(case: &Case) -> Option<Reference> {
    let reference = Value::from(case.completion.as_deref()?);
    Reference::new(case.score?, &reference, case.constraint.as_deref()).ok()
}

/// The reference of the answer, and the scorer that compares them: the one of `score`, or that of the
/// constraint's kind.
fn reference(
    members: &Map<String, Value>,
    constraint: Option<&Constraint>,
) -> std::result::Result<Option<Reference>, String> {
    let name = string(members, "score")?;
    let Some(reference) = members.get("reference") else {
        return match name {
            Some(_) => Err("`score` needs a `reference`".to_owned()),
            None => Ok(None),
        };
    };
    let known = || Scorer::ALL.map(Scorer::name).join(", ");
    let scorer = match name {
        Some(name) => Scorer::from_name(name)
            .ok_or_else(|| format!("unknown `score`: {name}; use one of {}", known()))?,
        None => constraint
            .and_then(Constraint::scorer)
            .filter(|scorer| *scorer != Scorer::Calls)
            .ok_or_else(|| format!("`reference` needs a `score`: one of {}", known()))?,
    };
    Reference::new(scorer, reference, constraint)
        .map(Some)
        .map_err(|error| format!("`reference`: {error}"))
}

/// The tools that the request offered.
fn tools(members: &Map<String, Value>) -> std::result::Result<Constraint, String> {
    let is_constraint = |name: &&String| *name == "constraint" || is_text_constraint(name);
    if let Some(second) = members.keys().find(is_constraint) {
        return Err(format!("two constraints: `tools` and `{second}`"));
    }
    let tools = ToolSet::from_members(members).map_err(|error| error.what)?;
    Ok(Constraint::Tools(Arc::new(tools)))
}

/// The calls of the answer. Calls without an id, a name or arguments are read, and then judged;
/// arguments may be any JSON value.
fn tool_calls(members: &Map<String, Value>) -> std::result::Result<Vec<ToolCall>, String> {
    let calls = match members.get(TOOL_CALLS) {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(calls)) => calls,
        Some(_) => return Err(format!("`{TOOL_CALLS}` is not a list")),
    };
    let member = |value: &Value, name: &str| match value.get(name) {
        None | Some(Value::Null) => Some(String::new()),
        Some(text) => text.as_str().map(str::to_owned),
    };
    let read = |(index, call): (usize, &Value)| {
        let custom = call.get("custom");
        let (input, text) = match custom {
            Some(custom) => (custom, "input"),
            None => (call.get("function")?, "arguments"),
        };
        let is_custom = custom.is_some() || call.get("type") == Some(&Value::from("custom"));
        let (arguments, form) = match (member(input, text), is_custom) {
            (Some(arguments), true) => (arguments, CallForm::Custom),
            (Some(arguments), false) => (arguments, CallForm::Function),
            (None, _) => (input.get(text)?.to_string(), CallForm::Object),
        };
        Some(ToolCall {
            index: index as u64,
            id: member(call, "id")?,
            name: member(input, "name")?,
            arguments,
            form,
        })
    };
    let wrong =
        |index| format!("`{TOOL_CALLS}[{index}]` is not a call with an id, a name and arguments");
    calls
        .iter()
        .enumerate()
        .map(|(index, call)| read((index, call)).ok_or_else(|| wrong(index)))
        .collect()
}

fn is_text_constraint(name: &str) -> bool {
    custom::CONSTRAINTS.contains(&name)
}

/// The constraint of the text.
fn text_constraint(members: &Map<String, Value>) -> std::result::Result<Constraint, String> {
    let constraint = match members.get("constraint") {
        Some(Value::Object(inner)) => {
            if let Some(unknown) = inner.keys().find(|name| !is_text_constraint(name)) {
                return Err(format!("unknown kind of constraint: {unknown}"));
            }
            if let Some(second) = members.keys().find(|name| is_text_constraint(name)) {
                return Err(format!("two constraints: `constraint` and `{second}`"));
            }
            custom::constraint(inner)?
        }
        Some(_) => {
            return Err(format!(
                "`constraint` is not an object with one of {}",
                custom::CONSTRAINTS.join(", ")
            ));
        }
        None => custom::constraint(members)?,
    };
    let constraint = constraint.ok_or_else(|| {
        format!(
            "no constraint: none of {}, tools",
            custom::CONSTRAINTS.join(", ")
        )
    })?;
    if let Some(schema) = constraint.schema() {
        check_schema(schema)?;
    }
    Ok(constraint)
}

/// The member of this name, if there is one.
fn string<'a>(
    members: &'a Map<String, Value>,
    name: &str,
) -> std::result::Result<Option<&'a str>, String> {
    let Some(value) = members.get(name) else {
        return Ok(None);
    };
    let text = value.as_str();
    text.map(Some)
        .ok_or_else(|| format!("`{name}` is not a string"))
}
