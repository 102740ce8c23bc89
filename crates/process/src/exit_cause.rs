//! Classifies the exit of a child process by its status and stderr.

use std::process::ExitStatus;

use super::child::ChildExit;

/// Out-of-memory messages of Rust's and C++'s allocators, and of the system if a mapping or a
/// thread fails.
const OUT_OF_MEMORY: [&str; 5] = [
    "memory allocation of ",
    "bad_alloc",
    "Cannot allocate memory",
    "out of memory",
    "Resource temporarily unavailable",
];

/// Number of quoted lines from the end of stderr.
const LINES: usize = 6;

/// Start of Rust's advice to set `RUST_BACKTRACE`.
const ADVICE: &str = "note: run with `RUST_BACKTRACE";

/// Whether the child had too little memory, and a message.
pub fn classify(exit: &ChildExit) -> (bool, String) {
    let ended = exit.status.map_or_else(
        || "it closed its output or broke the protocol".to_owned(),
        ended,
    );
    let lines: Vec<&str> = exit
        .stderr
        .lines()
        .map(str::trim)
        .filter(|line: &&str| !line.is_empty() && !line.starts_with(ADVICE))
        .collect();
    let last = lines[lines.len().saturating_sub(LINES)..].join("; ");
    let message = if last.is_empty() {
        ended
    } else {
        format!("{last} ({ended})")
    };
    let is_memory =
        OUT_OF_MEMORY.iter().any(|message| last.contains(message)) || is_killed(exit.status);
    (is_memory, message)
}

/// SIGKILL that sobench did not send; usually from the kernel's out-of-memory killer.
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
        (None, None) => "unknown exit status".to_owned(),
    }
}

fn signal(status: Option<ExitStatus>) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn exit_causes_are_distinguished() {
        // The low byte of a wait status is the signal, the next one the exit code.
        for (raw, stderr, expected, message) in [
            (
                6,
                "memory allocation of 42 bytes failed\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
                true,
                "memory allocation of 42 bytes failed (signal 6 SIGABRT)",
            ),
            (
                6,
                "terminate called\n  what():  std::bad_alloc\n",
                true,
                "terminate called; what():  std::bad_alloc",
            ),
            (9, "", true, "signal 9 SIGKILL"),
            (
                6,
                "thread 'worker' has overflowed its stack\n",
                false,
                "overflowed its stack (signal 6 SIGABRT)",
            ),
            (11, "", false, "signal 11 SIGSEGV"),
            (3 << 8, "bye", false, "bye (exit code 3)"),
            (0, "", false, "exit code 0"),
        ] {
            let exit = ChildExit {
                status: Some(ExitStatus::from_raw(raw)),
                stderr: stderr.to_owned(),
            };
            let (cause, actual) = classify(&exit);
            assert_eq!(cause, expected, "{actual}");
            assert!(actual.contains(message), "{actual}");
        }
        let ended_by_us = ChildExit {
            status: None,
            stderr: String::new(),
        };
        assert!(!classify(&ended_by_us).0);
    }
}
