//! Notices about the options of a run, its server, and events during the run.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list;
use sobench_backend::{ConstraintDialect, ServerKind, refused_keyword};
use sobench_core::constraint::Constraint;
use sobench_core::printable::printable_message;
use sobench_core::server_sample::ScrapeFault;
use sobench_core::verdict::NotScored;

#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BenchNotice {
    #[error("--{flag} has no effect: {why}")]
    FlagWithoutEffect { flag: String, why: String },
    #[error(
        "--ignore-eos with constrained requests: after the constraint is complete, servers sample unconstrained text, and correct answers \
         become incorrect"
    )]
    IgnoreEosWithConstraints,
    #[error(
        "the constraint is user-defined, and the built-in prompt does not contain it; use --dataset custom to read both from a file"
    )]
    ShippedPrompt,
    #[error("--endpoint {endpoint} does not match --backend {backend}")]
    EndpointUnlikeBackend {
        endpoint: String,
        backend: ServerKind,
    },
    #[error(
        "requests set ignore_eos, as vllm bench serve does with the dataset {dataset}; --disable-ignore-eos turns it off"
    )]
    IgnoreEosByDataset { dataset: String },
    #[error(
        "--chat-template-kwargs has no effect: the prompts of --dataset {dataset} do not use a chat template"
    )]
    ChatTemplateKwargsUnused { dataset: String },
    #[error("--result-dir, --result-filename and --metadata have no effect without --save-result")]
    ResultFlagsUnused,
    #[error(
        "answers come from {}, which runs a synthetic model: the figures do not describe a GPU server",
        if *.embedded { "the embedded engine" } else { "sobench serve" }
    )]
    SyntheticModel { embedded: bool },
    #[error(
        "the synthetic model knows a reference with the probability {free} in the arm free, {prompt} in the arm prompt and {constrained} with a \
         constraint (--embedded-knows, correlation {correlation}): the accuracy is planted"
    )]
    PlantedKnowledge {
        free: f64,
        prompt: f64,
        constrained: f64,
        correlation: f64,
    },
    #[error(
        "the server selects its decoding engine, not the request: --guided-decoding-backend {engine} is only recorded"
    )]
    EngineDeclared { engine: String },
    #[error(
        "{server} ignores the request fields of --constraint-dialect {dialect}: expect unconstrained answers"
    )]
    DialectIgnored {
        server: String,
        dialect: ConstraintDialect,
    },
    #[error("the token limit is sent as max_tokens: {reason}")]
    MaxTokensSent { reason: MaxTokensReason },
    #[error("LoRA modules are assigned {}: {}", if *.at_random { "at random" } else { "in turn" }, .modules.join(", "))]
    LoraModules {
        modules: Vec<String>,
        at_random: bool,
    },
    #[error(
        "{requests} requests carry a never-seen schema (--cold-schema-every {every}); the dataset hash does not include these schemas"
    )]
    ColdSchemas { requests: usize, every: usize },
    #[error(
        "constraints of {requests} requests cannot be evaluated, and their answers are not judged; the first is {first_request}: {why}"
    )]
    UnusableConstraints {
        requests: usize,
        first_request: String,
        why: NotScored,
    },
    #[error(
        "the limit of {open_files} open files is too low for {requests} concurrent requests: requests above the limit are not sent; \
         lower --max-concurrency, or raise the limit with ulimit -n"
    )]
    OpenFileLimit { open_files: u64, requests: usize },
    #[error(
        "the system has {ports} local ports for connections to one server, too few for {requests} concurrent requests: requests above the \
         limit are not sent; lower --max-concurrency, or widen net.ipv4.ip_local_port_range"
    )]
    LocalPortLimit { ports: u64, requests: usize },
    #[error(
        "first use of the constraint: TTFT {cold_ttft_ms:.2} ms; next use: TTFT {warm_ttft_ms:.2} ms; each was measured alone before the \
         run, after the same prompt without the constraint"
    )]
    FirstUse {
        cold_ttft_ms: f64,
        warm_ttft_ms: f64,
    },
    #[error(
        "concurrent runs with a common start: {}; the order of the runs rotates with each request, and the runs are {apart_us} us apart, so \
         that requests are due up to {} us after their scheduled time; CPU time, memory and machine load are those of all runs together",
        list(.others),
        *.apart_us * .others.len() as u64
    )]
    ConcurrentRuns { others: Vec<String>, apart_us: u64 },
    #[error("the trial answer names the model {answered}; the requested model is {requested}")]
    #[serde(rename = "other_model")]
    ModelMismatch {
        answered: String,
        #[serde(rename = "asked")]
        requested: String,
    },
    #[error("the trial request {request} has no answer{}; another request was tried", in_brackets(.reason))]
    TrialRefused {
        request: String,
        /// Empty in older logs.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    #[error(
        "none of {requests} trial requests has an answer (the first, {request}: {reason}); {advice}"
    )]
    TrialFailed {
        requests: usize,
        request: String,
        reason: String,
        advice: String,
    },
    #[error(
        "the server refused the constraint of {request} ({status}: {message}){}{}{}",
        .keyword.as_ref().map_or_else(String::new, |keyword| format!("; it names the keyword {keyword}")),
        .part.as_ref().map_or_else(String::new, |part| format!("; it refuses {part}")),
        if *.answers_without { "; without the constraint it answers" } else { "" }
    )]
    ConstraintRefused {
        request: String,
        status: u16,
        message: String,
        /// The keyword of the schema that the message names.
        keyword: Option<String>,
        /// The part of the constraint that it refuses alone, if requests found one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<RefusedPart>,
        /// Whether the server answered a request without the constraint.
        #[serde(default = "yes")]
        answers_without: bool,
    },
    #[error(
        "the server did not start its profiler (POST {path}: {why}); start the server with profiling enabled"
    )]
    ProfilerRefused { path: String, why: String },
    #[error(
        "the server does not answer single requests after the abandoned ones: {error}; check its log, and whether it frees the slots of \
         clients that disconnect"
    )]
    NotRecovered { error: String },
    #[error(
        "the server is slower after the abandoned requests: {latency} of single requests {before_ms:.1} ms before the run, {after_ms:.1} ms \
         after it (more than {factor} times, and by more than {by_ms} ms)"
    )]
    SlowerAfterCancellation {
        latency: String,
        before_ms: f64,
        after_ms: f64,
        factor: f64,
        by_ms: f64,
    },
    #[error("{failed} of {sent} warm-up requests failed")]
    WarmupsFailed { failed: usize, sent: usize },
    #[error(
        "the run log was slower than the run: up to {waiting_mib} MiB of answers waited in memory to be written"
    )]
    RunLogBehind { waiting_mib: usize },
    #[error(
        "no run log is written ({why}); use --run-log to name a file, or --no-run-log to turn this notice off"
    )]
    NoRunLog { why: String },
    #[error(
        "shard 1 did not respond after the run: the clock drift of this machine during the run is unknown"
    )]
    ClockDriftUnknown,
    #[error(
        "{count} kernel receive timestamps are implausible (the wall clock was set during the run, or packets arrived out of order); the \
         time of the read call replaces them"
    )]
    ReceiveStampsRefused { count: u64 },
    #[error(
        "the server's metrics page {page} {}: {fault}",
        unreadable(*.failed, *.scrapes)
    )]
    ServerMetricsUnreadable {
        page: String,
        fault: ScrapeFault,
        /// Attempts without a page.
        failed: usize,
        scrapes: usize,
    },
    #[error("--server-metric {name}: the server's metrics page {page} has no series of this name")]
    ServerMetricMissing { name: String, page: String },
    #[error(
        "sending ended after at most {after_s} s (--duration): {requests} {} {prepared} prepared requests were sent",
        if .requests == .prepared { "all of" } else { "of" }
    )]
    DurationEnded {
        after_s: f64,
        requests: usize,
        prepared: usize,
    },
    #[error(
        "sending ended after {after_s} s (--duration): the {prepared} prepared requests were cycled {:.1} times, for {requests} requests{}",
        *.requests as f64 / *.prepared as f64,
        if *.unique_schemas { "; after the first cycle no schema was new" } else { "" }
    )]
    DurationEndedAfterLaps {
        after_s: f64,
        requests: usize,
        prepared: usize,
        unique_schemas: bool,
    },
}

