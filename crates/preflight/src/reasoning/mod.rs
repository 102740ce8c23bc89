//! Preflight of the reasoning boundary: whether a constraint leaves the thinking of a model alone,
//! and begins where the answer begins.
//!
//! Four questions: thinking on and off, without and with a constraint. The prompt names a random
//! word for the thoughts; the constraint, a JSON Schema, has random words that are not in the
//! prompt. So each text shows which of the two it belongs to. [`classify`] compares the answers.

pub mod classify;

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::classify::{failure, truncate_text};
use super::constraint_probe::{ConstraintProbe, RandomWords, control_case};
use super::runner::{RETRY_FACTOR, Runner};
use super::{Class, Finding, ProbeKind, Tested};
use classify::{Exchange, thinks, verdict_off, verdict_on};
use sobench_backend::{ConstraintDialect, ThinkingSwitch};
use sobench_core::constraint::{ConstraintKind, GrammarDialect};
use sobench_core::error::Result;
use sobench_core::error_message::error_message;
use sobench_core::observation::{Observation, Outcome};

/// Factor of the token limit for a second request, after thoughts filled the first one.
const LONG_FACTOR: u32 = 4 * RETRY_FACTOR;

/// What a constraint does to the thinking of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningVerdict {
    Fine,
    ThinkingSuppressed,
    ThinkingConstrained,
    ConstraintMisplaced,
    JsonInReasoning,
    EndMarkerInAnswer,
    BudgetUsedUp,
    DoesNotThink,
    Undecided,
}

/// The result with thinking on or off.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ReasoningResult {
    /// Whether thinking was on.
    pub thinking: bool,
    pub verdict: ReasoningVerdict,
    /// What the answers show.
    #[serde(rename = "words")]
    pub reason: String,
    /// What to do about it.
    pub advice: &'static str,
}

/// One of the four questions, and its answer.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ReasoningAnswer {
    pub thinking: bool,
    pub constrained: bool,
    /// Whether it was sent a second time, with a higher token limit.
    pub asked_again: bool,
    /// Whether it was cut at the token limit.
    pub cut: bool,
    /// `None` if the request failed.
    pub reasoning: Option<String>,
    /// `None` if the request failed.
    pub content: Option<String>,
    /// Why there is no answer.
    pub failure: Option<Finding>,
}

/// The results for the reasoning boundary.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ReasoningPreflight {
    /// The dialect of the constraint.
    #[serde(rename = "constraint_dialect")]
    pub dialect: Option<ConstraintDialect>,
    /// How thinking was turned on and off: the first way with which the model thinks, else the
    /// first one that the server accepts.
    pub switch: Option<ThinkingSwitch>,
    /// The word that the prompt names for the thoughts.
    pub word: String,
    /// In the order of the requests.
    pub answers: Vec<ReasoningAnswer>,
    /// With thinking on, then off.
    pub results: Vec<ReasoningResult>,
}

impl ReasoningVerdict {
    /// Every verdict, in the order of documentation.
    pub const ALL: [Self; 9] = [
        Self::Fine,
        Self::ThinkingSuppressed,
        Self::ThinkingConstrained,
        Self::ConstraintMisplaced,
        Self::JsonInReasoning,
        Self::EndMarkerInAnswer,
        Self::BudgetUsedUp,
        Self::DoesNotThink,
        Self::Undecided,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Fine => ("fine", "Nothing to do."),
            Self::ThinkingSuppressed => (
                "thinking suppressed by the constraint",
                "Start the server with the reasoning parser of the model, so that the constraint begins after the thoughts, or turn \
                 thinking off and expect answers without it.",
            ),
            Self::ThinkingConstrained => (
                "thinking constrained",
                "Start the server with the reasoning parser of the model and without constraints in the reasoning (vLLM: without \
                 --structured-outputs-config.enable_in_reasoning).",
            ),
            Self::ConstraintMisplaced => (
                "constraint starts early or late",
                "Use the reasoning parser that fits the model and its chat template; with speculative decoding, test without it too.",
            ),
            Self::JsonInReasoning => (
                "JSON in the reasoning channel and nothing in the content",
                "Turn thinking off together with the constraint, or use a reasoning parser that ends the thoughts where the answer \
                 begins; clients that read the content find nothing.",
            ),
            Self::EndMarkerInAnswer => (
                "end marker in the answer",
                "Use the reasoning parser that fits the model; until then, clients must remove the text up to the marker.",
            ),
            Self::BudgetUsedUp => (
                "budget used up by thinking",
                "Raise the token limit of requests (--output-len), or limit or turn off the thinking.",
            ),
            Self::DoesNotThink => (
                "this model does not think",
                "Nothing to do: there is no reasoning boundary; if the model should think, check the chat template and its variables.",
            ),
            Self::Undecided => (
                "undecided",
                "Read the reason, and test the constraint by itself with --kind json.",
            ),
        }
    }

    /// Whether constrained answers are usable and the thinking is as without a constraint.
    fn is_fine(self) -> bool {
        matches!(self, Self::Fine | Self::DoesNotThink)
    }
}

