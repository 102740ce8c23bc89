//! Puts every feature's samples to a server, a few at a time. Knows neither flags nor rendering.

use std::sync::Arc;

use futures_util::StreamExt as _;

use super::data::Feature;
use super::judge::{judge, not_asked};
use super::{Found, Settings, Surveyed};
use crate::{Class, Extent, Kind, Options};
use sobench_backend::{Adapter, ConstraintDialect, RequestOptions, Sampling, adapter};
use sobench_client::{self as driver, Client, DriverOptions};
use sobench_core::constraint::Constraint;
use sobench_core::error::{Error, Result};
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::printable::printable;
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_notices::notice::PreflightNotice;
use sobench_shutdown::Shutdown;

/// How much of an answer or of a server's words an error quotes.
const QUOTED_CHARS: usize = 200;

/// Asks everything of one server, until the first shutdown request. `options` say how requests
/// look; its dialects are tried in turn, and the first that enforces a JSON Schema at all is used.
/// `told` hears of each feature as it is found.
///
/// # Errors
/// Environment errors: nobody answers; no dialect enforces a JSON Schema, so that answers would say
/// nothing of keywords. Stopped by the user.
pub async fn survey(
    client: &Client,
    options: &Options,
    settings: &Settings,
    features: &[Feature],
    shutdown: &Shutdown,
    mut told: impl FnMut(&Found),
) -> Result<Surveyed> {
    let client = Client::new(DriverOptions {
        request_timeout: Some(options.timeout),
        idle_timeout: None,
        ..client.options().clone()
    })?;
    let before = Options {
        kinds: vec![Kind::Json],
        extent: Extent::BeforeRun,
        ..options.clone()
    };
    let enforced = crate::run(&client, &before, shutdown, |_| {}).await?;
    let dialect = enforced
        .recommendation()
        .ok_or_else(|| nothing_enforced(&enforced))?
        .dialect;
    let endpoint = client.options().endpoint.clone();
    let mut probe = Probe {
        adapter: Arc::from(adapter(options.backend)),
        evaluator: Evaluator::new(EvaluateOptions::default()),
        requests: enforced.requests,
        gone: None,
        client,
        options,
        settings,
        dialect,
        shutdown,
    };
    let mut found = Vec::with_capacity(features.len());
    for feature in features {
        let of_feature = probe.ask(feature).await?;
        told(&of_feature);
        found.push(of_feature);
    }
    let fixed = enforced
        .facts
        .is_vllm()
        .then(|| PreflightNotice::EngineFixedByProbe.into());
    let gone = probe
        .gone
        .map(|last_request| PreflightNotice::ServerGone { last_request }.into());
    Ok(Surveyed {
        label: String::new(),
        backend: options.backend,
        base_url: endpoint.base_url,
        path: endpoint.path,
        model: options.model.clone(),
        dialect,
        facts: enforced.facts,
        requests: probe.requests,
        found,
        notices: gone.into_iter().chain(fixed).collect(),
    })
}

fn nothing_enforced(found: &crate::Preflight) -> Error {
    let seen = found
        .cells
        .iter()
        .filter(|cell| cell.finding.class != Class::NotCarried)
        .map(|cell| {
            let words = printable(&cell.finding.words, QUOTED_CHARS);
            format!("{} in {}: {words}", cell.finding.class.name(), cell.dialect)
        });
    let seen: Vec<String> = seen.collect();
    Error::environment(format!(
        "no dialect enforces a JSON Schema here, so that no keyword can be asked about: {}",
        seen.join("; ")
    ))
    .hint("`sobench preflight` shows what came of each dialect")
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
    /// What was asked last before the server was gone.
    gone: Option<String>,
}

impl Probe<'_> {
    /// The first sample goes alone: a schema that is refused, or that the server dies of, is not
    /// sent again.
    async fn ask(&mut self, feature: &Feature) -> Result<Found> {
        if let Some(last) = &self.gone {
            return Ok(not_asked(
                feature,
                &format!("the server takes no connections since it was asked {last}"),
            ));
        }
        let constraint = feature.constraint();
        let mut seen = self.send(feature, &constraint, 0..1).await?;
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
        ] = seen.as_slice()
        {
            let words = format!("the server takes no connections: {message}");
            self.gone = Some("something before this feature".to_owned());
            return Ok(not_asked(feature, &words));
        }
        if seen.iter().any(|(_, first)| first.outcome.is_answer()) {
            seen.extend(
                self.send(feature, &constraint, 1..self.settings.samples)
                    .await?,
            );
        }
        let may_be_gone = seen.iter().any(|(_, seen)| {
            matches!(
                seen.outcome,
                Outcome::Transport { .. } | Outcome::StreamError { .. }
            )
        });
        if may_be_gone && driver::page(&self.client, "/v1/models").await.is_none() {
            self.gone = Some(feature.id.clone());
        }
        Ok(judge(feature, &constraint, &seen, &mut self.evaluator))
    }

    /// Sends some samples of a feature, as many at a time as is allowed; they come back in order.
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
                    driver::send_one(&client, adapter, &request, &case, &label, &shutdown)
                        .await
                        .map(|seen| (sample, seen))
                }
            })
            .collect();
        let sent: Vec<Result<(usize, Observation)>> = futures_util::stream::iter(requests)
            .buffered(self.settings.max_concurrency)
            .collect()
            .await;
        if self.shutdown.is_requested() {
            return Err(
                Error::interrupted("stopped during the feature probe").hint("nothing was written")
            );
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
