//! Sends the steps of the ladders to a server, with small requests beside them.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::judge::{self, SLOW_MS, is_stall};
use super::ladder::{LadderKind, Payload, object_with};
use super::neighbour::{Neighbour, duration_ms, first_token_ms, is_unreachable};
use super::request_body;
use super::{
    Cancelled, End, Ladder, Latencies, MAX_MEMORY_GROWTH, MAX_REQUEST_BYTES, OUTPUT_LEN,
    ServerLimits, Step, StepOutcome, TIME_BUDGET_S,
};
use sobench_backend::{Adapter, BodySettings, ConstraintDialect, Sampling, Unsendable, adapter};
use sobench_client::clock::Stopwatch;
use sobench_client::{Client, ClientSettings, Limits, send_body};
use sobench_core::constraint::ConstraintKind;
use sobench_core::error::{Error, Result};
use sobench_core::error_message::error_message;
use sobench_core::load::CancelAfter;
use sobench_core::observation::{Observation, Outcome};
use sobench_core::printable::printable_message;
use sobench_core::run_event::AnswerForm;
use sobench_preflight::constraint_probe::PROMPT;
use sobench_preflight::{MAX_KEPT_CHARS, PreflightSettings, server_label};
use sobench_process::server::{Reading, ServerProcess};
use sobench_shutdown::Shutdown;

/// Requests before the ladders, of each kind.
const BASELINE_REQUESTS: usize = 10;

/// Tokens of a small request without a constraint.
const NEIGHBOUR_TOKENS: u32 = 8;

/// A step whose first token takes at least this long is sent again and cancelled.
const MIN_CANCELLED_MS: f64 = 200.0;

/// Parts of the time to the first token after which it is cancelled: the second one if the answer comes
/// before the first.
const CANCELLED_PARTS: [f64; 2] = [0.5, 0.25];

/// The least time that a server is watched after a cancelled request, besides twice the rest of the
/// compile.
const MIN_WATCHED_MS: f64 = 2000.0;

/// Time between two looks at a server after a cancelled request, over which its CPU time is counted.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);

/// A server works if it uses this many cores more than before the ladder.
const BUSY_CORES: f64 = 0.3;

/// Time over which the CPU time before a ladder is counted.
const IDLE_TIME: Duration = Duration::from_millis(500);

/// How long a server that hangs has to come back until it is tested no more, in time limits of a step.
const RECOVERY_FACTOR: u32 = 3;

/// Attempts to reach a server until it counts as dead, and the time between them.
const REACH_ATTEMPTS: usize = 3;
const REACH_INTERVAL: Duration = Duration::from_millis(500);

/// Time limit for a page such as `/metrics`. A server that is busy with a compile may not answer.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// The most bytes of an event, or of a whole body. llama.cpp sends the grammar of the request with its
/// answer, which for a large schema is longer than what a run of requests accepts.
const MAX_EVENT_BYTES: usize = 512 << 20;

/// A server to test.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub client: &'a Client,
    pub options: &'a PreflightSettings,
    /// The name in tables and charts; `None` for that of the server.
    pub label: Option<&'a str>,
}

