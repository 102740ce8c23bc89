//! Decides by the results of a preflight whether a run may start.

use super::{Cell, Preflight};
use sobench_backend::ConstraintDialect;
use sobench_core::error::{Error, Result};
use sobench_core::printable::printable;
use sobench_notices::enforcement::{Class, UnenforcedPolicy};
use sobench_notices::notice::{ConstraintFinding, Notice, PreflightNotice};

/// Maximum characters of an answer or message that one line shows.
const SHOWN_CHARS: usize = 200;

/// Checks every kind in the dialect of the run and returns notices for the reader.
///
/// # Errors
/// Environment, exit code 3: a constraint is ignored or its envelope is used as the schema, without
/// `--allow-unenforced`.
pub fn gate(
    preflight: &Preflight,
    dialect: ConstraintDialect,
    unenforced: UnenforcedPolicy,
) -> Result<Vec<Notice>> {
    let mut notices = Vec::new();
    for cell in preflight
        .about
        .kinds
        .iter()
        .filter_map(|kind| preflight.verdict_for(*kind, dialect))
    {
        let found = finding(cell);
        match (cell.finding.class, unenforced) {
            (class, UnenforcedPolicy::Refuse) if class.is_silent_loss() => {
                return Err(refusal(&found));
            }
            (class, UnenforcedPolicy::Allow) if class.is_silent_loss() => {
                notices.push(PreflightNotice::NotEnforced(found).into());
            }
            (Class::Enforced | Class::NotCarried, _) => {}
            _ => notices.push(PreflightNotice::NotProved(found).into()),
        }
    }
    Ok(notices)
}

fn finding(cell: &Cell) -> ConstraintFinding {
    let finding = &cell.finding;
    ConstraintFinding {
        constraint: cell.label(),
        dialect: cell.dialect,
        class: finding.class,
        reason: printable(&finding.reason, SHOWN_CHARS),
        answer: finding
            .answer
            .as_deref()
            .map(|answer| printable(answer, SHOWN_CHARS)),
    }
}

fn refusal(found: &ConstraintFinding) -> Error {
    Error::environment(format!("the server returns 200 but does not apply the constraint: {found}")).hint(
        "run `sobench preflight` to find a --constraint-dialect that works, use --allow-unenforced to measure anyway (every output \
                 states it), or --skip-preflight to skip this test",
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, preflight};
    use super::*;
    use crate::Kind;
    use sobench_backend::ConstraintDialect::{Guided, StructuredOutputs};

    #[test]
    fn a_silent_loss_stops_the_run_unless_allowed() {
        for class in Class::ALL {
            let tested = preflight(vec![cell(Kind::Json, Guided, class)]);
            let refused = gate(&tested, Guided, UnenforcedPolicy::Refuse);
            assert_eq!(refused.is_err(), class.is_silent_loss(), "{class:?}");
            if let Err(error) = refused {
                assert!(
                    error.exit_code() == 3 && error.what.contains("json in guided"),
                    "{error}"
                );
                assert!(
                    error
                        .hint
                        .is_some_and(|hint| hint.contains("--allow-unenforced"))
                );
            }
            let notices = gate(&tested, Guided, UnenforcedPolicy::Allow).unwrap();
            assert_eq!(
                notices.iter().any(|notice| matches!(
                    notice,
                    Notice::Preflight(PreflightNotice::NotEnforced(_))
                )),
                class.is_silent_loss()
            );
            assert_eq!(
                notices.is_empty(),
                matches!(class, Class::Enforced | Class::NotCarried),
                "{class:?}"
            );
        }
    }

    #[test]
    fn control_characters_of_an_answer_are_escaped() {
        let mut with_escapes = cell(Kind::Regex, StructuredOutputs, Class::Ignored);
        with_escapes.finding.answer = Some("\u{1b}[2J\n".repeat(500));
        let error = gate(
            &preflight(vec![with_escapes]),
            StructuredOutputs,
            UnenforcedPolicy::Refuse,
        )
        .unwrap_err();
        assert!(
            !error.what.chars().any(char::is_control) && error.what.len() < 900,
            "{error}"
        );
    }
}
