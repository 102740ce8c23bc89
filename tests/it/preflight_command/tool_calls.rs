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
    let ran = command(Some(&server), &[&CHAT[..], &["--kind tool"]].concat());
    for text in [
        "Tool calls",
        "streamed | whole",
        "required, streamed: leaked: ",
        "tool calls differ between streamed and whole responses",
    ] {
        assert!(ran.stdout.contains(text), "{text}:\n{}", ran.stdout);
    }
    assert!(
        ran.stdout.lines().all(|line| line.chars().count() <= 100)
            && !ran.stdout.contains("What to use"),
        "{}",
        ran.stdout
    );
    let whole = [&CHAT[..], &["--kind tool --disable-stream"]].concat();
    let ran = command(Some(&server), &whole);
    assert!(
        ran.code == 0 && !ran.stdout.contains("streamed"),
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
    let full = ["--kind reasoning --detail full"];
    let ran = command(Some(&server), &[&CHAT[..], &full].concat());
    for text in [
        "Reasoning boundary",
        "thinking on: thinking suppressed by the constraint",
        "reasoning parser",
        "thinking off: fine",
        "turned on and off by chat_template_kwargs",
    ] {
        assert!(ran.stdout.contains(text), "{text}:\n{}", ran.stdout);
    }
    assert!(
        ran.stdout.lines().all(|line| line.chars().count() <= 100),
        "{}",
        ran.stdout
    );
}

#[test]
fn unknown_kinds_list_the_known_ones() {
    let ran = sobench(&["preflight", "--kind tools"]);
    assert!(
        ran.code == 2
            && ran.stderr.contains("unknown constraint kind: tools")
            && ran.stderr.contains("structural_tag, tool, reasoning"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_run_with_tools_is_checked_by_at_most_four_requests() {
    let of_preflight = |server: &ScriptedServer| {
        let sent = posts(server);
        let is_preflight = |body: &&Value| {
            let text = body["messages"].to_string();
            text.contains("weather at sea") || text.contains("set to exactly")
        };
        sent.iter().filter(is_preflight).count()
    };
    let arguments = |server: &ScriptedServer| {
        let url = server.base_url.clone();
        [
            &CHAT.map(str::to_owned)[..],
            &["--base-url".to_owned(), url],
            &["--dataset tools --num-prompts 24"].map(str::to_owned),
        ]
        .concat()
    };
    let server = tool_server(Some(ToolFault::DropStrict));
    let ran = sobench(&arguments(&server));
    assert!(
        ran.code == 3
            && ran
                .stderr
                .contains("tool call, auto, strict, streamed: partial")
            && ran.stderr.contains("--allow-unenforced"),
        "{}",
        ran.stderr
    );
    assert!((1..=4).contains(&of_preflight(&server)));

    let mut allowed = arguments(&server);
    allowed.push("--allow-unenforced".to_owned());
    let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
    let (ran, result) = sobench_result(&allowed);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stdout
            .starts_with("CONSTRAINT NOT ENFORCED: tool is enforced only in part"),
        "{}",
        ran.stdout
    );
    let enforcement = &result["sobench"]["enforcement"];
    assert_eq!(enforcement["state"], "not_enforced");
    let finding = &enforcement["findings"][0];
    assert_eq!(
        (&finding["kind"], &finding["constraint_dialect"]),
        (&json!("tool"), &Value::Null)
    );

    let healthy = tool_server(None);
    let healthy_arguments = arguments(&healthy);
    let healthy_arguments: Vec<&str> = healthy_arguments.iter().map(String::as_str).collect();
    let (ran, result) = sobench_result(&healthy_arguments);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let enforcement = &result["sobench"]["enforcement"];
    assert_eq!(enforcement["state"], "enforced", "{enforcement}");
    assert_eq!(enforcement["requests"], 4);
    assert_eq!(of_preflight(&healthy), 4);
}
