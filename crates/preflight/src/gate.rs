//! Decides by the results of a preflight whether a run may start.

use super::{Finding, Preflight};
use sobench_backend::ConstraintDialect;
use sobench_core::error::{Error, Result};
use sobench_core::error_message::error_message;
use sobench_core::printable::{printable, printable_message};
use sobench_notices::enforcement::{Class, UnenforcedPolicy};
use sobench_notices::notice::{ConstraintFinding, Notice, PreflightNotice};

/// Maximum characters of an answer or message that one line shows.
const SHOWN_CHARS: usize = 200;

/// Checks every kind in the dialect of the run, and the tool calls, and returns notices for the
/// reader.
///
/// # Errors
/// Environment, exit code 3: a constraint is ignored or its envelope is used as the schema, or a
/// demand on tool calls is lost, without `--allow-unenforced`.
pub fn gate(
    preflight: &Preflight,
    dialect: ConstraintDialect,
    unenforced: UnenforcedPolicy,
) -> Result<Vec<Notice>> {
    let of_text = preflight
        .text_kinds()
        .filter_map(|kind| preflight.verdict_for(kind, dialect))
        .map(|cell| {
            let is_loss = cell.finding.class.is_silent_loss();
            let needs_no_notice = cell.finding.class == Class::NotCarried;
            let found = finding(cell.label(), Some(cell.dialect), &cell.finding);
            (found, is_loss, needs_no_notice)
        });
    let calls = preflight.tool_calls.iter().flat_map(|found| &found.cells);
    let calls = calls.map(|cell| {
        let found = finding(cell.label(), None, &cell.finding);
        let needs_no_notice = !cell.question.is_demanding() && !cell.is_silent_loss();
        (found, cell.is_silent_loss(), needs_no_notice)
    });
    let elsewhere = preflight.notices.iter().find(|notice: &&Notice| {
        matches!(
            notice,
            Notice::Preflight(PreflightNotice::EnforcedElsewhere { .. })
        )
    });
    let mut notices: Vec<Notice> = elsewhere.cloned().into_iter().collect();
    for (found, is_loss, needs_no_notice) in of_text.chain(calls) {
        match (is_loss, unenforced) {
            (true, UnenforcedPolicy::Refuse) => return Err(refusal(&found, elsewhere)),
            (true, UnenforcedPolicy::Allow) => {
                notices.push(PreflightNotice::NotEnforced(found).into());
            }
            (false, _) if found.class == Class::Enforced || needs_no_notice => {}
            (false, _) if found.class == Class::Broken => {
                notices.push(PreflightNotice::Failed(found).into());
            }
            (false, _) => notices.push(PreflightNotice::NotProved(found).into()),
        }
    }
    Ok(notices)
}

fn finding(
    constraint: String,
    dialect: Option<ConstraintDialect>,
    finding: &Finding,
) -> ConstraintFinding {
    ConstraintFinding {
        constraint,
        dialect,
        class: finding.class,
        reason: printable_message(&error_message(&finding.reason)),
        answer: finding
            .answer
            .as_deref()
            .map(|answer| printable(answer, SHOWN_CHARS)),
    }
}

fn refusal(found: &ConstraintFinding, elsewhere: Option<&Notice>) -> Error {
    let error = Error::environment(format!(
        "the server returns 200 but does not apply the constraint: {found}"
    ));
    if let Some(elsewhere) = elsewhere {
        return error.hint(elsewhere.to_string());
    }
    let change = match found.dialect {
        Some(_) => "run `sobench preflight` to find a --constraint-dialect that works",
        None => {
            "check the server's tool parser and chat template for this model (`sobench preflight` shows all demands on calls)"
        }
    };
    error.hint(format!(
        "{change}, use --allow-unenforced to measure anyway (every output states it), or --skip-preflight to skip this test"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, preflight};
    use super::*;
    use crate::ProbeKind;
    use sobench_backend::ConstraintDialect::{Guided, StructuredOutputs};
    use sobench_core::constraint::ConstraintKind;

    #[test]
    fn a_silent_loss_stops_the_run_unless_allowed() {
        for class in Class::ALL {
            let tested = preflight(vec![cell(ProbeKind::JSON_SCHEMA, Guided, class)]);
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
    fn a_lost_demand_on_tool_calls_stops_the_run_unless_allowed() {
        use crate::tool_calls::{Part, ToolRow};
        use crate::{ToolCell, ToolPreflight, ToolQuestion};
        let found = |strict, class, part| {
            let cell = ToolCell {
                question: ToolQuestion {
                    row: ToolRow::Auto,
                    strict,
                },
                stream: true,
                asked_again: false,
                part,
                finding: Finding::new(class, "why"),
            };
            let tool_calls = Some(ToolPreflight {
                cells: vec![cell],
                ..ToolPreflight::default()
            });
            Preflight {
                tool_calls,
                ..preflight(Vec::new())
            }
        };
        let arguments = Some(Part::Arguments);
        let lost = found(true, Class::Partial, arguments);
        let error = gate(&lost, Guided, UnenforcedPolicy::Refuse).unwrap_err();
        assert_eq!(
            error.what,
            "the server returns 200 but does not apply the constraint: tool call, auto, strict, streamed: partial: why"
        );
        let hint = error.hint.unwrap_or_default();
        assert!(
            hint.contains("tool parser") && !hint.contains("--constraint-dialect"),
            "{hint}"
        );
        for (tested, notices) in [
            (lost, 1),
            (found(false, Class::Partial, arguments), 0),
            (found(true, Class::Unproven, None), 1),
            (found(true, Class::Enforced, None), 0),
        ] {
            let found = gate(&tested, Guided, UnenforcedPolicy::Allow).unwrap();
            assert_eq!(found.len(), notices, "{found:?}");
        }
    }

    #[test]
    fn control_characters_of_an_answer_are_escaped() {
        let mut with_escapes = cell(
            ProbeKind::Text(ConstraintKind::Regex),
            StructuredOutputs,
            Class::Ignored,
        );
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