/// Tests a server. `on_step` is called with each step. After a shutdown request no request is sent;
/// the rest of the ladders is [`End::NotTested`]. After a step that the server does not survive, too.
///
/// # Errors
/// Environment errors: the server does not answer a small request, without a constraint or with one.
/// Interrupted by the user before there was a result.
pub async fn test_limits(
    subject: Subject<'_>,
    ladders: &[LadderKind],
    step_timeout: Duration,
    shutdown: &Shutdown,
    mut on_step: impl FnMut(LadderKind, &Step),
) -> Result<ServerLimits> {
    let Subject {
        client,
        options,
        label,
    } = subject;
    let client = Client::new(ClientSettings {
        request_timeout: Some(step_timeout),
        idle_timeout: None,
        limits: Limits {
            drain_timeout: Duration::ZERO,
            probe_timeout: PAGE_TIMEOUT,
            max_event_bytes: MAX_EVENT_BYTES,
            max_body_bytes: MAX_EVENT_BYTES,
            ..Limits::default()
        },
        ..client.options().clone()
    })?;
    let facts = sobench_preflight::runner::facts(&client).await;
    let mut prober = Prober::new(client, options, step_timeout, shutdown).await?;
    let mut tested: Vec<Ladder> = Vec::with_capacity(ladders.len());
    let stopwatch = Stopwatch::start();
    for kind in ladders {
        let untested = if shutdown.is_requested() {
            Some("interrupted".to_owned())
        } else if let Some(lost) = &prober.lost {
            Some(lost.clone())
        } else {
            (stopwatch.time().as_secs_f64() > TIME_BUDGET_S)
                .then(|| format!("the time limit of {TIME_BUDGET_S} s was reached"))
        };
        tested.push(match untested {
            Some(reason) => Ladder::untested(*kind, End::NotTested, reason),
            None => prober.climb(*kind, &mut on_step).await,
        });
    }
    if shutdown.is_requested() && tested.iter().all(|ladder| ladder.steps.is_empty()) {
        return Err(interrupted());
    }
    let endpoint = prober.client.options().endpoint.clone();
    Ok(ServerLimits {
        label: label.map_or_else(|| server_label(&facts, options.backend), str::to_owned),
        backend: options.backend,
        base_url: endpoint.public_base_url(),
        endpoint: endpoint.path,
        model: options.model.clone(),
        constraint_dialect: prober.dialect(ConstraintKind::JsonSchema),
        product: facts.product.map(|product| product.label().to_owned()),
        version: facts.version,
        engine: facts.engine,
        stream: options.stream,
        step_timeout_s: step_timeout.as_secs_f64(),
        process: prober.process.source(),
        neighbour: prober.calm,
        small_constraint: prober.small_constraint,
        requests: prober.requests,
        ladders: tested,
    })
}

struct Prober<'a> {
    client: Client,
    adapter: Arc<dyn Adapter>,
    options: &'a PreflightSettings,
    step_timeout: Duration,
    shutdown: Shutdown,
    neighbour: Neighbour,
    process: ServerProcess,
    /// Small requests without a constraint, before the ladders.
    calm: Latencies,
    small_constraint: Latencies,
    /// Cores that the server used before the ladder.
    base_cores: f64,
    requests: usize,
    /// Why the server can be tested no more.
    lost: Option<String>,
}

impl<'a> Prober<'a> {
    async fn new(
        client: Client,
        options: &'a PreflightSettings,
        step_timeout: Duration,
        shutdown: &Shutdown,
    ) -> Result<Self> {
        let adapter: Arc<dyn Adapter> = Arc::from(adapter(options.backend));
        let form = AnswerForm::new(options.stream);
        let plain = without_constraint(request(
            options,
            first_dialect(options, ConstraintKind::JsonSchema),
        ));
        let body = request_body::encode(&*adapter, &plain, PROMPT, NEIGHBOUR_TOKENS, None);
        let body = body.map_err(|unsendable| Error::internal(unsendable.what))?;
        let neighbour = Neighbour {
            // Connections and threads of its own.
            client: Client::new(client.options().clone())?,
            adapter: Arc::clone(&adapter),
            body: body.unwrap_or_default(),
            form,
            shutdown: shutdown.clone(),
        };
        let process = ServerProcess::find(&client).await;
        let unknown = Latencies {
            requests: 0,
            failed: 0,
            median_ms: 0.0,
            worst_ms: 0.0,
        };
        let mut prober = Self {
            client,
            adapter,
            options,
            step_timeout,
            shutdown: shutdown.clone(),
            neighbour,
            process,
            calm: unknown,
            small_constraint: unknown,
            base_cores: 0.0,
            requests: 0,
            lost: None,
        };
        prober.measure_baseline().await?;
        Ok(prober)
    }

