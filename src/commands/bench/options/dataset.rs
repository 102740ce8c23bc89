//! The dataset flags, checked and turned into a plan.

use std::str::FromStr;

use crate::commands::bench::args::BenchArgs;
use crate::commands::bench::options::constraint::{ConstraintArgs, arms, constrained_ratio};
use crate::commands::bench::options::non_generative;
use sobench_backend::ServerKind;
use sobench_core::constraint::{GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::{self, DatasetArgs, DatasetName, DatasetPlan, Shortfall, Source};
use sobench_plan::dataset::Constraints;

/// Whether requests to the server can have constraints of the dataset.
pub(crate) fn takes_constraints(backend: ServerKind, dataset: DatasetName) -> bool {
    backend.takes_constraints() && !dataset.is_unconstrained()
}

/// The requested dataset, or the default of the backend.
///
/// # Errors
/// The dataset is unknown.
pub(crate) fn name(arguments: &BenchArgs, backend: ServerKind) -> Result<DatasetName> {
    if arguments.dataset.mix.is_some() {
        return Ok(DatasetName::Mix);
    }
    let named = arguments.dataset.dataset.first();
    named.map_or(Ok(non_generative::default_dataset(backend)), |name| {
        DatasetName::from_str(name)
    })
}

/// Checks the flags of the dataset and turns them into a plan.
///
/// # Errors
/// Usage errors that name the flag and its value.
pub(crate) fn plan(
    arguments: &BenchArgs,
    backend: ServerKind,
    name: DatasetName,
    num_prompts: usize,
) -> Result<DatasetPlan> {
    if let Some(mix) = &arguments.dataset.mix {
        return super::mix::plan(arguments, backend, mix, num_prompts);
    }
    if arguments.constraint.grammar_notation().is_some() && !name.has_grammars() {
        return Err(dataset::unused_flag_error(
            "--grammar-dialect",
            name,
            DatasetName::has_grammars,
        ));
    }
    arguments.dataset.typed.refuse_unused(name)?;
    let mut source = Source::new(name, &arguments.dataset)?;
    if let (Source::Requests(requests), Some(_)) = (&mut source, arguments.traffic.replay_speed) {
        // Times do not repeat.
        requests.shortfall = Shortfall::FewerRequests;
    }
    let takes_constraints = takes_constraints(backend, name);
    if !takes_constraints {
        refuse_constraint(&arguments.constraint, name)?;
    }
    let (output_len, output) = name.output_len(&arguments.dataset, arguments.traffic.output_len)?;
    let cells = dataset::cells(&arguments.dataset, name)?;
    let arms = if takes_constraints {
        arms(&arguments.constraint, backend, name, !cells.is_empty())?
    } else {
        Vec::new()
    };
    let traffic = &arguments.traffic;
    // --num-prompts counts items. Otherwise a duration and a rate determine the requests.
    let counts_items = traffic.num_prompts.is_some() || traffic.duration.is_none();
    let mut plan = DatasetPlan {
        source,
        num_prompts,
        output_len,
        output,
        seed: arguments.traffic.seed,
        constrained_ratio: if takes_constraints {
            constrained_ratio(&arguments.constraint)?
        } else {
            0.0
        },
        arms,
        cells,
        score: arguments.constraint.scorer(),
        constraints: if takes_constraints {
            Constraints::Kept
        } else {
            Constraints::Dropped
        },
        prompt_form: non_generative::prompt_form(backend, &arguments.dataset)?,
        grammar_dialect: GrammarDialect::Ebnf,
        grammar_spelling: GrammarSpelling::AsWritten,
    };
    if !counts_items {
        plan.num_prompts = num_prompts.div_ceil(plan.requests_per_row());
    }
    Ok(plan)
}

/// Whether requests set `ignore_eos` because of the dataset. As `vllm bench serve`, only for
/// backends that have the field.
pub(crate) fn sets_ignore_eos(flags: &DatasetArgs, backend: ServerKind, name: DatasetName) -> bool {
    name.ignores_eos()
        && !flags.rows.random.disable_ignore_eos
        && backend.generates()
        && backend.takes_ignore_eos()
}

/// Refuses constraint flags for a dataset without constraints.
fn refuse_constraint(flags: &ConstraintArgs, name: DatasetName) -> Result<()> {
    let ratio = flags.guided_decoding_ratio.filter(|&ratio| ratio != 0.0);
    let rows = [
        (
            "--guided-decoding-ratio",
            ratio.map(|ratio| ratio.to_string()),
        ),
        (
            "--constraint-dialect",
            flags.dialect().map(|dialect| dialect.to_string()),
        ),
        (
            "--arms",
            (!flags.arms.is_empty()).then(|| flags.arms.join(",")),
        ),
    ];
    match rows
        .into_iter()
        .find_map(|(flag, value)| Some((flag, value?)))
    {
        None => Ok(()),
        Some((flag, value)) => Err(Error::usage(format!(
            "the dataset {name} has no constraints: {flag} {value}"
        ))
        .hint(format!(
            "leave {flag} out, or use a dataset with constraints"
        ))),
    }
}

/// Resets the flags that another dataset of the same command reads and this one does not. A flag
/// that no dataset reads stays, and is refused later.
pub(crate) fn reset_flags_of_others(
    flags: &mut BenchArgs,
    dataset: DatasetName,
    all: &[DatasetName],
) {
    flags.dataset.typed.drop_flags_of_others(dataset, all);
    if dataset.is_unconstrained() && !all.iter().all(|other| other.is_unconstrained()) {
        flags.constraint.guided_decoding_ratio = None;
        flags.constraint.constraint_dialect = "auto".to_owned();
    }
    if !dataset.has_grammars() && all.iter().any(|other| other.has_grammars()) {
        flags.constraint.grammar_dialect = "auto".to_owned();
    }
}

#[cfg(test)]
mod tests;
