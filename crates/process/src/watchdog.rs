//! Stops a launched server if this program is killed.
//!
//! A killed program cannot clean up, so a shell waits in another process. It reads from a pipe that
//! only this program holds open. A line on the pipe means a regular end. End of file without a line
//! means that this program was killed: the shell then stops the process group of the server, first
//! with SIGTERM.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

/// The script of the shell; its argument is the process group. It sends SIGTERM, checks once a
/// second whether processes are left, and finally sends SIGKILL.
const SCRIPT: &str = "\
read -r line && exit 0
kill -s TERM -- \"-$1\" 2>/dev/null
for check in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    kill -s 0 -- \"-$1\" 2>/dev/null || exit 0
    sleep 1
done
kill -s KILL -- \"-$1\" 2>/dev/null
";

/// The waiting shell.
#[derive(Debug)]
pub struct Watchdog(Child);

impl Watchdog {
    /// Starts to watch a process group, by its id.
    ///
    /// # Errors
    /// No shell can be started.
    pub fn new(group: u32) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SCRIPT, "sobench-watchdog"])
            .arg(group.to_string());
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // As for the server, the terminal's Ctrl-C must not reach it.
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        shell.spawn().map(Self)
    }

    /// Stops watching; the process group has ended.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // A shell that has already exited needs no line.
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

    use super::*;

    fn group() -> Child {
        Command::new("sh")
            .args(["-c", "sleep 3600 & wait"])
            .process_group(0)
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    }

    #[test]
    fn a_closed_pipe_stops_the_process_group() {
        let mut server = group();
        let mut watchdog = Watchdog::new(server.id()).unwrap();
        // The system closes the pipes of a killed program.
        drop(watchdog.0.stdin.take());
        assert!(!server.wait().unwrap().success());
        assert!(watchdog.0.wait().unwrap().success());
    }

    #[test]
    fn a_dismissed_watchdog_stops_nothing() {
        let mut server = group();
        Watchdog::new(server.id()).unwrap().dismiss();
        assert_eq!(server.try_wait().unwrap(), None);
        let Watchdog(mut shell) = Watchdog::new(server.id()).unwrap();
        drop(shell.stdin.take());
        // For the shell, a process without a wait is still running.
        server.wait().unwrap();
        shell.wait().unwrap();
    }
}
