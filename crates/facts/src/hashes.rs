//! Hashes of requests by content, by which copies are found.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::sync::Arc;

use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Observation, Outcome};

/// A hash that is the same in every run of the program.
pub(crate) fn hash(value: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(value)
}

/// A hash of a constraint by content.
pub fn constraint_hash(constraint: &Constraint) -> u64 {
    hash(&constraint.fingerprint())
}

/// A hash of what is sent and judged, by content. `constraint` is the hash of the case's constraint
/// ([`constraint_hash`]).
pub fn content_hash(case: &Case, constraint: Option<u64>) -> u64 {
    let rest = (constraint, case.output_len, &case.model);
    match &case.prompt {
        Prompt::Text(text) | Prompt::Body(text) => hash(&(text, rest)),
        Prompt::Messages(messages) => {
            let messages: Vec<_> = messages
                .iter()
                .map(|message| (&message.role, &message.content, &message.other))
                .collect();
            hash(&(messages, rest))
        }
        Prompt::Audio(clip) => hash(&(Arc::as_ptr(clip) as usize, rest)),
        Prompt::Ranking { query, documents } => hash(&(query, documents, rest)),
    }
}

/// A hash that is equal for copies: the same request with the same answer, or refused in the same
/// way. Each failure is a case of its own, because its cause is not in the request. `content` is the
/// hash of the request ([`content_hash`]).
pub fn copy_hash(content: u64, arm: Arm, observation: &Observation) -> u64 {
    let request = (content, arm);
    if has_copies(&observation.outcome) {
        let answer = &observation.answer;
        let names = answer.tool_calls.iter().map(|call| &call.name);
        hash(&(
            request,
            &observation.outcome,
            &*answer.text(),
            names.collect::<Vec<_>>(),
        ))
    } else {
        hash(&(request, observation.case_index))
    }
}

/// Whether equal requests with this outcome are copies of each other. Their [`copy_hash`] does not
/// depend on the number of the request.
pub fn has_copies(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Completed
        | Outcome::Truncated
        | Outcome::Rejected { .. }
        | Outcome::Refused { .. }
        | Outcome::Unsupported { .. } => true,
        Outcome::ServerError { .. }
        | Outcome::StreamError { .. }
        | Outcome::Transport { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Cancelled
        | Outcome::Abandoned => false,
    }
}
