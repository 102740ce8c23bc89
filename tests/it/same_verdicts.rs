//! Run, report, score, compare, preflight and features give the same verdict on an answer, however it
//! ended.

use std::iter;
use std::sync::Arc;
use std::time::SystemTime;

use serde::Deserialize as _;
use serde_json::{Value, json};
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::answer::{Answer, ToolCall};
use sobench_core::case::{Case, Prompt};
use sobench_core::constraint::{Constraint, ConstraintKind, GrammarDialect};
use sobench_core::observation::{
    Observation, Outcome, TimeLimit, Timing, TransportCause, failure_message,
};
use sobench_core::run_event::RunEvent;
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Ending, Evaluator, JudgeSettings, judge};
use sobench_plan::record::testing;
use sobench_preflight::classify::{Evidence, classify};
use sobench_preflight::constraint_probe::{ConstraintProbe, RandomWords};
use sobench_preflight::features::data::shipped;
use sobench_preflight::tool_calls::classify::ToolEvidence;
use sobench_preflight::tool_calls::probe::ToolProbe;
use sobench_preflight::tool_calls::{CallControl, ToolRow};
use sobench_preflight::{Class, Control, Finding, ProbeKind, ToolQuestion, features, tool_calls};
use sobench_results::compare::read::{parse_runs, run_from_log};
use sobench_results::compare::side::Run;
use sobench_results::metrics::judgement::is_correct;
use sobench_results::metrics::registry::rates;
use sobench_runlog::RunLog;
use sobench_runlog::write::{Access, LogWriter, Sink, event_channel};
use sobench_testkit::chat::{ChatAnswer, ChatCall, ChatReply, chat_server, prompt};

use crate::support::{Folder, custom_result, sobench, verdicts};

