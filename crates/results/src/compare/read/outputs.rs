//! Records of `outputs`, as written by sobench and vLLM's script, without the texts of answers.

use serde::Deserialize;
use serde_json::Value;

use super::raw::Outputs;
use crate::metrics::judgement::compliance;
use sobench_core::case::Arm;
use sobench_core::observation::Outcome;
use sobench_core::verdict::Verdict;
use sobench_facts::columns::{Bits, Dense, Texts, columns};
use sobench_facts::compact_ids::Ids;
use sobench_judge::accuracy::Grade;

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

columns! {
    /// A record in memory.
    pub(super) struct SavedOutput in OutputView.output: OutputColumns {
        /// The id of the case.
        case: Option<String> => Ids,
        /// The verdict as text.
        verdict: Option<String> => Texts,
        arm: Option<Arm> => Bits<Option<Arm>>,
        accuracy: Option<Grade> => Bits<Option<Grade>>,
        correctness: Option<bool> => Bits<Option<bool>>,
        vllm_correctness: Option<bool> => Bits<Option<bool>>,
        /// Whether an answer that ended normally is valid.
        complied: Option<bool> => Bits<Option<bool>>,
        answered: bool => Bits<bool>,
        is_abandoned: bool => Bits<bool>,
        /// Whether the request reached the server and was not cancelled before.
        reached_server: bool => Bits<bool>,
        input_tokens: Option<u64> => Dense<Option<u64>, u64>,
        output_tokens: Option<u64> => Dense<Option<u64>, u64>,
    }
}

/// A view of one record.
#[derive(Clone, Copy)]
pub(super) struct OutputView<'a> {
    table: &'a Outputs,
    row: u32,
}

impl Outputs {
    pub(super) fn add(&mut self, output: Output) {
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
        let arm = output.arm.unwrap_or(Arm::Constrained);
        let complied = verdict
            .as_ref()
            .and_then(|verdict| compliance(arm, verdict, kind, finish_reason));
        let saved = SavedOutput {
            case: output.case,
            verdict: verdict.as_ref().map(Verdict::to_string),
            arm: output.arm,
            accuracy: output.accuracy,
            correctness: output.correctness,
            vllm_correctness: output.vllm_correctness,
            complied,
            answered: matches!(kind, "completed" | "truncated"),
            is_abandoned,
            reached_server,
            input_tokens: output.tokens.input,
            output_tokens: output.tokens.output,
        };
        self.output.set(self.rows, saved);
        self.rows += 1;
    }

    /// Every record in file order.
    pub(super) fn iter(&self) -> impl Iterator<Item = OutputView<'_>> {
        (0..self.rows).map(|row| OutputView { table: self, row })
    }

    /// The record at an index.
    pub(super) fn get(&self, index: usize) -> Option<OutputView<'_>> {
        let row = u32::try_from(index).ok().filter(|row| *row < self.rows)?;
        Some(OutputView { table: self, row })
    }
}
