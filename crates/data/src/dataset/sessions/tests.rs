//! Sessions that are generated, and files of every form, also bad ones.

use std::path::Path;

use super::*;
use crate::dataset::tests::{plan, rows, tokenizer};
use crate::dataset::{Dataset, DatasetName, Source, load};
use sobench_core::case::Case;
use sobench_judge::accuracy::Reference;

fn plan_of(options: SessionsPlan, num_prompts: usize) -> DatasetPlan {
    DatasetPlan {
        num_prompts,
        prompt_form: PromptForm::Messages,
        source: Source::Sessions(options),
        ..plan(DatasetName::Sessions)
    }
}

fn generated(num_prompts: usize, seed: u64) -> Dataset {
    let plan = DatasetPlan {
        seed,
        ..plan_of(SessionsPlan::default(), num_prompts)
    };
    load(&plan, &tokenizer()).unwrap()
}

fn messages(case: &Case) -> &[Message] {
    match &case.prompt {
        Prompt::Messages(messages) => messages,
        other => panic!("{other:?}"),
    }
}

fn turn(case: &Case) -> &Turn {
    case.turn.as_deref().unwrap()
}

/// The sessions of a file with these lines, without marks.
fn read_file(lines: &str, mode: SessionMode, num_prompts: usize) -> Result<Vec<Case>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sessions.jsonl");
    std::fs::write(&path, lines).unwrap();
    read_path(&path, mode, num_prompts)
}

fn read_path(path: &Path, mode: SessionMode, num_prompts: usize) -> Result<Vec<Case>> {
    let options = SessionsPlan {
        dataset_path: path.to_str().map(str::to_owned),
        session_mode: mode,
        no_session_salt: true,
        ..SessionsPlan::default()
    };
    Ok(load(&plan_of(options, num_prompts), &tokenizer())?.cases)
}

fn recorded(lines: &str) -> Vec<Case> {
    read_file(lines, SessionMode::Recorded, 1).unwrap()
}

/// The roles of the messages of each turn, and the turns before it.
fn shape(cases: &[Case]) -> Vec<(String, Vec<u32>)> {
    let roles = |case: &Case| {
        let roles = messages(case).iter().map(|message| &message.role[..1]);
        roles.collect::<String>()
    };
    cases
        .iter()
        .map(|case| (roles(case), turn(case).after.clone()))
        .collect()
}

fn shapes(expected: &[(&str, &[u32])]) -> Vec<(String, Vec<u32>)> {
    expected
        .iter()
        .map(|(roles, after)| ((*roles).to_owned(), after.to_vec()))
        .collect()
}

#[test]
fn generated_sessions_have_the_history_of_right_answers() {
    let dataset = generated(60, 0);
    let turns = dataset.session_turns();
    assert_eq!(turns.len(), 60);
    assert!(
        turns.iter().all(|turns| (3..=8).contains(turns)),
        "{turns:?}"
    );
    assert_eq!(turns.iter().sum::<u32>() as usize, dataset.cases.len());
    for pair in dataset.cases.windows(2) {
        let (one, two) = (&pair[0], &pair[1]);
        let scorer = one.score.unwrap();
        let reference = one.completion.as_deref().unwrap();
        let found = Reference::new(scorer, &reference.into(), one.constraint.as_deref());
        assert!(found.is_ok(), "{reference}");
        if turn(two).turn == 1 {
            assert!(turn(two).after.is_empty());
            continue;
        }
        assert_eq!(turn(two).after, [turn(one).turn]);
        assert!(turn(two).delay_ms > 0);
        let history = messages(one);
        let next = messages(two);
        assert_eq!(&next[..history.len()], history);
        assert_eq!(next[history.len()].role, "assistant");
        let tools = |case: &Case| {
            let tools = case.constraint.as_ref()?.tools()?;
            Some(tools.tools.len())
        };
        assert!(tools(two).is_none_or(|count| count == tools(one).unwrap() + 2));
    }
}

