//! Stopping a run from outside: a value that is signalled, first gently, then at once. Knows no signal handler and no request.

use std::time::Duration;

use tokio::sync::watch;

/// How far a run has been asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopState {
    Running,
    /// No more requests are sent; those under way may end within the drain timeout.
    Draining,
    /// Requests under way are cut off.
    Now,
}

/// The end that signals.
#[derive(Debug)]
pub struct Stopper(watch::Sender<StopState>);

/// The end that is listened to. A stop whose [`Stopper`] is gone stays as it is.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<StopState>);

/// A pair of ends.
pub fn stop() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(StopState::Running);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// The first signal drains, the second stops at once; returns what it has come to.
    pub fn signal(&self) -> StopState {
        self.0.send_modify(|state| {
            *state = match state {
                StopState::Running => StopState::Draining,
                StopState::Draining | StopState::Now => StopState::Now,
            };
        });
        *self.0.borrow()
    }
}

impl Stop {
    /// A stop that nobody will signal.
    pub fn never() -> Self {
        stop().1
    }

    /// How far it has come.
    pub fn state(&self) -> StopState {
        *self.0.borrow()
    }

    /// Whether there has been a signal, or may have been: cheap, and `true` too where nobody is left to signal.
    pub(super) fn is_signalled(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }

    /// Waits for the first signal.
    pub async fn signalled(&mut self) {
        self.reached(|state| state != StopState::Running).await;
    }

    /// Waits until requests under way are to be cut off: `drain` after the first signal, or at the second.
    pub(super) async fn cut(&mut self, drain: Duration) {
        self.signalled().await;
        tokio::select! {
            () = tokio::time::sleep(drain) => {}
            () = self.reached(|state| state == StopState::Now) => {}
        }
    }

    async fn reached(&mut self, is_reached: impl Fn(StopState) -> bool) {
        if self.0.wait_for(|state| is_reached(*state)).await.is_err() {
            // Nobody is left to signal.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn two_signals_and_none() {
        let (stopper, mut listener) = stop();
        assert_eq!(listener.state(), StopState::Running);
        assert_eq!(stopper.signal(), StopState::Draining);
        listener.signalled().await;
        listener.clone().cut(Duration::ZERO).await;
        assert_eq!(stopper.signal(), StopState::Now);
        assert_eq!(stopper.signal(), StopState::Now);
        drop(stopper);
        // The drain would take for ever; the second signal does not wait for it, though its sender is gone.
        listener.cut(Duration::MAX).await;
        tokio::select! {
            biased;
            () = async { Stop::never().signalled().await } => panic!("nobody signalled"),
            () = std::future::ready(()) => {}
        }
    }
}
