//! Faults around runs side by side: what keeps one of them from beginning, and what one of them
//! could not write.

use std::io::Read;
use std::process::Stdio;

use sobench_testkit::scripted::{Scripted, Then, whole};

use super::machine::{ran, through_shell};
use super::run::failing_after;
use crate::support::wait_until;

#[cfg(unix)]
#[test]
fn a_wish_to_end_is_heard_while_a_server_is_waited_for() {
    let loading = ["one", "other"].map(|_| {
        Scripted::answering(|_| whole("503 Service Unavailable", "text/plain", "loading"))
    });
    let asked = || {
        loading
            .iter()
            .map(|server| server.requests().len())
            .sum::<usize>()
    };
    for order in ["interleaved", "blocks"] {
        let before = asked();
        let targets = [("one", &loading[0]), ("other", &loading[1])]
            .map(|(name, it)| format!("{name}={}", it.base_url));
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
        wait_until("the server is asked whether it is ready", || {
            asked() > before
        });
        rustix::process::kill_process(
            rustix::process::Pid::from_child(&child),
            rustix::process::Signal::TERM,
        )
        .unwrap();
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{order}: {stderr}");
        assert!(
            stderr.contains("stopped while a server was waited for") && output.stdout.is_empty(),
            "{order}: {stderr}"
        );
    }
}

#[cfg(unix)]
#[test]
fn a_command_without_a_report_yet_ends_with_the_code_of_an_interruption() {
    let silent = failing_after(0, |stream| {
        // Until the program is gone.
        let _ = stream.read(&mut [0]);
        Then::Close
    });
    let flags = ["preflight", "--base-url", &silent.base_url, "--model", "m"];
    let child = through_shell("exec \"$@\"", &flags)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("a request comes", || !silent.requests().is_empty());
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
        stderr.contains("interrupted before there was anything to report"),
        "{stderr}"
    );
}

/// The system would end the program with SIGXFSZ.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_a_run_could_not_write_costs_the_comparison_its_exit_code() {
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
            "--no-control-arm",
        ],
    ]
    .concat();
    for flags in [one, two] {
        // Two blocks of 512 bytes.
        let ran = ran(&mut through_shell("ulimit -f 2 && exec \"$@\"", &flags));
        assert_eq!(ran.code, 3, "{flags:?}: {}", ran.stderr);
        assert!(
            ran.stderr.contains("the report cannot be written")
                && ran.stderr.contains("File too large"),
            "{}",
            ran.stderr
        );
        assert!(
            ran.stdout.contains("correct") && ran.stdout.contains("100.00"),
            "{}",
            ran.stdout
        );
    }
}
