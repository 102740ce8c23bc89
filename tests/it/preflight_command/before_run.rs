//! Before a run: what goes first, which dialect `auto` comes to, and who is not asked.

use serde_json::{Value, json};
use sobench_testkit::constrained::{
    Reply, allowed, answering, as_sglang, of_version, posts, text_of_constraint,
};
use sobench_testkit::scripted::Scripted;

use crate::support::{sobench, sobench_result};

fn ran_against(server: &Scripted, arguments: &[&str]) -> (String, Value) {
    let number: &[&str] = if arguments.contains(&"--num-prompts") {
        &[]
    } else {
        &["--num-prompts", "4"]
    };
    let (ran, result) =
        sobench_result(&[&["--base-url", server.base_url.as_str()], number, arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    (
        ran.stdout.split_whitespace().collect::<Vec<_>>().join(" "),
        result["sobench"].clone(),
    )
}

/// What this dialect's fields carry is enforced, and the others are dropped.
fn reading(field: &'static str) -> Scripted {
    answering(move |body| match body.get(field) {
        Some(_) => allowed(body).map_or(Reply::Prose, Reply::Say),
        None => Reply::Prose,
    })
}

#[test]
fn auto_uses_the_dialect_that_was_proved() {
    // An unknown server in OpenAI's shape is expected to read `response_format`, which has no place
    // for a choice.
    let sglang = answering(as_sglang);
    let (page, result) = ran_against(
        &sglang,
        &[
            "--backend",
            "openai-chat",
            "--dataset",
            "choice",
            "--guided-decoding-ratio",
            "1",
        ],
    );
    assert_eq!(result["constraint_dialect"], "sglang", "{result}");
    assert_eq!(
        (
            &result["enforcement"]["dialect"],
            &result["enforcement"]["state"]
        ),
        (&json!("proved"), &json!("enforced"))
    );
    assert!(
        page.contains("sent as sglang")
            && page.contains("--constraint-dialect auto: sglang, which preflight saw"),
        "{page}"
    );
    assert_eq!(result["quality"]["correct_rate"]["percent"], 100.0);

    // A vLLM that reads the old fields only, and says nothing of its version.
    let (page, result) = ran_against(&reading("guided_json"), &["--dataset", "json"]);
    assert_eq!(
        (
            &result["constraint_dialect"],
            &result["enforcement"]["dialect"]
        ),
        (&json!("guided"), &json!("proved")),
        "{page}"
    );
    assert!(
        page.contains("and not structured-outputs, in which json is ignored"),
        "{page}"
    );
    let findings = result["enforcement"]["findings"].as_array().unwrap();
    let classes: Vec<&str> = findings
        .iter()
        .map(|it| it["class"].as_str().unwrap())
        .collect();
    assert_eq!(
        classes,
        ["enforced", "ignored"],
        "the dialect of the run first"
    );
}

#[test]
fn a_dialect_that_is_refused_is_no_end_where_another_one_works() {
    let server = answering(|body| match body.get("structured_outputs") {
        Some(_) => Reply::Status("400 Bad Request", "extra fields not permitted"),
        None => allowed(body).map_or(Reply::Prose, Reply::Say),
    });
    let (_, result) = ran_against(&server, &["--dataset", "choice"]);
    assert_eq!(
        (&result["constraint_dialect"], &result["trial_requests"]),
        (&json!("guided"), &json!(2)),
        "{result}"
    );
    // The user's word is not gone against.
    let named = [
        "--base-url",
        &server.base_url,
        "--dataset",
        "choice",
        "--constraint-dialect",
        "structured-outputs",
    ];
    let ran = sobench(&named);
    assert!(
        ran.code == 3 && ran.stderr.contains("extra fields not permitted"),
        "{}",
        ran.stderr
    );
}

#[test]
fn nothing_is_measured_where_every_dialect_is_dropped_unless_the_user_wants_it() {
    let server = answering(|_| Reply::Prose);
    let arguments = [
        "--base-url",
        &server.base_url,
        "--dataset",
        "choice",
        "--num-prompts",
        "4",
    ];
    let ran = sobench(&arguments);
    assert!(
        ran.code == 3 && ran.stderr.contains("choice in structured-outputs: ignored"),
        "{}",
        ran.stderr
    );
    let asked = posts(&server).len();
    let (page, result) = ran_against(&server, &["--dataset", "choice", "--allow-unenforced"]);
    assert!(
        page.starts_with("CONSTRAINT NOT ENFORCED: choice in structured-outputs is ignored"),
        "{page}"
    );
    assert_eq!(result["enforcement"]["state"], "not_enforced");
    assert_eq!(
        posts(&server).len(),
        2 * asked + 4,
        "the same questions, and the run"
    );
}

#[test]
fn on_vllm_the_run_s_own_constrained_request_goes_first_and_the_report_says_what_it_fixed() {
    let healthy = |body: &Value| allowed(body).map_or(Reply::Prose, Reply::Say);
    let server = of_version(Some("0.33.0"), healthy);
    // Of these, the first is not constrained.
    let arguments = [
        "--dataset",
        "choice",
        "--num-prompts",
        "20",
        "--guided-decoding-ratio",
        "0.3",
    ];
    let (page, result) = ran_against(&server, &arguments);
    let sent = posts(&server);
    let first = sent.iter().find_map(text_of_constraint).unwrap();
    assert!(first.contains("Positive"), "{first}");
    assert!(
        text_of_constraint(&sent[0]).is_none(),
        "the trial run's request has none"
    );
    let fixed = &result["enforcement"]["first_constrained"];
    assert_eq!(
        (&fixed["engine"], result["trial_requests"].as_u64()),
        (&json!("xgrammar"), Some(2)),
        "{fixed}"
    );
    assert!(
        page.contains("fixed its engine by it, to xgrammar, by vLLM's rule (as of vLLM 0.33:"),
        "{page}"
    );
    // Two questions, none of which is the run's, after the trial and before the run.
    let questions: Vec<String> = sent[2..4]
        .iter()
        .map(|body| body["prompt"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        questions
            .iter()
            .all(|prompt| prompt.contains("weather at sea")),
        "{questions:?}"
    );
    assert_eq!(result["enforcement"]["requests"], 2);

    let declared = [&arguments[..], &["--guided-decoding-backend", "outlines"]].concat();
    let (_, result) = ran_against(&server, &declared);
    assert_eq!(
        result["enforcement"]["first_constrained"]["engine"],
        Value::Null
    );
}

#[test]
fn who_need_not_be_asked_is_not() {
    let (ran, embedded) = sobench_result(&["--num-prompts", "2"]);
    assert_eq!(
        (ran.code, &embedded["sobench"]["enforcement"]["state"]),
        (0, &json!("not_asked"))
    );
    for arguments in [
        &["--dataset", "choice", "--skip-preflight"][..],
        &["--no-guided-decoding"],
    ] {
        let server = answering(|body| allowed(body).map_or(Reply::Prose, Reply::Say));
        let (_, result) = ran_against(&server, arguments);
        assert_eq!(posts(&server).len(), 5, "the trial and the run");
        assert_eq!(
            (
                &result["enforcement"]["state"],
                &result["enforcement"]["requests"]
            ),
            (&json!("not_asked"), &json!(0))
        );
    }
}