/// An answer: the constraint and the request's other members, the content, the calls, the finish
/// reason, and the name of its verdict.
type Row = (Value, &'static str, Value, &'static str, &'static str);

/// The finish reasons that servers are known to send, an unknown one, and none.
const FINISH_REASONS: [Option<&str>; 16] = [
    Some("stop"),
    Some("length"),
    Some("tool_calls"),
    Some("content_filter"),
    Some("function_call"),
    Some("repetition"),
    Some("eos_token"),
    Some("stop_sequence"),
    Some("load"),
    Some("unload"),
    Some("timeout"),
    Some("cancelled"),
    Some("abort"),
    Some("error"),
    Some("stop_163586"),
    None,
];

fn rows() -> Vec<Row> {
    let city = json!({"json": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 5}},
        "required": ["city"], "additionalProperties": false}});
    let tool = json!({"type": "function", "function": {"name": "get_weather", "strict": true,
        "parameters": city["json"]}});
    let tools = |choice: &str| json!({"tools": [tool], "tool_choice": choice});
    let call = |index: usize, arguments: &str| {
        json!({"index": index, "id": format!("call_{index}"), "type": "function",
            "function": {"name": "get_weather", "arguments": arguments}})
    };
    let calls = |count: usize, last: &str| -> Value {
        let arguments = |index| {
            if index + 1 == count {
                last
            } else {
                r#"{"city": "Oslo"}"#
            }
        };
        (0..count)
            .map(|index| call(index, arguments(index)))
            .collect()
    };
    let oslo = r#"{"city": "Oslo"}"#;
    let grammar = json!({"grammar": "start: \"SELECT \" (\"a\" | \"b\")",
        "grammar_oracle": "start = { \"SELECT \" ~ (\"a\" | \"b\") }"});
    let unknown = json!({"json": {"$ref": "https://example.com/schema.json"}});
    let none = || json!([]);
    let mut rows = vec![
        (
            city.clone(),
            "{\"city\": \"Os",
            none(),
            "length",
            "truncated",
        ),
        (city.clone(), "{\"city\": \"Os", none(), "stop", "not_json"),
        (
            city.clone(),
            "{\"city\": \"Trondheim",
            none(),
            "length",
            "schema",
        ),
        (city.clone(), "{\"town", none(), "length", "schema"),
        (unknown.clone(), "{", none(), "length", "unsupported"),
        (unknown, "{}", none(), "stop", "unsupported"),
        (
            grammar.clone(),
            "```sql\nSELECT a",
            none(),
            "length",
            "grammar",
        ),
        (grammar.clone(), "SELECT ", none(), "length", "truncated"),
        (grammar, "SELECT a", none(), "stop", "valid"),
        (
            json!({"regex": "[a-c]+x"}),
            "abc",
            none(),
            "length",
            "truncated",
        ),
        (
            json!({"regex": "[a-c]+x"}),
            "abd",
            none(),
            "length",
            "regex",
        ),
        (
            json!({"choice": ["yes", "no"]}),
            "ye",
            none(),
            "length",
            "truncated",
        ),
        (
            json!({"choice": ["yes", "no"]}),
            "Ye",
            none(),
            "length",
            "choice",
        ),
        (tools("required"), "", calls(9, oslo), "length", "truncated"),
        (
            tools("required"),
            "",
            calls(2, "{\"ci"),
            "length",
            "truncated",
        ),
        (
            tools("required"),
            "",
            calls(2, "{\"ci"),
            "tool_calls",
            "invalid_arguments",
        ),
        (
            tools("required"),
            "",
            calls(1, "{\"town\": "),
            "length",
            "invalid_arguments",
        ),
        (
            tools("auto"),
            "<tool_call>\n{\"name\": \"get_w",
            none(),
            "length",
            "truncated",
        ),
        (
            tools("auto"),
            "<tool_call>\n{\"name\": \"get_w",
            none(),
            "stop",
            "leaked_markup",
        ),
        (tools("required"), "", none(), "length", "truncated"),
        (tools("required"), "It is", none(), "stop", "missing_call"),
    ];
    for reason in FINISH_REASONS.into_iter().flatten() {
        let (of_text, of_calls) = match reason {
            "length" => ("truncated", "truncated"),
            "abort" | "error" => ("failed", "failed"),
            "tool_calls" => ("valid", "valid"),
            _ => ("valid", "wrong_finish_reason"),
        };
        rows.push((city.clone(), oslo, none(), reason, of_text));
        rows.push((tools("auto"), "", calls(1, oslo), reason, of_calls));
    }
    rows
}

/// The answer to the row that the prompt names.
fn answer((_, content, calls, finish_reason, _): &Row) -> ChatReply {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let calls = calls.as_array().unwrap().iter().map(|call| ChatCall {
        id: text(&call["id"]),
        name: text(&call["function"]["name"]),
        arguments: text(&call["function"]["arguments"]),
    });
    let answer = ChatAnswer::from_text(*content);
    ChatAnswer {
        calls: calls.collect(),
        finish_reason,
        ..answer
    }
    .into()
}

