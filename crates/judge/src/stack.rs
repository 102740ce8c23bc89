//! Runs recursive work with a stack of sufficient size.

use std::thread;

use sobench_core::verdict::NotScored;

/// Stack bytes that are assumed to be left on the calling thread. Threads start with 2 MiB or more.
const CALLER_STACK_BYTES: usize = 256 << 10;

/// Maximum stack bytes. They reserve address space; only used stack takes memory.
const MAX_STACK_BYTES: usize = 1 << 30;

/// Runs `work` with at least `bytes` of stack: on this thread if that is little, otherwise on a new
/// thread.
///
/// Fails above the limit, or if no thread can be created. A panic is propagated to the caller.
pub(super) fn with_stack<T: Send>(
    bytes: usize,
    work: impl FnOnce() -> T + Send,
) -> Result<T, NotScored> {
    if bytes <= CALLER_STACK_BYTES {
        return Ok(work());
    }
    let limit = || NotScored::Limit {
        what: format!("recursion over {MAX_STACK_BYTES} bytes of stack"),
    };
    if bytes > MAX_STACK_BYTES {
        return Err(limit());
    }
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .stack_size(bytes)
            .spawn_scoped(scope, work)
            .map_err(|_| limit())?;
        worker
            .join()
            .or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
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
    fn deep_recursion_runs_on_a_separate_stack() {
        assert_eq!(with_stack(64 << 20, || recurse(20_000)), Ok(20_000));
        assert_eq!(with_stack(1, || recurse(10)), Ok(10));
        assert!(matches!(
            with_stack(usize::MAX, || 1),
            Err(NotScored::Limit { .. })
        ));
    }
}
