//! Runs the scripts of `deploy/` as their readers do: what is copied into a pipeline or submitted
//! to a cluster has to work as written.

use std::path::Path;
use std::process::Command;

use sobench_testkit::in_package;

use crate::support::{Ran, cache};

mod github;
mod slurm;

/// Runs a script of `deploy/` in a folder, with the program that was built, away from any proxy and
/// key.
fn script(path: &str, folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let output = Command::new("bash")
        .arg(in_package("deploy").join(path))
        .args(arguments)
        .current_dir(folder)
        .env_remove("OPENAI_API_KEY")
        .env("NO_PROXY", "127.0.0.1")
        .env("XDG_CACHE_HOME", cache())
        .env("SOBENCH", env!("CARGO_BIN_EXE_sobench"))
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    Ran {
        code: output.status.code().expect("the script ended by itself"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Writes an executable script, for a stand-in on the PATH.
fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The PATH with a folder of stand-ins before it.
fn path_with(stand_ins: &Path) -> String {
    format!("{}:{}", stand_ins.display(), std::env::var("PATH").unwrap())
}
