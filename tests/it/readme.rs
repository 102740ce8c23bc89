//! Runs the README's commands: what a newcomer types has to work as written.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use sobench::server::{EmbeddedOptions, EmbeddedServer};

use crate::support::{in_package, sobench};

/// The address that the README uses for "your server"; here an embedded one stands in for it.
const YOUR_SERVER: &str = "http://127.0.0.1:8000";

/// The commands in the README's `console` blocks, without their prompt sign.
fn commands() -> Vec<String> {
    let text = std::fs::read_to_string(in_package("README.md")).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect()
}

/// Splits as a shell does, as far as the README needs it: blanks, and single quotes that keep them.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in command.chars() {
        match character {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(character),
        }
    }
    words
}

#[test]
fn every_sobench_command_of_the_readme_runs() {
    let server = EmbeddedServer::start(EmbeddedOptions { model: "stand-in".to_owned(), ..EmbeddedOptions::default() }).unwrap();
    let results = tempfile::tempdir().unwrap();
    let commands: Vec<String> = commands().into_iter().filter(|command| command.starts_with("sobench ")).collect();
    assert!(commands.len() >= 5, "the README shows commands: {commands:?}");
    for command in commands {
        let arguments: Vec<String> = words(&command)
            .into_iter()
            .skip(1)
            .map(|word| match word.as_str() {
                "results" | "report.html" | "report.csv" | "requests.csv" | "page.html" | "run.jsonl" | "comparison.md"
                | "comparison.html" | "witnesses.jsonl" => results.path().join(word).to_str().unwrap().to_owned(),
                "8000" => "0".to_owned(),
                _ => word.replace("fixtures/", in_package("fixtures/").to_str().unwrap()).replace(YOUR_SERVER, server.base_url()),
            })
            .collect();
        if arguments[0] == "serve" {
            serves(&arguments);
            continue;
        }
        let is_compared =
            ["--repeat", "--target", "--sweep-max-concurrency"].iter().any(|flag| arguments.iter().any(|it| it == flag));
        let ran = sobench(&arguments);
        assert_eq!(ran.code, 0, "{command}\n{}", ran.stderr);
        let title = match arguments[0].as_str() {
            "mask" if arguments.iter().any(|it| it == "--prove") => "Proven errors in masks",
            "mask" if arguments.iter().any(|it| it == "--replay") => "hold, 0 gone, 0 unknown",
            "mask" => "Outcomes of schemas",
            "preflight" => "enforced",
            "compare" => "B against A",
            "calibrate" => "TTFT error mean",
            "report" => "correct",
            "score" => "correct",
            _ if arguments.iter().any(|it| it == "--dry-run") => "POST http",
            _ if is_compared => "dataset | backend",
            _ => "Serving Benchmark Result",
        };
        let is_shown = ran.stdout.contains(title) || arguments.iter().any(|it| it == "--output");
        assert!(is_shown, "{command}\n{}", ran.stdout);
    }
    let written = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!(written(&results.path().join("results")), 2, "the command that saves its result did, and its log beside it");
    assert_eq!(written(results.path()), 9, "and so did those that write pages, tables and a log");
}

/// Starts a server, reads from stderr where it is, asks it for its models and stops it.
fn serves(arguments: &[String]) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_sobench")).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stderr.take().unwrap()).lines().map(Result::unwrap);
    let serving = lines.next().expect("it says that it serves");
    let address = serving.rsplit("http://").next().expect("and where");
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{serving}: {error}"));
    write!(stream, "GET /v1/models HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"object\":\"list\""), "{answer}");
}

#[test]
fn the_main_command_and_the_test_command_are_the_ones_that_ci_runs() {
    let readme = commands();
    assert!(readme.contains(&"cargo run --release -- --dataset json --guided-decoding-ratio 1.0".to_owned()), "{readme:?}");
    assert!(readme.contains(&"cargo test".to_owned()), "{readme:?}");
    let ci = std::fs::read_to_string(in_package(".ci/run")).unwrap();
    assert!(ci.contains("cargo run --release --locked -- --dataset json --guided-decoding-ratio"), "CI runs the main command");
    assert!(ci.contains("cargo test --locked"), "CI runs the test command");
}
