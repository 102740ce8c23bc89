//! Integration tests of the program and the repository, one module per subject. Tests of a crate
//! are in its own `tests/it`.

#![allow(
    clippy::disallowed_methods,
    reason = "tests make servers, and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; clippy exempts test functions, not their helpers"
)]

pub(crate) use sobench_testkit::support;

mod accept;
mod accuracy;
mod broken_schemas;
mod canary;
mod cancellation;
mod channels;
mod cli;
mod compare;
mod datasets;
mod departures;
// Needs a shell and symbolic links.
mod docs;
mod enforcement;
// Needs bash.
mod deploy;
mod embedded_speed;
mod explain;
mod faults;
// Needs memory limits, pipes and devices of Linux.
#[cfg(target_os = "linux")]
mod files;
mod flags;
mod flags_table;
mod forms;
mod fuzzed;
mod hostile_run;
mod load;
mod map;
mod matrix;
mod messages;
mod mix;
// Needs a shell.
mod outputs;
mod planted_faults;
mod preflight_command;
mod reference;
mod requests;
// Needs gzip and Python.
mod results_chapter;
mod runlog;
mod runs;
mod same_verdicts;
mod score;
mod secrets;
mod serve_tools;
mod server_metrics;
mod sessions;
mod shards;
// Needs Unix signals.
mod signals;
// Needs Python, a shell, symbolic links and the error numbers of Linux.
#[cfg(target_os = "linux")]
mod stored_outputs;
mod stream_parity;
mod suite;
mod tidy;
mod token_limit;
mod tool_calls;
mod unconstrained;
mod unsupported;
mod wire;
