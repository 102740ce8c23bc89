//! Tests of the plan of a comparison: runs from flags, and refused flags.

use std::ffi::OsString;

use super::*;
use crate::cli::{Cli, Command};
use sobench_core::case::Arm;
use sobench_core::schedule::{Pace, Rate};
use sobench_data::dataset::{JsonPlan, RandomPlan, RegexPlan, Source};
use sobench_embedded::EmbeddedSettings;
use sobench_engine::EngineName;

fn bench(arguments: &[&str]) -> Result<Benchmark> {
    let arguments = std::iter::once("sobench")
        .chain(arguments.iter().copied())
        .map(OsString::from);
    let command = Cli::parse_arguments(arguments)
        .unwrap_or_else(|error| panic!("{error}"))
        .into_command();
    match command {
        Command::Bench(arguments) => Benchmark::new(&arguments, false),
        Command::Matrix(arguments) => Benchmark::new(&arguments, true),
        other => panic!("{other:?}"),
    }
}

fn plan(arguments: &[&str]) -> Result<MatrixPlan> {
    match bench(arguments)? {
        Benchmark::Matrix(plan) | Benchmark::DryRun(plan) => Ok(*plan),
        Benchmark::Run(_) => panic!("one run: {arguments:?}"),
    }
}

fn names(plan: &MatrixPlan) -> Vec<&str> {
    plan.contenders
        .iter()
        .map(|contender| contender.name.as_str())
        .collect()
}

fn url(run: &RunPlan) -> &str {
    match &run.target {
        Target::Server(target) => &target.endpoint.base_url,
        Target::Embedded { .. } => "embedded",
    }
}

#[test]
fn single_values_are_one_run() {
    for arguments in [
        &[][..],
        &[
            "--guided-decoding-backend",
            "xgrammar",
            "--dataset",
            "choice",
        ],
        &["--repeat", "1"],
    ] {
        assert!(
            matches!(bench(arguments).unwrap(), Benchmark::Run(_)),
            "{arguments:?}"
        );
    }
    assert!(matches!(
        bench(&["--dry-run"]).unwrap(),
        Benchmark::DryRun(_)
    ));
}

#[test]
fn matrix_is_a_comparison_with_a_control_arm_also_of_one_server() {
    for (arguments, arms) in [
        (&["matrix", "--repeat", "3"][..], 2),
        (&["--repeat", "3"], 1),
        (&["matrix", "--no-control-arm"], 1),
    ] {
        let plan = plan(arguments).unwrap();
        assert_eq!(plan.arms.len(), arms, "{arguments:?}");
    }
}

#[test]
fn embedded_engines_have_a_run_for_each_dataset_load_and_arm() {
    let plan = plan(&[
        "--guided-decoding-backend",
        "xgrammar,outlines",
        "--dataset",
        "json,choice",
        "--dataset",
        "regex",
        "--regex",
        "a+",
        "--sweep-request-rate",
        "4,inf,2",
        "--cold-schema-every",
        "5",
    ])
    .unwrap();
    assert_eq!(
        (names(&plan), &plan.datasets[..]),
        (
            vec!["xgrammar", "outlines"],
            &["json", "choice", "regex"].map(str::to_owned)[..]
        )
    );
    assert_eq!(
        plan.loads,
        [
            Load::RequestRate(2.0),
            Load::RequestRate(4.0),
            Load::RequestRate(f64::INFINITY)
        ]
    );
    assert_eq!(plan.contenders[0].runs.len(), 3 * 3 * 2);
    let run = |dataset, load, arm| plan.contenders[1].run(dataset, load, arm).unwrap();
    let constrained = run(2, 1, Arm::Constrained);
    assert!(matches!(
        &constrained.target,
        Target::Embedded(EmbeddedSettings {
            engine: EngineName::Outlines,
            ..
        })
    ));
    assert_eq!(
        (
            &constrained.settings.dataset.source,
            constrained.settings.dataset.constrained_ratio
        ),
        (
            &Source::Regex(RegexPlan {
                regex: Some("a+".to_owned()),
                ..RegexPlan::default()
            }),
            1.0
        )
    );
    assert_eq!(
        constrained.settings.load.pace,
        Pace::Steady(Rate::PerSecond(4.0))
    );
    assert_eq!(constrained.settings.load.cold_schema_every, Some(5));
    let control = run(2, 1, Arm::Control);
    assert_eq!(
        (
            control.settings.dataset.constrained_ratio,
            control.settings.load.cold_schema_every
        ),
        (0.0, None)
    );
    assert_eq!(
        (control.settings.dataset.seed, control.settings.load.pace),
        (
            constrained.settings.dataset.seed,
            constrained.settings.load.pace
        )
    );
    let other = &run(0, 0, Arm::Constrained).settings.dataset.source;
    assert_eq!(
        other,
        &Source::Json(JsonPlan::default()),
        "another dataset's flag"
    );
}

