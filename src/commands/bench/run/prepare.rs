//! Prepares a run: checks its files, connects to the server, and loads the requests.

use std::sync::Arc;

use tokio::runtime::Runtime;

use super::context::{RunContext, stopped_early};
use super::{cancellation, cold_schemas, explain, files, judge, lora, result_file, run_log_file};
use crate::commands::bench::options::{OutputPlan, RunPlan};
use crate::commands::bench::session::Session;
use crate::terminal::{self, InputUnit};
use sobench_core::error::{Error, Result};
use sobench_core::schedule::{Pace, Rate, Schedule, due_times, replayed};
use sobench_core::shard::Units;
use sobench_data::dataset::{self, Dataset, DatasetPlan, Inputs, Source};
use sobench_data::hub::HubSettings;
use sobench_data::tokenizer::Tokenizer;
use sobench_judge::Evaluator;
use sobench_notices::notice::{BenchNotice, DatasetNotice};
use sobench_plan::record::Settings;
use sobench_shutdown::run_abandonable;

/// What a run sends, and to which server.
pub(super) struct Prepared {
    pub(super) session: Session,
    pub(super) dataset: Dataset,
    pub(super) schedule: Schedule,
    pub(super) tokenizer: Arc<Tokenizer>,
    /// Has compiled the constraints.
    pub(super) evaluator: Evaluator,
}

/// Prepares a run. Prints its warnings and notices.
///
/// # Errors
/// A file cannot be written or read, there is no server, a shard has no requests, or no answer could
/// be judged.
pub(super) fn prepare(plan: &RunPlan, context: &RunContext, runtime: &Runtime) -> Result<Prepared> {
    let (settings, part) = (&plan.settings, plan.part());
    plan.warning_lines().iter().for_each(terminal::warn);
    check_writable(&plan.output)?;
    let tokenizer = Arc::new(open_tokenizer(settings)?);
    let session = Session::open(&plan.target, settings, part, runtime, &context.shutdown)?;
    let loading = DatasetPlan {
        grammar_dialect: session.grammar_dialect,
        grammar_spelling: session.grammar_spelling,
        ..settings.dataset.clone()
    };
    let is_shown = plan.output.progress;
    let mut dataset = load(loading, &tokenizer, is_shown, context, runtime)?;
    if let Some(look) = plan.look {
        dataset.keep_part(look);
    }
    let requests = dataset.cases.len();
    let session_turns = dataset.session_turns();
    let units = Units::new(&session_turns);
    if units.share(part, requests) == 0 {
        let error = format!("--shard {part} has no requests: the dataset has {requests}");
        return Err(Error::usage(error).hint("use fewer shards"));
    }
    change_cases(&mut dataset, settings)?;
    check_times(&mut dataset, settings)?;
    for notice in session.notices.iter().chain(&dataset.notices) {
        terminal::note(&notice.to_string());
    }
    if settings.constraint.explain {
        explain::routes(&session, &dataset.cases)
            .iter()
            .for_each(|line| terminal::say(line));
    }
    let mut evaluator = Evaluator::new(settings.evaluate);
    let unjudged = judge::look_ahead(
        settings.dataset.source.name(),
        &dataset.cases,
        &mut evaluator,
        &context.preparation(is_shown, InputUnit::Constraints),
    )?;
    unjudged.iter().for_each(terminal::warn);
    let load = &settings.load;
    let due = match load.replay_speed {
        Some(speed) => replayed(&dataset.recorded_s, speed),
        None if units.are_sessions() => {
            let sessions = session_turns.len();
            let starts = due_times(sessions, load.pace, load.burstiness, settings.dataset.seed);
            let turns = starts.iter().zip(&session_turns);
            turns
                .flat_map(|(start, turns)| std::iter::repeat_n(*start, *turns as usize))
                .collect()
        }
        None => due_times(requests, load.pace, load.burstiness, settings.dataset.seed),
    };
    let schedule = Schedule {
        due: context.due(due, load.until),
        until: load.until,
        part,
        units,
    };
    Ok(Prepared {
        session,
        dataset,
        schedule,
        tokenizer,
        evaluator,
    })
}

/// Checks that the files of a run can be created.
fn check_writable(output: &OutputPlan) -> Result<()> {
    if output.save {
        result_file::check_writable(output)?;
    }
    run_log_file::check_writable(output)?;
    files::check_writable(output)
}

/// The tokenizer of a run.
///
/// # Errors
/// It cannot be read.
pub(crate) fn open_tokenizer(settings: &Settings<Source>) -> Result<Tokenizer> {
    let name = settings.tokenizer.as_deref();
    let tokenizer = name.map_or_else(|| Ok(Tokenizer::embedded()), Tokenizer::open)?;
    let variables = settings.request.template_variables.clone();
    Ok(tokenizer.with_template_variables(variables.unwrap_or_default()))
}

fn load(
    plan: DatasetPlan,
    tokenizer: &Arc<Tokenizer>,
    is_shown: bool,
    context: &RunContext,
    runtime: &Runtime,
) -> Result<Dataset> {
    let progress = context.preparation(is_shown, InputUnit::Bytes);
    let tokenizer = Arc::clone(tokenizer);
    let load = move || {
        let inputs = Inputs {
            tokenizer: &tokenizer,
            hub: &HubSettings::from_env(),
            progress: &progress,
        };
        dataset::load_with(&plan, &inputs)
    };
    let loading = run_abandonable("a run", load, context.shutdown.drain_requested());
    let loaded = runtime.block_on(loading)?;
    loaded.unwrap_or_else(|| Err(stopped_early()))
}

/// Refuses to replay requests without times. Reports times that are not used.
///
/// # Errors
/// A request has no time.
pub(crate) fn check_times(dataset: &mut Dataset, settings: &Settings<Source>) -> Result<()> {
    let has_times = !dataset.recorded_s.is_empty();
    match settings.load.replay_speed {
        Some(speed) if !has_times => Err(Error::usage(format!(
            "--replay-speed {speed}, but not every request has a time: {}",
            dataset.source
        ))
        .hint("use --dataset requests with a file of which each request has a timestamp, or --request-rate")),
        None if has_times && settings.load.pace == Pace::Steady(Rate::Infinite) => {
            dataset.notices.push(DatasetNotice::TimesUnused {}.into());
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Assigns modules, abandons requests and makes schemas new, as the settings say.
fn change_cases(dataset: &mut Dataset, settings: &Settings<Source>) -> Result<()> {
    let (cases, seed) = (&mut dataset.cases, settings.dataset.seed);
    if let Some(lora) = &settings.request.lora {
        dataset.notices.push(lora::assign(cases, lora, seed));
    }
    if let Some(cancellation) = settings.load.cancellation {
        cancellation::plan(cases, cancellation, seed);
    }
    if let Some(every) = settings.load.cold_schema_every {
        let requests = cold_schemas::inject(cases, every)?;
        let notice = BenchNotice::ColdSchemas { requests, every };
        dataset.notices.push(notice.into());
    }
    Ok(())
}
