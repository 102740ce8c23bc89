//! Text about constraint enforcement for reports.

use sobench_core::printable::{NAME_CHARS, printable};

use super::{Class, EarlyBreach, Enforcement, KindResult, State};

impl Enforcement {
    /// A warning to show above all figures, if a constraint was not enforced.
    pub fn warning(&self) -> Option<String> {
        (self.state == State::NotEnforced).then(|| {
            let found = || {
                self.findings
                    .iter()
                    .filter(|finding| finding.class.is_silent_loss())
            };
            let lost: Vec<String> = found()
                .map(KindResult::description)
                .chain(self.early.as_ref().map(ToString::to_string))
                .collect();
            let described = if found().any(|finding| !finding.class.is_unconstrained()) {
                "answers that may break their constraint"
            } else {
                "unconstrained answers"
            };
            format!(
                "CONSTRAINT NOT ENFORCED: {}. The figures describe {described}.",
                lost.join(", ")
            )
        })
    }

    /// Records that the first answers of the run break their constraint.
    pub fn add_early_breach(&mut self, early: EarlyBreach) {
        self.state = State::NotEnforced;
        self.early = Some(early);
    }

    /// A short description of the state.
    pub fn condition(&self) -> Option<&'static str> {
        match self.state {
            State::NotChecked => None,
            State::Enforced => Some("enforced in preflight"),
            State::NotEnforced => Some("NOT ENFORCED"),
            State::Unproven => Some("enforcement not proved"),
        }
    }

    /// The engine that the server reports.
    pub fn engine(&self) -> Option<String> {
        let engine = self.server.as_ref()?.engine.as_deref()?;
        Some(format!(
            "{} (reported by the server)",
            printable(engine, NAME_CHARS)
        ))
    }
}

impl KindResult {
    fn description(&self) -> String {
        let state = match self.class {
            Class::WrongWrapper => "used as its own envelope",
            Class::WrongChannel => "answered in another channel",
            Class::Partial => "enforced only in part",
            Class::Leaked => "left as text",
            Class::Merged => "answered with two calls in one",
            _ => "ignored",
        };
        match self.dialect {
            Some(dialect) => format!("{} in {dialect} is {state}", self.kind),
            None => format!(
                "{} is {state} ({})",
                self.kind,
                printable(&self.reason, NAME_CHARS)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforcement::ProbeKind;
    use sobench_backend::ConstraintDialect::StructuredOutputs;

    fn held(class: Class) -> KindResult {
        KindResult {
            kind: ProbeKind::JSON_SCHEMA,
            dialect: Some(StructuredOutputs),
            class,
            reason: String::new(),
        }
    }

    #[test]
    fn warning_only_for_dropped_constraints() {
        let enforcement = |state, class| Enforcement {
            state,
            findings: vec![held(class)],
            ..Enforcement::default()
        };
        for (enforcement, has_warning, condition) in [
            (Enforcement::default(), false, None),
            (
                enforcement(State::Enforced, Class::Enforced),
                false,
                Some("enforced in preflight"),
            ),
            (
                enforcement(State::Unproven, Class::Broken),
                false,
                Some("enforcement not proved"),
            ),
            (
                enforcement(State::NotEnforced, Class::Ignored),
                true,
                Some("NOT ENFORCED"),
            ),
            (
                enforcement(State::NotEnforced, Class::WrongWrapper),
                true,
                Some("NOT ENFORCED"),
            ),
        ] {
            assert_eq!(
                (enforcement.warning().is_some(), enforcement.condition()),
                (has_warning, condition)
            );
        }
        let partial = enforcement(State::NotEnforced, Class::Partial).warning();
        assert!(
            partial.is_some_and(|text| text.contains("is enforced only in part. ")
                && text.contains("may break their constraint")),
        );
        let tool = Enforcement {
            findings: vec![KindResult {
                kind: ProbeKind::Tool,
                dialect: None,
                reason: "required: no call".to_owned(),
                ..held(Class::Ignored)
            }],
            ..enforcement(State::NotEnforced, Class::Ignored)
        };
        assert!(
            tool.warning()
                .is_some_and(|text| text.contains("tool is ignored (required: no call). "))
        );
        let mut early = enforcement(State::Unproven, Class::Unproven);
        early.add_early_breach(EarlyBreach {
            answers: 8,
            broken: 7,
            first_request: "choice-1".to_owned(),
            reason: "none of the choices".to_owned(),
        });
        assert_eq!(
            early.warning().as_deref(),
            Some(
                "CONSTRAINT NOT ENFORCED: 7 of the first 8 constrained answers break their constraint (first choice-1: none of the \
                 choices). The figures describe unconstrained answers."
            )
        );
        let warning = enforcement(State::NotEnforced, Class::Ignored)
            .warning()
            .unwrap();
        assert!(
            warning.starts_with("CONSTRAINT NOT ENFORCED: json in structured-outputs is ignored. "),
            "{warning}"
        );
    }
}
