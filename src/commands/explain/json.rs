//! The JSON file of `sobench explain`, specified by `schemas/contracts/explain.schema.json`.

use serde_json::Value;

use super::cause::{Limit, Place};
use super::cures::Cure;
use super::explanation::{Explained, Explanation, Outcome};
use super::failure::Failure;
use super::ignored::{Kept, KeptVerdict};
use super::input::Part;
use sobench_core::json_struct;

json_struct! {
    /// Why requests are refused, ignored or slow. Unknown values are `null`.
    pub struct ExplainFile<'a> = |found: &'a [Explanation]| {
        #[schemars(extend("const" = "sobench-explain"))]
        format: &'static str = "sobench-explain",
        /// Raised when a key is removed or changes its meaning.
        format_version: u32 = 1,
        sobench_version: &'static str = env!("CARGO_PKG_VERSION"),
        explanations: Vec<ExplanationEntry<'a>> = found.iter().map(ExplanationEntry::new).collect(),
    }

    /// One part of the file on one server.
    struct ExplanationEntry<'a> = |found: &'a Explanation| [
        let (verdict, failure) = match &found.outcome {
            Outcome::Unknown => ("unknown", None),
            Outcome::Accepted => ("accepted", None),
            Outcome::Fails(failure) => (failure.word(), Some(failure)),
            Outcome::Flaky { failure, .. } => ("flaky", Some(failure)),
        };
    ] {
        /// The part: a file, a request, a tool list, a component.
        subject: &'a str = &found.subject,
        /// `required` if a call was required, since the tools are accepted without.
        tool_choice: Option<&'static str> = found.is_required.then_some("required"),
        /// The server, or the embedded engine.
        server: &'a str = &found.server,
        #[schemars(extend("enum" = ["unknown", "accepted", "refused", "slow", "hangs", "crashes", "flaky"]))]
        verdict: &'static str = verdict,
        failure: Option<&'a Failure> = failure,
        /// What fails, in the order in which it was found.
        causes: Vec<CauseEntry<'a>> = found.causes.iter().map(CauseEntry::new).collect(),
        /// Of an accepted schema, the keywords that were tempted.
        keywords: Vec<KeywordEntry<'a>> = found.keywords.iter().map(KeywordEntry::new).collect(),
        /// Time to the first token of the whole part.
        ttft_ms: Option<f64> = found.times_ms.map(|(with, _)| with),
        ttft_without_constraint_ms: Option<f64> = found.times_ms.map(|(_, without)| without),
        requests: usize = found.requests,
        duration_s: f64 = found.seconds,
        /// Why the search ended early.
        stopped: Option<String> = found.stopped.as_ref().map(ToString::to_string),
    }

    /// What fails.
    struct CauseEntry<'a> = |explained: &'a Explained| [
        let cause = &explained.cause;
    ] {
        failure: &'a Failure = &cause.failure,
        /// The places that fail together.
        places: &'a [Place] = &cause.places,
        limit: Option<&'a Limit> = cause.limit.as_ref(),
        /// What was seen beside, in sentences.
        seen: &'a [String] = &cause.seen,
        /// The smallest schema, tools or constraint that fails.
        minimal: Value = cause.minimal.to_json(),
        /// It with other names and values, if it still fails.
        anonymous: Option<Value> = cause.anonymous.as_ref().map(Part::to_json),
        /// Whether it failed once more at the end.
        is_checked: bool = cause.is_checked,
        /// Changes of the whole part that were tried, after which it is taken.
        cures: &'a [Cure] = &explained.cures,
        /// What the embedded engines say of `minimal`.
        engines: Vec<EngineEntry<'a>> = explained.engines.iter().map(|(name, says)| EngineEntry::new(name, says)).collect(),
    }

    struct EngineEntry<'a> = |name: &'a str, words: &'a str| {
        engine: &'a str = name,
        says: &'a str = words,
    }

    /// A keyword that was tempted.
    struct KeywordEntry<'a> = |kept: &'a Kept| {
        /// The tool whose parameters have the keyword.
        tool: Option<&'a str> = kept.tool.as_deref(),
        /// JSON pointer of the keyword; empty if no keyword is kept.
        pointer: &'a str = &kept.pointer,
        verdict: KeptVerdict = kept.verdict(),
        /// Complete answers that were judged.
        answers: usize = kept.answers,
        /// The answer that breaks the keyword.
        answer: Option<&'a str> = kept.violation.as_ref().map(|seen| &*seen.answer),
        reason: Option<&'a str> = kept.violation.as_ref().map(|seen| &*seen.reason),
        /// The smallest schema found in which it is broken.
        minimal: Option<&'a Value> = kept.minimal.as_ref(),
        /// The places without which it is kept.
        with: &'a [Place] = &kept.with,
        /// Changes after which no answer broke it.
        cures: &'a [Cure] = &kept.cures,
    }
}
