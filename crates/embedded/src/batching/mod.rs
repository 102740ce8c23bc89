//! The batching loop: sequences wait in a queue, run together, and are stepped together.
//!
//! One step masks every running sequence on the machine's threads, draws and commits. Then all
//! tokens are sent at once. A step takes the synthetic model's time or the time of its masks, the
//! longer of the two, as in servers that compute masks while the accelerator works. The model's
//! time has a part for the prompts of the sequences that get their first token. A sequence skips
//! the steps before its next token is due. The loop has its own thread, and hands the tokens
//! of each step to the async runtime together.
//!
//! With a limit on the tokens in the cache, the sequences that do not fit are preempted, the latest
//! first: they return to the head of the queue, and their tokens are computed again when they fit.

mod workers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::workers::{Workers, drop_safely, too_many_stuck};
use super::faults::{FaultKind, Planting};
use super::generation::{Generation, Piece};
use super::stats::Tally;
use super::timetable::{Clock, Pacer, Timetable, nanoseconds};
use sobench_core::error::{Error, Result as OurResult};
use sobench_engine::EngineError;

pub(super) use workers::MAX_STUCK_STEPS;

/// Time limit of a mask. After it the sequence fails and its thread is abandoned. The rest of the
/// batch waits as long, as it would in a real server.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// The most updates that the loop sends itself. More are sent together from the runtime.
const MAX_DIRECT_UPDATES: usize = 4;

/// Limit on the prompt tokens of one step, if prompts take time. The sequences beyond it wait for
/// the next step; a longer prompt has a step of its own. It is the default of
/// `max_num_batched_tokens` in vLLM's API server on GPUs with 70 GiB or more, except A100; on others
/// it is 2048 (`EngineArgs.get_batch_defaults` in `vllm/engine/arg_utils.py`).
const MAX_PROMPT_TOKENS: u32 = 8192;

/// Configuration of the batching loop.
#[derive(Clone, Debug)]
pub(super) struct Batching {
    /// Limit on concurrently running sequences. More wait in the queue.
    pub(super) max_batch: usize,
    /// Threads that compute masks.
    pub(super) threads: usize,
    pub(super) timetable: Timetable,
    pub(super) clock: Clock,
    pub(super) step_timeout: Duration,
    /// Drafted tokens of one step of a sequence, at most.
    pub(super) speculate: usize,
    /// Limit on the tokens of prompts and answers of the running sequences. `None` for no limit.
    pub(super) kv_tokens: Option<u32>,
}

/// How an answer's tokens are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Each text immediately.
    Pieces,
    /// The complete answer at the end, as one piece.
    AtEnd,
}

/// Text of an answer, and the number of tokens up to and including it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) piece: Piece,
    pub(super) tokens: u32,
}

/// A message about a sequence. The last one has a finish reason or is an error.
pub(super) type Update = Result<Progress, EngineError>;

/// Submits sequences to the loop. The loop ends when this and all [`Tokens`] are dropped.
pub(super) struct Batcher {
    inbox: Sender<Message>,
    thread: JoinHandle<()>,
    tally: Arc<Tally>,
    clock: Clock,
    stuck: Arc<AtomicUsize>,
}

/// Receives the updates of one sequence. Dropping it removes the sequence from the batch. The loop
/// may run ahead of a slow client by a whole answer.
pub(super) struct Tokens {
    updates: UnboundedReceiver<Update>,
    /// Notifies the loop when this is dropped early.
    inbox: Option<Sender<Message>>,
    ended: bool,
}

/// A sequence for the queue.
pub(super) struct Submission {
    pub(super) generation: Generation,
    pub(super) pacer: Pacer,
    pub(super) delivery: Delivery,
    pub(super) prompt_tokens: u32,
    /// The seed of the request, which determines its faults.
    pub(super) seed: u64,
}

enum Message {
    Submit(Box<Sequence>),
    /// A receiver was dropped.
    Disconnected,
}

