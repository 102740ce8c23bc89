//! Notices of a run's options, of its server, and of what happened while it ran.

use serde::{Deserialize, Serialize};

use super::list;
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::verdict::NotScored;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BenchNotice {
    #[error("--{flag} changes nothing here: {why}")]
    FlagWithoutEffect { flag: String, why: String },
    #[error(
        "--ignore-eos on constrained requests: servers sample unconstrained text after the constraint is met, so answers that were \
         right become wrong"
    )]
    IgnoreEosWithConstraints,
    #[error(
        "the constraint is yours, the prompt is the shipped one: --dataset custom takes both from a file"
    )]
    ShippedPrompt,
    #[error("--endpoint {endpoint} does not look like the endpoint of --backend {backend}")]
    EndpointUnlikeBackend {
        endpoint: String,
        backend: ServerKind,
    },
    #[error(
        "servers are asked to go on past the end of their answers (ignore_eos), as vllm bench serve asks with the dataset {dataset}; \
         --disable-ignore-eos lets them end"
    )]
    IgnoreEosByDataset { dataset: String },
    #[error(
        "--chat-template-kwargs changes nothing: no prompt of --dataset {dataset} goes through a chat template"
    )]
    ChatTemplateKwargsUnused { dataset: String },
    #[error("--result-dir, --result-filename and --metadata do nothing without --save-result")]
    ResultFlagsUnused,
    #[error(
        "answers come from {}: its model is synthetic, and the figures are not those of a GPU server",
        if *.embedded { "the embedded engine" } else { "a server that sobench serve runs" }
    )]
    SyntheticModel { embedded: bool },
    #[error(
        "the server decides its decoding engine, not the request: --guided-decoding-backend {engine} is recorded as declared"
    )]
    EngineDeclared { engine: String },
    #[error(
        "{server} ignores the fields of --constraint-dialect {dialect}: expect unconstrained answers"
    )]
    DialectIgnored {
        server: String,
        dialect: ConstraintDialect,
    },
    #[error("requests ask for LoRA modules, dealt out {}: {}", if *.at_random { "by chance" } else { "in turn" }, .modules.join(", "))]
    LoraModules {
        modules: Vec<String>,
        at_random: bool,
    },
    #[error(
        "{requests} requests carry a schema that no server has seen (--cold-schema-every {every}); the dataset's hash is without them"
    )]
    ColdSchemas { requests: usize, every: usize },
    #[error(
        "{requests} requests have a constraint that their answers cannot be judged by; the first is {first_request}: {why}"
    )]
    UnusableConstraints {
        requests: usize,
        first_request: String,
        why: NotScored,
    },
    #[error(
        "the system allows {open_files} open files, too few for {requests} requests at once, should it come to that: those past it fail \
         here, not in the server; lower --max-concurrency, or raise the limit (ulimit -n)"
    )]
    OpenFileLimit { open_files: u64, requests: usize },
    #[error(
        "the system has {ports} local ports for connections to one server, too few for {requests} requests at once, should it come to \
         that: those past it fail here, not in the server; lower --max-concurrency, or widen net.ipv4.ip_local_port_range"
    )]
    LocalPortLimit { ports: u64, requests: usize },
    #[error(
        "the server's first use of the constraint: {cold_ttft_ms:.2} ms to the first token, and {warm_ttft_ms:.2} ms at the next use; \
         both alone, before the run and before its trial request, after the same prompt without the constraint"
    )]
    FirstUse {
        cold_ttft_ms: f64,
        warm_ttft_ms: f64,
    },
    #[error(
        "ran at once with other runs of a comparison, from the same begin: {}; at each request another one goes first and the others \
         follow {apart_us} us apart, so that requests after the begin are due up to {} us later than by the schedule; CPU time, memory \
         and the machine's load are those of all",
        list(.others),
        *.apart_us * .others.len() as u64
    )]
    ConcurrentRuns { others: Vec<String>, apart_us: u64 },
    #[error(
        "the trial's answer says that it is from the model {answered}, and {asked} was asked for"
    )]
    OtherModel { answered: String, asked: String },
    #[error("the trial run's request {request} was refused; another one was tried")]
    TrialRefused { request: String },
    #[error(
        "the server took no order to profile (POST {path}: {why}); it has to be started with its profiler on"
    )]
    ProfilerRefused { path: String, why: String },
    #[error("{failed} of {sent} warm-ups got no answer")]
    WarmupsFailed { failed: usize, sent: usize },
    #[error(
        "the run log could not keep up: up to {waiting_mib} MiB of answers waited in memory to be written"
    )]
    RunLogBehind { waiting_mib: usize },
    #[error("no run log is kept ({why}): --run-log names a file for it, --no-run-log wants none")]
    NoRunLog { why: String },
    #[error(
        "shard 1 did not answer after the run, so that nothing is known of how far this machine's clock drifted from its own during \
         the run"
    )]
    ClockDriftUnknown,
    #[error(
        "{count} of the kernel's stamps of arriving packets cannot be true (the wall clock was set during the run, or packets came out \
         of order): the instant of reading stands in their place"
    )]
    ReceiveStampsRefused { count: u64 },
    #[error(
        "sending ended after at most {after_s} s (--duration): {requests} {} {prepared} prepared requests were asked for",
        if .requests == .prepared { "all of" } else { "of" }
    )]
    DurationEnded {
        after_s: f64,
        requests: usize,
        prepared: usize,
    },
    #[error(
        "sending ended after {after_s} s (--duration): {prepared} prepared requests were gone through {:.1} times, to {requests} \
         requests{}",
        *.requests as f64 / *.prepared as f64,
        if *.unique_schemas { "; after the first time round no schema was new any more" } else { "" }
    )]
    DurationEndedAfterLaps {
        after_s: f64,
        requests: usize,
        prepared: usize,
        unique_schemas: bool,
    },
}
