//! Run logs: written and read back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::line::{self, Line, Numbers, RequestLine};
use super::write::{Access, LogWriter, Sink, event_channel};
use super::*;
use crate::probe::ProbeResults;
use crate::recovery::{Recovery, SingleLatency};
use crate::spec_decode::SpecDecode;
use sobench_core::answer::{Answer, AnsweredBy, CallForm, Channel, ToolCall};
use sobench_core::audio::Clip;
use sobench_core::case::{Arm, Case, Message, Prompt};
use sobench_core::channel_timing::{ChannelTiming, ChunkPart};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::departure::{Departure, Departures};
use sobench_core::error::Error;
use sobench_core::frames::FrameWriter;
use sobench_core::load::{ErrorLimits, Load};
use sobench_core::nonce::Nonce;
use sobench_core::observation::{Observation, Outcome, ServerTimes, Timing, TransportCause, Usage};
use sobench_core::run_event::{AnswerForm, Repeat, RunEvent};
use sobench_core::schedule::{Pace, Rate, Until};
use sobench_core::verdict::{Reason, Verdict};
use sobench_facts::client_reads::{ClientRead, ClientReads};
use sobench_facts::parity::Parity;
use sobench_facts::reasoning::ReasoningFacts;
use sobench_facts::{Judged, TokenSource, Tokens};
use sobench_judge::accuracy::{Accuracy, Grade, Leaves};
use sobench_judge::canary::{CanaryAnswer, CanaryClass, Excerpt};
use sobench_judge::free_choices::FreeChoices;
use sobench_notices::notice::Notice;
use sobench_plan::metrics::MetricsSettings;
use sobench_plan::record::ClientCost;
use sobench_plan::record::{RunRecord, testing};

pub(crate) fn record() -> RunRecord {
    let mut record = testing::record();
    record.started = String::new();
    record.started_unix_ns = 0;
    record.server.model = "served".into();
    record.server.header_names = vec!["x-team".into()];
    record.dataset.requests = 9;
    record.known_constraints = vec!["cd".into()];
    record.notices = vec![Notice::Other("the server reported ***".into())];
    let settings = &mut record.settings;
    settings.request.sampling.temperature = Some(1.0);
    settings.request.sampling.top_p = Some(0.123_456_789_012_345_68);
    settings.load = Load {
        pace: Pace::Steady(Rate::PerSecond(1.0 / 3.0)),
        burstiness: f64::INFINITY,
        until: Until::Time(Duration::from_secs(3600)),
        error_limits: ErrorLimits {
            max_error_rate: Some(0.1),
            max_consecutive_errors: Some(50),
        },
        ..settings.load.clone()
    };
    settings.metrics = MetricsSettings {
        percentiles: vec![99.9, 50.0],
        ..MetricsSettings::default()
    };
    settings.report.percentile_metrics = vec!["ttft".to_owned()];
    settings.report.metadata = vec![("gpu".into(), "none".into())];
    record
}

