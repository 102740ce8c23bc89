//! Injected faults of compiles: leaked memory, slow compiles, blocked neighbours, compiles that go on
//! after their clients went away, and the end of the server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

use super::faults::{FaultKind, RequestFaults};
use sobench_core::constraint::Constraint;
use sobench_engine::EngineError;

/// The value of leaked bytes. Not zero, so that every page of memory is touched.
const LEAKED_BYTE: u8 = 0xa5;

/// How often a compile that never ends looks whether the server has stopped.
const STOP_POLL: Duration = Duration::from_millis(50);

/// State of the faults of compiles.
#[derive(Default)]
pub(super) struct CompileFaults {
    /// Held by a compile that blocks the batch.
    decoding: Mutex<()>,
    /// Leaked memory by the fingerprint of its constraint.
    leaked: Mutex<HashMap<String, Vec<u8>>>,
    /// Notified when a fault ends the server.
    death: Notify,
    is_dead: AtomicBool,
    /// Whether the server has stopped.
    is_stopped: AtomicBool,
}

impl CompileFaults {
    /// Runs a compile with its faults. `is_awaited` says whether a client still waits for it. Blocks.
    pub(super) fn run<T>(
        &self,
        mut faults: RequestFaults,
        constraint: &Constraint,
        fingerprint: &str,
        is_awaited: impl Fn() -> bool,
        compile: impl FnOnce() -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        if faults.is_empty() {
            return compile();
        }
        let bytes = size(constraint);
        let limit = faults.argument(FaultKind::DieOnLarge);
        if limit.is_some_and(|limit| bytes > limit) {
            faults.inject(FaultKind::DieOnLarge);
            self.is_dead.store(true, Ordering::SeqCst);
            self.death.notify_one();
            // The request must not be answered.
            self.wait_until_stopped();
            return Err(EngineError::Crashed {
                message: "the server died".into(),
            });
        }
        if let Some(leak) = faults.argument(FaultKind::LeakPerSchema)
            && self.leak(fingerprint, leak as usize)
        {
            faults.inject(FaultKind::LeakPerSchema);
        }
        let turn = faults
            .inject(FaultKind::StallNeighbours)
            .then(|| self.lock_decoding());
        if let Some(time) = faults.inject_pause(FaultKind::SlowCompile) {
            thread::sleep(time.mul_f64(bytes / 1024.0));
        }
        let compiled = compile();
        drop(turn);
        if faults.has(FaultKind::ZombieCompile) && !is_awaited() {
            faults.inject(FaultKind::ZombieCompile);
            self.wait_until_stopped();
        }
        compiled
    }

    /// Blocks while a compile blocks the batch.
    pub(super) fn wait_for_decoding(&self) {
        drop(self.lock_decoding());
    }

    /// Waits until a fault ends the server.
    pub(super) async fn death(&self) {
        self.death.notified().await;
    }

    /// Whether a fault has ended the server.
    pub(super) fn is_dead(&self) -> bool {
        self.is_dead.load(Ordering::SeqCst)
    }

    /// Ends the compiles that never end otherwise, when the server stops.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    fn wait_until_stopped(&self) {
        while !self.is_stopped.load(Ordering::SeqCst) {
            thread::sleep(STOP_POLL);
        }
    }

    /// Allocates memory for a constraint. False if it was allocated before.
    fn leak(&self, fingerprint: &str, bytes: usize) -> bool {
        let mut leaked = self.leaked.lock().unwrap_or_else(PoisonError::into_inner);
        if leaked.contains_key(fingerprint) {
            return false;
        }
        leaked.insert(fingerprint.to_owned(), vec![LEAKED_BYTE; bytes]);
        true
    }

    fn lock_decoding(&self) -> MutexGuard<'_, ()> {
        self.decoding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bytes of a constraint as JSON.
fn size(constraint: &Constraint) -> f64 {
    serde_json::to_string(constraint).map_or(0.0, |text| text.len() as f64)
}
