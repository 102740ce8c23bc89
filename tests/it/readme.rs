//! Runs the README's commands: what a newcomer types has to work as written.

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
                "results" => results.path().to_str().unwrap().to_owned(),
                "fixtures/datasets/custom.jsonl" => in_package(&word).to_str().unwrap().to_owned(),
                _ => word.replace(YOUR_SERVER, server.base_url()),
            })
            .collect();
        let ran = sobench(&arguments);
        assert_eq!(ran.code, 0, "{command}\n{}", ran.stderr);
        assert!(ran.stdout.contains("Serving Benchmark Result"), "{command}\n{}", ran.stdout);
    }
    assert_eq!(std::fs::read_dir(results.path()).unwrap().count(), 1, "the command that saves its result did");
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
