//! The one integration-test binary: a module per promise.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails; clippy exempts test functions, not their helpers")]

mod cli;
mod compare;
mod contracts;
mod conversions;
mod datasets;
// A shell, and links between folders.
#[cfg(unix)]
mod docs;
// Scripts for bash.
#[cfg(unix)]
mod deploy;
mod engines;
mod faults;
// Limits of memory, pipes and devices as Linux has them.
#[cfg(target_os = "linux")]
mod files;
mod flags;
mod forms;
// A shell, links between folders, and the numbers of errors as Linux has them.
#[cfg(target_os = "linux")]
mod frozen;
mod fuzzed;
mod gate;
mod grammars;
mod hostile;
mod hub;
mod layouts;
mod load;
mod mask;
mod mask_command;
mod matrix;
mod mix;
mod preflight;
mod proof;
mod properties;
mod ratchet;
mod reasoning;
mod reference;
mod runlog;
mod score;
mod scripted;
mod server;
mod shards;
// Signals as Unix has them.
#[cfg(unix)]
mod signals;
mod streams;
mod suite;
mod support;
mod tidy;
mod unconstrained;
mod unsupported;
mod verdicts;
