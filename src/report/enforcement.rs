//! What is said of a run about whether its constraints held: before it, by a preflight, and in it. Pure.

use crate::enforcement::{Class, Enforcement, Held, State};
use crate::metrics::quality::Quality;
use crate::notice::{BreachCount, FigureNotice};
use crate::printable::printable;

/// The most characters of a name that came from outside.
const NAME_CHARS: usize = 200;

impl Enforcement {
    /// What stands above everything else, where the figures are not what they seem.
    pub(crate) fn stamp(&self) -> Option<String> {
        (self.state == State::NotEnforced).then(|| {
            let lost: Vec<String> = self.findings.iter().filter(|it| it.class.is_silent_loss()).map(Held::in_words).collect();
            format!(
                "CONSTRAINT NOT ENFORCED: {}. These are figures of answers that the constraint did not make.",
                lost.join(", ")
            )
        })
    }

    /// The state in two or three words, for the line on the constraint.
    pub(crate) fn condition(&self) -> Option<&'static str> {
        match self.state {
            State::NotAsked => None,
            State::Enforced => Some("seen to be enforced before the run"),
            State::NotEnforced => Some("NOT ENFORCED"),
            State::Unproven => Some("not proved to be enforced"),
        }
    }

    /// The server's own word on its engine.
    pub(crate) fn engine(&self) -> Option<String> {
        let engine = self.server.as_ref()?.engine.as_deref()?;
        Some(format!("{} (the server says)", printable(engine, NAME_CHARS)))
    }

    /// By which request a vLLM server in `auto` has fixed its engine.
    fn fixed(&self) -> Option<FigureNotice> {
        let first = self.first_constrained.as_ref()?;
        Some(FigureNotice::EngineFixedByRun {
            request: printable(&first.case_id, NAME_CHARS),
            engine: first.engine.clone(),
            why: printable(&first.why, NAME_CHARS),
        })
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

/// What is to be said of constraints that did not hold.
pub(crate) fn remarks(enforcement: &Enforcement, quality: &Quality) -> Vec<FigureNotice> {
    let broken = quality.compliance.filter(|rate| rate.hits < rate.of).map(|rate| {
        let reasons = quality.reasons.iter().filter(|group| group.name != "truncated").map(|group| {
            let first = group.excerpts.first().map(|it| printable(&it.case_id, NAME_CHARS)).unwrap_or_default();
            BreachCount { reason: group.name.to_owned(), answers: group.count, first_request: first }
        });
        FigureNotice::BrokenConstraints {
            broken: rate.of - rate.hits,
            answers: rate.of,
            seen_enforced: enforcement.state == State::Enforced,
            reasons: reasons.collect(),
        }
    });
    let lost = quality.lost_from.as_ref().map(|lost| FigureNotice::ConstraintsLost {
        request: printable(&lost.case_id, NAME_CHARS),
        valid_before: lost.valid_before,
        invalid_after: lost.invalid_after,
    });
    let white_space = (quality.white_space_runs > 0)
        .then_some(FigureNotice::WhiteSpaceAnswers { answers: quality.white_space_runs, truncated: quality.truncated });
    enforcement.fixed().into_iter().chain(broken).chain(lost).chain(white_space).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::ConstraintDialect::StructuredOutputs;
    use crate::enforcement::{FirstConstrained, Kind};
    use crate::metrics::testing::{Made, made, with_samples};
    use crate::observation::Outcome;
    use crate::verdict::{Reason, Verdict};

    fn held(class: Class) -> Held {
        Held { kind: Kind::Json, dialect: StructuredOutputs, class, words: String::new() }
    }

    #[test]
    fn only_what_is_dropped_is_stamped() {
        let of = |state, class| Enforcement { state, findings: vec![held(class)], ..Enforcement::default() };
        for (enforcement, stamped, condition) in [
            (Enforcement::default(), false, None),
            (of(State::Enforced, Class::Enforced), false, Some("seen to be enforced before the run")),
            (of(State::Unproven, Class::Broken), false, Some("not proved to be enforced")),
            (of(State::NotEnforced, Class::Ignored), true, Some("NOT ENFORCED")),
            (of(State::NotEnforced, Class::WrongWrapper), true, Some("NOT ENFORCED")),
        ] {
            assert_eq!((enforcement.stamp().is_some(), enforcement.condition()), (stamped, condition));
        }
        let stamp = of(State::NotEnforced, Class::Ignored).stamp().unwrap();
        assert!(stamp.starts_with("CONSTRAINT NOT ENFORCED: json in structured-outputs is ignored. "), "{stamp}");
    }

    #[test]
    fn what_did_not_hold_in_the_run_is_named() {
        let said = |run: &[Made<'_>], state| {
            let enforcement = Enforcement { state, ..Enforcement::default() };
            let remarks = with_samples(run, |samples| remarks(&enforcement, &Quality::of(samples)));
            remarks.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let wrong = || Made { verdict: Verdict::Invalid { reason: Reason::Choice }, ..made() };
        assert!(said(&[made(), made()], State::Enforced).is_empty());
        let run = [made(), wrong()];
        assert_eq!(
            said(&run, State::Enforced),
            [
                "1 of 2 constrained answers that ended by themselves break their constraint, although the server was seen to enforce such \
              constraints: 1 choice (first in case-1)"
            ]
        );
        let late = |made: Made<'static>, sent| Made { sent: Some(sent), ..made };
        let run: Vec<Made<'_>> = (0..6).map(|at| late(if at < 3 { made() } else { wrong() }, at)).collect();
        let words = said(&run, State::NotAsked);
        assert_eq!(
            (words.len(), words[1].starts_with("constraints stopped holding with request case-3: all of the 3")),
            (2, true)
        );
        let text = " ".repeat(80);
        let verdict = Verdict::Invalid { reason: Reason::Truncated };
        let run = [Made { outcome: Outcome::Truncated, finish_reason: Some("length"), text: &text, verdict, ..made() }];
        let words = said(&run, State::NotAsked);
        assert!(words.len() == 1 && words[0].starts_with("white space without end: 1 of 1"), "{words:?}");
    }

    #[test]
    fn the_request_that_fixed_an_engine_is_named_with_it() {
        let first = |engine: Option<&str>| Enforcement {
            first_constrained: Some(FirstConstrained {
                case_id: "json-0".to_owned(),
                engine: engine.map(str::to_owned),
                why: "xgrammar is asked first".to_owned(),
            }),
            ..Enforcement::default()
        };
        assert!(
            first(Some("xgrammar"))
                .fixed()
                .unwrap()
                .to_string()
                .ends_with("to xgrammar, by vLLM's rule (xgrammar is asked first)")
        );
        assert!(first(None).fixed().unwrap().to_string().contains("not known"));
        assert_eq!(Enforcement::default().fixed(), None);
    }
}
