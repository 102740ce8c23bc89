//! Sends the samples of every feature to a server, several at a time.

use std::sync::Arc;

use futures_util::StreamExt as _;

use super::data::Feature;
use super::judge::{judge, not_tested};
use super::{FeatureResult, ServerSurvey, Settings};
use crate::{Class, Extent, Kind, Options};
use sobench_backend::{Adapter, ConstraintDialect, RequestOptions, Sampling, adapter};
use sobench_client::{Client, ClientOptions, get_path, send_one};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::printable::printable;
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_notices::notice::PreflightNotice;
use sobench_shutdown::Shutdown;

/// Maximum characters of an answer or message that an error quotes.
const QUOTED_CHARS: usize = 200;

/// Tests all features on one server, until the first shutdown request. The dialects of `options`
/// are tried in turn, and the first that enforces a JSON Schema is used. `on_feature` is called
/// with each result.
///
/// # Errors
/// Environment errors: the server does not answer, or no dialect enforces a JSON Schema, so that
/// keywords cannot be tested. Interrupted by the user.
pub async fn survey(
    client: &Client,
    options: &Options,
    settings: &Settings,
    features: &[Feature],
    shutdown: &Shutdown,
    mut on_feature: impl FnMut(&FeatureResult),
) -> Result<ServerSurvey> {
    let client = Client::new(ClientOptions {
        request_timeout: Some(options.timeout),
        idle_timeout: None,
        ..client.options().clone()
    })?;
    let json_only = Options {
        kinds: vec![Kind::Json],
        extent: Extent::BeforeRun,
        ..options.clone()
    };
    let enforced = crate::run(&client, &json_only, shutdown, |_| {}).await?;
    let dialect = enforced
        .recommendation()
        .ok_or_else(|| nothing_enforced_error(&enforced))?
        .dialect;
    let endpoint = client.options().endpoint.clone();
    let mut probe = Probe {
        adapter: Arc::from(adapter(options.backend)),
        evaluator: Evaluator::new(EvaluateOptions::default()),
        requests: enforced.requests,
        last_request: None,
        client,
        options,
        settings,
        dialect,
        shutdown,
    };
    let mut found = Vec::with_capacity(features.len());
    for feature in features {
        let result = probe.test(feature).await?;
        on_feature(&result);
        found.push(result);
    }
    let engine_fixed = enforced
        .facts
        .is_vllm()
        .then(|| PreflightNotice::EngineFixedByProbe.into());
    let last_request = probe
        .last_request
        .map(|last_request| PreflightNotice::ServerGone { last_request }.into());
    Ok(ServerSurvey {
        label: String::new(),
        backend: options.backend,
        base_url: endpoint.base_url,
        path: endpoint.path,
        model: options.model.clone(),
        dialect,
        facts: enforced.facts,
        requests: probe.requests,
        found,
        notices: last_request.into_iter().chain(engine_fixed).collect(),
    })
}

fn nothing_enforced_error(found: &crate::Preflight) -> Error {
    let results = found
        .cells
        .iter()
        .filter(|cell| cell.finding.class != Class::NotCarried)
        .map(|cell| {
            let message = printable(&cell.finding.reason, QUOTED_CHARS);
            format!(
                "{} in {}: {message}",
                cell.finding.class.name(),
                cell.dialect
            )
        });
    let results: Vec<String> = results.collect();
    Error::environment(format!(
        "no dialect enforces a JSON Schema on this server, so keywords cannot be tested: {}",
        results.join("; ")
    ))
    .hint("run `sobench preflight` to see the result of each dialect")
}

struct Probe<'a> {
    client: Client,
    adapter: Arc<dyn Adapter>,
    options: &'a Options,
    settings: &'a Settings,
    dialect: ConstraintDialect,
    evaluator: Evaluator,
    shutdown: &'a Shutdown,
    requests: usize,
    /// The last request before the server was gone.
    last_request: Option<String>,
}

impl Probe<'_> {
    /// The first sample is sent alone, so that a schema that is refused or crashes the server is
    /// not sent again.
    async fn test(&mut self, feature: &Feature) -> Result<FeatureResult> {
        if let Some(last) = &self.last_request {
            return Ok(not_tested(
                feature,
                &format!("the server has not accepted connections since the request: {last}"),
            ));
        }
        let constraint = feature.constraint();
        let mut observations = self.send(feature, &constraint, 0..1).await?;
        if let [
            (
                _,
                Observation {
                    outcome:
                        Outcome::Transport {
                            cause: TransportCause::Connect,
                            message,
                        },
                    ..
                },
            ),
        ] = observations.as_slice()
        {
            let words = format!("the server does not accept connections: {message}");
            self.last_request = Some("before this feature".to_owned());
            return Ok(not_tested(feature, &words));
        }
        if observations
            .iter()
            .any(|(_, first)| first.outcome.is_answer())
        {
            observations.extend(
                self.send(feature, &constraint, 1..self.settings.samples)
                    .await?,
            );
        }
        let may_be_gone = observations.iter().any(|(_, observation)| {
            matches!(
                observation.outcome,
                Outcome::Transport { .. } | Outcome::StreamError { .. }
            )
        });
        if may_be_gone && get_path(&self.client, "/v1/models").await.is_none() {
            self.last_request = Some(feature.id.clone());
        }
        Ok(judge(
            feature,
            &constraint,
            &observations,
            &mut self.evaluator,
        ))
    }

    /// Sends samples of a feature within the concurrency cap and returns the observations in order.
    async fn send(
        &mut self,
        feature: &Feature,
        constraint: &Arc<Constraint>,
        samples: std::ops::Range<usize>,
    ) -> Result<Vec<(usize, Observation)>> {
        self.requests += samples.len();
        let requests: Vec<_> = samples
            .map(|sample| {
                let case = feature.case(sample, constraint, self.settings.output_len);
                let (client, adapter, shutdown) = (
                    self.client.clone(),
                    Arc::clone(&self.adapter),
                    self.shutdown.clone(),
                );
                let request = self.request(sample);
                async move {
                    let label = case.id.clone();
                    send_one(&client, adapter, &request, &case, &label, &shutdown)
                        .await
                        .map(|observation| (sample, observation))
                }
            })
            .collect();
        let sent: Vec<Result<(usize, Observation)>> = futures_util::stream::iter(requests)
            .buffered(self.settings.max_concurrency)
            .collect()
            .await;
        if self.shutdown.is_requested() {
            return Err(Error::interrupted("stopped during the feature probe")
                .hint("run it again; no file was written"));
        }
        sent.into_iter().collect()
    }

    fn request(&self, sample: usize) -> RequestOptions {
        let seed = self.settings.seed.wrapping_add(sample as u64) % (1 << 31);
        let sampling = Sampling {
            temperature: Some(1.0),
            seed: i64::try_from(seed).ok(),
            ..Sampling::default()
        };
        self.options.request(self.dialect, sampling)
    }
}