/// The names of the verdicts that `score` writes.
fn scored(path: &str) -> Vec<String> {
    let ran = sobench(&["score", path, "--format jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let name = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["reason"].as_str().unwrap_or("valid").to_owned()
    };
    ran.stdout.lines().map(name).collect()
}

fn with(mut row: Value, more: Value) -> Value {
    if let Value::Object(more) = more {
        row.as_object_mut().unwrap().extend(more);
    }
    row
}

#[test]
fn run_report_and_score_agree_on_every_ending() {
    let rows = rows();
    let of_prompt = rows.clone();
    let server =
        chat_server(move |body| answer(&of_prompt[prompt(body).parse::<usize>().unwrap()]));
    let folder = Folder::new();
    let log = folder.path("log.jsonl");
    let prompts = rows.iter().enumerate();
    let prompts: Vec<Value> = prompts
        .map(|(index, row)| with(row.0.clone(), json!({"prompt": index.to_string()})))
        .collect();
    let flags = "--backend openai-chat --model tiny --disable-stream --constraint-dialect structured-outputs";
    let flags = [flags, "--skip-preflight --run-log", &log];
    let (_, result) = custom_result(&server.base_url, &prompts, &flags);
    let expected: Vec<&str> = rows.iter().map(|row| row.4).collect();
    assert_eq!(verdicts(&result), expected, "the run");
    assert_eq!(scored(&log), expected, "score of the run log");
    let report = sobench(&["report", &log, "--format json"]);
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    for member in ["quality", "metrics"] {
        assert_eq!(report["sobench"][member], result["sobench"][member]);
    }
    let stored: Vec<Value> = rows
        .iter()
        .map(|(request, content, calls, reason, _)| {
            let answer = json!({"text": content, "tool_calls": calls, "finish_reason": reason});
            with(request.clone(), answer)
        })
        .collect();
    assert_eq!(
        scored(&folder.lines("stored.jsonl", &stored)),
        expected,
        "score of rows"
    );
}

/// Every outcome.
fn outcomes() -> Vec<Outcome> {
    let text = || "why".to_owned();
    let (body, advice) = (text(), None);
    let transport = |cause| Outcome::Transport {
        cause,
        message: text(),
    };
    let outcomes = vec![
        Outcome::Completed,
        Outcome::Truncated,
        Outcome::Rejected {
            status: 400,
            body: text(),
            advice: None,
        },
        Outcome::Refused { message: text() },
        Outcome::Unsupported { what: text() },
        Outcome::ServerError {
            status: 500,
            body,
            advice,
        },
        Outcome::StreamError { message: text() },
        transport(TransportCause::Reset),
        transport(TransportCause::Local),
        Outcome::TimedOut {
            limit_ms: 1,
            limit: TimeLimit::Request,
            stage: None,
        },
        Outcome::Cancelled,
        Outcome::Abandoned,
    ];
    let mut names: Vec<&str> = outcomes.iter().map(Outcome::name).collect();
    names.dedup();
    assert_eq!(names, Outcome::NAMES);
    outcomes
}

/// The answer with every outcome and finish reason.
fn endings(answer: &Answer) -> Vec<Observation> {
    let ended = |outcome: Outcome| {
        FINISH_REASONS.map(|reason| Observation {
            case_index: 0,
            outcome: outcome.clone(),
            timing: Timing::default(),
            answer: answer.clone(),
            finish_reason: reason.map(str::to_owned),
            usage: None,
        })
    };
    outcomes().into_iter().flat_map(ended).collect()
}

fn answer_text(text: &str) -> Answer {
    Answer::from_text(text.to_owned())
}

fn with_call(name: &str, arguments: &Value) -> Answer {
    Answer {
        tool_calls: vec![ToolCall {
            id: "call_0".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_string(),
            ..ToolCall::default()
        }],
        ..Answer::default()
    }
}

/// Requests with answers that follow their constraint, break it or are the start of one that does,
/// and all their endings.
fn requests() -> Vec<(Case, Observation)> {
    let oslo = json!({"city": "Oslo"});
    let city = json!({"type": "object", "properties": {"city": {"maxLength": 5}}});
    let function = json!({"name": "get_weather", "parameters": city});
    let tools = json!({"tools": [{"type": "function", "function": function}]});
    let answers = [
        (json!({"json": city}), answer_text(&oslo.to_string())),
        (
            json!({"json": city}),
            answer_text("{\"city\": \"Trondheim\""),
        ),
        (json!({"json": city}), answer_text("{\"city\": \"Os")),
        (json!({"json": city}), with_call("", &oslo)),
        (
            json!({"json": {"$ref": "https://example.com/schema.json"}}),
            answer_text("{}"),
        ),
        (
            json!({"grammar": {"dialect": "lark", "text": "start: \"SELECT a\""}}),
            answer_text("SELECT b"),
        ),
        (json!({"choice": ["yes", "no"]}), answer_text("yes")),
        (json!({"tools": tools}), with_call("get_weather", &oslo)),
        (json!({"tools": tools}), with_call("get_wind", &oslo)),
        (json!({"tools": tools}), answer_text("")),
        (Value::Null, answer_text("yes")),
    ];
    let mut requests = Vec::new();
    for (constraint, answer) in answers {
        let constraint: Option<Constraint> = serde_json::from_value(constraint).unwrap();
        let constraint = constraint.map(Arc::new);
        for observation in endings(&answer) {
            let id = requests.len().to_string();
            let prompt = Prompt::Text(id.as_str().into());
            let observation = Observation {
                case_index: requests.len(),
                ..observation
            };
            requests.push((Case::new(id, prompt, constraint.clone(), 8), observation));
        }
    }
    requests
}

/// Writes the log of a run that was killed before it judged the answers.
fn write_log(path: &str, requests: &[(Case, Observation)]) {
    let mut record = testing::record();
    record.dataset.requests = requests.len();
    record.settings.report.detailed = true;
    let (events, receiver) = event_channel();
    let started = RunEvent::Started {
        at: SystemTime::UNIX_EPOCH,
        clock: None,
    };
    let ended = requests
        .iter()
        .map(|(_, observation)| RunEvent::Ended(Box::new(observation.clone())));
    iter::once(started)
        .chain(ended)
        .for_each(|event| events.send(event));
    drop(events);
    let writer = LogWriter {
        record,
        open: &|_| Sink::create(path.as_ref(), Access::Default).unwrap(),
        format_time: |_| "1970-01-01T00:00:00.000000+00:00".to_owned(),
        case_of: &|index| requests.get(index).map(|(case, _)| (case, case.id.clone())),
        on_failure: &|error| panic!("{error}"),
    };
    writer.write(receiver);
}
/// What a comparison keeps of each request: whether it is correct, and its verdict or failure.
fn compared(run: &Run) -> Vec<(Option<bool>, String)> {
    let requests = run.requests.as_ref().unwrap().iter();
    requests
        .map(|request| {
            let verdict = request.verdict().unwrap().to_owned();
            (request.hit(&rates::CORRECT_RATE), verdict)
        })
        .collect()
}

#[test]
fn every_outcome_and_finish_reason_has_one_verdict() {
    let requests = requests();
    let folder = Folder::new();
    let path = folder.path("log.jsonl");
    write_log(&path, &requests);
    let mut log = RunLog::read(path.as_ref()).unwrap();
    let channel = log.record.server.expected_channel();
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let mut expected = |(case, observation): &(Case, Observation)| {
        let compiled = evaluator.compile_request(case.constraint.as_deref(), None, channel);
        judge(&compiled, &observation.answer, observation.into())
    };
    let expected: Vec<Verdict> = requests.iter().map(&mut expected).collect();

    let mut evaluator = Evaluator::new(JudgeSettings::default());
    sobench_runlog::judge::judge(&mut log, &mut evaluator, None, 1, &()).unwrap();
    let run = log.requests.iter().map(|request| request.verdict().clone());
    assert_eq!(run.collect::<Vec<_>>(), expected, "the run");

    let report = sobench(&["report", &path, "--format json"]);
    assert_eq!(report.code, 0, "{}", report.stderr);
    let result: Value = serde_json::from_str(&report.stdout).unwrap();
    let outputs = result["outputs"].as_array().unwrap().iter();
    let reported = outputs.map(|output| Verdict::deserialize(&output["verdict"]).unwrap());
    assert_eq!(reported.collect::<Vec<_>>(), expected, "the report");

    let ran = sobench(&["score", &path, "--format jsonl"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let scored = ran.stdout.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["message"].as_str().unwrap_or("valid").to_owned()
    });
    let sentences: Vec<String> = expected.iter().map(Verdict::to_string).collect();
    assert_eq!(scored.collect::<Vec<_>>(), sentences, "score");

    let kept = requests
        .iter()
        .zip(&expected)
        .map(|((_, observation), verdict)| {
            let failure = failure_message(&observation.outcome);
            let text = if failure.is_empty() {
                verdict.to_string()
            } else {
                failure
            };
            (is_correct(verdict), text)
        });
    let kept: Vec<_> = kept.collect();
    assert_eq!(
        compared(&run_from_log("log", &log).unwrap()),
        kept,
        "compare of the log"
    );
    let runs = parse_runs("result", report.stdout.as_bytes()).unwrap();
    assert_eq!(compared(&runs[0]), kept, "compare of the result");
}

/// The reason for a class shows the verdict from which the class follows.
#[track_caller]
fn check_finding(verdict: &Verdict, finding: &Finding) {
    let is_as_expected = match verdict {
        Verdict::Valid => finding.class == Class::Enforced,
        Verdict::Invalid {
            reason: Reason::Truncated,
        } => finding.class == Class::Partial,
        Verdict::Invalid { reason } => finding.reason.contains(&reason.to_string()),
        Verdict::NotScored { .. } => !matches!(
            finding.class,
            Class::Enforced | Class::Partial | Class::Ignored
        ),
    };
    assert!(is_as_expected, "{verdict:?}: {finding:?}");
}

#[test]
fn preflight_classifies_by_the_verdict() {
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let mut words = RandomWords::new(1);
    let choice = ProbeKind::Text(ConstraintKind::Choice);
    let probe = ConstraintProbe::random(choice, GrammarDialect::Lark, &mut words);
    let control = Control::from_observation(&endings(&answer_text("The sea is calm."))[0]);
    let compiled = evaluator.compile(&probe.judged_by);
    for text in [&*probe.random_words[0], "The sea."] {
        for observation in &endings(&answer_text(text)) {
            let evidence = Evidence {
                probe: &probe,
                observation,
                control: &control,
                envelopes: &[],
                dialect: ConstraintDialect::StructuredOutputs,
            };
            // A text that ends at the token limit may be whole.
            let ending = match observation.outcome {
                Outcome::Truncated => Ending::COMPLETED,
                _ => observation.into(),
            };
            let verdict = judge(&compiled, &observation.answer, ending);
            check_finding(&verdict, &classify(&evidence, &mut evaluator));
        }
    }
    let question = ToolQuestion {
        row: ToolRow::Required,
        strict: true,
    };
    let probe = ToolProbe::random(question, &mut words, ServerKind::Vllm);
    let compiled = evaluator.compile(&probe.constraint);
    let function = &probe.functions[0];
    for (name, value) in [
        (&function.name, &function.allowed[0]),
        (&function.name, &function.requested),
        (&function.member, &function.allowed[0]),
    ] {
        for observation in &endings(&with_call(name, &json!({&function.member: value}))) {
            let evidence = ToolEvidence {
                probe: &probe,
                observation,
                control: &CallControl::default(),
                calls_unasked: Some(false),
                is_tempted: true,
                parallel_calls: None,
            };
            let verdict = judge(&compiled, &observation.answer, observation.into());
            let found = tool_calls::classify::classify(&evidence, &mut evaluator);
            check_finding(&verdict, &found.finding);
        }
    }
}

#[test]
fn features_count_verdicts() {
    let mut features = shipped().into_iter();
    let feature = features.find(|feature| feature.id == "maxLength").unwrap();
    let constraint = Evaluator::new(JudgeSettings::default()).compile(&feature.constraint());
    let texts = [
        &*feature.valid[0],
        &*feature.violating[0],
        &feature.valid[0][..1],
    ];
    for observation in texts.iter().flat_map(|text| endings(&answer_text(text))) {
        let verdict = judge(&constraint, &observation.answer, (&observation).into());
        let found = features::judge::judge(&feature, &constraint, &[(0, observation)], &[]);
        let reason = found.offending.map(|answer| answer.reason);
        let expected = match verdict.clone().into_reason() {
            Some(Reason::Truncated) | None => None,
            Some(reason) => Some(reason.to_string()),
        };
        let is_valid = usize::from(verdict == Verdict::Valid);
        assert_eq!((found.valid, reason), (is_valid, expected), "{verdict:?}");
    }
}
