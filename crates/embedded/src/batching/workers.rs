//! The threads that step sequences: mask, draw, commit. A step that hangs costs its own sequence
//! and its thread. Knows neither queues nor HTTP.
//!
//! A scoped pool cannot leave a thread behind, so these are threads of our own: sequences are
//! handed over and handed back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::generation::{Generation, Piece};
use crate::timetable::now;
use sobench_core::error::{Error, Result as OurResult};
use sobench_engine::EngineError;

/// Steps that ran out of time and still run; a library cannot be stopped, so from this many on no
/// constrained sequence is stepped until one of them returns. Those that are being stepped when it
/// is reached may still add to it, one a thread.
pub(crate) const MAX_STUCK_STEPS: usize = 4;

/// Stack of a thread that steps; only what is used takes memory.
const WORKER_STACK_BYTES: usize = 16 << 20;

/// What one step of one sequence came to.
pub(super) struct Advance {
    /// To go on with; `None` once it has ended or failed.
    pub(super) generation: Option<Box<Generation>>,
    pub(super) piece: Result<Piece, EngineError>,
    /// Tokens generated so far.
    pub(super) tokens: u32,
    /// Nanoseconds of this step's mask, if it had one.
    pub(super) mask_ns: Option<u64>,
}

/// A crew that steps a batch at a time.
pub(super) struct Workers {
    board: Arc<Board>,
    wanted: usize,
    timeout: Duration,
}

/// Where sequences are handed over.
#[derive(Default)]
struct Board {
    state: Mutex<State>,
    /// There are sequences to take.
    work: Condvar,
    /// The last one was handed back.
    done: Condvar,
    stuck: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    /// Counts batches: who comes back to another one than he left has been given up on.
    batch: u64,
    slots: Vec<Slot>,
    /// The first slot that nobody has taken.
    next: usize,
    /// Slots that are not handed back.
    left: usize,
    /// Threads that are not stuck.
    threads: usize,
    closed: bool,
}

enum Slot {
    Waiting(Box<Generation>),
    Running(Running),
    Done(Advance),
}

#[derive(Clone, Copy)]
struct Running {
    since: Instant,
    tokens: u32,
    /// Whether a library is at work, which may hang.
    constrained: bool,
}

