//! Load options: duration, caps, warm-up, and a client that is held up.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::json;
use sobench_testkit::scripted::{ScriptedServer, models, whole};

use crate::support::{Folder, Running, check_result, program, sobench_result};

#[test]
fn closed_loop_with_duration_repeats_cases() {
    let flags =
        "--dataset choice --max-concurrency 4 --duration 0.5 --output-len 4 --num-warmups 6";
    let (ran, file) = sobench_result(&[flags, "--save-detailed"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(check_result(&file), Ok(()));
    let own = &file["sobench"];
    let requests = file["num_prompts"].as_u64().unwrap();
    assert!(requests > 4, "{requests}");
    assert_eq!(own["load"]["duration_limit_s"].as_f64(), Some(0.5));
    assert_eq!(
        (&file["completed"], &own["warmup_requests"]),
        (&json!(requests), &json!(6))
    );
    let window = &file["steady_state"]["window"];
    assert_eq!(
        (&window["target_concurrency"], &window["observed_peak"]),
        (&json!(4), &json!(4))
    );
    let outputs = file["outputs"].as_array().unwrap();
    let ids: HashSet<&str> = outputs
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
    for (limits, requests) in [("--duration 0.2", 20), ("--duration 60 --num-prompts 5", 5)] {
        let (ran, file) = sobench_result(&["--dataset choice --request-rate 100", limits]);
        assert_eq!(
            (ran.code, &file["num_prompts"]),
            (0, &json!(requests)),
            "{}",
            ran.stderr
        );
        assert_eq!(
            file.get("steady_state"),
            None,
            "no steady state without a cap"
        );
    }
}

/// The server stops the client by a signal while requests become due. Without that, delays depend
/// on the machine.
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
            std::thread::sleep(Duration::from_secs(1));
            kill_process(client, Signal::CONT).unwrap();
        }
        whole(
            "200 OK",
            "text/event-stream",
            &format!("{event}\n\ndata: [DONE]\n\n"),
        )
    });
    let folder = Folder::new();
    let running = Running::start(&mut program(&[
        "--dataset choice --skip-preflight --request-id-prefix r- --num-prompts 20 --request-rate 20",
        "--strict-client --disable-tqdm --no-run-log --save-result --result-filename r.json",
        "--result-dir",
        &folder.path(""),
        "--base-url",
        &server.base_url,
    ]));
    client.set(Pid::from_child(&running.child)).unwrap();
    running.end().assert_exits(1, &["warning: not trusted: "]);
    let client = &folder.json("r.json")["sobench"]["client"];
    assert_eq!(client["verdict"], "do_not_trust");
    let mut doubts = client["doubts"].as_array().unwrap().iter();
    assert!(
        doubts.any(|doubt| doubt["measure"] == "p99_ttft_from_due_ms"),
        "{client}"
    );
}
