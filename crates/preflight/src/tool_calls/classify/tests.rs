//! Tests of every kind of answer to a request with tools, and its class.

use serde_json::json;

use super::*;
use crate::constraint_probe::RandomWords;
use crate::tool_calls::ToolQuestion;
use sobench_backend::ServerKind;
use sobench_core::observation::Timing;
use sobench_judge::JudgeSettings;

/// A call of a function with a value.
type Call<'a> = (&'a str, String);

fn probe(row: ToolRow, strict: bool) -> ToolProbe {
    let question = ToolQuestion { row, strict };
    ToolProbe::random(question, &mut RandomWords::new(1), ServerKind::OpenaiChat)
}

fn observation(content: &str, calls: &[Call<'_>]) -> Observation {
    let calls = calls
        .iter()
        .zip(0..)
        .map(|((name, arguments), index)| ToolCall {
            index,
            id: format!("call-{index}"),
            name: (*name).to_owned(),
            arguments: arguments.clone(),
            ..ToolCall::default()
        });
    let tool_calls: Vec<ToolCall> = calls.collect();
    let finish_reason = if tool_calls.is_empty() {
        "stop"
    } else {
        "tool_calls"
    };
    Observation {
        case_index: 0,
        outcome: Outcome::Completed,
        timing: Timing::default(),
        answer: Answer {
            tool_calls,
            ..Answer::from_text(content.to_owned())
        },
        finish_reason: Some(finish_reason.to_owned()),
        usage: None,
    }
}

/// A call of the function at this position, with the allowed or the requested value.
fn call(probe: &ToolProbe, position: usize, is_allowed: bool) -> Call<'_> {
    let function = &probe.functions[position];
    let value = if is_allowed {
        &function.allowed[0]
    } else {
        &function.requested
    };
    (&function.name, json!({&function.member: value}).to_string())
}

fn evaluator() -> Evaluator {
    Evaluator::new(JudgeSettings::default())
}

/// The control of a model that calls, and yields to the temptation.
fn obeying() -> CallControl {
    CallControl {
        calls: true,
        obeys: true,
        answer: Some("a call".to_owned()),
        ..CallControl::default()
    }
}

fn evidence<'a>(
    probe: &'a ToolProbe,
    observation: &'a Observation,
    control: &'a CallControl,
) -> ToolEvidence<'a> {
    ToolEvidence {
        probe,
        observation,
        control,
        calls_unasked: Some(false),
        is_tempted: control.obeys,
        parallel_calls: Some(2),
    }
}

fn class_of(probe: &ToolProbe, observation: &Observation) -> (Class, Option<Part>) {
    let control = obeying();
    let result = classify(&evidence(probe, observation, &control), &mut evaluator());
    (result.finding.class, result.part)
}

#[test]
fn the_demanded_answer_is_enforced() {
    for question in ToolQuestion::ALL {
        let probe = probe(question.row, question.strict);
        let calls = match question.row {
            ToolRow::None => vec![],
            ToolRow::Named | ToolRow::AllowedTools => vec![call(&probe, 1, true)],
            ToolRow::Parallel => vec![call(&probe, 0, true), call(&probe, 1, true)],
            _ => vec![call(&probe, 0, true)],
        };
        let content = if calls.is_empty() {
            "I do not call."
        } else {
            ""
        };
        let observed = observation(content, &calls);
        assert_eq!(
            class_of(&probe, &observed),
            (Class::Enforced, None),
            "{question}"
        );
    }
}

#[test]
fn the_requested_value_is_a_partial_call() {
    for row in [ToolRow::Required, ToolRow::Auto, ToolRow::Parallel] {
        for strict in [true, false] {
            let probe = probe(row, strict);
            let observed = observation("", &[call(&probe, 0, false)]);
            assert_eq!(
                class_of(&probe, &observed),
                (Class::Partial, Some(Part::Arguments)),
                "{row:?}"
            );
        }
    }
}

