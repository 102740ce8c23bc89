//! Tests of the preflight of tool calls: each way to lose a demand is found, and none is found on a
//! server that enforces.

use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_preflight::tool_calls::{MAX_REQUESTS_BEFORE_RUN, Part, ToolRow};
use sobench_preflight::{
    Cause, Class, Extent, Preflight, PreflightSettings, ProbeKind, ToolCell, ToolPreflight,
    ToolQuestion,
};
use sobench_testkit::constrained::posts;
use sobench_testkit::tool_server::{ToolFault, tool_server};

use crate::preflight::{options, run_preflight};

/// A row with strict tools.
const fn row(row: ToolRow) -> ToolQuestion {
    ToolQuestion { row, strict: true }
}

const AUTO_NOT_STRICT: ToolQuestion = ToolQuestion {
    row: ToolRow::Auto,
    strict: false,
};

fn tool_options() -> PreflightSettings {
    PreflightSettings {
        backend: ServerKind::OpenaiChat,
        kinds: vec![ProbeKind::Tool],
        dialects: vec![ConstraintDialect::ResponseFormat],
        ..options()
    }
}

async fn found(fault: Option<ToolFault>) -> Preflight {
    let server = tool_server(fault);
    run_preflight(&server.base_url, &tool_options()).await
}

fn calls(found: &Preflight) -> &ToolPreflight {
    found.tool_calls.as_ref().expect("tool calls were tested")
}

fn cells(found: &Preflight, question: ToolQuestion) -> Vec<&ToolCell> {
    let cells = calls(found).cells.iter();
    cells.filter(|cell| cell.question == question).collect()
}

/// Checks the class and the part of a row, streamed and whole.
#[track_caller]
fn row_is(found: &Preflight, question: ToolQuestion, class: Class, part: Option<Part>) {
    let cells = cells(found, question);
    assert_eq!(cells.len(), 2, "streamed and whole");
    for cell in cells {
        assert_eq!(
            (cell.finding.class, cell.part),
            (class, part),
            "{question}: {cell:?}"
        );
    }
}

#[tokio::test]
async fn a_server_that_enforces_passes() {
    let server = tool_server(None);
    let found = run_preflight(&server.base_url, &tool_options()).await;
    for question in ToolQuestion::ALL {
        if question == AUTO_NOT_STRICT {
            row_is(&found, question, Class::Partial, Some(Part::Arguments));
        } else {
            row_is(&found, question, Class::Enforced, None);
        }
    }
    let result = calls(&found);
    assert!(
        result.passed() && found.passed() && result.differences().is_empty(),
        "{result:?}"
    );
    assert!(result.control.calls && result.control.obeys && !result.control.leaked);
    assert_eq!(result.calls_unasked, Some(false));
    assert!(found.cells.is_empty() && found.recommendation().is_none());
    // Two without tools, two controls, and each row streamed and whole.
    let requests = 4 + 2 * ToolQuestion::ALL.len();
    assert_eq!((found.requests, posts(&server).len()), (requests, requests));
}

#[tokio::test]
async fn dropped_demands_are_found() {
    let dropped = found(Some(ToolFault::DropChoice)).await;
    for lost in [
        ToolRow::Required,
        ToolRow::Named,
        ToolRow::None,
        ToolRow::AllowedTools,
    ] {
        row_is(&dropped, row(lost), Class::Ignored, None);
    }
    row_is(&dropped, row(ToolRow::Auto), Class::Enforced, None);

    let not_strict = found(Some(ToolFault::DropStrict)).await;
    let arguments = Some(Part::Arguments);
    row_is(&not_strict, row(ToolRow::Auto), Class::Partial, arguments);
    row_is(&not_strict, row(ToolRow::Required), Class::Enforced, None);

    let unlimited = found(Some(ToolFault::DropLimit)).await;
    row_is(&unlimited, row(ToolRow::OneCall), Class::Ignored, None);
    row_is(&unlimited, row(ToolRow::Parallel), Class::Enforced, None);

    let under_none = found(Some(ToolFault::CallUnderNone)).await;
    row_is(&under_none, row(ToolRow::None), Class::Ignored, None);

    for found in [dropped, not_strict, unlimited, under_none] {
        assert!(!found.passed(), "{:?}", found.tool_calls);
    }
}

