//! Tests of every kind of answer and its class.

use serde_json::{Value, json};

use super::*;
use crate::constraint_probe::RandomWords;
use crate::envelope::envelopes;
use sobench_core::answer::{Answer, ToolCall};
use sobench_core::constraint::{Constraint, ConstraintKind, GrammarDialect};
use sobench_core::observation::{Timing, TransportCause};
use sobench_judge::JudgeSettings;
use sobench_notices::enforcement::ProbeKind;

fn observation(outcome: Outcome, text: &str) -> Observation {
    Observation {
        case_index: 0,
        outcome,
        timing: Timing::default(),
        answer: Answer::from_text(text.to_owned()),
        finish_reason: None,
        usage: None,
    }
}

fn probe(kind: ProbeKind) -> ConstraintProbe {
    ConstraintProbe::random(kind, GrammarDialect::Ebnf, &mut RandomWords::new(1))
}

/// The envelopes of a schema in OpenAI's request format.
fn envelopes_of_request(probe: &ConstraintProbe) -> Vec<Envelope> {
    let Constraint::JsonSchema(schema) = &*probe.constraint else {
        return Vec::new();
    };
    let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": **schema, "strict": true}});
    envelopes(&json!({"response_format": format}), schema)
}

fn classify_with_control(
    control: &str,
    probe: &ConstraintProbe,
    observation: &Observation,
) -> Finding {
    let control =
        Control::from_observation(&super::tests::observation(Outcome::Completed, control));
    let envelopes = envelopes_of_request(probe);
    let evidence = Evidence {
        probe,
        observation,
        control: &control,
        envelopes: &envelopes,
        dialect: ConstraintDialect::ResponseFormat,
    };
    classify(&evidence, &mut Evaluator::new(JudgeSettings::default()))
}

/// The finding for an answer with this content and these arguments of a tool call.
fn classify_channels(
    dialect: ConstraintDialect,
    outcome: Outcome,
    content: &str,
    arguments: &str,
) -> Finding {
    let mut observation = observation(outcome, content);
    observation.answer.tool_calls.push(ToolCall {
        arguments: arguments.to_owned(),
        ..ToolCall::default()
    });
    observation
        .answer
        .tool_calls
        .retain(|call| !call.arguments.is_empty());
    let evidence = Evidence {
        probe: &probe(ProbeKind::JSON_SCHEMA),
        observation: &observation,
        control: &Control::from_observation(&self::observation(Outcome::Completed, "The sea.")),
        envelopes: &[],
        dialect,
    };
    classify(&evidence, &mut Evaluator::new(JudgeSettings::default()))
}

#[test]
fn an_answer_in_another_channel_is_not_enforced() {
    use ConstraintDialect::{ResponseFormat, ToolCall, ToolCallNonStrict};
    let document = answer(&probe(ProbeKind::JSON_SCHEMA));
    for (dialect, content, arguments, class) in [
        (ResponseFormat, "", &*document, Class::WrongChannel),
        (ResponseFormat, &*document, "", Class::Enforced),
        (ToolCall, "", &document, Class::Enforced),
        (ToolCall, &document, "", Class::WrongChannel),
        (ToolCallNonStrict, &document, "", Class::WrongChannel),
        (ToolCall, "The waves are high.", "", Class::Ignored),
    ] {
        let found = classify_channels(dialect, Outcome::Completed, content, arguments);
        assert_eq!(found.class, class, "{dialect}: {content} {arguments}");
    }
}

