//! The program: parse, run the command, print, exit code.

use std::process::ExitCode;

use sobench::shutdown::{self, Shutdown};
use sobench::{cli, terminal};

fn main() -> ExitCode {
    shutdown::outlive_file_limits();
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(stopped) => return stopped.print(),
    };
    match command.run(&Shutdown::new()) {
        Ok(output) => terminal::print(&output),
        Err(error) => terminal::fail(&error),
    }
}
