//! The user's wish to end it all, which outlives the single runs. Knows no run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;

/// How often those who wait look whether they still should.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A process group, by the id of its leader.
pub(super) type Group = u32;

/// Notes Ctrl-C, and takes the server that runs at the time along when the program itself is told to end.
#[derive(Clone, Default)]
pub(super) struct Watch {
    stopped: Arc<AtomicBool>,
    group: Arc<Mutex<Option<Group>>>,
}

impl Watch {
    /// Watches from now on. What a Ctrl-C means to the run that is under way is that run's own matter.
    pub(super) fn begin(runtime: &Runtime, with_servers: bool) -> Self {
        let watch = Self::default();
        let of_keys = watch.clone();
        runtime.spawn(async move {
            while tokio::signal::ctrl_c().await.is_ok() {
                of_keys.stopped.store(true, Ordering::Relaxed);
            }
        });
        if with_servers {
            watch.hear_the_end(runtime);
        }
        watch
    }

    /// Whether nothing more is to begin.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Nothing more is to begin.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Comes back when nothing more is to begin.
    pub(super) async fn stopping(&self) {
        while !self.is_stopped() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The server that is to end with the program, from now on.
    pub(super) fn guard(&self, group: Option<Group>) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = group;
    }

    /// A program that is told to end, or whose terminal goes away, would leave the server behind: it is out of the terminal's reach.
    #[cfg(unix)]
    fn hear_the_end(&self, runtime: &Runtime) {
        use tokio::signal::unix::{SignalKind, signal};
        for kind in [SignalKind::terminate(), SignalKind::hangup()] {
            let watch = self.clone();
            runtime.spawn(async move {
                let Ok(mut signals) = signal(kind) else { return };
                while signals.recv().await.is_some() {
                    watch.stop();
                    let group = *watch.group.lock().unwrap_or_else(PoisonError::into_inner);
                    group.into_iter().for_each(super::launch::ask_to_end);
                }
            });
        }
    }

    #[cfg(not(unix))]
    fn hear_the_end(&self, _runtime: &Runtime) {}
}
