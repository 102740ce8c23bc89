//! Result files validate against the published contracts (`schemas/contracts`).

use std::sync::Arc;

use serde_json::{Value, json};
use sobench_core::answer::{Answer, Channel, ToolCall};
use sobench_core::case::{Arm, Case, Prompt};
use sobench_core::channel_timing::{ChannelBytes, ChannelTiming};
use sobench_core::constraint::Constraint;
use sobench_core::nonce::Nonce;
use sobench_core::observation::{
    Advice, Observation, Outcome, ServerTimes, Stage, TimeLimit, Timing, TransportCause,
};
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_judge::accuracy::{Accuracy, Grade, Leaves};
use sobench_judge::canary::{CanaryAnswer, CanaryClass, Excerpt};
use sobench_judge::free_choices::FreeChoices;
use sobench_notices::notice::Notice;
use sobench_report::view::View;
use sobench_report::{Report, json};
use sobench_results::metrics::accuracy::TokenPrice;
use sobench_results::metrics::reasoning::ReasoningFacts;
use sobench_results::metrics::request_table::RequestTable;
use sobench_results::metrics::stream_parity::{Parity, Response};
use sobench_results::metrics::{
    Answers, Judged, MetricsOptions, Slo, TokenSource, Tokens, summarise,
};
use sobench_results::record::{Engine, EngineChoice, EngineWork, RunRecord};
use sobench_results::runlog::RunLog;

use sobench_testkit::contract::with_member;
use sobench_testkit::repository_path;

use crate::support::check_result;

const NS_PER_MS: u64 = 1_000_000;

/// A request with its outcome and verdict.
type JudgedRequest = (Case, Observation, Verdict);

fn judged_request(index: usize, arm: Arm, outcome: Outcome, verdict: Verdict) -> JudgedRequest {
    let answered = outcome.is_answer();
    let case = Case {
        arm,
        completion: (index == 0).then(|| "a".to_owned()),
        tags: vec!["tag".into()],
        ..Case::new(
            format!("case-{index}"),
            Prompt::Text("say a".into()),
            if arm == Arm::Free {
                None
            } else {
                Some(Arc::new(Constraint::Regex("a".into())))
            },
            8,
        )
    };
    let at = |ms: u64| (index as u64 * 7 + ms) * NS_PER_MS;
    let timing = Timing {
        due_ns: at(0),
        ready_ns: Some(at(0)),
        sent_ns: Some(at(1)),
        send_call_ns: Some(5_000),
        headers_ns: Some(at(2)),
        chunks_ns: if answered {
            vec![at(5), at(9), at(20)]
        } else {
            vec![]
        },
        arrival_slack_ns: Some(if answered { vec![(1, 30_000)] } else { vec![] }),
        first_reasoning_ns: (answered && index.is_multiple_of(2)).then(|| at(5)),
        first_answer_ns: answered.then(|| at(9)),
        first_arguments_ns: answered.then(|| at(20)),
        channels: answered.then(|| ChannelTiming {
            runs: vec![(0, vec![Channel::Reasoning, Channel::Content].into())],
            bytes: ChannelBytes {
                reasoning: 2,
                content: 3,
                tool_calls: 4,
            },
            late_bytes: ChannelBytes::default(),
        }),
        chunk_tokens: if answered { vec![1, 2, 5] } else { vec![] },
        end_ns: Some(at(21)),
        server: answered.then_some(ServerTimes {
            queue_ns: Some(1),
            first_token_ns: Some(2),
            generation_ns: Some(3),
        }),
        streamed: answered,
    };
    let observation = Observation {
        case_index: index,
        outcome,
        timing,
        answer: Answer {
            content: if answered {
                "a\u{0}\u{1b}".into()
            } else {
                String::new()
            },
            reasoning: if answered && index.is_multiple_of(2) {
                "hm".into()
            } else {
                String::new()
            },
            ..Answer::default()
        },
        finish_reason: answered.then(|| "stop".to_owned()),
        usage: None,
    };
    (case, observation, verdict)
}

/// A difference in the arguments.
fn parity() -> Parity {
    let response = |arguments: &str| Response {
        outcome: Outcome::Completed,
        answer: Answer {
            tool_calls: vec![ToolCall {
                arguments: arguments.to_owned(),
                ..ToolCall::default()
            }],
            ..Answer::default()
        },
        finish_reason: None,
        usage: None,
    };
    let first = response("{}");
    Parity::new(&first, &response("{} "), Some(&first))
}

