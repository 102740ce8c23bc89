//! Load options: ramp-up, duration, caps, warm-up, and their record in the result.

use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;
use sobench_pycompat::random::NumpyRandom;
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::{check_result, sobench};

/// Runs on the embedded engine. Returns the result, validated against its contract, and stdout.
fn saved(arguments: &[&str]) -> (Value, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let fixed = [
        "--save-detailed",
        "--result-dir",
        path,
        "--result-filename",
        "r.json",
        "--detail",
        "full",
    ];
    let dataset = if arguments.contains(&"--dataset") {
        &[][..]
    } else {
        &["--dataset", "choice"][..]
    };
    let ran = sobench(&[&fixed[..], dataset, arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let file: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("r.json")).unwrap())
            .unwrap();
    assert_eq!(check_result(&file), Ok(()), "{arguments:?}");
    (file, ran.stdout)
}

fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|value| value.as_f64().unwrap())
        .collect()
}

#[test]
fn ramp_up_is_recorded_in_vllm_keys_and_per_request() {
    let ramp = [
        "--ramp-up-strategy",
        "linear",
        "--ramp-up-start-rps",
        "100",
        "--ramp-up-end-rps",
        "103",
        "--num-prompts",
        "4",
    ];
    let (file, console) = saved(&ramp);
    assert_eq!(
        (&file["ramp_up_strategy"], &file["request_rate"]),
        (&Value::from("linear"), &Value::from("inf"))
    );
    assert_eq!(
        numbers(&file["request_rates"]),
        [100.0, 101.0, 102.0, 103.0]
    );
    let events = file["rps_change_events"].as_array().unwrap();
    assert_eq!(
        events
            .iter()
            .map(|event| event["rps"].as_u64().unwrap())
            .collect::<Vec<_>>(),
        [100, 101, 102, 103]
    );
    assert!(events.is_sorted_by_key(|event| event["timestamp"].as_str().unwrap().to_owned()));
    // Due times are NumPy's for the seed, without rescaling.
    let mut random = NumpyRandom::new(0);
    let due_s: f64 = [100.0, 101.0, 102.0, 103.0]
        .iter()
        .map(|rate| random.gamma(1.0, 1.0 / rate))
        .sum();
    let scheduled = file["sobench"]["load"]["offered"]["scheduled_rps"]
        .as_f64()
        .unwrap();
    assert!((scheduled * due_s / 4.0 - 1.0).abs() < 1e-6, "{scheduled}");
    assert!(console.contains("100 to 103 (linear)"), "{console}");
}

#[test]
fn closed_loop_with_duration_repeats_cases() {
    let (file, console) = saved(&[
        "--max-concurrency",
        "4",
        "--duration",
        "1.5",
        "--output-len",
        "4",
        "--num-warmups",
        "6",
    ]);
    let own = &file["sobench"];
    let requests = file["num_prompts"].as_u64().unwrap();
    assert!(requests > 4, "{requests}");
    assert_eq!(own["load"]["duration_limit_s"].as_f64(), Some(1.5));
    assert_eq!(
        (file["completed"].as_u64(), own["warmup_requests"].as_u64()),
        (Some(requests), Some(6))
    );
    assert!(
        own["overall"]["throughput"]["max_in_flight"]
            .as_u64()
            .unwrap()
            <= 4
    );
    let window = &file["steady_state"]["window"];
    assert_eq!(
        (
            window["target_concurrency"].as_u64(),
            window["threshold_abs"].as_u64()
        ),
        (Some(4), Some(4))
    );
    assert_eq!(window["observed_peak"].as_u64(), Some(4));
    assert!(
        window["warning"]
            .as_str()
            .unwrap()
            .contains("may not be representative"),
        "under ten seconds"
    );
    assert!(
        console.contains("sending ended after") && console.contains("Steady state"),
        "{console}"
    );
    let outputs = file["outputs"].as_array().unwrap();
    let ids: std::collections::HashSet<&str> = outputs
        .iter()
        .map(|output| output["case"].as_str().unwrap())
        .collect();
    assert_eq!(
        ids.len(),
        outputs.len(),
        "ids are unique although cases repeat"
    );
}

#[test]
fn open_loop_ends_at_the_number_or_duration() {
    let (file, _) = saved(&["--request-rate", "100", "--duration", "0.2"]);
    assert_eq!(file["num_prompts"].as_u64(), Some(20));
    let (file, _) = saved(&[
        "--request-rate",
        "100",
        "--duration",
        "60",
        "--num-prompts",
        "5",
    ]);
    assert_eq!(
        (file["num_prompts"].as_u64(), &file["steady_state"]),
        (Some(5), &Value::Null)
    );
    assert_eq!(
        file.get("steady_state"),
        None,
        "no steady state without a cap"
    );
}

#[test]
fn results_contain_the_client_overhead() {
    let (file, console) = saved(&["--num-prompts", "5"]);
    let client = &file["sobench"]["client"];
    assert_eq!(client["includes_server"], true);
    assert_eq!(client["burst"]["requests"].as_u64(), Some(5));
    let verdicts = ["not_the_bottleneck", "unknown", "do_not_trust"];
    assert!(verdicts.contains(&client["verdict"].as_str().unwrap()));
    let bounds = client["bounds"].as_array().unwrap();
    assert!(bounds.iter().any(|bound| bound["figure"] == "p99_ttft_ms"));
    assert!(console.contains("include the embedded server"), "{console}");
    if cfg!(target_os = "linux") {
        assert!(
            client["cpu_s"].as_f64().unwrap() > 0.0
                && client["peak_memory_mib"].as_f64().unwrap() > 1.0
        );
    }
}

