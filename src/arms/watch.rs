//! The user's wish to end it all, which outlives the single runs. Knows no run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::signals::Wishes;

/// How often those who wait look whether they still should.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A process group, by the id of its leader.
pub(super) type Group = u32;

/// Notes wishes to end, and takes the server that runs at the time along at the second.
#[derive(Clone, Default)]
pub(super) struct Watch {
    stopped: Arc<AtomicBool>,
    group: Arc<Mutex<Option<Group>>>,
}

impl Watch {
    /// Watches from now on. What a wish means to the run that is under way is that run's own matter.
    pub(super) fn begin(runtime: &Runtime) -> Self {
        let watch = Self::default();
        let of_wishes = watch.clone();
        let _on_it = runtime.enter();
        let mut wishes = Wishes::listen();
        runtime.spawn(async move {
            loop {
                wishes.next().await;
                of_wishes.heard();
            }
        });
        watch
    }

    /// The first wish lets requests under way end, and the server with them; at the second the server is not waited for.
    fn heard(&self) {
        if self.stopped.swap(true, Ordering::Relaxed) {
            let group = *self.group.lock().unwrap_or_else(PoisonError::into_inner);
            group.into_iter().for_each(super::launch::ask_to_end);
        }
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
}
