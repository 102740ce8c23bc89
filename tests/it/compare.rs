//! `sobench compare` on run logs, saved results and baselines, and the thresholds of a run.
//! `fixtures/frozen` has its pages, and the crate `results` its statistics.

use serde_json::{Value, json};
use sobench_testkit::repository_path;

use crate::support::{Folder, Ran, assert_follows, choice_server, sobench};

fn frozen(name: &str) -> String {
    let path = repository_path("fixtures/frozen/runs").join(name);
    path.to_str().unwrap().to_owned()
}

fn compare(arguments: &[&str]) -> Ran {
    sobench(&[&["compare", "--resamples 1000"], arguments].concat())
}

/// The comparison as JSON, validated against its contract.
fn compared(arguments: &[&str]) -> (Ran, Value) {
    let ran = compare(&[arguments, &["--format json"]].concat());
    let value: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr));
    assert_follows("comparison", &value);
    (ran, value)
}

fn figures(value: &Value) -> &Value {
    &value["against_first"][0]["figures"]
}

#[test]
fn baseline_is_small_deterministic_and_equivalent_to_its_run() {
    let folder = Folder::new();
    let (a, b, base) = (
        frozen("fast-1.jsonl"),
        frozen("slow-1.jsonl"),
        folder.path("base.json"),
    );
    let write = || {
        let ran = compare(&[&a, "--write-baseline", &base]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
        folder.read("base.json")
    };
    let text = write();
    assert_eq!(text, write(), "the same bytes every time");
    assert!(text.len() < 20_000, "{} bytes", text.len());
    assert_follows("baseline", &folder.json("base.json"));
    let (of_run, of_baseline) = (
        compared(&[&a, &b, "--gate"]),
        compared(&[&base, &b, "--gate"]),
    );
    assert_eq!(of_run.0.code, of_baseline.0.code);
    for (name, figure) in figures(&of_baseline.1).as_object().unwrap() {
        let whole = &figures(&of_run.1)[name];
        // Rounding may change a bound slightly. Percentiles of gaps need data that is not kept.
        let is_gap = name.ends_with("_itl_ms") && !name.starts_with("mean");
        assert!(
            figure["word"] == whole["word"] || is_gap,
            "{name}: {figure} {whole}"
        );
        assert!(!is_gap || figure["interval"].is_null(), "{name}");
    }
}

#[test]
fn killed_run_is_judged_and_fails_the_gate() {
    let folder = Folder::new();
    let (whole, killed) = (frozen("fast-1.jsonl"), folder.path("killed.jsonl"));
    let text = std::fs::read_to_string(&whole).unwrap();
    let last = text.match_indices("\n{\"request\"").nth(30).unwrap().0;
    std::fs::write(&killed, &text[..=last]).unwrap();
    let rule = "--fail-on correct_rate<-50pp";
    let (ran, value) = compared(&[&whole, &killed, rule]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let gate = &value["gate"];
    assert_eq!(
        (&gate["verdict"], &gate["partial_runs"][0]["side"]),
        (&json!("failed"), &json!(1))
    );
    assert_eq!(value["sides"][1]["runs"][0]["partial"], true);
    // The half of the run that is there is judged.
    assert_eq!(figures(&value)["correct_rate"]["n"], json!([30, 16]));
    let (allowed, value) = compared(&[&whole, &killed, "--allow-partial", rule]);
    assert_eq!(
        (allowed.code, &value["gate"]["verdict"]),
        (0, &json!("passed"))
    );
    // The baseline of a partial run stays partial.
    let base = folder.path("base.json");
    assert_eq!(compare(&[&killed, "--write-baseline", &base]).code, 0);
    let (ran, value) = compared(&[&base, &whole, rule]);
    assert_eq!(
        (ran.code, &value["gate"]["partial_runs"][0]["side"]),
        (1, &json!(0))
    );
}

#[test]
fn file_without_requests_still_gives_rates_and_means() {
    let folder = Folder::new();
    let path = repository_path("fixtures/frozen/results/fast-1.json");
    let mut sums: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let columns = "ttfts itls latencies start_times queue_times outputs generated_texts errors";
    for column in columns.split(' ') {
        sums.as_object_mut().unwrap().shift_remove(column);
    }
    let (a, b) = (
        folder.file("a.json", sums.to_string()),
        path.to_str().unwrap(),
    );
    let rule = "--fail-on median_ttft_ms>+10%";
    let (ran, value) = compared(&[&a, b, rule]);
    assert_eq!(ran.code, 5, "no rule could be decided: {}", ran.stderr);
    let found = ["correct_rate", "mean_ttft_ms", "median_ttft_ms"]
        .map(|name| figures(&value)[name]["method"].clone());
    assert_eq!(found, [json!("newcombe"), json!("welch"), Value::Null]);
    for (undecided, code) in [("--undecided fail", 1), ("--undecided pass", 0)] {
        assert_eq!(compare(&[&a, b, rule, undecided]).code, code);
    }
}

#[test]
fn invalid_rules_and_results_exit_with_2() {
    let folder = Folder::new();
    let good = frozen("fast-1.jsonl");
    let [list, other, missing] =
        [("list", "[1]"), ("other", r#"{"a": 1}"#), ("", "")].map(|(name, text)| match name {
            "" => folder.path("missing.json"),
            _ => folder.file(name, text),
        });
    for (arguments, expected) in [
        (
            [&good, "--fail-on corect_rate<-1pp"],
            "nearest names are correct_rate",
        ),
        (
            [&good, "--fail-on correct_rate<-1%"],
            "use `pp` instead of `%`",
        ),
        (
            [&good, "--require p99_ttft_ms"],
            "write the name of a figure",
        ),
        ([&list, "--gate"], "not a result"),
        ([&other, "--gate"], "unknown result format"),
        ([&missing, "--gate"], "cannot read "),
    ] {
        compare(&[&[good.as_str()], &arguments[..]].concat())
            .assert_fails(2, &[expected, "\nhint: "]);
    }
    compare(&[&good]).assert_fails(2, &["nothing to compare", "\nhint: "]);
}

#[test]
fn run_log_and_result_give_the_same_figures() {
    let folder = Folder::new();
    let (log, results) = (folder.path("run.jsonl"), folder.path(""));
    let flags =
        "--dataset choice --num-prompts 60 --output-len 8 --max-concurrency 8 --save-detailed";
    let place = [
        "--save-result --result-filename result.json --result-dir",
        &results,
    ];
    let ran = sobench(&[&[flags, "--run-log", &log], &place[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let (ran, value) = compared(&[&folder.path("result.json"), &log]);
    let kind = &value["sides"][1]["runs"][0]["kind"];
    assert_eq!(
        (ran.code, kind),
        (0, &json!("sobench_run_log")),
        "{}",
        ran.stderr
    );
    assert_eq!(value["against_first"][0]["pairing"], "by_case");
    let saved = folder.json("result.json");
    let mut checked = 0;
    for (name, figure) in figures(&value).as_object().unwrap() {
        let first = figure["first"].as_f64().unwrap();
        let difference = figure["difference"].as_f64().unwrap();
        assert!(difference.abs() <= 1e-9 * first.abs(), "{name}: {figure}");
        if let Some(saved) = saved[name].as_f64() {
            assert!(
                (first - saved).abs() <= 1e-6 * saved.abs(),
                "{name}: {first}, saved {saved}"
            );
            checked += 1;
        }
    }
    assert!(checked >= 10, "{checked}");
    let conditions = value["conditions"].as_array().unwrap();
    let is_same = |condition: &Value| condition["finding"] == "same";
    assert!(conditions.iter().all(is_same), "{conditions:?}");
}

/// A run has three verdicts on its thresholds.
#[test]
fn thresholds_of_a_run_have_exit_codes() {
    let server = choice_server();
    let kept = "--require completed>=20 --require correct_rate>=50";
    let few = "--require p99_e2el_ms<=0.001";
    for (rules, code) in [
        ([kept, few], 5),
        ([kept, "--require p99_e2el_ms<=0.001 --undecided fail"], 1),
        ([few, "--require completed>=21 --undecided pass"], 1),
    ] {
        let run = "--dataset choice --num-prompts 20 --skip-preflight --disable-tqdm --no-run-log --base-url";
        let ran = sobench(&[run, &server.base_url, rules[0], rules[1]]);
        assert_eq!(ran.code, code, "{rules:?}: {}", ran.stderr);
        assert!(!ran.stdout.is_empty(), "the report is printed");
    }
    let ran = sobench(&["--num-prompts 2 --no-run-log --require correct_rat>=1"]);
    ran.assert_fails(2, &["correct_rate", "\nhint: "]);
}
