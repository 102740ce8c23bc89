//! How good the answers are: rates with intervals, reasons with examples, and the old script's
//! formula beside ours. The rates are defined in [`super::registry::rates`].

use serde::Serialize;

use super::Sample;
use super::excerpt::Group;
use super::holding::{self, LostFrom};
use super::registry::{Metric, rates};
use sobench_core::case::Arm;
use sobench_core::observation::{Outcome, failure_words};
use sobench_core::verdict::{NotScored, Verdict};
use sobench_statistics::Rate;

/// Finish reasons by which a server says that the model ended the answer: OpenAI's, and TGI's two.
pub const ENDED_BY_ITSELF: [&str; 4] = ["stop", "eos_token", "stop_sequence", "tool_calls"];

/// What the answers were worth. Counts are over the constrained arm unless the name says otherwise.
///
/// A request that cannot be judged (our evaluator does not know the constraint, judging would have
/// passed a limit, the run was stopped first, this machine had no connection for it) is neither
/// right nor wrong: it is in [`Quality::not_scored`] and outside every rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Quality {
    /// Requests that were sent with their constraint.
    pub constrained: usize,
    /// Those that can be judged: answers with a verdict, and requests that were refused or failed,
    /// which count as not correct.
    pub judged: usize,
    pub valid: usize,
    /// Valid answers / judged requests.
    pub correct_rate: Option<Rate>,
    /// Valid answers / answers that ended by themselves and have a verdict: what is left is the
    /// engine's own fault.
    pub compliance: Option<Rate>,
    /// Requests that the server took up (an answer, or the beginning of one) / requests that came
    /// to it, and were not stopped before.
    pub coverage: Option<Rate>,
    /// Unconstrained requests: valid answers / judged requests of the control arm.
    pub control_rate: Option<Rate>,
    /// Requests in the control arm.
    pub control: usize,
    /// Answers that are the call that was asked for / constrained requests whose reference is a
    /// call, refused and failed ones among them: what validity does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub right_calls: Option<Rate>,
    /// Answers cut at the token limit.
    pub truncated: usize,
    /// Those of them that wrote nothing but white space in the end.
    pub white_space_runs: usize,
    /// Where constraints stopped to hold, if they did so for good.
    pub lost_from: Option<LostFrom>,
    /// Requests that the server refused.
    pub refused: usize,
    /// Those of them that it refused for its load or a limit on the rate: status 429, which says
    /// nothing of the constraint.
    pub overloaded: usize,
    /// Requests that failed in the server, in the stream, on the way, or by time.
    pub failed: usize,
    /// Requests that the end of the run overtook.
    pub cancelled: usize,
    /// Requests that this machine had no connection for: they say nothing of the server.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_sent: usize,
    /// Why answers are not valid, the most frequent first.
    pub reasons: Vec<Group>,
    /// Why requests have no verdict, the most frequent first.
    pub not_scored: Vec<Group>,
    /// The vLLM script's account of the same answers.
    pub vllm: VllmScore,
}

/// What `benchmark_serving_structured_output.py` would have said. It scores every request, the
/// unconstrained and the failed ones too, by a formula that looks at no schema; see `evaluate`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VllmScore {
    /// Requests that the script calls correct / requests that it scores; `None` where it scores
    /// none (grammars).
    pub correct_rate: Option<Rate>,
    /// Answers that the script calls correct and that are not valid, in every arm that has a
    /// constraint to judge by.
    pub only_script: Group,
    /// Answers that are valid and that the script calls wrong.
    pub only_ours: Group,
}

/// Whether the server took a request up: with an answer, or the beginning of one. `None` for what
/// never came to it, or was stopped before.
pub fn is_taken_up(outcome: &Outcome, has_content: bool) -> Option<bool> {
    let is_taken_up = outcome.is_answer() || has_content;
    (is_taken_up || !(outcome.is_local() || *outcome == Outcome::Cancelled)).then_some(is_taken_up)
}

