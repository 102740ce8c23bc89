//! One request as the figures see it: what its row says, and what that refers to. Knows no figure.

use std::sync::Arc;

use super::{
    ChunksAndTokens, HAS_CALL, IN_ORDER, Moments, NONE, NONE_NS, Question, RIGHT_CALL,
    SCRIPT_CORRECT, SCRIPT_SCORES, SENSELESS_INPUT, SENSELESS_OUTPUT, SENSELESS_USAGE, STREAMED,
    WHITE_SPACE_RUN,
};
use crate::metrics::{Judged, Sample, TokenSource, Tokens};
use sobench_core::answer::Answer;
use sobench_core::case::{Arm, Case};
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Observation, Outcome, Timing};
use sobench_core::verdict::{NotScored, Verdict};

fn instant(ns: u64) -> Option<u64> {
    (ns != NONE_NS).then_some(ns)
}

/// The verdict of what nobody has judged.
static UNJUDGED: Verdict = Verdict::NotScored {
    why: NotScored::Cancelled,
};

impl<'a> Sample<'a> {
    /// The request's number in the plan.
    pub fn case_index(&self) -> usize {
        self.row.case_index as usize
    }

    /// The case's id, with its lap where cases went round.
    pub fn id(&self) -> String {
        let index = self.row.case_index;
        match self.ledger.names.get(self.row.name) {
            Some(name) => format!("{name}{index}"),
            None => self.ledger.odd_ids.get(&index).cloned().unwrap_or_default(),
        }
    }

    /// Which side of the comparison it is on.
    pub fn arm(&self) -> Arm {
        self.row.arm
    }