#[test]
fn several_embedded_engines_have_the_speed_of_a_server() {
    let several = ["--guided-decoding-backend", "xgrammar,guidance"];
    for (arguments, expected) in [
        (&several[..], "8b-h100"),
        (&["--repeat", "2"], "instant"),
        (
            &[&several[..], &["--embedded-speed", "instant"]].concat(),
            "instant",
        ),
        (
            &[&several[..], &["--embedded-step-ms", "5"]].concat(),
            "8b-h100, step 5 ms",
        ),
        (
            &["--repeat", "2", "--embedded-speed", "8b-laptop"],
            "8b-laptop",
        ),
    ] {
        let plan = plan(arguments).unwrap();
        for run in plan.contenders.iter().flat_map(|contender| &contender.runs) {
            let Target::Embedded(options) = &run.plan.target else {
                panic!("no server is named: {arguments:?}")
            };
            assert_eq!(options.speed.to_string(), expected, "{arguments:?}");
        }
    }
}

#[test]
fn servers_are_named_or_launched() {
    let two = plan(&[
        "--target",
        "a=http://x:1",
        "--target",
        "b=http://y:2",
        "--no-control-arm",
    ])
    .unwrap();
    let urls: Vec<&str> = two
        .contenders
        .iter()
        .map(|contender| url(&contender.runs[0].plan))
        .collect();
    assert_eq!(
        (names(&two), urls, two.arms.len()),
        (vec!["a", "b"], vec!["http://x:1", "http://y:2"], 1)
    );
    assert!(
        two.contenders
            .iter()
            .all(|contender| contender.server == ContenderServer::Running)
    );

    let command = "serve --port {port} --engine {backend}";
    let started = plan(&[
        "--launch",
        command,
        "--guided-decoding-backend",
        "xgrammar,lm-format-enforcer",
    ])
    .unwrap();
    assert_eq!(names(&started), ["xgrammar", "lm-format-enforcer"]);
    let command = "serve --port {port} --engine lm-format-enforcer".to_owned();
    assert_eq!(
        started.contenders[1].server,
        ContenderServer::Launched {
            command,
            ready_timeout: LAUNCH_TIMEOUT
        }
    );
    let run = &started.contenders[1].runs[0].plan;
    assert_eq!(
        (url(run), url(&run.at_port(77))),
        ("http://127.0.0.1:{port}", "http://127.0.0.1:77")
    );

    let several = plan(&[
        "--launch",
        "plain=A=1 serve {port} {backend}",
        "--launch",
        "drafts=A=2 serve {port} {backend}",
        "--guided-decoding-backend",
        "xgrammar",
    ])
    .unwrap();
    assert_eq!(names(&several), ["plain", "drafts"]);
    assert_eq!(
        several.contenders[1].server,
        ContenderServer::Launched {
            command: "A=2 serve {port} xgrammar".to_owned(),
            ready_timeout: LAUNCH_TIMEOUT
        }
    );

    let guided = [
        "--base-url",
        "http://x",
        "--constraint-dialect",
        "guided",
        "--guided-decoding-backend",
        "xgrammar,outlines",
    ];
    let per_request = plan(&guided).unwrap();
    assert!(
        per_request
            .contenders
            .iter()
            .all(|contender| contender.server == ContenderServer::PerRequest)
    );
    assert_eq!(
        per_request.contenders[1].runs[0]
            .plan
            .settings
            .constraint
            .guided_decoding_backend
            .as_deref(),
        Some("outlines")
    );
}

