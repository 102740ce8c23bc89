//! Plans an answer: its reasoning, its calls, and the constraint of each part.

use std::sync::Arc;

use super::app::App;
use super::endpoint::Endpoint;
use super::failure::Failure;
use super::faults::{FaultKind, RequestFaults, RequestTraits};
use super::generation::Part;
use super::model::Step;
use super::reasoning::ReasoningStyle;
use super::request::GenerationRequest;
use super::seeds::Draws;
use super::tools::{
    CallPart, CallParts, Decision, Enforcement, call_parts, decide, decide_call,
    is_required_somewhere,
};
use sobench_core::constraint::Constraint;
use sobench_core::tools::{ToolChoice, ToolSet};

/// The length of reasoning varies by this part of it, in both directions.
const REASONING_SPREAD: f64 = 0.25;

/// Free words before an answer whose constraint starts late.
const LATE_WORDS: u32 = 4;

/// What the model intends for one request.
#[derive(Clone, Debug)]
pub(super) struct AnswerPlan {
    /// `None` without tools.
    decision: Option<Decision>,
    /// Tokens of reasoning. `None` without reasoning.
    pub(super) reasoning: Option<u32>,
    /// The text of the answer, if the model knows one. Not of answers with calls.
    pub(super) known: Option<Arc<str>>,
}

impl AnswerPlan {
    /// The plan for a request with this seed, in a server whose model thinks for about
    /// `reasoning_tokens` tokens. Completions have no template, so they have no reasoning.
    pub(super) fn new(
        request: &GenerationRequest,
        endpoint: Endpoint,
        reasoning_tokens: u32,
        seed: u64,
    ) -> Self {
        let thinks =
            reasoning_tokens > 0 && request.thinking.is_on && endpoint != Endpoint::Completions;
        Self {
            decision: request.tools.as_deref().map(|tools| decide(tools, seed)),
            reasoning: thinks.then(|| reasoning_length(reasoning_tokens, seed)),
            known: None,
        }
    }

    /// What faults need to know.
    pub(super) fn traits(&self, request: &GenerationRequest) -> RequestTraits {
        let calls = self.calls();
        let tools = request.tools.as_deref();
        let is_strict = |tools: &ToolSet| {
            tools.choice.requires_call()
                || tools.tools.iter().any(sobench_core::tools::Tool::is_strict)
        };
        RequestTraits {
            is_constrained: if calls.is_empty() {
                request.constraint.is_some()
            } else {
                tools.is_some_and(is_strict)
            },
            is_stream: request.stream,
            calls: calls.len(),
            has_strict_call: tools.is_some_and(|tools| is_required_somewhere(tools, calls)),
            forbids_calls: tools.is_some_and(|tools| tools.choice == ToolChoice::None),
            thinks: self.reasoning.is_some() && request.thinking.is_included,
            has_drafts: false,
            turn: request
                .prompt
                .lines()
                .filter(|line| line.starts_with("assistant:"))
                .count(),
            tools: tools.map_or(0, |tools| tools.tools.len()),
            prompt_tokens: 0,
        }
    }

    /// Changes the plan by faults.
    pub(super) fn apply(&mut self, request: &GenerationRequest, seed: u64, faults: &RequestFaults) {
        if let Some(tools) = request.tools.as_deref()
            && faults.has(FaultKind::CallUnderNone)
        {
            self.decision = Some(decide_call(tools, seed));
        }
        // An answer in the reasoning is all of it.
        if [FaultKind::SuppressThinking, FaultKind::AnswerInReasoning]
            .into_iter()
            .any(|fault| faults.has(fault))
        {
            self.reasoning = None;
        }
    }

    fn calls(&self) -> &[usize] {
        self.decision
            .as_ref()
            .map_or(&[], |decision| &decision.calls)
    }

    /// A name that is not allowed for the first call: another offered tool if the choice forbids
    /// one, otherwise a tool that is not offered.
    pub(super) fn wrong_tool(&self, tools: Option<&ToolSet>) -> String {
        let (Some(tools), Some(first)) = (tools, self.calls().first()) else {
            return String::new();
        };
        let forbidden = tools
            .tools
            .iter()
            .find(|tool| !tools.choice.allows(&tool.name) && tools.choice != ToolChoice::None);
        if let Some(tool) = forbidden {
            return tool.name.clone();
        }
        let name = &tools.tools[*first].name;
        let free = (2..).map(|number| format!("{name}_v{number}"));
        free.into_iter()
            .find(|name| tools.tool(name).is_none())
            .unwrap_or_default()
    }
}

