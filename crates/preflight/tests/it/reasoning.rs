//! Tests of the preflight of the reasoning boundary: every verdict is produced by a server that
//! misbehaves so, and `fine` by one that does not.

use sobench_backend::{ConstraintDialect, ServerKind, ThinkingSwitch};
use sobench_preflight::{
    Class, Extent, Preflight, PreflightSettings, ProbeKind, ReasoningPreflight, ReasoningVerdict,
};
use sobench_testkit::constrained::posts;
use sobench_testkit::reasoning_server::{ReasoningFault, reasoning_server};

use crate::preflight::{options, run_preflight};

fn reasoning_options() -> PreflightSettings {
    PreflightSettings {
        backend: ServerKind::OpenaiChat,
        kinds: vec![ProbeKind::Reasoning],
        dialects: vec![ConstraintDialect::ResponseFormat],
        ..options()
    }
}

async fn found(fault: Option<ReasoningFault>) -> Preflight {
    let server = reasoning_server(fault);
    run_preflight(&server.base_url, &reasoning_options()).await
}

fn result(found: &Preflight) -> &ReasoningPreflight {
    found.reasoning.as_ref().expect("reasoning was tested")
}

fn verdicts(found: &Preflight) -> Vec<ReasoningVerdict> {
    let results = result(found).results.iter();
    results.map(|result| result.verdict).collect()
}

#[tokio::test]
async fn a_server_that_constrains_the_answer_only_is_fine() {
    let server = reasoning_server(None);
    let found = run_preflight(&server.base_url, &reasoning_options()).await;
    assert_eq!(verdicts(&found), [ReasoningVerdict::Fine; 2]);
    assert!(found.passed());
    let reasoning = result(&found);
    assert_eq!(reasoning.switch, Some(ThinkingSwitch::ChatTemplateKwargs));
    let asked = reasoning
        .answers
        .iter()
        .map(|answer| (answer.thinking, answer.constrained));
    assert_eq!(
        asked.collect::<Vec<_>>(),
        [(true, false), (true, true), (false, false), (false, true)]
    );
    let thoughts = reasoning.answers[1].reasoning.as_ref().unwrap();
    assert!(thoughts.contains(&reasoning.word), "{thoughts}");
    // One without thinking fields, and the four questions.
    let sent = posts(&server);
    assert_eq!((found.requests, sent.len()), (5, 5));
    let is_on: Vec<_> = sent
        .iter()
        .map(|body| body["chat_template_kwargs"]["enable_thinking"].as_bool())
        .collect();
    assert_eq!(
        is_on,
        [None, Some(true), Some(true), Some(false), Some(false)]
    );
}

#[tokio::test]
async fn every_verdict_is_produced_by_a_server_that_misbehaves_so() {
    use ReasoningVerdict::{
        BudgetUsedUp, ConstraintMisplaced, EndMarkerInAnswer, Fine, JsonInReasoning,
        ThinkingConstrained, ThinkingSuppressed, Undecided,
    };
    for (fault, on, off) in [
        (ReasoningFault::Suppress, ThinkingSuppressed, Fine),
        (ReasoningFault::ConstrainThoughts, ThinkingConstrained, Fine),
        (ReasoningFault::StartEarly, ConstraintMisplaced, Fine),
        (ReasoningFault::StartLate, ConstraintMisplaced, Fine),
        (ReasoningFault::NeverStart, ConstraintMisplaced, Fine),
        (
            ReasoningFault::JsonInReasoning,
            JsonInReasoning,
            JsonInReasoning,
        ),
        (ReasoningFault::JsonInReasoningOff, Fine, JsonInReasoning),
        (ReasoningFault::KeepEndMarker, EndMarkerInAnswer, Fine),
        (ReasoningFault::NoParser, EndMarkerInAnswer, Fine),
        (ReasoningFault::ThinkOnAndOn, BudgetUsedUp, Fine),
        (ReasoningFault::ThinkToTokens(1024), Fine, Fine),
        (ReasoningFault::DropConstraint, Undecided, Undecided),
        (ReasoningFault::RejectConstraint, Undecided, Undecided),
    ] {
        let found = found(Some(fault)).await;
        assert_eq!(
            verdicts(&found),
            [on, off],
            "{fault:?}: {:?}",
            found.reasoning
        );
        assert_eq!(found.passed(), on == Fine && off == Fine, "{fault:?}");
    }
}

#[tokio::test]
async fn reasons_say_what_was_seen() {
    for (fault, on) in [
        (ReasoningFault::StartEarly, "early: "),
        (ReasoningFault::StartLate, "late: the content has the word"),
        (
            ReasoningFault::NeverStart,
            "late: the constraint does not start",
        ),
        (ReasoningFault::KeepEndMarker, "</think>"),
        (
            ReasoningFault::RejectConstraint,
            "rejected (400): no constraints with this model",
        ),
        (ReasoningFault::DropConstraint, "no effect"),
    ] {
        let found = found(Some(fault)).await;
        let reason = &result(&found).results[0].reason;
        assert!(reason.contains(on), "{fault:?}: {reason}");
    }
    let long = found(Some(ReasoningFault::ThinkToTokens(1024))).await;
    assert!(result(&long).answers[1].asked_again);
}

#[tokio::test]
async fn a_model_without_thoughts_is_not_applicable() {
    let server = reasoning_server(Some(ReasoningFault::NoThoughts));
    let found = run_preflight(&server.base_url, &reasoning_options()).await;
    assert_eq!(verdicts(&found), [ReasoningVerdict::DoesNotThink]);
    assert!(found.passed());
    assert_eq!(
        posts(&server).len(),
        3,
        "the control, and one for each way to turn thinking on"
    );
}

#[tokio::test]
async fn a_refused_way_to_turn_thinking_on_is_replaced() {
    let found = found(Some(ReasoningFault::EffortOnly)).await;
    assert_eq!(result(&found).switch, Some(ThinkingSwitch::ReasoningEffort));
    assert_eq!(verdicts(&found), [ReasoningVerdict::Fine; 2]);
}

#[tokio::test]
async fn a_run_is_stopped_by_an_answer_in_the_reasoning_and_told_of_suppressed_thoughts() {
    // The switch of the user's request.
    let thinking = serde_json::json!({"chat_template_kwargs": {"enable_thinking": true}});
    let of_run = |kinds: Vec<ProbeKind>| PreflightSettings {
        kinds,
        all_dialects: false,
        extent: Extent::BeforeRun,
        extra_body: thinking.as_object().cloned(),
        ..reasoning_options()
    };
    let server = reasoning_server(Some(ReasoningFault::JsonInReasoning));
    let found = run_preflight(&server.base_url, &of_run(vec![ProbeKind::JSON_SCHEMA])).await;
    let cell = &found.cells[0];
    assert_eq!(cell.finding.class, Class::WrongChannel, "{cell:?}");

    let server = reasoning_server(Some(ReasoningFault::Suppress));
    let found = run_preflight(&server.base_url, &of_run(vec![ProbeKind::JSON_SCHEMA])).await;
    assert_eq!(found.cells[0].finding.class, Class::Enforced);
    let is_told = |found: &Preflight| {
        let mut notices = found.notices.iter().map(ToString::to_string);
        notices.any(|notice| notice.contains("suppresses the thinking"))
    };
    assert!(is_told(&found), "{:?}", found.notices);

    let server = reasoning_server(None);
    let found = run_preflight(&server.base_url, &of_run(vec![ProbeKind::JSON_SCHEMA])).await;
    assert_eq!(found.cells[0].finding.class, Class::Enforced);
    assert!(!is_told(&found), "{:?}", found.notices);
}
