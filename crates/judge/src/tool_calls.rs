//! Judges the tool calls of an answer by the tools of its request.
//!
//! The rules are those of OpenAI's API reference, "Create chat completion": each call has an id of
//! its own and the name of an offered tool; the arguments of a function are a JSON object; the
//! choice and `parallel_tool_calls` limit the calls. Arguments are judged by the schema of their
//! tool, `strict` or not: a client that reads them needs what the schema says.
//!
//! The first fault decides, in this order: markup of calls in the text, a call under `none`, the
//! calls one by one, their number, no call, the finish reason. Markup is no fault in an answer that
//! was cut inside of a call: a parser cannot read such a call.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::json_reader;
use super::json_scan::Dialect;
use super::{Ending, INCOMPLETE_CHARACTER, JudgeSettings, KindJudge, json_object, oversize};
use sobench_core::answer::{Answer, CallForm, Channel, ToolCall};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::tools::{TextFormat, TextSyntax, Tool, ToolChoice, ToolInput, ToolSet};
use sobench_core::verdict::{NotScored, Reason, ToolCallFault, Verdict};

/// Markup of calls in the formats that models are trained on. A server's parser removes it, so in
/// the content or the reasoning of an answer it shows a call that the parser did not read.
///
/// Source: the constants of the parsers of vLLM 0.32 (`vllm/tool_parsers`, `vllm/parser`).
const MARKUP: &[&str] = &[
    // Hermes, Qwen, ERNIE, Hunyuan, Jamba, Granite 4, GLM.
    "<tool_call",
    "</tool_call",
    // Kimi K2, Phi 4, LFM 2, Gemma 4.
    "<|tool_call",
    // Llama 3 and 4.
    "<|python_tag|>",
    "<|python_start|>",
    // Qwen3-Coder, Llama, Step, MiniCPM.
    "<function=",
    // Granite 20B, DeepSeek, Olmo 3.
    "<function_call",
    // FunctionGemma.
    "<start_function_call>",
    // Mistral.
    "[TOOL_CALLS]",
    // DeepSeek 3 to 4.
    "<｜tool▁call",
    "<｜tool_call",
    "<｜DSML｜",
    // MiniMax, and formats with `invoke`.
    "<minimax:tool_call>",
    "<invoke name=",
    "<steptml:invoke",
    "<atem:function_calls>",
    // Seed, LongCat, dots, K2.
    "<seed:tool_call>",
    "<longcat_tool_call>",
    "<dots_function_call>",
    "<ifm|tool_call",
    // Apertus, PLaMo, InternLM 2, Cohere.
    "<|tools_prefix|>",
    "<|plamo:begin_tool_request",
    "<|action_start|>",
    "<|START_ACTION|>",
    // Inkling.
    "<|content_invoke_tool",
    // gpt-oss (harmony).
    " to=functions.",
    // Phi 4 mini.
    "functools[",
];

/// The name of a call that is written as plain JSON, as Llama 3 does.
const JSON_MARKUP: &str = "a call as JSON";

/// Judges calls by one tool set.
pub(super) struct ToolCallJudge {
    tools: Arc<ToolSet>,
    by_name: HashMap<String, usize>,
    /// What judges the input of each tool, compiled for its first call.
    inputs: Vec<OnceLock<InputJudge>>,
    options: JudgeSettings,
}

/// What judges the input of a tool.
enum InputJudge {
    /// Arguments, which are an object.
    Function(KindJudge),
    Text(KindJudge),
    AnyText,
}

impl ToolCallJudge {
    pub(super) fn new(tools: &Arc<ToolSet>, options: JudgeSettings) -> Self {
        let names = tools.tools.iter().map(|tool| tool.name.clone());
        Self {
            by_name: names.zip(0..).collect(),
            inputs: tools.tools.iter().map(|_| OnceLock::new()).collect(),
            tools: Arc::clone(tools),
            options,
        }
    }

    /// Judges a whole answer.
    pub(super) fn judge(&self, answer: &Answer, ending: Ending<'_>) -> Verdict {
        let invalid = |reason| Verdict::Invalid { reason };
        let is_cut = ending.is_cut();
        let calls = &answer.tool_calls;
        if let Some(reason) = oversize(&answer.content) {
            return invalid(reason);
        }
        if let Some(fault) = self.leaked_markup(answer)
            && !(is_cut && is_cut_in_call(answer))
        {
            return invalid(Reason::ToolCall(fault));
        }
        let mut why_not_scored = None;
        if let Some(fault) = self.fault_of_calls(calls, is_cut, &mut why_not_scored) {
            return invalid(Reason::ToolCall(fault));
        }
        if let Some(why) = why_not_scored {
            return Verdict::NotScored { why };
        }
        if is_cut {
            return invalid(Reason::Truncated);
        }
        if calls.is_empty() && self.tools.choice.requires_call() {
            return invalid(Reason::ToolCall(ToolCallFault::MissingCall));
        }
        if let Some(reason) = ending.finish_reason
            && !self.fits(reason, calls)
        {
            return invalid(Reason::ToolCall(ToolCallFault::WrongFinishReason {
                finish_reason: reason.to_owned(),
                calls: calls.len(),
            }));
        }
        if calls.is_empty() && answer.content.trim().is_empty() && answer.refusal.is_empty() {
            return invalid(Reason::Empty);
        }
        Verdict::Valid
    }

