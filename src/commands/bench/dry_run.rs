//! Prints the requests that a run would send (`--dry-run`), as far as they are known without the
//! server, which may change the dialect of `auto`.

use std::fmt::Write as _;

use serde_json::Value;

use super::options::{RunPlan, Target};
use super::run::judge::look_ahead;
use super::run::prepare::{check_times, open_tokenizer};
use super::session::request_options;
use crate::terminal::{InputProgress, InputUnit, Mode};
use sobench_backend::identify::{Server, identify};
use sobench_backend::{self as backend, BodySettings};
use sobench_core::case::{Arm, Case};
use sobench_core::error::Result;
use sobench_data::dataset::{self, DatasetPlan, Inputs};
use sobench_data::hub::HubSettings;
use sobench_embedded::SYNTHETIC_MODEL;
use sobench_judge::Evaluator;

/// The model where none is named.
const UNKNOWN_MODEL: &str = "<the first model that /v1/models lists>";

/// The requests of a dry run.
pub(crate) struct DryRun<'a> {
    plan: &'a RunPlan,
    cases: Vec<Case>,
    options: BodySettings,
}

impl<'a> DryRun<'a> {
    /// Loads the cases.
    ///
    /// # Errors
    /// The dataset or the tokenizer cannot be read.
    pub(crate) fn new(plan: &'a RunPlan) -> Result<Self> {
        let server = match &plan.target {
            Target::Embedded { .. } => Server::Embedded,
            Target::Server(_) => identify(plan.settings.backend, None, None),
        };
        let dialect = plan
            .settings
            .constraint
            .dialect
            .unwrap_or(server.constraint_dialect(plan.settings.backend));
        let model = match &plan.target {
            Target::Embedded { .. } => SYNTHETIC_MODEL.to_owned(),
            Target::Server(target) => target
                .served_model_name
                .clone()
                .or_else(|| target.model.clone())
                .unwrap_or_else(|| UNKNOWN_MODEL.to_owned()),
        };
        let dataset = DatasetPlan {
            grammar_dialect: plan
                .settings
                .constraint
                .grammar_dialect
                .unwrap_or(server.grammar_dialect()),
            grammar_spelling: server
                .grammar_spelling(dialect, plan.settings.constraint.grammar_dialect),
            ..plan.settings.dataset.clone()
        };
        let tokenizer = open_tokenizer(&plan.settings)?;
        let options = request_options(&plan.settings, model, dialect);
        let mode = Mode::detect(plan.output.progress);
        let inputs = Inputs {
            tokenizer: &tokenizer,
            hub: &HubSettings::from_env(),
            progress: &InputProgress::new(mode, 0, InputUnit::Bytes),
        };
        let mut dataset = dataset::load_with(&dataset, &inputs)?;
        check_times(&mut dataset, &plan.settings)?;
        let mut cases = dataset.cases;
        if let Some(lora) = &plan.settings.request.lora {
            super::run::lora::assign(&mut cases, lora, plan.settings.dataset.seed);
        }
        Ok(Self {
            plan,
            cases,
            options,
        })
    }

    /// Checks that answers can be judged by the constraint of the whole run.
    ///
    /// # Errors
    /// The constraint is broken or unsupported.
    pub(crate) fn check_constraint(&self) -> Result<()> {
        let mut evaluator = Evaluator::new(self.plan.settings.evaluate);
        // Unusable constraints of rows are notices of the run.
        let first = &self.cases[..self.cases.len().min(1)];
        look_ahead(
            self.plan.settings.dataset.source.name(),
            first,
            &mut evaluator,
            &(),
        )
        .map(drop)
    }

    /// The number of requests.
    pub(crate) fn requests(&self) -> usize {
        self.cases.len()
    }

    /// The first request of an arm.
    pub(crate) fn first(&self, arm: Arm) -> Option<&Case> {
        self.cases.iter().find(|case| case.arm == arm)
    }

    /// A request as it would be sent, without secrets.
    ///
    /// # Errors
    /// The case cannot be encoded as a request.
    pub(crate) fn request(&self, case: &Case) -> Result<String> {
        let mut page = String::new();
        let adapter = backend::adapter(self.plan.settings.backend);
        let body = adapter
            .encode(case, &self.options)
            .map_err(|unsendable| unsendable.into_error(case))?;
        let _ = writeln!(
            page,
            "POST {}\ncontent-type: {}",
            self.url(),
            adapter.content_type()
        );
        if let Some(endpoint) = self.plan.endpoint() {
            let credentials = endpoint.kind.credentials();
            for (name, value) in credentials.headers {
                let _ = writeln!(page, "{name}: {value}");
            }
            if endpoint.api_key.is_some() {
                let _ = writeln!(page, "authorization: Bearer ***");
            }
            endpoint.headers.iter().for_each(|(name, _)| {
                let _ = writeln!(page, "{name}: ***");
            });
        }
        if let Some(prefix) = &self.plan.settings.request.request_id_prefix {
            let _ = writeln!(page, "x-request-id: {prefix}0");
        }
        if let Some(name) = &self.plan.settings.request.session_header {
            let _ = writeln!(page, "{name}: session-0");
        }
        let _ = match serde_json::from_slice::<Value>(&body) {
            Ok(body) => writeln!(page, "\n{body:#}"),
            Err(_) => writeln!(
                page,
                "\n({} bytes of {})",
                body.len(),
                adapter.content_type()
            ),
        };
        Ok(page)
    }

    /// The URL of the request. A base URL that ends in `/v1` gets no second one.
    fn url(&self) -> String {
        let (base, path) = match self.plan.endpoint() {
            None => (
                "http://127.0.0.1:<a free port>".to_owned(),
                self.plan.settings.backend.default_path(),
            ),
            Some(endpoint) => (endpoint.public_base_url(), endpoint.path.as_str()),
        };
        let (root, path) = (base.trim_end_matches('/'), path.trim_start_matches('/'));
        let path = if root.ends_with("/v1") {
            path.strip_prefix("v1/").unwrap_or(path)
        } else {
            path
        };
        format!("{root}/{path}")
    }
}
