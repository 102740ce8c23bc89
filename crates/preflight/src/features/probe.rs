//! Sends the samples of every feature to a server, several at a time.

use std::sync::Arc;

use futures_util::StreamExt as _;
use serde_json::{Map, Value, json};

use super::data::Feature;
use super::judge::{judge, not_tested};
use super::temptation::{LOGIT_BIAS, Temptation, samples_for};
use super::{FeatureResult, ServerSurvey, Settings};
use crate::constraint_probe::PROMPT;
use crate::{Class, Extent, PreflightSettings, ProbeKind};
use sobench_backend::{
    Adapter, BodySettings, ConstraintDialect, Product, Sampling, ServerKind, adapter,
};
use sobench_client::{Client, ClientSettings, get_path, post_json, send_one};
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::error_message::error_message;
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::printable::printable_message;
use sobench_judge::{Evaluator, JudgeSettings};
use sobench_notices::notice::PreflightNotice;
use sobench_shutdown::Shutdown;

/// Why a feature has no result after a shutdown request.
const INTERRUPTED: &str = "interrupted";

/// Tests all features on one server. The dialects of `options` are tried in turn, and the first that
/// enforces a JSON Schema is used. `on_feature` is called with each result. After a shutdown request
/// no request is sent, and the features without a result are [`FeatureVerdict::NotAsked`].
///
/// [`FeatureVerdict::NotAsked`]: super::FeatureVerdict::NotAsked
///
/// # Errors
/// Environment errors: the server does not answer, or no dialect enforces a JSON Schema, so that
/// keywords cannot be tested. Interrupted by the user before there was a result.
pub async fn survey(
    client: &Client,
    options: &PreflightSettings,
    settings: &Settings,
    features: &[Feature],
    shutdown: &Shutdown,
    mut on_feature: impl FnMut(&FeatureResult),
) -> std::result::Result<ServerSurvey, NoSurvey> {
    let client = Client::new(ClientSettings {
        request_timeout: Some(options.timeout),
        idle_timeout: None,
        ..client.options().clone()
    })?;
    let json_only = PreflightSettings {
        kinds: vec![ProbeKind::JSON_SCHEMA],
        all_dialects: false,
        extent: Extent::BeforeRun,
        ..options.clone()
    };
    let enforced = crate::run(&client, &json_only, shutdown, |_| {}).await?;
    let Some(recommendation) = enforced.recommendation() else {
        return Err(NoSurvey::NothingEnforced(Box::new(enforced)));
    };
    let dialect = recommendation.dialect;
    let endpoint = client.options().endpoint.clone();
    let has_tokenizer = enforced.facts.product.is_some_and(has_tokenize_page);
    let mut probe = Probe {
        has_logit_bias: has_tokenizer,
        adapter: Arc::from(adapter(options.backend)),
        evaluator: Evaluator::new(JudgeSettings::default()),
        requests: enforced.requests,
        last_request: None,
        client,
        options,
        settings,
        dialect,
        shutdown,
    };
    probe.has_logit_bias = probe.accepts_logit_bias().await?;
    let mut found = Vec::with_capacity(features.len());
    for feature in features {
        match probe.test(feature).await {
            Ok(result) => {
                on_feature(&result);
                found.push(result);
            }
            Err(_) if shutdown.is_requested() && !found.is_empty() => {
                found.push(not_tested(feature, INTERRUPTED));
            }
            Err(error) => return Err(error.into()),
        }
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

/// Why there is no survey.
#[derive(Debug)]
pub enum NoSurvey {
    Failed(Error),
    /// No dialect enforces a JSON Schema.
    NothingEnforced(Box<crate::Preflight>),
}

impl From<Error> for NoSurvey {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<NoSurvey> for Error {
    fn from(why: NoSurvey) -> Self {
        match why {
            NoSurvey::Failed(error) => error,
            NoSurvey::NothingEnforced(found) => nothing_enforced_error(&found),
        }
    }
}

fn nothing_enforced_error(found: &crate::Preflight) -> Error {
    let results = found
        .cells
        .iter()
        .filter(|cell| cell.finding.class != Class::NotCarried)
        .map(|cell| {
            let message = printable_message(&error_message(&cell.finding.reason));
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
    options: &'a PreflightSettings,
    settings: &'a Settings,
    dialect: ConstraintDialect,
    /// Whether token ids are known and the server takes `logit_bias`.
    has_logit_bias: bool,
    evaluator: Evaluator,
    shutdown: &'a Shutdown,
    requests: usize,
    /// The last request before the server was gone.
    last_request: Option<String>,
}

impl Probe<'_> {
    /// Whether a request with `logit_bias` is answered.
    async fn accepts_logit_bias(&mut self) -> Result<bool> {
        let Some(bias) = self.logit_bias("{\"v\": 7}").await else {
            return Ok(false);
        };
        let temptation = Temptation {
            prompt: PROMPT.to_owned(),
            biased_text: None,
        };
        let planned = Planned::new(&temptation, "bias", None, Some(bias));
        let seen = self.send(vec![(0, planned)]).await?;
        Ok(seen.iter().all(|(_, seen)| seen.outcome.is_answer()))
    }

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
        let mut observations = self.send_samples(feature, &constraint, 0..1).await?;
        let mut controls = Vec::new();
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
            controls = self.send_controls(feature).await?;
            let rest = 1..self.settings.samples;
            observations.extend(self.send_samples(feature, &constraint, rest).await?);
        }
        let may_be_gone = observations
            .iter()
            .chain(&controls)
            .any(|(_, observation)| {
                matches!(
                    observation.outcome,
                    Outcome::Transport { .. } | Outcome::StreamError { .. }
                )
            });
        if may_be_gone && get_path(&self.client, "/v1/models").await.is_none() {
            self.last_request = Some(feature.id.clone());
        }
        let compiled = self.evaluator.compile(&constraint);
        let first = observations.first().and_then(|(_, first)| {
            let timing = &first.timing;
            let first_ns = timing.first_content_ns()?.checked_sub(timing.sent_ns?)?;
            Some(first_ns as f64 / 1e6)
        });
        Ok(FeatureResult {
            first_ttft_ms: first,
            ..judge(feature, &compiled, &observations, &controls)
        })
    }

    async fn send_samples(
        &mut self,
        feature: &Feature,
        constraint: &Arc<Constraint>,
        samples: std::ops::Range<usize>,
    ) -> Result<Vec<(usize, Observation)>> {
        let mut planned = Vec::with_capacity(samples.len());
        for sample in samples {
            let temptation = Temptation::new(feature, sample);
            let bias = self.bias_of(&temptation).await;
            let id = format!("{}-{sample}", feature.id);
            planned.push((
                sample,
                Planned::new(&temptation, &id, Some(constraint), bias),
            ));
        }
        self.send(planned).await
    }

    /// Sends the same temptations without the keyword. Every second one has no constraint, and so
    /// have all where the keyword cannot be removed.
    async fn send_controls(&mut self, feature: &Feature) -> Result<Vec<(usize, Observation)>> {
        let relaxed = feature.constraint_without_keyword(&mut self.evaluator);
        let controls = samples_for(feature.violating.len());
        let mut planned = Vec::with_capacity(controls);
        for sample in 0..controls {
            let temptation = Temptation::new(feature, sample);
            let bias = self.bias_of(&temptation).await;
            let id = format!("{}-control-{sample}", feature.id);
            let constraint = relaxed.as_ref().filter(|_| sample % 2 == 1);
            planned.push((sample, Planned::new(&temptation, &id, constraint, bias)));
        }
        self.send(planned).await
    }

    async fn bias_of(&self, temptation: &Temptation<'_>) -> Option<Map<String, Value>> {
        match temptation.biased_text {
            Some(text) if self.has_logit_bias => self.logit_bias(text).await,
            _ => None,
        }
    }

    /// The `logit_bias` that makes the tokens of a text more likely; `None` if they are unknown.
    async fn logit_bias(&self, text: &str) -> Option<Map<String, Value>> {
        if !self.has_logit_bias {
            return None;
        }
        let request =
            json!({"model": self.options.model, "prompt": text, "add_special_tokens": false});
        let page = post_json(&self.client, "/tokenize", &request).await?;
        let ids = page["tokens"].as_array()?.iter().filter_map(Value::as_u64);
        let bias: Map<String, Value> = ids.map(|id| (id.to_string(), LOGIT_BIAS.into())).collect();
        (!bias.is_empty()).then_some(bias)
    }

    /// Sends requests within the concurrency cap and returns the observations in order.
    async fn send(&mut self, planned: Vec<(usize, Planned)>) -> Result<Vec<(usize, Observation)>> {
        self.requests += planned.len();
        let requests: Vec<_> = planned
            .into_iter()
            .map(|(sample, planned)| {
                let (client, adapter, shutdown) = (
                    self.client.clone(),
                    Arc::clone(&self.adapter),
                    self.shutdown.clone(),
                );
                let request = self.request(sample, &planned);
                let case = planned.case(self.settings.output_len);
                async move {
                    if shutdown.is_requested() {
                        return Err(interrupted());
                    }
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
            return Err(interrupted());
        }
        sent.into_iter().collect()
    }

    fn request(&self, sample: usize, planned: &Planned) -> BodySettings {
        let seed = self.settings.seed.wrapping_add(sample as u64) % (1 << 31);
        let sampling = Sampling {
            temperature: Some(1.0),
            seed: i64::try_from(seed).ok(),
            ..Sampling::default()
        };
        let mut request = self.options.request(self.dialect, sampling);
        if let Some(bias) = &planned.logit_bias {
            let extra = request.extra_body.get_or_insert_default();
            extra
                .entry("logit_bias")
                .or_insert_with(|| bias.clone().into());
        }
        if planned.constraint.is_none()
            && let Some(extra) = &mut request.extra_body
        {
            extra.retain(|field, value| !ConstraintDialect::constrains(field, value));
        }
        request
    }
}

/// A request to send.
struct Planned {
    id: String,
    prompt: String,
    constraint: Option<Arc<Constraint>>,
    logit_bias: Option<Map<String, Value>>,
}

impl Planned {
    fn new(
        temptation: &Temptation<'_>,
        id: &str,
        constraint: Option<&Arc<Constraint>>,
        logit_bias: Option<Map<String, Value>>,
    ) -> Self {
        Self {
            id: format!("feature-{id}"),
            prompt: temptation.prompt.clone(),
            constraint: constraint.cloned(),
            logit_bias,
        }
    }

    fn case(self, output_len: u32) -> Case {
        Case::new(
            self.id,
            Prompt::Text(self.prompt.into()),
            self.constraint,
            output_len,
        )
    }
}

fn interrupted() -> Error {
    Error::interrupted("interrupted before the first keyword was tested")
}

/// Whether a product has vLLM's `/tokenize` page.
fn has_tokenize_page(product: Product) -> bool {
    [ServerKind::Vllm, ServerKind::Sglang]
        .iter()
        .any(|kind| kind.product() == Some(product))
}
