//! Preflight results for tests.

use super::{
    Cell, Class, Control, Finding, Preflight, PreflightConditions, ProbeKind, ServerFacts,
};
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::constraint::GrammarDialect;

/// A preflight with these cells, their kinds and their dialects.
pub fn preflight(cells: Vec<Cell>) -> Preflight {
    let mut dialects: Vec<ConstraintDialect> = Vec::new();
    for cell in &cells {
        if !dialects.contains(&cell.dialect) {
            dialects.push(cell.dialect);
        }
    }
    let kinds = ProbeKind::all()
        .filter(|kind| cells.iter().any(|cell| cell.kind == *kind))
        .collect();
    Preflight {
        record: PreflightConditions {
            backend: ServerKind::Vllm,
            base_url: "http://127.0.0.1:8000".to_owned(),
            path: "/v1/completions".to_owned(),
            model: "tiny".to_owned(),
            seed: 0,
            output_len: 64,
            prompt: crate::constraint_probe::PROMPT.to_owned(),
            stream: true,
            kinds,
            dialects,
            notation: GrammarDialect::Ebnf,
        },
        facts: ServerFacts::default(),
        control: Control {
            answer: Some("The sea is calm.".to_owned()),
            failure: None,
        },
        wire: None,
        requests: cells.len() + 1,
        cells,
        untested: Vec::new(),
        spelling: None,
        tool_calls: None,
        reasoning: None,
        notices: Vec::new(),
    }
}

/// A cell of this class, with a message and an answer if the class has them.
pub fn cell(kind: ProbeKind, dialect: ConstraintDialect, class: Class) -> Cell {
    let mut finding = Finding::new(
        class,
        if class == Class::Enforced {
            ""
        } else {
            "words"
        },
    );
    finding.status = (class == Class::Rejected).then_some(400);
    finding.answer = matches!(class, Class::Enforced | Class::Partial | Class::Ignored)
        .then(|| "an answer".to_owned());
    let notation = (kind == ProbeKind::GRAMMAR).then_some(GrammarDialect::Ebnf);
    Cell {
        kind,
        notation,
        dialect,
        finding,
        asked_again: false,
    }
}
