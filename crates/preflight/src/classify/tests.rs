//! Every way to answer a question, and the class that it proves.

use serde_json::{Value, json};

use super::*;
use crate::envelope::envelopes;
use crate::question::Words;
use sobench_core::answer::Answer;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::observation::{Timing, TransportCause};
use sobench_judge::EvaluateOptions;
use sobench_notices::enforcement::Kind;

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

fn question(kind: Kind) -> Question {
    Question::draw(kind, GrammarDialect::Ebnf, &mut Words::new(1))
}

/// The request in which a schema travels as OpenAI has it.
fn request(question: &Question) -> Vec<Envelope> {
    let Constraint::JsonSchema(schema) = &*question.constraint else {
        return Vec::new();
    };
    let format = json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": **schema, "strict": true}});
    envelopes(&json!({"response_format": format}), schema)
}

fn judge_against(control: &str, question: &Question, observation: &Observation) -> Finding {
    let control = Control::of(&super::tests::observation(Outcome::Completed, control));
    let envelopes = request(question);
    let evidence = Evidence {
        question,
        observation,
        control: &control,
        envelopes: &envelopes,
    };
    classify(&evidence, &mut Evaluator::new(EvaluateOptions::default()))
}

fn judge(question: &Question, observation: &Observation) -> Finding {
    judge_against("The sea is calm today.", question, observation)
}

fn answer(question: &Question) -> String {
    let [first, second] = question.secrets.as_slice() else {
        return "{}".to_owned();
    };
    if question.kind == Kind::Json {
        json!({first: second}).to_string()
    } else {
        second.clone()
    }
}

#[test]
fn the_right_answer_is_enforced_and_prose_is_ignored() {
    for kind in Kind::ALL {
        let question = question(kind);
        for outcome in [Outcome::Completed, Outcome::Truncated] {
            let right = judge(&question, &observation(outcome.clone(), &answer(&question)));
            assert_eq!(
                (right.class, right.words.contains("cut")),
                (Class::Enforced, !right.words.is_empty()),
                "{kind}"
            );
            let prose = judge(
                &question,
                &observation(outcome, "The waves are high today, and the wind"),
            );
            assert_eq!(prose.class, Class::Ignored, "{kind}");
            assert!(prose.answer.is_some() && !prose.words.is_empty(), "{kind}");
        }
    }
}

#[test]
fn what_is_no_answer_is_told_apart() {
    let body = || "{\"error\": \"words of the server\"}".to_owned();
    let question = question(Kind::Regex);
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
        (Outcome::Cancelled, Class::NotAsked, None, None),
    ] {
        let timed_out = matches!(outcome, Outcome::TimedOut { .. });
        let cancelled = outcome == Outcome::Cancelled;
        let finding = judge(&question, &observation(outcome, ""));
        assert_eq!(
            (finding.class, finding.cause, finding.status, finding.answer),
            (class, cause, status, None)
        );
        assert!(
            finding.words.contains("words of the server") || timed_out || cancelled,
            "{}",
            finding.words
        );
    }
    let silent = judge(
        &question,
        &observation(
            Outcome::ServerError {
                status: 500,
                body: String::new(),
                advice: None,
            },
            "",
        ),
    );
    assert_eq!(silent.words, "(no words)");
}

#[test]
fn a_cut_answer_proves_as_much_as_it_shows() {
    let choice = question(Kind::Choice);
    let json = question(Kind::Json);
    let begun = |letters: usize| choice.secrets[0][..letters].to_owned();
    let document = |letters: usize| format!("{{\n  \"{}", &json.secrets[0][..letters]);
    for (question, text, class) in [
        (&choice, begun(MIN_LETTERS), Class::Enforced),
        (&choice, begun(MIN_LETTERS - 1), Class::Unproven),
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
            judge(question, &observation(Outcome::Truncated, &text)).class,
            class,
            "{text}"
        );
    }
    // The same beginning, not cut by the limit: the server ended it where the constraint does not
    // allow.
    assert_eq!(
        judge(&choice, &observation(Outcome::Completed, &begun(8))).class,
        Class::Partial
    );
    let broken_off = judge(
        &choice,
        &observation(
            Outcome::StreamError {
                message: "ended".to_owned(),
            },
            &begun(8),
        ),
    );
    assert_eq!(
        (
            broken_off.class,
            broken_off.words.contains("as the constraint says")
        ),
        (Class::Broken, true)
    );
}

