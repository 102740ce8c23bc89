//! Single requests before and after a run with abandoned requests (`--cancel-rate`): does the server
//! still answer, and as fast as before?

use std::time::Duration;

use super::probe::e2el_ms;
use crate::commands::bench::run::choose::Chosen;
use crate::commands::bench::run::first_use::ttft_ms;
use crate::commands::bench::run::sending::Sending;
use crate::commands::bench::run::side_check::{CheckedRun, SideCheck, Step};
use crate::commands::bench::run::warmup;
use crate::terminal;
use sobench_core::case::{Arm, Case};
use sobench_core::error::Result;
use sobench_core::load::Cancellation;
use sobench_core::observation::{Observation, failure_message};
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_runlog::recovery::{
    Recovery, RecoveryState, SLOWER_BY_MS, SLOWER_FACTOR, SingleLatency,
};

/// Number of requests on each side, of which the median counts.
const REQUESTS: usize = 5;

/// Output tokens of each request at most.
const MAX_OUTPUT_TOKENS: u32 = 16;

/// How long a request may take: this time, and this multiple of the slowest request before the run.
const TIME_LIMIT: Duration = Duration::from_secs(30);
const TIME_LIMIT_FACTOR: f64 = 10.0;

/// The requests before a run, and what they showed. All have the constraint and the length of
/// `model`, and prompts of their own, which are in no cache.
struct RecoveryCheck {
    model: Case,
    seed: u64,
    latency: SingleLatency,
    before: Series,
}

/// A series of single requests.
#[derive(Default)]
struct Series {
    latencies_ms: Vec<f64>,
    slowest_ms: f64,
    /// Why the last one has no answer.
    error: Option<String>,
}

/// Checks the server around abandoned requests with the case of the trial, without a constraint that
/// the server refuses.
pub(super) fn check(
    cancellation: Option<Cancellation>,
    chosen: &Chosen<'_>,
    seed: u64,
) -> Option<Box<dyn SideCheck>> {
    cancellation?;
    let mut model = chosen.trial.case.clone();
    if chosen.trial.refusal.is_some() {
        model.arm = Arm::Free;
    }
    let latency = if chosen.request.stream {
        SingleLatency::Ttft
    } else {
        SingleLatency::E2el
    };
    Some(Box::new(RecoveryCheck {
        model,
        seed,
        latency,
        before: Series::default(),
    }))
}

impl SideCheck for RecoveryCheck {
    fn before<'a>(&'a mut self, run: &'a mut CheckedRun<'_>) -> Step<'a> {
        Box::pin(async move {
            self.before = self.send(&run.sending, "before").await?;
            Ok(())
        })
    }

    /// Has no result after a shutdown request, which cancels the requests.
    fn close<'a>(&'a mut self, run: &'a mut CheckedRun<'_>) -> Step<'a> {
        Box::pin(async move {
            let shutdown = &run.sending.shutdown;
            if shutdown.is_requested() {
                return Ok(());
            }
            let after = self.send(&run.sending, "after").await?;
            if shutdown.is_requested() {
                return Ok(());
            }
            let before_ms = std::mem::take(&mut self.before.latencies_ms);
            let recovery = Recovery::new(self.latency, before_ms, after.latencies_ms, after.error);
            if let Some(notice) = notice(&recovery) {
                terminal::warn(&notice);
                run.found.notices.push(notice);
            }
            run.found.recovery = Some(recovery);
            Ok(())
        })
    }
}

impl RecoveryCheck {
    /// Sends the requests one after the other, until one has no answer.
    async fn send(&self, sending: &Sending<'_>, side: &str) -> Result<Series> {
        let limit =
            TIME_LIMIT + Duration::from_secs_f64(self.before.slowest_ms * TIME_LIMIT_FACTOR / 1e3);
        let mut series = Series::default();
        for (number, case) in self.cases(side).iter().enumerate() {
            let label = format!("recovery-{side}-{number}");
            let sent = tokio::time::timeout(limit, sending.send(case, &label)).await;
            let latency_ms = match sent {
                Ok(seen) => {
                    let seen = seen?;
                    series.slowest_ms = series.slowest_ms.max(e2el_ms(&seen.timing).unwrap_or(0.0));
                    self.latency_ms(&seen)
                        .ok_or_else(|| failure_message(&seen.outcome))
                }
                Err(_) => Err(format!("no answer within {:.0} s", limit.as_secs_f64())),
            };
            match latency_ms {
                Ok(latency_ms) => series.latencies_ms.push(latency_ms),
                Err(error) => {
                    series.error = Some(error);
                    break;
                }
            }
        }
        Ok(series)
    }

    /// The requests of one side: their prompts differ from those of the other one.
    fn cases(&self, side: &str) -> Vec<Case> {
        let seed = self.seed ^ u64::from(side == "after");
        let prompts = warmup::cases(std::slice::from_ref(&self.model), REQUESTS, !seed);
        let case = |prompt: Case| Case {
            prompt: prompt.prompt,
            output_len: self.model.output_len.min(MAX_OUTPUT_TOKENS),
            cancel_after: None,
            ..self.model.clone()
        };
        prompts.into_iter().map(case).collect()
    }

    /// The latency of an answer. Answers without text have only an end.
    fn latency_ms(&self, seen: &Observation) -> Option<f64> {
        let whole = || e2el_ms(&seen.timing).filter(|_| seen.outcome.is_answer());
        match self.latency {
            SingleLatency::Ttft => ttft_ms(seen).or_else(whole),
            SingleLatency::E2el => whole(),
        }
    }
}

/// The warning on a server that does not serve as before; `None` if it does.
fn notice(recovery: &Recovery) -> Option<Notice> {
    let notice = match (recovery.state, recovery.before_ms, recovery.after_ms) {
        (RecoveryState::NoAnswer, _, _) => BenchNotice::NotRecovered {
            error: recovery.error.clone().unwrap_or_default(),
        },
        (RecoveryState::Slower, Some(before_ms), Some(after_ms)) => {
            BenchNotice::SlowerAfterCancellation {
                latency: recovery.latency.label().to_owned(),
                before_ms,
                after_ms,
                factor: SLOWER_FACTOR,
                by_ms: SLOWER_BY_MS,
            }
        }
        _ => return None,
    };
    Some(notice.into())
}
