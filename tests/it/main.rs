//! Integration tests of the program and of the whole repository: a module per promise. Those of a
//! crate are in its own `tests/it`.

#![allow(
    clippy::disallowed_methods,
    reason = "tests make servers, and wait for them"
)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails; clippy exempts test functions, not their helpers"
)]

mod cli;
mod compare;
mod contracts;
mod datasets;
// A shell, and links between folders.
#[cfg(unix)]
mod docs;
// Scripts for bash.
#[cfg(unix)]
mod deploy;
mod faults;
// Limits of memory, pipes and devices as Linux has them.
#[cfg(target_os = "linux")]
mod files;
mod flags;
mod flags_table;
mod forms;
// A shell, links between folders, and the numbers of errors as Linux has them.
#[cfg(target_os = "linux")]
mod frozen;
mod fuzzed;
mod hostile_run;
mod layouts;
mod load;
mod mask_command;
mod mask_worker;
mod matrix;
mod mix;
mod planted_faults;
mod preflight_command;
mod proof;
mod ratchet;
mod reasoning;
mod reference;
mod registries;
mod runlog;
mod score;
mod shards;
// Signals as Unix has them.
#[cfg(unix)]
mod signals;
mod support;
mod tidy;
mod unconstrained;
mod unsupported;
