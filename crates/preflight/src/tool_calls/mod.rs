//! Preflight of tool calls: whether a server does what `tool_choice`, `strict` and
//! `parallel_tool_calls` demand.
//!
//! Tools have random names, members and values. They are in the prompt, as in every request with
//! tools, so a model can write a right call without a constraint. Two things separate the model
//! from the server:
//!
//! - **Temptation** ([`probe`]): the prompt asks for something that the request forbids, such as a
//!   value that is not in the schema, another tool than the named one, or plain words where a call
//!   is required.
//! - **Controls** ([`CallControl`]): the same prompt where nothing forbids it. They show whether the
//!   model calls at all, and whether it yields to the temptation.
//!
//! `classify` judges the answers by the rules of a run ([`sobench_judge`]).

pub mod classify;
pub mod probe;

use std::collections::HashMap;
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use super::runner::{Extent, RETRY_FACTOR, Runner};
use super::{Class, Finding, Tested};
use classify::{ToolEvidence, ToolFinding, classify};
use probe::ToolProbe;
use sobench_backend::{BodySettings, ConstraintDialect};
use sobench_core::error::Result;
use sobench_core::observation::{Observation, Outcome};
use sobench_core::tools::{Tool, ToolChoice, ToolSet};

/// Factor of the token limit for a first answer: two calls with random names and values.
const FIRST_FACTOR: u32 = 4;

/// The most requests before a run: a control with tools, one without, and one for each question.
pub const MAX_REQUESTS_BEFORE_RUN: usize = 5;

/// What a request demands of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolRow {
    /// At least one call.
    Required,
    /// A call of one named tool.
    Named,
    /// The model decides, and is asked to call.
    Auto,
    /// No call.
    None,
    /// Two calls in one answer are allowed (`parallel_tool_calls: true`).
    Parallel,
    /// At most one call (`parallel_tool_calls: false`).
    OneCall,
    /// A call of one of some tools.
    AllowedTools,
}

/// A row of the table: what is demanded of the calls, and whether the tools are `strict`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema, Serialize)]
pub struct ToolQuestion {
    pub row: ToolRow,
    /// Whether the server must enforce the schemas of the arguments.
    pub strict: bool,
}

/// A part of a call that is not as demanded, where the rest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The arguments are not valid under the schema of the tool.
    Arguments,
    /// The call is cut at the token limit.
    Cut,
    /// A call has no id, or that of another call.
    Id,
    /// The finish reason does not fit the calls.
    FinishReason,
}

/// The result of one question, streamed or whole.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct ToolCell {
    #[serde(flatten)]
    pub question: ToolQuestion,
    /// Whether the response was streamed.
    pub stream: bool,
    /// Whether it was tested a second time, with a higher token limit.
    pub asked_again: bool,
    /// The wrong part of a [`Class::Partial`] call.
    pub part: Option<Part>,
    #[serde(flatten)]
    pub finding: Finding,
}

/// The answer to the prompt that asks for a call, where nothing is enforced: `tool_choice` is
/// `auto`, and the values are named in descriptions only.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct CallControl {
    /// Whether the model wrote a call, also one that the server left as text.
    pub calls: bool,
    /// Whether the server left the call as text.
    pub leaked: bool,
    /// Whether a call has the requested value, which the schemas of the other requests forbid.
    pub obeys: bool,
    /// `None` if the request failed.
    pub answer: Option<String>,
    /// Why there is no answer.
    pub failure: Option<Finding>,
}

/// The results for tool calls.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct ToolPreflight {
    pub control: CallControl,
    /// Whether the model calls where it is asked for plain words and may decide; `None` if it was
    /// not tested.
    pub calls_unasked: Option<bool>,
    /// In the order of the requests.
    pub cells: Vec<ToolCell>,
}

impl ToolRow {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Required => "required",
            Self::Named => "named",
            Self::Auto => "auto",
            Self::None => "none",
            Self::Parallel => "parallel",
            Self::OneCall => "one_call",
            Self::AllowedTools => "allowed_tools",
        }
    }

    /// The name in tables.
    fn title(self) -> &'static str {
        match self {
            Self::Parallel => "two calls (parallel_tool_calls: true)",
            Self::OneCall => "one call (parallel_tool_calls: false)",
            other => other.name(),
        }
    }
}

impl ToolQuestion {
    /// All questions, in the order of requests and tables. `auto` without `strict` comes before
    /// `auto` with it: it shows whether the model breaks a schema that is not enforced.
    pub const ALL: [Self; 8] = [
        Self::strict(ToolRow::Required),
        Self::strict(ToolRow::Named),
        Self {
            row: ToolRow::Auto,
            strict: false,
        },
        Self::strict(ToolRow::Auto),
        Self::strict(ToolRow::None),
        Self::strict(ToolRow::Parallel),
        Self::strict(ToolRow::OneCall),
        Self::strict(ToolRow::AllowedTools),
    ];

