//! Work that cannot be stopped, on a thread of its own, from which the user may walk away. Knows nothing of the work.

use std::thread::Builder;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::shutdown::Wishes;
use crate::terminal;

/// As much stack as the main thread has: schemas and grammars nest.
const STACK_BYTES: usize = 8 << 20;

/// Does the work and waits for it, but no longer than until `leave`: then it is left behind, to end with the program, and there is `None`.
///
/// # Errors
/// There is no thread for it, or it panicked.
pub(super) async fn unless_left<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
    leave: impl Future<Output = ()>,
) -> Result<Option<T>> {
    let (done, over) = oneshot::channel();
    // Who has walked away is not told.
    let working = Builder::new().name("work".to_owned()).stack_size(STACK_BYTES).spawn(move || done.send(work()).is_ok());
    working.map_err(|error| Error::environment(format!("no thread for a run: {error}")))?;
    tokio::select! {
        biased;
        done = over => done.map(Some).map_err(|_| Error::internal("a run panicked")),
        () = leave => Ok(None),
    }
}

/// Comes back at the user's second wish to end from now on; the first is answered with what there is to wait for.
pub(super) async fn second_wish(waits_for: &str) {
    let mut wishes = Wishes::listen();
    wishes.next().await;
    terminal::say(waits_for);
    wishes.next().await;
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn work_is_waited_for_until_somebody_leaves() {
        assert_eq!(unless_left(|| 7, pending()).await, Ok(Some(7)));
        let (_never, told) = channel::<()>();
        let endless = move || told.recv().is_ok();
        assert_eq!(unless_left(endless, ready(())).await, Ok(None));
        let panicked = unless_left(|| std::panic::resume_unwind(Box::new("as a library would")), pending()).await;
        assert_eq!(panicked.map(|_: Option<()>| ()).unwrap_err().what, "a run panicked");
    }
}