impl Workers {
    /// A crew of so many threads (at least one); a constrained step that takes longer than
    /// `timeout` is given up on, and counted in `stuck` for as long as it runs on.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(super) fn new(
        threads: usize,
        timeout: Duration,
        stuck: Arc<AtomicUsize>,
    ) -> OurResult<Self> {
        let workers = Self {
            board: Arc::new(Board {
                stuck,
                ..Board::default()
            }),
            wanted: threads.max(1),
            timeout,
        };
        let threads = workers.staff(&mut workers.board.lock());
        if threads == 0 {
            return Err(Error::environment(
                "embedded server got no thread to compute masks in",
            ));
        }
        Ok(workers)
    }

    /// Steps that were given up on and still run.
    pub(super) fn stuck(&self) -> usize {
        self.board.stuck.load(Ordering::SeqCst)
    }

    /// Steps every sequence once and returns, in their order, what came of it.
    #[allow(clippy::vec_box, reason = "they are handed to and fro at every step")]
    pub(super) fn step(&self, batch: Vec<Box<Generation>>) -> Vec<Advance> {
        let mut state = self.board.lock();
        let threads = self.staff(&mut state);
        if threads == 0 {
            let died = || EngineError::Crashed {
                words: "no thread to compute masks in".into(),
            };
            return batch
                .iter()
                .map(|generation| Advance::failed(generation.tokens(), died()))
                .collect();
        }
        state.batch += 1;
        state.next = 0;
        state.left = batch.len();
        state.slots = batch.into_iter().map(Slot::Waiting).collect();
        (0..state.left.min(threads)).for_each(|_| self.board.work.notify_one());
        while state.left > 0 {
            let patience = state.patience(now(), self.timeout);
            state = self
                .board
                .done
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
            self.give_up(&mut state, now());
        }
        let advances = state.slots.drain(..).filter_map(|slot| match slot {
            Slot::Done(advance) => Some(advance),
            // Not while nothing is left.
            Slot::Waiting(_) | Slot::Running(_) => None,
        });
        advances.collect()
    }

    /// Ends the wait for constrained steps that have taken too long, and replaces their threads.
    fn give_up(&self, state: &mut State, now: Instant) {
        let mut given_up = 0;
        for slot in &mut state.slots {
            if let Slot::Running(Running {
                since,
                tokens,
                constrained: true,
            }) = *slot
                && now.saturating_duration_since(since) >= self.timeout
            {
                let words = format!("a mask took longer than {} s", self.timeout.as_secs_f64());
                *slot = Slot::Done(Advance::failed(tokens, EngineError::TooLarge { words }));
                given_up += 1;
            }
        }
        if given_up == 0 {
            return;
        }
        let stuck = self.board.stuck.fetch_add(given_up, Ordering::SeqCst) + given_up;
        state.left -= given_up;
        state.threads = state.threads.saturating_sub(given_up);
        if stuck >= MAX_STUCK_STEPS {
            // Else each replacement would take the next sequence that hangs.
            state.refuse_waiting();
        }
        self.staff(state);
        self.board.done.notify_one();
    }

    /// Starts the threads that are missing; returns how many there are.
    fn staff(&self, state: &mut State) -> usize {
        while state.threads < self.wanted {
            let board = Arc::clone(&self.board);
            let builder = thread::Builder::new()
                .name("masks".into())
                .stack_size(WORKER_STACK_BYTES);
            if builder.spawn(move || board.work()).is_err() {
                break;
            }
            state.threads += 1;
        }
        state.threads
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.board.lock().closed = true;
        self.board.work.notify_all();
    }
}

impl State {
    /// Fails the constrained sequences that nobody has taken yet.
    fn refuse_waiting(&mut self) {
        for slot in &mut self.slots {
            let tokens = match slot {
                Slot::Waiting(generation) if generation.is_constrained() => generation.tokens(),
                _ => continue,
            };
            let refused =
                std::mem::replace(slot, Slot::Done(Advance::failed(tokens, too_many_stuck())));
            if let Slot::Waiting(generation) = refused {
                let_go(generation);
            }
            self.left -= 1;
        }
    }

    /// How long nothing can be overdue.
    fn patience(&self, now: Instant, timeout: Duration) -> Duration {
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

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker's life.
    fn work(&self) {
        while let Some((batch, index, generation)) = self.take() {
            if !self.put(batch, index, advance(generation)) {
                // It has been replaced.
                self.stuck.fetch_sub(1, Ordering::SeqCst);
                return;
            }
        }
    }

    /// Waits for a sequence to step; `None` when there will be none.
    fn take(&self) -> Option<(u64, usize, Box<Generation>)> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            // Some may have been refused before anybody took them.
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

    /// Hands a sequence back; false if it had been given up on.
    fn put(&self, batch: u64, index: usize, advance: Advance) -> bool {
        let mut state = self.lock();
        if state.batch != batch || !matches!(state.slots.get(index), Some(Slot::Running(_))) {
            return false;
        }
        state.slots[index] = Slot::Done(advance);
        state.left -= 1;
        if state.left == 0 {
            self.done.notify_one();
        }
        true
    }
}

impl Advance {
    fn failed(tokens: u32, error: EngineError) -> Self {
        Self {
            generation: None,
            piece: Err(error),
            tokens,
            mask_ns: None,
        }
    }
}

/// One step of one sequence, with its end: what a library frees then is freed here, not in the
/// loop.
fn advance(mut generation: Box<Generation>) -> Advance {
    let stepped = catch_unwind(AssertUnwindSafe(|| generation.step()));
    let piece = stepped.unwrap_or_else(|_| {
        Err(EngineError::Crashed {
            words: "panic: while a token was drawn".into(),
        })
    });
    let (tokens, mask_ns) = (generation.tokens(), generation.mask_ns());
    let goes_on = piece.as_ref().is_ok_and(|piece| piece.finish.is_none());
    let generation = if goes_on {
        Some(generation)
    } else {
        let_go(generation);
        None
    };
    Advance {
        generation,
        piece,
        tokens,
        mask_ns,
    }
}

/// Drops a sequence; a library may panic once more when it is let go.
pub(super) fn let_go(generation: Box<Generation>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(generation)));
}

