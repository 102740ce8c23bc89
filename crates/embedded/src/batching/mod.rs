//! The batching loop: sequences wait in a queue, run together, and are stepped together. Knows
//! tokens, neither HTTP nor engines.
//!
//! One step masks every running sequence on the machine's threads, draws and commits; then all
//! their tokens go out at once. A step takes the synthetic model's step time or the time of its
//! masks, whichever is longer, as in servers that compute masks while the accelerator works. A
//! sequence with a pace of its own is left out of the steps before its next token is due. The loop
//! has a thread of its own, and hands each step's tokens over to the async side in one piece.

mod workers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::workers::{Workers, let_go, too_many_stuck};
use super::generation::{Generation, Piece};
use super::stats::{StepTaken, Tally};
use super::timetable::{Pacer, Timetable, nanoseconds_since, now};
use sobench_core::error::{Error, Result as OurResult};
use sobench_engine::EngineError;

pub(super) use workers::MAX_STUCK_STEPS;

/// How long a mask may take before its sequence fails and its thread is left behind. The rest of
/// its batch waits as long, as it would in a server.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Tokens of a step that the loop hands out by itself; more go through the runtime in one piece.
const HANDED_OUT_DIRECTLY: usize = 4;

/// How a batch is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batching {
    /// Sequences that run at one time; more wait their turn.
    pub(super) max_batch: usize,
    /// Threads that compute masks.
    pub(super) threads: usize,
    pub(super) timetable: Timetable,
    pub(super) step_timeout: Duration,
}

/// How an answer's tokens are handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Each text as it is there.
    Pieces,
    /// Everything at the end, as one piece.
    Whole,
}

/// Text of an answer, and how many tokens there are up to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) piece: Piece,
    pub(super) tokens: u32,
}

/// What the loop says of a sequence. The last of them has a finish reason or is an error.
pub(super) type Update = Result<Progress, EngineError>;

/// The way in. The loop ends when it and all [`Tokens`] are gone.
pub(super) struct Batcher {
    inbox: Sender<Message>,
    tally: Arc<Tally>,
    stuck: Arc<AtomicUsize>,
}

/// The updates of one sequence. Dropping it takes the sequence out of the batch. Nothing here
/// limits how far the loop runs ahead of a client that reads slowly but the length of an answer.
pub(super) struct Tokens {
    updates: UnboundedReceiver<Update>,
    /// To be told when nobody listens any more.
    inbox: Option<Sender<Message>>,
    ended: bool,
}

enum Message {
    Begin(Box<Sequence>),
    /// Somebody has stopped listening.
    Gone,
}

/// A sequence that waits or runs.
struct Sequence {
    /// Not there while it is being stepped.
    generation: Option<Box<Generation>>,
    pacer: Pacer,
    /// When its next token is due; known once it runs.
    due: Option<Instant>,
    updates: UnboundedSender<Update>,
    delivery: Delivery,
    /// What a whole answer has come to.
    text: String,
}

/// One step's tokens on their way out.
type Outgoing = Vec<(UnboundedSender<Update>, Update)>;

struct Loop {
    inbox: Receiver<Message>,
    waiting: VecDeque<Sequence>,
    running: Vec<Sequence>,
    somebody_left: bool,
    batching: Batching,
    workers: Workers,
    outgoing: UnboundedSender<Outgoing>,
    /// Steps whose tokens are not all handed out.
    on_their_way: Arc<AtomicUsize>,
    tally: Arc<Tally>,
}

impl Batcher {
    /// Starts the loop; `runtime` hands its tokens out.
    ///
    /// # Errors
    /// The system gives no threads.
    pub(super) fn start(
        batching: Batching,
        tally: Arc<Tally>,
        runtime: &Handle,
    ) -> OurResult<Self> {
        let (sender, inbox) = channel();
        let (outgoing, steps) = unbounded_channel();
        let (stuck, on_their_way) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let turns = Loop {
            inbox,
            waiting: VecDeque::new(),
            running: Vec::new(),
            somebody_left: false,
            batching: Batching {
                max_batch: batching.max_batch.max(1),
                ..batching
            },
            workers: Workers::new(batching.threads, batching.step_timeout, Arc::clone(&stuck))?,
            outgoing,
            on_their_way: Arc::clone(&on_their_way),
            tally: Arc::clone(&tally),
        };
        runtime.spawn(hand_out(steps, on_their_way));
        let spawned = thread::Builder::new()
            .name("batch".into())
            .spawn(move || turns.run());
        spawned.map_err(|error| {
            Error::environment(format!(
                "embedded server got no thread for its batch: {error}"
            ))
        })?;
        Ok(Self {
            inbox: sender,
            tally,
            stuck,
        })
    }

    /// Masks that were given up on and are still being computed.
    pub(super) fn stuck(&self) -> usize {
        self.stuck.load(Ordering::SeqCst)
    }

    /// Puts a sequence at the end of the queue.
    pub(super) fn begin(&self, generation: Generation, pacer: Pacer, delivery: Delivery) -> Tokens {
        let (sender, updates) = unbounded_channel();
        let generation = Some(Box::new(generation));
        let sequence = Sequence {
            generation,
            pacer,
            due: None,
            updates: sender,
            delivery,
            text: String::new(),
        };
        self.tally.queued();
        // The loop lives as long as this end does; if it has died all the same, the tokens say so.
        let _ = self.inbox.send(Message::Begin(Box::new(sequence)));
        Tokens {
            updates,
            inbox: Some(self.inbox.clone()),
            ended: false,
        }
    }
}

impl Tokens {
    /// An answer that is there already and was never in a batch.
    pub(super) fn already(progress: Progress) -> Self {
        let (sender, updates) = unbounded_channel();
        // The other end is in the line above.
        let _ = sender.send(Ok(progress));
        Self {
            updates,
            inbox: None,
            ended: false,
        }
    }

