//! Compares the answers with and without a constraint, with thinking on and off.
//!
//! A text belongs to the constraint if it has one of its random words. The first of these that
//! holds is the verdict:
//!
//! 1. An end marker of thoughts is in the content.
//! 2. The content is valid: the constraint begins where the answer begins. Without thoughts, the
//!    constraint suppressed them; thoughts that belong to the constraint are constrained.
//! 3. The content is empty: the document is in the reasoning, or the thoughts used all tokens.
//! 4. The content is not valid: the constraint starts early (its text is in the thoughts) or late
//!    (other text comes before it).

use super::ReasoningVerdict;
use crate::classify::failure;
use crate::constraint_probe::ConstraintProbe;
use sobench_core::observation::{Observation, Outcome};
use sobench_judge::Evaluator;

/// Markers at the end of thoughts, by families of models.
///
/// Sources: SGLang's page "Reasoning Parser"; the reasoning parsers of vLLM 0.32.
const END_MARKERS: &[&str] = &[
    // DeepSeek, Qwen, GLM, ERNIE and most others.
    "</think>",
    "</thinking>",
    "</thought>",
    "</reasoning>",
    // Seed, Mistral, Kimi, Cohere.
    "</seed:think>",
    "[/THINK]",
    "◁/think▷",
    "<|END_THINKING|>",
    // gpt-oss (harmony) and Gemma 4.
    "<|channel|>",
    "<|message|>",
    "<channel|>",
];

/// Markers at the start of thoughts.
const START_MARKERS: &[&str] = &[
    "<think>",
    "<thinking>",
    "<thought>",
    "<reasoning>",
    "<seed:think>",
    "[THINK]",
    "◁think▷",
    "<|START_THINKING|>",
    "<|channel>",
];

/// A constrained request and its answer.
pub struct Exchange<'a> {
    pub probe: &'a ConstraintProbe,
    pub observation: &'a Observation,
}

/// Whether an answer has thoughts, also those that the server left in the content.
pub fn thinks(observation: &Observation) -> bool {
    let answer = &observation.answer;
    !answer.reasoning.trim().is_empty()
        || end_marker(&answer.content).is_some()
        || starts_thoughts(&answer.content)
}

fn end_marker(text: &str) -> Option<&'static str> {
    END_MARKERS
        .iter()
        .copied()
        .find(|marker| text.contains(marker))
}

fn starts_thoughts(text: &str) -> bool {
    START_MARKERS
        .iter()
        .any(|marker| text.trim_start().starts_with(marker))
}

/// The parts of an answer that verdicts depend on.
struct Parts<'a> {
    reasoning: &'a str,
    content: &'a str,
    is_cut: bool,
    is_valid: bool,
}

impl<'a> Parts<'a> {
    fn new(exchange: &Exchange<'a>, evaluator: &mut Evaluator) -> Self {
        let Exchange { probe, observation } = exchange;
        let content = observation.answer.content.trim();
        Self {
            reasoning: observation.answer.reasoning.trim(),
            content,
            is_cut: observation.outcome == Outcome::Truncated,
            is_valid: evaluator.compile(&probe.judged_by).accepts(content),
        }
    }
}

/// A verdict, and what the answers show.
type Judged = (ReasoningVerdict, String);

fn undecided(reason: impl Into<String>) -> Judged {
    (ReasoningVerdict::Undecided, reason.into())
}

