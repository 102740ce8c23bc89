//! Which runs follow from which flags, and which flags are refused.

use std::ffi::OsString;

use super::*;
use crate::cli::{Cli, Command};
use sobench_core::schedule::{Pace, Rate};
use sobench_data::dataset::{JsonPlan, RandomPlan, RegexPlan, Source};
use sobench_embedded::EmbeddedOptions;
use sobench_engine::EngineName;

fn bench(arguments: &[&str]) -> Result<Benchmark> {
    let arguments = std::iter::once("sobench")
        .chain(arguments.iter().copied())
        .map(OsString::from);
    let command = Cli::parse_arguments(arguments)
        .unwrap_or_else(|error| panic!("{error}"))
        .into_command();
    let Command::Bench(arguments) = command else {
        panic!("{command:?}")
    };
    Benchmark::new(&arguments)
}

fn plan(arguments: &[&str]) -> Result<MatrixOptions> {
    match bench(arguments)? {
        Benchmark::Matrix(plan) | Benchmark::DryRun(plan) => Ok(*plan),
        Benchmark::Run(_) => panic!("one run: {arguments:?}"),
    }
}

fn names(plan: &MatrixOptions) -> Vec<&str> {
    plan.contenders.iter().map(|it| it.name.as_str()).collect()
}

fn url(run: &RunPlan) -> &str {
    match &run.target {
        Target::Server(target) => &target.endpoint.base_url,
        Target::Embedded { .. } => "embedded",
    }
}

#[test]
fn one_of_everything_is_one_run() {
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
    assert!(matches!(
        bench(&["--save-comparison", "a.md"]).unwrap(),
        Benchmark::Matrix(_)
    ));
}

#[test]
fn engines_of_the_embedded_server_have_a_run_for_every_place() {
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
    let run = |dataset, load, treatment| plan.contenders[1].run(dataset, load, treatment).unwrap();
    let constrained = run(2, 1, Treatment::Constrained);
    assert!(matches!(
        &constrained.target,
        Target::Embedded(EmbeddedOptions {
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
                regex: Some("a+".to_owned())
            }),
            1.0
        )
    );
    assert_eq!(
        constrained.settings.load.pace,
        Pace::Steady(Rate::PerSecond(4.0))
    );
    assert_eq!(constrained.settings.load.cold_schema_every, Some(5));
    let control = run(2, 1, Treatment::Control);
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
    let other = &run(0, 0, Treatment::Constrained).settings.dataset.source;
    assert_eq!(
        other,
        &Source::Json(JsonPlan::default()),
        "another dataset's flag"
    );
}

#[test]
fn servers_are_named_or_started() {
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
        .map(|it| url(&it.runs[0].plan))
        .collect();
    assert_eq!(
        (names(&two), urls, two.treatments.len()),
        (vec!["a", "b"], vec!["http://x:1", "http://y:2"], 1)
    );
    assert!(two.contenders.iter().all(|it| it.how == How::Running));

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
        started.contenders[1].how,
        How::Launched {
            command,
            ready_timeout: LAUNCH_TIMEOUT
        }
    );
    let run = &started.contenders[1].runs[0].plan;
    assert_eq!(
        (url(run), url(&run.at_port(77))),
        ("http://127.0.0.1:{port}", "http://127.0.0.1:77")
    );

    let guided = [
        "--base-url",
        "http://x",
        "--constraint-dialect",
        "guided",
        "--guided-decoding-backend",
        "xgrammar,outlines",
    ];
    let asked = plan(&guided).unwrap();
    assert!(asked.contenders.iter().all(|it| it.how == How::PerRequest));
    assert_eq!(
        asked.contenders[1].runs[0]
            .plan
            .settings
            .constraint
            .guided_decoding_backend
            .as_deref(),
        Some("outlines")
    );
}