pub(super) fn cases() -> Vec<Case> {
    let schema: Arc<Constraint> = Arc::new(Constraint::JsonSchema(Arc::new(
        serde_json::from_str(r#"{"maximum":1.50,"multipleOf":1e-2,"b":1,"a":2}"#).unwrap(),
    )));
    let case = |index: usize, prompt: Prompt| Case {
        completion: Some("{}".into()),
        tags: vec!["a".into()],
        ..Case::new(
            format!("json-{index}"),
            prompt,
            Some(Arc::clone(&schema)),
            8,
        )
    };
    let text: Arc<str> = "say\n\u{0}é".into();
    let content: serde_json::Value =
        serde_json::from_str(r#"[{"type":"text","text":"x","weight":1.10}]"#).unwrap();
    let grammar = Constraint::Grammar {
        dialect: GrammarDialect::Ebnf,
        text: "root ::= \"a\"".into(),
    };
    vec![
        case(0, Prompt::Text(Arc::clone(&text))),
        case(1, Prompt::Text(text)),
        case(2, Prompt::Messages([Message::new("user", content)].into())),
        Case {
            arm: Arm::Free,
            constraint: None,
            ..case(3, Prompt::Audio(Arc::new(Clip::new("a.wav", vec![1]))))
        },
        Case {
            constraint: Some(Arc::new(grammar)),
            grammar_oracle: Some("root = { \"a\" }".into()),
            completion: None,
            tags: Vec::new(),
            ..case(
                4,
                Prompt::Ranking {
                    query: "q".into(),
                    documents: ["d".into()].into(),
                },
            )
        },
    ]
}

fn observation(case_index: usize, outcome: Outcome, chunks_ns: &[u64]) -> Observation {
    Observation {
        case_index,
        outcome,
        timing: Timing {
            due_ns: 1,
            ready_ns: Some(2),
            sent_ns: Some(3),
            send_call_ns: Some(4),
            headers_ns: None,
            chunks_ns: chunks_ns.to_vec(),
            arrival_slack_ns: Some(vec![(0, 9)]),
            first_reasoning_ns: None,
            first_answer_ns: chunks_ns.first().copied(),
            first_arguments_ns: chunks_ns.last().copied(),
            channels: ChannelTiming::new(&parts(chunks_ns.len()), chunks_ns),
            chunk_tokens: if chunks_ns.is_empty() {
                Vec::new()
            } else {
                vec![2, 5, 5]
            },
            end_ns: Some(u64::MAX - 1),
            server: Some(ServerTimes {
                queue_ns: Some(1),
                first_token_ns: None,
                generation_ns: Some(u64::MAX),
            }),
            streamed: true,
        },
        answer: Answer {
            reasoning: "hm".into(),
            ..Answer::from_text("{\"a\":1.0}\u{1b}\u{2028}".into())
        },
        finish_reason: Some("stop".into()),
        usage: Some(Usage {
            prompt_tokens: Some(u64::MAX),
            completion_tokens: None,
            reasoning_tokens: None,
            cached_tokens: None,
            unreadable: false,
        }),
    }
}

pub(super) fn observations() -> Vec<Observation> {
    let message = || "no key-123456789".to_owned();
    vec![
        observation(4, Outcome::Completed, &[10, 20, 20, 35]),
        // Implausible times round-trip as well.
        observation(
            0,
            Outcome::Rejected {
                status: 400,
                body: message(),
                advice: None,
            },
            &[u64::MAX - 1, 0, 7],
        ),
        observation(
            2,
            Outcome::TimedOut {
                limit_ms: 5,
                limit: Default::default(),
                stage: None,
            },
            &[],
        ),
        Observation {
            timing: Timing::default(),
            ..observation(1, Outcome::Cancelled, &[])
        },
        observation(
            3,
            Outcome::Transport {
                cause: TransportCause::Reset,
                message: message(),
            },
            &[1],
        ),
    ]
}

pub(super) fn judged() -> Judged {
    let reason = Reason::Schema {
        keyword: "maximum".into(),
        instance_path: "/a".into(),
        schema_path: "/b".into(),
        message: "m".into(),
    };
    Judged {
        verdict: Verdict::Invalid { reason },
        tokens: Tokens {
            input: Some(3),
            input_source: TokenSource::Server,
            ..Tokens::default()
        },
        vllm_correct: Some(true),
        white_space_run: true,
        whole: false,
        right_call: Some(false),
        accuracy: Some(Accuracy {
            grade: Grade::Wrong,
            leaves: Some(Leaves {
                right: 3,
                wrong: 1,
                ..Leaves::default()
            }),
        }),
        made_call: Some(true),
        call_due: Some(false),
        called_tool: Some("get_weather".to_owned()),
        reasoning_facts: Some(ReasoningFacts {
            tokens: Some(4),
            json_only: true,
            end_marker: false,
        }),
        parity: Some(Parity::Equal),
        free_choices: FreeChoices::new(r#"{"a": 1}"#, None, None),
        canary: Some(CanaryAnswer {
            class: CanaryClass::Swapped,
            byte: Some(3),
            nonce: Some(Nonce::new(17)),
            excerpt: Some(Excerpt {
                before: "cn-".to_owned(),
                from: "\u{e9} bread".to_owned(),
            }),
        }),
        clients: Some(ClientReads(BTreeMap::from([
            (
                "litellm".to_owned(),
                ClientRead {
                    readable: true,
                    valid: false,
                    right: Some(false),
                },
            ),
            (
                "ai-sdk".to_owned(),
                ClientRead {
                    readable: false,
                    valid: false,
                    right: None,
                },
            ),
        ]))),
    }
}

/// Chunks with reasoning, and the last one with arguments.
fn parts(chunks: usize) -> Vec<ChunkPart> {
    let part = |chunk: usize| ChunkPart {
        chunk,
        channel: if chunk + 1 == chunks {
            Channel::ToolCalls
        } else {
            Channel::Reasoning
        },
        bytes: chunk,
    };
    (0..chunks).map(part).collect()
}

pub(super) fn footer() -> Footer {
    let cost = ClientCost {
        wall_s: 1.1 + 2.2,
        cpu_s: Some(0.1),
        ..ClientCost::default()
    };
    Footer {
        requests: 5,
        duration_ns: u64::MAX,
        cost,
        recovery: Some(Recovery::new(
            SingleLatency::E2el,
            vec![0.1 + 0.2],
            Vec::new(),
            Some("no answer".to_owned()),
        )),
        probe: Some(ProbeResults::new(0.1, &[Some(1.5), None])),
        spec_decode: Some(SpecDecode {
            acceptance_rate: 0.1 + 0.2,
            ..SpecDecode::default()
        }),
        engine: None,
        interrupted: false,
        broken_off: None,
        early_breach: None,
        notices: vec![Notice::Other("n".into())],
        clock: None,
    }
}

/// Writes the requests to a sink, and returns whether a failure was reported.
fn write(open: impl Fn() -> Sink + Sync) -> (Sink, bool) {
    write_with(Vec::new(), open)
}

/// The same with requests that were sent again.
fn write_with(repeats: Vec<Repeat>, open: impl Fn() -> Sink + Sync) -> (Sink, bool) {
    let cases = cases();
    let (events, receiver) = event_channel();
    events.send(RunEvent::Started {
        at: UNIX_EPOCH + Duration::new(5, 7),
        clock: None,
    });
    observations()
        .into_iter()
        .for_each(|observation| events.send(RunEvent::Ended(Box::new(observation))));
    repeats
        .into_iter()
        .for_each(|repeat| events.send(RunEvent::Repeated(Box::new(repeat))));
    drop(events);
    let failed = std::sync::atomic::AtomicBool::new(false);
    let mut quoted = record();
    quoted.notices = vec![Notice::Other("the server reported key-123456789".into())];
    sobench_core::secrets::register("Bearer key-123456789");
    let writing = LogWriter {
        record: quoted,
        open: &|_| open(),
        format_time: |_: SystemTime| "start time".to_owned(),
        case_of: &|index| cases.get(index).map(|case| (case, case.id.clone())),
        on_failure: &|_: &Error| failed.store(true, std::sync::atomic::Ordering::Relaxed),
    };
    let (sink, waited) = writing.write(receiver);
    assert!(waited > 0);
    (sink, failed.into_inner())
}

fn expected() -> Vec<(Case, Observation)> {
    let mut observations = observations();
    observations.sort_by_key(|observation| observation.case_index);
    for observation in &mut observations {
        // The server's counts are part of the verdict; the line has them.
        observation.usage = None;
        if let Outcome::Rejected { body: text, .. } | Outcome::Transport { message: text, .. } =
            &mut observation.outcome
        {
            *text = "no ***".into();
        }
        observation.answer = Answer::default();
    }
    cases().into_iter().zip(observations).collect()
}

fn check(log: &RunLog) {
    let with_start = RunRecord {
        started: "start time".into(),
        started_unix_ns: 5_000_000_007,
        ..record()
    };
    assert_eq!(log.record, with_start);
    assert_eq!(log.record.started(), UNIX_EPOCH + Duration::new(5, 7));
    let found: Vec<String> = log
        .requests
        .iter()
        .map(|request| format!("{:?}", (&request.case(), &request.observation())))
        .collect();
    let wanted: Vec<String> = expected()
        .iter()
        .map(|(case, observation)| format!("{:?}", (case, observation)))
        .collect();
    assert_eq!(found, wanted);
    let constraint = |index: usize| log.requests.get(index).unwrap().constraint().unwrap();
    assert!(Arc::ptr_eq(constraint(0), constraint(2)));
    let logged = log.answer(3).unwrap();
    assert_eq!(
        (logged.index, logged.answer),
        (3, observation(3, Outcome::Completed, &[]).answer)
    );
    let shown = Mutex::new(Vec::new());
    let mut judging = log.clone();
    let found = judging.judge(
        1,
        &(),
        || (),
        |(), request, answer| {
            let counted = answer.usage
                == Some(Usage {
                    prompt_tokens: Some(u64::MAX),
                    completion_tokens: None,
                    reasoning_tokens: None,
                    cached_tokens: None,
                    unreadable: false,
                });
            shown.lock().unwrap().push((
                request.case_index(),
                answer.index,
                answer.answer.text().len(),
                counted,
            ));
            judged()
        },
    );
    assert_eq!((found, judging.is_judged), (Ok(()), true));
    let shown = shown.into_inner().unwrap();
    assert_eq!(shown, [4, 0, 2, 1, 3].map(|index| (index, index, 13, true)));
}

#[test]
fn written_log_is_read_back_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let (mut sink, failed) = write(|| Sink::create(&path, Access::Private).unwrap());
    assert!(!failed);
    let log = RunLog::read(&path).unwrap();
    check(&log);
    assert!(log.is_partial() && !log.is_judged && log.notices.is_empty());
    let every = judged();
    assert_eq!(
        sink.finish((0..5).map(|index| (index, every.clone())), &footer()),
        None
    );
    let log = RunLog::read(&path).unwrap();
    check(&log);
    let found: Vec<Judged> = log
        .requests
        .iter()
        .map(|request| request.judged())
        .collect();
    assert_eq!(
        (found, log.is_judged, log.footer.clone(), log.is_partial()),
        (vec![every; 5], true, Some(footer()), false)
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        !text.contains("key-123456789"),
        "quoted secrets are removed"
    );
    assert!(
        text.contains(r#""chunk_gaps_ns":[7,10,0,15]"#)
            && text.contains(r#"{"maximum":1.50,"multipleOf":1e-2,"b":1,"a":2}"#),
        "{text}"
    );
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&path).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[test]
fn requests_that_were_sent_again_are_compared() {
    let repeat = |form: AnswerForm, content: Option<&str>| {
        let first = observation(4, Outcome::Completed, &[]);
        let answer = match content {
            Some(content) => Answer::from_text(content.to_owned()),
            None => first.answer.clone(),
        };
        let observation = Observation { answer, ..first };
        Repeat { form, observation }
    };
    let (whole, streamed) = (AnswerForm::Whole, AnswerForm::Streamed);
    for (repeats, expected) in [
        (vec![], None),
        (vec![repeat(whole, None)], Some("equal")),
        (vec![repeat(whole, Some("{}"))], Some("unconfirmed")),
        (
            vec![repeat(whole, Some("{}")), repeat(streamed, None)],
            Some("different"),
        ),
        (
            vec![repeat(whole, Some("{}")), repeat(streamed, Some("[]"))],
            Some("not_deterministic"),
        ),
    ] {
        let (mut sink, _) = write_with(repeats, Sink::in_memory);
        let mut log = RunLog::from_source(sink.source(), &()).unwrap();
        log.judge_parity().unwrap();
        let found: Vec<_> = log
            .requests
            .iter()
            .filter_map(|request| Some((request.case_index(), request.parity()?.clone())))
            .collect();
        let names: Vec<_> = found
            .iter()
            .map(|(index, parity)| (*index, json!(parity)["result"].clone()))
            .collect();
        let expected: Vec<_> = expected.map(|name| (4, json!(name))).into_iter().collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn log_without_a_file_is_complete() {
    let (mut sink, failed) = write(Sink::in_memory);
    assert!(!failed);
    let log = RunLog::from_source(sink.source(), &()).unwrap();
    check(&log);
    assert_eq!(log.source().path(), None);
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_is_reported_and_loses_nothing() {
    let (mut sink, failed) = write(|| Sink::create("/dev/full".as_ref(), Access::Default).unwrap());
    assert!(failed, "the failure is reported during the run");
    let failure = sink.failure().unwrap().clone();
    assert!(
        failure.what.starts_with("cannot write the run log") && failure.exit_code() == 3,
        "{failure}"
    );
    check(&RunLog::from_source(sink.source(), &()).unwrap());
    assert_eq!(
        sink.finish([(0, judged())], &footer()),
        None,
        "it is reported once"
    );
}

#[test]
fn log_split_between_file_and_memory_is_one_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    write(|| Sink::create(&path, Access::Default).unwrap());
    let whole = std::fs::read(&path).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len()] {
        let source = Source::parts(Some((path.clone(), cut as u64)), whole[cut..].to_vec());
        check(&RunLog::from_source(source, &()).unwrap());
    }
}

#[test]
fn killed_run_is_read_to_its_last_complete_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let (mut sink, _) = write(|| Sink::create(&path, Access::Default).unwrap());
    sink.finish((0..5).map(|index| (index, judged())), &footer());
    let whole = std::fs::read(&path).unwrap();
    let header_end = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for cut in header_end..whole.len() {
        std::fs::write(&path, &whole[..cut]).unwrap();
        let log = RunLog::read(&path).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let lines = whole[..cut]
            .split(|byte| *byte == b'\n')
            .filter(|line| line.starts_with(b"{\"request\"") && line.ends_with(b"}}"));
        assert!(
            log.is_partial() && !log.is_judged && log.requests.len() <= lines.count(),
            "cut at {cut}"
        );
        assert_eq!(
            log.notices.len(),
            usize::from(whole[cut - 1] != b'\n'),
            "cut at {cut}"
        );
    }
}

#[test]
fn growing_log_is_read_to_its_length_and_byte_order_mark_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let (mut sink, _) = write(|| Sink::create(&path, Access::Default).unwrap());
    let unjudged = std::fs::read(&path).unwrap();
    sink.finish((0..5).map(|index| (index, judged())), &footer());
    let whole = std::fs::read(&path).unwrap();
    for mark in ["", "\u{feff}"] {
        let [started, ended] = [&unjudged[..unjudged.len() - 10], &whole[..]]
            .map(|part| [mark.as_bytes(), part].concat());
        std::fs::write(&path, started).unwrap();
        assert!(RunLog::is_run_log(&path).unwrap());
        let mut log = RunLog::read(&path).unwrap();
        let read_requests = log.requests.len();
        std::fs::write(&path, ended).unwrap();
        let seen = AtomicUsize::new(0);
        log.judge(
            2,
            &(),
            || (),
            |(), _, _| {
                seen.fetch_add(1, Ordering::Relaxed);
                judged()
            },
        )
        .unwrap();
        let seen = seen.into_inner();
        assert_eq!(
            (
                seen,
                log.is_judged,
                RunLog::read(&path).unwrap().requests.len()
            ),
            (read_requests, true, 5)
        );
    }
}

#[test]
fn damaged_log_is_rejected_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let (mut sink, _) = write(|| Sink::create(&path, Access::Default).unwrap());
    let one = judged();
    sink.finish((0..5).map(|index| (index, one.clone())), &footer());
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let with = |index: usize, line: &str| {
        let mut lines = lines.clone();
        lines[index] = line;
        lines.join("\n") + "\n"
    };
    let of_version =
        |version: u32| lines[0].replacen("\"version\":2", &format!("\"version\":{version}"), 1);
    let with_shard = |number: usize, of: usize| {
        let shard = json!({"number": number, "of": of, "plan_sha256": "", "cases_sha256": "", "start": "own"});
        format!("\"record\":{{\"shard\":{shard},")
    };
    for (text, message) in [
        (String::new(), "the file is empty"),
        (
            "{\"header\":".to_owned(),
            "not a run log (no complete line)",
        ),
        ("{}\n".to_owned(), "not a run log (no header)"),
        ("hello\n".to_owned(), "not a run log (line 1 is not JSON"),
        ("{\"header\":{}}\n".to_owned(), "the header has no version"),
        (
            with(0, &of_version(3)),
            "unsupported run log version 3 (supported: 2)",
        ),
        (
            with(0, &of_version(1)),
            "unsupported run log version 1 (supported: 2)",
        ),
        (
            with(
                0,
                &json!({"header": {"version": 2, "record": {}}}).to_string(),
            ),
            "header: missing field",
        ),
        (
            with(0, &lines[0].replacen("\"record\":{", &with_shard(0, 4), 1)),
            "invalid shard numbers",
        ),
        (
            with(0, &lines[0].replacen("\"record\":{", &with_shard(1, 0), 1)),
            "invalid shard numbers",
        ),
        (with(1, "nonsense"), "line 2: not a line of a run log"),
        (
            with(1, lines[0]),
            "line 2: second header: the file contains the logs of two runs",
        ),
        (
            text.repeat(2),
            ": second header: the file contains the logs of two runs",
        ),
        (
            with(1, "\u{1b}[31m{"),
            "line 2: not a line of a run log (expected value at column 1): \\u{1b}[31m{",
        ),
        (
            lines[0].replacen("\"requests\":", "\"requests\":1e300,\"was\":", 1) + "\n",
            "(line 1, header: invalid",
        ),
        (
            lines
                .iter()
                .chain(&[lines[1]])
                .copied()
                .collect::<Vec<_>>()
                .join("\n")
                + "\n",
            "line after the footer",
        ),
        (
            with(1, lines[lines.len() - 2]),
            "line 2: verdict for an unknown request",
        ),
        (
            with(1, lines[lines.len() - 1]),
            "line 3: line after the footer",
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = RunLog::read(&path).unwrap_err();
        assert!(
            error.what.contains(message)
                && error.what.contains("run.jsonl")
                && error.exit_code() == 2,
            "{message}: {error}"
        );
        assert!(error.hint.is_some());
    }
    let without: Vec<&str> = lines
        .iter()
        .filter(|line| !line.contains("\"id\":\"json-3\""))
        .copied()
        .collect();
    std::fs::write(&path, without.join("\n") + "\n").unwrap();
    assert!(
        RunLog::read(&path)
            .unwrap_err()
            .what
            .ends_with("/run.jsonl, line 16: verdict for an unknown request: 3")
    );
    let error = RunLog::read(&folder.path().join("none")).unwrap_err();
    assert!(
        error.what.starts_with("cannot read ") && error.exit_code() == 2,
        "{error}"
    );
}

#[test]
fn every_channel_of_an_answer_round_trips() {
    let call = ToolCall {
        index: 1,
        id: "c".into(),
        name: "f".into(),
        arguments: "{\"a\":1.0}".into(),
        form: CallForm::Object,
    };
    let mut departures = Departures::default();
    departures.add(Departure::SecondChoice, "index 1");
    let mut frames = FrameWriter::default();
    frames.add(b"", br#"{"a":"\u00e9"}"#, "");
    let answer = Answer {
        reasoning: "hm".into(),
        content: "a".into(),
        refusal: "no".into(),
        tool_calls: vec![call, ToolCall::default()],
        departures,
        answered_by: AnsweredBy::default(),
        frames: frames.into_frames(""),
    };
    let observation = Observation {
        answer: answer.clone(),
        ..observation(3, Outcome::Completed, &[])
    };
    let case = &cases()[3];
    let line = line::bytes(&Line::Request(Box::new(RequestLine::new(
        case,
        &case.id,
        Numbers::default(),
        &observation,
    ))));
    assert_eq!(
        line::answer(&line).unwrap().map(|logged| logged.answer),
        Some(answer)
    );
}

#[test]
fn the_names_in_answers_round_trip_and_old_logs_have_none() {
    let answered_by = AnsweredBy {
        model: "a".into(),
        system_fingerprint: "f".into(),
    };
    let mut observation = observation(3, Outcome::Completed, &[]);
    let logged = |observation: &Observation| {
        let case = &cases()[3];
        let numbers = Numbers::default();
        let request = RequestLine::new(case, &case.id, numbers, observation);
        serde_json::to_string(&request).unwrap()
    };
    let read = |line: &str| {
        let request: line::ReadRequest = serde_json::from_str(line).unwrap();
        request.into_parts(Prompt::Text("a".into())).unwrap().1
    };
    let without = logged(&observation);
    assert!(!without.contains("answered_by"), "{without}");
    assert!(read(&without).answer.answered_by.is_empty());
    observation.answer.answered_by = answered_by;
    assert_eq!(read(&logged(&observation)).answer, observation.answer);
}
