//! Shutdown signals, and SIGXFSZ for files that exceed the size limit.

use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use sobench_core::error::{Error, Result};

/// Listens for shutdown signals: SIGINT (Ctrl-C), SIGTERM (`kill`, service managers, `docker stop`)
/// and, unless it is ignored, SIGHUP (the terminal goes away).
type Signals = [Option<Signal>; 3];

/// Registers the signal handlers on the current runtime. From then on, none of the signals ends the
/// program.
fn listen() -> Signals {
    // Programs under `nohup` must survive their terminal.
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

/// Waits for the next signal; forever if none can be received.
async fn next([interrupt, terminate, hang_up]: &mut Signals) {
    tokio::select! {
        () = received(interrupt) => {}
        () = received(terminate) => {}
        () = received(hang_up) => {}
    }
}

/// Calls `received` for each shutdown signal, on a separate thread, until the program ends.
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
    Error::environment(format!("cannot start a thread for signals: {error}"))
        .hint("raise the process limit (ulimit -u)")
}

async fn received(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Whether the program was started with SIGHUP ignored (Linux only).
pub fn is_hang_up_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status")
        .is_ok_and(|status| ignores(&status, SignalKind::hangup().as_raw_value()))
}

/// Parses `SigIgn` (proc(5)): a hexadecimal mask in which bit `n - 1` is signal `n`.
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

/// Makes a write beyond the file size limit (`ulimit -f`) return an error, like a full disk.
/// Without a handler, SIGXFSZ ends the program.
pub fn handle_file_size_signal() {
    let runtime = Builder::new_current_thread().enable_io().build();
    if let Ok(runtime) = runtime {
        let _guard = runtime.enter();
        // The handler stays when the receiver is dropped. If it cannot be installed, the default
        // remains.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

#[cfg(test)]
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