    const fn strict(row: ToolRow) -> Self {
        Self { row, strict: true }
    }

    /// The question that a request of a run depends on.
    pub fn from_tools(set: &ToolSet) -> Self {
        let row = match &set.choice {
            ToolChoice::Auto => ToolRow::Auto,
            ToolChoice::Required => ToolRow::Required,
            ToolChoice::None => ToolRow::None,
            ToolChoice::Named(_) => ToolRow::Named,
            ToolChoice::Allowed { .. } => ToolRow::AllowedTools,
        };
        Self {
            row,
            strict: set.tools.iter().any(Tool::is_strict),
        }
    }

    /// The questions that the requests of a run depend on, the most frequent first: as many as
    /// [`MAX_REQUESTS_BEFORE_RUN`] allows beside the two controls.
    pub fn from_run<'a>(sets: impl IntoIterator<Item = &'a ToolSet>) -> Vec<Self> {
        let mut counts: HashMap<Self, usize> = HashMap::new();
        for set in sets {
            *counts.entry(Self::from_tools(set)).or_default() += 1;
        }
        let mut questions: Vec<(Self, usize)> = counts.into_iter().collect();
        questions.sort_by_key(|(question, count)| (std::cmp::Reverse(*count), *question));
        let questions = questions.into_iter().map(|(question, _)| question);
        questions.take(MAX_REQUESTS_BEFORE_RUN - 2).collect()
    }

    /// Whether the request demands anything that a server can enforce. Without `strict`, the
    /// arguments of `auto` may break their schema.
    pub fn is_demanding(self) -> bool {
        self.strict || !matches!(self.row, ToolRow::Auto | ToolRow::Parallel)
    }
}

impl fmt::Display for ToolQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row.title())?;
        match (self.row, self.strict) {
            (ToolRow::Auto, true) => f.write_str(", strict"),
            (_, true) => Ok(()),
            (_, false) => f.write_str(", not strict"),
        }
    }
}

impl Part {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Arguments => "arguments",
            Self::Cut => "cut",
            Self::Id => "id",
            Self::FinishReason => "finish reason",
        }
    }
}

impl ToolCell {
    /// Whether the server accepted a demand with status 200 and did not do it. Arguments are
    /// demanded only with `strict`. A call that is left as text is no call, as `none` demands. Cut
    /// calls, ids and finish reasons are not what a constraint controls.
    pub fn is_silent_loss(&self) -> bool {
        let ToolQuestion { row, strict } = self.question;
        match (self.finding.class, self.part) {
            (Class::Partial, part) => strict && part == Some(Part::Arguments),
            (Class::Leaked, _) => row != ToolRow::None,
            (Class::Ignored, _) => self.question.is_demanding(),
            (class, _) => class.is_silent_loss(),
        }
    }

    /// The row, and whether the response was streamed.
    pub fn label(&self) -> String {
        let mode = if self.stream { "streamed" } else { "whole" };
        format!("tool call, {}, {mode}", self.question)
    }
}

impl ToolPreflight {
    /// Whether no demand is lost silently, and `required`, the named tool and `auto` with `strict`
    /// are enforced.
    pub fn passed(&self) -> bool {
        let must_be_enforced = |cell: &&ToolCell| {
            cell.question.strict
                && matches!(
                    cell.question.row,
                    ToolRow::Required | ToolRow::Named | ToolRow::Auto
                )
        };
        let is_enforced = |cell: &ToolCell| cell.finding.class == Class::Enforced;
        !self.cells.iter().any(ToolCell::is_silent_loss)
            && self.cells.iter().filter(must_be_enforced).all(is_enforced)
    }

    /// Whether an answer broke a schema as it was tempted to.
    fn is_tempted(&self) -> bool {
        self.control.obeys
            || self
                .cells
                .iter()
                .any(|cell| cell.part == Some(Part::Arguments))
    }

    /// The rows whose streamed and whole responses have different results, with both.
    pub fn differences(&self) -> Vec<String> {
        let of = |question: ToolQuestion, stream: bool| {
            self.cells
                .iter()
                .find(|cell| cell.question == question && cell.stream == stream)
        };
        let differs = |question: ToolQuestion| {
            let (streamed, whole) = (of(question, true)?, of(question, false)?);
            let result = |cell: &ToolCell| (cell.finding.class, cell.part);
            let name = |cell: &ToolCell| cell.finding.class.name();
            (result(streamed) != result(whole))
                .then(|| format!("{question} ({}, {})", name(streamed), name(whole)))
        };
        ToolQuestion::ALL.into_iter().filter_map(differs).collect()
    }
}

