//! A chat server with a model that thinks, and a server that constrains the answer after the
//! thoughts, except for one fault.

use serde_json::Value;

use crate::chat::{ChatAnswer, ChatReply, chat_server, prompt};
use crate::constrained::allowed;
use crate::scripted::ScriptedServer;

/// What the server does wrong, in constrained requests unless stated otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningFault {
    /// Starts the constraint before the thoughts, which are then left out.
    Suppress,
    /// Applies the constraint to the thoughts and to the answer.
    ConstrainThoughts,
    /// Starts the constraint in the middle of the thoughts.
    StartEarly,
    /// Starts the constraint after the first words of the answer.
    StartLate,
    /// Does not start the constraint after thoughts.
    NeverStart,
    /// Puts the constrained text in the reasoning.
    JsonInReasoning,
    /// The same, with thinking off only.
    JsonInReasoningOff,
    /// Leaves the end marker of the thoughts in the content.
    KeepEndMarker,
    /// Leaves the thoughts and their markers in the content, of every answer.
    NoParser,
    /// The thoughts use all tokens.
    ThinkOnAndOn,
    /// The same, in answers of at most this number of tokens.
    ThinkToTokens(u64),
    /// The model does not think, in any answer.
    NoThoughts,
    /// Refuses `chat_template_kwargs` in any request, and reads `reasoning_effort`.
    EffortOnly,
    /// Ignores constraints.
    DropConstraint,
    /// Refuses constraints.
    RejectConstraint,
}

/// The server.
pub fn reasoning_server(fault: Option<ReasoningFault>) -> ScriptedServer {
    chat_server(move |body| reply(body, fault))
}

fn reply(body: &Value, fault: Option<ReasoningFault>) -> ChatReply {
    let is = |other: ReasoningFault| fault == Some(other);
    let variables = &body["chat_template_kwargs"];
    if is(ReasoningFault::EffortOnly) && !variables.is_null() {
        return ChatReply::Status("400 Bad Request", "unknown field: chat_template_kwargs");
    }
    let is_on = !is(ReasoningFault::NoThoughts)
        && (variables["enable_thinking"] == true || body["reasoning_effort"] == "medium");
    let thoughts = match prompt(body).split_once("write the word ") {
        Some((_, rest)) if is_on => {
            let word = rest.split(' ').next().unwrap();
            format!("I think of {word}, and of the sea.")
        }
        _ if is_on => "I think of the sea.".to_owned(),
        _ => String::new(),
    };
    let prose = "The waves are high today.";
    let document = allowed(body).filter(|_| !is(ReasoningFault::DropConstraint));
    let Some(document) = document else {
        if is(ReasoningFault::NoParser) && is_on {
            return ChatAnswer::from_text(format!("<think>{thoughts}</think>{prose}")).into();
        }
        return ChatAnswer::thinking(thoughts, prose).into();
    };
    if is(ReasoningFault::RejectConstraint) {
        return ChatReply::Status("400 Bad Request", "no constraints with this model");
    }
    constrained(body, &thoughts, &document, fault).into()
}

fn constrained(
    body: &Value,
    thoughts: &str,
    document: &str,
    fault: Option<ReasoningFault>,
) -> ChatAnswer {
    use ReasoningFault::{
        ConstrainThoughts, JsonInReasoning, JsonInReasoningOff, KeepEndMarker, NeverStart,
        NoParser, StartEarly, StartLate, Suppress, ThinkOnAndOn, ThinkToTokens,
    };
    let fine = || ChatAnswer::thinking(thoughts, document);
    if thoughts.is_empty() {
        return match fault {
            Some(JsonInReasoning | JsonInReasoningOff) => ChatAnswer::thinking(document, ""),
            _ => fine(),
        };
    }
    let limit = body["max_completion_tokens"].as_u64().unwrap_or(u64::MAX);
    let (start, end) = document.split_at(document.len() / 2);
    match fault {
        Some(Suppress) => ChatAnswer::from_text(document),
        Some(ConstrainThoughts) => ChatAnswer::thinking(document, document),
        Some(StartEarly) => ChatAnswer::thinking(format!("{thoughts} {document}"), end),
        Some(StartLate) => ChatAnswer::thinking(thoughts, format!("{thoughts} {start}{end}")),
        Some(NeverStart) => ChatAnswer::thinking(thoughts, "The waves are high today."),
        Some(JsonInReasoning) => ChatAnswer::thinking(document, ""),
        Some(KeepEndMarker) => ChatAnswer::thinking(thoughts, format!("</think>{document}")),
        Some(NoParser) => ChatAnswer::from_text(format!("<think>{thoughts}</think>{document}")),
        Some(ThinkOnAndOn) => ChatAnswer::thinking(thoughts, "").cut(),
        Some(ThinkToTokens(tokens)) if limit <= tokens => ChatAnswer::thinking(thoughts, "").cut(),
        _ => fine(),
    }
}
