//! Loads as a user asks for them: ramps, durations, caps, warm-ups, and what the saved file says of them.

use serde_json::Value;
use sobench::random::NumpyRandom;

use crate::contracts;
use crate::support::sobench;

/// The result file of a run on the embedded engine, held to its contract, and what was printed.
fn saved(arguments: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let fixed = ["--save-detailed", "--result-dir", path, "--result-filename", "r.json", "--dataset", "choice"];
    let ran = sobench(&[&fixed[..], arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let file: Value = serde_json::from_str(&std::fs::read_to_string(folder.path().join("r.json")).unwrap()).unwrap();
    assert_eq!(contracts::check(&file), Ok(()), "{arguments:?}");
    (file, ran.stdout)
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|it| it.as_f64().unwrap()).collect()
}

#[test]
fn a_ramp_is_recorded_in_vllms_keys_and_at_every_request() {
    let ramp = ["--ramp-up-strategy", "linear", "--ramp-up-start-rps", "100", "--ramp-up-end-rps", "103", "--num-prompts", "4"];
    let (file, console) = saved(&ramp);
    assert_eq!((&file["ramp_up_strategy"], &file["request_rate"]), (&Value::from("linear"), &Value::from("inf")));
    assert_eq!(numbers(&file["request_rates"]), [100.0, 101.0, 102.0, 103.0]);
    let events = file["rps_change_events"].as_array().unwrap();
    assert_eq!(events.iter().map(|it| it["rps"].as_u64().unwrap()).collect::<Vec<_>>(), [100, 101, 102, 103]);
    assert!(events.is_sorted_by_key(|it| it["timestamp"].as_str().unwrap().to_owned()));
    // Due times are the seed's: those of NumPy, without rescaling.
    let mut random = NumpyRandom::new(0);
    let due_s: f64 = [100.0, 101.0, 102.0, 103.0].iter().map(|rate| random.gamma(1.0, 1.0 / rate)).sum();
    let scheduled = file["sobench"]["load"]["offered"]["scheduled_rps"].as_f64().unwrap();
    assert!((scheduled * due_s / 4.0 - 1.0).abs() < 1e-6, "{scheduled}");
    assert!(console.contains("100 to 103 (linear)"), "{console}");
}

#[test]
fn a_closed_loop_of_a_given_duration_goes_round() {
    let (file, console) = saved(&["--max-concurrency", "4", "--duration", "1.5", "--output-len", "4", "--num-warmups", "6"]);
    let own = &file["sobench"];
    let requests = file["num_prompts"].as_u64().unwrap();
    assert!(requests > 4, "{requests}");
    assert_eq!(own["load"]["duration_limit_s"].as_f64(), Some(1.5));
    assert!(numbers(&file["start_times"]).iter().all(|&at| at < 1.5), "nothing is sent after the end");
    assert_eq!((file["completed"].as_u64(), own["warmup_requests"].as_u64()), (Some(requests), Some(6)));
    assert!(own["overall"]["throughput"]["max_in_flight"].as_u64().unwrap() <= 4);
    let window = &file["steady_state"]["window"];
    assert_eq!((window["target_concurrency"].as_u64(), window["threshold_abs"].as_u64()), (Some(4), Some(4)));
    assert_eq!(window["observed_peak"].as_u64(), Some(4));
    assert!(window["warning"].as_str().unwrap().contains("may not be representative"), "under ten seconds");
    assert!(console.contains("sending ended after") && console.contains("The steady state"), "{console}");
    let outputs = file["outputs"].as_array().unwrap();
    let ids: std::collections::HashSet<&str> = outputs.iter().map(|it| it["case"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), outputs.len(), "ids are unique though cases go round");
}

#[test]
fn number_and_rate_end_where_they_are_asked_to() {
    let (file, _) = saved(&["--request-rate", "100", "--duration", "0.2"]);
    assert_eq!(file["num_prompts"].as_u64(), Some(20));
    let (file, _) = saved(&["--request-rate", "100", "--duration", "60", "--num-prompts", "5"]);
    assert_eq!((file["num_prompts"].as_u64(), &file["steady_state"]), (Some(5), &Value::Null));
    assert_eq!(file.get("steady_state"), None, "without a cap there is none to be steady at");
}

#[test]
fn every_result_says_what_the_client_took_and_whether_it_stood_in_the_way() {
    let (file, console) = saved(&["--num-prompts", "5"]);
    let client = &file["sobench"]["client"];
    assert_eq!(client["includes_server"], true);
    assert_eq!(client["burst"]["requests"].as_u64(), Some(5));
    assert!(["not_the_bottleneck", "do_not_trust"].contains(&client["verdict"].as_str().unwrap()));
    assert!(console.contains("include the embedded server"), "{console}");
    if cfg!(target_os = "linux") {
        assert!(client["cpu_s"].as_f64().unwrap() > 0.0 && client["peak_memory_mib"].as_f64().unwrap() > 1.0);
    }
}
