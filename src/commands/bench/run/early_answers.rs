//! Judges the first constrained answers of a run if preflight could not prove that constraints are
//! enforced: a model that does not answer the prompts of preflight may well answer those of the run.

use super::duration;
use sobench_core::answer::Channel;
use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::departure::Departures;
use sobench_core::observation::Observation;
use sobench_core::printable::{NAME_CHARS, printable};
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::{Evaluator, JudgeSettings, judge};
use sobench_notices::breach::BreachCause;
use sobench_notices::enforcement::{EarlyBreach, Enforcement, State, UnenforcedPolicy};

/// Answers to judge. A server that drops constraints breaks most of them.
const MAX_ANSWERS: usize = 8;

/// Fewer answers show nothing: single answers of an enforcing server may be invalid.
const MIN_ANSWERS: usize = 3;

/// The first constrained answers of a run.
pub(super) struct EarlyAnswers<'a> {
    cases: &'a [Case],
    /// The part of an answer that has the constrained text.
    expected: Option<Channel>,
    evaluator: Evaluator,
    policy: UnenforcedPolicy,
    answers: usize,
    broken: usize,
    /// Id and reason of the first answer that breaks its constraint.
    first: Option<(String, String)>,
    has_stopped: bool,
}

impl<'a> EarlyAnswers<'a> {
    /// `None` if preflight was not made or has a result.
    pub(super) fn new(
        enforcement: &Enforcement,
        policy: Option<UnenforcedPolicy>,
        cases: &'a [Case],
        expected: Option<Channel>,
        options: JudgeSettings,
    ) -> Option<Self> {
        let policy = policy.filter(|_| enforcement.state == State::Unproven)?;
        Some(Self {
            cases,
            expected,
            evaluator: Evaluator::new(options),
            policy,
            answers: 0,
            broken: 0,
            first: None,
            has_stopped: false,
        })
    }

    /// Judges an answer. Returns whether the run has to stop now.
    pub(super) fn is_refused_by(&mut self, observation: &Observation) -> bool {
        if self.answers == MAX_ANSWERS {
            return false;
        }
        let Some((case, id)) = duration::asked(self.cases, observation.case_index) else {
            return false;
        };
        if !case.arm.sends_constraint() {
            return false;
        }
        let compiled = self.evaluator.compile_request(
            case.constraint.as_deref(),
            case.grammar_oracle.as_deref(),
            self.expected,
        );
        match judge(&compiled, &observation.answer, observation.into()) {
            Verdict::NotScored { .. }
            | Verdict::Invalid {
                reason: Reason::Truncated,
            } => return false,
            Verdict::Valid => {}
            // Such an answer may follow the constraint, in another channel for example.
            Verdict::Invalid { reason }
                if !cause(&reason, case.constraint.as_deref(), observation).is_of_enforcement() => {
            }
            Verdict::Invalid { reason } => {
                self.broken += 1;
                self.first.get_or_insert((id, reason.to_string()));
            }
        }
        self.answers += 1;
        self.has_stopped = self.answers == MAX_ANSWERS && self.refusal().is_some();
        self.has_stopped
    }

    /// Whether the run was stopped.
    pub(super) fn has_stopped(&self) -> bool {
        self.has_stopped
    }

    /// The answers, if most of them break their constraint.
    pub(super) fn breach(&self) -> Option<EarlyBreach> {
        let (first_request, reason) = self.first.as_ref()?;
        (self.answers >= MIN_ANSWERS && 2 * self.broken > self.answers).then(|| EarlyBreach {
            answers: self.answers,
            broken: self.broken,
            first_request: printable(first_request, NAME_CHARS),
            reason: printable(reason, NAME_CHARS),
        })
    }

    /// Why the run fails, unless `--allow-unenforced` is given.
    pub(super) fn refusal(&self) -> Option<String> {
        let breach = self.breach()?;
        (self.policy == UnenforcedPolicy::Refuse).then(|| {
            format!(
                "the server returns 200 but does not apply the constraint: {breach}; --allow-unenforced measures anyway"
            )
        })
    }
}

