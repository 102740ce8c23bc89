//! Worker threads that step sequences: mask, draw, commit. A step that hangs costs only its own
//! sequence and thread.
//!
//! A scoped thread pool cannot abandon a thread, so these are separate threads that receive and
//! return sequences.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::generation::{Generation, Piece, StepWork};
use crate::timetable::now;
use sobench_core::error::{Error, Result as OurResult};
use sobench_engine::EngineError;

/// Limit on steps that timed out and are still running. A library call cannot be stopped, so at
/// this limit no constrained sequence is stepped until one of them returns. Steps that are running
/// when the limit is reached may exceed it, one per thread.
pub(crate) const MAX_STUCK_STEPS: usize = 4;

/// Stack size of a worker thread. Only the used part takes memory.
const WORKER_STACK_BYTES: usize = 16 << 20;

/// The result of one step of one sequence.
pub(super) struct StepResult {
    /// The sequence to continue. `None` after its end or failure.
    pub(super) generation: Option<Box<Generation>>,
    pub(super) piece: Result<Piece, EngineError>,
    /// Number of tokens generated so far.
    pub(super) tokens: u32,
    pub(super) work: StepWork,
}

/// The pool of worker threads.
pub(super) struct Workers {
    shared: Arc<Shared>,
    target_threads: usize,
    timeout: Duration,
}

/// State shared between the loop and the workers.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when sequences wait.
    work: Condvar,
    /// Notified when the last sequence is returned.
    done: Condvar,
    stuck: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    /// Number of the batch. A worker that returns to another batch has timed out.
    batch: u64,
    slots: Vec<Slot>,
    /// The first slot that is still waiting.
    next: usize,
    /// Number of slots that are not done.
    unfinished: usize,
    /// Number of threads that are not stuck.
    threads: usize,
    closed: bool,
}

enum Slot {
    Waiting(Box<Generation>),
    Running(Running),
    Done(StepResult),
}

#[derive(Clone, Copy)]
struct Running {
    since: Instant,
    tokens: u32,
    /// Whether an engine runs, which may hang.
    constrained: bool,
}

impl Workers {
    /// A pool of at least one thread. A constrained step that takes longer than `timeout` is
    /// abandoned, and counted in `stuck` while it runs.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn new(
        threads: usize,
        timeout: Duration,
        stuck: Arc<AtomicUsize>,
    ) -> OurResult<Self> {
        let workers = Self {
            shared: Arc::new(Shared {
                stuck,
                ..Shared::default()
            }),
            target_threads: threads.max(1),
            timeout,
        };
        let threads = workers.start_missing_threads(&mut workers.shared.lock());
        if threads == 0 {
            return Err(Error::environment(
                "cannot start threads for the masks of the embedded server",
            ));
        }
        Ok(workers)
    }

    /// Number of steps that timed out and are still running.
    pub(super) fn stuck(&self) -> usize {
        self.shared.stuck.load(Ordering::SeqCst)
    }

    /// Steps every sequence once, and returns the results in the same order.
    #[allow(
        clippy::vec_box,
        reason = "the boxes are passed back and forth at every step"
    )]
    pub(super) fn step(&self, batch: Vec<Box<Generation>>) -> Vec<StepResult> {
        let mut state = self.shared.lock();
        let threads = self.start_missing_threads(&mut state);
        if threads == 0 {
            let no_thread = || EngineError::Crashed {
                message: "no thread to compute masks in".into(),
            };
            return batch
                .iter()
                .map(|generation| StepResult::failed(generation.tokens(), no_thread()))
                .collect();
        }
        state.batch += 1;
        state.next = 0;
        state.unfinished = batch.len();
        state.slots = batch.into_iter().map(Slot::Waiting).collect();
        (0..state.unfinished.min(threads)).for_each(|_| self.shared.work.notify_one());
        while state.unfinished > 0 {
            let time_left = state.time_until_timeout(now(), self.timeout);
            state = self
                .shared
                .done
                .wait_timeout(state, time_left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            self.abandon_timed_out(&mut state, now());
        }
        let results = state.slots.drain(..).filter_map(|slot| match slot {
            Slot::Done(result) => Some(result),
            // Cannot occur when no slot is unfinished.
            Slot::Waiting(_) | Slot::Running(_) => None,
        });
        results.collect()
    }

    /// Fails constrained steps that have timed out, and replaces their threads.
    fn abandon_timed_out(&self, state: &mut State, now: Instant) {
        let mut abandoned = 0;
        for slot in &mut state.slots {
            if let Slot::Running(Running {
                since,
                tokens,
                constrained: true,
            }) = *slot
                && now.saturating_duration_since(since) >= self.timeout
            {
                let message = format!("a mask took longer than {} s", self.timeout.as_secs_f64());
                *slot = Slot::Done(StepResult::failed(
                    tokens,
                    EngineError::TooLarge { message },
                ));
                abandoned += 1;
            }
        }
        if abandoned == 0 {
            return;
        }
        let stuck = self.shared.stuck.fetch_add(abandoned, Ordering::SeqCst) + abandoned;
        state.unfinished -= abandoned;
        state.threads = state.threads.saturating_sub(abandoned);
        if stuck >= MAX_STUCK_STEPS {
            // Otherwise each replacement thread would take the next sequence that hangs.
            state.fail_waiting();
        }
        self.start_missing_threads(state);
        self.shared.done.notify_one();
    }

    /// Starts the missing threads, and returns the number of threads.
    fn start_missing_threads(&self, state: &mut State) -> usize {
        while state.threads < self.target_threads {
            let shared = Arc::clone(&self.shared);
            let builder = thread::Builder::new()
                .name("masks".into())
                .stack_size(WORKER_STACK_BYTES);
            if builder.spawn(move || shared.run_worker()).is_err() {
                break;
            }
            state.threads += 1;
        }
        state.threads
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.work.notify_all();
    }
}

