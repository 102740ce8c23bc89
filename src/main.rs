//! The program: parse, run, print, map to an exit code. Knows nothing of how it is done.

use std::io::{BufReader, ErrorKind, Write};
use std::process::ExitCode;
use std::sync::Arc;

use clap::FromArgMatches;
use sobench::cli::{Cli, Command, completions, config, man, overwrites};
use sobench::ending::Ending;
use sobench::error::Result;
use sobench::exit_codes::{COULD_NOT, DONE, USAGE};
use sobench::plan::{
    BenchPlan, MeasurePlan, bench_plan, calibrate_plan, compare_plan, mask_plan, merge_plan, preflight_plan, report_plan,
    score_plan, serve_plan,
};
use sobench::{arms, calibrate, compare, mask, measure, preflight, progress, proof, run, score, serve, signals};

fn main() -> ExitCode {
    signals::outlive_file_limits();
    let arguments = match config::expand(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => {
            progress::say(&format!("error: {error}"));
            return ExitCode::from(error.exit_code());
        }
    };
    let matches = match Cli::matches(arguments) {
        Ok(matches) => matches,
        Err(error) => return said(&error),
    };
    if let Err(error) = overwrites::refuse(&matches) {
        progress::say(&format!("error: {error}"));
        return ExitCode::from(error.exit_code());
    }
    let command = match Cli::from_arg_matches(&matches) {
        Ok(cli) => Arc::new(cli.into_command()),
        Err(error) => return said(&error),
    };
    match done_or_ended(&command) {
        Ok(ending) => print(&ending, files_of(&command)),
        Err(error) => {
            progress::say(&format!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

/// What the parser has to say: an error, the help or the version.
fn said(words: &clap::Error) -> ExitCode {
    let code = u8::try_from(words.exit_code()).unwrap_or(USAGE);
    match words.print() {
        Err(error) if code == DONE && error.kind() != ErrorKind::BrokenPipe => not_printed(&error, "a redirection"),
        // A closed stdout or stderr leaves nobody to tell.
        _ => ExitCode::from(code),
    }
}

/// Commands that have nothing to report before they are done end where they are when they are told to.
fn done_or_ended(command: &Arc<Command>) -> Result<Ending> {
    let command = Arc::clone(command);
    match &*command {
        // These listen themselves, or are told to end by who started them.
        Command::Bench(_)
        | Command::Mask(_)
        | Command::Serve(_)
        | Command::CalibrateFloor { .. }
        | Command::CalibrateServer
        | Command::MaskWorker => run_command(&command),
        _ => signals::done_or_ended(move || run_command(&command)),
    }
}

fn run_command(command: &Command) -> Result<Ending> {
    match command {
        Command::Bench(arguments) => match bench_plan(arguments, api_key())? {
            BenchPlan::Run(mut plan) => {
                plan.output.pytorch = wants_pytorch_records();
                Ok(run::run(&plan)?.into())
            }
            BenchPlan::Compare(plan) => arms::command(&plan),
            BenchPlan::DryRun(plan) => arms::dry::command(&plan),
        },
        Command::Calibrate(arguments) => calibrate::command::run(&calibrate_plan(arguments)?),
        Command::Compare(arguments) => compare::command::run(&compare_plan(arguments)?),
        Command::CalibrateServer => {
            calibrate::server::serve(BufReader::new(std::io::stdin()), std::io::stdout()).map(|()| Ending::default())
        }
        Command::CalibrateFloor { port, streams, requests, output_len } => {
            let floor = calibrate::Floor { port: *port, streams: *streams, requests: *requests, output_len: *output_len };
            calibrate::floor(floor).map(|()| Ending::default())
        }
        Command::Completions(arguments) => Ok(completions::run(arguments)),
        Command::Man(arguments) => man::run(arguments),
        Command::Mask(arguments) => mask_command(&mask_plan(arguments)?),
        Command::Merge(arguments) => run::merge::command(&merge_plan(arguments)),
        Command::Preflight(arguments) => preflight::command::run(&preflight_plan(arguments, api_key().as_deref())?),
        Command::Report(arguments) => run::again::command(&report_plan(arguments)),
        Command::Score(arguments) => score::command::run(&score_plan(arguments)?),
        Command::Serve(arguments) => serve::run(serve_plan(arguments)?),
        Command::MaskWorker => {
            mask::worker::serve(BufReader::new(std::io::stdin()), std::io::stdout()).map(|()| Ending::default())
        }
    }
}

fn mask_command(plan: &MeasurePlan) -> Result<Ending> {
    match (&plan.proof.replay, plan.mask.prove) {
        (Some(path), _) => proof::replay(plan, path),
        (None, Some(effort)) => proof::run(plan, effort),
        (None, None) => measure::run(plan),
    }
}

fn api_key() -> Option<String> {
    std::env::var("OPENAI_API_KEY").ok().filter(|key| !key.is_empty())
}

/// vLLM's switch: any text in it, `0` included, is a yes.
fn wants_pytorch_records() -> bool {
    std::env::var_os("SAVE_TO_PYTORCH_BENCHMARK_FORMAT").is_some_and(|value| !value.is_empty())
}

/// The flag that keeps a command's report in a file.
fn files_of(command: &Command) -> &'static str {
    match command {
        Command::Bench(_) => "--save-result, --html or --csv",
        Command::Mask(_) => "--json, --csv or --html",
        Command::Merge(_) => "--report",
        Command::Preflight(_) => "--json",
        Command::Calibrate(_)
        | Command::CalibrateFloor { .. }
        | Command::CalibrateServer
        | Command::Compare(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Report(_)
        | Command::Score(_)
        | Command::Serve(_)
        | Command::MaskWorker => "a redirection",
    }
}

/// The report to stdout, the closing lines to stderr. A reader who has gone away (`| head`) has what he wanted.
fn print(ending: &Ending, files: &str) -> ExitCode {
    let printed = std::io::stdout().write_all(ending.stdout.as_bytes());
    for line in &ending.lines {
        progress::say(line);
    }
    match printed {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => not_printed(&error, files),
        _ => ExitCode::from(ending.exit_code),
    }
}

fn not_printed(error: &std::io::Error, files: &str) -> ExitCode {
    progress::say(&format!("error: what was asked for could not be printed: {error}\nhint: keep it with {files}"));
    ExitCode::from(COULD_NOT)
}
