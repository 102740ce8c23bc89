//! Tests of the evaluation of cells: verdict of a kind, recommended dialect, pass or fail.

use super::testing::{cell, preflight};
use super::*;
use ConstraintDialect::{Guided, ResponseFormat, StructuredOutputs};
use sobench_core::constraint::ConstraintKind;

fn grammar(dialect: ConstraintDialect, notation: GrammarDialect, class: Class) -> Cell {
    Cell {
        notation: Some(notation),
        ..cell(ProbeKind::GRAMMAR, dialect, class)
    }
}

#[test]
fn the_working_notation_counts() {
    let found = preflight(vec![
        grammar(Guided, GrammarDialect::Ebnf, Class::Rejected),
        grammar(Guided, GrammarDialect::Lark, Class::Enforced),
        grammar(StructuredOutputs, GrammarDialect::Ebnf, Class::Rejected),
        grammar(StructuredOutputs, GrammarDialect::Lark, Class::Rejected),
    ]);
    let class = |dialect| {
        found
            .verdict_for(ProbeKind::GRAMMAR, dialect)
            .map(|cell| (cell.finding.class, cell.notation))
    };
    assert_eq!(
        class(Guided),
        Some((Class::Enforced, Some(GrammarDialect::Lark)))
    );
    assert_eq!(
        class(StructuredOutputs),
        Some((Class::Rejected, Some(GrammarDialect::Ebnf)))
    );
    assert_eq!(found.verdict_for(ProbeKind::JSON_SCHEMA, Guided), None);
    let best = found.recommendation().unwrap();
    assert_eq!(
        best.flags(),
        "--constraint-dialect guided --grammar-dialect lark"
    );
}

#[test]
fn the_best_dialect_enforces_most_with_the_fewest_silent_losses() {
    let both = |first: Class, second: Class, third: Class, fourth: Class| {
        preflight(vec![
            cell(ProbeKind::JSON_SCHEMA, StructuredOutputs, first),
            cell(
                ProbeKind::Text(ConstraintKind::Regex),
                StructuredOutputs,
                second,
            ),
            cell(ProbeKind::JSON_SCHEMA, ResponseFormat, third),
            cell(
                ProbeKind::Text(ConstraintKind::Regex),
                ResponseFormat,
                fourth,
            ),
        ])
    };
    use Class::{Enforced, Ignored, NotCarried, Rejected};
    for (found, dialect, passed) in [
        (
            both(Enforced, Enforced, Enforced, NotCarried),
            Some(StructuredOutputs),
            true,
        ),
        (
            both(Ignored, Ignored, Enforced, NotCarried),
            Some(ResponseFormat),
            true,
        ),
        (
            both(Enforced, Ignored, Enforced, NotCarried),
            Some(ResponseFormat),
            true,
        ),
        (
            both(Enforced, Rejected, Rejected, NotCarried),
            Some(StructuredOutputs),
            false,
        ),
        (both(Ignored, Ignored, Rejected, NotCarried), None, false),
        (
            both(NotCarried, NotCarried, NotCarried, NotCarried),
            None,
            false,
        ),
    ] {
        assert_eq!(found.recommendation().map(|best| best.dialect), dialect);
        assert_eq!(found.passed(), passed);
    }
    let best = both(Enforced, Rejected, Ignored, NotCarried)
        .recommendation()
        .unwrap();
    assert_eq!(
        (best.enforced, best.missing),
        (
            vec![ProbeKind::JSON_SCHEMA],
            vec![ProbeKind::Text(ConstraintKind::Regex)]
        )
    );
    assert_eq!(
        both(Ignored, Enforced, Ignored, NotCarried)
            .silent_losses()
            .count(),
        2
    );
}
