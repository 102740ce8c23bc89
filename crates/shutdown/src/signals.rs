//! The system's signals: those that ask a program to end, and the one for files that may not grow.

use std::thread;

use tokio::runtime::Builder;
#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

use sobench_core::error::{Error, Result};

/// Listens for shutdown signals: SIGINT (Ctrl-C), SIGTERM (`kill`, service managers, `docker stop`)
/// and, unless it is ignored, SIGHUP (the terminal goes away).
#[cfg(unix)]
type Signals = [Option<Signal>; 3];
#[cfg(not(unix))]
type Signals = ();

/// Listens from now on, on the current runtime. From then on none of the signals ends the program.
#[cfg(unix)]
fn listen() -> Signals {
    // Programs that run under `nohup` outlive their terminal.
    let hang_up = if is_hang_up_ignored() {
        None
    } else {
        signal(SignalKind::hangup()).ok()
    };
    [
        signal(SignalKind::interrupt()).ok(),
        signal(SignalKind::terminate()).ok(),
        hang_up,
    ]
}

#[cfg(not(unix))]
fn listen() -> Signals {}

/// Waits for the next one; for ever if none can be received.
#[cfg(unix)]
async fn next([interrupt, terminate, hang_up]: &mut Signals) {
    tokio::select! {
        () = received(interrupt) => {}
        () = received(terminate) => {}
        () = received(hang_up) => {}
    }
}

#[cfg(not(unix))]
async fn next(_signals: &mut Signals) {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Calls `received` at each shutdown signal from now on, on a thread of its own, as long as the
/// program runs.
///
/// # Errors
/// No thread can be started.
pub(super) fn on_each(received: impl Fn() + Send + 'static) -> Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| no_thread(&error))?;
    let mut signals = {
        let _guard = runtime.enter();
        listen()
    };
    let watch = move || {
        runtime.block_on(async {
            loop {
                next(&mut signals).await;
                received();
            }
        });
    };
    thread::Builder::new()
        .name("signals".into())
        .spawn(watch)
        .map_err(|error| no_thread(&error))?;
    Ok(())
}

pub(super) fn no_thread(error: &std::io::Error) -> Error {
    Error::environment(format!("no thread beside which signals are heard: {error}"))
        .hint("raise the limit of processes (ulimit -u)")
}

#[cfg(unix)]
async fn received(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Whether the program was started with SIGHUP ignored, as far as the system says (Linux).
#[cfg(unix)]
pub fn is_hang_up_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| ignores(&status, SignalKind::hangup().as_raw_value()))
}

/// Reads `SigIgn` (proc(5)): a mask in hexadecimal, of which bit `n - 1` is signal `n`.
#[cfg(unix)]
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .map(str::trim);
    let mask = mask
        .and_then(|mask| u64::from_str_radix(mask, 16).ok())
        .unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

/// Makes a file that may not grow any more (`ulimit -f`) an error of the write, as a full disk is.
/// Without a handler, SIGXFSZ ends the program.
#[cfg(unix)]
pub fn outlive_file_limits() {
    let runtime = Builder::new_current_thread().enable_io().build();
    if let Ok(runtime) = runtime {
        let _guard = runtime.enter();
        // The handler stays when the receiver is dropped. Where it cannot be installed, the
        // system's default stays.
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
