//! A view of one request for computing figures.

use std::sync::Arc;

use super::{
    ArrivalSlack, CALL_DUE, CALLS_KNOWN, COUNT_FAULT, ChunkSlack, ChunksAndTokens, DUE_KNOWN,
    GRADE, GRADE_SHIFT, HAS_CALL, IN_ORDER, MADE_CALL, NONE, NONE_NS, RIGHT_CALL, RequestInput,
    RequestTimes, SCRIPT_CORRECT, SCRIPT_SCORES, SLACK_KNOWN, STATED_INPUT, STATED_OUTPUT,
    STREAMED, WHITE_SPACE_RUN, WHOLE,
};
use crate::metrics::reasoning::ReasoningFacts;
use crate::metrics::stream_parity::Parity;
use crate::metrics::{Judged, Sample, TokenSource, Tokens};
use sobench_core::answer::{Answer, AnsweredBy};
use sobench_core::case::{Arm, Case};
use sobench_core::channel_timing::ChannelTiming;
use sobench_core::constraint::Constraint;
use sobench_core::departure::Departures;
use sobench_core::observation::{CountFault, Observation, Outcome, ServerTimes, Timing};
use sobench_core::verdict::{NotScored, Verdict};
use sobench_judge::accuracy::{Accuracy, Grade, Leaves};
use sobench_judge::canary::CanaryAnswer;
use sobench_judge::free_choices::FreeChoices;

fn time(ns: u64) -> Option<u64> {
    (ns != NONE_NS).then_some(ns)
}

/// The verdict of a request that was not judged.
static UNJUDGED: Verdict = Verdict::NotScored {
    why: NotScored::Cancelled,
};

impl<'a> Sample<'a> {
    /// The number of the request in the plan.
    pub fn case_index(&self) -> usize {
        self.row.case_index as usize
    }

    /// The id of the case, with its lap if cases were repeated.
    pub fn id(&self) -> String {
        self.ledger.ids.text(self.row.id).unwrap_or_default()
    }

    /// The arm of the request.
    pub fn arm(&self) -> Arm {
        self.row.arm
    }

    /// The item of the request, in a run with several arms of each item.
    pub fn item(&self) -> Option<u32> {
        self.ledger.items.get(self.row.case_index).copied()
    }

