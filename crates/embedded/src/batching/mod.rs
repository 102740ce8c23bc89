//! The batching loop: sequences wait in a queue, run together, and are stepped together.
//!
//! One step masks every running sequence on the machine's threads, draws and commits. Then all
//! tokens are sent at once. A step takes the synthetic model's time or the time of its masks, the
//! longer of the two, as in servers that compute masks while the accelerator works. The model's
//! time has a part for the prompts of the sequences that get their first token. A sequence skips
//! the steps before its next token is due. The loop has its own thread, and hands the tokens
//! of each step to the async runtime together.

mod workers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::workers::{Workers, drop_safely, too_many_stuck};
use super::generation::{Generation, Piece};
use super::stats::{StepSummary, Tally};
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
    tally: Arc<Tally>,
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
    /// Tokens of its prompt. Zero after its first step.
    prompt_tokens: u32,
    /// Due time of its next token. Set when it runs.
    due: Option<Instant>,
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
        runtime: &Handle,
    ) -> OurResult<Self> {
        let (sender, inbox) = channel();
        let (outgoing, steps) = unbounded_channel();
        let (stuck, steps_in_flight) =
            (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let workers = Workers::new(batching.threads, batching.step_timeout, Arc::clone(&stuck))?;
        let batch_loop = Loop {
            inbox,
            waiting: VecDeque::new(),
            running: Vec::new(),
            has_disconnects: false,
            batching: Batching {
                max_batch: batching.max_batch.max(1),
                ..batching
            },
            workers,
            outgoing,
            steps_in_flight: Arc::clone(&steps_in_flight),
            tally: Arc::clone(&tally),
        };
        runtime.spawn(send_steps(steps, steps_in_flight));
        let spawned = thread::Builder::new()
            .name("batch".into())
            .spawn(move || batch_loop.run());
        spawned.map_err(|error| {
            Error::environment(format!(
                "cannot start the batch thread of the embedded server: {error}"
            ))
        })?;
        Ok(Self {
            inbox: sender,
            tally,
            stuck,
        })
    }

    /// Number of masks that timed out and are still being computed.
    pub(super) fn stuck(&self) -> usize {
        self.stuck.load(Ordering::SeqCst)
    }

    /// Appends a sequence to the queue.
    pub(super) fn submit(
        &self,
        generation: Generation,
        pacer: Pacer,
        delivery: Delivery,
        prompt_tokens: u32,
    ) -> Tokens {
        let (sender, updates) = unbounded_channel();
        let generation = Some(Box::new(generation));
        let sequence = Sequence {
            generation,
            pacer,
            prompt_tokens,
            due: None,
            updates: sender,
            delivery,
            text: String::new(),
        };
        self.tally.queued();
        // The loop lives as long as this sender. If it has panicked, the receiver reports that.
        let _ = self.inbox.send(Message::Submit(Box::new(sequence)));
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
            self.admit();
            self.step();
        }
    }

    /// Handles messages, and waits until there is a sequence to step. False if there will be none.
    fn wait_for_work(&mut self) -> bool {
        loop {
            while let Ok(message) = self.inbox.try_recv() {
                self.handle(message);
            }
            self.remove_disconnected();
            if !self.waiting.is_empty() && self.running.len() < self.batching.max_batch {
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

    fn remove_disconnected(&mut self) {
        if !std::mem::take(&mut self.has_disconnects) {
            return;
        }
        let is_connected = |sequence: &Sequence| !sequence.updates.is_closed();
        let (waiting, running) = (self.waiting.len(), self.running.len());
        self.waiting.retain(is_connected);
        self.running.retain(is_connected);
        self.tally
            .disconnected(waiting - self.waiting.len(), running - self.running.len());
    }

    /// Moves sequences from the queue to the batch, in the order of arrival.
    fn admit(&mut self) {
        let free = self.batching.max_batch.saturating_sub(self.running.len());
        let admitted = self.fitting(free);
        let now = self.batching.clock.now();
        for mut sequence in self.waiting.drain(..admitted) {
            sequence.due = Some(sequence.pacer.due(now));
            self.running.push(sequence);
        }
        self.tally.admitted(admitted);
    }

    /// The number of waiting sequences, at most `free`, whose prompts fit into one step.
    fn fitting(&self, free: usize) -> usize {
        if !self.batching.timetable.has_prefill() {
            return free.min(self.waiting.len());
        }
        let mut tokens = 0_u32;
        let fits = |(index, sequence): &(usize, &Sequence)| {
            tokens = tokens.saturating_add(sequence.prompt_tokens);
            *index == 0 || tokens <= MAX_PROMPT_TOKENS
        };
        self.waiting
            .iter()
            .take(free)
            .enumerate()
            .take_while(fits)
            .count()
    }

    fn step(&mut self) {
        let start = self.batching.clock.now();
        let mut outgoing = Outgoing::new();
        self.refuse_more_stuck_masks(&mut outgoing);
        let due: Vec<usize> = (0..self.running.len())
            .filter(|&index| self.running[index].is_due(start))
            .collect();
        let batch: Vec<Box<Generation>> = due
            .iter()
            .filter_map(|&index| self.running[index].generation.take())
            .collect();
        let batch_size = batch.len();
        let prompt_tokens = due.iter().fold(0_u32, |tokens, &index| {
            tokens.saturating_add(std::mem::take(&mut self.running[index].prompt_tokens))
        });
        let results = if batch.is_empty() {
            Vec::new()
        } else {
            self.workers.step(batch)
        };
        let Batching {
            timetable, clock, ..
        } = &self.batching;
        let step_ns = nanoseconds(clock.now() - start);
        if batch_size > 0 {
            clock.wait_until(start + timetable.step_time(batch_size, prompt_tokens));
        }
        let tokens = results.iter().filter(|result| result.piece.is_ok()).count();
        let step = StepSummary {
            batch: batch_size,
            tokens,
            ns: step_ns,
        };
        self.tally
            .step_ended(&step, results.iter().filter_map(|result| result.mask_ns));
        let now = clock.now();
        for (index, result) in due.into_iter().zip(results) {
            let sequence = &mut self.running[index];
            sequence.due = Some(sequence.pacer.due(now));
            sequence.generation = result.generation;
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
