//! The map of tools and context: every item in every cell, and the cell from which answers get worse.

use serde_json::{Value, json};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, Fault};

use crate::requests::recording_server;
use crate::support::{Folder, check_result, sobench, sobench_result};

#[test]
fn the_first_worse_cell_is_named_with_its_cause() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = EmbeddedServer::start(EmbeddedSettings {
        faults: vec![Fault::parse("leak-markup-above-tools:12").unwrap()],
        ..EmbeddedSettings::default()
    })
    .unwrap();
    let (ran, result) = sobench_result(&[
        "--backend openai-chat --skip-preflight --arms prompt+constraint --output-len 300 --base-url",
        server.base_url(),
        "--dataset tools --tools-per-request 4,16 --context-tokens 200,450 --num-prompts 40",
    ]);
    check_result(&result).unwrap();
    let map = &result["sobench"]["map"];
    let cells = map["cells"].as_array().unwrap();
    let numbers: Vec<[u64; 3]> = cells
        .iter()
        .map(|cell| {
            ["tools", "context_tokens", "requests"].map(|name| cell[name].as_u64().unwrap())
        })
        .collect();
    assert_eq!(
        numbers,
        [[4, 200, 40], [4, 450, 40], [16, 200, 40], [16, 450, 40]]
    );
    for worse in map["first_worse"].as_array().unwrap() {
        assert_eq!(
            (&worse["tools"], &worse["context_tokens"]),
            (&json!(16), &json!(200))
        );
    }
    assert_eq!(map["first_worse"][0]["cause"][0], "leaked_markup", "{map}");
    assert!(map["tokens_per_tool"].as_f64().unwrap() > 20.0, "{map}");
    // Longer by what the context adds.
    let tokens = |cell: usize| cells[cell]["prompt_tokens"].as_f64().unwrap();
    let added = tokens(1) - tokens(0);
    assert!((240.0..260.0).contains(&added), "{added}");
    let answer = "holds with more tools and context? NO: from 16 tools, 200 tokens ";
    assert!(ran.stdout.contains(answer), "{}", ran.stdout);
    assert!(ran.stdout.contains("Tools and context"), "{}", ran.stdout);
}

#[test]
fn recorded_bodies_get_tools_and_text_and_nothing_else() {
    let folder = Folder::new();
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    let body = json!({"model": "m", "temperature": 0.5, "tool_choice": "auto", "tools": [tool("a"), tool("b")], "messages": [
        {"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "Call a."}]}]});
    let path = folder.file("one.jsonl", body.to_string());
    let (server, sent) = recording_server(|_| "x");
    sobench(&[
        "bench",
        "--dataset requests --tools-per-request 5,9 --context-tokens 80 --skip-preflight --num-warmups 0 --disable-tqdm",
        "--num-prompts 1 --backend openai-chat --model m --arms prompt+constraint --base-url",
        &server.base_url,
        "--dataset-path",
        &path,
    ]);
    let sent = sent.lock().unwrap();
    let sizes: Vec<usize> = sent
        .iter()
        .map(|text| {
            let mut got: Value = serde_json::from_str(text).unwrap();
            let tools = got["tools"].as_array().unwrap().clone();
            assert!(
                ["a", "b"].iter().all(|name| tools.contains(&tool(name))),
                "{text}"
            );
            let text = got["messages"][1]["content"][0]["text"].take();
            assert!(text.as_str().unwrap().ends_with("\n\nCall a."), "{text}");
            got["messages"][1]["content"][0]["text"] = "Call a.".into();
            got["tools"] = body["tools"].clone();
            assert_eq!(got, body);
            tools.len()
        })
        .collect();
    assert!(sizes.contains(&5) && sizes.contains(&9), "{sizes:?}");
}

#[test]
fn maps_that_cannot_be_made_are_refused() {
    let requests =
        "--dataset requests --dataset-path fixtures/datasets/requests.jsonl --backend openai-chat";
    for (dataset, flags, message) in [
        (
            "--dataset tools",
            "--context-tokens 20",
            "more than --context-tokens 20",
        ),
        (
            "--dataset tools",
            "--context-tokens 0",
            "give a number of tokens",
        ),
        (
            "--dataset tools",
            "--tools-per-request 4,0",
            "--tools-per-request is 0",
        ),
        ("--dataset json", "--context-tokens 500", "--context-tokens"),
        (
            "--mix tools:1,json:1",
            "--context-tokens 500",
            "a mix has no map",
        ),
        (
            requests,
            "--context-tokens 5",
            "more than --context-tokens 5",
        ),
    ] {
        let flags = [dataset, flags, "--num-prompts 5 --dry-run"];
        sobench(&flags).assert_fails(2, &[message]);
    }
    let planned = sobench(&["--dry-run --dataset tools --tools-per-request 4,48 --num-prompts 10"]);
    let line = "items: 10 in 2 cells; number that finds a loss in a cell in 95 %";
    assert!(planned.stdout.contains(line), "{}", planned.stdout);
}