/// A queued or running sequence.
struct Sequence {
    /// `None` while a worker steps it.
    generation: Option<Box<Generation>>,
    pacer: Pacer,
    seed: u64,
    prompt_tokens: u32,
    /// Tokens that are not in the cache: those of the prompt and, after a preemption, of the answer.
    /// Zero after a step.
    uncached_tokens: u32,
    /// When it entered the queue. `None` once it has run.
    queued: Option<Instant>,
    has_token: bool,
    /// Due time of its next token. Set when it runs.
    due: Option<Instant>,
    /// Its client went away, and a fault keeps its slot.
    is_leaked: bool,
    updates: UnboundedSender<Update>,
    delivery: Delivery,
    /// Collected text of an answer that is delivered at its end.
    text: String,
}

/// The updates of one step.
type Outgoing = Vec<(UnboundedSender<Update>, Update)>;

struct Loop {
    inbox: Receiver<Message>,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    has_disconnects: bool,
    batching: Batching,
    planting: Arc<Planting>,
    workers: Workers,
    outgoing: UnboundedSender<Outgoing>,
    /// Number of steps whose updates are not all sent.
    steps_in_flight: Arc<AtomicUsize>,
    tally: Arc<Tally>,
}

impl Batcher {
    /// Starts the loop. Tasks on `runtime` send its updates.
    ///
    /// # Errors
    /// Threads cannot be started.
    pub(super) fn start(
        batching: Batching,
        tally: Arc<Tally>,
        planting: Arc<Planting>,
        runtime: &Handle,
    ) -> OurResult<Self> {
        let (sender, inbox) = channel();
        let (outgoing, steps) = unbounded_channel();
        let (stuck, steps_in_flight) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let workers = Workers::new(batching.threads, batching.step_timeout, Arc::clone(&stuck))?;
        let clock = batching.clock.clone();
        let batch_loop = Loop {
            inbox,
            waiting: VecDeque::new(),
            running: Vec::new(),
            has_disconnects: false,
            batching: Batching {
                max_batch: batching.max_batch.max(1),
                ..batching
            },
            planting,
            workers,
            outgoing,
            steps_in_flight: Arc::clone(&steps_in_flight),
            tally: Arc::clone(&tally),
        };
        runtime.spawn(send_steps(steps, steps_in_flight));
        let spawned = thread::Builder::new()
            .name("batch".into())
            .spawn(move || batch_loop.run());
        let thread = spawned.map_err(|error| {
            Error::environment(format!(
                "cannot start the batch thread of the embedded server: {error}"
            ))
        })?;
        Ok(Self {
            inbox: sender,
            thread,
            tally,
            clock,
            stuck,
        })
    }

    /// Number of masks that timed out and are still being computed.
    pub(super) fn stuck(&self) -> usize {
        self.stuck.load(Ordering::SeqCst)
    }

    /// Whether the loop has ended, so that no sequence gets a token.
    pub(super) fn is_dead(&self) -> bool {
        self.thread.is_finished()
    }

    /// Appends a sequence to the queue.
    pub(super) fn submit(&self, submission: Submission) -> Tokens {
        let Submission {
            generation,
            pacer,
            delivery,
            prompt_tokens,
            seed,
        } = submission;
        let (sender, updates) = unbounded_channel();
        let generation = Some(Box::new(generation));
        let sequence = Sequence {
            generation,
            pacer,
            seed,
            prompt_tokens,
            uncached_tokens: prompt_tokens,
            queued: Some(self.clock.now()),
            has_token: false,
            due: None,
            is_leaked: false,
            updates: sender,
            delivery,
            text: String::new(),
        };
        self.tally.queued();
        if self
            .inbox
            .send(Message::Submit(Box::new(sequence)))
            .is_err()
        {
            // The loop has died, which the receiver reports.
            self.tally.loop_died(1, 0);
        }
        Tokens {
            updates,
            inbox: Some(self.inbox.clone()),
            ended: false,
        }
    }
}