/// Why the token limit of chat completions is sent as `max_tokens`.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MaxTokensReason {
    #[error("{server} does not read max_completion_tokens")]
    Known { server: String },
    #[error(
        "the server ignored max_completion_tokens (the trial answer has {tokens} tokens, the limit is {limit})"
    )]
    Exceeded { limit: u32, tokens: u64 },
    #[error("the server refuses max_completion_tokens")]
    Refused,
}

impl BenchNotice {
    /// The notice on a refused constraint, with the status and the message of the server's response.
    pub fn constraint_refused(
        request: String,
        constraint: Option<&Constraint>,
        status: u16,
        message: &str,
        answers_without: bool,
        part: Option<RefusedPart>,
    ) -> Self {
        Self::ConstraintRefused {
            request,
            status,
            keyword: constraint.and_then(|constraint| refused_keyword(message, constraint)),
            message: printable_message(message),
            answers_without,
            part,
        }
    }

    /// The notice on a trial request without an answer, with the reason.
    pub fn trial_refused(request: String, reason: &str) -> Self {
        Self::TrialRefused {
            request,
            reason: printable_message(reason),
        }
    }
}

/// A part of a constraint that a server refuses, and without which it accepts the request.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize, Deserialize)]
pub struct RefusedPart {
    /// The name of the tool, in a list of tools.
    pub tool: Option<String>,
    /// A keyword of its schema, with its value; `None` if no single keyword is the cause.
    pub keyword: Option<(String, String)>,
    /// The highest value of the keyword that the server accepts, if a lower one is accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<u64>,
    /// The path of names from the root of the schema to the keyword.
    pub path: String,
}

impl fmt::Display for RefusedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tool = self.tool.as_ref().map(|tool| format!("the tool {tool}"));
        let keyword = self.keyword.as_ref().map(|(keyword, value)| {
            let place = if self.path.is_empty() { "" } else { " at " };
            let limit = self
                .accepted
                .map(|limit| format!("; up to {limit} is accepted"));
            let limit = limit.unwrap_or_default();
            format!("the keyword {keyword} ({value}{limit}){place}{}", self.path)
        });
        let parts: Vec<String> = tool.into_iter().chain(keyword).collect();
        f.write_str(&parts.join(", for "))
    }
}

/// A reason in brackets, if there is one.
fn in_brackets(reason: &str) -> String {
    match reason {
        "" => String::new(),
        reason => format!(" ({reason})"),
    }
}

/// How often a page could not be read.
fn unreadable(failed: usize, scrapes: usize) -> String {
    match failed {
        0 => "has values that are left out".to_owned(),
        _ if failed == scrapes => "could not be read".to_owned(),
        _ => format!("could not be read in {failed} of {scrapes} attempts"),
    }
}

/// Older logs have the notice only where the server answered without the constraint.
fn yes() -> bool {
    true
}