    /// The next update; after the last one there are no more.
    pub(super) async fn next(&mut self) -> Option<Update> {
        if self.ended {
            return None;
        }
        let died = || {
            Err(EngineError::Crashed {
                words: "the batching loop died".into(),
            })
        };
        let update = self.updates.recv().await.unwrap_or_else(died);
        Some(self.noted(update))
    }

    /// The next update if it is there already.
    pub(super) fn ready(&mut self) -> Option<Update> {
        if self.ended {
            return None;
        }
        let update = self.updates.try_recv().ok()?;
        Some(self.noted(update))
    }

    fn noted(&mut self, update: Update) -> Update {
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
            let _ = inbox.send(Message::Gone);
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

    /// What a step's result is to its listener, if it is anything.
    fn update(&mut self, piece: Result<Piece, EngineError>, tokens: u32) -> Option<Update> {
        let mut piece = match piece {
            Ok(piece) => piece,
            Err(error) => return Some(Err(error)),
        };
        if self.delivery == Delivery::Whole {
            self.text.push_str(&piece.text);
            piece.finish?;
            piece.text = std::mem::take(&mut self.text);
        }
        let says_something = !piece.text.is_empty() || piece.finish.is_some();
        says_something.then_some(Ok(Progress { piece, tokens }))
    }
}

impl Loop {
    fn run(mut self) {
        while self.gather() {
            self.admit();
            self.step();
        }
    }

    /// Takes in what has come, and waits until there is a sequence to step; false when there will
    /// never be one.
    fn gather(&mut self) -> bool {
        loop {
            while let Ok(message) = self.inbox.try_recv() {
                self.take(message);
            }
            self.forget_who_left();
            if !self.waiting.is_empty() && self.running.len() < self.batching.max_batch {
                return true;
            }
            let now = now();
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
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Begin(sequence) => self.waiting.push_back(*sequence),
            Message::Gone => self.somebody_left = true,
        }
    }

    fn forget_who_left(&mut self) {
        if !std::mem::take(&mut self.somebody_left) {
            return;
        }
        let listens = |sequence: &Sequence| !sequence.updates.is_closed();
        let (waited, ran) = (self.waiting.len(), self.running.len());
        self.waiting.retain(listens);
        self.running.retain(listens);
        self.tally
            .left(waited - self.waiting.len(), ran - self.running.len());
    }

    /// Lets sequences run, first come, first served.
    fn admit(&mut self) {
        let free = self
            .batching
            .max_batch
            .saturating_sub(self.running.len())
            .min(self.waiting.len());
        let now = now();
        for mut sequence in self.waiting.drain(..free) {
            sequence.due = Some(sequence.pacer.due(now));
            self.running.push(sequence);
        }
        self.tally.admitted(free);
    }

    fn step(&mut self) {
        let began = now();
        let mut outgoing = Outgoing::new();
        self.refuse_more_stuck_masks(&mut outgoing);
        let due: Vec<usize> = (0..self.running.len())
            .filter(|&index| self.running[index].is_due(began))
            .collect();
        let batch: Vec<Box<Generation>> = due
            .iter()
            .filter_map(|&index| self.running[index].generation.take())
            .collect();
        let stepped = batch.len();
        let advances = if batch.is_empty() {
            Vec::new()
        } else {
            self.workers.step(batch)
        };
        let took_ns = nanoseconds_since(began);
        if stepped > 0 {
            self.batching.timetable.finish_step(began);
        }
        let tokens = advances
            .iter()
            .filter(|advance| advance.piece.is_ok())
            .count();
        let step = StepTaken {
            batch: stepped,
            tokens,
            ns: took_ns,
        };
        self.tally
            .stepped(&step, advances.iter().filter_map(|advance| advance.mask_ns));
        let now = now();
        for (index, advance) in due.into_iter().zip(advances) {
            let sequence = &mut self.running[index];
            sequence.due = Some(sequence.pacer.due(now));
            sequence.generation = advance.generation;
            match &advance.piece {
                Ok(Piece { finish: None, .. }) => {}
                Ok(Piece { finish, .. }) => self.tally.ended(*finish),
                Err(_) => self.tally.ended(None),
            }
            let update = sequence.update(advance.piece, advance.tokens);
            outgoing.extend(update.map(|update| (sequence.updates.clone(), update)));
        }
        self.running
            .retain(|sequence| sequence.generation.is_some());
        self.send_out(outgoing);
    }

    fn send_out(&mut self, outgoing: Outgoing) {
        // Waking a task from outside its runtime costs more than from inside, but a second hop
        // costs latency.
        if outgoing.len() <= HANDED_OUT_DIRECTLY && self.on_their_way.load(Ordering::SeqCst) == 0 {
            deliver(outgoing);
        } else {
            self.on_their_way.fetch_add(1, Ordering::SeqCst);
            // Without a runtime there is nobody left to hand anything to.
            let _ = self.outgoing.send(outgoing);
        }
    }

    /// Where too many masks hang already, no other one is begun.
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
                let_go(generation);
            }
            self.tally.ended(None);
        }
        self.running
            .retain(|sequence| sequence.generation.is_some());
    }
}

fn deliver(step: Outgoing) {
    for (listener, update) in step {
        // Who has gone away misses nothing.
        let _ = listener.send(update);
    }
}

/// Wakes those who wait for tokens, from inside the runtime, where that is cheap.
async fn hand_out(mut steps: UnboundedReceiver<Outgoing>, on_their_way: Arc<AtomicUsize>) {
    while let Some(step) = steps.recv().await {
        deliver(step);
        on_their_way.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
