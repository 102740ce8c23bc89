//! Decides what the answers to one schema prove.
//!
//! In order of precedence: one answer that breaks the schema; failures, since a server that crashes
//! on a schema does not enforce it; refusals; complete answers, all valid. A truncated answer
//! proves nothing unless it already breaks the schema. Valid answers prove enforcement only if every
//! violating text was requested, and the controls show that the model yields (`temptation.rs`).

use std::collections::HashSet;

use super::data::Feature;
use super::temptation::{is_convincing, requested, yields};
use super::{FeatureResult, FeatureVerdict, InvalidAnswer};
use crate::classify::{BUSY, RUNAWAY_CHARS, truncate_text};
use sobench_core::observation::{Observation, Outcome};
use sobench_core::verdict::{Reason, Verdict};
use sobench_judge::Compiled;

/// Judges the samples of a feature, given with their indices, and its controls.
pub fn judge(
    feature: &Feature,
    constraint: &Compiled,
    seen: &[(usize, Observation)],
    controls: &[(usize, Observation)],
) -> FeatureResult {
    let mut tally = Tally::default();
    for (_, control) in controls {
        if control.outcome.is_answer() {
            tally.controls += 1;
            let is_yielding = yields(feature, constraint, &control.answer.text());
            tally.yielded += usize::from(is_yielding);
        }
    }
    for (sample, observation) in seen {
        match &observation.outcome {
            outcome @ (Outcome::Completed | Outcome::Truncated) => {
                let answer = &observation.answer;
                let verdict = sobench_judge::judge(constraint, answer, observation.into());
                let text = &*answer.text();
                if *outcome == Outcome::Completed {
                    tally.answered.extend(requested(feature, *sample));
                    tally.add_complete(feature, *sample, text, verdict);
                } else {
                    tally.add_cut(*sample, text, verdict);
                }
            }
            other => tally.add_failure(other),
        }
    }
    tally.found(feature, seen.len())
}

/// The result of a feature that was not tested.
pub fn not_tested(feature: &Feature, words: &str) -> FeatureResult {
    let mut found = Tally::default().found(feature, 0);
    (found.verdict, found.words) = (FeatureVerdict::NotAsked, words.to_owned());
    found
}

#[derive(Default)]
struct Tally<'a> {
    /// The violating texts whose requests have a complete answer.
    answered: HashSet<&'a str>,
    controls: usize,
    yielded: usize,
    complete: usize,
    valid: usize,
    invalid: usize,
    duplicates: usize,
    cut: usize,
    /// Of those, answers that end in white space.
    runaway: usize,
    refused: usize,
    crashed: usize,
    timed_out: usize,
    offending: Option<InvalidAnswer>,
    status: Option<u16>,
    words: Option<String>,
}