#[test]
fn single_run_flags_and_wrong_values_are_refused() {
    let launch = ["--launch", "serve --port {port} {backend}"];
    for (arguments, message) in [
        (
            &["--repeat", "2", "--run-log", "a"][..],
            "--run-log names one file for several runs: a",
        ),
        (
            &["--repeat", "2", "--run-log", "{engin}/a"],
            "--run-log has an unknown placeholder: {engin}",
        ),
        (
            &[
                "--target",
                "a/b=http://x",
                "--target",
                "a b=http://y",
                "--run-log",
                "{dataset}.jsonl",
            ],
            "two runs have the same --run-log: json-a-b-control.jsonl",
        ),
        (
            &["--repeat", "2", "--result-filename", "a"],
            "--result-filename names one file for several runs: a",
        ),
        (
            &["--repeat", "2", "--guided-decoding-ratio", "0.5"],
            "a comparison sets the constrained ratio itself (1 and 0): --guided-decoding-ratio 0.5",
        ),
        (
            &["--repeat", "2", "--goodput-share", "0"],
            "--goodput-share is not a share in percent: 0",
        ),
        (
            &["--repeat", "2", "--backend", "openai-embeddings"],
            "a comparison needs a backend with constraints: openai-embeddings",
        ),
        (&["--dataset", "json,json"], "dataset given twice: json"),
        (
            &["--dataset", "json,choice", "--regex", "a"],
            "--regex has no effect with --dataset json",
        ),
        (
            &["--sweep-request-rate", "1,1"],
            "--sweep-request-rate has a load twice: 1 req/s",
        ),
        (
            &["--sweep-max-concurrency", "0,1"],
            "--sweep-max-concurrency is not above 0: 0",
        ),
        (
            &["--guided-decoding-backend", "xgrammar,xgrammar"],
            "two servers or engines have the same name: xgrammar",
        ),
        (
            &[
                "--base-url",
                "http://x",
                "--guided-decoding-backend",
                "xgrammar,outlines",
            ],
            "one server has one engine, and its requests do not select another: --guided-decoding-backend xgrammar,outlines",
        ),
        (
            &["--target", "http://x"],
            "--target is not NAME=URL: http://x",
        ),
        (
            &["--target", "a=x"],
            "--base-url is not an http or https URL: x",
        ),
        (
            &["--target", "a=http://x", "--port", "1"],
            "--target and --port both name servers",
        ),
        (&["--launch", "serve"], "--launch has no {port}: serve"),
        (
            &["--launch", "a=serve {port}", "--launch", "serve {port}"],
            "one of several --launch is not NAME=COMMAND: serve {port}",
        ),
        (
            &[
                "--launch",
                "a=serve {port}",
                "--launch",
                "b=serve {port}",
                "--guided-decoding-backend",
                "xgrammar,guidance",
            ],
            "several --launch and several engines: --guided-decoding-backend xgrammar,...",
        ),
        (
            &[
                "--launch",
                "a=serve {port}",
                "--launch",
                "a=serve -x {port}",
            ],
            "two servers or engines have the same name: a",
        ),
        (
            &launch,
            "--launch has {backend}, but no engine is given: serve --port {port} {backend}",
        ),
        (
            &[
                "--launch",
                "serve {port}",
                "--guided-decoding-backend",
                "xgrammar,outlines",
            ],
            "--launch has no {backend}, so each engine would get the same server: serve {port}",
        ),
        (
            &["--repeat", "2", "--save", "a.csv"],
            "--save has no format for this name: a.csv",
        ),
    ] {
        let error = plan(arguments).expect_err("the flags make no comparison");
        assert!(
            error.what.starts_with(message),
            "{arguments:?}: {}",
            error.what
        );
        assert_eq!(error.exit_code(), 2);
        assert!(error.hint.is_some(), "{arguments:?}");
    }
}

#[test]
fn contenders_run_concurrently_if_each_has_its_own_server() {
    let check = |flags: &[&str], cores: usize, expected: &str, requested: Option<&str>| {
        let plan = plan(flags).unwrap();
        let order = |requested| Order::new(requested, &plan.contenders, Some(cores));
        assert!(
            order(MatrixOrder::Auto)
                .unwrap()
                .to_string()
                .starts_with(expected),
            "{flags:?}: {}",
            order(MatrixOrder::Auto).unwrap()
        );
        assert!(!order(MatrixOrder::Blocks).unwrap().is_interleaved());
        match (order(MatrixOrder::Interleaved), requested) {
            (Ok(order), Some(text)) => assert!(
                order.is_interleaved() && order.to_string().contains(text),
                "{order}"
            ),
            (Err(error), None) => {
                assert!(error.exit_code() == 2 && error.hint.is_some(), "{error}");
            }
            (found, _) => panic!("{flags:?}: {found:?}"),
        }
    };
    let (own_server, shared_server) = (
        "its own server",
        "complete runs, one after the other (two contenders share a server",
    );
    let engines = ["--guided-decoding-backend", "xgrammar,guidance"];
    check(
        &["--target", "a=http://h:1", "--target", "b=http://h:2/v1"],
        1,
        "interleaved",
        Some(own_server),
    );
    check(
        &["--target", "a=http://h", "--target", "b=https://h"],
        1,
        "interleaved",
        Some(own_server),
    );
    check(
        &["--target", "a=http://h", "--target", "b=http://h:80/v1"],
        64,
        shared_server,
        None,
    );
    check(
        &[
            "--target",
            "a=http://localhost:1",
            "--target",
            "c=http://h:1",
            "--target",
            "b=http://127.0.0.1:1",
        ],
        64,
        shared_server,
        None,
    );
    check(
        &engines,
        10,
        "interleaved, request by request (an embedded server for each contender, on 10 cores)",
        Some("10 cores"),
    );
    check(
        &engines,
        9,
        "complete runs, one after the other (embedded servers would compete for 9 cores",
        Some("compete for 9 cores"),
    );
    check(
        &["--base-url", "http://h", "--repeat", "2"],
        64,
        "complete runs, one after the other (there is one contender",
        None,
    );
    let per_request = ["--base-url", "http://h", "--constraint-dialect", "guided"];
    check(
        &[&engines[..], &per_request].concat(),
        64,
        "complete runs, one after the other (all contenders share one server",
        None,
    );
    let launch = ["--launch", "serve {port} {backend}"];
    check(
        &[&engines[..], &launch].concat(),
        64,
        "complete runs, one after the other (servers are started one at a time",
        None,
    );
}

