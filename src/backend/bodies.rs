//! What every kind of server is sent for every kind of constraint in every dialect, held to a page a kind.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::json;

use super::shape::Shape;
use super::{ConstraintDialect, RequestOptions, Sampling, ServerKind, adapter};
use crate::case::{Arm, Case, Message, Prompt};
use crate::constraint::{AlwaysTrue, Constraint, GrammarDialect};

fn case(kind: ServerKind, constraint: Option<Constraint>, arm: Arm) -> Case {
    let messages = || [Message { role: "user".to_owned(), content: json!("Say it") }].into();
    Case {
        id: "t-0".to_owned(),
        prompt: if kind.takes_messages() { Prompt::Messages(messages()) } else { Prompt::Text("Say it".into()) },
        prompt_tokens: Some(2),
        constraint: constraint.map(Arc::new),
        arm,
        output_len: 16,
        completion: None,
        tags: vec![],
        grammar_oracle: None,
    }
}

fn options(dialect: ConstraintDialect) -> RequestOptions {
    RequestOptions {
        model: "m".to_owned(),
        stream: true,
        sampling: Sampling::default(),
        ignore_eos: false,
        dialect,
        guided_decoding_backend: None,
        extra_body: None,
    }
}

/// The body, or why there is none.
fn line(kind: ServerKind, case: &Case, options: &RequestOptions) -> String {
    match adapter(kind).encode(case, options) {
        Ok(body) => {
            assert!(serde_json::from_slice::<serde_json::Value>(&body).unwrap().is_object());
            String::from_utf8(body.to_vec()).unwrap()
        }
        Err(unsendable) => format!("refused: {}", unsendable.what),
    }
}

fn page(kind: ServerKind) -> String {
    let constraints = [
        Constraint::JsonSchema(Arc::new(json!({"type": "object", "properties": {"a": {"type": "integer"}}}))),
        Constraint::JsonObject(AlwaysTrue),
        Constraint::Regex(r"[A-Z]{2}\d".into()),
        Constraint::Choice(vec!["yes".to_owned(), "no.".to_owned()].into()),
        Constraint::Grammar { dialect: GrammarDialect::Ebnf, text: "root ::= \"a\"".into() },
        Constraint::StructuralTag(Arc::new(json!({"format": {"type": "any_text"}}))),
    ];
    let mut page = format!("{}\n", kind.path(true));
    // A kind without any dialect shows what becomes of a constraint all the same.
    let none = [ConstraintDialect::ResponseFormat];
    let dialects = if kind.dialects().is_empty() { &none } else { kind.dialects() };
    for dialect in dialects {
        for constraint in &constraints {
            let name = constraint.kind();
            let case = case(kind, Some(constraint.clone()), Arm::Constrained);
            writeln!(page, "{dialect} {name}\n  {}", line(kind, &case, &options(*dialect))).unwrap();
        }
    }
    let control = case(kind, Some(constraints[0].clone()), Arm::Control);
    writeln!(page, "control\n  {}", line(kind, &control, &options(dialects[0]))).unwrap();
    let whole = RequestOptions {
        stream: false,
        sampling: Sampling {
            temperature: Some(0.5),
            top_p: Some(0.9),
            top_k: Some(40),
            frequency_penalty: Shape::of(kind).sampling_field("frequency_penalty").map(|_| 0.1),
            ..Sampling::default()
        },
        ..options(dialects[0])
    };
    writeln!(page, "whole {}\n  {}", kind.path(false), line(kind, &case(kind, None, Arm::Free), &whole)).unwrap();
    page
}

#[test]
fn bodies_of_every_kind() {
    for kind in ServerKind::ALL {
        insta::assert_snapshot!(kind.name(), page(kind));
    }
}
