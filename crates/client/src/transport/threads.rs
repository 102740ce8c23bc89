//! The threads that connections live on: each a runtime of one thread. Knows no connection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// One thread carries tens of thousands of tokens a second; more than a few would only take turns
/// from the server.
const MAX_THREADS: usize = 4;

/// The threads; they end when this is dropped, and with them every task and connection on them.
#[derive(Debug)]
pub(crate) struct Threads {
    handles: Vec<Handle>,
    next: AtomicUsize,
    /// Dropping these ends the threads.
    _ends: Vec<oneshot::Sender<()>>,
}

impl Threads {
    /// Starts a thread for every two cores, at most [`MAX_THREADS`].
    pub(crate) fn start() -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (mut handles, mut ends) = (Vec::new(), Vec::new());
        for number in 0..(cores / 2).clamp(1, MAX_THREADS) {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (end, ended) = oneshot::channel::<()>();
            handles.push(runtime.handle().clone());
            ends.push(end);
            // The sender is never used: the thread waits for it to be dropped.
            let run = move || drop(runtime.block_on(ended));
            thread::Builder::new()
                .name(format!("client-{number}"))
                .spawn(run)?;
        }
        Ok(Self {
            handles,
            next: AtomicUsize::new(0),
            _ends: ends,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    /// The threads in turn: a number below [`Threads::len`], and what spawns on it.
    pub(crate) fn next(&self) -> (usize, &Handle) {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len();
        (number, &self.handles[number])
    }

    pub(crate) fn handles(&self) -> &[Handle] {
        &self.handles
    }
}