impl fmt::Display for ReasoningVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ReasoningResult {
    /// A result with the advice of its verdict.
    pub fn new(thinking: bool, verdict: ReasoningVerdict, reason: &str) -> Self {
        Self {
            thinking,
            verdict,
            reason: reason.to_owned(),
            advice: verdict.texts().1,
        }
    }

    /// What was tested, for messages.
    pub fn label(&self) -> &'static str {
        if self.thinking {
            "reasoning, thinking on"
        } else {
            "reasoning, thinking off"
        }
    }
}

impl ReasoningAnswer {
    fn new(
        thinking: bool,
        constrained: bool,
        asked_again: bool,
        answered: &std::result::Result<Observation, Finding>,
    ) -> Self {
        let (observation, failure) = match answered {
            Ok(observation) => (Some(observation), failure(observation, "")),
            Err(finding) => (None, Some(finding.clone())),
        };
        let answer = observation
            .filter(|_| failure.is_none())
            .map(|observation| &observation.answer);
        Self {
            thinking,
            constrained,
            asked_again,
            cut: observation.is_some_and(|observation| observation.outcome == Outcome::Truncated),
            reasoning: answer.map(|answer| truncate_text(&answer.reasoning)),
            content: answer.map(|answer| truncate_text(&answer.content)),
            failure,
        }
    }

    /// The question, for messages.
    pub fn label(&self) -> String {
        question_label(self.thinking, self.constrained)
    }
}

impl ReasoningPreflight {
    /// Whether both results are fine, or the model does not think.
    pub fn passed(&self) -> bool {
        self.results.iter().all(|result| result.verdict.is_fine())
    }
}

fn question_label(thinking: bool, constrained: bool) -> String {
    let with = |is_on: bool| if is_on { "on" } else { "off" };
    format!(
        "reasoning, thinking {}, constraint {}",
        with(thinking),
        with(constrained)
    )
}

/// The prompt of all questions.
fn prompt(word: &str) -> String {
    format!(
        "Think before you answer, and write the word {word} in your thoughts. Then answer with one short sentence about the weather at sea, in plain words and not as JSON."
    )
}

type Answered = std::result::Result<Observation, Finding>;