/// Every outcome in every arm, and every reason and cause for a missing verdict.
fn every_judged_request() -> Vec<JudgedRequest> {
    let text = || "text".to_owned();
    let outcomes = [
        Outcome::Completed,
        Outcome::Truncated,
        Outcome::Rejected {
            status: 400,
            body: text(),
            advice: None,
        },
        Outcome::ServerError {
            status: 500,
            body: text(),
            advice: None,
        },
        Outcome::StreamError { message: text() },
        Outcome::Transport {
            cause: TransportCause::BodyTooLarge,
            message: text(),
        },
        Outcome::TimedOut {
            limit_ms: 5,
            limit: TimeLimit::Idle,
            stage: Some(Stage::BeforeFirstToken),
        },
        Outcome::Rejected {
            status: 429,
            body: text(),
            advice: Some(Advice::RetryAfter(text())),
        },
        Outcome::ServerError {
            status: 307,
            body: text(),
            advice: Some(Advice::Location(text())),
        },
        Outcome::Cancelled,
        Outcome::Abandoned,
    ];
    let reasons = [
        Reason::NotJson {
            message: text(),
            byte: 0,
        },
        Reason::ExtraText {
            byte: 1,
            kind: sobench_core::verdict::ExtraText::Unknown,
            valid_if_stripped: false,
        },
        Reason::Schema {
            keyword: text(),
            instance_path: text(),
            schema_path: text(),
            message: text(),
        },
        Reason::DuplicateKey {
            key: text(),
            instance_path: text(),
        },
        Reason::LoneSurrogate { byte: 2 },
        Reason::Regex { prefix: true },
        Reason::Choice,
        Reason::Grammar { byte: 3 },
        Reason::StructuralTag {
            path: text(),
            byte: 3,
            message: text(),
        },
        Reason::Empty,
        Reason::TooLong { bytes: 4 },
        Reason::TooDeep { nesting: 5 },
        Reason::RunawayWhitespace { bytes: 6 },
        Reason::WrongChannel {
            channel: Channel::ToolCalls,
        },
        Reason::OtherRequest { member: text() },
        Reason::Truncated,
    ];
    let unscored = [
        NotScored::NoConstraint,
        NotScored::Refused,
        NotScored::Failed,
        NotScored::Cancelled,
        NotScored::Abandoned,
        NotScored::Unsupported { what: text() },
        NotScored::Limit { what: text() },
    ];
    let mut requests: Vec<(Arm, Outcome, Verdict)> = Vec::new();
    for arm in [Arm::Constrained, Arm::Control, Arm::Free] {
        requests.extend(
            outcomes
                .iter()
                .map(|outcome| (arm, outcome.clone(), Verdict::Valid)),
        );
    }
    requests.extend(reasons.map(|reason| {
        (
            Arm::Constrained,
            Outcome::Completed,
            Verdict::Invalid { reason },
        )
    }));
    requests.extend(unscored.map(|why| {
        (
            Arm::Constrained,
            Outcome::Completed,
            Verdict::NotScored { why },
        )
    }));
    requests
        .into_iter()
        .enumerate()
        .map(|(index, (arm, outcome, verdict))| judged_request(index, arm, outcome, verdict))
        .collect()
}

/// The record of the frozen run.
fn record() -> RunRecord {
    RunLog::read(&repository_path("fixtures/runs/v2.jsonl"))
        .expect("the frozen run is a run log")
        .record
}

fn full_record() -> RunRecord {
    let mut record = record();
    record.settings.load.max_concurrency = Some(4);
    record.settings.report.metadata = vec![("gpu".into(), "none".into())];
    record.dataset.constraint_kinds = vec!["regex".into()];
    record.server.engine_choice = EngineChoice::Selected("guidance".into());
    record.server.engine = Some(Engine {
        name: "guidance".into(),
        version: Some("llguidance 1.0".into()),
        settings: vec![("white space".into(), "any".into())],
        work: Some(EngineWork {
            cache_hits: 9,
            cache_misses: 1,
            max_batch: 256,
            largest_batch: 10,
            steps: 400,
            masks: 4000,
            mask_p50_us: Some(6.5),
            mask_p99_us: None,
        }),
    });
    record.notices = vec![Notice::Other("a notice".into())];
    record
}

