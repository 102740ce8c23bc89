//! Files of sessions, in forms that are recognised by the members of their JSON objects:
//!
//! | form | object |
//! |---|---|
//! | rows of messages (mlcommons/endpoints) | `conversation_id`, `turn`, `role`, and the message |
//! | AIPerf's `multi_turn` and `dag_jsonl` | `session_id` and `turns`, with `forks` and `spawns` |
//! | WEKA's traces (AIPerf) | `requests` with lengths and `hash_ids` |
//! | ShareGPT with tools | `conversations` of `from` and `value`, with `tools` |
//! | OpenAI | `messages` with `tools`, or a list of messages |
//!
//! Each assistant message is a turn. JSON Lines are read line by line.

mod aiperf;
mod chat;
mod rows;
mod weka;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{MAX_TURNS, Session, SessionMode, SessionTurn, answer_text, calls, ground_truth};
use crate::dataset::file::{MAX_DATASET_BYTES, read_lines_with, read_text};
use crate::dataset::trace_prompts::TracePrompts;
use crate::dataset::{DatasetPlan, Inputs};
use sobench_core::case::Message;
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::input::{self, json::message_without_line};
use sobench_core::scorer::Scorer;
use sobench_core::tools::ToolSet;

const HINT: &str = "give JSON Lines with messages in OpenAI's form, ShareGPT conversations, rows of \
                    mlcommons/endpoints, or sessions or traces of AIPerf";

/// The sessions of a file.
pub(super) struct Read {
    pub(super) sessions: Vec<Session>,
    /// The number of sessions of the file.
    pub(super) available: usize,
}

/// A session as a form gives it.
#[derive(Default)]
struct Draft {
    /// The name of its place, such as `chats.jsonl, line 3`.
    place: String,
    /// The name by which other sessions of the file refer to it.
    id: String,
    turns: Vec<DraftTurn>,
}

/// A turn as a form gives it: what is new in it.
#[derive(Default)]
struct DraftTurn {
    place: String,
    new: Vec<Message>,
    /// The tools that it offers, as in chat completions.
    tools: Option<Value>,
    tool_choice: Option<Value>,
    /// The recorded answer.
    answer: Option<Message>,
    output_len: Option<u32>,
    delay_ms: f64,
    history: History,
    /// Sessions that start when it has ended: with its history, and without.
    forks: Vec<String>,
    spawns: Vec<Spawn>,
    /// Positions in its session of the turns that end before it, in place of the turn before it.
    after: Option<Vec<usize>>,
}

/// A session that starts without a history.
struct Spawn {
    id: String,
    /// The position of the turn of the parent that waits for it.
    join_at: usize,
}

/// What a turn has before its own messages.
#[derive(Clone, Copy, Default, PartialEq)]
enum History {
    /// The history of the turn before it, and its answer.
    #[default]
    Previous,
    /// Nothing.
    None,
}

/// Reads the first sessions of a file, as many as the plan has prompts. Keeps those, and one line, in
/// memory; of a JSON document over several lines, and of sessions that refer to each other, the file.
///
/// # Errors
/// The file cannot be read, or a session is invalid. Errors name the line.
pub(super) fn read(
    path: &Path,
    mode: SessionMode,
    plan: &DatasetPlan,
    inputs: &Inputs<'_>,
) -> Result<Read> {
    let mut reading = Reading {
        prompts: TracePrompts::new(inputs.tokenizer, plan.seed),
        wanted: plan.num_prompts,
        drafts: Vec::new(),
        available: 0,
        open: None,
        has_branches: false,
    };
    let name = path.display().to_string();
    for line in read_lines_with(path, inputs.progress)? {
        let (number, line) = line?;
        let place = format!("{name}, line {number}");
        let value: serde_json::Result<Value> = serde_json::from_str(&line);
        match value {
            Ok(value) => reading.value(&place, &value)?,
            // The start of a document over several lines.
            Err(error) if error.is_eof() && reading.available == 0 && reading.open.is_none() => {
                return document(path, reading, mode);
            }
            Err(error) => {
                return Err(wrong(
                    &place,
                    format!("not JSON: {}", message_without_line(&error)),
                ));
            }
        }
    }
    reading.into_read(&name, mode)
}