#[test]
fn what_makes_no_comparison_is_refused() {
    let launch = ["--launch", "serve --port {port} {backend}"];
    for (arguments, words) in [
        (
            &["--repeat", "2", "--run-log", "a"][..],
            "several runs have no one run log: a",
        ),
        (
            &["--repeat", "2", "--result-filename", "a"],
            "several runs have no one result: a",
        ),
        (
            &["--repeat", "2", "--guided-decoding-ratio", "0.5"],
            "a comparison has runs with all constraints and runs with none: --guided-decoding-ratio 0.5",
        ),
        (
            &["--repeat", "2", "--goodput-share", "0"],
            "--goodput-share is not a share in percent: 0",
        ),
        (
            &["--repeat", "2", "--backend", "openai-embeddings"],
            "a comparison is about constraints",
        ),
        (
            &["--dataset", "json,json"],
            "--dataset names one twice: json",
        ),
        (
            &["--dataset", "json,choice", "--regex", "a"],
            "--regex has no meaning with --dataset json",
        ),
        (
            &["--sweep-request-rate", "1,1"],
            "--sweep-request-rate names a load twice: 1 req/s",
        ),
        (
            &["--sweep-max-concurrency", "0,1"],
            "--sweep-max-concurrency is not above 0: 0",
        ),
        (
            &["--guided-decoding-backend", "xgrammar,xgrammar"],
            "two of those that are compared have one name: xgrammar",
        ),
        (
            &[
                "--base-url",
                "http://x",
                "--guided-decoding-backend",
                "xgrammar,outlines",
            ],
            "one server was named, and a request does not tell it which engine to use: --guided-decoding-backend xgrammar,outlines",
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
            "servers are named twice, by --target and by --port",
        ),
        (
            &["--launch", "serve"],
            "--launch does not say where the port goes: serve",
        ),
        (
            &launch,
            "--launch has a place for the engine, and none is named: serve --port {port} {backend}",
        ),
        (
            &[
                "--launch",
                "serve {port}",
                "--guided-decoding-backend",
                "xgrammar,outlines",
            ],
            "--launch would start the same server for each engine: serve {port}",
        ),
        (
            &["--save-comparison", "a.pdf"],
            "--save-comparison does not know this form: a.pdf",
        ),
    ] {
        let error = plan(arguments).expect_err("the flags make no comparison");
        assert!(
            error.what.starts_with(words),
            "{arguments:?}: {}",
            error.what
        );
        assert_eq!(error.exit_code(), 2);
        assert!(error.hint.is_some(), "{arguments:?}");
    }
}

#[test]
fn contenders_run_at_once_where_each_has_a_server_of_its_own() {
    let check = |flags: &[&str], cores: usize, expected: &str, asked: Option<&str>| {
        let plan = plan(flags).unwrap();
        let order = |wanted| Order::of(wanted, &plan.contenders, Some(cores));
        assert!(
            order(WantedOrder::Auto)
                .unwrap()
                .to_string()
                .starts_with(expected),
            "{flags:?}: {}",
            order(WantedOrder::Auto).unwrap()
        );
        assert!(!order(WantedOrder::Blocks).unwrap().is_interleaved());
        match (order(WantedOrder::Interleaved), asked) {
            (Ok(order), Some(words)) => assert!(
                order.is_interleaved() && order.to_string().contains(words),
                "{order}"
            ),
            (Err(error), None) => {
                assert!(error.exit_code() == 2 && error.hint.is_some(), "{error}")
            }
            (found, _) => panic!("{flags:?}: {found:?}"),
        }
    };
    let (of_its_own, one) = (
        "a server of its own",
        "whole runs, one after the other (two name one server",
    );
    let engines = ["--guided-decoding-backend", "xgrammar,guidance"];
    check(
        &["--target", "a=http://h:1", "--target", "b=http://h:2/v1"],
        1,
        "interleaved",
        Some(of_its_own),
    );
    check(
        &["--target", "a=http://h", "--target", "b=https://h"],
        1,
        "interleaved",
        Some(of_its_own),
    );
    check(
        &["--target", "a=http://h", "--target", "b=http://h:80/v1"],
        64,
        one,
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
        one,
        None,
    );
    check(
        &engines,
        10,
        "interleaved, request by request (an embedded server for each, on 10 cores)",
        Some("10 cores"),
    );
    check(
        &engines,
        9,
        "whole runs, one after the other (embedded servers on 9 cores",
        Some("share 9 cores"),
    );
    check(
        &["--base-url", "http://h", "--repeat", "2"],
        64,
        "whole runs, one after the other (there is nobody",
        None,
    );
    let per_request = ["--base-url", "http://h", "--constraint-dialect", "guided"];
    check(
        &[&engines[..], &per_request].concat(),
        64,
        "whole runs, one after the other (one server does the work of all",
        None,
    );
    let launch = ["--launch", "serve {port} {backend}"];
    check(
        &[&engines[..], &launch].concat(),
        64,
        "whole runs, one after the other (servers are started one at a time",
        None,
    );
}

#[test]
fn servers_that_share_a_machine_are_told_apart_from_those_that_do_not() {
    let shared = |flags: &[&str]| match plan(flags).unwrap().order {
        Order::Interleaved(AtOnce::ServersOfTheirOwn { shared_host }) => shared_host,
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
fn one_run_has_no_order() {
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
    assert_eq!(plain.treatments, [Treatment::Constrained]);
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
