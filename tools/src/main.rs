//! The program: parse, run the command, print, exit code.

use std::process::ExitCode;

use sobench::cli::execute;
use sobench_tools::cli::{Command, parse};

fn main() -> ExitCode {
    execute(|| parse(std::env::args_os()), Command::run)
}
