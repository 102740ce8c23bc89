//! Tool calls and the reasoning boundary: the command, and the check before a run.

use serde_json::{Value, json};
use sobench_testkit::constrained::posts;
use sobench_testkit::reasoning_server::{ReasoningFault, reasoning_server};
use sobench_testkit::scripted::ScriptedServer;
use sobench_testkit::tool_server::{ToolFault, tool_server};

use super::command;
use crate::support::{assert_follows, sobench, sobench_result};

const CHAT: [&str; 1] = ["--backend openai-chat"];

/// The JSON of a preflight of these kinds, checked by its contract, and the exit code.
fn json_of(server: &ScriptedServer, kinds: &str) -> (Value, i32) {
    let arguments = [&CHAT[..], &["--kind", kinds, "--format json"]].concat();
    let ran = command(Some(server), &arguments);
    let found: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    assert_follows("preflight", &found);
    (found, ran.code)
}

#[test]
fn tool_calls_are_a_table_and_json() {
    let healthy = tool_server(None);
    let (found, code) = json_of(&healthy, "tool");
    assert_eq!((code, &found["passed"]), (0, &json!(true)));
    assert_eq!(found["tool_calls"]["cells"].as_array().unwrap().len(), 16);
    assert_eq!(found["reasoning"], Value::Null);

    let server = tool_server(Some(ToolFault::LeakInStreams));
    let (found, code) = json_of(&server, "tool");
    assert_eq!((code, &found["tool_calls"]["passed"]), (1, &json!(false)));
    // Whole responses have no streams to leak in.
    let ran = command(
        Some(&server),
        &[&CHAT[..], &["--kind tool --disable-stream"]].concat(),
    );
    assert_eq!(
        (ran.code, ran.stdout.matches("streamed").count()),
        (0, 0),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_reasoning_boundary_is_a_table_and_json() {
    let (found, code) = json_of(&reasoning_server(None), "json,reasoning");
    assert_eq!(code, 0);
    let verdicts = found["reasoning"]["results"].as_array().unwrap();
    assert!(verdicts.iter().all(|result| result["verdict"] == "fine"));
    assert_eq!(found["cells"][0]["class"], "enforced");

    let server = reasoning_server(Some(ReasoningFault::Suppress));
    let (found, code) = json_of(&server, "reasoning");
    assert_eq!(
        (code, &found["reasoning"]["results"][0]["verdict"]),
        (1, &json!("thinking_suppressed"))
    );
}

#[test]
fn unknown_kinds_list_the_known_ones() {
    let ran = sobench(&["preflight", "--kind tools"]);
    let known = "structural_tag, tool, reasoning";
    ran.assert_exits(2, &["unknown constraint kind: tools", known]);
}

#[test]
fn a_run_with_tools_is_checked_by_at_most_five_requests() {
    let of_preflight = |server: &ScriptedServer| {
        let sent = posts(server);
        let is_preflight = |body: &&Value| {
            let text = body["messages"].to_string();
            text.contains("weather at sea") || text.contains("set to exactly")
        };
        sent.iter().filter(is_preflight).count()
    };
    let flags = "--backend openai-chat --dataset tools --num-prompts 24 --base-url";
    let server = tool_server(Some(ToolFault::DropStrict));
    let ran = sobench(&[flags, &server.base_url]);
    ran.assert_exits(
        3,
        &[
            "tool call, auto, strict, streamed: partial",
            "--allow-unenforced",
        ],
    );
    assert!((1..=5).contains(&of_preflight(&server)));

    let (ran, result) = sobench_result(&[flags, &server.base_url, "--allow-unenforced"]);
    ran.assert_headline(0, "enforced? NO: ");
    let alarm = "CONSTRAINT NOT ENFORCED: tool is enforced only in part";
    assert!(ran.stdout.contains(alarm), "{}", ran.stdout);
    let enforcement = &result["sobench"]["enforcement"];
    let finding = &enforcement["findings"][0];
    let found = [
        &enforcement["state"],
        &finding["kind"],
        &finding["constraint_dialect"],
    ];
    assert_eq!(
        found,
        [&json!("not_enforced"), &json!("tool"), &Value::Null]
    );

    let healthy = tool_server(None);
    let (ran, result) = sobench_result(&[flags, &healthy.base_url]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let enforcement = &result["sobench"]["enforcement"];
    assert_eq!(
        (&enforcement["state"], &enforcement["requests"]),
        (&json!("enforced"), &json!(5))
    );
    assert_eq!(of_preflight(&healthy), 5);
}
