//! What the end of a request showed: its outcome, times, and what its answer names.

use std::sync::Arc;

use crate::Sample;
use crate::columns::{Bits, Copied, Dense, Interned, Maybe, Sparse, Texts, columns};
use sobench_core::answer::AnsweredBy;
use sobench_core::case::{Arm, Case, Turn};
use sobench_core::channel_timing::ChannelTiming;
use sobench_core::departure::Departures;
use sobench_core::observation::{CountChecks, CountFault, Observation, Outcome, ServerTimes};

columns! {
    /// What is known of a request when it has ended.
    pub struct Observed in Sample.observed: ObservedColumns {
        /// The number of the request in the plan.
        case_index: usize => Dense<usize, u32>,
        /// The offset of its line in the run log.
        offset: u64 => Dense<u64>,
        /// The arm of the request.
        arm: Arm => Bits<Arm>,
        /// The item of the request, in a run with several arms of each item.
        item: Option<u32> => Copied<u32>,
        /// Its place in its session; `None` for a single request.
        turn: Option<Arc<Turn>> => Sparse<Arc<Turn>>,
        /// The outcome of the request.
        outcome: Outcome => Interned<Outcome>,
        /// The finish reason from the server.
        finish_reason: Option<String> => Texts,
        /// The times of [`sobench_core::observation::Timing`].
        due_ns: u64 => Dense<u64>,
        ready_ns: Option<u64> => Dense<Option<u64>, u64>,
        sent_ns: Option<u64> => Dense<Option<u64>, u64>,
        first_content_ns: Option<u64> => Dense<Option<u64>, u64>,
        last_content_ns: Option<u64> => Dense<Option<u64>, u64>,
        end_ns: Option<u64> => Dense<Option<u64>, u64>,
        /// Duration of the system call that sent it; `None` if unknown.
        send_call_ns: Option<u64> => Dense<Option<u64>, u32>,
        /// First reasoning and first content of the answer, for answers with reasoning.
        reasoned_ns: Option<(Option<u64>, Option<u64>)> => Copied<(Option<u64>, Option<u64>)>,
        /// First arguments of a tool call.
        first_arguments_ns: Option<u64> => Copied<u64>,
        /// Number of chunks with content.
        chunks: u64 => Dense<u64, u32>,
        /// The channels of its chunks; `None` for an answer with content only, and if unknown.
        channels: Option<ChannelTiming> => Sparse<ChannelTiming>,
        /// Times that the server reported with the answer; `None` without any.
        server_times: Option<ServerTimes> => Copied<ServerTimes>,
        /// Whether the answer came as a stream.
        came_as_stream: bool => Bits<bool>,
        /// Whether its times are in order ([`sobench_core::observation::Timing::is_in_order`]).
        is_in_order: bool => Bits<bool>,
        /// How the answer departs from the API; `None` if it does not.
        departures: Option<Departures> => Maybe<Departures>,
        /// The model and the server that the answer names; `None` without an answer and names.
        answered_by: Option<AnsweredBy> => Maybe<AnsweredBy>,
        /// Whether the server reported input tokens, and output tokens.
        stated_input: bool => Bits<bool>,
        stated_output: bool => Bits<bool>,
        /// Tokens of the prompt that the server took from its prefix cache; `None` if unknown.
        cached_tokens: Option<u64> => Copied<u64>,
        /// A bit for each [`CountFault`] of the server's token counts.
        count_faults: u64 => Bits<u64>,
    }
}

impl Observed {
    /// The facts of a request whose line starts at `offset`.
    pub(crate) fn new(case: &Case, observation: &Observation, offset: u64) -> Self {
        let Observation {
            case_index,
            outcome,
            timing,
            answer,
            finish_reason,
            usage,
        } = observation;
        let chunks = timing.chunks_ns.len();
        let tools = case
            .constraint
            .as_deref()
            .and_then(|constraint| constraint.tools());
        let departures = Departures::of_answer(observation, tools);
        let names_itself = outcome.is_answer() && !answer.answered_by.is_empty();
        let [stated_input, stated_output] =
            usage.map_or([false; 2], |usage| usage.is_stated(chunks));
        Self {
            case_index: *case_index,
            offset,
            arm: case.arm,
            item: case.item,
            turn: case.turn.clone(),
            outcome: outcome.clone(),
            finish_reason: finish_reason.clone(),
            due_ns: timing.due_ns,
            ready_ns: timing.ready_ns,
            sent_ns: timing.sent_ns,
            first_content_ns: timing.first_content_ns(),
            last_content_ns: timing.last_content_ns(),
            end_ns: timing.end_ns,
            send_call_ns: timing.send_call_ns,
            reasoned_ns: timing
                .first_reasoning_ns
                .map(|_| (timing.first_reasoning_ns, timing.first_answer_ns)),
            first_arguments_ns: timing.first_arguments_ns,
            chunks: chunks as u64,
            channels: timing.channels.clone(),
            server_times: timing.server,
            came_as_stream: timing.streamed,
            is_in_order: timing.is_in_order(),
            departures: (!departures.is_empty()).then_some(departures),
            answered_by: names_itself.then(|| answer.answered_by.clone()),
            stated_input,
            stated_output,
            cached_tokens: usage.and_then(|usage| {
                let checks = CountChecks::new(&case.prompt, answer, chunks);
                usage.plausible(checks, None).cached_tokens
            }),
            count_faults: count_faults(case, observation),
        }
    }
}

fn count_faults(case: &Case, observation: &Observation) -> u64 {
    let Some(usage) = observation.usage else {
        return 0;
    };
    let chunks = observation.timing.chunks_ns.len();
    let checks = CountChecks::new(&case.prompt, &observation.answer, chunks);
    let faults = CountFault::ALL.into_iter();
    faults
        .filter(|fault| usage.has_fault(*fault, checks))
        .map(|fault| 1 << fault as u64)
        .sum()
}
