//! What the system tells a program by signals: to end, and that a file may not grow. Knows no run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::{Error, Result};

/// Stack of a command's thread: that of a main thread.
const STACK_BYTES: usize = 8 << 20;

/// Listens for wishes to end: Ctrl-C, and where there are such things the signal that asks a program to end (SIGTERM: `kill`,
/// service managers, `docker stop`) and the one of a terminal that goes away (SIGHUP).
#[derive(Debug)]
pub struct Wishes {
    #[cfg(unix)]
    kinds: [Option<Signal>; 3],
}

impl Wishes {
    /// Listens from now on, on the runtime that this is called on; from then on none of them kills the program. Who had SIGHUP
    /// ignored (`nohup`) wants to outlive the terminal, and does.
    #[cfg(unix)]
    pub fn listen() -> Self {
        let hang_up = if is_hang_up_ignored() { None } else { signal(SignalKind::hangup()).ok() };
        Self { kinds: [signal(SignalKind::interrupt()).ok(), signal(SignalKind::terminate()).ok(), hang_up] }
    }

    /// Listens from now on.
    #[cfg(not(unix))]
    pub fn listen() -> Self {
        Self {}
    }

    /// Waits for the next one; for ever where none can be heard.
    #[cfg(unix)]
    pub async fn next(&mut self) {
        let [keys, terminate, hang_up] = &mut self.kinds;
        tokio::select! {
            () = heard(keys) => {}
            () = heard(terminate) => {}
            () = heard(hang_up) => {}
        }
    }

    /// Waits for the next one; for ever where none can be heard.
    #[cfg(not(unix))]
    pub async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Does `work` on a thread of its own until it is done, or until a wish to end comes: what is done of it by then is lost.
///
/// # Errors
/// Those of the work; interrupted; there is no thread to be had.
pub fn until_signal<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (done, told) = mpsc::channel();
    let ended = done.clone();
    let interrupted = || Error::interrupted("interrupted before there was anything to report");
    on_each_wish(move || {
        let _ = ended.send(Err(interrupted()));
    })?;
    let work = move || {
        let result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Error::internal("the command panicked")));
        // Nobody listens any more once the end has come.
        let _ = done.send(result);
    };
    thread::Builder::new().name("command".into()).stack_size(STACK_BYTES).spawn(work).map_err(|error| no_thread(&error))?;
    told.recv().unwrap_or_else(|_| Err(interrupted()))
}

/// Calls `heard` at each wish to end from now on, on a thread of its own, as long as the program runs.
///
/// # Errors
/// There is no thread to be had.
pub fn on_each_wish(heard: impl Fn() + Send + 'static) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| no_thread(&error))?;
    let mut wishes = {
        let _guard = runtime.enter();
        Wishes::listen()
    };
    let watch = move || {
        runtime.block_on(async {
            loop {
                wishes.next().await;
                heard();
            }
        });
    };
    thread::Builder::new().name("signals".into()).spawn(watch).map_err(|error| no_thread(&error))?;
    Ok(())
}

fn no_thread(error: &std::io::Error) -> Error {
    Error::environment(format!("no thread beside which signals are heard: {error}"))
        .hint("raise the limit of processes (ulimit -u)")
}

#[cfg(unix)]
async fn heard(signal: &mut Option<Signal>) {
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Whether the program was started with SIGHUP ignored, as far as the system tells (Linux).
#[cfg(unix)]
pub fn is_hang_up_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, SignalKind::hangup().as_raw_value()))
}

/// Reads `SigIgn` (proc(5)): a mask in hexadecimal, of which bit `n - 1` is signal `n`.
#[cfg(unix)]
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

/// Lets a file that may not grow any more (`ulimit -f`) be an error of the write, as a full disk is, and not the death of the
/// program, which is what the system has SIGXFSZ do to whoever does not listen for it.
#[cfg(unix)]
pub fn outlive_file_limits() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    if let Ok(runtime) = runtime {
        let _guard = runtime.enter();
        // It goes on being heard when nobody listens any more. Where it fails, all is as the system has it.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

/// Elsewhere there is no such signal.
#[cfg(not(unix))]
pub fn outlive_file_limits() {}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn masks_of_ignored_signals_are_read() {
        for (status, signal, expected) in [
            ("Name:\tx\nSigIgn:\t0000000000000001\n", 1, true),
            ("SigIgn:\t0000000000001000\n", 1, false),
            ("SigIgn:\t0000000000001000\n", 13, true),
            ("SigIgn:\tno mask\n", 1, false),
            ("", 1, false),
            ("SigIgn:\tffffffffffffffff\n", 100, false),
            ("SigIgn:\tffffffffffffffff\n", 0, false),
        ] {
            assert_eq!(ignores(status, signal), expected, "{status:?} {signal}");
        }
    }
}
