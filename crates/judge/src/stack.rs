//! Room for recursion whose depth the data decide. Knows nothing of what recurses.

use std::thread;

use sobench_core::verdict::NotScored;

/// What the calling thread is trusted to have left; threads start with 2 MiB or more.
const CALLERS_BYTES: usize = 256 << 10;

/// Stack that one piece of work may ask for. It is address space: only what is used takes memory.
const MAX_BYTES: usize = 1 << 30;

/// Runs `work` with at least `bytes` of stack: here if that is little, else on a thread made for
/// it.
///
/// Over the limit, or where no such thread is to be had, there is no result. A panic goes on in the
/// caller.
pub(super) fn with_room<T: Send>(
    bytes: usize,
    work: impl FnOnce() -> T + Send,
) -> Result<T, NotScored> {
    if bytes <= CALLERS_BYTES {
        return Ok(work());
    }
    let limit = || NotScored::Limit {
        what: format!("recursion over {MAX_BYTES} bytes of stack"),
    };
    if bytes > MAX_BYTES {
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
    fn deep_recursion_gets_a_stack_of_its_own() {
        assert_eq!(with_room(64 << 20, || recurse(20_000)), Ok(20_000));
        assert_eq!(with_room(1, || recurse(10)), Ok(10));
        assert!(matches!(
            with_room(usize::MAX, || 1),
            Err(NotScored::Limit { .. })
        ));
    }
}
