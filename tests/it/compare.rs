//! `sobench compare` on real results and on deliberately degraded ones.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Value, json};
use sobench_testkit::repository_path;

use crate::support::{Ran, sobench, sobench_result};

const COMPARISON: &str = include_str!("../../schemas/contracts/comparison.schema.json");
const BASELINE: &str = include_str!("../../schemas/contracts/baseline.schema.json");

/// A detailed result of the embedded engine, 120 constrained requests and 40 of the control arm.
static RESULT: LazyLock<Value> = LazyLock::new(|| {
    let flags = [
        "--dataset",
        "json",
        "--num-prompts",
        "160",
        "--guided-decoding-ratio",
        "0.75",
        "--output-len",
        "64",
    ];
    let load = [
        "--max-concurrency",
        "8",
        "--save-detailed",
        "--metric-percentiles",
        "90,99",
        "--label",
        "first",
    ];
    let mut result = sobench_result(&[&flags[..], &load[..]].concat()).1;
    // What the client can have added depends on the machine.
    result["sobench"]["client"]["bounds"] = json!([]);
    result
});

/// A temporary folder for test files.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Writes a file and returns its path.
    fn put(&self, name: &str, value: &Value) -> String {
        let path = self.path(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// The same run with every latency and the total duration multiplied by `factor`, and every `nth`
/// valid constrained answer made invalid.
fn degraded(result: &Value, factor: f64, nth: usize) -> Value {
    let mut degraded = result.clone();
    let scale = |value: &mut Value| {
        if let Some(number) = value.as_f64() {
            *value = json!(number * factor);
        }
    };
    for column in ["ttfts", "latencies", "start_times", "queue_times"] {
        degraded[column]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(scale);
    }
    degraded["itls"]
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .for_each(|gaps| gaps.as_array_mut().unwrap().iter_mut().for_each(scale));
    scale(&mut degraded["duration"]);
    let outputs = degraded["outputs"].as_array_mut().unwrap();
    let valid = outputs
        .iter_mut()
        .filter(|output| output["arm"] == "constrained" && output["correctness"] == true);
    valid.step_by(nth).for_each(set_invalid);
    degraded
}

fn set_invalid(output: &mut Value) {
    output["generated"] = json!("no JSON at all | <b>");
    output["correctness"] = json!(false);
    output["verdict"] = json!({"verdict": "invalid", "reason": {"reason": "not_json", "message": "expected value", "byte": 0}});
}

fn compare(arguments: &[&str]) -> Ran {
    sobench(&[&["compare"], arguments].concat())
}

/// The comparison as JSON, validated against its contract.
fn compared(arguments: &[&str]) -> (Ran, Value) {
    let ran = compare(&[arguments, &["--format", "json"]].concat());
    let value: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", ran.stdout, ran.stderr));
    let contract: Value = serde_json::from_str(COMPARISON).unwrap();
    let validator = jsonschema::draft202012::new(&contract).unwrap();
    let broken: Vec<String> = validator
        .iter_errors(&value)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
    (ran, value)
}

fn figures(value: &Value) -> &Value {
    &value["against_first"][0]["figures"]
}

#[test]
fn identical_runs_do_not_differ_and_figures_equal_the_file() {
    let files = Files::new();
    let file = files.put("a.json", &RESULT);
    let (ran, value) = compared(&[&file, &file, "--gate", "--undecided", "pass"]);
    assert_eq!(
        (ran.code, &value["against_first"][0]["pairing"]),
        (0, &json!("by_case"))
    );
    let mut checked = 0;
    for (name, figure) in figures(&value).as_object().unwrap() {
        assert!(
            figure["first"].is_null() || figure["difference"].as_f64() == Some(0.0),
            "{name}: {figure}"
        );
        assert!(
            !["better", "worse", "differs"].contains(&figure["word"].as_str().unwrap()),
            "{name}: {figure}"
        );
        let key = if name.ends_with("correct_rate") {
            format!("{name}(%)")
        } else {
            name.clone()
        };
        let Some(saved) = RESULT[&key].as_f64() else {
            continue;
        };
        let found = figure["first"].as_f64().unwrap();
        assert!(
            (found - saved).abs() <= 1e-6 * saved.abs(),
            "{name}: {found} of the requests, {saved} in the file"
        );
        checked += 1;
    }
    assert!(checked >= 20, "{checked}");
    assert!(
        ran.stderr.contains("gate passed: 0 of 6 rules broken"),
        "{}",
        ran.stderr
    );
}

#[test]
fn regressions_are_listed_with_their_cases_and_fail_the_gate() {
    let files = Files::new();
    let (a, b) = (
        files.put("a.json", &RESULT),
        files.put("b.json", &degraded(&RESULT, 1.5, 4)),
    );
    let rules = [
        "--run-spread",
        "5",
        "--fail-on",
        "correct_rate<-0.5pp",
        "--fail-on",
        "median_e2el_ms>+10%",
        "--require",
        "correct_rate>=99.5",
    ];
    let (ran, value) = compared(&[&[a.as_str(), &b], &rules[..], &["--changed", "2"]].concat());
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    for (name, word) in [
        ("correct_rate", "worse"),
        ("compliance", "worse"),
        ("coverage", "no_difference_seen"),
    ] {
        assert_eq!(figures(&value)[name]["word"], word, "{name}");
    }
    for (name, word) in [
        ("median_ttft_ms", "worse"),
        ("mean_itl_ms", "worse"),
        ("p99_ttft_ms", "too_few_samples"),
    ] {
        assert_eq!(figures(&value)[name]["word"], word, "{name}");
    }
    let against = &value["against_first"][0];
    let changed = &against["changed"];
    let (worse, cases) = (
        changed["worse"].as_u64().unwrap(),
        changed["cases"].as_array().unwrap(),
    );
    assert!(
        worse >= 25 && changed["better"] == 0 && cases.len() == 2,
        "{changed}"
    );
    assert!(cases[0]["first"]["text"].as_str().unwrap().starts_with('{'));
    assert_eq!(cases[0]["other"]["text"], "no JSON at all | <b>");
    assert_eq!(
        cases[0]["other"]["verdict"],
        "not JSON at byte 0: expected value"
    );
    let pairs = &figures(&value)["correct_rate"]["pairs"];
    assert_eq!(
        (pairs["only_first"].as_u64(), pairs["only_other"].as_u64()),
        (Some(worse), Some(0))
    );
    assert!(
        against["changes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|rule| rule["ruling"] == "broken"),
        "{against}"
    );
    assert_eq!(against["bounds"][0]["ruling"], "broken");
    for expected in [
        "gate failed: 3 of 3 rules broken, 0 kept",
        "gate: B: correct_rate<-0.5pp: correct_rate changed from",
        "correct_rate>=99.5: correct_rate is",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
    let text = compare(&[&a, &b, "--changed", "1"]).stdout;
    for expected in [
        "Cases with a changed verdict",
        "B: not JSON at byte 0: expected value: no JSON",
        "more; use --changed",
        "worse (p < 0.001)",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    let markdown = compare(&[&a, &b, "--format", "markdown", "--gate"]);
    assert_eq!(markdown.code, 1);
    assert!(
        markdown.stdout.starts_with("## Gate failed: ")
            && markdown.stdout.contains("| rule | A | B | change |")
    );
    assert!(
        markdown.stdout.contains("`B: not JSON at byte 0"),
        "{}",
        markdown.stdout
    );
    let turned = compared(&[&b, &a, "--fail-on", "correct_rate<-2pp"]);
    assert_eq!(
        (turned.0.code, &figures(&turned.1)["median_ttft_ms"]["word"]),
        (0, &json!("better"))
    );
}

#[test]
fn different_requests_are_not_comparable_and_both_values_are_shown() {
    let files = Files::new();
    let mut other = RESULT.clone();
    let record = &mut other["sobench"]["record"];
    record["server"]["model_id"] = json!("another/model");
    record["settings"]["dataset"]["output_len"] = json!(128);
    record["settings"]["dataset"]["seed"] = json!(7);
    record["settings"]["report"]["label"] = json!("second");
    let (a, b) = (files.put("a.json", &RESULT), files.put("b.json", &other));
    let (ran, value) = compared(&[&a, &b, "--gate"]);
    assert_eq!(
        (ran.code, &value["comparable"], &value["against_first"]),
        (4, &json!(false), &json!([]))
    );
    assert!(
        ran.stderr
            .contains("error: not comparable, different conditions: model, output_len"),
        "{}",
        ran.stderr
    );
    let text = compare(&[&a, &b]);
    assert_eq!(text.code, 4);
    for expected in [
        "another/model",
        "NOT COMPARABLE",
        "may affect figures",
        "second",
    ] {
        assert!(
            text.stdout.contains(expected),
            "{expected}:\n{}",
            text.stdout
        );
    }
    let mut more = RESULT.clone();
    more["sobench"]["record"]["dataset"]["sha256"] = json!("0123456789abcdef");
    let ran = compare(&[&a, &files.put("more.json", &more)]);
    let known = RESULT["sobench"]["record"]["dataset"]["sha256"]
        .as_str()
        .unwrap();
    let of = |hash: &str| format!("json, 160 requests, {}", &hash[..8]);
    let (one, other) = (of(known), of("0123456789abcdef"));
    assert!(
        ran.stderr.contains(&format!(
            "different conditions: dataset; the datasets are {one} and {other}"
        )),
        "{}",
        ran.stderr
    );
    assert!(
        [&one, &other]
            .iter()
            .all(|shown| ran.stdout.contains(*shown)),
        "{}",
        ran.stdout
    );
    assert_eq!(compare(&[&a, &b, "--allow-different", "model"]).code, 4);
    let allowed = compared(&[
        &a,
        &b,
        "--allow-different",
        "model",
        "--allow-different",
        "output_len",
    ]);
    assert_eq!(
        (allowed.0.code, &allowed.1["comparable"]),
        (0, &json!(true))
    );
    let finding = |field: &str| {
        let conditions = allowed.1["conditions"].as_array().unwrap();
        conditions
            .iter()
            .find(|condition| condition["field"] == field)
            .unwrap()["finding"]
            .clone()
    };
    assert_eq!(
        ["model", "seed", "label", "dataset"].map(finding),
        ["allowed", "notice", "listed", "same"]
    );
}

#[test]
fn baseline_is_small_deterministic_and_equivalent_to_its_run() {
    let files = Files::new();
    let (a, b) = (
        files.put("a.json", &RESULT),
        files.put("b.json", &degraded(&RESULT, 1.5, 4)),
    );
    let base = files.path("base.json").to_str().unwrap().to_owned();
    let write = || {
        let ran = compare(&[&a, "--write-baseline", &base]);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
        std::fs::read_to_string(&base).unwrap()
    };
    let text = write();
    assert_eq!(text, write(), "the same bytes every time");
    assert!(text.len() < 20_000, "{} bytes", text.len());
    assert!(!text.contains(RESULT["outputs"][0]["generated"].as_str().unwrap()));
    let contract: Value = serde_json::from_str(BASELINE).unwrap();
    let kept: Value = serde_json::from_str(&text).unwrap();
    assert!(
        jsonschema::draft202012::is_valid(&contract, &kept),
        "{text}"
    );
    let (of_run, of_baseline) = (
        compared(&[&a, &b, "--gate"]),
        compared(&[&base, &b, "--gate"]),
    );
    assert_eq!((of_run.0.code, of_baseline.0.code), (1, 1));
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
    assert_eq!(
        of_baseline.1["against_first"][0]["changed"]["cases"][0]["first"]["text"],
        Value::Null
    );
}

#[test]
fn file_without_requests_still_gives_rates_and_means() {
    let files = Files::new();
    let mut sums = RESULT.clone();
    for column in [
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "queue_times",
        "outputs",
        "generated_texts",
        "errors",
    ] {
        sums.as_object_mut().unwrap().shift_remove(column);
    }
    let (a, b) = (files.put("a.json", &sums), files.put("b.json", &RESULT));
    let (ran, value) = compared(&[
        &a,
        &b,
        "--fail-on",
        "median_ttft_ms>+10%",
        "--undecided",
        "fail",
    ]);
    assert_eq!(ran.code, 1, "undecided rules fail if the user requests it");
    let found = ["correct_rate", "mean_ttft_ms", "median_ttft_ms"]
        .map(|name| figures(&value)[name]["method"].clone());
    assert_eq!(found, [json!("newcombe"), json!("welch"), Value::Null]);
    assert_eq!(
        figures(&value)["median_ttft_ms"]["why_no_interval"],
        "a file has no requests (--save-detailed)"
    );
    let rule = [a.as_str(), &b, "--fail-on", "median_ttft_ms>+10%"];
    assert_eq!(compare(&rule).code, 5, "no rule could be decided");
    let passed = [&rule[..], &["--undecided", "pass"]].concat();
    assert_eq!(compare(&passed).code, 0);
}

#[test]
fn several_runs_of_a_side_are_pooled() {
    let files = Files::new();
    let factors = [0.85, 1.0, 1.2];
    let paths = factors.map(|factor| {
        files.put(
            &format!("run-{factor}.json"),
            &degraded(&RESULT, factor, 1000),
        )
    });
    let one = compared(&[&paths[1], &paths[1]]);
    let many = compared(&[&paths.join(","), files.0.path().to_str().unwrap()]);
    assert_eq!(many.1["sides"][1]["runs"].as_array().unwrap().len(), 3);
    let width = |value: &Value| {
        let interval = &figures(value)["median_ttft_ms"]["interval_percent"];
        interval[1].as_f64().unwrap() - interval[0].as_f64().unwrap()
    };
    assert!(
        width(&one.1) < 1e-6 && width(&many.1) > 10.0,
        "{} {}",
        width(&one.1),
        width(&many.1)
    );
    assert_eq!(
        figures(&many.1)["correct_rate"]["method"],
        "newcombe_and_runs"
    );
    let text = compare(&[&paths.join(","), &paths[0]]).stdout;
    assert!(text.contains("3 and 1 runs"), "{text}");
}

/// A run log of 60 requests, and the same log of a run that was killed after `ended` of them.
fn log_and_its_beginning(files: &Files, ended: usize) -> [String; 2] {
    let log = files.path("whole.jsonl").to_str().unwrap().to_owned();
    let flags = [
        "--dataset",
        "json",
        "--num-prompts",
        "60",
        "--output-len",
        "64",
    ];
    let ran = sobench(&[&flags[..], &["--max-concurrency", "8", "--run-log", &log]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let text = std::fs::read_to_string(&log).unwrap();
    let is_request = |line: &&str| line.starts_with("{\"request\"");
    let last = text.lines().filter(is_request).nth(ended - 1).unwrap();
    let begun = files.path("killed.jsonl");
    std::fs::write(&begun, &text[..text.find(last).unwrap() + last.len() + 1]).unwrap();
    [log, begun.to_str().unwrap().to_owned()]
}

#[test]
fn killed_run_is_judged_and_fails_the_gate() {
    let files = Files::new();
    let [whole, killed] = log_and_its_beginning(&files, 30);
    let rule = ["--fail-on", "correct_rate<-50pp"];
    let (ran, value) = compared(&[&[whole.as_str(), &killed], &rule[..]].concat());
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("gate failed: partial run B (")
            && ran
                .stderr
                .contains("killed.jsonl), 0 of 1 rules broken, 1 kept\nhint: "),
        "{}",
        ran.stderr
    );
    let gate = &value["gate"];
    assert_eq!(
        (&gate["verdict"], &gate["partial_runs"][0]["side"]),
        (&json!("failed"), &json!(1))
    );
    assert_eq!(value["sides"][1]["runs"][0]["partial"], true);
    // The half of the run that is there is judged.
    for name in ["correct_rate", "median_tpot_ms", "output_throughput"] {
        let figure = &figures(&value)[name];
        assert!(
            figure["first"].is_number() && figure["other"].is_number(),
            "{name}: {figure}"
        );
    }
    assert_eq!(figures(&value)["correct_rate"]["n"], json!([60, 30]));

    let markdown = compare(
        &[
            &[whole.as_str(), &killed, "--format", "markdown"],
            &rule[..],
        ]
        .concat(),
    );
    assert!(
        markdown.stdout.starts_with("## Gate failed: partial run B"),
        "{}",
        markdown.stdout
    );
    let (allowed, value) =
        compared(&[&[whole.as_str(), &killed, "--allow-partial"], &rule[..]].concat());
    assert_eq!(
        (allowed.code, &value["gate"]["verdict"]),
        (0, &json!("passed"))
    );
    assert!(
        allowed.stderr.contains("gate passed: partial run B (")
            && allowed.stderr.contains("note: "),
        "{}",
        allowed.stderr
    );

    // The baseline of a partial run stays partial.
    let base = files.path("base.json").to_str().unwrap().to_owned();
    assert_eq!(compare(&[&killed, "--write-baseline", &base]).code, 0);
    let ran = compare(&[&[base.as_str(), &whole], &rule[..]].concat());
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("gate failed: partial run A ("),
        "{}",
        ran.stderr
    );
}

#[test]
fn figure_that_the_later_run_lacks_breaks_its_rule() {
    let files = Files::new();
    let mut unjudged = RESULT.clone();
    for output in unjudged["outputs"].as_array_mut().unwrap() {
        output["correctness"] = Value::Null;
    }
    unjudged["sobench"]["metrics"]["correct_rate"] = Value::Null;
    unjudged
        .as_object_mut()
        .unwrap()
        .shift_remove("correct_rate(%)");
    let (a, b) = (files.put("a.json", &RESULT), files.put("b.json", &unjudged));
    let (ran, value) = compared(&[&a, &b, "--gate", "--undecided", "pass"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    assert_eq!(
        (
            &value["against_first"][0]["changes"][0]["ruling"],
            figures(&value)["correct_rate"]["first"].is_number()
        ),
        (&json!("absent"), true),
        "the first side keeps its rate"
    );
    assert!(
        ran.stderr.contains("gate failed: 1 of 6 rules broken"),
        "{}",
        ran.stderr
    );
    let (turned, _) = compared(&[&b, &a, "--gate", "--undecided", "pass"]);
    assert_eq!(turned.code, 0, "a new figure breaks no default rule");
}

/// A result of this many requests, of which the given ones are invalid.
fn of_requests(count: usize, invalid: impl Fn(usize) -> bool) -> Value {
    let mut result = RESULT.clone();
    let outputs = result["outputs"].as_array_mut().unwrap();
    let whole = outputs.iter().find(|output| output["arm"] == "constrained");
    let whole = whole.unwrap().clone();
    assert_eq!(whole["correctness"], true);
    let fit = |column: &mut Vec<Value>, first: Value| *column = vec![first; count];
    fit(outputs, whole);
    for (index, output) in outputs.iter_mut().enumerate() {
        output["case"] = format!("case-{index}").into();
        if invalid(index) {
            set_invalid(output);
        }
    }
    for column in [
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "queue_times",
        "generated_texts",
        "errors",
    ] {
        if let Some(values) = result[column].as_array_mut() {
            fit(values, values[0].clone());
        }
    }
    result["num_prompts"] = count.into();
    result["completed"] = count.into();
    result
}

#[test]
fn undecided_gate_has_an_exit_code_and_says_what_it_needs() {
    let files = Files::new();
    let valid = |count: usize| files.put(&format!("{count}.json"), &of_requests(count, |_| false));
    let (few, many) = (valid(200), valid(600));
    let rule = ["--fail-on", "correct_rate<-0.5pp"];
    let (ran, value) = compared(&[&[few.as_str(), &few], &rule[..]].concat());
    assert_eq!(
        (ran.code, &value["gate"]["verdict"], &value["failed"]),
        (5, &json!("undecided"), &json!(false))
    );
    assert_eq!(
        value["against_first"][0]["changes"][0]["needs"],
        json!({"requests": 598})
    );
    for expected in [
        "gate: B: correct_rate<-0.5pp: undecided: rules out a loss over 1.5 pp; 0.5 pp needs about 600 requests a side\n",
        "gate undecided: 0 of 1 rules broken, 0 kept, undecided: correct_rate<-0.5pp\nhint: ",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {}", ran.stderr);
    }
    for (undecided, code, verdict) in [
        (
            "pass",
            0,
            "gate passed: 0 of 1 rules broken, 0 kept, undecided: correct_rate<-0.5pp",
        ),
        (
            "fail",
            1,
            "gate failed: 0 of 1 rules broken, 0 kept, undecided: correct_rate<-0.5pp",
        ),
    ] {
        let arguments = [&[few.as_str(), &few, "--undecided", undecided], &rule[..]].concat();
        let ran = compare(&arguments);
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert!(ran.stderr.contains(verdict), "{}", ran.stderr);
    }
    // What the samples decide, in both directions.
    let bad = files.put(
        "bad.json",
        &of_requests(600, |index| index.is_multiple_of(20)),
    );
    for (sides, rule, code) in [
        ([&many, &many], "correct_rate<-0.5pp", 0),
        ([&few, &few], "correct_rate<-2pp", 0),
        ([&many, &bad], "correct_rate<-2pp", 1),
        ([&bad, &many], "correct_rate<-2pp", 0),
    ] {
        let ran = compare(&[sides[0], sides[1], "--fail-on", rule]);
        assert_eq!(ran.code, code, "{rule}: {}", ran.stderr);
    }
    // One run a side: the default rules on times do not count, and are named.
    let ran = compare(&[&few, &few, "--gate"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let first = "gate passed: 0 of 6 rules broken, 2 kept, not counted (needs 3 runs a side): median_ttft_ms>+10%, p90_ttft_ms>+15%, ";
    assert!(ran.stderr.contains(first), "{}", ran.stderr);
}

#[test]
fn cases_that_fail_in_one_of_three_runs_are_listed() {
    let files = Files::new();
    let sides = [false, true].map(|is_bad| {
        let runs = [0, 1, 2].map(|run| {
            let invalid = move |index: usize| is_bad && index.is_multiple_of(7) && index % 3 == run;
            files.put(&format!("{is_bad}-{run}.json"), &of_requests(60, invalid))
        });
        runs.join(",")
    });
    let (_, value) = compared(&[&sides[0], &sides[1]]);
    let changed = &value["against_first"][0]["changed"];
    assert_eq!(
        (&changed["worse"], &changed["better"]),
        (&json!(9), &json!(0))
    );
    let text = compare(&[&sides[0], &sides[1]]).stdout;
    for expected in [
        "9 correct in a smaller share of the runs of B than of A, 0 in a larger share, of 60 judged",
        "B (2 of 3 runs correct)",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn rules_on_times_need_three_runs_or_a_given_spread() {
    let files = Files::new();
    let sides: Vec<String> = ["a", "b"]
        .iter()
        .map(|side| {
            let factor = if *side == "a" { 1.0 } else { 1.5 };
            let runs = [0.99, 1.0, 1.01].map(|run| {
                files.put(
                    &format!("{side}-{run}.json"),
                    &degraded(&RESULT, factor * run, 1000),
                )
            });
            runs.join(",")
        })
        .collect();
    let one: Vec<&str> = sides
        .iter()
        .map(|side| side.split(',').next().unwrap())
        .collect();
    let rule = ["--fail-on", "median_e2el_ms>+10%"];
    let ruling = |sides: &[&str], flags: &[&str]| {
        let (ran, value) = compared(&[sides, &rule[..], flags].concat());
        let change = &value["against_first"][0]["changes"][0];
        (
            ran.code,
            change["ruling"].as_str().unwrap().to_owned(),
            change["words"].as_str().unwrap().to_owned(),
        )
    };
    let (code, found, words) = ruling(&one, &["--undecided", "pass"]);
    assert_eq!((code, found.as_str()), (0, "undecided"));
    assert_eq!(words, "undecided: needs 3 runs a side, or --run-spread");
    let text = compare(&one).stdout;
    assert!(text.contains("worse in these runs"), "{text}");
    for (spread, code, expected) in [
        ("5", 1, "broken"),
        ("e2el=5%", 1, "broken"),
        ("median_e2el_ms=80%", 5, "undecided"),
        ("ttft=5%", 5, "undecided"),
    ] {
        let found = ruling(&one, &["--run-spread", spread]);
        assert_eq!((found.0, found.1.as_str()), (code, expected), "{spread}");
    }
    let three: Vec<&str> = sides.iter().map(String::as_str).collect();
    assert_eq!(ruling(&three, &[]).1, "broken");
    let same = [three[0], three[0], "--gate", "--undecided", "pass"];
    let (ran, value) = compared(&same);
    assert_eq!((ran.code, &value["gate"]["verdict"]), (0, &json!("passed")));
    assert_eq!(
        figures(&value)["median_e2el_ms"]["method"],
        "student_of_runs"
    );
}

#[test]
fn times_that_the_client_may_have_distorted_are_not_compared() {
    let files = Files::new();
    let mut slower = degraded(&RESULT, 2.0, 1000);
    let bound = |figure: &str| json!({"figure": figure, "value": 1.0, "added": 0.9});
    slower["sobench"]["client"]["bounds"] = [bound("median_ttft_ms"), bound("mean_e2el_ms")].into();
    let (a, b) = (files.put("a.json", &RESULT), files.put("b.json", &slower));
    let (ran, value) = compared(&[&a, &b, "--gate", "--run-spread", "5", "--undecided", "pass"]);
    let changes = value["against_first"][0]["changes"].as_array().unwrap();
    let of_ttft = changes
        .iter()
        .find(|change| change["metric"] == "median_ttft_ms");
    assert_eq!(of_ttft.unwrap()["ruling"], "undecided", "{}", ran.stderr);
    for name in ["median_ttft_ms", "mean_e2el_ms"] {
        let figure = &figures(&value)[name];
        assert_eq!(
            (&figure["word"], &figure["why_no_interval"]),
            (
                &json!("not_tested"),
                &json!("the client may have distorted it")
            ),
            "{name}"
        );
    }
    let distrusted = value["sides"][1]["runs"][0]["distrusted"]
        .as_array()
        .unwrap();
    assert!(
        distrusted.contains(&json!("median_ttft_ms")),
        "{distrusted:?}"
    );
}

#[test]
fn vllm_result_files_are_compared() {
    let fixture = |name: &str| {
        repository_path("fixtures/compare")
            .join(name)
            .to_str()
            .unwrap()
            .to_owned()
    };
    let (a, b) = (
        fixture("vllm-bench-serve-a.json"),
        fixture("vllm-bench-serve-b.json"),
    );
    let (ran, value) = compared(&[&a, &b]);
    assert_eq!(
        (ran.code, &value["against_first"][0]["pairing"]),
        (0, &json!("by_place"))
    );
    assert_eq!(figures(&value)["median_ttft_ms"]["word"], "worse");
    assert_eq!(
        figures(&value)["mean_tpot_ms"]["n"],
        json!([39, 38]),
        "failed requests do not count as 0"
    );
    assert_eq!(
        figures(&value)["request_throughput"]["method"],
        "block_bootstrap"
    );
    assert!(
        figures(&value).get("max_output_tokens_per_s").is_none(),
        "vLLM counts chunks there"
    );
    assert_eq!(
        figures(&value)["max_output_chunks_per_s"]["first"].as_f64(),
        Some(160.0)
    );
    let (a, b) = (fixture("vllm-script-a.txt"), fixture("vllm-script-b.txt"));
    let (ran, value) = compared(&[&a, &b, "--fail-on", "vllm_correct_rate<-5pp"]);
    assert_eq!(
        (ran.code, &figures(&value)["vllm_correct_rate"]["word"]),
        (1, &json!("worse"))
    );
    assert!(
        figures(&value).get("correct_rate").is_none(),
        "the script's formula is not a correct rate"
    );
    assert!(
        figures(&value)["request_throughput"]["why_no_interval"]
            .as_str()
            .unwrap()
            .contains("no timestamps")
    );
    assert_eq!(value["against_first"][0]["changed"]["worse"], 9);
}

#[test]
fn invalid_rules_and_results_exit_with_2() {
    let files = Files::new();
    let good = files.put("a.json", &RESULT);
    let broken = [
        ("list", json!([1])),
        ("other", json!({"a": 1})),
        ("empty", json!(null)),
    ]
    .map(|(name, value)| files.put(name, &value));
    let missing = files.path("missing.json").to_str().unwrap().to_owned();
    for (arguments, expected) in [
        (
            vec![good.as_str(), &good, "--fail-on", "corect_rate<-1pp"],
            "nearest names are correct_rate",
        ),
        (
            vec![&good, &good, "--fail-on", "correct_rate<-1%"],
            "use `pp` instead of `%`",
        ),
        (
            vec![&good, &good, "--require", "p99_ttft_ms"],
            "write the name of a figure",
        ),
        (vec![&good, &broken[0]], "not a result"),
        (vec![&good, &broken[1]], "unknown result format"),
        (vec![&good, &broken[2]], "not a result"),
        (vec![&good, &missing], "cannot read "),
        (vec![&good], "nothing to compare"),
    ] {
        let ran = compare(&arguments);
        assert!(
            ran.code == 2 && ran.stderr.contains(expected),
            "{arguments:?}: {} {}",
            ran.code,
            ran.stderr
        );
    }
    assert!(Path::new(&good).exists());
}

#[test]
fn run_log_and_result_give_the_same_figures() {
    let files = Files::new();
    let (log, folder) = (
        files.path("run.jsonl"),
        files.0.path().to_str().unwrap().to_owned(),
    );
    let flags = [
        "--dataset",
        "choice",
        "--num-prompts",
        "60",
        "--output-len",
        "8",
        "--max-concurrency",
        "8",
        "--save-detailed",
    ];
    let place = [
        "--save-result",
        "--result-dir",
        &folder,
        "--result-filename",
        "result.json",
        "--run-log",
        log.to_str().unwrap(),
    ];
    let ran = sobench(&[&flags[..], &place[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let result = files.path("result.json").to_str().unwrap().to_owned();
    let (ran, value) = compared(&[&result, log.to_str().unwrap()]);
    assert_eq!(
        (ran.code, &value["sides"][1]["runs"][0]["kind"]),
        (0, &json!("sobench_run_log")),
        "{}",
        ran.stderr
    );
    assert_eq!(value["against_first"][0]["pairing"], "by_case");
    for (name, figure) in figures(&value).as_object().unwrap() {
        let close = figure["difference"].as_f64().is_some_and(|difference| {
            difference.abs() <= 1e-9 * figure["first"].as_f64().unwrap().abs()
        });
        assert!(close, "{name}: {figure}");
    }
    let conditions = value["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .all(|condition| condition["finding"] == "same"),
        "{conditions:?}"
    );
}

#[test]
fn require_checks_absolute_thresholds() {
    let run = |rules: &[&str]| {
        let rules = rules.iter().flat_map(|rule| ["--require", rule]);
        sobench(
            &["--num-prompts", "20", "--no-run-log"]
                .into_iter()
                .chain(rules)
                .collect::<Vec<_>>(),
        )
    };
    let kept = run(&["correct_rate>=50", "failed<=0"]);
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    let broken = run(&["completed>=21"]);
    assert_eq!(broken.code, 1, "{}", broken.stderr);
    assert!(
        broken.stderr.contains("require: completed")
            && broken.stdout.contains("Serving Benchmark Result"),
        "{}",
        broken.stderr
    );
    let nonsense = run(&["correct_rat>=1"]);
    assert_eq!(nonsense.code, 2, "{}", nonsense.stderr);
    assert!(
        nonsense.stderr.contains("correct_rate"),
        "{}",
        nonsense.stderr
    );
}

/// A run, too, has three verdicts on its thresholds.
#[test]
fn undecided_threshold_of_a_run_has_an_exit_code() {
    let run = [
        "--dataset",
        "choice",
        "--num-prompts",
        "20",
        "--disable-tqdm",
        "--no-run-log",
    ];
    let few = ["--require", "p99_e2el_ms<=0.001"];
    let kept = ["--require", "completed>=20"];
    let broken = ["--require", "completed>=21"];
    for (rules, undecided, code) in [
        (vec![kept], None, 0),
        (vec![kept, few], None, 5),
        (vec![kept, few], Some("pass"), 0),
        (vec![kept, few], Some("fail"), 1),
        (vec![few, broken], None, 1),
        (vec![few, broken], Some("pass"), 1),
    ] {
        let flag = undecided.map(|what| ["--undecided", what]);
        let flags = [
            &run[..],
            &rules.concat(),
            flag.as_ref().map_or(&[], |flag| &flag[..]),
        ];
        let ran = sobench(&flags.concat());
        assert_eq!(ran.code, code, "{rules:?} {undecided:?}: {}", ran.stderr);
    }
}