#[test]
fn an_object_is_held_against_the_control() {
    let object = question(Kind::JsonObject);
    let completed = observation(Outcome::Completed, "{\"waves\": \"high\"}");
    let cut = observation(Outcome::Truncated, "{ \"waves\": \"hi");
    for (control, class) in [
        ("The sea.", Class::Enforced),
        ("{\"a\": 1}", Class::Unproven),
    ] {
        assert_eq!(judge_against(control, &object, &completed).class, class);
        assert_eq!(judge_against(control, &object, &cut).class, class);
    }
    let failed = Control::of(&observation(
        Outcome::ServerError {
            status: 500,
            body: String::new(),
            advice: None,
        },
        "",
    ));
    let evidence = Evidence {
        question: &object,
        observation: &completed,
        control: &failed,
        envelopes: &[],
    };
    assert_eq!(
        classify(&evidence, &mut Evaluator::new(EvaluateOptions::default())).class,
        Class::Unproven
    );
}

#[test]
fn nothing_is_called_ignored_that_shows_the_constraint() {
    let json = question(Kind::Json);
    let choice = question(Kind::Choice);
    let document = answer(&json);
    let other_value = json!({&json.secrets[0]: "waves"}).to_string();
    let wrapped = json!({"answer": serde_json::from_str::<Value>(&document).unwrap()}).to_string();
    let envelope =
        r#"{"name": "weather", "schema": {"type": "object"}, "strict": true}"#.to_owned();
    for (question, text, class) in [
        (&json, format!("```json\n{document}\n```"), Class::Partial),
        (&json, other_value, Class::Partial),
        (
            &choice,
            format!("{} and so on", choice.secrets[0]),
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
        let finding = judge(question, &observation(Outcome::Completed, &text));
        assert_eq!(finding.class, class, "{text}: {}", finding.words);
    }
    let json_mode = judge(&json, &observation(Outcome::Completed, "{}"));
    assert!(
        json_mode.words.starts_with("JSON, but not by the schema"),
        "{}",
        json_mode.words
    );
    let cut_envelope = observation(
        Outcome::Truncated,
        r#"{"name": "weather", "schema": {"type": "obj"#,
    );
    assert_eq!(judge(&json, &cut_envelope).class, Class::WrongWrapper);
}

#[test]
fn empty_answers_and_white_space_are_named() {
    let json = question(Kind::Json);
    let spaces = " \n".repeat(RUN_AWAY_CHARS);
    for text in [
        format!("{{{spaces}"),
        format!("{{\"{}\":{spaces}", json.secrets[0]),
        spaces.clone(),
    ] {
        let finding = judge(&json, &observation(Outcome::Truncated, &text));
        assert_eq!(
            (finding.class, finding.cause),
            (Class::Broken, Some(Cause::WhiteSpaceRunAway)),
            "{text:?}"
        );
    }
    assert_eq!(
        judge(&json, &observation(Outcome::Truncated, "{ \n  ")).class,
        Class::Unproven
    );
    let any = judge(
        &question(Kind::JsonObject),
        &observation(Outcome::Truncated, &format!("{{{spaces}")),
    );
    assert_eq!(any.cause, Some(Cause::WhiteSpaceRunAway));
    let choice = question(Kind::Choice);
    assert_eq!(
        judge(&choice, &observation(Outcome::Truncated, &spaces)).class,
        Class::Unproven
    );
    let mut thinking = observation(Outcome::Truncated, "");
    assert_eq!(judge(&choice, &thinking).words, "an empty answer");
    thinking.answer.reasoning = "hm".to_owned();
    let finding = judge(&choice, &thinking);
    assert_eq!(
        (finding.class, finding.words.as_str()),
        (
            Class::Unproven,
            "reasoning and no answer, cut at the token limit"
        )
    );
}

#[test]
fn long_words_are_cut_and_say_so() {
    let body = "\u{e9}".repeat(MAX_KEPT_CHARS + 1);
    let finding = judge(
        &question(Kind::Regex),
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
        finding.words.ends_with(&format!(
            "... (cut, {} bytes in all)",
            2 * (MAX_KEPT_CHARS + 1)
        )),
        "{}",
        finding.words
    );
}