#[test]
fn dropped_demands_are_ignored() {
    let required = probe(ToolRow::Required, true);
    let named = probe(ToolRow::Named, true);
    let allowed = probe(ToolRow::AllowedTools, true);
    let none = probe(ToolRow::None, true);
    let one = probe(ToolRow::OneCall, true);
    for (probe, observed) in [
        (&required, observation("The sea is calm.", &[])),
        (&required, observation("", &[("unknown", "{}".to_owned())])),
        (&named, observation("", &[call(&named, 0, true)])),
        (&allowed, observation("", &[call(&allowed, 0, true)])),
        (&none, observation("", &[call(&none, 0, false)])),
        (
            &one,
            observation("", &[call(&one, 0, false), call(&one, 1, false)]),
        ),
    ] {
        assert_eq!(
            class_of(probe, &observed),
            (Class::Ignored, None),
            "{observed:?}"
        );
    }
}

#[test]
fn calls_as_text_are_leaked() {
    let probe = probe(ToolRow::Auto, true);
    let (name, arguments) = call(&probe, 0, true);
    let as_json = format!(r#"{{"name": "{name}", "arguments": {arguments}}}"#);
    let markup = format!("<tool_call>{as_json}</tool_call>");
    for text in [&as_json, &markup] {
        assert_eq!(
            class_of(&probe, &observation(text, &[])),
            (Class::Leaked, None)
        );
    }
    let mut in_reasoning = observation("The sea.", &[]);
    in_reasoning.answer.reasoning = markup;
    assert_eq!(class_of(&probe, &in_reasoning), (Class::Leaked, None));
    // The arguments alone, where a call is required.
    let required = self::probe(ToolRow::Required, true);
    let (_, arguments) = call(&required, 0, true);
    assert_eq!(
        class_of(&required, &observation(&arguments, &[])),
        (Class::WrongChannel, None)
    );
}

#[test]
fn joined_calls_are_merged() {
    let probe = probe(ToolRow::Parallel, true);
    let [first, second] = [0, 1].map(|position| call(&probe, position, true));
    let names = format!("{}{}", first.0, second.0);
    let members = format!("{},{}", &first.1[..first.1.len() - 1], &second.1[1..]);
    for merged in [
        (first.0, format!("{}{}", first.1, second.1)),
        (first.0, members),
        (names.as_str(), first.1.clone()),
    ] {
        let observed = observation("", &[merged]);
        assert_eq!(
            class_of(&probe, &observed),
            (Class::Merged, None),
            "{observed:?}"
        );
    }
}

#[test]
fn ids_and_finish_reasons_are_parts_of_a_call() {
    let probe = probe(ToolRow::Parallel, true);
    let mut without_id = observation("", &[call(&probe, 0, true)]);
    without_id.answer.tool_calls[0].id.clear();
    let mut same_id = observation("", &[call(&probe, 0, true), call(&probe, 1, true)]);
    same_id.answer.tool_calls[1].id = same_id.answer.tool_calls[0].id.clone();
    let mut stop = observation("", &[call(&probe, 0, true), call(&probe, 1, true)]);
    stop.finish_reason = Some("stop".to_owned());
    for (observed, part) in [
        (without_id, Part::Id),
        (same_id, Part::Id),
        (stop, Part::FinishReason),
    ] {
        assert_eq!(class_of(&probe, &observed), (Class::Partial, Some(part)));
    }
}

#[test]
fn cut_calls_are_partial_and_white_space_is_broken() {
    let probe = probe(ToolRow::Required, true);
    let (name, arguments) = call(&probe, 0, true);
    let cut = |arguments: String| Observation {
        outcome: Outcome::Truncated,
        finish_reason: Some("length".to_owned()),
        ..observation("", &[(name, arguments)])
    };
    let cut_call = cut(arguments[..arguments.len() - 4].to_owned());
    assert_eq!(
        class_of(&probe, &cut_call),
        (Class::Partial, Some(Part::Cut))
    );
    let spaces = cut(format!("{{{}", " ".repeat(RUNAWAY_CHARS)));
    assert_eq!(class_of(&probe, &spaces), (Class::Broken, None));
    let before_call = Observation {
        outcome: Outcome::Truncated,
        finish_reason: Some("length".to_owned()),
        ..observation("I will", &[])
    };
    assert_eq!(class_of(&probe, &before_call), (Class::Unproven, None));
}

#[test]
fn refusals_of_a_request_are_quoted() {
    let probe = probe(ToolRow::AllowedTools, true);
    let refused = Observation {
        outcome: Outcome::Rejected {
            status: 400,
            body: "unknown tool_choice".to_owned(),
            advice: None,
        },
        ..observation("", &[])
    };
    let control = obeying();
    let result = classify(&evidence(&probe, &refused, &control), &mut evaluator());
    assert_eq!(
        (
            result.finding.class,
            result.finding.status,
            result.finding.reason.as_str()
        ),
        (Class::Rejected, Some(400), "unknown tool_choice")
    );
}

#[test]
fn a_model_that_does_not_call_proves_nothing() {
    let silent = CallControl {
        answer: Some("The sea.".to_owned()),
        ..CallControl::default()
    };
    for (row, calls) in [
        (ToolRow::Auto, 0),
        (ToolRow::None, 0),
        (ToolRow::Parallel, 0),
        (ToolRow::Parallel, 1),
        (ToolRow::OneCall, 0),
        // It calls, but does not yield to the temptation.
        (ToolRow::Auto, 1),
        (ToolRow::Parallel, 2),
    ] {
        let probe = probe(row, true);
        let calls: Vec<Call<'_>> = (0..calls)
            .map(|position| call(&probe, position, true))
            .collect();
        let content = if calls.is_empty() {
            "The sea is calm."
        } else {
            ""
        };
        let observed = observation(content, &calls);
        let result = classify(&evidence(&probe, &observed, &silent), &mut evaluator());
        assert_eq!(result.finding.class, Class::Unproven, "{row:?} {result:?}");
    }
    // A forced call is the effect of the demand also for such a model.
    let named = probe(ToolRow::Named, true);
    let observed = observation("", &[call(&named, 1, true)]);
    let result = classify(&evidence(&named, &observed, &silent), &mut evaluator());
    assert_eq!(result.finding.class, Class::Enforced);
    assert_eq!(
        result.finding.reason,
        "for the schema of the arguments: no violation seen (weak temptation)"
    );
    // A model that always calls shows nothing about `required`.
    let required = probe(ToolRow::Required, true);
    let observed = observation("", &[call(&required, 0, true)]);
    let control = obeying();
    let always = ToolEvidence {
        calls_unasked: Some(true),
        ..evidence(&required, &observed, &control)
    };
    assert_eq!(
        classify(&always, &mut evaluator()).finding.class,
        Class::Unproven
    );
    // One call proves nothing if the model never makes two.
    let one = probe(ToolRow::OneCall, true);
    let observed = observation("", &[call(&one, 0, true)]);
    let single = ToolEvidence {
        parallel_calls: Some(1),
        ..evidence(&one, &observed, &control)
    };
    assert_eq!(
        classify(&single, &mut evaluator()).finding.class,
        Class::Unproven
    );
}

#[test]
fn controls_show_whether_the_model_calls_and_yields() {
    let probe = ToolProbe::control(&mut RandomWords::new(1), ServerKind::OpenaiChat);
    let control = |observed: &Observation| CallControl::new(&probe, observed, &mut evaluator());
    let obeys = control(&observation("", &[call(&probe, 0, false)]));
    assert!(obeys.calls && obeys.obeys && !obeys.leaked, "{obeys:?}");
    let resists = control(&observation("", &[call(&probe, 0, true)]));
    assert!(resists.calls && !resists.obeys, "{resists:?}");
    let silent = control(&observation("The sea is calm.", &[]));
    assert!(!silent.calls && silent.answer.is_some(), "{silent:?}");
    let (name, arguments) = call(&probe, 0, false);
    let text = format!(r#"<tool_call>{{"name": "{name}", "arguments": {arguments}}}</tool_call>"#);
    let leaks = control(&observation(&text, &[]));
    assert!(leaks.calls && leaks.leaked && leaks.obeys, "{leaks:?}");
    let failed = control(&Observation {
        outcome: Outcome::Rejected {
            status: 400,
            body: "no parser".to_owned(),
            advice: None,
        },
        ..observation("", &[])
    });
    assert!(failed.failure.is_some() && !failed.calls);
}
