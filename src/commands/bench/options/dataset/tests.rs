//! Tests of the dataset flags: plans, and refused flags.

use std::ffi::OsString;

use clap::CommandFactory;

use super::*;
use crate::cli::{Cli, Command};
use crate::commands::bench::options::RunPlan;
use sobench_core::case::Arm;
use sobench_core::scorer::Scorer;
use sobench_data::dataset::{
    HfPlan, Order, PrefixRepetitionPlan, RandomPlan, RandomPrefixPlan, Shortfall, SonnetPlan,
};
use sobench_plan::dataset::OutputLength;

fn run(arguments: &[&str]) -> Result<RunPlan> {
    let arguments = std::iter::once("sobench")
        .chain(arguments.iter().copied())
        .map(OsString::from);
    let command = Cli::parse_arguments(arguments)
        .expect("the arguments parse")
        .into_command();
    let Command::Bench(arguments) = command else {
        panic!("{command:?}")
    };
    RunPlan::new(&arguments, |_| None)
}

#[test]
fn dataset_options_have_the_defaults_and_flags_of_vllm() {
    let random = RandomPlan::default();
    let prefixed = RandomPlan {
        prefix: 256,
        ..random
    };
    let repeated = PrefixRepetitionPlan {
        prefix: 256,
        prefixes: 10,
        suffix: 256,
        order: Order::Shuffled,
    };
    let sonnet = SonnetPlan {
        dataset_path: None,
        prefix: 200,
        input: 550,
    };
    let all = [
        "--random-input-len",
        "9",
        "--random-output-len",
        "5",
        "--random-prefix-len",
        "2",
        "--random-range-ratio",
        "0.5",
    ];
    for (arguments, source, tokens) in [
        (&["random"][..], Source::Random(random), 128),
        (
            &["random-prefix"],
            Source::RandomPrefix(RandomPrefixPlan(prefixed)),
            128,
        ),
        (
            &[&["random"][..], &all].concat(),
            Source::Random(RandomPlan {
                input: 9,
                prefix: 2,
                input_range: 0.5,
                output_range: 0.5,
            }),
            5,
        ),
        (
            &[
                "random",
                "--random-input-len",
                "9",
                "--input-len",
                "7",
                "--random-output-len",
                "5",
                "--output-len",
                "6",
            ],
            Source::Random(RandomPlan { input: 7, ..random }),
            6,
        ),
        (
            &[
                "random",
                "--random-range-ratio",
                r#"{"input": 0.25, "output": 0}"#,
            ],
            Source::Random(RandomPlan {
                input_range: 0.25,
                ..random
            }),
            128,
        ),
        (
            &["prefix_repetition"],
            Source::PrefixRepetition(repeated),
            128,
        ),
        (
            &[
                "prefix_repetition",
                "--prefix-repetition-num-prefixes",
                "3",
                "--prefix-repetition-output-len",
                "4",
            ],
            Source::PrefixRepetition(PrefixRepetitionPlan {
                prefixes: 3,
                ..repeated
            }),
            4,
        ),
        (&["sonnet"], Source::Sonnet(sonnet.clone()), 150),
        (
            &["sonnet", "--sonnet-prefix-len", "7", "--input-len", "9"],
            Source::Sonnet(SonnetPlan {
                prefix: 7,
                input: 9,
                ..sonnet
            }),
            150,
        ),
    ] {
        let plan = run(&[&["--dataset"], arguments].concat())
            .unwrap()
            .settings
            .dataset;
        assert_eq!(
            (plan.source, plan.output_len, plan.output),
            (source, tokens, OutputLength::RowOrDefault),
            "{arguments:?}"
        );
    }
}