#[tokio::test]
async fn calls_that_clients_cannot_read_are_found() {
    let leaked = found(Some(ToolFault::Leak)).await;
    for lost in [ToolRow::Required, ToolRow::Named, ToolRow::Auto] {
        row_is(&leaked, row(lost), Class::Leaked, None);
    }
    let reason = &cells(&leaked, row(ToolRow::Auto))[0].finding.reason;
    assert!(reason.contains("tool parser"), "{reason}");

    let merged = found(Some(ToolFault::Merge)).await;
    row_is(&merged, row(ToolRow::Parallel), Class::Merged, None);
    row_is(&merged, row(ToolRow::OneCall), Class::Unproven, None);

    let in_content = found(Some(ToolFault::ArgumentsInContent)).await;
    row_is(
        &in_content,
        row(ToolRow::Required),
        Class::WrongChannel,
        None,
    );
    row_is(&in_content, row(ToolRow::Auto), Class::Enforced, None);

    let streams = found(Some(ToolFault::LeakInStreams)).await;
    let required = cells(&streams, row(ToolRow::Required));
    let classes = required
        .iter()
        .map(|cell| (cell.stream, cell.finding.class));
    assert_eq!(
        classes.collect::<Vec<_>>(),
        [(true, Class::Leaked), (false, Class::Enforced)]
    );
    assert!(
        streams
            .notices
            .iter()
            .any(|notice| notice.to_string().contains("required (leaked, enforced)")),
        "{:?}",
        streams.notices
    );
    for found in [leaked, merged, in_content, streams] {
        assert!(!found.passed(), "{:?}", found.tool_calls);
    }
}

#[tokio::test]
async fn cut_calls_are_tested_again_with_a_higher_limit() {
    let cut = found(Some(ToolFault::Cut)).await;
    row_is(
        &cut,
        row(ToolRow::Required),
        Class::Partial,
        Some(Part::Cut),
    );
    assert!(cells(&cut, row(ToolRow::Required))[0].asked_again);

    // The limit of a first answer.
    let short = found(Some(ToolFault::CutAtTokens(256))).await;
    row_is(&short, row(ToolRow::Required), Class::Enforced, None);
    assert!(cells(&short, row(ToolRow::Required))[0].asked_again);

    let spaces = found(Some(ToolFault::WhiteSpace)).await;
    let cell = cells(&spaces, row(ToolRow::Named))[0];
    assert_eq!(
        (cell.finding.class, cell.finding.cause, cell.asked_again),
        (Class::Broken, Some(Cause::WhiteSpaceRunAway), false)
    );
}

#[tokio::test]
async fn ids_and_finish_reasons_are_reported() {
    let same_ids = found(Some(ToolFault::DuplicateId)).await;
    row_is(
        &same_ids,
        row(ToolRow::Parallel),
        Class::Partial,
        Some(Part::Id),
    );
    let stopped = found(Some(ToolFault::Stop)).await;
    let finish_reason = Some(Part::FinishReason);
    row_is(&stopped, row(ToolRow::Auto), Class::Partial, finish_reason);
    row_is(&stopped, row(ToolRow::Required), Class::Enforced, None);
}

#[tokio::test]
async fn the_model_is_not_blamed_on_the_server() {
    let silent = found(Some(ToolFault::SilentModel)).await;
    assert!(!calls(&silent).control.calls);
    for unproven in [
        ToolRow::Auto,
        ToolRow::None,
        ToolRow::Parallel,
        ToolRow::OneCall,
    ] {
        row_is(&silent, row(unproven), Class::Unproven, None);
    }
    row_is(&silent, row(ToolRow::Named), Class::Enforced, None);
    let reason = &cells(&silent, row(ToolRow::Named))[0].finding.reason;
    assert!(reason.contains("weak temptation"), "{reason}");

    let cautious = found(Some(ToolFault::CautiousModel)).await;
    row_is(&cautious, row(ToolRow::Auto), Class::Unproven, None);
    let reason = &cells(&cautious, row(ToolRow::Auto))[0].finding.reason;
    assert!(
        reason.starts_with("no violation seen (weak temptation)"),
        "{reason}"
    );

    let eager = found(Some(ToolFault::EagerModel)).await;
    assert_eq!(calls(&eager).calls_unasked, Some(true));
    row_is(&eager, row(ToolRow::Required), Class::Unproven, None);
}

