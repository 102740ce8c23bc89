//! Faults in comparisons of several runs, and in commands without results: interrupted waiting, and
//! files that cannot be written.

use std::io::Read;

use rustix::process::Signal;
use sobench_testkit::scripted::{ScriptedServer, Then, whole};

use super::run::failing_after;
use crate::support::{Folder, Running, choice_server, program, ran, through_shell};

#[test]
fn signal_ends_waiting_for_a_server() {
    let loading = [0, 1].map(|_| {
        ScriptedServer::answering(|_| whole("503 Service Unavailable", "text/plain", "loading"))
    });
    let request_count = || {
        loading
            .each_ref()
            .map(|server| server.requests().len())
            .iter()
            .sum::<usize>()
    };
    let [one, other] = loading.each_ref().map(|server| &server.base_url);
    let targets = format!("--target one={one} --target other={other}");
    for order in ["--matrix-order interleaved", "--matrix-order blocks"] {
        let before = request_count();
        let load = "--ready-check-timeout-sec 86400 --dataset choice --num-prompts 4 --no-run-log";
        let mut running = Running::start(&mut program(&[&targets, order, load]));
        running.wait_until("a readiness request arrives", || request_count() > before);
        running.signal(Signal::TERM);
        running
            .end()
            .assert_fails(130, &["stopped while waiting for the server"]);
    }
}

#[test]
fn interrupted_command_without_results_exits_with_130() {
    let silent = failing_after(0, |stream| {
        // Until the program closes the connection.
        let _ = stream.read(&mut [0]);
        Then::Close
    });
    let flags = ["preflight", "--model m --base-url", &silent.base_url];
    let mut running = Running::start(&mut program(&flags));
    running.wait_until("a request arrives", || !silent.requests().is_empty());
    running.signal(Signal::TERM);
    running
        .end()
        .assert_fails(130, &["interrupted before there were results"]);
}

/// Without handling, SIGXFSZ would end the program.
#[cfg(target_os = "linux")]
#[test]
fn unwritable_file_of_a_run_fails_the_comparison() {
    let folder = Folder::new();
    let server = choice_server();
    let single = format!("--skip-preflight --base-url {}", server.base_url);
    for more in [
        single.as_str(),
        "--guided-decoding-backend guidance,xgrammar --embedded-speed instant --no-control-arm",
    ] {
        let flags = [
            "--dataset choice --output-len 4 --num-prompts 60 --disable-tqdm --no-run-log",
            "--plot-timeline --result-dir",
            &folder.path(""),
            more,
        ];
        // Two blocks of 512 bytes.
        let ran = ran(&mut through_shell("ulimit -f 2 && exec \"$@\"", &flags));
        ran.assert_exits(3, &["cannot write the report", "File too large"]);
        assert!(!ran.stdout.is_empty(), "the report is printed");
    }
}