/// The verdict with thinking on, for a model that thinks without a constraint. `word` is the word
/// of the thoughts; `is_enforced_off` states whether the constraint works without thinking.
pub fn verdict_on(
    exchange: &Exchange<'_>,
    word: &str,
    is_enforced_off: bool,
    evaluator: &mut Evaluator,
) -> Judged {
    if let Some(failed) = common(exchange, evaluator) {
        return failed;
    }
    let parts = Parts::new(exchange, evaluator);
    let probe = exchange.probe;
    if parts.is_valid {
        return match parts.reasoning {
            "" => (
                ReasoningVerdict::ThinkingSuppressed,
                "no thoughts with the constraint; the model thinks without it".to_owned(),
            ),
            reasoning if is_constrained(probe, reasoning) => (
                ReasoningVerdict::ThinkingConstrained,
                "the thoughts are text of the constraint".to_owned(),
            ),
            reasoning if probe.appears_in(reasoning) => (
                ReasoningVerdict::ConstraintMisplaced,
                "early: the thoughts have text of the constraint".to_owned(),
            ),
            _ => (ReasoningVerdict::Fine, String::new()),
        };
    }
    if parts.is_cut && (parts.reasoning.is_empty() && starts_thoughts(parts.content)) {
        return used_up();
    }
    if parts.is_cut && probe.matched_prefix_letters(parts.content).is_some() {
        return if parts.reasoning.is_empty() {
            undecided("the constrained answer is cut at the token limit")
        } else {
            used_up()
        };
    }
    if probe.appears_in(parts.reasoning) {
        return (
            ReasoningVerdict::ConstraintMisplaced,
            "early: the thoughts have text of the constraint, and the content has the rest"
                .to_owned(),
        );
    }
    if probe.appears_in(parts.content) {
        let which = if parts.content.contains(word) {
            "late: the content has the word of the thoughts before text of the constraint"
        } else {
            "late: the content has other text around that of the constraint"
        };
        return (ReasoningVerdict::ConstraintMisplaced, which.to_owned());
    }
    if is_enforced_off {
        return (
            ReasoningVerdict::ConstraintMisplaced,
            "late: the constraint does not start after the thoughts, and works without thinking"
                .to_owned(),
        );
    }
    undecided("the content shows no effect of the constraint")
}

/// The verdict with thinking off.
pub fn verdict_off(exchange: &Exchange<'_>, evaluator: &mut Evaluator) -> Judged {
    if let Some(failed) = common(exchange, evaluator) {
        return failed;
    }
    let parts = Parts::new(exchange, evaluator);
    let probe = exchange.probe;
    if parts.is_valid {
        return match parts.reasoning {
            "" => (ReasoningVerdict::Fine, String::new()),
            reasoning if probe.appears_in(reasoning) => (
                ReasoningVerdict::ThinkingConstrained,
                "thoughts although thinking is off, and they have text of the constraint"
                    .to_owned(),
            ),
            _ => (
                ReasoningVerdict::Fine,
                "the model thinks although thinking is off".to_owned(),
            ),
        };
    }
    if parts.is_cut && probe.matched_prefix_letters(parts.content).is_some() {
        return undecided("the constrained answer is cut at the token limit");
    }
    if probe.appears_in(parts.reasoning) {
        return (
            ReasoningVerdict::ConstraintMisplaced,
            "early: text of the constraint is in the reasoning, and the content has the rest"
                .to_owned(),
        );
    }
    if probe.appears_in(parts.content) {
        return (
            ReasoningVerdict::ConstraintMisplaced,
            "late: the content has other text around that of the constraint".to_owned(),
        );
    }
    undecided("the content shows no effect of the constraint")
}

fn used_up() -> Judged {
    (
        ReasoningVerdict::BudgetUsedUp,
        "cut at the token limit before the answer was complete".to_owned(),
    )
}

/// Whether a text is a document of the constraint, or the start of one.
fn is_constrained(probe: &ConstraintProbe, text: &str) -> bool {
    text.starts_with('{')
        && (probe.appears_in(text) || probe.matched_prefix_letters(text).is_some())
}