#[tokio::test]
async fn refusals_and_failures_are_quoted() {
    let refused = found(Some(ToolFault::RejectAllowedTools)).await;
    row_is(&refused, row(ToolRow::AllowedTools), Class::Rejected, None);
    let cell = cells(&refused, row(ToolRow::AllowedTools))[0];
    assert_eq!(cell.finding.status, Some(400));
    assert_eq!(
        cell.finding.reason,
        "{\"error\": {\"message\": \"unknown tool_choice\"}}"
    );
    assert!(refused.passed(), "a refusal of allowed_tools is no fault");

    let failed = found(Some(ToolFault::Fail)).await;
    row_is(&failed, row(ToolRow::Required), Class::Broken, None);
    assert!(calls(&failed).control.failure.is_some() && !failed.passed());
    assert_eq!(failed.control.failure, None, "without tools it answers");
}

#[tokio::test]
async fn before_a_run_few_requests_are_sent() {
    let server = tool_server(Some(ToolFault::DropStrict));
    let options = PreflightSettings {
        all_dialects: false,
        extent: Extent::BeforeRun,
        tool_questions: vec![
            row(ToolRow::Auto),
            row(ToolRow::Required),
            row(ToolRow::None),
        ],
        ..tool_options()
    };
    let found = run_preflight(&server.base_url, &options).await;
    let classes = calls(&found).cells.iter();
    let classes: Vec<_> = classes
        .map(|cell| (cell.stream, cell.finding.class))
        .collect();
    assert_eq!(
        classes,
        [
            (true, Class::Partial),
            (true, Class::Enforced),
            (true, Class::Enforced)
        ]
    );
    let sent = MAX_REQUESTS_BEFORE_RUN;
    assert_eq!((found.requests, posts(&server).len()), (sent, sent));
}

#[tokio::test]
async fn tools_that_the_prompt_lacks_are_named() {
    let has_notice = async |fault| {
        let found = found(fault).await;
        let notices = found.notices.iter().map(ToString::to_string);
        notices
            .filter(|notice| notice.contains("drops the tools"))
            .count()
    };
    assert_eq!(has_notice(Some(ToolFault::DropTools)).await, 1);
    assert_eq!(has_notice(None).await, 0);
}

#[tokio::test]
async fn requests_have_the_form_of_their_endpoint_and_new_words() {
    let server = tool_server(None);
    run_preflight(&server.base_url, &tool_options()).await;
    let sent = posts(&server);
    let tools: Vec<String> = sent
        .iter()
        .filter(|body| body.get("tools").is_some())
        .map(|body| body["tools"][0]["function"]["name"].to_string())
        .collect();
    let distinct: std::collections::HashSet<&String> = tools.iter().collect();
    assert_eq!(
        distinct.len(),
        tools.len(),
        "names are drawn for each request"
    );
    let choices: Vec<&serde_json::Value> = sent.iter().map(|body| &body["tool_choice"]).collect();
    for expected in ["auto", "required", "none"] {
        assert!(
            choices.iter().any(|choice| **choice == expected),
            "{choices:?}"
        );
    }
    assert!(choices.iter().any(|choice| choice["type"] == "function"));
    assert!(
        choices
            .iter()
            .any(|choice| choice["type"] == "allowed_tools")
    );
    let parallel: Vec<&serde_json::Value> = sent
        .iter()
        .map(|body| &body["parallel_tool_calls"])
        .collect();
    assert!(parallel.iter().any(|value| **value == true));
    assert!(parallel.iter().any(|value| **value == false));
}