impl Tokens {
    /// A finished answer that was never in a batch.
    pub(super) fn finished(progress: Progress) -> Self {
        let (sender, updates) = unbounded_channel();
        // Cannot fail: the receiver exists.
        let _ = sender.send(Ok(progress));
        Self {
            updates,
            inbox: None,
            ended: false,
        }
    }

    /// The next update. `None` after the last one.
    pub(super) async fn next(&mut self) -> Option<Update> {
        if self.ended {
            return None;
        }
        let died = || {
            Err(EngineError::Crashed {
                message: "the batching loop died".into(),
            })
        };
        let update = self.updates.recv().await.unwrap_or_else(died);
        Some(self.track_end(update))
    }

    /// The next update, if it is available without waiting.
    pub(super) fn ready(&mut self) -> Option<Update> {
        if self.ended {
            return None;
        }
        let update = self.updates.try_recv().ok()?;
        Some(self.track_end(update))
    }

    fn track_end(&mut self, update: Update) -> Update {
        self.ended = update
            .as_ref()
            .map_or(true, |progress| progress.piece.finish.is_some());
        update
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        if let (false, Some(inbox)) = (self.ended, &self.inbox) {
            self.updates.close();
            let _ = inbox.send(Message::Disconnected);
        }
    }
}

impl Sequence {
    fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    fn is_constrained(&self) -> bool {
        self.generation
            .as_ref()
            .is_some_and(|generation| generation.is_constrained())
    }

    /// Tokens in the cache while it runs.
    fn cached_tokens(&self) -> u64 {
        let answer = self
            .generation
            .as_ref()
            .map_or(0, |generation| generation.tokens());
        u64::from(self.prompt_tokens) + u64::from(answer)
    }

    /// Its cache is dropped.
    fn preempted(&mut self) {
        self.due = None;
        self.uncached_tokens = u32::try_from(self.cached_tokens()).unwrap_or(u32::MAX);
        if let Some(generation) = &mut self.generation {
            generation.mask_faults().preempted();
        }
    }

    /// The update for the receiver after a step, if any.
    fn update(&mut self, piece: Result<Piece, EngineError>, tokens: u32) -> Option<Update> {
        let mut piece = match piece {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        if self.delivery == Delivery::AtEnd {
            self.text.push_str(&piece.text);
            piece.finish?;
            piece.text = std::mem::take(&mut self.text);
        }
        let is_visible = !piece.text.is_empty() || piece.finish.is_some();
        is_visible.then_some(Ok(Progress { piece, tokens }))
    }
}

impl Loop {
    fn run(mut self) {
        while self.wait_for_work() {
            self.planting.compiles.wait_for_decoding();
            self.preempt();
            self.admit();
            self.swap_masks();
            self.step();
        }
    }