#[test]
fn shared_hosts_are_detected() {
    let shared = |flags: &[&str]| match plan(flags).unwrap().order {
        Order::Interleaved(InterleavedReason::SeparateServers { shared_host }) => shared_host,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        shared(&["--target", "a=http://one:1", "--target", "b=http://two:1"]),
        None
    );
    let three = [
        "--target",
        "a=http://one:1",
        "--target",
        "b=http://localhost:1",
        "--target",
        "c=http://127.0.0.1:2",
    ];
    assert_eq!(shared(&three).as_deref(), Some("127.0.0.1"));
}

#[test]
fn a_single_run_refuses_a_matrix_order() {
    assert!(matches!(
        bench(&["--matrix-order", "auto"]).unwrap(),
        Benchmark::Run(_)
    ));
    assert!(
        matches!(bench(&["--arm-order", "auto"]).unwrap(), Benchmark::Run(_)),
        "the name of earlier versions"
    );
    for order in ["interleaved", "blocks"] {
        assert_eq!(
            bench(&["--matrix-order", order]).unwrap_err().exit_code(),
            2
        );
    }
    assert_eq!(
        bench(&["--matrix-order", "interleaved", "--repeat", "2"])
            .unwrap_err()
            .exit_code(),
        2
    );
    assert!(matches!(
        bench(&["--matrix-order", "blocks", "--repeat", "2"]).unwrap(),
        Benchmark::Matrix(_)
    ));
}

#[test]
fn plain_datasets_have_no_control_arm() {
    let plain = plan(&["--dataset", "random", "--sweep-max-concurrency", "1,2"]).unwrap();
    assert_eq!(plain.arms, [Arm::Constrained]);
    let error = plan(&["--dataset", "random,json", "--sweep-max-concurrency", "1,2"]).unwrap_err();
    assert_eq!(
        error.what,
        "a dataset without constraints has no control arm: random"
    );
    let flags = [
        "--dataset",
        "random,json",
        "--random-input-len",
        "7",
        "--guided-decoding-ratio",
        "1",
        "--no-control-arm",
    ];
    let mixed = plan(&[&flags[..], &["--repeat", "2"]].concat()).unwrap();
    let runs = &mixed.contenders[0].runs;
    let seen: Vec<_> = runs
        .iter()
        .map(|run| {
            (
                run.plan.settings.dataset.source.clone(),
                run.plan.settings.dataset.constrained_ratio,
            )
        })
        .collect();
    let random = Source::Random(RandomPlan {
        input: 7,
        ..RandomPlan::default()
    });
    assert_eq!(
        seen,
        [(random, 0.0), (Source::Json(JsonPlan::default()), 1.0)]
    );
}

