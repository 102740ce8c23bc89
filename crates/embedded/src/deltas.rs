//! The parts of an answer as the API has them: calls have ids and indices. Injects the faults of
//! tool calls and reasoning that change no token.

use super::channels::{ChannelEvent, ChannelParser};
use super::faults::{FaultKind, RequestFaults};

/// Characters of the answer that an early constraint puts into the reasoning.
const EARLY_CHARS: usize = 2;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Delta {
    Reasoning(String),
    Content(String),
    CallStart {
        index: usize,
        id: String,
        name: String,
        is_custom: bool,
    },
    Arguments {
        index: usize,
        is_custom: bool,
        text: String,
    },
}

/// What the deltas of one answer depend on.
#[derive(Default)]
pub(super) struct DeltaSettings {
    pub(super) parser: ChannelParser,
    /// Start of the ids of calls. The number of the call follows.
    pub(super) id_prefix: String,
    /// Whether the reasoning is sent.
    pub(super) includes_reasoning: bool,
    /// The end mark of reasoning, which a fault puts into the content.
    pub(super) end_mark: &'static str,
    /// A name that a fault gives to a call.
    pub(super) wrong_tool: String,
}

/// Reads the deltas of one answer from its text.
pub(super) struct Deltas {
    options: DeltaSettings,
    /// Number of calls so far, and whether the last one is of a custom tool.
    calls: usize,
    is_custom: bool,
    has_answer: bool,
    /// Number of characters that an injected fault has still to put into the reasoning.
    early_chars: usize,
    /// The last character of the current arguments, withheld by a fault.
    last_char: Option<char>,
    /// Arguments withheld by a fault.
    buffered: Vec<Delta>,
}

impl Deltas {
    pub(super) fn new(mut options: DeltaSettings, faults: &mut RequestFaults) -> Self {
        if options.parser.calls.is_some() && faults.inject(FaultKind::LeakMarkup) {
            options.parser.calls = None;
        }
        let is_early = faults.has(FaultKind::ConstraintEarly);
        Self {
            options,
            calls: 0,
            is_custom: false,
            has_answer: false,
            early_chars: if is_early { EARLY_CHARS } else { 0 },
            last_char: None,
            buffered: Vec::new(),
        }
    }

    /// Whether a call has started.
    pub(super) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Reads a piece of text. The last one releases all text that is held back.
    pub(super) fn read(
        &mut self,
        text: &str,
        is_last: bool,
        faults: &mut RequestFaults,
    ) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for event in self.options.parser.read(text, is_last) {
            if !matches!(event, ChannelEvent::Reasoning(_)) {
                self.start_answer(faults, &mut deltas);
            }
            match event {
                ChannelEvent::Reasoning(text) => deltas.push(Delta::Reasoning(text)),
                ChannelEvent::Content(text) => self.add_content(text, faults, &mut deltas),
                ChannelEvent::CallStart { name, is_custom } => {
                    self.start_call(name, is_custom, faults, &mut deltas);
                }
                ChannelEvent::Arguments(text) => self.add_arguments(text, faults, &mut deltas),
            }
        }
        if is_last {
            if self.last_char.take().is_some() {
                faults.inject(FaultKind::CutArguments);
            }
            if !self.buffered.is_empty() {
                faults.inject(FaultKind::BufferArguments);
                deltas.append(&mut self.buffered);
            }
        }
        if !self.options.includes_reasoning {
            deltas.retain(|delta| !matches!(delta, Delta::Reasoning(_)));
        }
        deltas
    }

    /// Before the first part that is not reasoning.
    fn start_answer(&mut self, faults: &mut RequestFaults, deltas: &mut Vec<Delta>) {
        if !std::mem::replace(&mut self.has_answer, true) && faults.inject(FaultKind::LeakEndMarker)
        {
            deltas.push(Delta::Content(format!("{}\n\n", self.options.end_mark)));
        }
    }

    fn add_content(&mut self, text: String, faults: &mut RequestFaults, deltas: &mut Vec<Delta>) {
        if faults.inject(FaultKind::AnswerInReasoning) {
            deltas.push(Delta::Reasoning(text));
            return;
        }
        if self.early_chars == 0 {
            deltas.push(Delta::Content(text));
            return;
        }
        faults.inject(FaultKind::ConstraintEarly);
        let early: String = text.chars().take(self.early_chars).collect();
        self.early_chars -= early.chars().count();
        let rest = text[early.len()..].to_owned();
        deltas.push(Delta::Reasoning(early));
        if !rest.is_empty() {
            deltas.push(Delta::Content(rest));
        }
    }

    fn start_call(
        &mut self,
        name: String,
        is_custom: bool,
        faults: &mut RequestFaults,
        deltas: &mut Vec<Delta>,
    ) {
        if self.last_char.take().is_some() {
            faults.inject(FaultKind::CutArguments);
        }
        self.is_custom = is_custom;
        if self.calls > 0 && faults.inject(FaultKind::MergeCalls) {
            return;
        }
        let index = self.calls;
        self.calls += 1;
        let is_duplicate = index > 0 && faults.inject(FaultKind::DuplicateId);
        let number = if is_duplicate { 0 } else { index };
        let name = if faults.inject(FaultKind::WrongTool) {
            self.options.wrong_tool.clone()
        } else {
            name
        };
        deltas.push(Delta::CallStart {
            index,
            id: format!("{}{number:02}", self.options.id_prefix),
            name,
            is_custom,
        });
    }

    fn add_arguments(&mut self, mut text: String, faults: &RequestFaults, deltas: &mut Vec<Delta>) {
        if faults.has(FaultKind::CutArguments) {
            if let Some(last) = self.last_char.take() {
                text.insert(0, last);
            }
            self.last_char = text.pop();
        }
        if text.is_empty() {
            return;
        }
        let index = self.calls.saturating_sub(1);
        let is_custom = self.is_custom;
        if !faults.has(FaultKind::BufferArguments) {
            deltas.push(Delta::Arguments {
                index,
                is_custom,
                text,
            });
            return;
        }
        match self.buffered.last_mut() {
            Some(Delta::Arguments {
                index: last,
                text: buffered,
                ..
            }) if *last == index => buffered.push_str(&text),
            _ => self.buffered.push(Delta::Arguments {
                index,
                is_custom,
                text,
            }),
        }
    }
}

