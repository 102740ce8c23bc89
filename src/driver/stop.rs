//! Stopping a run from outside: a value that is signalled, first gently, then at once. Knows no signal handler and no request.

use std::time::Duration;

use tokio::sync::watch;

/// How far a run has been asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StopState {
    Running,
    /// No more requests are sent; those under way may end within the drain timeout.
    Draining,
    /// Requests under way are cut off.
    Now,
}

/// What ends have in common.
#[derive(Clone, Copy, Debug)]
struct Signal {
    state: StopState,
    /// Whether the first signal was the run's own, and nobody's wish.
    is_broken_off: bool,
}

/// The end that signals.
#[derive(Clone, Debug)]
pub struct Stopper(watch::Sender<Signal>);

/// The end that is listened to. A stop whose [`Stopper`] is gone stays as it is.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Signal>);

/// A pair of ends.
pub fn stop() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(Signal { state: StopState::Running, is_broken_off: false });
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// The first signal drains, the second stops at once; returns what it has come to.
    pub fn signal(&self) -> StopState {
        self.0.send_modify(|signal| {
            signal.state = match signal.state {
                StopState::Running => StopState::Draining,
                StopState::Draining | StopState::Now => StopState::Now,
            };
        });
        self.0.borrow().state
    }

    /// The run gives up: drains, unless it does already. Whether it was this that stopped it.
    pub fn break_off(&self) -> bool {
        self.0.send_if_modified(|signal| {
            let is_first = signal.state == StopState::Running;
            if is_first {
                *signal = Signal { state: StopState::Draining, is_broken_off: true };
            }
            is_first
        })
    }

    /// Passes on what another stop comes to, for as long as that can be signalled. Who drains already, having given up, is no further
    /// for a first wish that others have to heed.
    pub async fn follow(self, mut other: Stop) {
        for state in [StopState::Draining, StopState::Now] {
            other.reached(|reached| reached >= state).await;
            self.reach(state);
        }
    }

    /// The first signal, unless there has been one.
    pub fn drain(&self) {
        self.reach(StopState::Draining);
    }

    fn reach(&self, state: StopState) {
        self.0.send_modify(|signal| signal.state = signal.state.max(state));
    }
}

impl Stop {
    /// A stop that nobody will signal.
    pub fn never() -> Self {
        stop().1
    }

    /// How far it has come.
    pub fn state(&self) -> StopState {
        self.0.borrow().state
    }

    /// Whether the run gave up by itself, before anybody wished it to end.
    pub fn is_broken_off(&self) -> bool {
        self.0.borrow().is_broken_off
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
        if self.0.wait_for(|signal| is_reached(signal.state)).await.is_err() {
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

    #[tokio::test]
    async fn a_run_that_gives_up_is_told_from_one_that_is_stopped() {
        let (stopper, stop_of_run) = stop();
        stopper.break_off();
        assert_eq!((stop_of_run.state(), stop_of_run.is_broken_off()), (StopState::Draining, true));
        assert_eq!((stopper.signal(), stop_of_run.is_broken_off()), (StopState::Now, true), "the user is in a hurry");
        let (stopper, stop_of_run) = stop();
        stopper.signal();
        stopper.break_off();
        assert_eq!((stop_of_run.state(), stop_of_run.is_broken_off()), (StopState::Draining, false));
    }

    #[tokio::test]
    async fn one_stop_is_passed_on_to_many() {
        let (of_all, all) = stop();
        let (mine, mut stop_of_run) = stop();
        let following = tokio::spawn(mine.follow(all.clone()));
        of_all.signal();
        stop_of_run.signalled().await;
        of_all.signal();
        following.await.unwrap();
        assert_eq!(stop_of_run.state(), StopState::Now);
        let (mine, mut stop_of_run) = stop();
        mine.break_off();
        let (of_all_again, all_again) = stop();
        of_all_again.signal();
        // Only one more thing can happen to it, and it has not.
        let following = tokio::spawn(mine.clone().follow(all_again));
        tokio::task::yield_now().await;
        assert_eq!(stop_of_run.state(), StopState::Draining, "the first wish does not cut off who drains already");
        of_all_again.signal();
        following.await.unwrap();
        assert_eq!((stop_of_run.state(), stop_of_run.is_broken_off()), (StopState::Now, true));
        stop_of_run.signalled().await;
        let (mine, stop_of_run) = stop();
        mine.break_off();
        assert_eq!((all.state(), stop_of_run.state()), (StopState::Now, StopState::Draining), "nobody else is stopped");
    }
}
