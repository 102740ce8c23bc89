//! What is said of whether constraints held before a run.

use sobench_core::printable::{NAME_CHARS, printable};

use super::{Class, Enforcement, Held, State};

impl Enforcement {
    /// What stands above everything else, where the figures are not what they seem.
    pub fn stamp(&self) -> Option<String> {
        (self.state == State::NotEnforced).then(|| {
            let lost: Vec<String> = self.findings.iter().filter(|it| it.class.is_silent_loss()).map(Held::in_words).collect();
            format!(
                "CONSTRAINT NOT ENFORCED: {}. These are figures of answers that the constraint did not make.",
                lost.join(", ")
            )
        })
    }

    /// The state in two or three words, for the line on the constraint.
    pub fn condition(&self) -> Option<&'static str> {
        match self.state {
            State::NotAsked => None,
            State::Enforced => Some("seen to be enforced before the run"),
            State::NotEnforced => Some("NOT ENFORCED"),
            State::Unproven => Some("not proved to be enforced"),
        }
    }

    /// The server's own word on its engine.
    pub fn engine(&self) -> Option<String> {
        let engine = self.server.as_ref()?.engine.as_deref()?;
        Some(format!(
            "{} (the server says)",
            printable(engine, NAME_CHARS)
        ))
    }
}

impl Held {
    fn in_words(&self) -> String {
        format!(
            "{} in {} is {}",
            self.kind,
            self.dialect.name(),
            match self.class {
                Class::WrongWrapper => "taken for its own envelope",
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

    fn held(class: Class) -> Held {
        Held {
            kind: Kind::Json,
            dialect: StructuredOutputs,
            class,
            words: String::new(),
        }
    }

    #[test]
    fn only_what_is_dropped_is_stamped() {
        let of = |state, class| Enforcement {
            state,
            findings: vec![held(class)],
            ..Enforcement::default()
        };
        for (enforcement, stamped, condition) in [
            (Enforcement::default(), false, None),
            (
                of(State::Enforced, Class::Enforced),
                false,
                Some("seen to be enforced before the run"),
            ),
            (
                of(State::Unproven, Class::Broken),
                false,
                Some("not proved to be enforced"),
            ),
            (
                of(State::NotEnforced, Class::Ignored),
                true,
                Some("NOT ENFORCED"),
            ),
            (
                of(State::NotEnforced, Class::WrongWrapper),
                true,
                Some("NOT ENFORCED"),
            ),
        ] {
            assert_eq!(
                (enforcement.stamp().is_some(), enforcement.condition()),
                (stamped, condition)
            );
        }
        let stamp = of(State::NotEnforced, Class::Ignored).stamp().unwrap();
        assert!(
            stamp.starts_with("CONSTRAINT NOT ENFORCED: json in structured-outputs is ignored. "),
            "{stamp}"
        );
    }
}