impl State {
    /// Fails the constrained sequences that no worker has taken yet.
    fn fail_waiting(&mut self) {
        for slot in &mut self.slots {
            let tokens = match slot {
                Slot::Waiting(generation) if generation.is_constrained() => generation.tokens(),
                _ => continue,
            };
            let refused = std::mem::replace(
                slot,
                Slot::Done(StepResult::failed(tokens, too_many_stuck())),
            );
            if let Slot::Waiting(generation) = refused {
                drop_safely(generation);
            }
            self.unfinished -= 1;
        }
    }

    /// Time until the first running step can time out.
    fn time_until_timeout(&self, now: Instant, timeout: Duration) -> Duration {
        let since = self.slots.iter().filter_map(|slot| match slot {
            Slot::Running(Running {
                since,
                constrained: true,
                ..
            }) => Some(*since),
            _ => None,
        });
        since.min().map_or(timeout, |since| {
            timeout.saturating_sub(now.saturating_duration_since(since))
        })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The main function of a worker thread.
    fn run_worker(&self) {
        while let Some((batch, index, generation)) = self.take() {
            if !self.put(batch, index, run_step(generation)) {
                // The step timed out, and another thread has replaced this one.
                self.stuck.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    /// Waits for a sequence to step. `None` after shutdown.
    fn take(&self) -> Option<(u64, usize, Box<Generation>)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            // Waiting sequences may have been failed.
            while matches!(
                state.slots.get(state.next),
                Some(Slot::Running(_) | Slot::Done(_))
            ) {
                state.next += 1;
            }
            let index = state.next;
            if let Some(slot) = state.slots.get_mut(index)
                && let Slot::Waiting(generation) = slot
            {
                let running = Running {
                    since: now(),
                    tokens: generation.tokens(),
                    constrained: generation.is_constrained(),
                };
                let Slot::Waiting(generation) = std::mem::replace(slot, Slot::Running(running))
                else {
                    return None;
                };
                state.next += 1;
                return Some((state.batch, index, generation));
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns a stepped sequence. False if the step had timed out.
    fn put(&self, batch: u64, index: usize, result: StepResult) -> bool {
        let mut state = self.lock();
        if state.batch != batch || !matches!(state.slots.get(index), Some(Slot::Running(_))) {
            return false;
        }
        state.slots[index] = Slot::Done(result);
        state.unfinished -= 1;
        if state.unfinished == 0 {
            self.done.notify_one();
        }
        true
    }
}

impl StepResult {
    fn failed(tokens: u32, error: EngineError) -> Self {
        Self {
            generation: None,
            piece: Err(error),
            tokens,
            work: StepWork::default(),
        }
    }
}

/// Steps a sequence. Drops an ended one here, so that an engine frees its memory outside the loop.
fn run_step(mut generation: Box<Generation>) -> StepResult {
    let stepped = catch_unwind(AssertUnwindSafe(|| generation.step()));
    let piece = stepped.unwrap_or_else(|_| {
        Err(EngineError::Crashed {
            message: "panic: while a token was drawn".into(),
        })
    });
    let (tokens, work) = (generation.tokens(), generation.take_work());
    let continues = piece.as_ref().is_ok_and(|piece| piece.finish.is_none());
    let generation = if continues {
        Some(generation)
    } else {
        drop_safely(generation);
        None
    };
    StepResult {
        generation,
        piece,
        tokens,
        work,
    }
}

/// Drops a sequence. An engine that panicked may panic again while it is dropped.
pub(super) fn drop_safely(generation: Box<Generation>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(generation)));
}

/// The error of a sequence when [`MAX_STUCK_STEPS`] is reached.
pub(super) fn too_many_stuck() -> EngineError {
    EngineError::TooLarge {
        message: format!(
            "{MAX_STUCK_STEPS} masks timed out and are still running; no further mask is computed"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Gated, OPEN, gate, generation};
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_timed_out_step_is_abandoned_and_its_thread_replaced() {
        let stuck = Arc::<AtomicUsize>::default();
        let workers = Workers::new(1, Duration::from_secs(3600), Arc::clone(&stuck)).unwrap();
        let (started, masks) = channel();
        let (key, gate) = gate();
        let batch = |first| {
            let gated = |token, gate| Gated {
                started: started.clone(),
                gate,
                token,
                panics: false,
            };
            vec![
                generation(Some(gated(5, first)), 3),
                generation(Some(gated(6, OPEN)), 3),
                generation(None, 3),
            ]
        };
        let results = thread::scope(|scope| {
            let step = scope.spawn(|| workers.step(batch(gate)));
            assert_eq!(
                masks.recv(),
                Ok(5),
                "the first sequence blocks the only thread"
            );
            // Simulate one hour.
            workers.abandon_timed_out(
                &mut workers.shared.lock(),
                now() + Duration::from_secs(3600),
            );
            step.join().unwrap()
        });
        let continues: Vec<bool> = results
            .iter()
            .map(|result| result.generation.is_some())
            .collect();
        assert_eq!(
            (continues, workers.stuck()),
            (vec![false, true, true], 1),
            "the replacement thread stepped the others"
        );
        assert!(
            matches!(&results[0].piece, Err(EngineError::TooLarge { message }) if message.contains("3600 s"))
        );
        assert!(
            workers
                .step(batch(OPEN))
                .iter()
                .all(|result| result.piece.is_ok()),
            "the next batch works"
        );
        drop(key);
        while stuck.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn one_step_abandons_at_most_the_limit_of_masks() {
        // A short timeout keeps the test fast. The masks hang regardless.
        let workers = Workers::new(1, Duration::from_millis(1), Arc::default()).unwrap();
        let (started, masks) = channel();
        let (key, gate) = gate();
        let hanging = || Gated {
            started: started.clone(),
            gate: gate.clone(),
            token: 5,
            panics: false,
        };
        let mut batch: Vec<_> = (0..MAX_STUCK_STEPS + 2)
            .map(|_| generation(Some(hanging()), 3))
            .collect();
        batch.push(generation(None, 3));
        let results = workers.step(batch);
        let message = |result: &StepResult| match &result.piece {
            Err(EngineError::TooLarge { message }) => message.clone(),
            other => panic!("{other:?}"),
        };
        let (unconstrained, constrained) = results.split_last().unwrap();
        let (hung, refused) = constrained.split_at(MAX_STUCK_STEPS);
        assert!(
            hung.iter()
                .all(|result| message(result).contains("took longer than 0.001 s"))
        );
        assert!(
            refused
                .iter()
                .all(|result| message(result).contains("still running")
                    && result.generation.is_none())
        );
        assert!(
            unconstrained.piece.is_ok() && unconstrained.generation.is_some(),
            "unconstrained sequences are stepped"
        );
        assert_eq!((refused.len(), workers.stuck()), (2, MAX_STUCK_STEPS));
        drop(key);
        while workers.stuck() != 0 {
            thread::yield_now();
        }
        assert_eq!(
            masks.try_iter().count(),
            MAX_STUCK_STEPS,
            "the others never started"
        );
    }
}
