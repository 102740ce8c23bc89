//! `fixtures/flags.csv`, the frozen table of every flag of five benchmarks, checked against the
//! parser and the plan: a flag that is implemented changes the plan, a flag that changes nothing
//! gives a notice, a flag that is refused is refused for the stated reason.

use std::ffi::OsString;

use serde::Deserialize;
use sobench::cli::{Cli, Command};
use sobench::commands::bench::options::RunPlan;
use sobench::commands::bench::options::compat_flags::{FOREIGN, Fate};
use sobench_core::error::Error;
use sobench_testkit::in_package;

/// The benchmarks whose flags are in the table.
const TOOLS: [&str; 5] = [
    "benchmark_serving_guided.py",
    "benchmark_serving_structured_output.py",
    "benchmark_serving.py",
    "vllm bench serve",
    "aphrodite serving.py",
];

/// A line of the table.
#[derive(Deserialize)]
struct Row {
    tool: String,
    flag: String,
    status: String,
    /// Arguments that the flag goes with.
    with: String,
    /// An example; ` / ` stands between two, of a flag that the others cannot do without.
    value: String,
    meaning: String,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn table() -> Vec<Row> {
    let mut table = csv::Reader::from_path(in_package("fixtures/flags.csv")).unwrap();
    table.deserialize().map(Result::unwrap).collect()
}

/// The plan of these arguments, or why there is none: the parser's words, or the plan's.
fn plan(arguments: &[String]) -> Result<RunPlan, Result<Error, String>> {
    let all = std::iter::once("sobench")
        .chain(arguments.iter().map(String::as_str))
        .map(OsString::from);
    let cli = Cli::parse_arguments(all).map_err(|error| Err(error.to_string()))?;
    let Command::Bench(arguments) = cli.into_command() else {
        panic!("{arguments:?}")
    };
    RunPlan::new(&arguments, None).map_err(Ok)
}

fn planned(arguments: &[String]) -> String {
    format!(
        "{:?}",
        plan(arguments).unwrap_or_else(|error| panic!("{arguments:?}: {error:?}"))
    )
}

fn with_flag(row: &Row, flag: &str, value: &str) -> Vec<String> {
    [words(&row.with), vec![flag.to_owned()], words(value)].concat()
}

/// `--num_prompts` for `--num-prompts`.
fn with_underscores(flag: &str) -> String {
    format!("--{}", flag.trim_start_matches("--").replace('-', "_"))
}

#[test]
fn every_flag_of_the_table_is_what_the_table_says() {
    for row in table() {
        let place = format!("{} {}", row.tool, row.flag);
        assert!(!row.meaning.is_empty(), "{place}");
        let values: Vec<&str> = row.value.split(" / ").collect();
        let spellings = [row.flag.clone(), with_underscores(&row.flag)];
        match row.status.as_str() {
            "implemented" => {
                let plans = spellings.map(|flag| planned(&with_flag(&row, &flag, values[0])));
                assert_eq!(plans[0], plans[1], "{place}");
                let other = match values[..] {
                    [_] => planned(&words(&row.with)),
                    [_, second] => planned(&with_flag(&row, &row.flag, second)),
                    _ => panic!("{place}: one value, or two"),
                };
                assert_ne!(plans[0], other, "{place} is taken, and changes nothing");
            }
            "notice" => {
                let expected = format!("{} changes nothing here: {}", row.flag, row.meaning);
                for flag in spellings {
                    let warnings = plan(&with_flag(&row, &flag, values[0])).unwrap().warnings();
                    assert!(
                        warnings.len() == 1 && warnings[0].to_string() == expected,
                        "{place}: {warnings:?}"
                    );
                }
            }
            "refused" => {
                for flag in spellings {
                    let error = plan(&with_flag(&row, &flag, values[0]))
                        .expect_err(&place)
                        .expect("the parser knows the flag");
                    let whole = format!("{}: {}", row.meaning, row.flag);
                    assert!(
                        [&whole, &row.meaning].contains(&&error.what) && error.exit_code() == 2,
                        "{place}: {}",
                        error.what
                    );
                    assert!(error.hint.is_some(), "{place}");
                }
            }
            other => panic!("{place} is {other}"),
        }
    }
}

#[test]
fn the_table_has_each_flag_once_and_leaves_out_none_that_is_turned_down() {
    let rows = table();
    for (place, row) in rows.iter().enumerate() {
        assert!(TOOLS.contains(&row.tool.as_str()), "{}", row.tool);
        let again = rows[..place]
            .iter()
            .any(|it| (&it.tool, &it.flag) == (&row.tool, &row.flag));
        assert!(!again, "{} {} is there twice", row.tool, row.flag);
    }
    for tool in TOOLS {
        assert!(
            rows.iter().filter(|row| row.tool == tool).count() > 20,
            "{tool}"
        );
    }
    for foreign in FOREIGN {
        let (status, meaning) = match foreign.fate {
            Fate::Notice(words) => ("notice", words),
            Fate::Refused { reason, .. } => ("refused", reason),
        };
        let flag = format!("--{}", foreign.name);
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
fn a_beginning_of_a_name_is_no_flag() {
    let error = plan(&words("--num-prom 3")).unwrap_err().unwrap_err();
    assert!(
        error.contains("--num-prompts"),
        "the whole name is suggested: {error}"
    );
}

#[test]
fn what_cannot_be_is_refused_with_its_reason() {
    let server = "--base-url http://127.0.0.1:1";
    for (arguments, what) in [
        (
            "--best-of 2",
            "an answer that is chosen from several has no latency of its own: --best-of 2",
        ),
        (
            "--lora-modules a",
            "no server is named, and the embedded engine takes no --lora-modules",
        ),
        (
            "--profile",
            "no server is named, and the embedded engine takes no --profile",
        ),
        (
            "--backend tgi --base-url http://127.0.0.1:1 --lora-modules a",
            "--lora-modules has no field on --backend tgi",
        ),
        (
            "--backend ollama --base-url http://127.0.0.1:1 --logprobs 1",
            "--logprobs has no field on --backend ollama",
        ),
        (
            "--logprobs 1 --extra-body {\"logprobs\":2}",
            "--logprobs sets logprobs, which --extra-body sets as well",
        ),
        (
            "--probe-request-rate -1",
            "--probe-request-rate is no rate: -1",
        ),
        (
            "--backend openai-audio --base-url http://127.0.0.1:1 --probe-request-rate 1",
            "--probe-request-rate has no field on --backend openai-audio",
        ),
        (
            "--plot-timeline --timeline-itl-thresholds 50,25",
            "--timeline-itl-thresholds is not two times, the shorter first: [50.0, 25.0]",
        ),
        ("--goodput valid valid", "--goodput names valid twice"),
    ] {
        let error = plan(&words(arguments)).expect_err(arguments).unwrap();
        assert_eq!((error.what.as_str(), error.exit_code()), (what, 2));
        assert!(error.hint.is_some(), "{arguments}");
    }
    for alone in [
        "--lora-assignment round-robin",
        "--timeline-itl-thresholds 1,2",
    ] {
        let error = plan(&words(&format!("{server} {alone}")))
            .unwrap_err()
            .unwrap_err();
        assert!(error.contains("required"), "{error}");
    }
}

#[test]
fn template_variables_without_a_template_are_a_warning() {
    let warnings = plan(&words("--chat-template-kwargs {\"a\":1}"))
        .unwrap()
        .warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}