    /// The input of the request.
    pub fn request_input(&self) -> &'a RequestInput {
        &self.ledger.inputs[self.row.input_number as usize]
    }

    /// The constraint of the request.
    pub fn constraint(&self) -> Option<&'a Arc<Constraint>> {
        self.request_input().constraint.as_ref()
    }

    /// The planned case. When it was abandoned is only in the log.
    pub fn case(&self) -> Case {
        let RequestInput {
            prompt,
            constraint,
            output_len,
            completion,
            score,
            tags,
            grammar_oracle,
            model,
        } = self.request_input().clone();
        Case {
            id: self.id(),
            arm: self.arm(),
            prompt,
            constraint,
            output_len,
            completion,
            score,
            item: self.item(),
            tags,
            grammar_oracle,
            model,
            cancel_after: None,
        }
    }

    /// The outcome of the request.
    pub fn outcome(&self) -> &'a Outcome {
        &self.ledger.outcomes[self.row.outcome as usize]
    }

    /// The finish reason from the server.
    pub fn finish_reason(&self) -> Option<&'a str> {
        self.ledger
            .finish_reasons
            .get_index(self.row.finish_reason as usize)
            .map(String::as_str)
    }

    /// The observation, without the server's token counts and without texts that only the log has.
    pub fn observation(&self) -> Observation {
        let times = self.request_times();
        let (chunks_ns, chunk_tokens) = self.counted_chunks();
        Observation {
            case_index: self.case_index(),
            outcome: self.outcome().clone(),
            timing: Timing {
                due_ns: times.due_ns,
                ready_ns: times.ready_ns,
                sent_ns: times.sent_ns,
                send_call_ns: self.send_call_ns(),
                headers_ns: None,
                chunks_ns,
                arrival_slack_ns: self.arrival_slack().map(|slack| match slack.chunks {
                    ChunkSlack::Each(entries) => entries,
                    ChunkSlack::Largest(slack_ns) => vec![(0, slack_ns)],
                }),
                first_reasoning_ns: times.first_reasoning_ns,
                first_answer_ns: times.first_answer_ns,
                first_arguments_ns: times.first_arguments_ns,
                channels: self.channels().cloned(),
                chunk_tokens,
                end_ns: times.end_ns,
                server: self.server_times(),
                streamed: times.streamed,
            },
            answer: Answer {
                reasoning: self.reasoning().to_owned(),
                ..Answer::from_text(self.text().to_owned())
            },
            finish_reason: self.finish_reason().map(str::to_owned),
            usage: None,
        }
    }

    /// The times of the request.
    pub fn request_times(&self) -> RequestTimes {
        let row = self.row;
        let first_ns = time(row.first_ns);
        let (first_reasoning_ns, first_answer_ns) = self
            .ledger
            .reasoned
            .get(row.case_index)
            .copied()
            .unwrap_or((None, first_ns));
        RequestTimes {
            due_ns: row.due_ns,
            ready_ns: time(row.ready_ns),
            sent_ns: time(row.sent_ns),
            first_content_ns: first_ns,
            last_content_ns: time(row.last_ns),
            first_reasoning_ns,
            first_answer_ns,
            first_arguments_ns: self.ledger.arguments.get(row.case_index).copied(),
            end_ns: time(row.end_ns),
            chunks: u64::from(row.chunks),
            streamed: row.flags & STREAMED != 0,
        }
    }

    /// The channels of its chunks; `None` for an answer with content only, and if unknown.
    pub fn channels(&self) -> Option<&'a ChannelTiming> {
        self.ledger.channels.get(self.row.case_index)
    }

    /// Times that the server reported with the answer; `None` without any.
    pub fn server_times(&self) -> Option<ServerTimes> {
        self.ledger.server_times.get(self.row.case_index).copied()
    }

    /// Duration of the system call that sent it; `None` if unknown.
    pub fn send_call_ns(&self) -> Option<u64> {
        let ns = self.row.send_call_ns;
        (ns != NONE).then(|| u64::from(ns))
    }

    /// By how much its chunks can have arrived earlier than recorded; `None` if unknown.
    pub fn arrival_slack(&self) -> Option<ArrivalSlack> {
        let known = self.row.flags & SLACK_KNOWN != 0;
        let read = |at: &u32| ArrivalSlack::read(&self.ledger.slack_bytes[*at as usize..]);
        known.then(|| {
            let at = self.ledger.slack.get(self.row.case_index);
            at.map(read).unwrap_or_default()
        })
    }

    /// Whether its times are in order ([`Timing::is_in_order`]).
    pub fn is_in_order(&self) -> bool {
        self.row.flags & IN_ORDER != 0
    }

    /// The times of its chunks.
    pub fn chunks_ns(&self) -> Vec<u64> {
        self.ledger.chunks(self.row).0
    }

    /// The times of its chunks, with cumulative tokens if the server counts them.
    pub fn counted_chunks(&self) -> ChunksAndTokens {
        self.ledger.chunks(self.row)
    }

    /// The answer; empty if only the log has it.
    pub fn text(&self) -> &'a str {
        self.ledger
            .texts
            .get(&self.row.case_index)
            .map_or("", |(text, _)| text)
    }

    /// The reasoning; empty if only the log has it.
    pub fn reasoning(&self) -> &'a str {
        self.ledger
            .texts
            .get(&self.row.case_index)
            .map_or("", |(_, reasoning)| reasoning)
    }

    /// Whether an implausible count of the server was ignored.
    pub fn has_ignored_count(&self) -> bool {
        let is_ignored = |flag: u32, source: TokenSource| {
            self.row.flags & flag != 0 && source != TokenSource::Server
        };
        is_ignored(STATED_INPUT, self.row.input_source)
            || is_ignored(STATED_OUTPUT, self.row.output_source)
    }

    /// Whether the token counts of the server have this fault.
    pub fn has_count_fault(&self, fault: CountFault) -> bool {
        self.row.flags & (COUNT_FAULT << fault as u32) != 0
    }

    /// The offset of its line in the run log.
    pub fn offset(&self) -> u64 {
        self.row.offset
    }

    /// Whether it has a verdict.
    pub fn is_judged(&self) -> bool {
        self.row.verdict != NONE
    }

    /// The verdict; `Cancelled` if it was not judged.
    pub fn verdict(&self) -> &'a Verdict {
        self.ledger
            .verdicts
            .get_index(self.row.verdict as usize)
            .unwrap_or(&UNJUDGED)
    }

    /// The token counts of the server or the tokenizer.
    pub fn tokens(&self) -> Tokens {
        let row = self.row;
        if let Some(tokens) = self.ledger.odd_tokens.get(row.case_index) {
            return *tokens;
        }
        let count = |count: u32| (count != NONE).then(|| u64::from(count));
        Tokens {
            input: count(row.input),
            input_source: row.input_source,
            output: count(row.output),
            output_source: row.output_source,
        }
    }

    /// Whether vLLM's script would count the answer as correct; `None` for constraints that it does
    /// not score (grammars).
    pub fn vllm_correct(&self) -> Option<bool> {
        (self.row.flags & SCRIPT_SCORES != 0).then_some(self.row.flags & SCRIPT_CORRECT != 0)
    }

    /// Whether the answer was truncated while writing only white space.
    pub fn white_space_run(&self) -> bool {
        self.row.flags & WHITE_SPACE_RUN != 0
    }

    /// Whether the answer was truncated and follows its constraint all the same.
    pub fn whole(&self) -> bool {
        self.row.flags & WHOLE != 0
    }

    /// A hash of the request; equal requests have equal hashes.
    pub fn request_hash(&self) -> u64 {
        self.ledger.input_hashes[self.row.input_number as usize]
    }

    /// A hash that is equal for the same request with the same answer in the same arm, or refused
    /// in the same way. Each failed request has its own.
    pub fn copy_hash(&self) -> u64 {
        self.row.copy
    }

    /// Whether the answer is the expected call; `None` without an
    /// expected call.
    pub fn right_call(&self) -> Option<bool> {
        (self.row.flags & HAS_CALL != 0).then_some(self.row.flags & RIGHT_CALL != 0)
    }

    /// The grade of the answer; `None` without a reference.
    pub fn grade(&self) -> Option<Grade> {
        let place = (self.row.flags & GRADE) >> GRADE_SHIFT;
        Grade::ALL.get((place as usize).checked_sub(1)?).copied()
    }

    /// The leaves of the answer, if it was compared leaf by leaf.
    pub fn leaves(&self) -> Option<Leaves> {
        self.ledger.leaves.get(self.row.case_index).copied()
    }

    /// Whether the answer has tool calls; `None` without an answer, and for requests without tools.
    pub fn made_call(&self) -> Option<bool> {
        (self.row.flags & CALLS_KNOWN != 0).then_some(self.row.flags & MADE_CALL != 0)
    }

    /// Whether a tool call is due; `None` if that is unknown, and for requests without tools.
    pub fn call_due(&self) -> Option<bool> {
        (self.row.flags & DUE_KNOWN != 0).then_some(self.row.flags & CALL_DUE != 0)
    }

    /// Whether the answer has reasoning.
    pub fn has_reasoning(&self) -> bool {
        self.ledger.reasoned.get(self.row.case_index).is_some()
    }

    /// The spelling of a JSON answer; `None` for others.
    pub fn free_choices(&self) -> Option<FreeChoices> {
        self.ledger
            .free_choices
            .get(self.row.case_index)
            .map(|spelling| (*spelling).into())
    }

    /// How the answer departs from the API; `None` if it does not.
    pub fn departures(&self) -> Option<&'a Departures> {
        let number = self.ledger.departed.get(self.row.case_index)?;
        self.ledger.departures.get_index(*number as usize)
    }

    /// The model and the server that the answer names; `None` without an answer and names.
    pub fn answered_by(&self) -> Option<&'a AnsweredBy> {
        let number = self.ledger.named.get(self.row.case_index)?;
        self.ledger.answered_by.get_index(*number as usize)
    }

    /// The class of an answer to a canary request; `None` for others.
    pub fn canary(&self) -> Option<&'a CanaryAnswer> {
        self.ledger.canaries.get(self.row.case_index)
    }

    /// What the reasoning shows; `None` without reasoning and marks of it.
    pub fn reasoning_facts(&self) -> Option<ReasoningFacts> {
        self.ledger.reasoning.get(self.row.case_index).copied()
    }

    /// Whether an answer to the same request in the control arm has reasoning; `None` without one.
    pub fn control_has_reasoning(&self) -> Option<bool> {
        self.ledger.control_has_reasoning(self.request_hash())
    }

    /// Whether the streamed answer equals the whole one; `None` if that was not checked.
    pub fn parity(&self) -> Option<&'a Parity> {
        self.ledger.parity.get(self.row.case_index)
    }

    /// The verdict, token counts and checks of the request.
    pub fn judged(&self) -> Judged {
        Judged {
            verdict: self.verdict().clone(),
            tokens: self.tokens(),
            vllm_correct: self.vllm_correct(),
            white_space_run: self.white_space_run(),
            whole: self.whole(),
            right_call: self.right_call(),
            accuracy: self.grade().map(|grade| Accuracy {
                grade,
                leaves: self.leaves(),
            }),
            made_call: self.made_call(),
            call_due: self.call_due(),
            reasoning: self.reasoning_facts(),
            parity: self.parity().cloned(),
            free_choices: self.free_choices(),
            canary: self.canary().cloned(),
        }
    }
}