fn document(path: &Path, mut reading: Reading<'_>, mode: SessionMode) -> Result<Read> {
    let name = path.display().to_string();
    let is_list = input::first_byte(path, MAX_DATASET_BYTES)? == Some(b'[');
    let text = read_text(path)?;
    let error = |error: serde_json::Error| wrong(&name, format!("not JSON: {error}"));
    let items: Vec<&RawValue> = match is_list {
        true => serde_json::from_str(&text).map_err(error)?,
        false => vec![serde_json::from_str(&text).map_err(error)?],
    };
    let (mut start, mut line) = (0, 1);
    for item in items {
        let at = item.get().as_ptr() as usize - text.as_ptr() as usize;
        line += text[start..at].matches('\n').count();
        start = at;
        let value = serde_json::from_str(item.get()).map_err(error)?;
        reading.value(&format!("{name}, line {line}"), &value)?;
    }
    reading.into_read(&name, mode)
}

fn wrong(place: &str, what: impl std::fmt::Display) -> Error {
    Error::usage(format!("{place}: {what}")).hint(HINT)
}

struct Reading<'t> {
    prompts: TracePrompts<'t>,
    wanted: usize,
    drafts: Vec<Draft>,
    available: usize,
    /// The conversation of the last row of a message.
    open: Option<rows::Conversation>,
    has_branches: bool,
}

impl Reading<'_> {
    fn value(&mut self, place: &str, value: &Value) -> Result<()> {
        if let Value::Array(items) = value
            && !items.iter().all(|item| item.get("role").is_some())
        {
            let sessions = items.iter().enumerate();
            return sessions.into_iter().try_for_each(|(index, item)| {
                self.value(&format!("{place}, item {}", index + 1), item)
            });
        }
        let draft = if let Some(id) = value.get("conversation_id") {
            let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
            let is_next = self.open.as_ref().is_some_and(|open| open.id() != id);
            let ended = self.open.take_if(|_| is_next);
            let open = self
                .open
                .get_or_insert_with(|| rows::Conversation::new(place, id));
            open.add(place, value)?;
            ended.map(rows::Conversation::into_draft)
        } else if value["turns"].is_array() {
            Some(aiperf::draft(place, value)?)
        } else if value["requests"].is_array() {
            // Skipped sessions need no prompts.
            let prompts = (self.drafts.len() < self.wanted).then_some(&mut self.prompts);
            Some(weka::draft(place, value, self.available, prompts)?)
        } else {
            Some(chat::draft(place, value)?)
        };
        draft.map_or(Ok(()), |draft| self.add(draft))
    }

    fn add(&mut self, draft: Draft) -> Result<()> {
        if draft.turns.len() > MAX_TURNS {
            return Err(Error::usage(format!(
                "{}: a session of more than {MAX_TURNS} turns: {}",
                draft.place,
                draft.turns.len()
            ))
            .hint("split the session, or remove it"));
        }
        self.available += 1;
        let branches = |turn: &DraftTurn| !turn.forks.is_empty() || !turn.spawns.is_empty();
        self.has_branches |= draft.turns.iter().any(branches);
        // Branches come after the session that refers to them.
        if self.has_branches || self.drafts.len() < self.wanted {
            self.drafts.push(draft);
        }
        Ok(())
    }

    fn into_read(mut self, name: &str, mode: SessionMode) -> Result<Read> {
        if let Some(open) = self.open.take() {
            self.add(open.into_draft())?;
        }
        if self.drafts.is_empty() {
            return Err(Error::usage(format!("no sessions in {name}")).hint(HINT));
        }
        let (roots, drafts) = joined(self.drafts)?;
        let available = if self.has_branches {
            roots.len()
        } else {
            self.available
        };
        let mut tools = HashMap::new();
        let sessions = roots.iter().take(self.wanted);
        let sessions = sessions.map(|root| session(root, &drafts, mode, &mut tools));
        Ok(Read {
            sessions: sessions.collect::<Result<_>>()?,
            available,
        })
    }
}

