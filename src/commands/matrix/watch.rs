//! The user's wish to end it all, which outlives the single runs. Knows no run.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Runtime;

use crate::driver::{self, Stop, StopState, Stopper};
use crate::shutdown::Wishes;
use crate::terminal;

/// A process group, by the id of its leader.
pub(super) type Group = u32;

/// Hears wishes to end for all runs, and takes the server that runs at the time along at the second.
#[derive(Clone)]
pub(super) struct Watch {
    stopper: Stopper,
    stop: Stop,
    group: Arc<Mutex<Option<Group>>>,
}

impl Default for Watch {
    /// One that nobody tells anything.
    fn default() -> Self {
        let (stopper, stop) = driver::stop();
        Self { stopper, stop, group: Arc::default() }
    }
}

impl Watch {
    /// Watches from now on.
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
        if self.stopper.signal() == StopState::Draining {
            terminal::say("stopping: requests under way may end; press Ctrl-C again to cut them off");
            return;
        }
        terminal::say("stopping now");
        let group = *self.group.lock().unwrap_or_else(PoisonError::into_inner);
        group.into_iter().for_each(super::launch::ask_to_end);
    }

    /// What all runs are stopped by.
    pub(super) fn stop_of_all(&self) -> Stop {
        self.stop.clone()
    }

    /// Whether nothing more is to begin.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.state() != StopState::Running
    }

    /// Nothing more is to begin.
    pub(super) fn stop(&self) {
        self.stopper.drain();
    }

    /// Comes back when nothing more is to begin.
    pub(super) async fn stopping(&self) {
        self.stop.clone().signalled().await;
    }

    /// The server that is to end with the program, from now on.
    pub(super) fn guard(&self, group: Option<Group>) {
        *self.group.lock().unwrap_or_else(PoisonError::into_inner) = group;
    }
}
