//! Records of `outputs`, as written by sobench and vLLM's script, without the texts of answers.

use serde::Deserialize;
use serde_json::Value;

use super::raw::Outputs;
use crate::metrics::judgement::compliance;
use sobench_core::case::Arm;
use sobench_core::observation::Outcome;
use sobench_core::verdict::{NotScored, Reason, Verdict};
use sobench_facts::compact_ids::CompactId;
use sobench_judge::accuracy::Grade;

/// Missing numbers.
const NO_VERDICT: u32 = u32::MAX;
const NO_TOKENS: u64 = u64::MAX;

/// A record in a file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Output {
    correctness: Option<bool>,
    vllm_correctness: Option<bool>,
    case: Option<String>,
    arm: Option<Arm>,
    outcome: Option<Value>,
    verdict: Option<Value>,
    finish_reason: Option<String>,
    accuracy: Option<Grade>,
    tokens: Tokens,
}

/// Token counts of a record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    input: Option<u64>,
    output: Option<u64>,
}

/// A record in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct SavedOutput {
    input_tokens: u64,
    output_tokens: u64,
    id: CompactId,
    verdict: u32,
    pub(super) arm: Option<Arm>,
    pub(super) accuracy: Option<Grade>,
    pub(super) correctness: Option<bool>,
    pub(super) vllm_correctness: Option<bool>,
    /// Whether an answer that ended normally is valid.
    pub(super) complied: Option<bool>,
    pub(super) answered: bool,
    pub(super) is_abandoned: bool,
    /// Whether the request reached the server and was not cancelled before.
    pub(super) reached_server: bool,
}

impl Outputs {
    pub(super) fn add(&mut self, output: &Output) {
        let of_outcome = |member: &str| {
            let outcome = output.outcome.as_ref()?;
            outcome.get(member)?.as_str()
        };
        let kind = of_outcome("kind").unwrap_or_default();
        let cause = of_outcome("cause").unwrap_or_default();
        // The same rule as in `metrics::judgement::is_taken_up`.
        let is_abandoned = kind == Outcome::Abandoned.name();
        let reached_server =
            kind != "cancelled" && !is_abandoned && (kind, cause) != ("transport", "local");
        let verdict = output
            .verdict
            .as_ref()
            .and_then(|verdict| Verdict::deserialize(verdict).ok());
        let finish_reason = output.finish_reason.as_deref();
        let complied = verdict
            .as_ref()
            .and_then(|verdict| compliance(verdict, kind, finish_reason));
        let id = output.case.as_deref().map(|id| self.ids.add(id));
        let text = verdict.as_ref().map(verdict_text);
        self.rows.push(SavedOutput {
            input_tokens: output.tokens.input.unwrap_or(NO_TOKENS),
            output_tokens: output.tokens.output.unwrap_or(NO_TOKENS),
            id: id.unwrap_or(CompactId::MISSING),
            verdict: text.map_or(NO_VERDICT, |text| self.verdicts.insert_full(text).0 as u32),
            arm: output.arm,
            accuracy: output.accuracy,
            correctness: output.correctness,
            vllm_correctness: output.vllm_correctness,
            complied,
            answered: matches!(kind, "completed" | "truncated"),
            is_abandoned,
            reached_server,
        });
    }

    /// The id of the case of a record.
    pub(super) fn case(&self, output: &SavedOutput) -> Option<String> {
        self.ids.text(output.id)
    }

    /// The verdict of a record as text.
    pub(super) fn verdict(&self, output: &SavedOutput) -> Option<&str> {
        let verdict = self.verdicts.get_index(output.verdict as usize)?;
        Some(verdict)
    }
}

impl SavedOutput {
    pub(super) fn input_tokens(&self) -> Option<u64> {
        Some(self.input_tokens).filter(|tokens| *tokens != NO_TOKENS)
    }

    pub(super) fn output_tokens(&self) -> Option<u64> {
        Some(self.output_tokens).filter(|tokens| *tokens != NO_TOKENS)
    }
}

/// A verdict as text.
pub(super) fn verdict_text(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Valid => "valid".to_owned(),
        Verdict::Invalid { reason } => Reason::to_string(reason),
        Verdict::NotScored { why } => NotScored::to_string(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_few_bytes() {
        assert!(
            size_of::<SavedOutput>() <= 40,
            "{}",
            size_of::<SavedOutput>()
        );
    }
}
