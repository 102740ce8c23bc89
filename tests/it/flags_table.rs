//! Checks `fixtures/flags.csv`, a frozen table of every flag of six benchmarks, against the parser
//! and the plan: implemented flags change the plan, ignored flags give a notice, and refused flags
//! give the stated reason.

use std::ffi::OsString;

use serde::Deserialize;
use sobench::cli::{Cli, Command};
use sobench::commands::bench::options::RunPlan;
use sobench::commands::bench::options::compat_flags::{Handling, compat_flags};
use sobench_core::error::Error;
use sobench_testkit::repository_path;

/// Benchmarks whose flags are in the table.
const TOOLS: [&str; 6] = [
    "benchmark_serving_guided.py",
    "benchmark_serving_structured_output.py",
    "benchmark_serving.py",
    "vllm bench serve",
    "aphrodite serving.py",
    "sglang bench_serving",
];

/// A row of the table.
#[derive(Deserialize)]
struct Row {
    tool: String,
    flag: String,
    status: String,
    /// Arguments that the flag needs.
    with: String,
    /// An example value; ` / ` separates two values of a flag that other flags require.
    value: String,
    meaning: String,
}

fn split_arguments(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn table() -> Vec<Row> {
    let mut table = csv::Reader::from_path(repository_path("fixtures/flags.csv")).unwrap();
    table.deserialize().map(Result::unwrap).collect()
}

/// The plan of these arguments, or the error of the parser (`Err`) or of the plan (`Ok`).
fn plan(arguments: &[String]) -> Result<RunPlan, Result<Error, String>> {
    let all = std::iter::once("sobench")
        .chain(arguments.iter().map(String::as_str))
        .map(OsString::from);
    let cli = Cli::parse_arguments(all).map_err(|error| Err(error.to_string()))?;
    let Command::Bench(arguments) = cli.into_command() else {
        panic!("{arguments:?}")
    };
    RunPlan::new(&arguments, |_| None).map_err(Ok)
}

fn planned(arguments: &[String]) -> String {
    format!(
        "{:?}",
        plan(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error:?}"))
    )
}

fn with_flag(row: &Row, flag: &str, value: &str) -> Vec<String> {
    [
        split_arguments(&row.with),
        vec![flag.to_owned()],
        split_arguments(value),
    ]
    .concat()
}

/// Replaces hyphens: `--num_prompts` for `--num-prompts`.
fn with_underscores(flag: &str) -> String {
    format!("--{}", flag.trim_start_matches("--").replace('-', "_"))
}

#[test]
fn flags_have_the_effect_stated_in_the_table() {
    for row in table() {
        let flag_name = format!("{} {}", row.tool, row.flag);
        assert!(!row.meaning.is_empty(), "{flag_name}");
        let values: Vec<&str> = row.value.split(" / ").collect();
        let spellings = [row.flag.clone(), with_underscores(&row.flag)];
        match row.status.as_str() {
            "implemented" => {
                let plans = spellings.map(|flag| planned(&with_flag(&row, &flag, values[0])));
                assert_eq!(plans[0], plans[1], "{flag_name}");
                let other = match values[..] {
                    [_] => planned(&split_arguments(&row.with)),
                    [_, second] => planned(&with_flag(&row, &row.flag, second)),
                    _ => panic!("{flag_name}: expected one or two values"),
                };
                assert_ne!(
                    plans[0], other,
                    "{flag_name} is accepted and changes nothing"
                );
            }
            "notice" => {
                let expected = format!("{} has no effect: {}", row.flag, row.meaning);
                for flag in spellings {
                    let warnings = plan(&with_flag(&row, &flag, values[0])).unwrap().warnings();
                    assert!(
                        warnings.len() == 1 && warnings[0].to_string() == expected,
                        "{flag_name}: {warnings:?}"
                    );
                }
            }
            "refused" => {
                for flag in spellings {
                    let error = plan(&with_flag(&row, &flag, values[0]))
                        .expect_err(&flag_name)
                        .expect("the parser accepts the flag");
                    let whole = format!("{}: {}", row.meaning, row.flag);
                    assert!(
                        [&whole, &row.meaning].contains(&&error.what) && error.exit_code() == 2,
                        "{flag_name}: {}",
                        error.what
                    );
                    assert!(error.hint.is_some(), "{flag_name}");
                }
            }
            other => panic!("{flag_name} is {other}"),
        }
    }
}

#[test]
fn table_has_each_flag_once_and_every_unsupported_flag() {
    let rows = table();
    for (index, row) in rows.iter().enumerate() {
        assert!(TOOLS.contains(&row.tool.as_str()), "{}", row.tool);
        let again = rows[..index]
            .iter()
            .any(|other| (&other.tool, &other.flag) == (&row.tool, &row.flag));
        assert!(!again, "{} {} is there twice", row.tool, row.flag);
    }
    for tool in TOOLS {
        assert!(
            rows.iter().filter(|row| row.tool == tool).count() > 20,
            "{tool}"
        );
    }
    for compat in compat_flags() {
        let (status, meaning) = match compat.handling {
            Handling::Notice(notice) => ("notice", notice),
            Handling::Refused { reason, .. } => ("refused", reason),
        };
        let flag = format!("--{}", compat.name);
        let of_flag: Vec<&Row> = rows.iter().filter(|row| row.flag == flag).collect();
        assert!(!of_flag.is_empty(), "{flag} is no flag of any tool");
        assert!(
            of_flag
                .iter()
                .all(|row| (row.status.as_str(), row.meaning.as_str()) == (status, meaning)),
            "{flag}"
        );
    }
}

#[test]
fn abbreviated_flags_are_rejected() {
    let error = plan(&split_arguments("--num-prom 3"))
        .unwrap_err()
        .unwrap_err();
    assert!(
        error.contains("--num-prompts"),
        "the full name is suggested: {error}"
    );
}

#[test]
fn invalid_combinations_are_rejected_with_the_reason() {
    let server = "--base-url http://127.0.0.1:1";
    for (arguments, what) in [
        ("--best-of 2", "--best-of above 1 is not supported: 2"),
        (
            "--lora-modules a",
            "the embedded server does not support --lora-modules, and no other server is named",
        ),
        (
            "--profile",
            "the embedded server does not support --profile, and no other server is named",
        ),
        (
            "--backend tgi --base-url http://127.0.0.1:1 --lora-modules a",
            "--backend tgi has no field for --lora-modules",
        ),
        (
            "--backend ollama --base-url http://127.0.0.1:1 --logprobs 1",
            "--backend ollama has no field for --logprobs",
        ),
        (
            "--logprobs 1 --extra-body {\"logprobs\":2}",
            "--logprobs and --extra-body both set logprobs",
        ),
        (
            "--probe-request-rate -1",
            "--probe-request-rate is not a rate: -1",
        ),
        (
            "--backend openai-audio --base-url http://127.0.0.1:1 --probe-request-rate 1",
            "--backend openai-audio has no field for --probe-request-rate",
        ),
        (
            "--plot-timeline --timeline-itl-thresholds 50,25",
            "--timeline-itl-thresholds is not two ascending times: [50.0, 25.0]",
        ),
        ("--goodput valid valid", "--goodput has valid twice"),
    ] {
        let error = plan(&split_arguments(arguments))
            .expect_err(arguments)
            .unwrap();
        assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        assert!(error.hint.is_some(), "{arguments}");
    }
    for alone in [
        "--lora-assignment round-robin",
        "--timeline-itl-thresholds 1,2",
    ] {
        let error = plan(&split_arguments(&format!("{server} {alone}")))
            .unwrap_err()
            .unwrap_err();
        assert!(error.contains("required"), "{error}");
    }
}

#[test]
fn template_variables_without_a_template_give_a_warning() {
    let warnings = plan(&split_arguments("--chat-template-kwargs {\"a\":1}"))
        .unwrap()
        .warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}