/// The names of the sessions that no other one starts, in order, and all sessions by name. Sessions
/// without a name get one.
fn joined(drafts: Vec<Draft>) -> Result<(Vec<String>, HashMap<String, Draft>)> {
    let mut roots = Vec::new();
    let mut by_id: HashMap<String, Draft> = HashMap::new();
    for mut draft in drafts {
        if draft.id.is_empty() {
            draft.id = format!("\u{0}{}", by_id.len());
        }
        let (id, place) = (draft.id.clone(), draft.place.clone());
        roots.push(id.clone());
        if let Some(other) = by_id.insert(id, draft) {
            return Err(Error::usage(format!(
                "{place}: a second session {:?}, after {}",
                other.id, other.place
            ))
            .hint("give each session its own id"));
        }
    }
    let children = |draft: &Draft| -> Vec<String> {
        let turns = draft.turns.iter();
        turns
            .flat_map(|turn| {
                turn.forks
                    .iter()
                    .chain(turn.spawns.iter().map(|spawn| &spawn.id))
            })
            .cloned()
            .collect()
    };
    let started: HashSet<String> = by_id.values().flat_map(children).collect();
    if let Some(first) = roots
        .first()
        .filter(|_| roots.iter().all(|id| started.contains(id)))
    {
        let place = &by_id[first].place;
        return Err(Error::usage(format!(
            "{place}: sessions start each other in a cycle: {first:?}"
        ))
        .hint("start each session from an earlier one only"));
    }
    roots.retain(|id| !started.contains(id));
    Ok((roots, by_id))
}

/// A session with the sessions that its turns start, parents before children.
fn session(
    root: &str,
    drafts: &HashMap<String, Draft>,
    mode: SessionMode,
    tools: &mut HashMap<String, Option<Arc<Constraint>>>,
) -> Result<Session> {
    let mut building = Building {
        drafts,
        mode,
        tools,
        turns: Vec::new(),
    };
    building.add(root, None, &mut Vec::new())?;
    if building.turns.is_empty() {
        return Err(wrong(&drafts[root].place, "a session without turns"));
    }
    Ok(Session {
        turns: building.turns,
    })
}

struct Building<'d> {
    drafts: &'d HashMap<String, Draft>,
    mode: SessionMode,
    /// Constraints by the text of their tools.
    tools: &'d mut HashMap<String, Option<Arc<Constraint>>>,
    turns: Vec<SessionTurn>,
}

/// Where a session starts: after a turn, with its history or without.
struct Start {
    position: usize,
    history: Vec<Message>,
    id: String,
}