/// An answer in one body.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct WholeAnswer {
    pub(super) reasoning: String,
    pub(super) content: String,
    pub(super) calls: Vec<WholeCall>,
}

/// A call of an answer in one body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WholeCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    pub(super) is_custom: bool,
}

impl WholeAnswer {
    pub(super) fn new(deltas: Vec<Delta>) -> Self {
        let mut whole = Self::default();
        for delta in deltas {
            match delta {
                Delta::Reasoning(text) => whole.reasoning.push_str(&text),
                Delta::Content(text) => whole.content.push_str(&text),
                Delta::CallStart {
                    id,
                    name,
                    is_custom,
                    ..
                } => whole.calls.push(WholeCall {
                    id,
                    name,
                    arguments: String::new(),
                    is_custom,
                }),
                Delta::Arguments { index, text, .. } => {
                    if let Some(call) = whole.calls.get_mut(index) {
                        call.arguments.push_str(&text);
                    }
                }
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::reasoning::{ReasoningParser, ReasoningStyle};
    use crate::tools::{CallParser, ToolStyle};
    use sobench_core::tools::ToolSet;

    #[test]
    fn a_faithful_answer_has_both_calls() {
        let text = "<think>\nHm\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>\n\
            <tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 2}}\n</tool_call>";
        let mut faults = RequestFaults::default();
        let tools = json!({"tools": [{"type": "function", "function": {"name": "f"}}]});
        let tools = Arc::new(ToolSet::from_members(tools.as_object().unwrap()).unwrap());
        let options = DeltaSettings {
            parser: ChannelParser {
                reasoning: Some(ReasoningParser::new(ReasoningStyle::Qwen3)),
                calls: Some(CallParser::new(ToolStyle::Hermes, tools)),
            },
            id_prefix: "call_".to_owned(),
            includes_reasoning: true,
            ..DeltaSettings::default()
        };
        let mut deltas = Deltas::new(options, &mut faults);
        let mut all = Vec::new();
        for character in text.chars() {
            all.extend(deltas.read(&character.to_string(), false, &mut faults));
        }
        all.extend(deltas.read("", true, &mut faults));
        let is_argument = |delta: &&Delta| matches!(delta, Delta::Arguments { .. });
        assert!(all.iter().filter(is_argument).count() > 4);
        let answer = WholeAnswer::new(all);
        assert_eq!(
            (answer.reasoning.as_str(), answer.content.as_str()),
            ("Hm", "")
        );
        let ids: Vec<&str> = answer.calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids, ["call_00", "call_01"]);
        assert!(answer.calls.iter().all(|call| call.name == "f"));
    }
}