    /// Measures small requests.
    async fn measure_baseline(&mut self) -> Result<()> {
        let (mut calm, mut constrained) = (Vec::new(), Vec::new());
        for _ in 0..BASELINE_REQUESTS {
            let observation = self.neighbour.send().await;
            self.check_baseline(&observation, "without a constraint")?;
            calm.push(duration_ms(&observation));
        }
        for _ in 0..BASELINE_REQUESTS {
            let observation = self.send_small_constraint().await?;
            self.check_baseline(&observation, "with a small constraint")?;
            constrained.push(time_to_answer(&observation));
        }
        self.requests += 2 * BASELINE_REQUESTS;
        let none = || Error::internal("no requests before the ladders");
        self.calm = Latencies::new(calm, 0).ok_or_else(none)?;
        self.small_constraint = Latencies::new(constrained, 0).ok_or_else(none)?;
        Ok(())
    }

    fn check_baseline(&self, observation: &Observation, what: &str) -> Result<()> {
        if self.shutdown.is_requested() {
            return Err(interrupted());
        }
        if observation.outcome.is_answer() {
            return Ok(());
        }
        let message = printable_message(&message(&observation.outcome));
        Err(Error::environment(format!(
            "no answer to a small request {what} from {}: {message}",
            self.client.url()
        ))
        .hint("run `sobench preflight` to see which constraints the server takes"))
    }

    /// Climbs one ladder to its end.
    async fn climb(
        &mut self,
        kind: LadderKind,
        on_step: &mut impl FnMut(LadderKind, &Step),
    ) -> Ladder {
        let mut ladder = Ladder {
            ladder: kind,
            steps: Vec::new(),
            end: End::LargestSize,
            reason: None,
            cancelled: None,
            verdicts: Vec::new(),
        };
        let memory_at_start = self.read_idle().await.memory_bytes;
        for size in kind.spec().sizes {
            let body = match self.body(kind, *size) {
                Ok(Some(body)) => body,
                Ok(None) => {
                    let reason = "schemas have another form in this kind of server".to_owned();
                    return Ladder::untested(kind, End::NotCarried, reason);
                }
                Err(unsendable) => {
                    return Ladder::untested(kind, End::NotCarried, unsendable.what);
                }
            };
            if body.len() > MAX_REQUEST_BYTES {
                ladder.end = End::RequestSize;
                break;
            }
            let Some(step) = self.step(kind, *size, body).await else {
                ladder.end = End::NotTested;
                ladder.reason = Some("interrupted".to_owned());
                break;
            };
            on_step(kind, &step);
            let (outcome, memory) = (step.outcome, step.memory_after_bytes);
            ladder.steps.push(step);
            ladder.end = match outcome {
                StepOutcome::Accepted => {
                    let growth = memory
                        .zip(memory_at_start)
                        .map(|(after, before)| after.saturating_sub(before));
                    if growth.is_some_and(|growth| growth > MAX_MEMORY_GROWTH) {
                        End::Memory
                    } else {
                        continue;
                    }
                }
                StepOutcome::Refused => End::Refused,
                StepOutcome::TimedOut => End::TimedOut,
                StepOutcome::ServerError | StepOutcome::Lost if self.is_gone().await => End::Died,
                StepOutcome::ServerError | StepOutcome::Lost => End::ServerError,
            };
            break;
        }
        if let Some(step) = ladder.steps.last().filter(|_| ladder.end == End::TimedOut) {
            // The client has closed the connection.
            let (size, after_ms) = (step.size, step.end_ms);
            ladder.cancelled = self.watch(size, after_ms, self.step_timeout_ms()).await;
        } else if ladder.end != End::Died && ladder.end != End::NotTested {
            ladder.cancelled = self.cancel_slowest(kind, &ladder).await;
        }
        self.finish(ladder).await
    }

    /// Names what the ladder shows, and whether the server can be tested further.
    async fn finish(&mut self, mut ladder: Ladder) -> Ladder {
        let has_hung = ladder
            .cancelled
            .is_some_and(|cancelled| cancelled.answered_ms.is_none());
        if has_hung && !self.shutdown.is_requested() && self.is_gone().await {
            ladder.end = End::Died;
        }
        let last = ladder.steps.last().map_or(0, |step| step.size);
        let since = format!("since the ladder {}, size {last}", ladder.ladder);
        if ladder.end == End::Died {
            self.lost = Some(format!("the server accepts no connections {since}"));
        } else if has_hung && !self.comes_back().await {
            self.lost = Some(format!("the server answers no small constraint {since}"));
        }
        if ladder.steps.is_empty() {
            let reason = ladder
                .reason
                .unwrap_or_else(|| "no step was sent".to_owned());
            return Ladder::untested(ladder.ladder, End::NotTested, reason);
        }
        ladder.verdicts = judge::verdicts(
            &ladder.steps,
            ladder.end,
            ladder.cancelled.as_ref(),
            &self.small_constraint,
        );
        ladder
    }