#[test]
fn a_call_that_is_cut_inside_its_envelope_proves_nothing() {
    let document = answer(&probe(ProbeKind::JSON_SCHEMA));
    let cut = &document[..document.len() - 3];
    for envelope in [
        format!(r#"{{"name": "answer", "arguments": {cut}"#),
        format!(r#"<tool_call>{{"name": "answer", "arguments": {cut}"#),
        format!(r#"[{{"name": "answer", "parameters": {cut}"#),
        r#"{"name": "ans"#.to_owned(),
    ] {
        let found = |dialect| classify_channels(dialect, Outcome::Truncated, &envelope, "").class;
        assert_eq!(
            found(ConstraintDialect::ToolCall),
            Class::Unproven,
            "{envelope}"
        );
        assert_ne!(
            found(ConstraintDialect::ResponseFormat),
            Class::Unproven,
            "{envelope}"
        );
    }
}

fn classify_answer(probe: &ConstraintProbe, observation: &Observation) -> Finding {
    classify_with_control("The sea is calm today.", probe, observation)
}

fn answer(probe: &ConstraintProbe) -> String {
    let [first, second] = probe.random_words.as_slice() else {
        return "{}".to_owned();
    };
    if probe.kind == ProbeKind::JSON_SCHEMA {
        json!({first: second}).to_string()
    } else {
        second.clone()
    }
}

#[test]
fn the_right_answer_is_enforced_and_prose_is_ignored() {
    for kind in ProbeKind::of_text() {
        let probe = probe(kind);
        for outcome in [Outcome::Completed, Outcome::Truncated] {
            let right = classify_answer(&probe, &observation(outcome.clone(), &answer(&probe)));
            assert_eq!(
                (right.class, right.reason.contains("cut")),
                (Class::Enforced, !right.reason.is_empty()),
                "{kind}"
            );
            let prose = classify_answer(
                &probe,
                &observation(outcome, "The waves are high today, and the wind"),
            );
            assert_eq!(prose.class, Class::Ignored, "{kind}");
            assert!(prose.answer.is_some() && !prose.reason.is_empty(), "{kind}");
        }
    }
}

#[test]
fn failed_requests_have_distinct_classes() {
    let body = || "{\"error\": \"words of the server\"}".to_owned();
    let probe = probe(ProbeKind::Text(ConstraintKind::Regex));
    for (outcome, class, cause, status) in [
        (
            Outcome::Rejected {
                status: 400,
                body: body(),
                advice: None,
            },
            Class::Rejected,
            None,
            Some(400),
        ),
        (
            Outcome::Rejected {
                status: 422,
                body: body(),
                advice: None,
            },
            Class::Rejected,
            None,
            Some(422),
        ),
        (
            Outcome::Rejected {
                status: 429,
                body: body(),
                advice: None,
            },
            Class::Broken,
            Some(Cause::Overloaded),
            Some(429),
        ),
        (
            Outcome::ServerError {
                status: 500,
                body: body(),
                advice: None,
            },
            Class::Broken,
            Some(Cause::ServerError),
            Some(500),
        ),
        (
            Outcome::StreamError { message: body() },
            Class::Broken,
            Some(Cause::StreamError),
            None,
        ),
        (
            Outcome::Transport {
                cause: TransportCause::Reset,
                message: body(),
            },
            Class::Broken,
            Some(Cause::Transport),
            None,
        ),
        (
            Outcome::TimedOut {
                limit_ms: 60_000,
                limit: Default::default(),
                stage: None,
            },
            Class::Broken,
            Some(Cause::TimedOut),
            None,
        ),
        (Outcome::Cancelled, Class::NotSent, None, None),
    ] {
        let timed_out = matches!(outcome, Outcome::TimedOut { .. });
        let cancelled = outcome == Outcome::Cancelled;
        let finding = classify_answer(&probe, &observation(outcome, ""));
        assert_eq!(
            (finding.class, finding.cause, finding.status, finding.answer),
            (class, cause, status, None)
        );
        assert!(
            finding.reason.contains("words of the server") || timed_out || cancelled,
            "{}",
            finding.reason
        );
    }
    let silent = classify_answer(
        &probe,
        &observation(
            Outcome::ServerError {
                status: 500,
                body: String::new(),
                advice: None,
            },
            "",
        ),
    );
    assert_eq!(silent.reason, "(no message)");
}

#[test]
fn a_truncated_answer_proves_what_its_prefix_shows() {
    let choice = probe(ProbeKind::Text(ConstraintKind::Choice));
    let json = probe(ProbeKind::JSON_SCHEMA);
    let prefix = |letters: usize| choice.random_words[0][..letters].to_owned();
    let document = |letters: usize| format!("{{\n  \"{}", &json.random_words[0][..letters]);
    for (probe, text, class) in [
        (&choice, prefix(MIN_LETTERS), Class::Enforced),
        (&choice, prefix(MIN_LETTERS - 1), Class::Unproven),
        (&json, document(MIN_LETTERS), Class::Enforced),
        (&json, document(1), Class::Unproven),
        (&json, "{".to_owned(), Class::Unproven),
        (&json, "{\"waves\": \"hi".to_owned(), Class::Ignored),
        (
            &choice,
            "<think>The user wants a".to_owned(),
            Class::Unproven,
        ),
    ] {
        assert_eq!(
            classify_answer(probe, &observation(Outcome::Truncated, &text)).class,
            class,
            "{text}"
        );
    }
    // The same prefix, not truncated: the server ended the answer where the constraint does not
    // allow it.
    assert_eq!(
        classify_answer(&choice, &observation(Outcome::Completed, &prefix(8))).class,
        Class::Partial
    );
    let broken_off = classify_answer(
        &choice,
        &observation(
            Outcome::StreamError {
                message: "ended".to_owned(),
            },
            &prefix(8),
        ),
    );
    assert_eq!(
        (
            broken_off.class,
            broken_off.reason.contains("follows the constraint")
        ),
        (Class::Broken, true)
    );
}

#[test]
fn an_object_is_compared_with_the_control() {
    let object = probe(ProbeKind::Text(ConstraintKind::JsonObject));
    let completed = observation(Outcome::Completed, "{\"waves\": \"high\"}");
    let cut = observation(Outcome::Truncated, "{ \"waves\": \"hi");
    for (control, class) in [
        ("The sea.", Class::Enforced),
        ("{\"a\": 1}", Class::Unproven),
    ] {
        assert_eq!(
            classify_with_control(control, &object, &completed).class,
            class
        );
        assert_eq!(classify_with_control(control, &object, &cut).class, class);
    }
    let failed = Control::from_observation(&observation(
        Outcome::ServerError {
            status: 500,
            body: String::new(),
            advice: None,
        },
        "",
    ));
    let evidence = Evidence {
        probe: &object,
        observation: &completed,
        control: &failed,
        envelopes: &[],
        dialect: ConstraintDialect::ResponseFormat,
    };
    assert_eq!(
        classify(&evidence, &mut Evaluator::new(JudgeSettings::default())).class,
        Class::Unproven
    );
}

#[test]
fn an_answer_with_a_random_word_is_not_ignored() {
    let json = probe(ProbeKind::JSON_SCHEMA);
    let choice = probe(ProbeKind::Text(ConstraintKind::Choice));
    let document = answer(&json);
    let other_value = json!({&json.random_words[0]: "waves"}).to_string();
    let wrapped = json!({"answer": serde_json::from_str::<Value>(&document).unwrap()}).to_string();
    let envelope =
        r#"{"name": "weather", "schema": {"type": "object"}, "strict": true}"#.to_owned();
    for (probe, text, class) in [
        (&json, format!("```json\n{document}\n```"), Class::Partial),
        (&json, other_value, Class::Partial),
        (
            &choice,
            format!("{} and so on", choice.random_words[0]),
            Class::Partial,
        ),
        (&json, wrapped, Class::WrongWrapper),
        (&json, envelope, Class::WrongWrapper),
        (
            &json,
            r#"{"sentence": "The sea is calm."}"#.to_owned(),
            Class::Ignored,
        ),
        (&json, "{}".to_owned(), Class::Ignored),
    ] {
        let finding = classify_answer(probe, &observation(Outcome::Completed, &text));
        assert_eq!(finding.class, class, "{text}: {}", finding.reason);
    }
    let json_mode = classify_answer(&json, &observation(Outcome::Completed, "{}"));
    assert!(
        json_mode
            .reason
            .starts_with("JSON, but not valid under the schema"),
        "{}",
        json_mode.reason
    );
    let cut_envelope = observation(
        Outcome::Truncated,
        r#"{"name": "weather", "schema": {"type": "obj"#,
    );
    assert_eq!(
        classify_answer(&json, &cut_envelope).class,
        Class::WrongWrapper
    );
}

#[test]
fn empty_answers_and_white_space_are_reported() {
    let json = probe(ProbeKind::JSON_SCHEMA);
    let spaces = " \n".repeat(RUNAWAY_CHARS);
    for text in [
        format!("{{{spaces}"),
        format!("{{\"{}\":{spaces}", json.random_words[0]),
        spaces.clone(),
    ] {
        let finding = classify_answer(&json, &observation(Outcome::Truncated, &text));
        assert_eq!(
            (finding.class, finding.cause),
            (Class::Broken, Some(Cause::WhiteSpaceRunAway)),
            "{text:?}"
        );
    }
    assert_eq!(
        classify_answer(&json, &observation(Outcome::Truncated, "{ \n  ")).class,
        Class::Unproven
    );
    let any = classify_answer(
        &probe(ProbeKind::Text(ConstraintKind::JsonObject)),
        &observation(Outcome::Truncated, &format!("{{{spaces}")),
    );
    assert_eq!(any.cause, Some(Cause::WhiteSpaceRunAway));
    let choice = probe(ProbeKind::Text(ConstraintKind::Choice));
    assert_eq!(
        classify_answer(&choice, &observation(Outcome::Truncated, &spaces)).class,
        Class::Broken
    );
    // After a complete answer too, unless the server ended it.
    let document = json!({(&*json.random_words[0]): json.random_words[1]});
    let complete = format!("{document}{spaces}");
    for (outcome, class) in [
        (Outcome::Truncated, Class::Broken),
        (Outcome::Completed, Class::Enforced),
    ] {
        let found = classify_answer(&json, &observation(outcome, &complete));
        assert_eq!(found.class, class, "{found:?}");
    }
    let ended = format!("{{{spaces}");
    assert_eq!(
        classify_answer(&json, &observation(Outcome::Completed, &ended)).class,
        Class::Broken
    );
    let mut thinking = observation(Outcome::Truncated, "");
    assert_eq!(
        classify_answer(&choice, &thinking).reason,
        "an empty answer"
    );
    thinking.answer.reasoning = "hm".to_owned();
    let finding = classify_answer(&choice, &thinking);
    assert_eq!(
        (finding.class, finding.reason.as_str()),
        (
            Class::Unproven,
            "reasoning without an answer, cut at the token limit"
        )
    );
}

#[test]
fn an_answer_in_the_reasoning_is_in_the_wrong_channel() {
    for kind in [
        ProbeKind::JSON_SCHEMA,
        ProbeKind::Text(ConstraintKind::Regex),
        ProbeKind::Text(ConstraintKind::Choice),
    ] {
        let probe = probe(kind);
        let mut misplaced = observation(Outcome::Completed, "");
        misplaced.answer.reasoning = format!("\n{}\n", answer(&probe));
        assert_eq!(
            classify_answer(&probe, &misplaced).class,
            Class::WrongChannel,
            "{kind}"
        );
    }
}

#[test]
fn long_messages_are_cut_with_a_note() {
    let body = "\u{e9}".repeat(MAX_KEPT_CHARS + 1);
    let finding = classify_answer(
        &probe(ProbeKind::Text(ConstraintKind::Regex)),
        &observation(
            Outcome::Rejected {
                status: 400,
                body,
                advice: None,
            },
            "",
        ),
    );
    assert!(
        finding.reason.ends_with(&format!(
            "... (cut, {} bytes in all)",
            2 * (MAX_KEPT_CHARS + 1)
        )),
        "{}",
        finding.reason
    );
}
