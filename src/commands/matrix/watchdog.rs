//! Ends a server that was started when this program is no longer there to do so, because it was
//! killed. Knows no run.
//!
//! Nothing can be done in a program that is killed, so another process waits: a shell that reads
//! from a pipe which only this program holds open. A line on it means that all is well. Its end
//! without one means that this program has gone, and the shell ends the server's group, first by
//! asking.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};

use super::launch::Group;

/// What the shell does; its first argument is the group. It asks, looks once a second whether
/// anybody is left, a few times, and ends those.
const SCRIPT: &str = "\
read -r word && exit 0
kill -s TERM -- \"-$1\" 2>/dev/null
for look in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
    kill -s 0 -- \"-$1\" 2>/dev/null || exit 0
    sleep 1
done
kill -s KILL -- \"-$1\" 2>/dev/null
";

/// The shell that waits.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Watches over a process group from now on.
    ///
    /// # Errors
    /// There is no shell.
    pub(super) fn over(group: Group) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", SCRIPT, "sobench-watchdog"])
            .arg(group.to_string());
        shell
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // Out of reach of the terminal's Ctrl-C, as the server is.
        std::os::unix::process::CommandExt::process_group(&mut shell, 0);
        shell.spawn().map(Self)
    }

    /// The group has ended: nobody is to be ended any more.
    pub(super) fn dismiss(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // A shell that has gone does nothing either.
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
    fn whoever_lets_go_of_the_pipe_leaves_nobody_behind() {
        let mut server = group();
        let mut watchdog = Watchdog::over(server.id()).unwrap();
        // What the system does with the pipes of a program that is killed.
        drop(watchdog.0.stdin.take());
        assert!(!server.wait().unwrap().success());
        assert!(watchdog.0.wait().unwrap().success());
    }

    #[test]
    fn who_is_dismissed_ends_nobody() {
        let mut server = group();
        Watchdog::over(server.id()).unwrap().dismiss();
        assert_eq!(server.try_wait().unwrap(), None);
        let Watchdog(mut shell) = Watchdog::over(server.id()).unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
        server.wait().unwrap();
    }
}