/// What a sequence ends with where [`MAX_STUCK_STEPS`] has been reached.
pub(super) fn too_many_stuck() -> EngineError {
    EngineError::TooLarge {
        words: format!(
            "{MAX_STUCK_STEPS} masks ran out of time and still run; no other one is computed"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Gated, OPEN, gate, generation};
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_step_that_takes_too_long_is_given_up_and_its_thread_replaced() {
        let stuck = Arc::<AtomicUsize>::default();
        let workers = Workers::new(1, Duration::from_secs(3600), Arc::clone(&stuck)).unwrap();
        let (began, masks) = channel();
        let (key, gate) = gate();
        let batch = |first| {
            let gated = |token, gate| Gated {
                began: began.clone(),
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
        let advances = thread::scope(|scope| {
            let step = scope.spawn(|| workers.step(batch(gate)));
            assert_eq!(
                masks.recv(),
                Ok(5),
                "the only thread is held up by the first sequence"
            );
            // An hour goes by.
            workers.give_up(&mut workers.board.lock(), now() + Duration::from_secs(3600));
            step.join().unwrap()
        });
        let went: Vec<bool> = advances
            .iter()
            .map(|advance| advance.generation.is_some())
            .collect();
        assert_eq!(
            (went, workers.stuck()),
            (vec![false, true, true], 1),
            "the others were stepped by its replacement"
        );
        assert!(
            matches!(&advances[0].piece, Err(EngineError::TooLarge { words }) if words.contains("3600 s"))
        );
        assert!(
            workers
                .step(batch(OPEN))
                .iter()
                .all(|advance| advance.piece.is_ok()),
            "and the next batch too"
        );
        drop(key);
        while stuck.load(Ordering::SeqCst) != 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn one_step_leaves_no_more_masks_hanging_than_many_would() {
        // Short, so that the test is; the masks hang however long it is.
        let workers = Workers::new(1, Duration::from_millis(1), Arc::default()).unwrap();
        let (began, masks) = channel();
        let (key, gate) = gate();
        let hanging = || Gated {
            began: began.clone(),
            gate: gate.clone(),
            token: 5,
            panics: false,
        };
        let mut batch: Vec<_> = (0..MAX_STUCK_STEPS + 2)
            .map(|_| generation(Some(hanging()), 3))
            .collect();
        batch.push(generation(None, 3));
        let advances = workers.step(batch);
        let words = |advance: &Advance| match &advance.piece {
            Err(EngineError::TooLarge { words }) => words.clone(),
            other => panic!("{other:?}"),
        };
        let (free, constrained) = advances.split_last().unwrap();
        let (hung, refused) = constrained.split_at(MAX_STUCK_STEPS);
        assert!(
            hung.iter()
                .all(|advance| words(advance).contains("took longer than 0.001 s"))
        );
        assert!(refused.iter().all(|advance| words(advance).contains("still run") && advance.generation.is_none()));
        assert!(
            free.piece.is_ok() && free.generation.is_some(),
            "who runs no library is stepped all the same"
        );
        assert_eq!((refused.len(), workers.stuck()), (2, MAX_STUCK_STEPS));
        drop(key);
        while workers.stuck() != 0 {
            thread::yield_now();
        }
        assert_eq!(
            masks.try_iter().count(),
            MAX_STUCK_STEPS,
            "the others never began"
        );
    }
}