impl Runner<'_> {
    /// Tests every question of the options: before a run in the run's response mode, otherwise
    /// streamed and whole.
    pub(super) async fn test_tool_calls(
        &mut self,
        on_test: &mut impl FnMut(Tested<'_>),
    ) -> Result<ToolPreflight> {
        let is_whole = self.options.extent == Extent::Whole;
        let modes: &[bool] = match self.options.stream {
            true if is_whole => &[true, false],
            true => &[true],
            false => &[false],
        };
        let mut found = ToolPreflight {
            control: self.call_control().await?,
            ..ToolPreflight::default()
        };
        if is_whole {
            found.calls_unasked = self.calls_unasked().await?;
        }
        // Calls of the answers in which several were allowed, by response mode.
        let mut parallel_calls = HashMap::new();
        let options = self.options;
        for question in &options.tool_questions {
            for stream in modes {
                let cell = self
                    .test_tool_cell(*question, *stream, &found, &mut parallel_calls)
                    .await?;
                on_test(Tested::ToolCall(&cell));
                found.cells.push(cell);
            }
        }
        Ok(found)
    }

    async fn call_control(&mut self) -> Result<CallControl> {
        let probe = ToolProbe::control(&mut self.random_words, self.options.backend);
        let answered = self
            .ask_tools(&probe, self.options.stream, self.tool_output_len())
            .await?;
        if let Ok(observation) = &answered {
            self.compare_prompts(&probe, observation).await?;
        }
        Ok(match answered {
            Ok(observation) => CallControl::new(&probe, &observation, &mut self.evaluator),
            Err(failure) => CallControl {
                failure: Some(failure),
                ..CallControl::default()
            },
        })
    }

    /// Asks the same without tools: a chat template that drops them makes the same prompt of both.
    async fn compare_prompts(&mut self, probe: &ToolProbe, with_tools: &Observation) -> Result<()> {
        let tokens = |seen: &Observation| seen.usage.and_then(|usage| usage.prompt_tokens);
        let Some(tokens_with) = tokens(with_tools) else {
            return Ok(());
        };
        let request = self.plain_request(ConstraintDialect::ResponseFormat);
        let case = probe.case_without_tools();
        let answered = self.ask("the same without tools", &case, &request).await?;
        let tokens_without = answered.ok().and_then(|seen| tokens(&seen));
        self.dropped_tools = tokens_without.filter(|tokens| *tokens == tokens_with);
        Ok(())
    }

    /// Whether the model calls where it is asked for plain words; `None` without an answer.
    async fn calls_unasked(&mut self) -> Result<Option<bool>> {
        let probe = ToolProbe::unasked(&mut self.random_words, self.options.backend);
        let answered = self
            .ask_tools(&probe, self.options.stream, self.tool_output_len())
            .await?;
        let control = answered
            .ok()
            .map(|observation| CallControl::new(&probe, &observation, &mut self.evaluator));
        Ok(control
            .filter(|control| control.failure.is_none())
            .map(|control| control.calls))
    }

    async fn test_tool_cell(
        &mut self,
        question: ToolQuestion,
        stream: bool,
        found: &ToolPreflight,
        parallel_calls: &mut HashMap<bool, usize>,
    ) -> Result<ToolCell> {
        let first_limit = self.tool_output_len();
        let last_limit = self.options.output_len.saturating_mul(RETRY_FACTOR);
        let (mut result, may_continue) = self
            .test_tool_once(question, stream, first_limit, found, parallel_calls)
            .await?;
        let asked_again = may_continue && last_limit > first_limit;
        if asked_again {
            (result, _) = self
                .test_tool_once(question, stream, last_limit, found, parallel_calls)
                .await?;
        }
        let ToolFinding { part, finding } = result;
        Ok(ToolCell {
            question,
            stream,
            asked_again,
            part,
            finding,
        })
    }

    /// Sends one request and classifies the answer. Also returns whether a higher token limit may
    /// change the result.
    async fn test_tool_once(
        &mut self,
        question: ToolQuestion,
        stream: bool,
        output_len: u32,
        found: &ToolPreflight,
        parallel_calls: &mut HashMap<bool, usize>,
    ) -> Result<(ToolFinding, bool)> {
        let probe = ToolProbe::random(question, &mut self.random_words, self.options.backend);
        let observation = match self.ask_tools(&probe, stream, output_len).await? {
            Ok(observation) => observation,
            Err(finding) => return Ok((finding.into(), false)),
        };
        let evidence = ToolEvidence {
            probe: &probe,
            observation: &observation,
            control: &found.control,
            calls_unasked: found.calls_unasked,
            is_tempted: found.is_tempted(),
            parallel_calls: parallel_calls.get(&stream).copied(),
        };
        let result = classify(&evidence, &mut self.evaluator);
        if question.row == ToolRow::Parallel {
            parallel_calls.insert(stream, observation.answer.tool_calls.len());
        }
        let may_continue = observation.outcome == Outcome::Truncated
            && matches!(result.finding.class, Class::Unproven | Class::Partial);
        Ok((result, may_continue))
    }

    /// The token limit of a first answer. Before a run there is no second one.
    fn tool_output_len(&self) -> u32 {
        let factor = match self.options.extent {
            Extent::Whole => FIRST_FACTOR,
            Extent::BeforeRun => RETRY_FACTOR,
        };
        self.options.output_len.saturating_mul(factor)
    }

    async fn ask_tools(
        &mut self,
        probe: &ToolProbe,
        stream: bool,
        output_len: u32,
    ) -> Result<std::result::Result<Observation, Finding>> {
        // Tools are sent in the same fields in every dialect.
        let request = BodySettings {
            stream,
            ..self.plain_request(ConstraintDialect::ResponseFormat)
        };
        self.ask(&probe.label(), &probe.case(output_len), &request)
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(choice: &str, strict: bool) -> ToolSet {
        let function = json!({"name": "f", "strict": strict});
        serde_json::from_value(json!({
            "tools": [{"type": "function", "function": function}],
            "tool_choice": choice,
        }))
        .unwrap()
    }

    #[test]
    fn a_run_is_checked_by_its_most_frequent_questions() {
        let sets = [
            set("none", false),
            set("auto", true),
            set("required", true),
            set("auto", true),
            set("auto", false),
            set("none", false),
        ];
        let questions = ToolQuestion::from_run(&sets);
        let labels: Vec<String> = questions.iter().map(ToString::to_string).collect();
        assert_eq!(labels, ["auto, strict", "none, not strict", "required"]);
        assert!(ToolQuestion::from_run([]).is_empty());
    }

    #[test]
    fn arguments_are_demanded_with_strict_only() {
        let cell = |row, strict, class, part| ToolCell {
            question: ToolQuestion { row, strict },
            stream: true,
            asked_again: false,
            part,
            finding: Finding::new(class, ""),
        };
        use Class::{Enforced, Ignored, Leaked, Merged, Partial, Rejected, Unproven};
        let arguments = Some(Part::Arguments);
        for (row, strict, class, part, is_loss) in [
            (ToolRow::Auto, true, Partial, arguments, true),
            (ToolRow::Auto, false, Partial, arguments, false),
            (ToolRow::Required, false, Partial, arguments, false),
            (ToolRow::Required, true, Partial, Some(Part::Cut), false),
            (ToolRow::Required, true, Partial, Some(Part::Id), false),
            (ToolRow::Required, false, Ignored, None, true),
            (ToolRow::Auto, false, Ignored, None, false),
            (ToolRow::Auto, false, Leaked, None, true),
            (ToolRow::None, true, Leaked, None, false),
            (ToolRow::None, false, Ignored, None, true),
            (ToolRow::Parallel, false, Merged, None, true),
            (ToolRow::Named, true, Rejected, None, false),
            (ToolRow::Named, true, Unproven, None, false),
            (ToolRow::Named, true, Enforced, None, false),
        ] {
            let cell = cell(row, strict, class, part);
            assert_eq!(cell.is_silent_loss(), is_loss, "{cell:?}");
            let found = ToolPreflight {
                cells: vec![cell],
                ..ToolPreflight::default()
            };
            let is_needed =
                strict && matches!(row, ToolRow::Required | ToolRow::Named | ToolRow::Auto);
            assert_eq!(
                found.passed(),
                !is_loss && (class == Enforced || !is_needed),
                "{found:?}"
            );
        }
    }

    #[test]
    fn different_results_of_streamed_and_whole_responses_are_listed() {
        let cell = |stream, class| ToolCell {
            question: ToolQuestion::ALL[0],
            stream,
            asked_again: false,
            part: None,
            finding: Finding::new(class, ""),
        };
        let found = |streamed, whole| ToolPreflight {
            cells: vec![cell(true, streamed), cell(false, whole)],
            ..ToolPreflight::default()
        };
        assert_eq!(
            found(Class::Leaked, Class::Enforced).differences(),
            ["required (leaked, enforced)"]
        );
        assert!(
            found(Class::Enforced, Class::Enforced)
                .differences()
                .is_empty()
        );
    }
}
