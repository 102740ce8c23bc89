//! Client threads, each with a single-threaded runtime that owns connections.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, thread};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::clock;

/// One thread handles tens of thousands of tokens per second; more threads would take CPU time from
/// a local server.
const MAX_THREADS: usize = 4;

/// The threads. Dropping this ends them with all their tasks and connections.
#[derive(Debug)]
pub(crate) struct Threads {
    handles: Vec<Handle>,
    next: AtomicUsize,
    /// Dropping these ends the threads.
    _ends: Vec<oneshot::Sender<()>>,
}

impl Threads {
    /// Starts one thread per two cores, at most [`MAX_THREADS`].
    pub(crate) fn start() -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (mut handles, mut ends) = (Vec::new(), Vec::new());
        for number in 0..(cores / 2).clamp(1, MAX_THREADS) {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .on_thread_park(clock::thread_parks)
                .on_thread_unpark(clock::thread_woke)
                .build()?;
            let (end, ended) = oneshot::channel::<()>();
            handles.push(runtime.handle().clone());
            ends.push(end);
            // Nothing is sent: the thread waits until the sender is dropped.
            let run = move || {
                clock::record_wake_ups();
                drop(runtime.block_on(ended));
            };
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

    /// The next thread in turn: its index and its runtime handle.
    pub(crate) fn next(&self) -> (usize, &Handle) {
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.handles.len();
        (number, &self.handles[number])
    }

    pub(crate) fn handles(&self) -> &[Handle] {
        &self.handles
    }
}
