//! The program: parse, run, print, map to an exit code. Knows nothing of how it is done.
#![allow(clippy::print_stderr, reason = "errors and closing lines are printed here")]

use std::io::Write;
use std::process::ExitCode;

use sobench::cli::Cli;
use sobench::error::{Error, Result};
use sobench::plan::RunPlan;
use sobench::run;

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
    match RunPlan::new(&arguments, api_key).and_then(|plan| bench(&plan)) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn bench(plan: &RunPlan) -> Result<ExitCode> {
    let finished = run::run(plan)?;
    std::io::stdout().write_all(finished.console.as_bytes()).map_err(|error| {
        Error::environment(format!("the report could not be printed: {error}")).hint("keep it with --save-result")
    })?;
    for line in finished.closing_lines() {
        eprintln!("{line}");
    }
    Ok(ExitCode::from(finished.exit_code()))
}
