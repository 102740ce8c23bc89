//! Preflight before a run: order of requests, choice of the dialect by `auto`, and cases without
//! preflight.

use serde_json::{Value, json};
use sobench_testkit::constrained::{
    Reply, allowed, answering, constrained_server_with_version, constraint_text, posts,
    sglang_reply,
};
use sobench_testkit::scripted::ScriptedServer;

use crate::support::{sobench, sobench_result};

fn run_against(server: &ScriptedServer, arguments: &[&str]) -> (String, Value) {
    let number: &[&str] = if arguments
        .iter()
        .any(|words| words.contains("--num-prompts"))
    {
        &[]
    } else {
        &["--num-prompts 4"]
    };
    let (ran, result) =
        sobench_result(&[&["--base-url", server.base_url.as_str()], number, arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    (ran.page(), result["sobench"].clone())
}

/// A server that enforces constraints in this field and ignores others.
fn enforcing_field(field: &'static str) -> ScriptedServer {
    answering(move |body| match body.get(field) {
        Some(_) => allowed(body).map_or(Reply::Prose, Reply::Text),
        None => Reply::Prose,
    })
}

#[test]
fn auto_uses_the_enforced_dialect() {
    // An unknown OpenAI-compatible server is expected to read `response_format`, which cannot carry
    // a choice.
    let sglang = answering(sglang_reply);
    let (page, result) = run_against(
        &sglang,
        &["--backend openai-chat --dataset choice --guided-decoding-ratio 1"],
    );
    assert_eq!(result["constraint_dialect"], "sglang", "{result}");
    assert_eq!(
        (
            &result["enforcement"]["dialect"],
            &result["enforcement"]["state"]
        ),
        (&json!("proved"), &json!("enforced"))
    );
    let auto = "--constraint-dialect auto: using sglang, which is enforced";
    assert_eq!(page.matches(auto).count(), 1, "{page}");
    assert_eq!(result["metrics"]["correct_rate"]["percent"], 100.0);

    // A vLLM server that reads only the old fields and does not report its version.
    let (page, result) = run_against(&enforcing_field("guided_json"), &["--dataset json"]);
    assert_eq!(
        (
            &result["constraint_dialect"],
            &result["enforcement"]["dialect"]
        ),
        (&json!("guided"), &json!("proved")),
        "{page}"
    );
    let instead = "instead of structured-outputs, in which json is ignored";
    assert_eq!(page.matches(instead).count(), 1, "{page}");
    let findings = result["enforcement"]["findings"].as_array().unwrap();
    let classes: Vec<&str> = findings
        .iter()
        .map(|finding| finding["class"].as_str().unwrap())
        .collect();
    assert_eq!(
        classes,
        ["enforced", "ignored"],
        "the dialect of the run first"
    );
}

#[test]
fn auto_replaces_a_rejected_dialect() {
    let server = answering(|body| match body.get("structured_outputs") {
        Some(_) => Reply::Status("400 Bad Request", "extra fields not permitted"),
        None => allowed(body).map_or(Reply::Prose, Reply::Text),
    });
    let (_, result) = run_against(&server, &["--dataset choice"]);
    // The refused trial, the same without the constraint, and the trial in the other dialect.
    assert_eq!(
        (&result["constraint_dialect"], &result["trial_requests"]),
        (&json!("guided"), &json!(3)),
        "{result}"
    );
    // A dialect requested by the user is not replaced: its refusal is the result.
    let named = [
        "--base-url",
        &server.base_url,
        "--dataset choice --num-prompts 4 --constraint-dialect structured-outputs",
    ];
    let ran = sobench(&named);
    let refused =
        "enforced? NO: the server refused the constraint (400: extra fields not permitted)";
    ran.assert_headline(0, refused);
}

#[test]
fn unenforced_constraints_stop_the_run_unless_allowed() {
    let server = answering(|_| Reply::Prose);
    let arguments = [
        "--base-url",
        &server.base_url,
        "--dataset choice --num-prompts 4",
    ];
    let ran = sobench(&arguments);
    ran.assert_exits(3, &["choice in structured-outputs: ignored"]);
    let preflight_requests = posts(&server).len();
    let (page, result) = run_against(&server, &["--dataset choice --allow-unenforced"]);
    assert!(
        page.starts_with("enforced? NO: ")
            && page.contains("CONSTRAINT NOT ENFORCED: choice in structured-outputs is ignored"),
        "{page}"
    );
    assert_eq!(result["enforcement"]["state"], "not_enforced");
    assert_eq!(
        posts(&server).len(),
        2 * preflight_requests + 4,
        "the same preflight requests, and the run"
    );
}

#[test]
fn first_constrained_request_on_vllm_fixes_the_engine() {
    let healthy = |body: &Value| allowed(body).map_or(Reply::Prose, Reply::Text);
    let server = constrained_server_with_version(Some("0.33.0"), healthy);
    // The first of these requests is unconstrained.
    let arguments = ["--dataset choice --num-prompts 20 --guided-decoding-ratio 0.3"];
    let in_auto = [&arguments[..], &["--guided-decoding-backend auto"]].concat();
    let (page, result) = run_against(&server, &in_auto);
    let sent = posts(&server);
    let first = sent.iter().find_map(constraint_text).unwrap();
    assert!(first.contains("Positive"), "{first}");
    assert!(
        constraint_text(&sent[0]).is_none(),
        "the trial request is unconstrained"
    );
    let fixed = &result["enforcement"]["first_constrained"];
    assert_eq!(
        (&fixed["engine"], result["trial_requests"].as_u64()),
        (&json!("xgrammar"), Some(2)),
        "{fixed}"
    );
    let keeps = "keeps its engine, xgrammar by vLLM's rule (as of vLLM 0.33:";
    assert_eq!(page.matches(keeps).count(), 1, "{page}");
    // The two preflight requests, after the trial request and before the run. They do not use the
    // run's prompts.
    let prompts: Vec<String> = sent[2..4]
        .iter()
        .map(|body| body["prompt"].as_str().unwrap().to_owned())
        .collect();
    assert!(
        prompts
            .iter()
            .all(|prompt| prompt.contains("weather at sea")),
        "{prompts:?}"
    );
    assert_eq!(result["enforcement"]["requests"], 2);

    // The engine is unknown if the server may run with another one than `auto`.
    let declared = [&arguments[..], &["--guided-decoding-backend outlines"]].concat();
    for arguments in [&declared[..], &arguments] {
        let (page, result) = run_against(&server, arguments);
        assert_eq!(
            result["enforcement"]["first_constrained"]["engine"],
            Value::Null
        );
        assert_eq!(page.matches("keeps its engine").count(), 0, "{page}");
    }
}

#[test]
fn preflight_is_skipped_if_not_needed() {
    let (ran, embedded) = sobench_result(&["--num-prompts 2"]);
    assert_eq!(
        (ran.code, &embedded["sobench"]["enforcement"]["state"]),
        (0, &json!("not_asked"))
    );
    for arguments in [
        &["--dataset choice --skip-preflight"][..],
        &["--no-guided-decoding"],
    ] {
        let server = answering(|body| allowed(body).map_or(Reply::Prose, Reply::Text));
        let (_, result) = run_against(&server, arguments);
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
