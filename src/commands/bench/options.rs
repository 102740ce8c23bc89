//! The flags of a run, checked against each other and turned into a plan. Each group of flags is in
//! the file that checks it.

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
use crate::commands::flags::environment::KeyOf;
pub use output::{OutputPlan, RunLogPlan};
pub use shard::StartPlan;
use sobench_client::Endpoint;
use sobench_core::error::Result;
use sobench_core::shard::Shard;
use sobench_data::dataset::Source;
use sobench_embedded::EmbeddedSettings;
use sobench_judge::JudgeSettings;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::{
    ConstraintSettings, ServerMetricsPage, ServerMetricsSettings, Settings,
};

/// The plan of a run, complete before anything is sent.
#[derive(Clone, Debug)]
pub struct RunPlan {
    pub settings: Settings<Source>,
    pub target: Target,
    pub server_metrics: ServerMetricsPlan,
    pub output: OutputPlan,
    /// Notices about flags without effect.
    pub unused_flags: Vec<Notice>,
    /// The part of the load that this client sends, if there are shards.
    pub shard: Option<Shard>,
    pub start: StartPlan,
    /// The part of the requests that is sent, in order; `None` for all. Unlike a shard, it has the whole load.
    pub look: Option<Shard>,
}

/// The server's metrics page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMetricsPlan {
    /// The page of the kind of server, if it answers.
    Auto {
        series: Vec<String>,
    },
    Url {
        url: String,
        series: Vec<String>,
    },
    Off,
}

/// The server of a run.
#[derive(Clone, Debug)]
pub enum Target {
    /// The embedded server, started for this run.
    Embedded(EmbeddedSettings),
    /// A running server.
    Server(ServerTarget),
}

/// A running server, as the user named it.
#[derive(Clone, Debug)]
pub struct ServerTarget {
    pub endpoint: Endpoint,
    /// Whether the address is the default one, because only --model names a server.
    pub is_default_address: bool,
    pub model: Option<String>,
    pub served_model_name: Option<String>,
    /// The time limit to become ready; zero does not wait.
    pub ready_timeout: Duration,
}

impl ServerMetricsPlan {
    /// The settings in the record, without the address.
    fn settings(&self) -> ServerMetricsSettings {
        ServerMetricsSettings {
            page: match self {
                Self::Auto { .. } => ServerMetricsPage::Auto,
                Self::Url { .. } => ServerMetricsPage::Url,
                Self::Off => ServerMetricsPage::Off,
            },
            series: self.series().to_vec(),
        }
    }

    /// The series that the user named.
    pub fn series(&self) -> &[String] {
        match self {
            Self::Auto { series } | Self::Url { series, .. } => series,
            Self::Off => &[],
        }
    }
}

impl RunPlan {
    /// Checks the flags against each other and turns them into a plan.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn new(arguments: &BenchArgs, key_of: KeyOf) -> Result<Self> {
        let mut unused_flags = compat_flags::notices(&arguments.compat)?;
        unused_flags.extend(request::best_of(&arguments.sampling)?);
        unused_flags.extend(request::skip_chat_template(arguments));
        let backend = server::backend(arguments);
        non_generative::refuse(arguments, backend)?;
        let dataset = dataset::name(arguments, backend)?;
        let target = server::target(arguments, backend, key_of)?;
        let server_metrics = server::server_metrics(&arguments.server)?;
        let (load, num_prompts) = traffic::traffic(&arguments.traffic)?;
        request::refuse_probe(load.probe_request_rate, backend)?;
        request::refuse_first_token(load.cancellation, request::streams(arguments, backend))?;
        let report = output::report(&arguments.output, backend)?;
        let mut output = output::output(&arguments.output)?;
        server::refuse_rules_without_page(&output.require, &server_metrics)?;
        let shard = shard::shard_of_run(arguments, &load, num_prompts, &target, &mut output)?;
        request::refuse_parity_of_shards(arguments.traffic.stream_parity, shard)?;
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
            server_metrics: server_metrics.settings(),
            evaluate: JudgeSettings {
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
            server_metrics,
            output,
            unused_flags,
            shard,
            start: shard::start(&arguments.shards)?,
            look: None,
        })
    }

    /// The lines of [`RunPlan::warnings`] for a terminal: one for all flags without effect, and one
    /// for each other warning.
    pub fn warning_lines(&self) -> Vec<String> {
        let mut unused = Vec::new();
        let mut lines = Vec::new();
        for warning in self.warnings() {
            match warning {
                Notice::Bench(BenchNotice::FlagWithoutEffect { flag, .. }) => {
                    unused.push(format!("--{flag}"));
                }
                other => lines.push(other.to_string()),
            }
        }
        if !unused.is_empty() {
            lines.insert(0, format!("flags without effect: {}", unused.join(", ")));
        }
        lines
    }

    /// Warnings about combinations of flags that are allowed.
    pub fn warnings(&self) -> Vec<Notice> {
        let mut warnings = self.unused_flags.clone();
        let mut add = |applies: bool, notice: BenchNotice| {
            warnings.extend(applies.then(|| Notice::from(notice)));
        };
        let (request, backend, name) = (
            &self.settings.request,
            self.settings.backend,
            self.settings.dataset.source.name(),
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
        let names_result = output.directory.is_some()
            || output.filename.is_some()
            || !self.settings.report.metadata.is_empty();
        let writes_other_files = output.failures || output.timeline.is_some() || output.lengths;
        add(
            names_result && !output.save && !writes_other_files,
            BenchNotice::ResultFlagsUnused,
        );
        warnings
    }

    /// The endpoint of the requests, if it is known before the run.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match &self.target {
            Target::Embedded(_) => None,
            Target::Server(target) => Some(&target.endpoint),
        }
    }

    /// The part of the load that this client sends.
    pub fn part(&self) -> Shard {
        self.shard.unwrap_or(Shard::WHOLE)
    }
}

#[cfg(test)]
pub(crate) mod tests;
