//! The program: parse, run, print, map to an exit code. Knows nothing of how it is done.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use sobench::cli::Cli;
use sobench::plan::RunPlan;
use sobench::progress;
use sobench::run::{self, Finished};

fn main() -> ExitCode {
    let arguments = match Cli::parse_arguments(std::env::args_os()) {
        Ok(cli) => cli.into_bench(),
        Err(error) => {
            // A closed stdout or stderr leaves nobody to tell.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let api_key = std::env::var("OPENAI_API_KEY").ok().filter(|key| !key.is_empty());
    match RunPlan::new(&arguments, api_key).and_then(|plan| run::run(&plan)) {
        Ok(finished) => print(&finished),
        Err(error) => {
            progress::say(&format!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// The report to stdout, the closing lines to stderr. A reader who has gone away (`| head`) has what he wanted.
fn print(finished: &Finished) -> ExitCode {
    let printed = std::io::stdout().write_all(finished.console.as_bytes());
    for line in finished.closing_lines() {
        progress::say(&line);
    }
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            progress::say(&format!("error: the report could not be printed: {error}\nhint: keep it with --save-result"));
            ExitCode::from(3)
        }
        _ => ExitCode::from(finished.exit_code()),
    }
}
