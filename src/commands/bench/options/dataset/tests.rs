//! What becomes of the flags of datasets, and which are refused.

use std::ffi::OsString;

use super::*;
use crate::cli::{Cli, Command};
use crate::commands::bench::options::RunPlan;

fn run(arguments: &[&str]) -> Result<RunPlan> {
    let arguments = std::iter::once("sobench").chain(arguments.iter().copied()).map(OsString::from);
    let command = Cli::parse_arguments(arguments).expect("clap takes these arguments").into_command();
    let Command::Bench(arguments) = command else { panic!("{command:?}") };
    RunPlan::new(&arguments, None)
}

#[test]
fn lengths_have_the_tools_defaults_and_flags() {
    let some = Lengths::default();
    for (arguments, lengths, output) in [
        (&["random"][..], some, (128, OutputLength::OfTheRow)),
        (&["random-prefix"], Lengths { prefix: 256, ..some }, (128, OutputLength::OfTheRow)),
        (
            &[
                "random",
                "--random-input-len",
                "9",
                "--random-output-len",
                "5",
                "--random-prefix-len",
                "2",
                "--random-range-ratio",
                "0.5",
            ],
            Lengths { input: 9, prefix: 2, input_range: 0.5, output_range: 0.5, ..some },
            (5, OutputLength::OfTheRow),
        ),
        (
            &["random", "--random-input-len", "9", "--input-len", "7", "--random-output-len", "5", "--output-len", "6"],
            Lengths { input: 7, ..some },
            (6, OutputLength::OfTheRow),
        ),
        (
            &["random", "--random-range-ratio", r#"{"input": 0.25, "output": 0}"#],
            Lengths { input_range: 0.25, ..some },
            (128, OutputLength::OfTheRow),
        ),
        (&["prefix_repetition"], Lengths { prefix: 256, prefixes: 10, input: 256, ..some }, (128, OutputLength::OfTheRow)),
        (
            &["prefix_repetition", "--prefix-repetition-num-prefixes", "3", "--prefix-repetition-output-len", "4"],
            Lengths { prefix: 256, prefixes: 3, input: 256, ..some },
            (4, OutputLength::OfTheRow),
        ),
        (&["sonnet"], Lengths { prefix: 200, input: 550, ..some }, (150, OutputLength::OfTheRow)),
        (&["sharegpt"], some, (128, OutputLength::OfTheRow)),
        (&["sharegpt", "--sharegpt-output-len", "8"], some, (8, OutputLength::OfThePlan)),
        (&["burstgpt", "--output-len", "8"], some, (8, OutputLength::OfThePlan)),
        (&["hf", "--hf-output-len", "8"], some, (8, OutputLength::OfThePlan)),
        (&["jsonschemabench"], some, (512, OutputLength::OfTheRow)),
        (&["bfcl", "--hf-output-len", "8"], some, (8, OutputLength::OfTheRow)),
        (&["json"], some, (128, OutputLength::OfTheRow)),
        (&["custom", "--output-len", "9"], some, (9, OutputLength::OfTheRow)),
        (&["custom", "--custom-output-len", "9"], some, (9, OutputLength::OfThePlan)),
        (&["custom", "--custom-output-len", "-1"], some, (128, OutputLength::OfEveryRow)),
    ] {
        let plan = run(&[&["--dataset"], arguments].concat()).unwrap().settings.dataset;
        assert_eq!((plan.drawing.lengths, (plan.output_len, plan.drawing.output)), (lengths, output), "{arguments:?}");
    }
}

#[test]
fn rows_are_chosen_as_asked() {
    let plan = run(&["--dataset", "hf", "--hf-name", "a/b", "--disable-shuffle", "--no-oversample", "--hf-text-column", "q"]);
    let plan = plan.unwrap().settings.dataset;
    assert_eq!(plan.dataset_path.as_deref(), Some("a/b"));
    assert_eq!((plan.drawing.order, plan.drawing.shortfall), (Order::AsStored, Shortfall::Fewer));
    assert_eq!(plan.drawing.part.text_column.as_deref(), Some("q"));
    let plan = run(&["--dataset", "hf", "--hf-name", "a/b", "--dataset-path", "x.jsonl"]).unwrap().settings.dataset;
    assert_eq!((plan.dataset_path.as_deref(), plan.drawing.part.name.as_deref()), (Some("x.jsonl"), Some("a/b")));
}

#[test]
fn a_plain_dataset_has_no_constraint_and_random_answers_no_end() {
    for name in DatasetName::ALL.into_iter().filter(|name| name.is_plain() && *name != DatasetName::Audio) {
        let plan = run(&["--dataset", name.name()]).unwrap();
        assert_eq!(
            (plan.settings.dataset.constrained_ratio, plan.settings.dataset.constraints),
            (0.0, Constraints::LeftOut),
            "{name}"
        );
        assert_eq!(plan.settings.request.ignore_eos, is_random(name), "{name}");
        assert_eq!(plan.warnings().len(), usize::from(is_random(name)), "{name}: {:?}", plan.warnings());
    }
    assert!(!run(&["--dataset", "random", "--disable-ignore-eos"]).unwrap().settings.request.ignore_eos);
    assert!(!run(&["--dataset", "random", "--backend", "tgi", "--port", "1"]).unwrap().settings.request.ignore_eos);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (arguments, words) in [
        (&["random", "--guided-decoding-ratio", "0.5"][..], "the dataset random has no constraint: --guided-decoding-ratio 0.5"),
        (&["hf", "--constraint-dialect", "guided"], "the dataset hf has no constraint: --constraint-dialect guided"),
        (&["random", "--random-batch-size", "2"], "--random-batch-size would put several inputs into one request: 2"),
        (&["random", "--random-range-ratio", "1"], "--random-range-ratio is no share from 0 to below 1: 1"),
        (&["random", "--random-range-ratio", r#"{"input": 0}"#], r#"to below 1: {"input": 0}"#),
        (&["random-prefix", "--random-prefix-len", "0"], "--random-prefix-len is 0"),
        (&["random", "--output-len", "0"], "--output-len is 0"),
        (&["sonnet", "--sonnet-output-len", "0"], "--sonnet-output-len is 0"),
        (&["custom", "--custom-output-len", "-2"], "--custom-output-len is no number of tokens: -2"),
        (&["custom", "--custom-output-len", "2", "--output-len", "3"], "both say how long answers may be"),
        (&["json", "--disable-ignore-eos"], "--disable-ignore-eos has no meaning with --dataset json"),
        (&["burstgpt", "--disable-shuffle"], "--disable-shuffle has no meaning with --dataset burstgpt"),
        (&["random", "--dataset-path", "x"], "--dataset-path has no meaning with --dataset random"),
        (&["json", "--hf-split", "test"], "--hf-subset or --hf-split has no meaning with --dataset json"),
        (&["hf", "--bfcl-categories", "simple"], "--bfcl-categories has no meaning with --dataset hf"),
    ] {
        let error = run(&[&["--dataset"], arguments].concat()).expect_err("the flags contradict each other");
        assert!(error.what.contains(words), "{arguments:?}: {error}");
        assert_eq!(error.exit_code(), 2);
        assert!(error.hint.is_some(), "{arguments:?}");
    }
    assert!(run(&["--dataset", "random", "--no-guided-decoding"]).is_ok());
}
