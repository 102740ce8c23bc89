//! Whether a run may begin: decides by what a preflight found out. Pure.

use super::{Cell, Preflight};
use sobench_backend::ConstraintDialect;
use sobench_core::error::{Error, Result};
use sobench_core::printable::printable;
use sobench_notices::enforcement::{Class, Unenforced};
use sobench_notices::notice::{ConstraintFinding, Notice, PreflightNotice};

/// Characters of an answer, or of a server's words, that one line shows.
const SHOWN_CHARS: usize = 200;

/// Looks at every kind in the dialect of the run; what its reader has to know comes back as
/// notices.
///
/// # Errors
/// Environment, exit code 3: a constraint is ignored, or its envelope is taken for it, and the user
/// did not allow that.
pub fn gate(
    preflight: &Preflight,
    dialect: ConstraintDialect,
    unenforced: Unenforced,
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
            (class, Unenforced::Refuse) if class.is_silent_loss() => return Err(refusal(&found)),
            (class, Unenforced::Allow) if class.is_silent_loss() => {
                notices.push(PreflightNotice::NotEnforced(found).into())
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
        words: printable(&finding.words, SHOWN_CHARS),
        answer: finding
            .answer
            .as_deref()
            .map(|answer| printable(answer, SHOWN_CHARS)),
    }
}

fn refusal(found: &ConstraintFinding) -> Error {
    Error::environment(format!("the server answers 200 and does not apply the constraint: {found}")).hint(
        "`sobench preflight` tells which --constraint-dialect works; --allow-unenforced measures all the same and says so in every \
         output; --skip-preflight does not ask",
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
            let asked = preflight(vec![cell(Kind::Json, Guided, class)]);
            let refused = gate(&asked, Guided, Unenforced::Refuse);
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
            let notices = gate(&asked, Guided, Unenforced::Allow).unwrap();
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
    fn an_answer_cannot_speak_to_the_terminal() {
        let mut loud = cell(Kind::Regex, StructuredOutputs, Class::Ignored);
        loud.finding.answer = Some("\u{1b}[2J\n".repeat(500));
        let error = gate(
            &preflight(vec![loud]),
            StructuredOutputs,
            Unenforced::Refuse,
        )
        .unwrap_err();
        assert!(
            !error.what.chars().any(char::is_control) && error.what.len() < 900,
            "{error}"
        );
    }
}
