//! Faults in comparisons of several runs: interrupted waiting, and files that cannot be written.

use std::io::Read;
use std::process::Stdio;

use sobench_testkit::scripted::{ScriptedServer, Then, whole};

use super::run::failing_after;
use crate::support::{ran, through_shell, wait_until};

#[cfg(unix)]
#[test]
fn signal_ends_waiting_for_a_server() {
    let loading = ["one", "other"].map(|_| {
        ScriptedServer::answering(|_| whole("503 Service Unavailable", "text/plain", "loading"))
    });
    let request_count = || {
        loading
            .iter()
            .map(|server| server.requests().len())
            .sum::<usize>()
    };
    for order in ["interleaved", "blocks"] {
        let before = request_count();
        let targets = [("one", &loading[0]), ("other", &loading[1])]
            .map(|(name, server)| format!("{name}={}", server.base_url));
        let flags = [
            "--target",
            &targets[0],
            "--target",
            &targets[1],
            "--ready-check-timeout-sec",
            "86400",
            "--dataset",
            "choice",
        ];
        let flags = [
            &flags[..],
            &[
                "--num-prompts",
                "4",
                "--no-run-log",
                "--disable-tqdm",
                "--matrix-order",
                order,
            ],
        ]
        .concat();
        let mut command = through_shell("exec \"$@\"", &flags);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("a readiness request arrives", || request_count() > before);
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{order}: {stderr}");
        assert!(
            stderr.contains("stopped while waiting for the server") && output.stdout.is_empty(),
            "{order}: {stderr}"
        );
    }
}

#[cfg(unix)]
#[test]
fn interrupted_command_without_results_exits_with_130() {
    let silent = failing_after(0, |stream| {
        // Until the program closes the connection.
        let _ = stream.read(&mut [0]);
        Then::Close
    });
    let flags = ["preflight", "--base-url", &silent.base_url, "--model", "m"];
    let child = through_shell("exec \"$@\"", &flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("a request arrives", || !silent.requests().is_empty());
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.len()),
        (Some(130), 0),
        "{stderr}"
    );
    assert!(
        stderr.contains("interrupted before there were results"),
        "{stderr}"
    );
}

/// Without handling, SIGXFSZ would end the program.
#[cfg(target_os = "linux")]
#[test]
fn unwritable_file_of_a_run_fails_the_comparison() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let load = [
        "--dataset",
        "choice",
        "--output-len",
        "4",
        "--num-prompts",
        "60",
        "--disable-tqdm",
        "--no-run-log",
    ];
    let page = ["--plot-timeline", "--result-dir", path];
    let one = [&load[..], &page].concat();
    let two = [
        &one[..],
        &[
            "--guided-decoding-backend",
            "guidance,xgrammar",
            "--embedded-speed",
            "instant",
            "--no-control-arm",
        ],
    ]
    .concat();
    for flags in [one, two] {
        // Two blocks of 512 bytes.
        let ran = ran(&mut through_shell("ulimit -f 2 && exec \"$@\"", &flags));
        assert_eq!(ran.code, 3, "{flags:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("cannot write the report") && ran.stderr.contains("File too large"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stdout.contains("correct") && ran.stdout.contains("100"),
            "{}",
            ran.stdout
        );
    }
}