#[test]
fn answer_lengths_come_from_the_row_or_the_flags() {
    for (arguments, tokens, output) in [
        (&["sharegpt"][..], 128, OutputLength::RowOrDefault),
        (
            &["sharegpt", "--sharegpt-output-len", "8"],
            8,
            OutputLength::Fixed,
        ),
        (&["burstgpt", "--output-len", "8"], 8, OutputLength::Fixed),
        (&["hf", "--hf-output-len", "8"], 8, OutputLength::Fixed),
        (&["jsonschemabench"], 512, OutputLength::RowOrDefault),
        (
            &["bfcl", "--hf-output-len", "8"],
            8,
            OutputLength::RowOrDefault,
        ),
        (&["json"], 128, OutputLength::RowOrDefault),
        (
            &["custom", "--output-len", "9"],
            9,
            OutputLength::RowOrDefault,
        ),
        (
            &["custom", "--custom-output-len", "9"],
            9,
            OutputLength::Fixed,
        ),
        (
            &["custom", "--custom-output-len", "-1"],
            128,
            OutputLength::RowRequired,
        ),
    ] {
        let plan = run(&[&["--dataset"], arguments].concat())
            .unwrap()
            .settings
            .dataset;
        assert_eq!(
            (plan.output_len, plan.output),
            (tokens, output),
            "{arguments:?}"
        );
    }
}

#[test]
fn row_selection_follows_the_flags() {
    let plan = run(&[
        "--dataset",
        "hf",
        "--hf-name",
        "a/b",
        "--disable-shuffle",
        "--no-oversample",
        "--hf-text-column",
        "q",
    ]);
    let plan = plan.unwrap().settings.dataset;
    let own = HfPlan {
        dataset_path: Some("a/b".to_owned()),
        hf_name: Some("a/b".to_owned()),
        text_column: Some("q".to_owned()),
        order: Order::AsStored,
        shortfall: Shortfall::FewerRequests,
        ..HfPlan::default()
    };
    assert_eq!(plan.source, Source::Hf(own));
    let plan = run(&[
        "--dataset",
        "hf",
        "--hf-name",
        "a/b",
        "--dataset-path",
        "x.jsonl",
    ])
    .unwrap()
    .settings
    .dataset;
    let own = HfPlan {
        dataset_path: Some("x.jsonl".to_owned()),
        hf_name: Some("a/b".to_owned()),
        ..HfPlan::default()
    };
    assert_eq!(plan.source, Source::Hf(own));
}

#[test]
fn plain_datasets_have_no_constraint_and_random_ones_ignore_eos() {
    for name in DatasetName::ALL
        .into_iter()
        .filter(|name| name.is_unconstrained() && *name != DatasetName::Audio)
    {
        let plan = run(&["--dataset", name.name()]).unwrap();
        assert_eq!(
            (
                plan.settings.dataset.constrained_ratio,
                plan.settings.dataset.constraints
            ),
            (0.0, Constraints::Dropped),
            "{name}"
        );
        assert_eq!(
            plan.settings.request.ignore_eos,
            name.ignores_eos(),
            "{name}"
        );
        assert_eq!(
            plan.warnings().len(),
            usize::from(name.ignores_eos()),
            "{name}: {:?}",
            plan.warnings()
        );
    }
    assert!(
        !run(&["--dataset", "random", "--disable-ignore-eos"])
            .unwrap()
            .settings
            .request
            .ignore_eos
    );
    assert!(
        !run(&["--dataset", "random", "--backend", "tgi", "--port", "1"])
            .unwrap()
            .settings
            .request
            .ignore_eos
    );
}

