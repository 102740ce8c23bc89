//! Runs recursive work with a stack of sufficient size.

use std::panic::{self, AssertUnwindSafe};

use sobench_core::verdict::NotScored;

/// Maximum stack bytes. They reserve address space; only used stack takes memory.
const MAX_STACK_BYTES: usize = 1 << 30;

/// Runs `work` on this thread with at least `bytes` of stack: on the thread's own if that suffices,
/// otherwise on one that is made for it, which takes some system calls.
///
/// Fails above the limit, or if there is no memory for a stack. A panic is propagated to the caller.
pub(super) fn with_stack<T>(bytes: usize, work: impl FnOnce() -> T) -> Result<T, NotScored> {
    let limit = || NotScored::Limit {
        what: format!("recursion over {MAX_STACK_BYTES} bytes of stack"),
    };
    if bytes > MAX_STACK_BYTES {
        return Err(limit());
    }
    let mut is_started = false;
    let work = || {
        is_started = true;
        work()
    };
    // Without memory for a stack, `stacker` panics.
    let done = panic::catch_unwind(AssertUnwindSafe(|| stacker::maybe_grow(bytes, bytes, work)));
    match done {
        Ok(result) => Ok(result),
        Err(_) if !is_started => Err(limit()),
        Err(panic) => panic::resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn recurse(depth: usize) -> usize {
        let frame = [depth; 128];
        if depth == 0 {
            0
        } else {
            1 + recurse(std::hint::black_box(&frame)[127] - 1)
        }
    }

    #[test]
    fn deep_recursion_runs_on_a_separate_stack_of_the_same_thread() {
        let caller = thread::current().id();
        let deep = || (recurse(20_000), thread::current().id());
        assert_eq!(with_stack(64 << 20, deep), Ok((20_000, caller)));
        assert_eq!(with_stack(1, || recurse(10)), Ok(10));
        assert!(matches!(
            with_stack(usize::MAX, || 1),
            Err(NotScored::Limit { .. })
        ));
    }

    #[test]
    fn a_panic_of_the_work_is_not_a_limit() {
        let panic = panic::catch_unwind(|| with_stack(64 << 20, || panic!("broken")));
        assert_eq!(panic.unwrap_err().downcast_ref(), Some(&"broken"));
    }
}