impl Runner<'_> {
    /// Asks the four questions, or only the first one if the model does not think.
    pub(super) async fn test_reasoning(
        &mut self,
        on_test: &mut impl FnMut(Tested<'_>),
    ) -> Result<ReasoningPreflight> {
        let Some(dialect) = self.options.dialects.iter().copied().find(|dialect| {
            dialect.carries(ConstraintKind::JsonSchema) && !dialect.answers_in_tool_calls()
        }) else {
            let mut found = ReasoningPreflight::default();
            let reason = "no dialect carries a JSON Schema for the content";
            found.add(true, ReasoningVerdict::Undecided, reason, on_test);
            return Ok(found);
        };
        let word = self.random_words.word();
        let mut boundary = Boundary {
            prompt: prompt(&word),
            dialect,
            switch: None,
        };
        let mut found = ReasoningPreflight {
            dialect: Some(dialect),
            word,
            ..ReasoningPreflight::default()
        };
        let Some((switch, free_on)) = self.ask_free_on(&mut boundary).await? else {
            return Ok(found);
        };
        (boundary.switch, found.switch) = (Some(switch), Some(switch));
        found
            .answers
            .push(ReasoningAnswer::new(true, false, false, &free_on));
        match &free_on {
            Ok(observation) if failure(observation, "").is_none() && thinks(observation) => {}
            Ok(observation) if failure(observation, "").is_none() => {
                found.add(
                    true,
                    ReasoningVerdict::DoesNotThink,
                    "no reasoning without a constraint either",
                    on_test,
                );
                return Ok(found);
            }
            _ => {
                let reason = found.answers[0]
                    .failure
                    .as_ref()
                    .map(describe)
                    .unwrap_or_default();
                found.add(true, ReasoningVerdict::Undecided, &reason, on_test);
                return Ok(found);
            }
        }
        let on = self.ask_constrained(&boundary, true, &mut found).await?;
        let free_off = self.ask_free(&boundary, false).await?;
        found
            .answers
            .push(ReasoningAnswer::new(false, false, false, &free_off));
        let off = self.ask_constrained(&boundary, false, &mut found).await?;
        let (off_verdict, off_reason) = match &off {
            (probe, Ok(observation)) => {
                verdict_off(&Exchange { probe, observation }, &mut self.evaluator)
            }
            (_, Err(finding)) => (ReasoningVerdict::Undecided, describe(finding)),
        };
        let is_enforced_off = matches!(off_verdict, ReasoningVerdict::Fine);
        let (on_verdict, on_reason) = match &on {
            (probe, Ok(observation)) => {
                let exchange = Exchange { probe, observation };
                verdict_on(&exchange, &found.word, is_enforced_off, &mut self.evaluator)
            }
            (_, Err(finding)) => (ReasoningVerdict::Undecided, describe(finding)),
        };
        found.add(true, on_verdict, &on_reason, on_test);
        found.add(false, off_verdict, &off_reason, on_test);
        Ok(found)
    }

    /// Asks without a constraint, with thinking turned on in each way until the model thinks. The
    /// first answer is kept if it never does.
    async fn ask_free_on(
        &mut self,
        boundary: &mut Boundary,
    ) -> Result<Option<(ThinkingSwitch, Answered)>> {
        let is_answer = |answered: &Answered| {
            answered
                .as_ref()
                .is_ok_and(|observation| failure(observation, "").is_none())
        };
        let mut kept: Option<(ThinkingSwitch, Answered)> = None;
        for switch in self.options.backend.thinking_switches() {
            boundary.switch = Some(*switch);
            let answered = self.ask_free(boundary, true).await?;
            let is_thinking = answered.as_ref().is_ok_and(thinks) && is_answer(&answered);
            if is_thinking || !kept.as_ref().is_some_and(|(_, known)| is_answer(known)) {
                kept = Some((*switch, answered));
            }
            if is_thinking {
                break;
            }
        }
        Ok(kept)
    }

    async fn ask_free(&mut self, boundary: &Boundary, thinking: bool) -> Result<Answered> {
        let output_len = self.options.output_len.saturating_mul(RETRY_FACTOR);
        let mut request = self.control_request(boundary.dialect);
        boundary.add_switch(&mut request.extra_body, thinking);
        self.ask(
            &question_label(thinking, false),
            &control_case(&boundary.prompt, output_len),
            &request,
        )
        .await
    }

    /// Sends the constrained question, again with more tokens if the answer is cut. Adds the last
    /// answer to the results.
    async fn ask_constrained(
        &mut self,
        boundary: &Boundary,
        thinking: bool,
        found: &mut ReasoningPreflight,
    ) -> Result<(ConstraintProbe, Answered)> {
        let mut asked_again = false;
        loop {
            let factor = if asked_again {
                LONG_FACTOR
            } else {
                RETRY_FACTOR
            };
            let output_len = self.options.output_len.saturating_mul(factor);
            let probe = random_probe(&mut self.random_words);
            let mut request = self.plain_request(boundary.dialect);
            boundary.add_switch(&mut request.extra_body, thinking);
            let answered = self
                .ask(
                    &question_label(thinking, true),
                    &probe.case(&boundary.prompt, output_len),
                    &request,
                )
                .await?;
            let is_cut = answered
                .as_ref()
                .is_ok_and(|observation| observation.outcome == Outcome::Truncated);
            if is_cut && !asked_again {
                asked_again = true;
                continue;
            }
            let answer = ReasoningAnswer::new(thinking, true, asked_again, &answered);
            found.answers.push(answer);
            return Ok((probe, answered));
        }
    }
}

/// What all questions share.
struct Boundary {
    prompt: String,
    dialect: ConstraintDialect,
    switch: Option<ThinkingSwitch>,
}

impl Boundary {
    fn add_switch(
        &self,
        extra_body: &mut Option<serde_json::Map<String, serde_json::Value>>,
        is_on: bool,
    ) {
        if let Some(switch) = self.switch {
            switch.add_to(extra_body.get_or_insert_default(), is_on);
        }
    }
}

impl ReasoningPreflight {
    fn add(
        &mut self,
        thinking: bool,
        verdict: ReasoningVerdict,
        reason: &str,
        on_test: &mut impl FnMut(Tested<'_>),
    ) {
        let result = ReasoningResult::new(thinking, verdict, reason);
        on_test(Tested::Reasoning(&result));
        self.results.push(result);
    }
}

/// A schema with random words, of which none is in the prompt.
fn random_probe(words: &mut RandomWords) -> ConstraintProbe {
    // The notation matters for grammars only.
    ConstraintProbe::random(ProbeKind::Reasoning, GrammarDialect::Ebnf, words)
}

/// The class of a failed request, with its message.
fn describe(finding: &Finding) -> String {
    let status = finding
        .status
        .map(|status| format!(" ({status})"))
        .unwrap_or_default();
    let message = error_message(&finding.reason);
    match finding.class {
        Class::Unproven => message,
        class => format!("{}{status}: {message}", class.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_one_sentence_of_advice() {
        for verdict in ReasoningVerdict::ALL {
            let advice = verdict.texts().1;
            assert!(advice.ends_with('.') && !advice.contains(". "), "{verdict}");
        }
        let names: std::collections::HashSet<&str> =
            ReasoningVerdict::ALL.map(ReasoningVerdict::name).into();
        assert_eq!(names.len(), ReasoningVerdict::ALL.len());
    }

    #[test]
    fn the_words_of_the_constraint_are_not_in_the_prompt() {
        let mut words = RandomWords::new(5);
        let prompt = prompt(&words.word());
        assert!(!random_probe(&mut words).appears_in(&prompt));
    }
}