    /// Sends a step, and once more with another constraint if other requests waited for it. `None` if
    /// the user stopped the command.
    async fn step(&mut self, kind: LadderKind, size: u64, body: Bytes) -> Option<Step> {
        let mut step = self.attempt(size, body).await?;
        let stalls = |step: &Step, calm: &Latencies| {
            let during = step.neighbours.as_ref();
            during.is_some_and(|during| is_stall(calm, during, step.end_ms))
        };
        if stalls(&step, &self.calm)
            && step.outcome != StepOutcome::Lost
            && let Ok(Some(again)) = self.body(kind, size)
        {
            // A pause of the machine is not repeated.
            let second = self.attempt(size, again).await?;
            step.stalls_others = stalls(&second, &self.calm);
            if !step.stalls_others {
                step.neighbours = second.neighbours;
            }
        }
        Some(step)
    }

    async fn attempt(&mut self, size: u64, body: Bytes) -> Option<Step> {
        let request_bytes = body.len();
        let before = self.read_process().await;
        let sent = self.send(body, None);
        let (observation, neighbours, small_requests) = self.neighbour.beside(sent).await;
        self.requests += 1 + small_requests;
        if self.shutdown.is_requested() {
            return None;
        }
        let after = self.read_process().await;
        let (outcome, status) = step_outcome(&observation.outcome);
        let mut message = message(&observation.outcome);
        if let Some((end, _)) = message.char_indices().nth(MAX_KEPT_CHARS) {
            message.truncate(end);
        }
        Some(Step {
            size,
            request_bytes,
            outcome,
            status,
            message,
            ttft_ms: (outcome == StepOutcome::Accepted).then(|| time_to_answer(&observation)),
            end_ms: duration_ms(&observation),
            neighbours,
            stalls_others: false,
            memory_before_bytes: before.memory_bytes,
            memory_after_bytes: after.memory_bytes,
        })
    }

    /// Sends the slowest accepted step again with another constraint, and closes the connection on the
    /// way to the first token. `None` if no step was slow enough, or the answers came earlier.
    async fn cancel_slowest(&mut self, kind: LadderKind, ladder: &Ladder) -> Option<Cancelled> {
        let accepted = ladder
            .steps
            .iter()
            .filter_map(|step| Some((step.size, step.ttft_ms?)));
        let (size, ttft_ms) = accepted.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        if ttft_ms < MIN_CANCELLED_MS || self.shutdown.is_requested() {
            return None;
        }
        for part in CANCELLED_PARTS {
            let body = self.body(kind, size).ok().flatten()?;
            let after_ms = ttft_ms * part;
            let cancel_after = Some(CancelAfter::Seconds(after_ms / 1e3));
            let observation = self.send(body, cancel_after).await;
            self.requests += 1;
            if observation.outcome == Outcome::Abandoned {
                let watched_ms = 2.0 * ttft_ms + MIN_WATCHED_MS;
                let limit_ms = watched_ms.min(self.step_timeout_ms());
                return self.watch(size, after_ms, limit_ms).await;
            }
        }
        None
    }

