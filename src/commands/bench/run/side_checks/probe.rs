//! Probe requests during a run (`--probe-request-rate`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::commands::bench::run::sending::Sending;
use crate::commands::bench::run::side_check::{CheckedRun, SideCheck, Step};
use sobench_backend::Input;
use sobench_client::{Client, send_one};
use sobench_core::case::{Case, Message, Prompt};
use sobench_core::error::Result;
use sobench_core::observation::Timing;
use sobench_runlog::probe::ProbeResults;
use sobench_runlog::write::EventSender;

/// Latencies of probe requests that are kept; probing ends with them.
const MAX_PROBES: usize = 1_000_000;

/// The prompt of vLLM's probe request.
const PROBE_PROMPT: &str = "Hi";

/// Probe requests beside the run.
struct Probing {
    /// Requests per second.
    rate: f64,
    task: Option<Task>,
}

/// A task that ends when the sender is dropped. Its result has the latency of each request in
/// milliseconds; `None` where one failed.
type Task = (oneshot::Sender<()>, JoinHandle<Vec<Option<f64>>>);

/// Sends probe requests at a rate.
pub(super) fn check(rate: Option<f64>) -> Option<Box<dyn SideCheck>> {
    let (rate, task) = (rate?, None);
    Some(Box::new(Probing { rate, task }))
}

impl SideCheck for Probing {
    /// Sends requests on a connection of their own. The time that each takes is added to the
    /// interval.
    fn start(&mut self, sending: &Sending<'_>, _: &EventSender) -> Result<()> {
        let prompt = match sending.adapter.kind().input() {
            Input::Messages => Prompt::Messages([Message::new("user", PROBE_PROMPT)].into()),
            Input::Text | Input::Audio | Input::Ranking => Prompt::Text(PROBE_PROMPT.into()),
        };
        let case = Case::new("probe", prompt, None, 1);
        let client = Client::new(sending.session.client.options().clone())?;
        let (adapter, request) = (Arc::clone(&sending.adapter), sending.request.clone());
        let shutdown = sending.shutdown.clone();
        let every = Duration::from_secs_f64(1.0 / self.rate);
        let (over, mut ends) = oneshot::channel::<()>();
        let probing = async move {
            let mut latencies_ms = Vec::new();
            while latencies_ms.len() < MAX_PROBES {
                let label = format!("probe-{}", latencies_ms.len());
                let adapter = Arc::clone(&adapter);
                let sent = send_one(&client, adapter, &request, &case, &label, &shutdown);
                let answer = sent.await.ok().filter(|seen| seen.outcome.is_answer());
                latencies_ms.push(answer.and_then(|seen| e2el_ms(&seen.timing)));
                // A closed channel means that the run is over.
                if tokio::time::timeout(every, &mut ends).await.is_ok() {
                    break;
                }
            }
            latencies_ms
        };
        self.task = Some((over, tokio::spawn(probing)));
        Ok(())
    }

    /// Waits for the last request.
    fn after<'a>(&'a mut self, run: &'a mut CheckedRun<'_>, _: &'a EventSender) -> Step<'a> {
        Box::pin(async move {
            if let Some((over, task)) = self.task.take() {
                drop(over);
                let latencies_ms = task.await.ok();
                run.found.probe = latencies_ms.map(|all| ProbeResults::new(self.rate, &all));
            }
            Ok(())
        })
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
