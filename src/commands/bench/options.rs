//! The flags of a run, checked against each other and turned into a plan. Each group of flags is in
//! the file that checks it. Opens no connection.

pub mod compat_flags;
pub(crate) mod constraint;
pub(crate) mod dataset;
pub(crate) mod mix;
pub(crate) mod non_generative;
pub(crate) mod output;
pub(crate) mod request;
pub(crate) mod server;
pub(crate) mod shard;
pub(crate) mod traffic;

use std::time::Duration;

use crate::commands::bench::args::BenchArgs;
pub use output::{OutputPlan, RunLogPlan};
pub use shard::StartPlan;
use sobench_client::Endpoint;
use sobench_core::error::Result;
use sobench_core::shard::Shard;
use sobench_embedded::EmbeddedOptions;
use sobench_judge::EvaluateOptions;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_results::record::{ConstraintSettings, Settings};

/// What a run does, complete before anything is sent.
#[derive(Clone, Debug)]
pub struct RunPlan {
    pub settings: Settings,
    pub target: Target,
    pub output: OutputPlan,
    /// Warnings about flags that have no effect here.
    pub foreign: Vec<Notice>,
    /// Which part of the load this client carries, where several do.
    pub shard: Option<Shard>,
    pub start: StartPlan,
}

/// Who answers.
#[derive(Clone, Debug)]
pub enum Target {
    /// The embedded engine, started for this run.
    Embedded(EmbeddedOptions),
    /// A server that runs already.
    Server(ServerTarget),
}

/// A server that runs already, as the user named it.
#[derive(Clone, Debug)]
pub struct ServerTarget {
    pub endpoint: Endpoint,
    pub model: Option<String>,
    pub served_model_name: Option<String>,
    /// How long it may take to become ready; zero does not wait.
    pub ready_timeout: Duration,
}

impl RunPlan {
    /// Checks the flags against each other and turns them into a plan. `api_key` is
    /// `OPENAI_API_KEY`'s value, if set.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn new(arguments: &BenchArgs, api_key: Option<String>) -> Result<Self> {
        let mut foreign = compat_flags::notices(&arguments.foreign)?;
        foreign.extend(request::best_of(&arguments.sampling)?);
        foreign.extend(request::untemplated(arguments));
        let backend = arguments.server.backend.unwrap_or_default();
        non_generative::refuse(arguments, backend)?;
        let dataset = dataset::name(arguments, backend)?;
        let target = server::target(arguments, backend, api_key)?;
        let (load, num_prompts) = traffic::traffic(&arguments.traffic)?;
        request::refuse_probe(load.probe_request_rate, backend)?;
        let report = output::report(&arguments.output, backend)?;
        let output = output::output(&arguments.output)?;
        let shard = shard::of_a_run(arguments, &load, num_prompts, &target, &output)?;
        let settings = Settings {
            backend,
            dataset: dataset::plan(arguments, backend, dataset, num_prompts)?,
            constraint: ConstraintSettings {
                dialect: arguments.constraint.dialect(),
                grammar_dialect: arguments.constraint.grammar_notation(),
                guided_decoding_backend: arguments.constraint.engine().map(str::to_owned),
                explain: arguments.constraint.explain,
                preflight: constraint::preflight(&arguments.constraint),
            },
            load,
            request: request::request(arguments, backend, dataset)?,
            evaluate: EvaluateOptions {
                assert_formats: !arguments.constraint.no_format_assertion,
            },
            metrics: output::metrics(
                &arguments.output,
                backend,
                request::streams(arguments, backend),
            )?,
            report,
            tokenizer: arguments.server.tokenizer.clone().map(Into::into),
        };
        Ok(Self {
            settings,
            target,
            output,
            foreign,
            shard,
            start: shard::start(&arguments.shards)?,
        })
    }

    /// Things that are allowed, and that their user would want to be told of.
    pub fn warnings(&self) -> Vec<Notice> {
        let mut warnings = self.foreign.clone();
        let mut add = |applies: bool, notice: BenchNotice| {
            warnings.extend(applies.then(|| Notice::from(notice)))
        };
        let (request, backend, name) = (
            &self.settings.request,
            self.settings.backend,
            self.settings.dataset.name(),
        );
        let dataset = name.to_string();
        add(
            request.ignore_eos && self.settings.dataset.constrained_ratio > 0.0,
            BenchNotice::IgnoreEosWithConstraints,
        );
        add(
            self.settings.dataset.source.has_own_constraint(),
            BenchNotice::ShippedPrompt,
        );
        if let Some(endpoint) = self.endpoint() {
            let endpoint = endpoint.path.clone();
            add(
                !backend.fits(&endpoint),
                BenchNotice::EndpointUnlikeBackend { endpoint, backend },
            );
        }
        add(
            request.ignore_eos && name.ignores_eos(),
            BenchNotice::IgnoreEosByDataset {
                dataset: dataset.clone(),
            },
        );
        let is_unused = request.template_variables.is_some() && !name.is_templated();
        add(is_unused, BenchNotice::ChatTemplateKwargsUnused { dataset });
        let output = &self.output;
        let named = output.directory.is_some()
            || output.filename.is_some()
            || !self.settings.report.metadata.is_empty();
        let beside = output.failures || output.timeline.is_some() || output.lengths;
        add(
            named && !output.save && !beside,
            BenchNotice::ResultFlagsUnused,
        );
        warnings
    }

    /// Where requests go, if that is known before the run.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match &self.target {
            Target::Embedded(_) => None,
            Target::Server(target) => Some(&target.endpoint),
        }
    }

    /// The part of the load that this client carries.
    pub fn part(&self) -> Shard {
        self.shard.unwrap_or(Shard::WHOLE)
    }

    /// The most requests that this client may have under way; `None` without a cap.
    pub fn own_cap(&self) -> Option<usize> {
        self.settings
            .load
            .max_concurrency
            .map(|cap| self.part().share(cap))
    }
}

#[cfg(test)]
pub(crate) mod tests;
