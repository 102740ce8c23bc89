//! Tests of the summary.

use super::*;
use crate::text::vllm_block;
use crate::view::testing::with_view;
use sobench_core::observation::{Advice, Outcome};
use sobench_core::verdict::NotScored;
use sobench_facts::testing::{TestRequest, test_request};
use sobench_plan::metrics::MetricsSettings;
use sobench_plan::record::RunRecord;
use sobench_plan::record::testing::record;
use sobench_results::metrics::client_overhead::{
    Bound, Bounds, Burst, ClientOverhead, ClientVerdict, Doubt,
};
use sobench_results::metrics::summarise;
use std::path::Path;

/// Renders the summary of a run with a client, a run log and notices.
fn summary(run: &[TestRequest<'_>], record: RunRecord, client: ClientOverhead) -> (String, String) {
    with_view(run, record, |view| {
        let report = Report {
            client: Some(client),
            metrics: summarise(view.samples, 2_000_000_000, &MetricsSettings::default()),
            differences: ArmDifferences::new(view.samples, &view.report.metrics.options, 0),
            ..view.report.clone()
        };
        let view = View {
            report: &report,
            run_log: Some(Path::new("/home/me/.cache/sobench/runs/run of today.jsonl")),
            ..view
        };
        (render(&view).unwrap(), vllm_block(&report))
    })
}

fn invalid(reason: Reason) -> Verdict {
    Verdict::Invalid { reason }
}

/// Requests that end in every way that has a line of its own.
fn failing(arm: Arm) -> Vec<TestRequest<'static>> {
    let refused = TestRequest {
        outcome: Outcome::Rejected {
            status: 400,
            body: "no such grammar ".repeat(20),
            advice: None,
        },
        verdict: Verdict::NotScored {
            why: NotScored::Refused,
        },
        chunks: vec![],
        text: "",
        finish_reason: None,
        ..test_request()
    };
    let failed = TestRequest {
        outcome: Outcome::TimedOut {
            limit_ms: 1,
            limit: Default::default(),
            stage: None,
        },
        verdict: Verdict::NotScored {
            why: NotScored::Failed,
        },
        chunks: vec![],
        text: "",
        finish_reason: None,
        ..test_request()
    };
    let truncated = TestRequest {
        outcome: Outcome::Truncated,
        verdict: invalid(Reason::Truncated),
        text: r#"{"name": "#,
        finish_reason: Some("length"),
        ..test_request()
    };
    let answers = [
        (Reason::Choice, "yes "),
        (
            Reason::NotJson {
                message: "odd ".repeat(50),
                byte: 1,
            },
            "{\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}\u{1b}",
        ),
        (
            Reason::ExtraText {
                byte: 0,
                kind: sobench_core::verdict::ExtraText::Unknown,
                valid_if_stripped: false,
            },
            "Sure! {}",
        ),
        (Reason::Regex { prefix: true }, "12"),
    ];
    let answers = answers.into_iter().map(|(reason, text)| TestRequest {
        verdict: invalid(reason),
        text,
        ..test_request()
    });
    answers
        .chain([refused, failed, truncated])
        .map(|made| TestRequest { arm, ..made })
        .collect()
}

fn doubtful() -> ClientOverhead {
    let bound = |figure| serde_json::json!({"figure": figure, "value": 9999.5, "added": 1234.5});
    let bounds = ["p99_ttft_ms", "mean_ttft_ms", "p99_e2el_ms"].map(bound);
    let bounds: Bounds = serde_json::from_value(bounds.to_vec().into()).unwrap();
    let doubt = |bound: &Bound| Doubt {
        measure: bound.figure.to_string(),
        value: 1234.5,
        limit: bound.limit(),
    };
    ClientOverhead {
        verdict: ClientVerdict::DoNotTrust,
        burst: Some(Burst {
            requests: 100,
            width_ms: 1.0,
        }),
        doubts: bounds.distrusted().map(doubt).collect(),
        bounds,
        ..ClientOverhead::default()
    }
}

fn with_long_notices() -> RunRecord {
    RunRecord {
        notices: (0..9)
            .map(|number| {
                Notice::Other(format!("warning {number} {}", "of many words ".repeat(20)))
            })
            .collect(),
        ..record()
    }
}

#[track_caller]
fn check_size((page, block): (String, String), max_lines: usize) {
    assert!(page.contains(&block), "{page}");
    assert!(page.lines().count() <= max_lines, "{page}");
    for line in page.lines() {
        assert!(line.chars().count() <= 100, "{line}\n{page}");
    }
}

