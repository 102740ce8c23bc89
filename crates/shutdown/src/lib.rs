//! The shutdown token: the first request lets running work end, the second aborts it. Shutdown
//! signals are requests.

#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod signals;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use std::{fmt, thread};

use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

pub use self::signals::{handle_file_size_signal, is_hang_up_ignored};
use sobench_core::error::{Error, Result};

/// Stack size of worker threads, because schemas and grammars nest. More than the judge needs for a
/// schema (16 MiB), so that a thread that reads a million of them makes no other stack.
const STACK_BYTES: usize = 32 << 20;

/// Stage of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Running,
    /// Nothing new is started; requests in flight may finish within the drain timeout.
    Draining,
    /// Requests in flight are aborted.
    Aborting,
}

/// A token that stops work in two stages. Clones are the same token.
#[derive(Clone)]
pub struct Shutdown {
    node: Arc<Node>,
    requests: watch::Receiver<u32>,
    /// Number of requests before [`Shutdown::from_now`], which do not count.
    earlier: u32,
}

/// State shared by the clones of a token.
struct Node {
    /// Number of requests.
    requests: watch::Sender<u32>,
    /// Child tokens, each with the number of earlier requests that it does not count.
    children: Mutex<Vec<(Weak<Self>, u32)>>,
    listening: Mutex<Listening>,
}

/// Called with the stage after a signal.
type Report = Box<dyn Fn(Stage) + Send>;

#[derive(Default)]
struct Listening {
    /// Whether the signal thread has been started.
    has_thread: bool,
    /// The callback, with the number of earlier requests that its stage does not count.
    report: Option<(u32, Report)>,
}

/// Reports signals until dropped; later signals are requests without a report.
#[must_use]
pub struct Listener(Arc<Node>);

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shutdown").field(&self.stage()).finish()
    }
}

impl Shutdown {
    /// A token in stage [`Stage::Running`].
    pub fn new() -> Self {
        let (sender, requests) = watch::channel(0);
        let node = Node {
            requests: sender,
            children: Mutex::default(),
            listening: Mutex::default(),
        };
        Self {
            node: Arc::new(node),
            requests,
            earlier: 0,
        }
    }

    /// A child token: it gets all requests of this token, including earlier ones, and can be
    /// requested separately. If the child is already draining by its own request, the first request
    /// of this token does not abort it.
    pub fn child(&self) -> Self {
        let child = Self::new();
        lock(&self.node.children).push((Arc::downgrade(&child.node), self.earlier));
        self.node.pass_on();
        child
    }

    /// The same token for work that starts now: earlier requests do not count.
    pub fn from_now(&self) -> Self {
        let mut requests = self.requests.clone();
        let earlier = *requests.borrow_and_update();
        Self {
            node: Arc::clone(&self.node),
            requests,
            earlier,
        }
    }

    /// Requests the next stage: the first request drains, the second aborts. Returns the stage.
    pub fn request(&self) -> Stage {
        self.node
            .requests
            .send_modify(|requests| *requests = requests.saturating_add(1));
        self.node.pass_on();
        self.stage()
    }

    /// Drains unless already requested; returns whether this was the first request.
    pub fn drain(&self) -> bool {
        let is_first = self.node.requests.send_if_modified(|requests| {
            let is_first = *requests <= self.earlier;
            if is_first {
                *requests = self.earlier.saturating_add(1);
            }
            is_first
        });
        self.node.pass_on();
        is_first
    }

    pub fn stage(&self) -> Stage {
        stage(*self.requests.borrow(), self.earlier)
    }

    /// Whether shutdown was requested. Costs one atomic read until the first request, so that it
    /// can be checked for every chunk of a response.
    pub fn is_requested(&self) -> bool {
        self.requests.has_changed().unwrap_or(true) && self.stage() != Stage::Running
    }

    /// Waits for the first request.
    pub async fn drain_requested(&self) {
        self.reached(1).await;
    }

    /// Waits for the second request.
    pub async fn abort_requested(&self) {
        self.reached(2).await;
    }

    /// Waits until requests in flight must be aborted: `drain_timeout` after the first request, or
    /// at the second.
    pub async fn cut_off(&self, drain_timeout: Duration) {
        self.drain_requested().await;
        tokio::select! {
            () = tokio::time::sleep(drain_timeout) => {}
            () = self.abort_requested() => {}
        }
    }

    async fn reached(&self, count: u32) {
        let count = self.earlier.saturating_add(count);
        let mut requests = self.requests.clone();
        requests
            .wait_for(|requests| *requests >= count)
            .await
            .map(|_| ())
            .expect("this side holds the sender");
    }

    /// Handles shutdown signals from now on: each is a request, and `report` is called with the
    /// resulting stage. Before the first call, signals have the system's default effect.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn listen(&self, report: impl Fn(Stage) + Send + 'static) -> Result<Listener> {
        let mut listening = lock(&self.node.listening);
        if !listening.has_thread {
            let token = self.clone();
            signals::on_each(move || token.signalled())?;
            listening.has_thread = true;
        }
        listening.report = Some((self.earlier, Box::new(report)));
        Ok(Listener(Arc::clone(&self.node)))
    }

    fn signalled(&self) {
        self.request();
        if let Some((earlier, report)) = &lock(&self.node.listening).report {
            report(stage(*self.requests.borrow(), *earlier));
        }
    }

    /// Runs a command without partial results: it is abandoned at the first shutdown signal.
    ///
    /// # Errors
    /// Errors of the work; interrupted; no thread can be started.
    pub fn run_or_abandon<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let _listener = self.listen(|_| {})?;
        let runtime = Builder::new_current_thread()
            .build()
            .map_err(|error| signals::no_thread(&error))?;
        let done =
            runtime.block_on(run_abandonable("the command", work, self.drain_requested()))?;
        done.unwrap_or_else(|| Err(Error::interrupted("interrupted before there were results")))
    }
}

impl Node {
    /// Raises the children to at least this token's stage.
    fn pass_on(&self) {
        let requests = *self.requests.borrow();
        lock(&self.children).retain(|(child, earlier)| {
            let child = child.upgrade();
            child
                .iter()
                .for_each(|child| child.raise(requests.saturating_sub(*earlier)));
            child.is_some()
        });
    }

    fn raise(&self, to: u32) {
        let is_raised = self.requests.send_if_modified(|requests| {
            let is_less = *requests < to;
            *requests = to.max(*requests);
            is_less
        });
        if is_raised {
            self.pass_on();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        lock(&self.0.listening).report = None;
    }
}

fn stage(requests: u32, earlier: u32) -> Stage {
    match requests.saturating_sub(earlier) {
        0 => Stage::Running,
        1 => Stage::Draining,
        _ => Stage::Aborting,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs work that cannot be stopped on its own thread and waits for it. If `leave` completes first,
/// returns `None`, and the thread runs on until the program ends. `name` is used in errors.
///
/// # Errors
/// No thread can be started, or the work panicked.
pub async fn run_abandonable<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
    leave: impl Future<Output = ()>,
) -> Result<Option<T>> {
    let (sender, done) = oneshot::channel();
    // Fails only if the work was abandoned.
    let work = move || drop(sender.send(work()));
    let spawned = thread::Builder::new()
        .name("work".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(work);
    spawned.map_err(|error| Error::environment(format!("no thread for {name}: {error}")))?;
    tokio::select! {
        biased;
        done = done => done.map(Some).map_err(|_| Error::internal(format!("{name} panicked"))),
        () = leave => Ok(None),
    }
}

#[cfg(test)]
mod tests;