    /// The first fault of the calls and of their number. `why_not_scored` is set if the input of a
    /// call cannot be judged.
    fn fault_of_calls(
        &self,
        calls: &[ToolCall],
        is_cut: bool,
        why_not_scored: &mut Option<NotScored>,
    ) -> Option<ToolCallFault> {
        if let (ToolChoice::None, Some(call)) = (&self.tools.choice, calls.first()) {
            let name = call.name.clone();
            return Some(ToolCallFault::CallUnderNone { name });
        }
        let mut ids = HashSet::new();
        for (index, call) in calls.iter().enumerate() {
            let is_unfinished = is_cut && index + 1 == calls.len();
            if let Some(fault) = self.fault_of_call(index, call, is_unfinished, why_not_scored) {
                return Some(fault);
            }
            if !call.id.is_empty() && !ids.insert(call.id.as_str()) {
                let id = call.id.clone();
                return Some(ToolCallFault::DuplicateCallId { call: index, id });
            }
        }
        (calls.len() > 1 && !self.tools.allows_several_calls())
            .then_some(ToolCallFault::TooManyCalls { calls: calls.len() })
    }

    fn fault_of_call(
        &self,
        index: usize,
        call: &ToolCall,
        is_unfinished: bool,
        why_not_scored: &mut Option<NotScored>,
    ) -> Option<ToolCallFault> {
        let name = || call.name.clone();
        // An unfinished call may have no more than the start of its name.
        let has_only_a_name = is_unfinished && call.arguments.is_empty();
        let Some(position) = self.by_name.get(&call.name) else {
            let may_continue = has_only_a_name
                && self
                    .by_name
                    .keys()
                    .any(|known| known.starts_with(&call.name));
            return (!may_continue).then(|| ToolCallFault::UnknownTool {
                call: index,
                name: name(),
            });
        };
        if !self.tools.choice.allows(&call.name) {
            return Some(ToolCallFault::WrongTool {
                call: index,
                name: name(),
            });
        }
        if call.id.is_empty() && !has_only_a_name {
            return Some(ToolCallFault::MissingCallId { call: index });
        }
        let is_function = matches!(
            self.tools.tools[*position].input,
            ToolInput::Function { .. }
        );
        if call.form == CallForm::Object && is_function {
            return Some(ToolCallFault::ArgumentsNotText {
                call: index,
                name: name(),
            });
        }
        match self.input_reason(*position, &call.arguments, is_unfinished) {
            Ok(reason) => reason.map(|why| ToolCallFault::InvalidArguments {
                call: index,
                name: name(),
                why: Box::new(why),
            }),
            Err(why) => {
                why_not_scored.get_or_insert(why);
                None
            }
        }
    }

    /// Why the input of a call is invalid; the error says why it cannot be judged.
    fn input_reason(
        &self,
        tool: usize,
        text: &str,
        is_unfinished: bool,
    ) -> Result<Option<Reason>, NotScored> {
        let judge = self.inputs[tool]
            .get_or_init(|| InputJudge::compile(&self.tools.tools[tool], self.options));
        let (InputJudge::Function(compiled) | InputJudge::Text(compiled)) = judge else {
            return Ok(oversize(text));
        };
        if let KindJudge::NotScorable(why) = compiled {
            return Err(why.clone());
        }
        if let Some(reason) = oversize(text) {
            return Ok(Some(reason));
        }
        let is_object = text.trim_start().starts_with('{');
        let must_be_object = matches!(judge, InputJudge::Function(_)) && !is_object;
        if is_unfinished {
            let text = text.trim_end_matches(INCOMPLETE_CHARACTER);
            let is_other_value = must_be_object && !text.trim().is_empty();
            let not_an_object = || json_object::judge(&Value::Null).into_reason();
            let reason = compiled.final_violation(text);
            return Ok(reason.or_else(|| is_other_value.then(not_an_object).flatten()));
        }
        match compiled.judge(text) {
            Verdict::Valid if must_be_object => Ok(json_object::judge(&Value::Null).into_reason()),
            Verdict::Valid => Ok(None),
            Verdict::Invalid { reason } => Ok(Some(reason)),
            Verdict::NotScored { why } => Err(why),
        }
    }