#[test]
fn a_summary_fits_on_one_screen() {
    let both = |run: fn(Arm) -> Vec<TestRequest<'static>>| {
        [run(Arm::Constrained), run(Arm::Control)].concat()
    };
    let valid = |arm: Arm| {
        vec![
            TestRequest {
                arm,
                ..test_request()
            };
            20
        ]
    };
    for (run, lines) in [
        (valid(Arm::Constrained), MAX_LINES_ONE_ARM),
        (failing(Arm::Constrained), MAX_LINES_ONE_ARM),
        (both(valid), MAX_LINES),
        (both(failing), MAX_LINES),
    ] {
        check_size(summary(&run, with_long_notices(), doubtful()), lines);
        check_size(summary(&run, record(), ClientOverhead::default()), lines);
    }
}

#[test]
fn the_first_lines_are_the_verdict() {
    let verdict = |run: &[TestRequest<'_>]| {
        let (page, _) = summary(run, record(), ClientOverhead::default());
        let lines = page.lines().take_while(|line| !line.contains("==="));
        lines.map(str::to_owned).collect::<Vec<_>>()[..2].to_vec()
    };
    let valid = vec![test_request(); 20];
    let no_control = "cost? not known without a control arm (--guided-decoding-ratio 0.5)";
    assert_eq!(
        verdict(&valid),
        [
            "enforced? not known without a control arm: 20 of 20 answers valid",
            no_control
        ]
    );
    let wrong = TestRequest {
        verdict: invalid(Reason::Choice),
        chunks: vec![5, 15],
        ..test_request()
    };
    let run = [vec![test_request(); 2], vec![wrong.clone()]].concat();
    assert_eq!(
        verdict(&run),
        [
            "enforced? NO: 2 of 3 answers valid (66.67 %): 1 is none of the choices (e.g. case-2)",
            no_control
        ]
    );
    let control = TestRequest {
        arm: Arm::Control,
        ..wrong
    };
    assert_eq!(
        verdict(&[valid.clone(), vec![control.clone(); 20]].concat()),
        [
            "enforced? not known from so few distinct answers: 20 of 20 answers valid; without the constraint 0",
            "  of 20"
        ]
    );
    let distinct = |request: &TestRequest<'static>| -> Vec<TestRequest<'static>> {
        let text = |number: usize| -> &'static str { Box::leak(number.to_string().into()) };
        let made = (0..20).map(|number| TestRequest {
            text: text(number),
            ..request.clone()
        });
        made.collect()
    };
    let [first, second] = [test_request(), control.clone()].map(|request| distinct(&request));
    assert_eq!(
        verdict(&[first, second].concat()),
        [
            "enforced? yes: 20 of 20 answers valid; without the constraint 0 of 20",
            "cost? the first token takes 10.0 ms in place of 5.0 (2.0 times; +5.0 to +5.0 ms), a token takes 10.0"
        ]
    );
    let as_valid = TestRequest {
        verdict: Verdict::Valid,
        ..control.clone()
    };
    assert_eq!(
        verdict(&[valid, vec![as_valid; 20]].concat())[0],
        "enforced? not known, for unconstrained answers are as valid: 20 of 20 answers valid; without the"
    );
    assert_eq!(
        verdict(&vec![control; 20])[0],
        "enforced? none was sent: 0 of 20 answers valid without one"
    );
}

#[test]
fn requirements_are_below_the_result() {
    let line = |verdict, notes: &[&str]| {
        requirements_line(&Requirements {
            rules: 2,
            notes: notes.iter().map(ToString::to_string).collect(),
            verdict,
        })
    };
    assert_eq!(
        line(GateVerdict::Passed, &[]),
        "requirements passed: 2 of 2 kept"
    );
    assert_eq!(
        line(GateVerdict::Failed, &["require: a>=1: a is 0"]),
        "requirements FAILED: 1 of 2 kept; a>=1: a is 0"
    );
    assert_eq!(
        line(
            GateVerdict::Undecided,
            &["require: a<=1: undecided: 20 < 662"]
        ),
        "requirements undecided: 1 of 2 kept; a<=1: undecided: 20 < 662"
    );
}