/// What a verdict means for the correct rate: refused and failed requests are not correct; `None`
/// for what cannot be judged.
pub fn is_correct(verdict: &Verdict) -> Option<bool> {
    match verdict {
        Verdict::Valid => Some(true),
        Verdict::Invalid { .. }
        | Verdict::NotScored {
            why: NotScored::Refused | NotScored::Failed,
        } => Some(false),
        Verdict::NotScored { .. } => None,
    }
}

impl Quality {
    /// Judges a run; `samples` in plan order.
    pub fn of(samples: &[Sample<'_>]) -> Self {
        let constrained: Vec<&Sample<'_>> = samples
            .iter()
            .filter(|it| it.arm() == Arm::Constrained)
            .collect();
        let rate = |metric: &Metric| metric.rate(samples);
        let hits = |metric: &Metric| rate(metric).map_or(0, |rate| rate.hits);
        let correct = rate(&rates::CORRECT_RATE);
        let ended: Vec<&Sample<'_>> = constrained
            .iter()
            .filter(|sample| complied(sample).is_some())
            .copied()
            .collect();
        Self {
            constrained: constrained.len(),
            judged: correct.map_or(0, |rate| rate.of),
            valid: correct.map_or(0, |rate| rate.hits),
            correct_rate: correct,
            compliance: rate(&rates::COMPLIANCE),
            coverage: rate(&rates::COVERAGE),
            control_rate: rate(&rates::CONTROL_RATE),
            control: samples
                .iter()
                .filter(|sample| sample.arm() == Arm::Control)
                .count(),
            right_calls: rate(&rates::RIGHT_CALLS),
            truncated: hits(&rates::TRUNCATED_RATE),
            white_space_runs: hits(&rates::WHITE_SPACE_RATE),
            lost_from: holding::lost_from(&ended),
            refused: hits(&rates::REFUSED_RATE),
            overloaded: hits(&rates::OVERLOADED_RATE),
            failed: hits(&rates::FAILED_RATE),
            cancelled: hits(&rates::CANCELLED_RATE),
            not_sent: hits(&rates::NOT_SENT_RATE),
            reasons: Group::by(constrained.iter().copied(), reason),
            not_scored: Group::by(constrained.iter().copied(), why_not_scored),
            vllm: VllmScore::of(samples),
        }
    }

    /// Constrained requests with an answer that has no verdict: they are in no rate of verdicts.
    pub fn unjudged(&self) -> usize {
        let unjudged = ["no_constraint", "unsupported", "limit"];
        self.not_scored
            .iter()
            .filter(|group| unjudged.contains(&group.name))
            .map(|group| group.count)
            .sum()
    }
}

/// Whether an answer has no verdict.
pub fn is_unjudged(verdict: &Verdict) -> bool {
    let Verdict::NotScored { why } = verdict else {
        return false;
    };
    matches!(
        why,
        NotScored::NoConstraint | NotScored::Unsupported { .. } | NotScored::Limit { .. }
    )
}

pub(super) fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl VllmScore {
    fn of(samples: &[Sample<'_>]) -> Self {
        let mut score = Self {
            correct_rate: rates::VLLM_CORRECT_RATE.rate(samples),
            only_script: Group::empty("only_script"),
            only_ours: Group::empty("only_ours"),
        };
        for sample in samples {
            let Some(script) = sample.vllm_correct() else {
                continue;
            };
            if !sample.outcome().is_answer() {
                continue;
            }
            match sample.verdict() {
                Verdict::Invalid { reason } if script => {
                    score.only_script.add(sample, &reason.to_string())
                }
                Verdict::Valid if !script => score.only_ours.add(sample, "valid by its constraint"),
                Verdict::Valid | Verdict::Invalid { .. } | Verdict::NotScored { .. } => {}
            }
        }
        score
    }
}

/// Whether an answer that ended by itself and has a verdict is valid; `None` for any other request.
pub fn complied(sample: &Sample<'_>) -> Option<bool> {
    let ended = sample
        .finish_reason()
        .is_some_and(|reason| ENDED_BY_ITSELF.contains(&reason));
    let verdict =
        Some(sample.verdict()).filter(|_| ended && *sample.outcome() == Outcome::Completed)?;
    (!matches!(verdict, Verdict::NotScored { .. })).then_some(*verdict == Verdict::Valid)
}

/// Whether a request failed in the server, in the stream, on the way, or by time.
pub fn is_failure(outcome: &Outcome) -> bool {
    use Outcome::{ServerError, StreamError, TimedOut, Transport};
    matches!(
        outcome,
        ServerError { .. } | StreamError { .. } | TimedOut { .. } | Transport { .. }
    ) && !outcome.is_local()
}

fn reason(sample: &Sample<'_>) -> Option<(&'static str, String)> {
    let Verdict::Invalid { reason } = sample.verdict() else {
        return None;
    };
    Some((reason.name(), reason.to_string()))
}

fn why_not_scored(sample: &Sample<'_>) -> Option<(&'static str, String)> {
    let Verdict::NotScored { why } = sample.verdict() else {
        return None;
    };
    let words = if is_unjudged(sample.verdict()) {
        why.to_string()
    } else {
        failure_words(sample.outcome())
    };
    Some((why.name(), words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{Made, made, with_samples};
    use sobench_core::observation::TransportCause;
    use sobench_core::verdict::Reason;

    fn judged(run: &[Made<'_>]) -> Quality {
        with_samples(run, Quality::of)
    }

    fn invalid(reason: Reason) -> Verdict {
        Verdict::Invalid { reason }
    }

    fn not_scored_as(why: NotScored) -> Verdict {
        Verdict::NotScored { why }
    }

    fn counts(rate: Option<Rate>) -> Option<(usize, usize)> {
        rate.map(|rate| (rate.hits, rate.of))
    }

    /// Every way for a constrained request to end, once.
    fn every_end() -> Vec<Made<'static>> {
        let refused = Outcome::Rejected {
            status: 400,
            body: "no".into(),
            advice: None,
        };
        let error = Outcome::ServerError {
            status: 500,
            body: "oops".into(),
            advice: None,
        };
        let none = |outcome: Outcome, why: NotScored| Made {
            outcome,
            verdict: not_scored_as(why),
            chunks: vec![],
            text: "",
            finish_reason: None,
            vllm_correct: Some(false),
            ..made()
        };
        vec![
            made(),
            Made {
                verdict: invalid(Reason::Choice),
                ..made()
            },
            Made {
                verdict: invalid(Reason::Truncated),
                outcome: Outcome::Truncated,
                finish_reason: Some("length"),
                ..made()
            },
            Made {
                verdict: invalid(Reason::Choice),
                finish_reason: Some("content_filter"),
                vllm_correct: Some(false),
                ..made()
            },
            Made {
                verdict: not_scored_as(NotScored::Unsupported {
                    what: "structural_tag".into(),
                }),
                ..made()
            },
            none(refused, NotScored::Refused),
            none(error, NotScored::Failed),
            Made {
                chunks: vec![4],
                ..none(
                    Outcome::TimedOut {
                        limit_ms: 5,
                        limit: Default::default(),
                        stage: None,
                    },
                    NotScored::Failed,
                )
            },
            none(Outcome::Cancelled, NotScored::Cancelled),
            none(
                Outcome::Transport {
                    cause: TransportCause::Local,
                    message: "no files".into(),
                },
                NotScored::NotSent,
            ),
        ]
    }

    #[test]
    fn every_end_has_its_place() {
        let quality = judged(&every_end());
        assert_eq!(
            (quality.constrained, quality.judged, quality.valid),
            (10, 7, 1)
        );
        assert_eq!(
            counts(quality.correct_rate),
            Some((1, 7)),
            "refused and failed count as not correct, unjudged and unsent not at all"
        );
        assert_eq!(
            counts(quality.compliance),
            Some((1, 2)),
            "only answers that ended by themselves"
        );
        assert_eq!(
            counts(quality.coverage),
            Some((6, 8)),
            "an answer or the beginning of one; not what was stopped before or never came there"
        );
        assert_eq!(
            (
                quality.truncated,
                quality.refused,
                quality.failed,
                quality.cancelled
            ),
            (1, 1, 2, 1)
        );
        assert_eq!((quality.not_sent, quality.unjudged()), (1, 1));
        assert_eq!(quality.control_rate, None);
        let reasons: Vec<_> = quality
            .reasons
            .iter()
            .map(|it| (it.name, it.count))
            .collect();
        assert_eq!(reasons, [("choice", 2), ("truncated", 1)]);
        assert_eq!(quality.reasons[0].excerpts[0].words, "none of the choices");
        let not_scored: Vec<_> = quality
            .not_scored
            .iter()
            .map(|it| (it.name, it.count, it.excerpts[0].words.as_str()))
            .collect();
        assert_eq!(
            not_scored,
            [
                ("failed", 2, "HTTP 500: oops"),
                ("cancelled", 1, "the run was stopped first"),
                ("not_sent", 1, "no connection from here: no files"),
                ("refused", 1, "HTTP 400: no"),
                ("unsupported", 1, "structural_tag"),
            ]
        );
    }

    #[test]
    fn a_refusal_for_load_is_told_apart() {
        let refused = |status| Made {
            outcome: Outcome::Rejected {
                status,
                body: "no".into(),
                advice: None,
            },
            verdict: not_scored_as(NotScored::Refused),
            ..made()
        };
        let quality = judged(&[refused(400), refused(429), made(), refused(429)]);
        assert_eq!((quality.refused, quality.overloaded), (3, 2));
    }

    #[test]
    fn the_scripts_formula_is_over_every_request() {
        let mut run = every_end();
        run.push(Made {
            arm: Arm::Control,
            verdict: Verdict::Valid,
            vllm_correct: Some(false),
            ..made()
        });
        run.push(Made {
            arm: Arm::Free,
            verdict: not_scored_as(NotScored::NoConstraint),
            vllm_correct: Some(true),
            ..made()
        });
        let vllm = judged(&run).vllm;
        assert_eq!(counts(vllm.correct_rate), Some((5, 12)));
        assert_eq!((vllm.only_script.count, vllm.only_ours.count), (2, 1));
        assert_eq!(vllm.only_script.excerpts[1].words, "cut at the token limit");
        assert_eq!(vllm.only_ours.excerpts[0].case_id, "case-10");
    }

    #[test]
    fn the_control_arm_says_what_the_constraint_is_worth() {
        let control = |verdict| Made {
            arm: Arm::Control,
            verdict,
            ..made()
        };
        let run = [
            made(),
            control(Verdict::Valid),
            control(invalid(Reason::Empty)),
            control(not_scored_as(NotScored::Cancelled)),
        ];
        let quality = judged(&run);
        assert_eq!(
            (counts(quality.correct_rate), counts(quality.control_rate)),
            (Some((1, 1)), Some((1, 2)))
        );
        assert_eq!((quality.constrained, quality.control), (1, 3));
        assert!(
            quality.reasons.is_empty(),
            "reasons are of the constrained arm"
        );
    }

    #[test]
    fn no_data_is_not_zero_per_cent() {
        let grammar = Made {
            vllm_correct: None,
            finish_reason: None,
            ..made()
        };
        let quality = judged(&[grammar]);
        assert_eq!(
            (quality.vllm.correct_rate, quality.compliance),
            (None, None)
        );
        let truncated = Made {
            outcome: Outcome::Truncated,
            verdict: invalid(Reason::Truncated),
            ..made()
        };
        let quality = judged(&[truncated]);
        assert_eq!(
            (counts(quality.correct_rate), quality.compliance),
            (Some((0, 1)), None)
        );
        let quality = judged(&[]);
        assert_eq!(
            (
                quality.correct_rate,
                quality.coverage,
                quality.vllm.correct_rate
            ),
            (None, None, None)
        );
    }
}