impl App {
    /// The parts of an answer, with compiled constraints.
    ///
    /// # Errors
    /// The engine refuses a constraint, or status 503 if too many masks hang.
    pub(super) async fn parts(
        &self,
        plan: AnswerPlan,
        request: &GenerationRequest,
        faults: &mut RequestFaults,
        max_tokens: u32,
    ) -> Result<Vec<Part>, Failure> {
        let reasoning = plan.reasoning;
        let CallParts {
            parts: planned,
            unused,
        } = self.planned(plan, request, faults);
        let field = request.tools.is_some().then_some("tools");
        let is_constrained = planned.iter().any(|part| part.constraint.is_some());
        if let Some(constraint) = unused {
            self.matcher(&constraint, field).await?;
        }
        let mut parts = Vec::new();
        if faults.has(FaultKind::SuppressThinking) {
            faults.inject(FaultKind::SuppressThinking);
        } else if let Some(tokens) = reasoning {
            let constraint = planned.iter().find_map(|part| part.constraint.clone());
            let thoughts = match constraint.filter(|_| faults.has(FaultKind::ConstrainThinking)) {
                Some(constraint) if faults.inject(FaultKind::ConstrainThinking) => Part {
                    matcher: Some(self.matcher(&constraint, field).await?),
                    constraint: Some(constraint),
                    ..Part::default()
                },
                _ => {
                    let is_endless = faults.inject(FaultKind::EndlessThinking);
                    let tokens = if is_endless { max_tokens } else { tokens };
                    Part {
                        script: vec![Step::Words(tokens)],
                        ..Part::default()
                    }
                }
            };
            parts.extend(marked(thoughts, self.options.reasoning_style));
        }
        if faults.has(FaultKind::ConstraintLate) && is_constrained {
            faults.inject(FaultKind::ConstraintLate);
            parts.push(Part {
                script: vec![Step::Words(LATE_WORDS)],
                ..Part::default()
            });
        }
        for CallPart { script, constraint } in planned {
            let matcher = match &constraint {
                Some(constraint) => Some(self.matcher(constraint, field).await?),
                None => None,
            };
            parts.push(Part {
                script,
                matcher,
                constraint,
                is_reasoning: false,
            });
        }
        Ok(parts)
    }

    /// The parts of the answer after its reasoning, with constraints that are not compiled.
    fn planned(
        &self,
        plan: AnswerPlan,
        request: &GenerationRequest,
        faults: &mut RequestFaults,
    ) -> CallParts {
        let is_ignored = faults.has(FaultKind::IgnoreConstraint);
        let constraint = request.constraint.clone().filter(|_| !is_ignored);
        let is_text = plan.calls().is_empty();
        let known = plan.known.as_deref();
        let (Some(tools), Some(decision)) = (request.tools.as_deref(), plan.decision) else {
            return self.text_parts(request, constraint, known);
        };
        if is_text && constraint.is_some() {
            return self.text_parts(request, constraint, known);
        }
        let is_dropped = faults.has(FaultKind::DropStrict);
        if is_dropped {
            faults.inject(FaultKind::DropStrict);
        }
        if faults.has(FaultKind::CallUnderNone) {
            faults.inject(FaultKind::CallUnderNone);
        }
        let enforcement = Enforcement {
            engine: self.engine().name(),
            style: self.options.tool_style,
            is_dropped: is_dropped || is_ignored,
        };
        let mut planned = call_parts(enforcement, tools, decision);
        if is_ignored {
            planned.unused = None;
            for part in &mut planned.parts {
                part.constraint = None;
            }
        }
        planned
    }

    fn text_parts(
        &self,
        request: &GenerationRequest,
        constraint: Option<Arc<Constraint>>,
        known: Option<&str>,
    ) -> CallParts {
        let repeated = self
            .options
            .repeats_between
            .and_then(|marks| between(&request.prompt, marks));
        let text = known
            .map(|text| Step::Write(text.to_owned()))
            .or_else(|| repeated.map(|text| Step::Repeat(text.to_owned())));
        let script = text.map(|text| vec![text, Step::End]);
        CallParts {
            parts: vec![CallPart {
                script: script.unwrap_or_default(),
                constraint,
            }],
            unused: None,
        }
    }
}

/// Reasoning between its marks.
fn marked(thoughts: Part, style: ReasoningStyle) -> [Part; 3] {
    let spec = style.spec();
    let write = |text: &str| Part {
        script: vec![Step::Write(text.to_owned())],
        is_reasoning: true,
        ..Part::default()
    };
    let thoughts = Part {
        is_reasoning: true,
        ..thoughts
    };
    [write(spec.start), thoughts, write(spec.end)]
}

/// The length of the reasoning of a request.
fn reasoning_length(tokens: u32, seed: u64) -> u32 {
    let spread = (f64::from(tokens) * REASONING_SPREAD) as u32;
    let offset = Draws::new(seed, "reasoning").below(spread as usize * 2 + 1);
    (tokens - spread)
        .saturating_add(u32::try_from(offset).unwrap_or(0))
        .max(1)
}

/// The text from the first occurrence of the first mark to the last occurrence of the second.
fn between<'t>(text: &'t str, [before, after]: [&str; 2]) -> Option<&'t str> {
    let (_, rest) = text.split_once(before)?;
    rest.rsplit_once(after).map(|(inside, _)| inside)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_length_of_reasoning_is_near_the_option() {
        let lengths: Vec<u32> = (0..200).map(|seed| reasoning_length(100, seed)).collect();
        assert!(lengths.iter().all(|length| (75..=125).contains(length)));
        assert!(lengths.iter().any(|length| *length < 90));
        assert!(lengths.iter().any(|length| *length > 110));
        assert_eq!(reasoning_length(1, 3), 1);
    }

    #[test]
    fn wrong_tools_are_forbidden_or_unknown() {
        let tool = |name: &str| json!({"type": "function", "function": {"name": name}});
        for (choice, wrong) in [(json!("auto"), "_v2"), (tool("a"), "b")] {
            let members =
                json!({"tools": [tool("a"), tool("b"), tool("b_v2")], "tool_choice": choice});
            let tools = ToolSet::from_members(members.as_object().unwrap()).unwrap();
            let plan = AnswerPlan {
                decision: Some(decide_call(&tools, 1)),
                reasoning: None,
                known: None,
            };
            let name = plan.wrong_tool(Some(&tools));
            assert!(name == "b_v3" || name.ends_with(wrong), "{name}");
            assert!(tools.tool(&name).is_none() || !tools.choice.allows(&name));
        }
    }
}
