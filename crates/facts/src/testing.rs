//! Requests for tests, with defaults for everything that a test does not set.

use std::sync::Arc;

use crate::parity::Parity;
use crate::reasoning::ReasoningFacts;
use crate::{Judged, RequestTable, Sample, TokenSource, Tokens};
use sobench_core::answer::Answer;
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::channel_timing::{ChannelTiming, ChunkPart};
use sobench_core::constraint::Constraint;
use sobench_core::observation::{Observation, Outcome, ServerTimes, Timing, Usage};
use sobench_core::verdict::Verdict;
pub use sobench_judge::accuracy::{Accuracy, Grade, Leaves};
use sobench_judge::canary::CanaryAnswer;
use sobench_judge::free_choices::FreeChoices;
use sobench_judge::is_white_space_run;

const NS_PER_MS: u64 = 1_000_000;

/// One request; times in milliseconds.
#[derive(Clone)]
pub struct TestRequest<'t> {
    pub arm: Arm,
    pub outcome: Outcome,
    pub verdict: Verdict,
    pub text: &'t str,
    pub finish_reason: Option<&'t str>,
    pub tags: &'t [&'t str],
    pub due: u64,
    /// Set if it differs from `sent`.
    pub ready: Option<u64>,
    pub sent: Option<u64>,
    pub chunks: Vec<u64>,
    pub chunk_tokens: Vec<u64>,
    /// In milliseconds, or unknown.
    pub send_call: Option<u64>,
    /// Index of a chunk, and by how much it can have arrived earlier.
    pub slack: Option<Vec<(usize, u64)>>,
    pub end: Option<u64>,
    pub server_times: Option<ServerTimes>,
    pub streamed: bool,
    /// First reasoning, and first content of the answer.
    pub reasoning: Option<u64>,
    pub answer: Option<u64>,
    /// First arguments of a tool call.
    pub arguments: Option<u64>,
    /// Bytes by channel, and the index of their chunk.
    pub parts: Vec<ChunkPart>,
    pub input: Option<u64>,
    pub output: Option<u64>,
    /// The source of the counts, where they are known.
    pub source: TokenSource,
    pub usage: Option<Usage>,
    pub vllm_correct: Option<bool>,
    pub right_call: Option<bool>,
    pub accuracy: Option<Accuracy>,
    pub made_call: Option<bool>,
    pub call_due: Option<bool>,
    pub whole: bool,
    pub reasoning_facts: Option<ReasoningFacts>,
    pub free_choices: Option<FreeChoices>,
    pub canary: Option<CanaryAnswer>,
    pub parity: Option<Parity>,
}

/// A successful constrained request: sent at 0, content at 10, 20 and 30 ms, three tokens.
pub fn test_request() -> TestRequest<'static> {
    TestRequest {
        arm: Arm::Constrained,
        outcome: Outcome::Completed,
        verdict: Verdict::Valid,
        text: "{}",
        finish_reason: Some("stop"),
        tags: &[],
        due: 0,
        ready: None,
        sent: Some(0),
        chunks: vec![10, 20, 30],
        chunk_tokens: vec![],
        send_call: Some(0),
        slack: Some(vec![]),
        end: Some(31),
        server_times: None,
        streamed: true,
        reasoning: None,
        answer: Some(10),
        arguments: None,
        parts: vec![],
        input: Some(7),
        output: Some(3),
        source: TokenSource::Server,
        usage: None,
        vllm_correct: Some(true),
        right_call: None,
        accuracy: None,
        made_call: None,
        call_due: None,
        whole: false,
        reasoning_facts: None,
        free_choices: None,
        canary: None,
        parity: None,
    }
}

impl TestRequest<'_> {
    pub fn parts(&self, case_index: usize) -> (Case, Observation, Verdict) {
        let free = self.arm == Arm::Free;
        let case = Case {
            arm: self.arm,
            tags: self.tags.iter().map(|tag| (*tag).to_owned()).collect(),
            ..Case::new(
                format!("case-{case_index}"),
                Prompt::Text("say something".into()),
                if free {
                    None
                } else {
                    Some(Arc::new(Constraint::Regex("a+".into())))
                },
                16,
            )
        };
        let chunks_ns: Vec<u64> = self.chunks.iter().map(|at| at * NS_PER_MS).collect();
        let timing = Timing {
            due_ns: self.due * NS_PER_MS,
            ready_ns: self.ready.or(self.sent).map(|at| at * NS_PER_MS),
            sent_ns: self.sent.map(|at| at * NS_PER_MS),
            send_call_ns: self.send_call.map(|ms| ms * NS_PER_MS),
            headers_ns: None,
            channels: ChannelTiming::new(&self.parts, &chunks_ns),
            chunks_ns,
            arrival_slack_ns: self.slack.as_ref().map(|entries| {
                let in_ns = entries.iter().map(|(chunk, ms)| (*chunk, ms * NS_PER_MS));
                in_ns.collect()
            }),
            first_reasoning_ns: self.reasoning.map(|at| at * NS_PER_MS),
            first_answer_ns: self.answer.map(|at| at * NS_PER_MS),
            first_arguments_ns: self.arguments.map(|at| at * NS_PER_MS),
            chunk_tokens: self.chunk_tokens.clone(),
            end_ns: self.end.map(|at| at * NS_PER_MS),
            server: self.server_times,
            streamed: self.streamed,
        };
        let observation = Observation {
            case_index,
            outcome: self.outcome.clone(),
            timing,
            answer: Answer::from_text(self.text.to_owned()),
            finish_reason: self.finish_reason.map(str::to_owned),
            usage: self.usage,
        };
        (case, observation, self.verdict.clone())
    }

    pub fn judged(&self, verdict: Verdict, observation: &Observation) -> Judged {
        let source = |count: Option<u64>| {
            if count.is_some() {
                self.source
            } else {
                TokenSource::Unknown
            }
        };
        let tokens = Tokens {
            input: self.input,
            input_source: source(self.input),
            output: self.output,
            output_source: source(self.output),
        };
        Judged {
            verdict,
            tokens,
            vllm_correct: self.vllm_correct,
            white_space_run: is_white_space_run(&observation.outcome, &observation.answer.text()),
            whole: self.whole,
            right_call: self.right_call,
            accuracy: self.accuracy.clone(),
            made_call: self.made_call,
            call_due: self.call_due,
            called_tool: None,
            reasoning_facts: self.reasoning_facts,
            parity: self.parity.clone(),
            free_choices: self.free_choices,
            canary: self.canary.clone(),
            clients: None,
        }
    }
}

/// Passes the samples of a test run, in plan order, to `check`.
pub fn with_samples<T>(run: &[TestRequest<'_>], check: impl FnOnce(&[Sample<'_>]) -> T) -> T {
    with_cases(run, |_, _| {}, check)
}

/// The same, with cases modified by `change`.
pub fn with_cases<T>(
    run: &[TestRequest<'_>],
    change: impl Fn(usize, &mut Case),
    check: impl FnOnce(&[Sample<'_>]) -> T,
) -> T {
    let mut table = RequestTable::new(run.len(), None);
    for (index, made) in run.iter().enumerate() {
        let (mut case, observation, verdict) = made.parts(index);
        change(index, &mut case);
        assert!(table.push(&case, &observation, 0));
        table.judge(index, made.judged(verdict, &observation));
    }
    check(&table.samples())
}
