//! The program: parse, run the command, print, exit code.

use std::process::ExitCode;

use sobench::cli::{self, Command};
use sobench::commands::output::CommandOutput;
use sobench::commands::{self, calibrate, compare, completions, man, mask, merge, preflight, report, score, serve};
use sobench::error::Result;
use sobench::shutdown::{self, until_signal};
use sobench::terminal;

fn main() -> ExitCode {
    shutdown::outlive_file_limits();
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(stopped) => return stopped.print(),
    };
    match run(command) {
        Ok(output) => terminal::print(&output),
        Err(error) => terminal::fail(&error),
    }
}

/// Commands without partial results exit at the first signal. The others handle signals themselves, or end with their parent.
fn run(command: Command) -> Result<CommandOutput> {
    match command {
        Command::Bench(flags) => commands::bench(&flags),
        Command::Mask(flags) => mask::run(&flags),
        Command::MaskWorker => mask::work(),
        Command::Serve(flags) => serve::run(&flags),
        Command::Calibrate(flags) => until_signal(move || calibrate::run(&flags)),
        Command::CalibrateServer => calibrate::run_server(),
        Command::CalibrateFloor(flags) => calibrate::run_floor(&flags),
        Command::Compare(flags) => until_signal(move || compare::run(&flags)),
        Command::Completions(flags) => until_signal(move || Ok(completions::run(&flags, &cli::parser()))),
        Command::Man(flags) => until_signal(move || man::run(&flags, cli::parser())),
        Command::Merge(flags) => until_signal(move || merge::run(&flags)),
        Command::Preflight(flags) => until_signal(move || preflight::run(&flags)),
        Command::Report(flags) => until_signal(move || report::run(&flags)),
        Command::Score(flags) => until_signal(move || score::run(&flags)),
    }
}