    /// Handles messages, and waits until there is a sequence to step. False if there will be none.
    fn wait_for_work(&mut self) -> bool {
        loop {
            while let Ok(message) = self.inbox.try_recv() {
                self.handle(message);
            }
            if !self.remove_disconnected() {
                self.die();
                return false;
            }
            if self.admissible() > 0 {
                return true;
            }
            let now = self.batching.clock.now();
            let received = match self
                .running
                .iter()
                .filter_map(|sequence| sequence.due)
                .min()
            {
                Some(due) if due <= now => return true,
                Some(due) => self.inbox.recv_timeout(due - now),
                None => self
                    .inbox
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
            };
            match received {
                Ok(message) => self.handle(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Submit(sequence) => self.waiting.push_back(*sequence),
            Message::Disconnected => self.has_disconnects = true,
        }
    }

    /// Removes the sequences of clients that went away. False if a fault ends the server then.
    fn remove_disconnected(&mut self) -> bool {
        if !std::mem::take(&mut self.has_disconnects) {
            return true;
        }
        let (waiting, running) = (self.waiting.len(), self.running.len());
        self.waiting
            .retain(|sequence| !sequence.updates.is_closed());
        let planting = &self.planting;
        let mut survives = true;
        self.running.retain_mut(|sequence| {
            if sequence.is_leaked || !sequence.updates.is_closed() {
                return true;
            }
            let mut faults = planting.draw_on_cancel(sequence.seed);
            survives &= !faults.inject(FaultKind::DieOnCancel);
            if faults.inject(FaultKind::LeakSlotOnCancel) {
                sequence.is_leaked = true;
                sequence.due = None;
            }
            sequence.is_leaked
        });
        self.tally
            .disconnected(waiting - self.waiting.len(), running - self.running.len());
        survives
    }

    /// Fails all sequences, before the loop ends.
    fn die(&mut self) {
        while let Ok(message) = self.inbox.try_recv() {
            self.handle(message);
        }
        self.tally.loop_died(self.waiting.len(), self.running.len());
    }

    /// Tokens in the cache that a sequence needs for its next step.
    fn needed_tokens(&self, sequence: &Sequence) -> u64 {
        sequence.cached_tokens() + 1 + self.batching.speculate as u64
    }

    /// Moves running sequences to the head of the queue, the latest first, until the next step of the
    /// others fits into the cache. One is left in any case.
    fn preempt(&mut self) {
        let Some(limit) = self.batching.kv_tokens.map(u64::from) else {
            return;
        };
        let needed = |sequence: &Sequence| self.needed_tokens(sequence);
        let mut used: u64 = self.running.iter().map(needed).sum();
        let mut steppable = self
            .running
            .iter()
            .filter(|sequence| !sequence.is_leaked)
            .count();
        while used > limit && steppable > 1 {
            let Some(latest) = self
                .running
                .iter()
                .rposition(|sequence| !sequence.is_leaked)
            else {
                return;
            };
            let mut sequence = self.running.remove(latest);
            used -= self.needed_tokens(&sequence);
            steppable -= 1;
            sequence.preempted();
            self.waiting.push_front(sequence);
            self.tally.preempted();
        }
    }

    /// Moves sequences from the queue to the batch, in the order of arrival.
    fn admit(&mut self) {
        let admitted = self.admissible();
        let now = self.batching.clock.now();
        for mut sequence in self.waiting.drain(..admitted) {
            sequence.due = Some(sequence.pacer.due(now));
            if let Some(queued) = sequence.queued.take() {
                let waited = now.saturating_duration_since(queued);
                self.tally.waited(nanoseconds(waited));
            }
            self.running.push(sequence);
        }
        self.tally.admitted(admitted);
    }

    /// The number of waiting sequences that can run now: there are free slots, their prompts fit into
    /// one step, and they fit into the cache.
    fn admissible(&self) -> usize {
        let free = self.batching.max_batch.saturating_sub(self.running.len());
        let has_prefill = self.batching.timetable.has_prefill();
        let mut prompt_tokens = 0_u32;
        let cache = self.batching.kv_tokens.map(u64::from);
        let mut used: u64 = if cache.is_some() {
            self.running
                .iter()
                .map(|sequence| self.needed_tokens(sequence))
                .sum()
        } else {
            0
        };
        let fits = |(index, sequence): &(usize, &Sequence)| {
            let is_first = *index == 0;
            prompt_tokens = prompt_tokens.saturating_add(sequence.uncached_tokens);
            used = used.saturating_add(self.needed_tokens(sequence));
            // A single sequence fits into an empty cache, except for its draft.
            let fits_cache =
                cache.is_none_or(|cache| used <= cache) || is_first && self.running.is_empty();
            (is_first || !has_prefill || prompt_tokens <= MAX_PROMPT_TOKENS) && fits_cache
        };
        self.waiting
            .iter()
            .take(free)
            .enumerate()
            .take_while(fits)
            .count()
    }

    /// Swaps the masks of sequences whose fault wants it with those of another one.
    fn swap_masks(&mut self) {
        for index in 0..self.running.len() {
            let (before, rest) = self.running.split_at_mut(index);
            let Some((sequence, after)) = rest.split_first_mut() else {
                return;
            };
            let Some(generation) = &mut sequence.generation else {
                continue;
            };
            if !generation.mask_faults().wants_swap() {
                continue;
            }
            let others = before
                .iter_mut()
                .chain(after)
                .filter(|other| !other.is_leaked);
            let other = others
                .filter_map(|other| other.generation.as_mut())
                .find(|other| generation.swaps_with(other));
            if let Some(other) = other {
                generation.swap_masks(other);
            }
        }
    }

    fn step(&mut self) {
        let start = self.batching.clock.now();
        let mut outgoing = Outgoing::new();
        self.refuse_more_stuck_masks(&mut outgoing);
        let due: Vec<usize> = (0..self.running.len())
            .filter(|&index| self.running[index].is_due(start))
            .collect();
        let running = self.running.len();
        let batch: Vec<Box<Generation>> = due
            .iter()
            .filter_map(|&index| self.running[index].generation.take())
            .map(|mut generation| {
                generation.mask_faults().set_running(running);
                generation
            })
            .collect();
        let batch_size = batch.len();
        let prompt_tokens = due.iter().fold(0_u32, |tokens, &index| {
            tokens.saturating_add(std::mem::take(&mut self.running[index].uncached_tokens))
        });
        let results = if batch.is_empty() {
            Vec::new()
        } else {
            self.workers.step(batch)
        };
        let Batching {
            timetable, clock, ..
        } = &self.batching;
        if batch_size > 0 {
            clock.wait_until(start + timetable.step_time(batch_size, prompt_tokens));
        }
        self.tally
            .step_ended(batch_size, results.iter().map(|result| &result.work));
        let now = clock.now();
        for (index, result) in due.into_iter().zip(results) {
            let sequence = &mut self.running[index];
            sequence.due = Some(sequence.pacer.due(now));
            sequence.generation = result.generation;
            if !sequence.has_token && result.tokens > 0 {
                sequence.has_token = true;
                self.tally
                    .first_token(nanoseconds(sequence.pacer.since_arrival(now)));
            }
            match &result.piece {
                Ok(Piece { finish: None, .. }) => {}
                Ok(Piece { finish, .. }) => self.tally.sequence_ended(*finish),
                Err(_) => self.tally.sequence_ended(None),
            }
            let update = sequence.update(result.piece, result.tokens);
            outgoing.extend(update.map(|update| (sequence.updates.clone(), update)));
        }
        self.running
            .retain(|sequence| sequence.generation.is_some());
        self.send(outgoing);
    }

    fn send(&mut self, outgoing: Outgoing) {
        // Waking a task from outside its runtime is slower than from inside, but a second hop adds
        // latency.
        if outgoing.len() <= MAX_DIRECT_UPDATES && self.steps_in_flight.load(Ordering::SeqCst) == 0
        {
            send_updates(outgoing);
        } else {
            self.steps_in_flight.fetch_add(1, Ordering::SeqCst);
            // Fails only when the runtime has ended, and with it all receivers.
            let _ = self.outgoing.send(outgoing);
        }
    }

    /// Fails constrained sequences if too many masks hang already.
    fn refuse_more_stuck_masks(&mut self, outgoing: &mut Outgoing) {
        if self.workers.stuck() < MAX_STUCK_STEPS {
            return;
        }
        for sequence in self
            .running
            .iter_mut()
            .filter(|sequence| sequence.is_constrained())
        {
            outgoing.push((sequence.updates.clone(), Err(too_many_stuck())));
            if let Some(generation) = sequence.generation.take() {
                drop_safely(generation);
            }
            self.tally.sequence_ended(None);
        }
        self.running
            .retain(|sequence| sequence.generation.is_some());
    }
}

fn send_updates(step: Outgoing) {
    for (receiver, update) in step {
        // The receiver may have been dropped.
        let _ = receiver.send(update);
    }
}

/// Sends updates from inside the runtime, where waking tasks is cheap.
async fn send_steps(mut steps: UnboundedReceiver<Outgoing>, steps_in_flight: Arc<AtomicUsize>) {
    while let Some(step) = steps.recv().await {
        send_updates(step);
        steps_in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