    /// Watches the server after a connection was closed, until it has recovered and rests, for
    /// `limit_ms` if it does not. `None` if the user stopped the command.
    async fn watch(&mut self, size: u64, after_ms: f64, limit_ms: f64) -> Option<Cancelled> {
        let stopwatch = Stopwatch::start();
        let now_ms = || stopwatch.time().as_secs_f64() * 1e3;
        let usual_ms = self.small_constraint.worst_ms + SLOW_MS;
        let mut found = Cancelled {
            size,
            after_ms,
            watched_ms: 0.0,
            answered_ms: None,
            recovered_ms: None,
            worked_ms: None,
            is_working: false,
        };
        loop {
            if found.recovered_ms.is_none() {
                let observation = self.send_small_constraint().await.ok()?;
                self.requests += 1;
                if observation.outcome.is_answer() {
                    found.answered_ms.get_or_insert(now_ms());
                    if time_to_answer(&observation) <= usual_ms {
                        found.recovered_ms = Some(now_ms());
                    }
                }
                if is_unreachable(&observation) {
                    return Some(found);
                }
            }
            // Without the work for the small constraint.
            let (before, interval) = (self.read_process().await, Stopwatch::start());
            tokio::time::sleep(WATCH_INTERVAL).await;
            if self.shutdown.is_requested() {
                return None;
            }
            let reading = self.read_process().await;
            let cores = cores(&before, &reading, interval.time());
            let is_busy = cores.map(|cores| cores > self.base_cores + BUSY_CORES);
            let compiles = reading.compiles.map(|compiles| compiles > 0.0);
            // A compile that the server has given up can still run, and one can wait without CPU time.
            let is_working = match (compiles, is_busy) {
                (Some(compiles), Some(is_busy)) => Some(compiles || is_busy),
                (known, None) | (None, known) => known,
            };
            found.watched_ms = now_ms();
            if let Some(is_working) = is_working {
                found.is_working = is_working;
                if is_working || found.worked_ms.is_none() {
                    found.worked_ms = Some(if is_working { found.watched_ms } else { 0.0 });
                }
            }
            let rests = !found.is_working && found.recovered_ms.is_some();
            if rests || found.watched_ms >= limit_ms {
                return Some(found);
            }
        }
    }

    /// Whether a small constraint is answered some time after the watch, so that the next ladder can be
    /// climbed.
    async fn comes_back(&mut self) -> bool {
        let stopwatch = Stopwatch::start();
        while stopwatch.time() < RECOVERY_FACTOR * self.step_timeout {
            self.requests += 1;
            match self.send_small_constraint().await {
                Ok(observation) if observation.outcome.is_answer() => return true,
                Ok(observation) if is_unreachable(&observation) => return false,
                _ if self.shutdown.is_requested() => return false,
                _ => tokio::time::sleep(WATCH_INTERVAL).await,
            }
        }
        false
    }

    /// Whether the server accepts no connections any more.
    async fn is_gone(&mut self) -> bool {
        for attempt in 0..REACH_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(REACH_INTERVAL).await;
            }
            self.requests += 1;
            if !is_unreachable(&self.neighbour.send().await) {
                return false;
            }
        }
        true
    }

    /// Sends a request with a small constraint that is new to the server.
    async fn send_small_constraint(&self) -> Result<Observation> {
        let nonce = new_nonce();
        let payload = object_with(&nonce, r#"{"type":"boolean"}"#);
        let body = self.encode(ConstraintKind::JsonSchema, payload);
        let Ok(Some(body)) = body else {
            let what = "schemas have another form in this kind of server";
            return Err(Error::environment(what).hint("use another --constraint-dialect"));
        };
        Ok(self.send(body, None).await)
    }

    async fn send(&self, body: Bytes, cancel_after: Option<CancelAfter>) -> Observation {
        let (adapter, form) = (Arc::clone(&self.adapter), self.neighbour.form);
        let (client, shutdown) = (&self.client, &self.shutdown);
        send_body(
            client,
            adapter,
            body,
            form,
            cancel_after,
            "limits",
            shutdown,
        )
        .await
    }

    /// The body of a step, with a constraint that is new to the server.
    fn body(&self, kind: LadderKind, size: u64) -> std::result::Result<Option<Bytes>, Unsendable> {
        let spec = kind.spec();
        let payload = (spec.build)(size, &new_nonce(), self.options.notation);
        self.encode(spec.kind, payload)
    }

    fn encode(
        &self,
        kind: ConstraintKind,
        payload: Payload,
    ) -> std::result::Result<Option<Bytes>, Unsendable> {
        let request = request(self.options, self.dialect(kind));
        request_body::encode(&*self.adapter, &request, PROMPT, OUTPUT_LEN, Some(payload))
    }

    fn dialect(&self, kind: ConstraintKind) -> ConstraintDialect {
        first_dialect(self.options, kind)
    }

    /// Measures the CPU time of the server without requests. It includes compiles of earlier ladders
    /// that still run.
    async fn read_idle(&mut self) -> Reading {
        let (before, stopwatch) = (self.read_process().await, Stopwatch::start());
        tokio::time::sleep(IDLE_TIME).await;
        let after = self.read_process().await;
        self.base_cores = cores(&before, &after, stopwatch.time()).unwrap_or(0.0);
        after
    }

    fn step_timeout_ms(&self) -> f64 {
        self.step_timeout.as_secs_f64() * 1e3
    }

    async fn read_process(&self) -> Reading {
        self.process.read(&self.client).await
    }
}