#[test]
fn counts_of_zero_have_no_row_and_two_arms_have_a_difference() {
    let control = TestRequest {
        arm: Arm::Control,
        chunks: vec![5, 15],
        ..test_request()
    };
    let run = [vec![test_request(); 20], vec![control; 20]].concat();
    let (page, _) = summary(&run, record(), ClientOverhead::default());
    for absent in ["truncated", "refused", "failed"] {
        assert!(!page.contains(absent), "{page}");
    }
    let row = page
        .lines()
        .find(|line| line.contains("TTFT mean/p50/p99"))
        .unwrap();
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    assert_eq!(
        cells[1..],
        [
            "10.00/10.00/10.00*",
            "5.00/5.00/5.00*",
            "+5.00 (5.00 to 5.00)"
        ]
    );
    let (page, _) = summary(
        &failing(Arm::Constrained),
        record(),
        ClientOverhead::default(),
    );
    assert!(page.contains(" truncated/refused/failed | "), "{page}");
}

#[test]
fn an_example_is_quoted_and_marks_its_error() {
    assert_eq!(quoted("yes ", &Reason::Choice, 96), "\"yes \"");
    let at = |byte| Reason::NotJson {
        message: String::new(),
        byte,
    };
    assert_eq!(quoted(r#"{"a": x}"#, &at(6), 96), r#""{"a": >>>x<<<}""#);
    assert_eq!(quoted(r#"{"a""#, &at(4), 96), r#""{"a"" <- ends here"#);
    let long = format!("{}!{}", "a".repeat(500), "b".repeat(500));
    let shown = quoted(&long, &at(500), 96);
    assert_eq!(
        shown,
        format!("\"…{}>>>!<<<{}…\"", "a".repeat(42), "b".repeat(42))
    );
    let shown = quoted(&"\u{1b}".repeat(300), &at(100), 96);
    assert_eq!(
        shown,
        format!(
            "\"…{escape}>>>\\u{{1b}}<<<{escape}\\u{{1b}}…\"",
            escape = "\\u{1b}".repeat(6)
        )
    );
}

#[test]
fn the_command_for_the_full_report_can_be_pasted() {
    assert_eq!(shell_word("runs/a-1.jsonl"), "runs/a-1.jsonl");
    assert_eq!(shell_word("it's here.jsonl"), r"'it'\''s here.jsonl'");
    let (page, _) = summary(&[test_request()], record(), ClientOverhead::default());
    assert_eq!(
        page.lines().last().unwrap(),
        "all figures: sobench report '/home/me/.cache/sobench/runs/run of today.jsonl' --detail full"
    );
    let page = with_view(&[test_request()], record(), |view| render(&view).unwrap());
    assert_eq!(
        page.lines().last().unwrap(),
        "all figures: --detail full; no run log was kept, --run-log PATH keeps one"
    );
}

#[test]
fn notices_that_do_not_fit_are_counted() {
    let (page, _) = summary(
        &vec![test_request(); 20],
        with_long_notices(),
        ClientOverhead::default(),
    );
    assert!(page.contains("\nnote: warning 0 of many words"), "{page}");
    assert!(
        page.trim_end().ends_with("more with --detail full"),
        "{page}"
    );
}

#[test]
fn the_words_of_a_server_and_the_end_of_a_notice_are_not_cut() {
    let words = "the engine died: CUDA error: an illegal memory access was encountered at kernel 7; \
                 restart the server";
    let refused = TestRequest {
        outcome: Outcome::ServerError {
            status: 500,
            body: serde_json::json!({"error": {"message": words, "code": 500}}).to_string(),
            advice: None,
        },
        verdict: Verdict::NotScored {
            why: NotScored::Failed,
        },
        chunks: vec![],
        text: "",
        finish_reason: None,
        ..test_request()
    };
    let mut in_stream = refused.clone();
    if let Outcome::ServerError { advice, .. } = &mut in_stream.outcome {
        *advice = Some(Advice::InStream);
    }
    let conclusion = "so that a conclusion at the end is read";
    let long = RunRecord {
        notices: vec![Notice::Other(format!(
            "{}{conclusion}",
            "a notice of many words, ".repeat(16)
        ))],
        ..record()
    };
    for (request, expected) in [
        (refused, format!("HTTP 500: {words}")),
        (
            in_stream,
            format!("error from the server in a response with status 200: {words}"),
        ),
    ] {
        let (page, _) = summary(&[request], long.clone(), ClientOverhead::default());
        let unwrapped = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(unwrapped.contains(&expected), "{page}");
        assert_eq!(
            unwrapped.contains("HTTP 500"),
            expected.starts_with("HTTP 500")
        );
        assert!(unwrapped.contains(conclusion), "{page}");
    }
}
