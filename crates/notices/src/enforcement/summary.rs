//! Text about constraint enforcement for reports.

use sobench_core::printable::{NAME_CHARS, printable};

use super::{Class, Enforcement, KindResult, State};

impl Enforcement {
    /// A warning to show above all figures, if a constraint was not enforced.
    pub fn warning(&self) -> Option<String> {
        (self.state == State::NotEnforced).then(|| {
            let lost: Vec<String> = self
                .findings
                .iter()
                .filter(|finding| finding.class.is_silent_loss())
                .map(KindResult::description)
                .collect();
            format!(
                "CONSTRAINT NOT ENFORCED: {}. The figures describe unconstrained answers.",
                lost.join(", ")
            )
        })
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
        format!(
            "{} in {} is {}",
            self.kind,
            self.dialect.name(),
            match self.class {
                Class::WrongWrapper => "used as its own envelope",
                _ => "ignored",
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforcement::Kind;
    use sobench_backend::ConstraintDialect::StructuredOutputs;

    fn held(class: Class) -> KindResult {
        KindResult {
            kind: Kind::Json,
            dialect: StructuredOutputs,
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
        let warning = enforcement(State::NotEnforced, Class::Ignored)
            .warning()
            .unwrap();
        assert!(
            warning.starts_with("CONSTRAINT NOT ENFORCED: json in structured-outputs is ignored. "),
            "{warning}"
        );
    }
}