    /// Whether the finish reason fits the calls. It is `tool_calls` for answers with calls. OpenAI
    /// and vLLM send `stop` for a call of the named tool, and OpenAI did for `required` (vLLM's
    /// pull request 25054 has a table).
    fn fits(&self, finish_reason: &str, calls: &[ToolCall]) -> bool {
        match (finish_reason, calls.is_empty()) {
            ("tool_calls", is_empty) => !is_empty,
            (_, true) => true,
            ("stop", false) => self.tools.choice.requires_call(),
            (_, false) => false,
        }
    }

    /// The first markup of a call in the content or the reasoning.
    fn leaked_markup(&self, answer: &Answer) -> Option<ToolCallFault> {
        let texts = [
            (Channel::Content, &answer.content),
            (Channel::Reasoning, &answer.reasoning),
        ];
        let leaked = texts.into_iter().find_map(|(channel, text)| {
            let first = MARKUP
                .iter()
                .filter_map(|markup| Some((text.find(markup)?, *markup)));
            let (byte, markup) = first.min()?;
            Some((channel, byte, markup))
        });
        let (channel, byte, markup) = match leaked {
            Some(leaked) => leaked,
            None if self.is_call_as_json(&answer.content) => (Channel::Content, 0, JSON_MARKUP),
            None => return None,
        };
        Some(ToolCallFault::LeakedMarkup {
            channel,
            markup: markup.to_owned(),
            byte,
        })
    }

    /// Whether a text is a call of one of the tools, or a list of calls, and nothing else.
    fn is_call_as_json(&self, text: &str) -> bool {
        let text = text.trim();
        if !text.starts_with(['{', '[']) || text.len() > super::MAX_ANSWER_BYTES {
            return false;
        }
        let is_call = |value: &Value| {
            let name = value.get("name").and_then(Value::as_str);
            name.is_some_and(|name| self.by_name.contains_key(name))
                && ["arguments", "parameters"]
                    .iter()
                    .any(|member| value.get(member).is_some_and(Value::is_object))
        };
        match serde_json::from_str::<Value>(text) {
            Ok(Value::Array(calls)) => !calls.is_empty() && calls.iter().all(is_call),
            Ok(call) => is_call(&call),
            Err(_) => false,
        }
    }
}

/// Whether an answer was cut inside a call that the server's parser left in the text, as parsers do
/// with a call that is not complete.
fn is_cut_in_call(answer: &Answer) -> bool {
    let text = match answer.content.trim() {
        "" => &*answer.reasoning,
        content => content,
    };
    MARKUP.iter().any(|markup| {
        let start = text.rfind(markup).map(|at| &text[at..]);
        start.is_some_and(|call| !markup.starts_with("</") && is_open_call(markup, call))
    })
}

/// Whether `call`, a text that starts with `markup`, has no end: no closing tag, or no complete JSON
/// text.
fn is_open_call(markup: &str, call: &str) -> bool {
    let name = markup.trim_start_matches('<');
    let name = &name[..name.find(['=', ' ', '>']).unwrap_or(name.len())];
    if markup.starts_with('<') && name.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return !call.contains(&format!("</{name}"));
    }
    let document = call.match_indices(['{', '[']).find_map(|(start, _)| {
        match json_reader::read(call, start, Dialect::Rfc8259) {
            Ok(document) => Some(Some(document.end)),
            Err(error) => error.at_end.then_some(None),
        }
    });
    match document {
        Some(Some(end)) => {
            let rest = call[end..].trim();
            rest.is_empty() || (rest.starts_with('<') && !rest.contains('>'))
        }
        Some(None) => true,
        None => !["end|>", "end｜>"].iter().any(|end| call.contains(end)),
    }
}

impl InputJudge {
    fn compile(tool: &Tool, options: JudgeSettings) -> Self {
        let compile = |constraint: &Constraint| KindJudge::new(constraint, None, options);
        match &tool.input {
            ToolInput::Function {
                parameters: None, ..
            } => Self::Function(KindJudge::JsonObject),
            ToolInput::Function {
                parameters: Some(schema),
                ..
            } => Self::Function(compile(&Constraint::JsonSchema(Arc::new(schema.clone())))),
            ToolInput::Custom {
                format: TextFormat::Any,
            } => Self::AnyText,
            ToolInput::Custom {
                format: TextFormat::Grammar { syntax, definition },
            } => Self::Text(compile(&match syntax {
                TextSyntax::Regex => Constraint::Regex(definition.as_str().into()),
                TextSyntax::Lark => Constraint::Grammar {
                    dialect: GrammarDialect::Lark,
                    text: definition.as_str().into(),
                },
            })),
        }
    }
}

#[cfg(test)]
mod tests;