    /// What was asked.
    pub fn question(&self) -> &'a Question {
        &self.ledger.questions[self.row.question as usize]
    }

    /// The constraint that the answer is judged by.
    pub fn constraint(&self) -> Option<&'a Arc<Constraint>> {
        self.question().constraint.as_ref()
    }

    /// The case as it was planned.
    pub fn case(&self) -> Case {
        let Question {
            prompt,
            constraint,
            output_len,
            completion,
            tags,
            grammar_oracle,
            model,
        } = self.question().clone();
        Case {
            id: self.id(),
            arm: self.arm(),
            prompt,
            constraint,
            output_len,
            completion,
            tags,
            grammar_oracle,
            model,
        }
    }

    /// How it ended.
    pub fn outcome(&self) -> &'a Outcome {
        &self.ledger.outcomes.values[self.row.outcome as usize]
    }

    /// The server's own word.
    pub fn finish_reason(&self) -> Option<&'a str> {
        self.ledger
            .finish_reasons
            .get(self.row.finish_reason)
            .map(String::as_str)
    }

    /// What was observed, as far as it is kept: without the server's own counts, and without what
    /// only the log has.
    pub fn observation(&self) -> Observation {
        let at = self.moments();
        let (chunks_ns, chunk_tokens) = self.counted_chunks();
        Observation {
            case_index: self.case_index(),
            outcome: self.outcome().clone(),
            timing: Timing {
                due_ns: at.due_ns,
                ready_ns: at.ready_ns,
                sent_ns: at.sent_ns,
                headers_ns: None,
                chunks_ns,
                first_reasoning_ns: at.first_reasoning_ns,
                first_answer_ns: at.first_answer_ns,
                chunk_tokens,
                end_ns: at.end_ns,
                streamed: at.streamed,
            },
            answer: Answer {
                reasoning: self.reasoning().to_owned(),
                ..Answer::from_text(self.text().to_owned())
            },
            finish_reason: self.finish_reason().map(str::to_owned),
            usage: None,
        }
    }

    /// When what happened.
    pub fn moments(&self) -> Moments {
        let row = self.row;
        let first_ns = instant(row.first_ns);
        let (first_reasoning_ns, first_answer_ns) = self
            .ledger
            .reasoned
            .get(&row.case_index)
            .copied()
            .unwrap_or((None, first_ns));
        Moments {
            due_ns: row.due_ns,
            ready_ns: instant(row.ready_ns),
            sent_ns: instant(row.sent_ns),
            first_content_ns: first_ns,
            last_content_ns: instant(row.last_ns),
            first_reasoning_ns,
            first_answer_ns,
            end_ns: instant(row.end_ns),
            chunks: u64::from(row.chunks),
            streamed: row.flags & STREAMED != 0,
        }
    }

    /// Whether its instants follow each other ([`Timing::is_in_order`]).
    pub fn is_in_order(&self) -> bool {
        self.row.flags & IN_ORDER != 0
    }

    /// The instants of its chunks.
    pub fn chunks_ns(&self) -> Vec<u64> {
        self.ledger.chunks(self.row).0
    }

    /// The instants of its chunks, and the tokens up to and with each where the server counts them.
    pub fn counted_chunks(&self) -> ChunksAndTokens {
        self.ledger.chunks(self.row)
    }

    /// The answer; empty where it was left where it is written.
    pub fn text(&self) -> &'a str {
        self.ledger
            .texts
            .get(&self.row.case_index)
            .map_or("", |(text, _)| text)
    }

    /// The reasoning; empty where it was left where it is written.
    pub fn reasoning(&self) -> &'a str {
        self.ledger
            .texts
            .get(&self.row.case_index)
            .map_or("", |(_, reasoning)| reasoning)
    }

    /// Whether the server's counts, if it stated any, can be right.
    pub fn usage_makes_sense(&self) -> bool {
        self.row.flags & SENSELESS_USAGE == 0
    }

    /// Whether a count that cannot be right was kept out of the figures. Whoever judged before that
    /// was looked at took it as it came.
    pub fn left_a_count_out(&self) -> bool {
        let is_left_out = |flag: u16, source: TokenSource| {
            self.row.flags & flag != 0 && source != TokenSource::Server
        };
        is_left_out(SENSELESS_INPUT, self.row.input_source)
            || is_left_out(SENSELESS_OUTPUT, self.row.output_source)
    }

    /// Where its line begins.
    pub fn offset(&self) -> u64 {
        self.row.offset
    }

    /// Whether somebody judged it.
    pub fn is_judged(&self) -> bool {
        self.row.verdict != NONE
    }

    /// What the answer was worth; of one that was not judged, that the run ended first.
    pub fn verdict(&self) -> &'a Verdict {
        self.ledger
            .verdicts
            .get(self.row.verdict)
            .unwrap_or(&UNJUDGED)
    }

    /// The best token counts there are.
    pub fn tokens(&self) -> Tokens {
        let row = self.row;
        if !self.ledger.odd_tokens.is_empty()
            && let Some(tokens) = self.ledger.odd_tokens.get(&row.case_index)
        {
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

    /// Whether vLLM's script would call this request correct; `None` where it does not score
    /// (grammars).
    pub fn vllm_correct(&self) -> Option<bool> {
        (self.row.flags & SCRIPT_SCORES != 0).then_some(self.row.flags & SCRIPT_CORRECT != 0)
    }

    /// Whether the answer was cut while it wrote nothing but white space
    /// ([`super::holding::runs_away`]).
    pub fn white_space_run(&self) -> bool {
        self.row.flags & WHITE_SPACE_RUN != 0
    }

    /// Whether the answer is the call that its reference asks for ([`sobench_judge::call`]); `None`
    /// where there is no such reference.
    pub fn right_call(&self) -> Option<bool> {
        (self.row.flags & HAS_CALL != 0).then_some(self.row.flags & RIGHT_CALL != 0)
    }

    /// What was found out about it.
    pub fn judged(&self) -> Judged {
        Judged {
            verdict: self.verdict().clone(),
            tokens: self.tokens(),
            vllm_correct: self.vllm_correct(),
            white_space_run: self.white_space_run(),
            right_call: self.right_call(),
        }
    }
}