#[test]
fn continuous_usage_gives_itl_per_counted_token() {
    let run = [
        "--dataset",
        "json",
        "--num-prompts",
        "3",
        "--output-len",
        "8",
    ];
    let counted = |more: &[&str]| {
        let (file, _) = saved(&[&run[..], more].concat());
        let latency = &file["sobench"]["overall"]["latency"];
        (
            latency["itl_counted_ms"]["n"].as_u64().unwrap(),
            latency["chunks"].as_u64().unwrap(),
        )
    };
    assert_eq!(counted(&[]).0, 0);
    let (tokens, chunks) = counted(&["--continuous-usage"]);
    assert!(
        tokens >= chunks - 3,
        "{tokens} tokens after the first chunks, in {chunks} chunks"
    );
}

/// The server stops the client by a signal while requests become due. Without that, delays depend
/// on the machine.
#[cfg(unix)]
#[test]
fn delayed_client_fails_a_strict_run() {
    use rustix::process::{Pid, Signal, kill_process};
    let client = Arc::new(OnceLock::<Pid>::new());
    let client_to_stop = Arc::clone(&client);
    let event = r#"data: {"choices":[{"index":0,"text":"Positive","finish_reason":"stop"}]}"#;
    let server = ScriptedServer::answering(move |request| {
        if request.is_model_list() {
            return models();
        }
        if request.header("x-request-id") == Some("r-0") {
            let client = *client_to_stop.wait();
            kill_process(client, Signal::STOP).unwrap();
            std::thread::sleep(Duration::from_secs(2));
            kill_process(client, Signal::CONT).unwrap();
        }
        whole(
            "200 OK",
            "text/event-stream",
            &format!("{event}\n\ndata: [DONE]\n\n"),
        )
    });
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args([
            "--base-url",
            &server.base_url,
            "--dataset",
            "choice",
            "--skip-preflight",
            "--request-id-prefix",
            "r-",
        ])
        .args([
            "--num-prompts",
            "20",
            "--request-rate",
            "10",
            "--strict-client",
            "--disable-tqdm",
            "--no-run-log",
        ])
        .args([
            "--save-result",
            "--result-filename",
            "r.json",
            "--result-dir",
        ])
        .arg(folder.path())
        .env_remove("OPENAI_API_KEY")
        .env("NO_PROXY", "127.0.0.1")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    client.set(Pid::from_child(&run)).unwrap();
    let ran = run.wait_with_output().unwrap();
    let stderr = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("warning: not trusted: ") && stderr.contains(": client may have "),
        "{stderr}"
    );
    let file: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("r.json")).unwrap())
            .unwrap();
    let client = &file["sobench"]["client"];
    assert_eq!(client["verdict"], "do_not_trust");
    let doubts = client["doubts"].as_array().unwrap();
    assert!(
        doubts
            .iter()
            .any(|doubt| doubt["measure"] == "p99_ttft_from_due_ms"),
        "{client}"
    );
}

#[test]
fn cold_schemas_are_reported_separately() {
    let run = [
        "--dataset",
        "json",
        "--num-prompts",
        "24",
        "--request-rate",
        "60",
        "--output-len",
        "40",
        "--cold-schema-every",
        "6",
    ];
    let (file, console) = saved(&run);
    let load = &file["sobench"]["load"];
    let (uses, cold) = (&load["first_uses"], &load["cold_load"]);
    assert_eq!(
        (cold["every"].as_u64(), cold["requests"].as_u64()),
        (Some(6), Some(4))
    );
    // The run's own schema is known from the trial request; four more are new.
    assert_eq!(
        (uses["constraints"].as_u64(), uses["known_before"].as_u64()),
        (Some(5), Some(1))
    );
    assert_eq!(
        (uses["cold"].as_u64(), uses["warm"].as_u64()),
        (Some(4), Some(20))
    );
    assert!(cold["window_ms"].as_f64().unwrap() > 0.0);
    let others = |figure: &Value| {
        ["beside_new_ms", "beside_known_ms"].map(|side| figure[side]["n"].as_u64().unwrap())
    };
    assert!(others(&cold["ttft"]).iter().sum::<u64>() <= 20);
    assert!(others(&cold["itl"]).iter().sum::<u64>() > 0);
    assert!(console.contains("new schemas: 4, one in 6"), "{console}");
    let outputs = file["outputs"].as_array().unwrap();
    assert_eq!(
        outputs
            .iter()
            .filter(|output| output["tags"][0] == "cold-schema")
            .count(),
        4
    );
    assert!(
        outputs.iter().all(|output| output["correctness"] != false),
        "the additional optional member invalidates no answer"
    );
}

#[test]
fn cold_schemas_need_a_json_schema_dataset() {
    let ran = sobench(&["--dataset", "choice", "--cold-schema-every", "3"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("no JSON Schema to change"),
        "{}",
        ran.stderr
    );
}
