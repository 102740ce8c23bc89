//! Runs with several datasets: each has its requests and figures, and they sum to those of the run.

use serde_json::Value;
use sobench_testkit::repository_path;

use crate::support::{check_result, sobench, sobench_result};

fn mixed(arguments: &[&str]) -> (crate::support::Ran, Value) {
    let chats = repository_path("fixtures/datasets/sharegpt.json");
    let mix = format!("json:0.5,regex:0.3,sharegpt={}:0.2", chats.display());
    let mut all = vec![
        "--mix",
        mix.as_str(),
        "--num-prompts 20 --max-concurrency 8 --output-len 64",
    ];
    all.extend_from_slice(arguments);
    sobench_result(&all)
}

#[test]
fn each_dataset_has_its_requests_and_its_figures() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("run.jsonl");
    let (ran, result) = mixed(&["--run-log", log.to_str().unwrap(), "--save-detailed"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(check_result(&result), Ok(()));
    let own = &result["sobench"];
    let mut parts: Vec<(&str, u64, Option<u64>)> = Vec::new();
    for part in own["datasets"].as_array().unwrap() {
        let requests = part["metrics"]["requests"].as_u64().unwrap();
        parts.push((
            part["name"].as_str().unwrap(),
            requests,
            part["quality"]["correct_rate"]["of"].as_u64(),
        ));
        assert_eq!(
            part["metrics"]["latency"]["ttft_ms"]["n"].as_u64(),
            Some(requests)
        );
    }
    parts.sort_unstable();
    assert_eq!(
        parts,
        [
            ("json", 10, Some(10)),
            ("regex", 6, Some(6)),
            ("sharegpt", 4, None)
        ]
    );
    assert_eq!(own["quality"]["judged"].as_u64(), Some(16));
    assert_eq!(
        (
            &own["arms"]["constrained"]["requests"],
            &own["arms"]["free"]["requests"]
        ),
        (&16.into(), &4.into())
    );
    let cases: Vec<&str> = result["outputs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|output| output["case"].as_str().unwrap())
        .collect();
    let first_ten: Vec<bool> = cases[..10]
        .iter()
        .map(|case| case.starts_with("json-"))
        .collect();
    assert!(
        first_ten.contains(&true) && first_ten.contains(&false),
        "the datasets are interleaved: {cases:?}"
    );
    assert!(ran.stdout.contains("By dataset\n"), "{}", ran.stdout);
    let again = sobench(&["report", log.to_str().unwrap(), "--detail full"]);
    assert_eq!(again.stdout, ran.stdout);
}

#[test]
fn same_seed_gives_the_same_mix() {
    let hash = |seed: &str| {
        mixed(&["--seed", seed, "--no-run-log"]).1["sobench"]["dataset"]["sha256"].clone()
    };
    let first = hash("1");
    assert!(first.is_string() && first == hash("1") && first != hash("2"));
}