/// The cause of an invalid answer.
fn cause(
    reason: &Reason,
    constraint: Option<&Constraint>,
    observation: &Observation,
) -> BreachCause {
    let tools = constraint.and_then(Constraint::tools);
    let departures = Departures::of_answer(observation, tools);
    BreachCause::of_departures(&departures, reason)
        .unwrap_or_else(|| BreachCause::new(reason, constraint))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sobench_core::answer::Answer;
    use sobench_core::case::{Arm, Prompt};
    use sobench_core::constraint::Constraint;
    use sobench_core::observation::{Outcome, Timing};

    fn case(id: usize, arm: Arm) -> Case {
        let constraint = Constraint::Choice(vec!["yes".to_owned()].into());
        Case {
            arm,
            ..Case::new(
                format!("choice-{id}"),
                Prompt::Text("?".into()),
                Some(Arc::new(constraint)),
                8,
            )
        }
    }

    /// Judges answers by request index; returns the index that stops the run, and the breach.
    fn judge(
        policy: UnenforcedPolicy,
        answers: &[(Outcome, &str)],
    ) -> (Option<usize>, Option<EarlyBreach>) {
        let cases: Vec<Case> = (0..4)
            .map(|id| {
                case(
                    id,
                    if id == 3 {
                        Arm::Control
                    } else {
                        Arm::Constrained
                    },
                )
            })
            .collect();
        let unproven = Enforcement {
            state: State::Unproven,
            ..Enforcement::default()
        };
        let options = JudgeSettings::default();
        let mut early = EarlyAnswers::new(&unproven, Some(policy), &cases, None, options).unwrap();
        let mut stopped = None;
        for (case_index, (outcome, text)) in answers.iter().enumerate() {
            let observation = Observation {
                case_index,
                outcome: outcome.clone(),
                timing: Timing::default(),
                answer: Answer::from_text((*text).to_owned()),
                finish_reason: None,
                usage: None,
            };
            if early.is_refused_by(&observation) {
                stopped.get_or_insert(case_index);
            }
        }
        assert_eq!(early.has_stopped(), stopped.is_some());
        (stopped, early.breach())
    }

    #[test]
    fn mostly_broken_answers_stop_the_run_unless_allowed() {
        use UnenforcedPolicy::{Allow, Refuse};
        let broken = || vec![(Outcome::Completed, "maybe"); 20];
        let (stopped, breach) = judge(Refuse, &broken());
        // Every fourth request is a control.
        assert_eq!(stopped, Some(9));
        let breach = breach.unwrap();
        assert_eq!((breach.answers, breach.broken), (8, 8));
        assert_eq!(breach.first_request, "choice-0");
        assert_eq!(judge(Allow, &broken()), (None, Some(breach)));
    }

    #[test]
    fn valid_cut_and_failed_answers_do_not_stop_the_run() {
        use UnenforcedPolicy::Refuse;
        let valid = vec![(Outcome::Completed, "yes"); 20];
        let mut half = valid.clone();
        half[..5].fill((Outcome::Completed, "maybe"));
        for answers in [
            valid,
            half,
            vec![(Outcome::Truncated, "ye"); 20],
            vec![(Outcome::Cancelled, ""); 20],
            vec![(Outcome::Completed, "maybe"); 2],
        ] {
            assert_eq!(judge(Refuse, &answers), (None, None), "{answers:?}");
        }
        let three = vec![(Outcome::Completed, "maybe"); 3];
        let (stopped, breach) = judge(Refuse, &three);
        assert!(stopped.is_none() && breach.is_some());
    }

    #[test]
    fn only_an_unproven_run_is_checked() {
        for state in [State::NotChecked, State::Enforced, State::NotEnforced] {
            let enforcement = Enforcement {
                state,
                ..Enforcement::default()
            };
            let policy = Some(UnenforcedPolicy::Refuse);
            let options = JudgeSettings::default();
            assert!(EarlyAnswers::new(&enforcement, policy, &[], None, options).is_none());
        }
    }
}
