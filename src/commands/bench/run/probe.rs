//! Optional side tasks of a run: the server's profiler, and probe requests.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::sending::Sending;
use crate::commands::bench::session::Session;
use crate::terminal;
use sobench_backend::{Adapter, Input, RequestOptions};
use sobench_client::{self, Client};
use sobench_core::case::{Case, Message, Prompt};
use sobench_core::error::Result;
use sobench_core::observation::Timing;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_shutdown::Shutdown;

/// Latencies of probe requests that are kept; probing ends with them.
pub(super) const MAX_PROBES: usize = 1_000_000;

/// The prompt of vLLM's probe request.
const PROBE_PROMPT: &str = "Hi";

/// Starts or stops the server's profiler, where requested. A refusal is a notice, not an error.
pub(super) async fn profiled(is_wanted: bool, session: &Session, path: &str) -> Option<Notice> {
    if !is_wanted {
        return None;
    }
    let why = sobench_client::post_command(&session.client, path)
        .await
        .err()?;
    let notice = Notice::from(BenchNotice::ProfilerRefused {
        path: path.to_owned(),
        why,
    });
    terminal::warn(&notice.to_string());
    Some(notice)
}

/// A probe request that is sent repeatedly.
pub(super) struct Probe {
    client: Client,
    adapter: Arc<dyn Adapter>,
    request: RequestOptions,
    case: Case,
    every: Duration,
    shutdown: Shutdown,
}

impl Probe {
    /// Sends `rate` requests per second, less the time that each takes, on a connection of its own.
    ///
    /// # Errors
    /// The connection cannot be set up.
    pub(super) fn new(sending: &Sending<'_>, rate: f64) -> Result<Self> {
        let prompt = match sending.adapter.kind().input() {
            Input::Messages => Prompt::Messages([Message::new("user", PROBE_PROMPT)].into()),
            Input::Text | Input::Audio | Input::Ranking => Prompt::Text(PROBE_PROMPT.into()),
        };
        Ok(Self {
            client: Client::new(sending.session.client.options().clone())?,
            adapter: Arc::clone(&sending.adapter),
            request: sending.request.clone(),
            case: Case::new("probe", prompt, None, 1),
            every: Duration::from_secs_f64(1.0 / rate),
            shutdown: sending.shutdown.clone(),
        })
    }

    /// Sends until the run is over, and waits for the last request. Returns the latency of each in
    /// milliseconds; `None` where it failed.
    pub(super) async fn until(self, mut over: oneshot::Receiver<()>) -> Vec<Option<f64>> {
        let mut latencies_ms = Vec::new();
        while latencies_ms.len() < MAX_PROBES {
            let label = format!("probe-{}", latencies_ms.len());
            let adapter = Arc::clone(&self.adapter);
            let seen = sobench_client::send_one(
                &self.client,
                adapter,
                &self.request,
                &self.case,
                &label,
                &self.shutdown,
            )
            .await;
            let answer = seen.ok().filter(|seen| seen.outcome.is_answer());
            latencies_ms.push(answer.and_then(|seen| e2el_ms(&seen.timing)));
            // A closed channel means that the run is over.
            if tokio::time::timeout(self.every, &mut over).await.is_ok() {
                break;
            }
        }
        latencies_ms
    }
}

/// From sending to the last content, as for every other request; to the end where the only token of
/// the answer has no text.
pub(super) fn e2el_ms(timing: &Timing) -> Option<f64> {
    let span_ns = timing
        .last_content_ns()
        .or(timing.end_ns)?
        .checked_sub(timing.sent_ns?)?;
    Some(Duration::from_nanos(span_ns).as_secs_f64() * 1000.0)
}
