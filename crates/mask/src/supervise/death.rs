//! What a child process died of, told from its status and its last words. Knows no process.

use std::process::ExitStatus;

use super::child::Remains;
use crate::row::StopCause;

/// What allocators say when there is no more: Rust's, C++'s, and the system's where a mapping or a
/// thread fails.
const OUT_OF_MEMORY: [&str; 5] = [
    "memory allocation of ",
    "bad_alloc",
    "Cannot allocate memory",
    "out of memory",
    "Resource temporarily unavailable",
];

/// Lines of stderr that are quoted, the last ones.
const LINES: usize = 6;

/// How Rust's own advice to whoever debugs a program begins.
const ADVICE: &str = "note: run with `RUST_BACKTRACE";

/// The cause, and the words for it.
pub(super) fn cause(remains: &Remains) -> (StopCause, String) {
    let ended = remains.status.map_or_else(
        || "it closed its output or broke the protocol".to_owned(),
        ended,
    );
    let is_said = |line: &&str| !line.is_empty() && !line.starts_with(ADVICE);
    let lines: Vec<&str> = remains
        .stderr
        .lines()
        .map(str::trim)
        .filter(is_said)
        .collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("; ");
    let words = if last.is_empty() {
        ended
    } else {
        format!("{last} ({ended})")
    };
    let is_memory =
        OUT_OF_MEMORY.iter().any(|words| last.contains(words)) || is_killed(remains.status);
    (
        if is_memory {
            StopCause::OutOfMemory
        } else {
            StopCause::Crash
        },
        words,
    )
}

/// Killed by a hand that was not ours, which is the system's when memory is short.
fn is_killed(status: Option<ExitStatus>) -> bool {
    signal(status) == Some(9)
}

fn ended(status: ExitStatus) -> String {
    match (signal(Some(status)), status.code()) {
        (Some(number), _) => {
            let name = match number {
                4 => " SIGILL",
                6 => " SIGABRT",
                7 => " SIGBUS",
                8 => " SIGFPE",
                9 => " SIGKILL",
                11 => " SIGSEGV",
                _ => "",
            };
            format!("signal {number}{name}")
        }
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "ended unseen".to_owned(),
    }
}

#[cfg(unix)]
fn signal(status: Option<ExitStatus>) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status?)
}

#[cfg(not(unix))]
fn signal(_: Option<ExitStatus>) -> Option<i32> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn deaths_are_told_apart() {
        // The low byte of a wait status is the signal, the next one the exit code.
        for (raw, stderr, expected, words) in [
            (
                6,
                "memory allocation of 42 bytes failed\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
                StopCause::OutOfMemory,
                "memory allocation of 42 bytes failed (signal 6 SIGABRT)",
            ),
            (
                6,
                "terminate called\n  what():  std::bad_alloc\n",
                StopCause::OutOfMemory,
                "terminate called; what():  std::bad_alloc",
            ),
            (9, "", StopCause::OutOfMemory, "signal 9 SIGKILL"),
            (
                6,
                "thread 'worker' has overflowed its stack\n",
                StopCause::Crash,
                "overflowed its stack (signal 6 SIGABRT)",
            ),
            (11, "", StopCause::Crash, "signal 11 SIGSEGV"),
            (3 << 8, "bye", StopCause::Crash, "bye (exit code 3)"),
            (0, "", StopCause::Crash, "exit code 0"),
        ] {
            let remains = Remains {
                status: Some(ExitStatus::from_raw(raw)),
                stderr: stderr.to_owned(),
            };
            let (cause, said) = cause(&remains);
            assert_eq!(cause, expected, "{said}");
            assert!(said.contains(words), "{said}");
        }
        let ended_by_us = Remains {
            status: None,
            stderr: String::new(),
        };
        assert_eq!(cause(&ended_by_us).0, StopCause::Crash);
    }
}
