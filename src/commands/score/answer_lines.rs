//! Reads answers without constraints, one a line: the output of OpenAI's batches, whole responses of
//! OpenAI's and Anthropic's APIs, and `{"id", "text"}`. The constraints are those of the dataset:
//! requests with a name by the name, others in order.

use std::path::Path;

use serde_json::{Map, Value};

use super::constraints::Known;
use super::csv_rows::NumberedRow;
use super::{Answers, FileKind, Row, Rows, Stored, UnreadableRow, lm_eval};
use sobench_backend::{AnswerError, Decoded, ServerKind, adapter};
use sobench_core::error::Result;
use sobench_core::input::{Lines, lines};
use sobench_core::observation::{Outcome, TransportCause};
use sobench_data::dataset::custom::{self, NAME_TAG};
use sobench_data::dataset::file::{MAX_ROWS, read_text};
use sobench_data::dataset::{DatasetName, DatasetPlan};

/// Members of a whole response, with the kind of server that sends it.
const RESPONSES: [(&str, ServerKind); 3] = [
    ("choices", ServerKind::OpenaiChat),
    ("output", ServerKind::OpenaiResponses),
    ("stop_reason", ServerKind::Anthropic),
];

/// Members that name the request of an answer.
const NAMES: [&str; 2] = ["custom_id", "id"];

/// Whether the first line of a file is an answer without a constraint.
///
/// # Errors
/// The file cannot be read.
pub(super) fn is_file(path: &Path) -> Result<bool> {
    let first = Lines::open(path, u64::MAX)?.next().transpose()?;
    let members = first.and_then(|(_, line)| serde_json::from_str::<Map<_, _>>(&line).ok());
    Ok(members.is_some_and(|members| {
        let has = |name: &str| members.contains_key(name);
        let is_answer = has("custom_id")
            || has("text")
            || lm_eval::is_sample(&members)
            || response_kind(&members).is_some();
        let is_judged = custom::CONSTRAINTS.into_iter().any(has);
        is_answer && !is_judged && !["constraint", "tools", "outputs"].into_iter().any(has)
    }))
}

/// Reads the file.
///
/// # Errors
/// The dataset cannot be loaded.
pub(super) fn answers(path: &Path, name: &str, plan: &DatasetPlan) -> Result<Answers> {
    let text = read_text(path)?;
    let read = |(number, line): (usize, &str)| {
        let members = serde_json::from_str(line);
        (
            number,
            members.map_err(|error| format!("not a JSON object: {error}")),
        )
    };
    from_members(lines(&text).map(read).collect(), name, plan)
}

/// Answers with the members of their rows, each with its line.
///
/// # Errors
/// The dataset cannot be loaded.
pub(super) fn from_members(
    lines: Vec<NumberedRow>,
    name: &str,
    plan: &DatasetPlan,
) -> Result<Answers> {
    let count = match plan.source.name() {
        DatasetName::Requests => MAX_ROWS,
        _ => lines.len(),
    };
    let known = Known::load(Some(plan), count, name)?;
    let mut assumptions = known.assumptions();
    if plan.source.name() == DatasetName::Requests {
        // Responses have a finish reason, and bodies their constraint.
        assumptions.truncate(1);
    }
    let mut rows = Vec::with_capacity(lines.len());
    for (index, (number, members)) in lines.into_iter().enumerate() {
        let place = format!("line {number}");
        let row = members.and_then(|members| {
            let stored = stored(&members, index, &known, &place)?;
            Ok(Row::Answer(Box::new(Stored { members, ..stored })))
        });
        rows.push(row.unwrap_or_else(|message| {
            Row::Unreadable(UnreadableRow {
                id: place,
                message,
                members: Map::new(),
            })
        }));
    }
    Ok(Answers {
        kind: FileKind::AnswerLines,
        rows: Rows::Memory(rows),
        channel: None,
        claims: Vec::new(),
        assumptions,
        notices: Vec::new(),
    })
}

/// One answer; the error says why it cannot be read.
fn stored(
    members: &Map<String, Value>,
    index: usize,
    known: &Known,
    place: &str,
) -> std::result::Result<Stored, String> {
    let sample = match lm_eval::is_sample(members) {
        true => Some(lm_eval::row(members)?),
        false => None,
    };
    let members = sample.as_ref().unwrap_or(members);
    let name = NAMES
        .into_iter()
        .find_map(|name| members.get(name)?.as_str());
    let by_name = name.and_then(|name| known.named(&format!("{NAME_TAG}{name}")));
    if let (Some(name), None, true) = (name, by_name, known.has_names()) {
        return Err(format!(
            "no request with the custom_id {name:?}: the dataset is not the input of this batch"
        ));
    }
    let due = known.due(by_name.unwrap_or(index), None);
    let id = name.unwrap_or(place).to_owned();
    let mut stored = Stored::from_text(id, due.prompt, due.constraint, String::new());
    stored.case.arm = due.arm;
    stored.case.grammar_oracle = due.oracle;
    let failed = |message: String| Outcome::Transport {
        cause: TransportCause::Other,
        message,
    };
    let body = match members.get("response").unwrap_or(&Value::Null) {
        Value::Null => members,
        response => match response["body"].as_object() {
            Some(body) => body,
            None => return Err("`response` has no body".to_owned()),
        },
    };
    let error = [members.get("error"), body.get("error")];
    if let Some(error) = error.into_iter().flatten().find(|error| !error.is_null()) {
        stored.observation.outcome = failed(error.to_string());
    } else if let Some(text) = members.get("text") {
        let Some(text) = text.as_str() else {
            return Err("`text` is not a string".to_owned());
        };
        text.clone_into(&mut stored.observation.answer.content);
    } else if let Some(kind) = response_kind(body) {
        let decoded = decoded(kind, body);
        if let Some(error) = decoded.error {
            return Err(match error {
                AnswerError::Server { body, .. } => body,
                AnswerError::Unreadable { message } => message,
            });
        }
        stored.observation.answer = decoded.answer;
        stored.observation.usage = decoded.usage;
        if let Some(reason) = decoded.finish_reason {
            stored.finish(reason);
        }
    } else {
        return Err("no `response`, `choices`, `output` or `text`".to_owned());
    }
    Ok(stored)
}

/// The kind of server that sends such a response.
fn response_kind(body: &Map<String, Value>) -> Option<ServerKind> {
    let found = RESPONSES
        .into_iter()
        .find(|(member, _)| body.contains_key(*member));
    let is_text = body
        .get("object")
        .is_some_and(|object| object == "text_completion");
    found.map(|(_, kind)| if is_text { ServerKind::Openai } else { kind })
}

fn decoded(kind: ServerKind, body: &Map<String, Value>) -> Decoded {
    let mut decoder = adapter(kind).decoder(false, 0);
    decoder.push(Value::from(body.clone()).to_string().as_bytes());
    decoder.finish();
    decoder.into_decoded()
}
