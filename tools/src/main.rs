//! The program: parse, run the command, print, exit code.

use std::process::ExitCode;

use sobench::terminal;
use sobench_shutdown::Shutdown;

fn main() -> ExitCode {
    sobench_shutdown::handle_file_size_signal();
    let command = match sobench_tools::cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(stopped) => return stopped.print(),
    };
    match command.run(&Shutdown::new()) {
        Ok(output) => terminal::print(&output),
        Err(error) => terminal::fail(&error),
    }
}