/// The verdicts that do not depend on whether thinking is on: a failed request, an end marker in
/// the content, and an empty content.
fn common(exchange: &Exchange<'_>, evaluator: &mut Evaluator) -> Option<Judged> {
    let Exchange { probe, observation } = exchange;
    if let Some(failed) = failure(observation, "") {
        return Some(undecided(super::describe(&failed)));
    }
    let parts = Parts::new(exchange, evaluator);
    if let Some(marker) = end_marker(parts.content) {
        return Some((
            ReasoningVerdict::EndMarkerInAnswer,
            format!("the content has the marker {marker}"),
        ));
    }
    if !parts.content.is_empty() {
        return None;
    }
    Some(match parts.reasoning {
        "" => undecided("an empty answer"),
        reasoning
            if probe
                .random_words
                .iter()
                .all(|word| reasoning.contains(word)) =>
        {
            (
                ReasoningVerdict::JsonInReasoning,
                "the document is in the reasoning, and the content is empty".to_owned(),
            )
        }
        reasoning if is_constrained(probe, reasoning) => (
            ReasoningVerdict::ThinkingConstrained,
            "the thoughts are the start of the document, and the content is empty".to_owned(),
        ),
        _ if parts.is_cut => used_up(),
        _ => undecided("thoughts without an answer"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint_probe::RandomWords;
    use crate::reasoning::random_probe;
    use serde_json::json;
    use sobench_core::answer::Answer;
    use sobench_core::observation::Timing;
    use sobench_judge::JudgeSettings;

    const WORD: &str = "wordofthoughts";

    fn observation(outcome: Outcome, reasoning: &str, content: &str) -> Observation {
        Observation {
            case_index: 0,
            outcome,
            timing: Timing::default(),
            answer: Answer {
                reasoning: reasoning.to_owned(),
                ..Answer::from_text(content.to_owned())
            },
            finish_reason: None,
            usage: None,
        }
    }

    /// The verdicts with thinking on and off for an answer, in which `DOC` is the document.
    fn verdicts(outcome: Outcome, reasoning: &str, content: &str) -> [ReasoningVerdict; 2] {
        let probe = random_probe(&mut RandomWords::new(1));
        let [name, value] = probe.random_words.as_slice() else {
            panic!("a name and a value")
        };
        let document = json!({name: value}).to_string();
        let start = &document[..8];
        let written = |text: &str| text.replace("DOC", &document).replace("START", start);
        let observation = observation(outcome, &written(reasoning), &written(content));
        let exchange = Exchange {
            probe: &probe,
            observation: &observation,
        };
        let mut evaluator = Evaluator::new(JudgeSettings::default());
        [
            verdict_on(&exchange, WORD, true, &mut evaluator).0,
            verdict_off(&exchange, &mut evaluator).0,
        ]
    }

    #[test]
    fn every_kind_of_answer_has_a_verdict() {
        use Outcome::{Completed, Truncated};
        use ReasoningVerdict::{
            BudgetUsedUp, ConstraintMisplaced, EndMarkerInAnswer, Fine, JsonInReasoning,
            ThinkingConstrained, ThinkingSuppressed, Undecided,
        };
        for (outcome, reasoning, content, on, off) in [
            (Completed, "I think of wordofthoughts.", "DOC", Fine, Fine),
            (Completed, "", "DOC", ThinkingSuppressed, Fine),
            (
                Completed,
                "DOC",
                "DOC",
                ThinkingConstrained,
                ThinkingConstrained,
            ),
            (Completed, "DOC", "", JsonInReasoning, JsonInReasoning),
            (Completed, "Hm. DOC", "", JsonInReasoning, JsonInReasoning),
            (
                Truncated,
                "START",
                "",
                ThinkingConstrained,
                ThinkingConstrained,
            ),
            (
                Completed,
                "Hm. DOC",
                "The sea.",
                ConstraintMisplaced,
                ConstraintMisplaced,
            ),
            (
                Completed,
                "Hm.",
                "wordofthoughts DOC",
                ConstraintMisplaced,
                ConstraintMisplaced,
            ),
            (
                Completed,
                "Hm.",
                "The sea is calm.",
                ConstraintMisplaced,
                Undecided,
            ),
            (
                Completed,
                "Hm.",
                "</think>DOC",
                EndMarkerInAnswer,
                EndMarkerInAnswer,
            ),
            (
                Completed,
                "",
                "<think>Hm.</think>DOC",
                EndMarkerInAnswer,
                EndMarkerInAnswer,
            ),
            (Truncated, "Hm, and so on", "", BudgetUsedUp, BudgetUsedUp),
            (
                Truncated,
                "",
                "<think>Hm, and so on",
                BudgetUsedUp,
                Undecided,
            ),
            (Truncated, "Hm.", "START", BudgetUsedUp, Undecided),
            (Completed, "", "", Undecided, Undecided),
            (Completed, "Hm.", "", Undecided, Undecided),
            (Outcome::Cancelled, "Hm.", "DOC", Undecided, Undecided),
        ] {
            assert_eq!(
                verdicts(outcome.clone(), reasoning, content),
                [on, off],
                "{outcome:?} {reasoning:?} {content:?}"
            );
        }
    }

    #[test]
    fn thoughts_are_found_in_both_channels() {
        for (reasoning, content, expected) in [
            ("Hm.", "The sea.", true),
            ("", "<think>Hm.</think>The sea.", true),
            ("", "Hm.</think>The sea.", true),
            ("", "<think>Hm", true),
            ("", "The sea.", false),
            (" \n", "The sea.", false),
        ] {
            let observed = observation(Outcome::Completed, reasoning, content);
            assert_eq!(thinks(&observed), expected, "{reasoning:?} {content:?}");
        }
    }
}