#[test]
fn wrong_dataset_flags_are_refused() {
    for (arguments, message) in [
        (
            &["random", "--guided-decoding-ratio", "0.5"][..],
            "the dataset random has no constraints: --guided-decoding-ratio 0.5",
        ),
        (
            &["hf", "--constraint-dialect", "guided"],
            "the dataset hf has no constraints: --constraint-dialect guided",
        ),
        (
            &["random", "--random-batch-size", "2"],
            "--random-batch-size is not 1: 2",
        ),
        (
            &["random", "--random-range-ratio", "1"],
            "--random-range-ratio is not a number from 0 to below 1: 1",
        ),
        (
            &["random", "--random-range-ratio", r#"{"input": 0}"#],
            r#"to below 1: {"input": 0}"#,
        ),
        (
            &["random-prefix", "--random-prefix-len", "0"],
            "--random-prefix-len is 0",
        ),
        (&["random", "--output-len", "0"], "--output-len is 0"),
        (
            &["sonnet", "--sonnet-output-len", "0"],
            "--sonnet-output-len is 0",
        ),
        (
            &["custom", "--custom-output-len", "-2"],
            "--custom-output-len is not a number of tokens: -2",
        ),
        (
            &["custom", "--custom-output-len", "2", "--output-len", "3"],
            "both set the answer length",
        ),
        (
            &["json", "--disable-ignore-eos"],
            "--disable-ignore-eos has no effect with --dataset json",
        ),
        (
            &["burstgpt", "--disable-shuffle"],
            "--disable-shuffle has no effect with --dataset burstgpt",
        ),
        (
            &["random", "--dataset-path", "x"],
            "--dataset-path has no effect with --dataset random",
        ),
        (
            &["json", "--hf-split", "test"],
            "--hf-split has no effect with --dataset json",
        ),
        (
            &["hf", "--bfcl-categories", "simple"],
            "--bfcl-categories has no effect with --dataset hf",
        ),
    ] {
        let error = run(&[&["--dataset"], arguments].concat())
            .expect_err("the flags contradict each other");
        assert!(error.what.contains(message), "{arguments:?}: {error}");
        assert_eq!(error.exit_code(), 2);
        assert!(error.hint.is_some(), "{arguments:?}");
    }
    assert!(run(&["--dataset", "random", "--no-guided-decoding"]).is_ok());
}

/// A value that is not the default.
fn sample(flag: &clap::Arg) -> String {
    let named = flag
        .get_possible_values()
        .last()
        .map(|value| value.get_name().to_owned());
    match flag
        .get_value_names()
        .and_then(|names| names.first())
        .map(|name| name.as_str())
    {
        Some("TOKENS" | "N" | "SECONDS") => "7".to_owned(),
        Some("RATIO|JSON" | "FACTOR") => "0.5".to_owned(),
        _ => named.unwrap_or_else(|| "x".to_owned()),
    }
}

#[test]
fn every_flag_of_a_dataset_changes_its_settings() {
    const WITHOUT_EFFECT: [&str; 2] = ["skip_chat_template", "random_batch_size"];
    let program = Cli::command();
    let bench = program.find_subcommand("bench").unwrap();
    for name in DatasetName::ALL {
        let server = if name == DatasetName::Audio {
            &["--backend", "openai-audio", "--port", "1"][..]
        } else {
            &[]
        };
        let settings = |more: &[&str]| {
            run(&[&["--dataset", name.name()], server, more].concat())
                .unwrap()
                .settings
        };
        let unset = settings(&[]);
        let flags = bench
            .get_arguments()
            .filter(|flag| name.reads(flag.get_id().as_str()));
        for flag in flags.filter(|flag| !WITHOUT_EFFECT.contains(&flag.get_id().as_str())) {
            let long = format!("--{}", flag.get_long().unwrap());
            let is_switch = !flag.get_action().takes_values();
            let typed = if is_switch {
                long
            } else {
                format!("{long}={}", sample(flag))
            };
            assert_ne!(settings(&[&typed]), unset, "{name} {typed}");
        }
    }
}

#[test]
fn arms_count_items_and_default_to_three_for_accuracy() {
    let default = [Arm::Control, Arm::Constrained, Arm::ConstraintOnly];
    for name in DatasetName::ALL {
        let plan = match name {
            DatasetName::Audio => continue,
            _ => run(&["--dataset", name.name()]).unwrap().settings.dataset,
        };
        let is_accuracy = !name.default_arms().is_empty();
        let expected = if is_accuracy { &default[..] } else { &[] };
        assert_eq!((&plan.arms[..], plan.score), (expected, None), "{name}");
    }
    let arms = |more: &[&str]| run(&[&["--dataset", "extract"], more].concat()).unwrap();
    for single in [
        &["--guided-decoding-ratio", "0.5"][..],
        &["--no-guided-decoding"],
    ] {
        assert!(arms(single).settings.dataset.arms.is_empty());
    }
    let two = arms(&[
        "--arms",
        "free,prompt",
        "--num-prompts",
        "7",
        "--score",
        "exact",
    ]);
    let dataset = &two.settings.dataset;
    assert_eq!(dataset.arms, [Arm::Free, Arm::Control]);
    assert_eq!(
        (dataset.num_prompts, dataset.score),
        (7, Some(Scorer::Exact))
    );
    // A duration and a rate determine the requests.
    let timed = arms(&["--duration", "10", "--request-rate", "4"]);
    assert_eq!(timed.settings.dataset.num_prompts, 14);
    let mix = run(&["--mix", "extract:0.5,json:0.5"]).unwrap();
    let Source::Mix(parts) = &mix.settings.dataset.source else {
        panic!("{:?}", mix.settings.dataset);
    };
    assert!(
        mix.settings.dataset.arms.is_empty()
            && parts.parts.iter().all(|part| part.plan.arms.is_empty())
    );
}

#[test]
fn wrong_arms_are_refused_with_a_hint() {
    for (arguments, expected) in [
        (
            &["--dataset", "extract", "--arms", "prompt,think+constraint"][..],
            "--backend vllm has no field that turns thinking on and off",
        ),
        (
            &["--dataset", "extract", "--arms", "compact"],
            "only the engine guidance takes the white space of a request",
        ),
        (
            &["--dataset", "random", "--arms", "prompt"],
            "the dataset random has no constraints: --arms prompt",
        ),
        (
            &[
                "--backend",
                "openai-embeddings",
                "--port",
                "1",
                "--dataset",
                "random",
                "--score",
                "leaf",
            ],
            "the openai-embeddings backend does not support constraints: --score leaf",
        ),
    ] {
        let error = run(arguments).unwrap_err();
        assert!(error.what.contains(expected), "{error}");
        assert!(error.hint.is_some());
    }
    let chat = [
        "--dataset",
        "extract",
        "--backend",
        "openai-chat",
        "--arms",
        "think+constraint",
    ];
    assert_eq!(
        run(&chat).unwrap().settings.dataset.arms,
        [Arm::ThinkConstraint]
    );
    for arguments in [
        &["--arms", "prompt", "--guided-decoding-ratio", "0.5"][..],
        &["--arms", "prompt", "--no-guided-decoding"],
        &["--arms", "prompt", "--mix", "json:0.5,regex:0.5"],
        &["--arms", "promt"],
        &["--score", "bleu"],
    ] {
        let all = std::iter::once("sobench").chain(arguments.iter().copied());
        assert!(
            Cli::parse_arguments(all.map(OsString::from)).is_err(),
            "{arguments:?}"
        );
    }
}

#[test]
fn a_flag_of_another_dataset_is_refused_with_a_hint() {
    let refused = |arguments: &[&str]| run(arguments).unwrap_err().hint.unwrap();
    assert_eq!(
        refused(&["--dataset", "regex", "--json-schema", "nested"]),
        "use it with --dataset json or --dataset json-unique, or remove it"
    );
    assert_eq!(
        refused(&["--dataset", "json", "--grammar-dialect", "lark"]),
        "use it with --dataset grammar or --dataset suite or --dataset canary or --dataset custom, or remove it"
    );
    let mixed = [
        "--mix",
        "random:0.5,json:0.5",
        "--bfcl-categories",
        "simple",
    ];
    assert_eq!(refused(&mixed), "use it with --dataset bfcl, or remove it");
    assert!(
        run(&[
            "--mix",
            "random:0.5,json:0.5",
            "--random-input-len",
            "7",
            "--json-schema",
            "nested"
        ])
        .is_ok()
    );
}

#[test]
fn reports_know_the_datasets_with_prompt_variants() {
    let names = DatasetName::ALL.into_iter();
    let with_flag = names.filter(|name| name.reads("prompt_variants"));
    let mut known = sobench_report::summary::WITH_PROMPT_VARIANTS.to_vec();
    known.sort_by_key(|name| DatasetName::ALL.iter().position(|of| of.name() == *name));
    assert_eq!(with_flag.map(DatasetName::name).collect::<Vec<_>>(), known);
}
