//! Fuzz target of the check `gate`.
#![no_main]

#[path = "../checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| checks::run("server_metrics", bytes));