impl Building<'_> {
    /// Adds the turns of a session. Returns the position of its last turn.
    fn add(
        &mut self,
        id: &str,
        start: Option<Start>,
        ancestors: &mut Vec<String>,
    ) -> Result<usize> {
        let Some(draft) = self.drafts.get(id) else {
            let parent = ancestors.last().and_then(|parent| self.drafts.get(parent));
            let place = parent.map_or("", |parent| &parent.place);
            return Err(
                Error::usage(format!("{place}: no session {id:?} in the file"))
                    .hint("add the session that forks or spawns name, or remove the name"),
            );
        };
        if ancestors.iter().any(|ancestor| ancestor == id) {
            return Err(Error::usage(format!(
                "{}: sessions start each other in a cycle: {id:?}",
                draft.place
            ))
            .hint("start each session from an earlier one only"));
        }
        ancestors.push(id.to_owned());
        let mut history = start
            .as_ref()
            .map_or_else(Vec::new, |start| start.history.clone());
        let mut before: Option<usize> = start.as_ref().map(|start| start.position);
        let id_of_start = start.map(|start| start.id);
        let mut positions: Vec<usize> = Vec::new();
        // The last turns of spawned sessions, by the position of the turn that waits for them.
        let mut joins: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, turn) in draft.turns.iter().enumerate() {
            if turn.history == History::None {
                history.clear();
            }
            history.extend(turn.new.iter().cloned());
            check_results(&turn.place, &history)?;
            let mut after: Vec<usize> = match &turn.after {
                Some(own) if !own.is_empty() => own.iter().map(|own| positions[*own]).collect(),
                _ => before.into_iter().collect(),
            };
            after.extend(joins.remove(&number).unwrap_or_default());
            let position = self.turns.len();
            if position >= MAX_TURNS {
                return Err(Error::usage(format!(
                    "{}: a session of more than {MAX_TURNS} turns with its branches",
                    turn.place
                ))
                .hint("split the session, or remove it"));
            }
            let is_last = number + 1 == draft.turns.len() && turn.forks.is_empty();
            self.push(turn, &history, after, is_last)?;
            positions.push(position);
            before = Some(position);
            history.extend(turn.answer.iter().cloned());
            for fork in &turn.forks {
                let start = Start {
                    position,
                    history: history.clone(),
                    id: id.to_owned(),
                };
                self.add(fork, Some(start), ancestors)?;
            }
            for spawn in &turn.spawns {
                let start = Start {
                    position,
                    history: Vec::new(),
                    id: id.to_owned(),
                };
                let last = self.add(&spawn.id, Some(start), ancestors)?;
                joins.entry(spawn.join_at).or_default().push(last);
            }
        }
        ancestors.pop();
        before.filter(|_| !positions.is_empty()).ok_or_else(|| {
            let parent = id_of_start.unwrap_or_default();
            wrong(
                &draft.place,
                format!("a session without turns, which {parent:?} starts"),
            )
        })
    }

    fn push(
        &mut self,
        turn: &DraftTurn,
        history: &[Message],
        after: Vec<usize>,
        is_last: bool,
    ) -> Result<()> {
        if history.is_empty() {
            return Err(wrong(&turn.place, "a turn without messages"));
        }
        if turn.answer.is_none() && !is_last && self.mode == SessionMode::Recorded {
            return Err(Error::usage(format!(
                "{}: a turn without a recorded answer, which later turns need",
                turn.place
            ))
            .hint("use --session-mode live, or add the answers to the file"));
        }
        let constraint = self.constraint(turn)?;
        let reference = turn.answer.as_ref().filter(|_| constraint.is_some());
        self.turns.push(SessionTurn {
            messages: history.to_vec(),
            reference: reference.and_then(reference_of),
            constraint,
            output_len: turn.output_len,
            answer_text: turn.answer.as_ref().map(answer_text),
            after,
            delay_ms: turn.delay_ms.clamp(0.0, 1e9) as u64,
            tags: Vec::new(),
            name: turn.place.clone(),
        });
        Ok(())
    }

    /// The tools of a turn; equal ones are shared.
    fn constraint(&mut self, turn: &DraftTurn) -> Result<Option<Arc<Constraint>>> {
        let Some(tools) = turn
            .tools
            .as_ref()
            .filter(|tools| **tools != Value::Array(Vec::new()))
        else {
            return Ok(None);
        };
        let choice = turn.tool_choice.clone().unwrap_or_else(|| "auto".into());
        let members = Map::from_iter([
            ("tools".to_owned(), tools.clone()),
            ("tool_choice".to_owned(), choice),
        ]);
        let key = Value::Object(members.clone()).to_string();
        if let Some(known) = self.tools.get(&key) {
            return Ok(known.clone());
        }
        let set = ToolSet::from_members(&members)
            .map_err(|error| Error::usage(format!("{}: {}", turn.place, error.what)).hint(HINT))?;
        let constraint = Some(Arc::new(Constraint::Tools(Arc::new(set))));
        self.tools.insert(key, constraint.clone());
        Ok(constraint)
    }
}

/// The calls of a recorded answer as a reference; `None` without calls of functions.
fn reference_of(answer: &Message) -> Option<(String, Scorer)> {
    let read = |call: &Value| {
        let name = call["function"]["name"].as_str()?.to_owned();
        let arguments = call["function"]["arguments"].as_str()?;
        Some((name, serde_json::from_str(arguments).ok()?))
    };
    let calls: Vec<_> = calls(answer).map(read).collect::<Option<_>>()?;
    (!calls.is_empty()).then(|| (ground_truth(&calls), Scorer::Calls))
}

/// Checks that each result of a tool answers a call before it.
fn check_results(place: &str, history: &[Message]) -> Result<()> {
    let mut called: HashSet<&str> = HashSet::new();
    for message in history {
        called.extend(calls(message).filter_map(|call| call["id"].as_str()));
        let id = message.other.get("tool_call_id").and_then(Value::as_str);
        if message.role == "tool" && !id.is_some_and(|id| called.contains(id)) {
            let id = id.unwrap_or("without an id");
            return Err(Error::usage(format!(
                "{place}: the result of a call that no earlier turn makes: {id}"
            ))
            .hint("add the answer with the call, or correct the tool_call_id"));
        }
    }
    Ok(())
}
