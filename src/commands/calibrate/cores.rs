//! Starts processes on chosen cores (Linux).

use std::io;
use std::process::{Child, Command};

use sobench_core::error::{Error, Result};

/// Starts the command on these cores; without any, on all cores of this process.
///
/// # Errors
/// Those of [`Command::spawn`]; the system refuses the cores.
#[cfg(target_os = "linux")]
pub(super) fn spawn(command: &mut Command, cores: &[usize]) -> io::Result<Child> {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;
    if cores.is_empty() {
        return command.spawn();
    }
    let mut wanted = CpuSet::new();
    for core in cores {
        wanted.set(*core)?;
    }
    // A new process inherits the cores of the thread that starts it.
    let this_thread = Pid::from_raw(0);
    let own = sched_getaffinity(this_thread)?;
    sched_setaffinity(this_thread, &wanted)?;
    let child = command.spawn();
    sched_setaffinity(this_thread, &own)?;
    child
}

#[cfg(not(target_os = "linux"))]
pub(super) fn spawn(command: &mut Command, _cores: &[usize]) -> io::Result<Child> {
    command.spawn()
}

/// Checks that this process may use the cores given by a flag.
///
/// # Errors
/// Usage errors: another system than Linux, or a core that is not available.
pub(super) fn check(flag: &str, cores: &[usize]) -> Result<()> {
    let Some(available) = available() else {
        return if cores.is_empty() {
            Ok(())
        } else {
            Err(Error::usage(format!("{flag} is supported on Linux only"))
                .hint(format!("remove {flag}")))
        };
    };
    match cores.iter().find(|core| !available.contains(core)) {
        None => Ok(()),
        Some(core) => {
            let available: Vec<String> = available.iter().map(ToString::to_string).collect();
            Err(
                Error::usage(format!("{flag}: core {core} is not available"))
                    .hint(format!("give some of {}", available.join(","))),
            )
        }
    }
}

/// The cores that this process may use; `None` if the system does not report them.
#[cfg(target_os = "linux")]
fn available() -> Option<Vec<usize>> {
    use nix::sched::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(nix::unistd::Pid::from_raw(0)).ok()?;
    let cores = (0..CpuSet::count()).filter(|core| set.is_set(*core) == Ok(true));
    Some(cores.collect())
}

#[cfg(not(target_os = "linux"))]
fn available() -> Option<Vec<usize>> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_on_the_given_cores_only() {
        let before = available().unwrap();
        let last = before[before.len() - 1];
        let mut command = Command::new("sh");
        command.args(["-c", "grep Cpus_allowed_list /proc/self/status"]);
        command.stdout(std::process::Stdio::piped());
        let output = spawn(&mut command, &[last]).unwrap().wait_with_output();
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(text.trim(), format!("Cpus_allowed_list:\t{last}"));
        assert_eq!(available().unwrap(), before, "this thread keeps its cores");
    }

    #[test]
    fn cores_that_are_not_available_are_rejected() {
        check("--client-cores", &available().unwrap()).unwrap();
        let error = check("--client-cores", &[0, 1 << 20]).unwrap_err();
        assert_eq!(
            (error.what.as_str(), error.exit_code()),
            ("--client-cores: core 1048576 is not available", 2)
        );
    }
}
