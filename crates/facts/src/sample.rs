//! A view of one request.

use std::collections::HashMap;
use std::sync::Arc;

use crate::chunks::{ArrivalSlack, ChunkSlack, ChunksAndTokens};
use crate::columns::Column;
use crate::judged::{TokenSource, Tokens};
use crate::table::{RequestInput, RequestTable};
use crate::times::RequestTimes;
use sobench_core::answer::Answer;
use sobench_core::case::{Arm, Case};
use sobench_core::constraint::Constraint;
use sobench_core::observation::{CountFault, Observation, Timing};
use sobench_judge::accuracy::{Grade, Leaves};

/// A view of one request with everything known about it. Each column is a method.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub(crate) table: &'a RequestTable,
    pub(crate) row: u32,
}

impl<'a> Sample<'a> {
    /// The id of the case, with its lap if cases were repeated.
    pub fn id(&self) -> String {
        self.table.id.get(self.row).unwrap_or_default()
    }

    /// The input of the request.
    pub fn request_input(&self) -> &'a RequestInput {
        &self.table.inputs.all[self.table.input.get(self.row)]
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
            turn: self.turn().cloned(),
        }
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
        let first_content_ns = self.first_content_ns();
        let (first_reasoning_ns, first_answer_ns) =
            self.reasoned_ns().unwrap_or((None, first_content_ns));
        RequestTimes {
            due_ns: self.due_ns(),
            ready_ns: self.ready_ns(),
            sent_ns: self.sent_ns(),
            first_content_ns,
            last_content_ns: self.last_content_ns(),
            first_reasoning_ns,
            first_answer_ns,
            first_arguments_ns: self.first_arguments_ns(),
            end_ns: self.end_ns(),
            chunks: self.chunks(),
            streamed: self.came_as_stream(),
        }
    }

    /// By how much its chunks can have arrived earlier than recorded; `None` if unknown.
    pub fn arrival_slack(&self) -> Option<ArrivalSlack> {
        self.table.slacks.get(self.row)
    }

    /// The times of its chunks.
    pub fn chunks_ns(&self) -> Vec<u64> {
        self.counted_chunks().0
    }

    /// The times of its chunks, with cumulative tokens if the server counts them.
    pub fn counted_chunks(&self) -> ChunksAndTokens {
        let line = (self.case_index(), self.offset());
        self.table
            .chunk_times
            .get(self.row, self.chunks(), self.sent_ns(), line)
    }

    /// The answer; empty if only the log has it.
    pub fn text(&self) -> &'a str {
        self.table.texts.get(self.row).map_or("", |(text, _)| text)
    }

    /// The reasoning; empty if only the log has it.
    pub fn reasoning(&self) -> &'a str {
        let texts = self.table.texts.get(self.row);
        texts.map_or("", |(_, reasoning)| reasoning)
    }

    /// Whether an implausible count of the server was ignored.
    pub fn has_ignored_count(&self) -> bool {
        let Tokens {
            input_source,
            output_source,
            ..
        } = self.tokens();
        (self.stated_input() && input_source != TokenSource::Server)
            || (self.stated_output() && output_source != TokenSource::Server)
    }

    /// Whether the token counts of the server have this fault.
    pub fn has_count_fault(&self, fault: CountFault) -> bool {
        self.count_faults() & (1 << fault as u64) != 0
    }

    /// Whether it has a verdict.
    pub fn is_judged(&self) -> bool {
        self.table.judged.verdict.is_set(self.row)
    }

    /// A hash of the request; equal requests have equal hashes.
    pub fn request_hash(&self) -> u64 {
        self.table.inputs.hashes[self.table.input.get(self.row)]
    }

    /// A hash that is equal for the same request with the same answer in the same arm, or refused
    /// in the same way. Each failed request has its own.
    pub fn copy_hash(&self) -> u64 {
        self.table.copy.get(self.row)
    }

    /// The grade of the answer; `None` without a reference.
    pub fn grade(&self) -> Option<Grade> {
        self.accuracy().map(|accuracy| accuracy.grade)
    }

    /// The leaves of the answer, if it was compared leaf by leaf.
    pub fn leaves(&self) -> Option<Leaves> {
        self.accuracy()?.leaves
    }

    /// Whether the answer has reasoning.
    pub fn has_reasoning(&self) -> bool {
        self.reasoned_ns().is_some()
    }

    /// Whether an answer to the same request in the control arm has reasoning; `None` without one.
    pub fn control_has_reasoning(&self) -> Option<bool> {
        self.table.control_has_reasoning(self.request_hash())
    }
}

impl RequestTable {
    /// The request at an index.
    pub fn get(&self, index: usize) -> Option<Sample<'_>> {
        (index < self.len()).then(|| Sample {
            table: self,
            row: self.row(index),
        })
    }

    /// Every request in order.
    pub fn iter(&self) -> impl Iterator<Item = Sample<'_>> {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// Every request in order.
    pub fn samples(&self) -> Vec<Sample<'_>> {
        self.iter().collect()
    }

    /// Whether an answer to this request in the control arm has reasoning; `None` without one.
    fn control_has_reasoning(&self, request_hash: u64) -> Option<bool> {
        let controls = self.controls.get_or_init(|| {
            let mut controls: HashMap<u64, bool> = HashMap::new();
            let is_control =
                |sample: &Sample<'_>| sample.arm() == Arm::Control && sample.outcome().is_answer();
            for sample in self.iter().filter(is_control) {
                *controls.entry(sample.request_hash()).or_default() |= sample.has_reasoning();
            }
            controls
        });
        controls.get(&request_hash).copied()
    }
}
