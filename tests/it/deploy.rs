//! Runs the scripts of `deploy/` as they are used in a pipeline or on a cluster.

use std::path::Path;
use std::process::Command;

use sobench_testkit::repository_path;

use crate::support::{Ran, ran};

mod github;
mod slurm;

/// Runs a script of `deploy/` in a folder, with the tested program and without proxy or key.
fn script(path: &str, folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new("bash");
    command
        .arg(repository_path("deploy").join(path))
        .args(arguments)
        .current_dir(folder)
        .env_remove("OPENAI_API_KEY")
        .env("SOBENCH", env!("CARGO_BIN_EXE_sobench"))
        .envs(variables.iter().copied());
    ran(&mut command)
}

/// Writes an executable script, for example to stub a command on the PATH.
fn executable(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The PATH with the folder `stubs` in front.
fn path_with(stubs: &Path) -> String {
    format!("{}:{}", stubs.display(), std::env::var("PATH").unwrap())
}
