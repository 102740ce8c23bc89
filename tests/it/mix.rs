//! Runs with several datasets: each has its requests and figures, and they sum to those of the run.

use serde_json::{Value, json};
use sobench_testkit::repository_path;

use crate::support::{Folder, Ran, check_result, sobench, sobench_result};

fn mixed(arguments: &[&str]) -> (Ran, Value) {
    let chats = repository_path("fixtures/datasets/sharegpt.json");
    let mix = format!("json:0.5,regex:0.3,sharegpt={}:0.2", chats.display());
    let fixed = [
        "--num-prompts 20 --max-concurrency 8 --output-len 64 --mix",
        &mix,
    ];
    let (ran, result) = sobench_result(&[&fixed, arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(check_result(&result), Ok(()));
    (ran, result)
}

#[test]
fn each_dataset_has_its_requests_and_its_figures() {
    let folder = Folder::new();
    let log = folder.path("run.jsonl");
    let (ran, result) = mixed(&["--save-detailed --seed 1 --run-log", &log]);
    let own = &result["sobench"];
    let groups = own["groups"].as_array().unwrap();
    let parts = groups.iter().filter(|group| group["dataset"].is_string());
    let parts = parts.map(|part| {
        let metrics = &part["metrics"];
        json!([
            part["dataset"],
            metrics["ttft_ms"]["n"],
            metrics["correct_rate"]["of"]
        ])
    });
    let expected = json!([["regex", 6, 6], ["json", 10, 10], ["sharegpt", 4, null]]);
    assert_eq!(parts.collect::<Value>(), expected);
    let arms = ["constrained", "free"].map(|arm| {
        let group = groups.iter().find(|group| group["arm"] == arm);
        &group.unwrap()["metrics"]["requests"]
    });
    assert_eq!(
        (&own["metrics"]["correct_rate"]["of"], arms),
        (&json!(16), [&json!(16.0), &json!(4.0)])
    );
    let first_ten = &result["outputs"].as_array().unwrap()[..10];
    let is_json = |output: &&Value| output["case"].as_str().unwrap().starts_with("json-");
    let of_json = first_ten.iter().filter(is_json).count();
    assert!(
        (1..10).contains(&of_json),
        "the datasets are interleaved: {of_json}"
    );
    let again = sobench(&["report", &log, "--detail full"]);
    assert_eq!(again.stdout, ran.stdout);

    let hash = |result: &Value| {
        result["sobench"]["dataset"]["sha256"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let [same, other] =
        ["--seed 1", "--seed 2"].map(|seed| hash(&mixed(&[seed, "--no-run-log"]).1));
    assert_eq!(hash(&result), same);
    assert_ne!(same, other);
}