#[test]
fn the_seed_decides_sessions_and_their_marks() {
    assert_eq!(generated(6, 1).sha256, generated(6, 1).sha256);
    assert_ne!(generated(6, 1).sha256, generated(6, 2).sha256);
    let dataset = generated(6, 1);
    let marks: Vec<String> = dataset
        .cases
        .iter()
        .filter(|case| turn(case).turn == 1)
        .map(|case| messages(case)[0].content.as_str().unwrap().to_owned())
        .collect();
    let starts: std::collections::BTreeSet<&str> = marks.iter().map(|text| &text[..17]).collect();
    assert_eq!(starts.len(), 1, "{marks:?}");
    assert!(
        marks[0].starts_with("[salt: ") && marks[0] != marks[3],
        "{marks:?}"
    );
}

#[test]
fn chats_of_openai_and_sharegpt_are_read() {
    let tools =
        r#"[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]"#;
    let openai = format!(
        r#"{{"tools":{tools},"messages":[{{"role":"user","content":"a"}},{{"role":"assistant","content":null,"tool_calls":[{{"id":"c","type":"function","function":{{"name":"look","arguments":"{{\"x\": 1}}"}}}}]}},{{"role":"tool","tool_call_id":"c","content":"b"}},{{"role":"assistant","content":"done"}}]}}"#
    );
    let sharegpt = r#"{"tools":"[{\"name\":\"look\",\"parameters\":{\"type\":\"object\"}}]","conversations":[{"from":"human","value":"a"},{"from":"function_call","value":"{\"name\":\"look\",\"arguments\":{\"x\":1}}"},{"from":"observation","value":"b"},{"from":"gpt","value":"done"}]}"#;
    for line in [openai.as_str(), sharegpt] {
        let cases = recorded(line);
        assert_eq!(
            shape(&cases),
            shapes(&[("u", &[]), ("uat", &[1])]),
            "{line}"
        );
        let first = cases[0].completion.as_deref();
        assert_eq!(first, Some(r#"{"ground_truth":[{"look":{"x":[1]}}]}"#));
        assert_eq!(cases[1].completion, None);
        assert!(cases[1].constraint.is_some());
    }
    let list = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]"#;
    assert_eq!(shape(&recorded(list)), shapes(&[("u", &[]), ("uau", &[1])]));
    let document = format!("[\n{openai},\n{sharegpt}\n]\n");
    assert_eq!(
        read_file(&document, SessionMode::Recorded, 2)
            .unwrap()
            .len(),
        4
    );
}

#[test]
fn rows_of_messages_are_read() {
    let rows = r#"{"conversation_id":"c1","turn":1,"role":"user","system":"s","content":"a","tools":[{"type":"function","function":{"name":"bash"}}],"delay_seconds":0.1}
{"conversation_id":"c1","turn":2,"role":"assistant","tool_calls":[{"id":"b0","type":"function","function":{"name":"bash","arguments":"{}"}}]}
{"conversation_id":"c1","turn":3,"role":"tool","tool_results":[{"tool_call_id":"b0","content":"x"}],"delay_seconds":0.2}
{"conversation_id":"c1","turn":4,"role":"assistant","content":"y"}
{"conversation_id":"c2","turn":1,"role":"user","content":"z"}
"#;
    let cases = read_file(rows, SessionMode::Recorded, 2).unwrap();
    assert_eq!(
        shape(&cases),
        shapes(&[("su", &[]), ("suat", &[1]), ("u", &[])])
    );
    let delays: Vec<u64> = cases.iter().map(|case| turn(case).delay_ms).collect();
    assert_eq!(delays, [100, 200, 0]);
    assert_eq!(turn(&cases[2]).session, 1);
}

#[test]
fn branches_of_aiperf_come_after_their_parents() {
    let lines = r#"{"session_id":"root","turns":[{"messages":[{"role":"user","content":"plan"}],"spawns":["sub"]},{"messages":[{"role":"assistant","content":"p"},{"role":"user","content":"join"}],"forks":["left","right"]}]}
{"session_id":"sub","turns":[{"messages":[{"role":"user","content":"work"}],"delay":5}]}
{"session_id":"left","turns":[{"text":"l"}]}
{"session_id":"right","turns":[{"text":"r"}]}
"#;
    let error = read_file(lines, SessionMode::Recorded, 1).unwrap_err();
    assert!(
        error
            .what
            .contains("line 1, turn 2: a turn without a recorded answer"),
        "{error}"
    );
    let cases = read_file(lines, SessionMode::Live, 1).unwrap();
    assert_eq!(
        shape(&cases),
        shapes(&[
            ("u", &[]),
            ("u", &[1]),
            ("uau", &[1, 2]),
            ("uauu", &[3]),
            ("uauu", &[3])
        ])
    );
    assert!(turn(&cases[2]).live && !turn(&cases[0]).live);
}

#[test]
fn traces_of_weka_have_prompts_of_their_lengths() {
    let trace = r#"{"id":"t","models":["m"],"block_size":64,"hash_id_scope":"local","requests":[{"t":0,"type":"n","model":"m","in":20,"out":7,"hash_ids":[]},{"t":1,"type":"subagent","agent_id":"a","requests":[{"t":1,"type":"n","model":"m","in":10,"out":3}]},{"t":2,"type":"s","model":"m","in":30,"out":9,"think_time":0.5}]}"#;
    let cases = recorded(trace);
    assert_eq!(
        shape(&cases),
        shapes(&[("u", &[]), ("u", &[1]), ("u", &[2])])
    );
    let lengths: Vec<u32> = cases.iter().map(|case| case.output_len).collect();
    assert_eq!((lengths, turn(&cases[2]).delay_ms), (vec![7, 3, 9], 500));
    assert_eq!(turn(&cases[2]).reference_tokens, Some(9));
}

#[test]
fn errors_name_file_and_line() {
    let user = r#"{"role":"user","content":"a"}"#;
    let result = r#"{"role":"tool","tool_call_id":"x","content":"b"}"#;
    let spawns = |id: &str, of: &str| {
        format!(
            r#"{{"session_id":"{id}","turns":[{{"text":"a","spawns":["{of}"]}},{{"text":"b"}}]}}"#
        )
    };
    let endless = format!(
        "[{}]",
        [user, r#"{"role":"assistant","content":"b"}"#]
            .repeat(1001)
            .join(",")
    );
    for (lines, what) in [
        (
            format!("[{user}]\n[{user},{result}]"),
            "line 2, turn 1: the result of a call that no earlier turn makes: x",
        ),
        (
            format!("{}\n{}", spawns("a", "b"), spawns("b", "a")),
            "line 1: sessions start each other in a cycle: \"a\"",
        ),
        (
            format!(
                "{}\n{}\n{}",
                spawns("r", "a"),
                spawns("a", "b"),
                spawns("b", "a")
            ),
            "line 2: sessions start each other in a cycle: \"a\"",
        ),
        (spawns("a", "b"), "line 1: no session \"b\" in the file"),
        (endless, "line 1: a session of more than 1000 turns: 1001"),
        (format!("[{user}]\n{{"), "line 2: not JSON"),
        ("{}".to_owned(), "line 1: no session"),
        (String::new(), "no sessions in"),
        (
            r#"{"conversation_id":"c","turn":2,"role":"user","content":"a"}
{"conversation_id":"c","turn":1,"role":"assistant","content":"a"}"#
                .to_owned(),
            "line 2: turn 1 is not after turn 2",
        ),
    ] {
        let error = read_file(&lines, SessionMode::Live, 2).unwrap_err();
        assert!(error.what.contains(what) && error.hint.is_some(), "{error}");
    }
}

#[test]
fn sessions_are_refused_without_a_chat_endpoint() {
    let plan = DatasetPlan {
        prompt_form: PromptForm::Text,
        ..plan_of(SessionsPlan::default(), 2)
    };
    let error = rows(&plan, &tokenizer()).unwrap_err();
    assert_eq!(error.what, "the dataset sessions has chat messages only");
}