#[test]
fn each_run_of_a_comparison_has_its_own_run_log() {
    let paths = |flags: &[&str]| -> Vec<String> {
        let plan = plan(flags).unwrap();
        rounds(&super::super::dimensions(&plan))
            .iter()
            .flatten()
            .map(|step| match plan.run_log(step) {
                Some(RunLogPlan::At(path)) => path.display().to_string(),
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let datasets = ["--dataset", "json,choice", "--run-log"];
    for (run_log, expected) in [
        ("logs/", "logs/json-control.jsonl"),
        (folder, &*format!("{folder}/json-control.jsonl")),
        ("{dataset}/", "json/run-control.jsonl"),
        ("a/{dataset}.{arm}.log", "a/json.control.log"),
        ("{dataset}", "json-control"),
        ("a.b/{dataset}", "a.b/json-control"),
        (
            "{server}-{engine}-{repeat}-{load}-{dataset}",
            "guidance-guidance-1-load-json-control",
        ),
    ] {
        let found = paths(&[&datasets[..], &[run_log]].concat());
        assert_eq!((found.len(), found[0].as_str()), (4, expected));
    }
    let swept = paths(&[
        "--guided-decoding-backend",
        "xgrammar,guidance",
        "--sweep-request-rate",
        "4,inf",
        "--repeat",
        "2",
        "--no-control-arm",
        "--run-log",
        "logs/",
    ]);
    assert_eq!(swept.len(), 8);
    assert_eq!(swept[0], "logs/json-xgrammar-rate4-1.jsonl");
    assert!(swept.contains(&"logs/json-guidance-rateinf-2.jsonl".to_owned()));
    assert_eq!(plan(&["--repeat", "2"]).unwrap().run_logs, None);
}

#[test]
fn sweep_plans_its_first_run_and_further_rates() {
    let flags = [
        "--sweep",
        "--goodput",
        "ttft:200",
        "--guided-decoding-backend",
        "xgrammar,outlines",
    ];
    let measured = plan(&flags).unwrap();
    assert_eq!(measured.loads, [Load::MaxConcurrency(8)]);
    let mut given = plan(&[&flags[..], &["--request-rate", "4"]].concat()).unwrap();
    assert_eq!(given.loads, [Load::RequestRate(4.0)]);
    assert_eq!(given.most_sweep_runs(), 2 * 2 * 8);
    let index = given.load_index(Load::RequestRate(7.0)).unwrap();
    assert_eq!(
        (index, given.load_index(Load::RequestRate(4.0)).unwrap()),
        (1, 0)
    );
    let run = |load| given.contenders[1].run(0, load, Arm::Control).unwrap();
    let requests = |load| run(load).settings.dataset.num_prompts;
    assert_eq!(
        run(1).settings.load.pace,
        Pace::Steady(Rate::PerSecond(7.0))
    );
    assert_eq!(
        (requests(0), requests(1)),
        (381, 381),
        "enough to decide a share of 99 %"
    );
    let ninety = ["--goodput-share", "90", "--request-rate", "4"];
    let mut given = plan(&[&flags[..], &ninety].concat()).unwrap();
    given.load_index(Load::RequestRate(7.0)).unwrap();
    let requests = |load| {
        let run = given.contenders[1].run(0, load, Arm::Control);
        run.unwrap().settings.dataset.num_prompts
    };
    assert_eq!((requests(0), requests(1)), (120, 210), "30 s of schedule");
    assert_eq!(
        plan(&flags).unwrap().contenders[0].runs[0]
            .plan
            .settings
            .dataset
            .num_prompts,
        100
    );
}

#[test]
fn sweep_refuses_what_does_not_apply() {
    let sweep = |more: &[&str]| plan(&[&["--sweep"], more].concat()).unwrap_err().what;
    assert_eq!(sweep(&[]), "--sweep needs an objective");
    assert_eq!(
        sweep(&["--request-rate", "inf"]),
        "--sweep needs an objective"
    );
    assert!(sweep(&["--goodput", "ttft:2", "valid"]).starts_with("--sweep checks validity itself"));
    let limits = ["--goodput", "ttft:2"];
    let found = sweep(&[&limits[..], &["--request-rate", "-1"]].concat());
    assert_eq!(found, "--request-rate is not a positive number: -1");
    for wrong in ["0", "nan", "-3", "inf"] {
        let found = sweep(&[&limits[..], &["--sweep-duration", wrong]].concat());
        assert!(
            found.starts_with("--sweep-duration is not a time"),
            "{found}"
        );
    }
    for other in [
        &["--sweep-request-rate", "1"][..],
        &["--sweep-max-concurrency", "1"],
        &["--max-concurrency", "1"],
        &["--duration", "1"],
    ] {
        let all = [&["sobench", "--sweep", "--goodput", "ttft:2"], other].concat();
        let parsed = Cli::parse_arguments(all.into_iter().map(OsString::from));
        assert!(parsed.is_err(), "{other:?}");
    }
    let alone = ["sobench", "--sweep-duration", "3"].map(OsString::from);
    assert!(Cli::parse_arguments(alone.into_iter()).is_err());
}