impl Tally<'_> {
    fn add_complete(&mut self, feature: &Feature, sample: usize, text: &str, verdict: Verdict) {
        match verdict {
            Verdict::Valid => {
                self.complete += 1;
                self.valid += 1;
            }
            Verdict::Invalid {
                reason: Reason::DuplicateKey { .. },
            } if !feature.is_about_duplicates() => {
                self.duplicates += 1;
            }
            Verdict::Invalid { reason } => {
                self.complete += 1;
                self.add_invalid_answer(sample, text, reason.to_string(), false);
            }
            Verdict::NotScored { .. } if feature.valid.is_empty() => {
                self.complete += 1;
                let reason = "no text satisfies this schema; the server should refuse it";
                self.add_invalid_answer(sample, text, reason.to_owned(), false);
            }
            Verdict::NotScored { why } => {
                self.words
                    .get_or_insert(format!("sobench cannot judge an answer: {why}"));
            }
        }
    }

    fn add_cut(&mut self, sample: usize, text: &str, verdict: Verdict) {
        self.cut += 1;
        self.runaway += usize::from(text.len() - text.trim_end().len() >= RUNAWAY_CHARS);
        if let Some(reason) = verdict
            .into_reason()
            .filter(|reason| *reason != Reason::Truncated)
        {
            self.add_invalid_answer(sample, text, reason.to_string(), true);
        }
    }

    fn add_invalid_answer(&mut self, sample: usize, text: &str, reason: String, cut: bool) {
        self.invalid += 1;
        self.offending.get_or_insert(InvalidAnswer {
            text: truncate_text(text),
            reason,
            cut,
            sample,
        });
    }

    fn add_failure(&mut self, outcome: &Outcome) {
        let (status, words) = match outcome {
            Outcome::Rejected { status, body, .. } | Outcome::ServerError { status, body, .. } => {
                (Some(*status), body.clone())
            }
            Outcome::StreamError { message } | Outcome::Transport { message, .. } => {
                (None, message.clone())
            }
            Outcome::TimedOut { limit_ms, .. } => {
                (None, format!("no complete answer within {limit_ms} ms"))
            }
            Outcome::Unsupported { .. }
            | Outcome::Refused { .. }
            | Outcome::Cancelled
            | Outcome::Abandoned
            | Outcome::Completed
            | Outcome::Truncated => return,
        };
        match outcome {
            Outcome::Rejected { status, .. } if !BUSY.contains(status) => self.refused += 1,
            Outcome::TimedOut { .. } | Outcome::Rejected { .. } => self.timed_out += 1,
            _ => self.crashed += 1,
        }
        if self.words.is_none() {
            self.words = Some(truncate_text(words.trim()));
            self.status = status;
        }
    }

    fn found(self, feature: &Feature, asked: usize) -> FeatureResult {
        let unanswered = feature.violating.len() - self.answered.len();
        let verdict = match () {
            () if self.invalid > 0 => FeatureVerdict::UnderEnforced,
            () if self.crashed > 0 => FeatureVerdict::Crashed,
            () if self.refused > 0 => FeatureVerdict::Rejected,
            () if unanswered == 0 && is_convincing(self.yielded, self.controls, self.complete) => {
                FeatureVerdict::Enforced
            }
            () if self.complete > 0 => FeatureVerdict::NoViolationSeen,
            () => FeatureVerdict::Undecided,
        };
        let undecided = || {
            let runaway = format!(" ({} in white space that does not end)", self.runaway);
            let runaway = if self.runaway > 0 { &*runaway } else { "" };
            format!(
                "{} of {asked} cut at the token limit{runaway}, {} timed out",
                self.cut, self.timed_out
            )
        };
        let words = match self.words {
            Some(words) => words,
            None if verdict == FeatureVerdict::Undecided => undecided(),
            None if verdict == FeatureVerdict::NoViolationSeen && unanswered > 0 => format!(
                "{unanswered} of {} violating texts have no complete answer; raise --samples or --output-len",
                feature.violating.len()
            ),
            None => String::new(),
        };
        FeatureResult {
            first_ttft_ms: None,
            id: feature.id.clone(),
            keyword: feature.keyword.clone(),
            verdict,
            controls: self.controls,
            yielded: self.yielded,
            asked,
            complete: self.complete,
            valid: self.valid,
            invalid: self.invalid,
            duplicate_members: self.duplicates,
            offending: self.offending,
            status: self.status,
            words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::features::data::shipped;
    use sobench_core::answer::Answer;
    use sobench_core::observation::{Timing, TransportCause};
    use sobench_judge::{Evaluator, JudgeSettings};

    fn observation(outcome: Outcome, text: &str) -> Observation {
        Observation {
            case_index: 0,
            outcome,
            timing: Timing::default(),
            answer: Answer::from_text(text.to_owned()),
            finish_reason: None,
            usage: None,
        }
    }

    fn found(id: &str, outcomes: Vec<(Outcome, &str)>) -> FeatureResult {
        found_with_controls(id, outcomes, &[true; 4])
    }

    /// The result with controls that yield or answer with prose.
    fn found_with_controls(
        id: &str,
        outcomes: Vec<(Outcome, &str)>,
        yields: &[bool],
    ) -> FeatureResult {
        let feature = shipped()
            .into_iter()
            .find(|feature| feature.id == id)
            .unwrap();
        let seen: Vec<(usize, Observation)> = outcomes
            .into_iter()
            .map(|(outcome, text)| observation(outcome, text))
            .enumerate()
            .collect();
        let controls: Vec<(usize, Observation)> = yields
            .iter()
            .map(|yields| {
                let text = if *yields {
                    &*feature.violating[0]
                } else {
                    "No."
                };
                observation(Outcome::Completed, text)
            })
            .enumerate()
            .collect();
        judge(
            &feature,
            &Evaluator::new(JudgeSettings::default()).compile(&feature.constraint()),
            &seen,
            &controls,
        )
    }

    #[test]
    fn one_invalid_answer_decides() {
        use Outcome::{Completed, Truncated};
        let right = || (Completed, r#"{"v": "abcd"}"#);
        let wrong = || (Completed, r#"{"v": "abcdefgh"}"#);
        let refused = || {
            (
                Outcome::Rejected {
                    status: 400,
                    body: "no".to_owned(),
                    advice: None,
                },
                "",
            )
        };
        let crashed = || {
            (
                Outcome::ServerError {
                    status: 500,
                    body: "oh".to_owned(),
                    advice: None,
                },
                "",
            )
        };
        let lost = || {
            (
                Outcome::Transport {
                    cause: TransportCause::Reset,
                    message: "reset".to_owned(),
                },
                "",
            )
        };
        let late = || {
            (
                Outcome::TimedOut {
                    limit_ms: 60_000,
                    limit: Default::default(),
                    stage: None,
                },
                "",
            )
        };
        let busy = || {
            (
                Outcome::Rejected {
                    status: 429,
                    body: "later".to_owned(),
                    advice: None,
                },
                "",
            )
        };
        let open = || (Truncated, r#"{"v": "ab"#);
        let blank = || (Truncated, "{                        ");
        let answers = |count| vec![right(); count];
        for (outcomes, verdict, words) in [
            (answers(8), FeatureVerdict::Enforced, ""),
            (
                answers(2),
                FeatureVerdict::NoViolationSeen,
                "4 of 6 violating texts have no complete answer; raise --samples or --output-len",
            ),
            (
                [answers(6), vec![open()]].concat(),
                FeatureVerdict::NoViolationSeen,
                "1 of 6 violating texts have no complete answer; raise --samples or --output-len",
            ),
            (
                vec![crashed(), right(), wrong()],
                FeatureVerdict::UnderEnforced,
                "oh",
            ),
            (vec![refused()], FeatureVerdict::Rejected, "no"),
            (
                vec![right(), crashed(), refused()],
                FeatureVerdict::Crashed,
                "oh",
            ),
            (vec![lost()], FeatureVerdict::Crashed, "reset"),
            (
                vec![open(), blank()],
                FeatureVerdict::Undecided,
                "2 of 2 cut at the token limit (1 in white space that does not end), 0 timed out",
            ),
            (
                vec![open(), open()],
                FeatureVerdict::Undecided,
                "2 of 2 cut at the token limit, 0 timed out",
            ),
            (
                vec![late()],
                FeatureVerdict::Undecided,
                "no complete answer within 60000 ms",
            ),
            (vec![busy()], FeatureVerdict::Undecided, "later"),
            (
                vec![],
                FeatureVerdict::Undecided,
                "0 of 0 cut at the token limit, 0 timed out",
            ),
        ] {
            let found = found("maxLength", outcomes);
            assert_eq!(
                (found.verdict, found.words.as_str()),
                (verdict, words),
                "{found:?}"
            );
        }
        let found = found("maxLength", vec![right(), wrong(), open(), wrong()]);
        assert_eq!(
            (found.asked, found.complete, found.valid, found.invalid),
            (4, 3, 1, 2)
        );
        let offending = found.offending.unwrap();
        assert_eq!(
            (offending.sample, offending.cut, offending.text.as_str()),
            (1, false, r#"{"v": "abcdefgh"}"#)
        );
        assert_eq!(
            offending.reason,
            "breaks `maxLength` at /v: \"abcdefgh\" is longer than 4 characters"
        );
    }

    #[test]
    fn valid_answers_of_a_model_that_does_not_yield_prove_nothing() {
        let right = || vec![(Outcome::Completed, r#"{"v": "abcd"}"#); 16];
        for (yields, verdict) in [
            (&[true, true, false, true][..], FeatureVerdict::Enforced),
            (&[false; 4], FeatureVerdict::NoViolationSeen),
            (&[], FeatureVerdict::NoViolationSeen),
        ] {
            let found = found_with_controls("maxLength", right(), yields);
            assert_eq!(found.verdict, verdict, "{yields:?}");
            assert_eq!(found.controls, yields.len());
            assert_eq!(
                found.yielded,
                yields.iter().filter(|yields| **yields).count()
            );
        }
        let wrong = vec![(Outcome::Completed, r#"{"v": "abcdefgh"}"#)];
        let found = found_with_controls("maxLength", wrong, &[false; 4]);
        assert_eq!(found.verdict, FeatureVerdict::UnderEnforced);
    }

    #[test]
    fn an_answer_to_a_schema_that_nothing_satisfies_is_a_violation() {
        for id in ["ref-missing", "minimum-above-maximum"] {
            let accepted = found(id, vec![(Outcome::Completed, r#"{"v": 7}"#)]);
            assert_eq!(accepted.verdict, FeatureVerdict::UnderEnforced, "{id}");
        }
    }

    #[test]
    fn a_truncated_answer_counts_if_it_already_breaks_the_schema() {
        let found = found(
            "maxLength",
            vec![(Outcome::Truncated, "{\"v\": \"abcdefgh\"  \n\n\n")],
        );
        assert_eq!(
            (found.verdict, found.complete, found.invalid),
            (FeatureVerdict::UnderEnforced, 0, 1)
        );
        assert!(found.offending.unwrap().cut);
    }

    #[test]
    fn duplicate_names_do_not_count_for_other_keywords() {
        let twice = || {
            vec![
                (Outcome::Completed, r#"{"a": 1, "b": 2, "b": 3}"#),
                (Outcome::Completed, r#"{"a": 1, "b": 2}"#),
                (Outcome::Completed, r#"{"a": 1, "b": 2}"#),
            ]
        };
        let of_members = found("minProperties", twice());
        assert_eq!(
            (of_members.verdict, of_members.duplicate_members),
            (FeatureVerdict::Enforced, 1)
        );
        assert_eq!((of_members.complete, of_members.valid), (2, 2));
        let of_names = found("duplicate-members", twice());
        assert_eq!(
            (of_names.verdict, of_names.duplicate_members),
            (FeatureVerdict::UnderEnforced, 0)
        );
    }
}