fn canary() -> CanaryAnswer {
    CanaryAnswer {
        class: CanaryClass::Swapped,
        byte: Some(1),
        nonce: Some(Nonce::new(1)),
        excerpt: Some(Excerpt {
            before: "c".to_owned(),
            from: "n-".to_owned(),
        }),
    }
}

/// The result file of a run with these requests.
fn saved(
    requests: &[JudgedRequest],
    record: RunRecord,
    options: &MetricsOptions,
    tokens: Option<u64>,
    detailed: bool,
) -> Value {
    let source = if tokens.is_some() {
        TokenSource::Tokenizer
    } else {
        TokenSource::Unknown
    };
    let tokens = Tokens {
        input: tokens,
        input_source: source,
        output: tokens,
        output_source: source,
    };
    let mut ledger = RequestTable::new(requests.len(), None);
    let schema = serde_json::json!({"properties": {"a": {}, "b": {}}});
    for (index, (case, observation, verdict)) in requests.iter().enumerate() {
        assert!(ledger.push(case, observation, 0));
        let vllm_correct = tokens.input.map(|_| true);
        ledger.judge(
            index,
            Judged {
                verdict: verdict.clone(),
                tokens,
                vllm_correct,
                white_space_run: false,
                whole: true,
                right_call: vllm_correct,
                accuracy: vllm_correct.map(|_| Accuracy {
                    grade: Grade::Right,
                    leaves: Some(Leaves::default()),
                }),
                made_call: vllm_correct,
                call_due: vllm_correct,
                reasoning: vllm_correct.map(|_| ReasoningFacts {
                    tokens: Some(3),
                    json_only: true,
                    end_marker: true,
                }),
                parity: vllm_correct.map(|_| parity()),
                free_choices: vllm_correct
                    .and_then(|_| FreeChoices::new(r#" {"b": "ü", "a": 1}"#, Some(&schema), None)),
                canary: vllm_correct.map(|_| canary()),
            },
        );
    }
    let samples = ledger.samples();
    let report = Report::new(record, summarise(&samples, 3_000 * NS_PER_MS, options));
    let answer = |index: usize| Ok(Answer::from_text(samples[index].text().to_owned()));
    let view = View {
        report: &report,
        samples: &samples,
        answer: &answer,
        resend: None,
        run_log: None,
        requirements: None,
    };
    // Serialised to text and parsed, as a reader of the file does.
    serde_json::from_str(
        &serde_json::to_string(&json::document(view, detailed)).expect("the document is JSON"),
    )
    .expect("the result file is JSON")
}

fn goodput_options() -> MetricsOptions {
    let slo = Slo {
        ttft_ms: Some(5.0),
        ..Slo::default()
    };
    MetricsOptions {
        percentiles: vec![0.0, 50.0, 99.9, 100.0],
        goodput: Some(slo),
        streamed: true,
        answers: Answers::Generated,
        cost_per_million: Some(TokenPrice {
            input: 0.25,
            output: 2.0,
        }),
    }
}

#[test]
fn every_result_file_validates_against_the_contract() {
    let requests = every_judged_request();
    let mut whole = every_judged_request();
    whole
        .iter_mut()
        .step_by(2)
        .for_each(|(_, observation, _)| observation.timing.streamed = false);
    let unstreamed = MetricsOptions {
        streamed: false,
        ..MetricsOptions::default()
    };
    let computed = MetricsOptions {
        answers: Answers::Computed,
        ..unstreamed.clone()
    };
    for detailed in [false, true] {
        for (name, file) in [
            (
                "every outcome",
                saved(
                    &requests,
                    full_record(),
                    &goodput_options(),
                    Some(3),
                    detailed,
                ),
            ),
            (
                "no counts",
                saved(&requests, full_record(), &goodput_options(), None, detailed),
            ),
            (
                "streams requested, not received",
                saved(&whole, full_record(), &goodput_options(), Some(3), detailed),
            ),
            (
                "no stream",
                saved(&requests, full_record(), &unstreamed, Some(3), detailed),
            ),
            (
                "no tokens",
                saved(&requests, full_record(), &computed, None, detailed),
            ),
            (
                "one request",
                saved(
                    &requests[..1],
                    full_record(),
                    &MetricsOptions::default(),
                    Some(1),
                    detailed,
                ),
            ),
            (
                "truncated only",
                saved(
                    &requests[1..2],
                    full_record(),
                    &MetricsOptions::default(),
                    Some(1),
                    detailed,
                ),
            ),
            (
                "failed only",
                saved(
                    &requests[2..8],
                    full_record(),
                    &MetricsOptions::default(),
                    None,
                    detailed,
                ),
            ),
            (
                "nothing",
                saved(&[], record(), &MetricsOptions::default(), None, detailed),
            ),
        ] {
            assert_eq!(check_result(&file), Ok(()), "{name}, detailed: {detailed}");
        }
    }
}

#[test]
fn unstreamed_answers_are_counted() {
    let requests = every_judged_request();
    let mut whole = every_judged_request();
    whole
        .iter_mut()
        .for_each(|(_, observation, _)| observation.timing.streamed = false);
    for (name, requests, streamed, expected) in [
        ("streams", &requests, true, 0),
        ("whole", &whole, true, usize::MAX),
        ("not requested", &whole, false, 0),
    ] {
        let options = MetricsOptions {
            streamed,
            ..MetricsOptions::default()
        };
        let file = saved(requests, full_record(), &options, Some(3), true);
        let answers = usize::try_from(file["completed"].as_u64().unwrap()).unwrap();
        let latency = &file["sobench"]["overall"]["latency"];
        assert_eq!(
            latency["unstreamed_answers"].as_u64(),
            Some(expected.min(answers) as u64),
            "{name}"
        );
        assert_eq!(
            latency["e2el_ms"]["n"].as_u64(),
            Some(answers as u64),
            "{name}"
        );
        assert_eq!(file["mean_ttft_ms"].is_null(), name != "streams", "{name}");
        assert_eq!(
            file["ttfts"].as_array().unwrap().iter().all(Value::is_null),
            name != "streams",
            "{name}"
        );
    }
}

#[test]
fn outcomes_sum_to_the_number_of_requests() {
    let requests = every_judged_request();
    let file = saved(
        &requests,
        full_record(),
        &MetricsOptions::default(),
        Some(3),
        true,
    );
    let outcomes = file["sobench"]["outcomes"].as_object().unwrap();
    assert_eq!(
        outcomes.keys().map(String::as_str).collect::<Vec<_>>(),
        Outcome::NAMES
    );
    let counted: u64 = outcomes.values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(Some(counted), file["num_prompts"].as_u64());
    let own = |count: &str| file["sobench"]["overall"][count].as_u64().unwrap();
    assert_eq!(
        file["completed"].as_u64().unwrap()
            + file["failed"].as_u64().unwrap()
            + own("cancelled")
            + own("abandoned"),
        counted
    );
    for column in [
        "input_lens",
        "ttfts",
        "itls",
        "latencies",
        "start_times",
        "generated_texts",
        "errors",
        "outputs",
    ] {
        assert_eq!(
            file[column].as_array().unwrap().len() as u64,
            counted,
            "{column}"
        );
    }
    let arms = file["sobench"]["arms"].as_object().unwrap();
    assert_eq!(
        arms.values()
            .map(|arm| arm["requests"].as_u64().unwrap())
            .sum::<u64>(),
        counted
    );
}

#[test]
fn contract_rejects_changed_files() {
    let requests = every_judged_request();
    let file = saved(
        &requests,
        full_record(),
        &MetricsOptions::default(),
        Some(3),
        true,
    );
    for (pointer, value) in [
        ("/sobench/extra", json!(1)),
        ("/sobench/quality/extra", json!(1)),
        ("/sobench/outcomes/exploded", json!(1)),
        ("/sobench/format_version", json!(2)),
        ("/correct_rate(%)", json!(101)),
        ("/mean_ttft_ms", json!("fast")),
        ("/p99_tpot_ms", json!("fast")),
        ("/request_rate", json!("Infinity")),
        ("/completed", json!(-1)),
        ("/sobench/overall/latency/unstreamed_answers", json!(-1)),
        ("/gpu", json!(1)),
        ("/outputs/0/verdict", json!({"verdict": "perhaps"})),
    ] {
        let broken = with_member(&file, pointer, value);
        assert!(check_result(&broken).is_err(), "{pointer} passed");
    }
    for member in ["duration", "mean_e2el_ms", "sobench", "ttfts"] {
        let mut broken = file.clone();
        broken.as_object_mut().unwrap().remove(member);
        assert!(check_result(&broken).is_err(), "without {member} it passed");
    }
}
