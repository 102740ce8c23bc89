//! Works on batches in several threads, and takes the results in the order of the batches.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, available_parallelism};

use crate::error::{Error, Result};

/// Batches in progress or waiting for an earlier one, for each thread.
const BATCHES_PER_THREAD: u64 = 4;

/// Batches that have not been started.
struct Source<N> {
    next: N,
    taken: u64,
    is_over: bool,
}

/// Results that have been taken, or wait for an earlier one.
struct Sink<R, T> {
    waiting: BTreeMap<u64, Result<R>>,
    taken: u64,
    take: T,
    /// The first error in order; all later results are dropped.
    failure: Option<Error>,
    /// Whether a thread panicked.
    is_broken: bool,
}

/// The number of threads, up to all cores, if this many are worth their start.
pub fn threads(wanted: usize) -> usize {
    let cores = available_parallelism().map_or(1, usize::from);
    wanted.clamp(1, cores)
}

/// Gets batches from `next` until it returns `None`, turns each into a result with `work` and the
/// state of its thread, and gives the results to `take` in the order of the batches. A bounded
/// number of results waits for an earlier one.
///
/// # Errors
/// The first error of a batch in order, after the results before it were taken.
///
/// # Panics
/// A thread panicked.
pub fn in_order<B, S, R>(
    threads: usize,
    next: impl FnMut() -> Result<Option<B>> + Send,
    new_state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, B) -> Result<R> + Sync,
    take: impl FnMut(R) -> Result<()> + Send,
) -> Result<()>
where
    R: Send,
{
    let max_waiting = BATCHES_PER_THREAD * threads as u64;
    let source = Mutex::new(Source {
        next,
        taken: 0,
        is_over: false,
    });
    let sink = Mutex::new(Sink {
        waiting: BTreeMap::new(),
        taken: 0,
        take,
        failure: None,
        is_broken: false,
    });
    let changed = Condvar::new();
    let run = || {
        let mut state = new_state();
        loop {
            let mut batches = lock(&source);
            if batches.is_over {
                return;
            }
            let number = batches.taken;
            let results = changed
                .wait_while(lock(&sink), |sink| {
                    !sink.is_over() && number - sink.taken >= max_waiting
                })
                .unwrap_or_else(PoisonError::into_inner);
            if results.is_over() {
                return;
            }
            drop(results);
            let batch = (batches.next)();
            batches.taken += 1;
            batches.is_over = !matches!(batch, Ok(Some(_)));
            drop(batches);
            let result = match batch {
                Ok(None) => return,
                Ok(Some(batch)) => work(&mut state, batch),
                Err(error) => Err(error),
            };
            lock(&sink).add(number, result);
            changed.notify_all();
        }
    };
    let run = || {
        // Other threads must not wait for the result of a thread that panicked.
        if let Err(cause) = panic::catch_unwind(AssertUnwindSafe(run)) {
            lock(&sink).is_broken = true;
            changed.notify_all();
            panic::resume_unwind(cause);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let sink = sink.into_inner().unwrap_or_else(PoisonError::into_inner);
    sink.failure.map_or(Ok(()), Err)
}

impl<R, T: FnMut(R) -> Result<()>> Sink<R, T> {
    fn is_over(&self) -> bool {
        self.is_broken || self.failure.is_some()
    }

    /// Adds a result, and takes all whose turn has come.
    fn add(&mut self, number: u64, result: Result<R>) {
        self.waiting.insert(number, result);
        while !self.is_over()
            && let Some(result) = self.waiting.remove(&self.taken)
        {
            self.taken += 1;
            self.failure = result.and_then(&mut self.take).err();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn numbers(count: usize) -> impl FnMut() -> Result<Option<usize>> + Send {
        let mut numbers = 0..count;
        move || Ok(numbers.next())
    }

    #[test]
    fn results_are_taken_in_order_and_few_wait() {
        let (mut found, in_progress, most) = (Vec::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let threads = 4;
        let done = in_order(
            threads,
            numbers(500),
            || (),
            |(), number| {
                let now = in_progress.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                // The work of some batches takes longer.
                let work = (0..number % 7 * 10_000).fold(0, |sum: usize, value| sum ^ value);
                Ok(number + work - work)
            },
            |number| {
                in_progress.fetch_sub(1, Ordering::SeqCst);
                found.push(number);
                Ok(())
            },
        );
        assert_eq!(done.map_err(|error| error.what), Ok(()));
        assert_eq!(found, (0..500).collect::<Vec<_>>());
        assert!(most.into_inner() <= threads * BATCHES_PER_THREAD as usize);
    }

    #[test]
    fn the_first_error_in_order_ends_the_work() {
        for threads in [1, 3] {
            let mut found = Vec::new();
            let done = in_order(
                threads,
                numbers(1000),
                || (),
                |(), number| match number {
                    20.. => Err(Error::usage(format!("error {number}"))),
                    _ => Ok(number),
                },
                |number| {
                    found.push(number);
                    Ok(())
                },
            );
            assert_eq!(done.map_err(|error| error.what), Err("error 20".to_owned()));
            assert_eq!(found, (0..20).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_ends_all_threads() {
        let work = |_: &mut (), number: usize| -> Result<usize> {
            if number == 5 {
                panic::resume_unwind(Box::new("as a library would"));
            }
            Ok(number)
        };
        let run = || in_order(3, numbers(1000), || (), work, |_| Ok(()));
        assert!(panic::catch_unwind(AssertUnwindSafe(run)).is_err());
    }
}