/// The first dialect that carries a kind of constraint, otherwise the first one.
fn first_dialect(options: &PreflightSettings, kind: ConstraintKind) -> ConstraintDialect {
    let mut dialects = options.dialects.iter().copied();
    let carrying = dialects.clone().find(|dialect| dialect.carries(kind));
    carrying
        .or_else(|| dialects.next())
        .unwrap_or(ConstraintDialect::ResponseFormat)
}

fn request(options: &PreflightSettings, dialect: ConstraintDialect) -> BodySettings {
    let sampling = Sampling {
        temperature: Some(0.0),
        ..Sampling::default()
    };
    options.request(dialect, sampling)
}

/// The same request without the constraint fields of `--extra-body`.
fn without_constraint(mut request: BodySettings) -> BodySettings {
    if let Some(extra) = &mut request.extra_body {
        extra.retain(|field, value| !ConstraintDialect::constrains(field, value));
    }
    request
}

/// 16 letters and digits that no other constraint has, in this run and in others.
fn new_nonce() -> String {
    format!("n{:015x}", RandomState::new().hash_one(0_u8) >> 4)
}

/// To the first token; to the end of an answer without one.
fn time_to_answer(observation: &Observation) -> f64 {
    first_token_ms(observation).unwrap_or_else(|| duration_ms(observation))
}

/// Cores that a server used between two readings.
fn cores(before: &Reading, after: &Reading, time: Duration) -> Option<f64> {
    let used_s = after.cpu_s? - before.cpu_s?;
    (!time.is_zero()).then(|| used_s.max(0.0) / time.as_secs_f64())
}

fn step_outcome(outcome: &Outcome) -> (StepOutcome, Option<u16>) {
    match outcome {
        Outcome::Completed | Outcome::Truncated | Outcome::Refused { .. } => {
            (StepOutcome::Accepted, Some(200))
        }
        Outcome::Rejected { status, .. } => (StepOutcome::Refused, Some(*status)),
        Outcome::ServerError { status, .. } => (StepOutcome::ServerError, Some(*status)),
        Outcome::StreamError { .. } => (StepOutcome::ServerError, None),
        Outcome::TimedOut { .. } => (StepOutcome::TimedOut, None),
        Outcome::Unsupported { .. }
        | Outcome::Transport { .. }
        | Outcome::Cancelled
        | Outcome::Abandoned => (StepOutcome::Lost, None),
    }
}

/// The message of the server, or why there is no answer.
fn message(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Rejected { body, .. } | Outcome::ServerError { body, .. } => error_message(body),
        Outcome::StreamError { message }
        | Outcome::Transport { message, .. }
        | Outcome::Unsupported { what: message } => message.clone(),
        Outcome::TimedOut { limit_ms, .. } => {
            format!("no answer within {} s", *limit_ms as f64 / 1e3)
        }
        Outcome::Completed
        | Outcome::Truncated
        | Outcome::Refused { .. }
        | Outcome::Cancelled
        | Outcome::Abandoned => String::new(),
    }
}

fn interrupted() -> Error {
    Error::interrupted("interrupted before the first step was sent")
}
