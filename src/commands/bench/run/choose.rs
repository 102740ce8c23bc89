//! Chooses the dialect of the run, and checks that the server enforces the constraints, before the
//! run.
//!
//! The run's trial request is first: the first constrained request fixes the engine of a vLLM
//! server in `auto`, and it must be one of the run's. If the trial request has no constraint, the
//! first constrained request follows. Then come the preflight requests, which use none of the run's
//! constraints. With `--constraint-dialect auto` the suggested dialect is tested first, and the
//! other dialects of the server kind until one enforces every kind of constraint of the run.

use std::sync::Arc;
use std::time::Duration;

use super::connection_limits::connection_limit_notices;
use super::context::RunContext;
use super::early_answers::EarlyAnswers;
use super::first_use::{FirstUse, first_use};
use super::ready::wait_for_answer;
use super::sending::{Sending, Trial, is_constrained};
use crate::commands::bench::options::Target;
use crate::commands::bench::session::{Session, request_options};
use crate::terminal;
use sobench_backend::{self as backend, Adapter, BodySettings, ConstraintDialect, ServerKind};
use sobench_core::case::{Case, Message};
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, ErrorKind, Result};
use sobench_data::dataset::Source;
use sobench_data::tokenizer::Tokenizer;
use sobench_engine::{self as engine, EngineName, EnginePolicy, Vocabulary};
use sobench_notices::enforcement::{
    DialectChoice, Enforcement, FirstConstrained, KindResult, State, UnenforcedPolicy,
};
use sobench_notices::notice::{KindClass, Notice, PreflightNotice};
use sobench_plan::record::Settings;
use sobench_preflight::constraint_probe::PROMPT;
use sobench_preflight::gate::gate;
use sobench_preflight::runner::{DEFAULT_OUTPUT_LEN, DEFAULT_TIMEOUT};
use sobench_preflight::{
    self as preflight, Class, Extent, Preflight, PreflightSettings, ProbeKind, ToolCell,
    ToolQuestion,
};
use sobench_shutdown::Shutdown;

/// The chosen request options, and the results of the requests that were sent for the choice.
pub(super) struct Chosen<'c> {
    pub(super) request: BodySettings,
    /// In the end with the requests before it, and the constraints of earlier runs.
    pub(super) trial: Trial<'c>,
    pub(super) enforcement: Enforcement,
    /// Cost of the first use of the constraint, where it was measured.
    pub(super) first_use: Option<FirstUse>,
    /// Notices for the reader.
    pub(super) notices: Vec<Notice>,
}

/// The inputs of the choice.
pub(super) struct RequestChoice<'a> {
    pub(super) settings: &'a Settings<Source>,
    pub(super) session: &'a Session,
    pub(super) adapter: &'a Arc<dyn Adapter>,
    pub(super) shutdown: &'a Shutdown,
    /// The prompt of preflight in the chat template of the model, if it is known and needed.
    pub(super) templated_prompt: Option<String>,
}

/// The prompt of preflight in the chat template of the tokenizer, for servers that take text.
/// `None` without a template.
pub(super) fn templated_prompt(backend: ServerKind, tokenizer: &Tokenizer) -> Option<String> {
    if backend.takes_messages() {
        return None;
    }
    let message = Message::new("user", PROMPT);
    tokenizer.apply_chat_template(&[message], true).ok()
}

impl RequestChoice<'_> {
    /// Chooses the request of a run by sending some.
    ///
    /// # Errors
    /// No dialect can carry every constraint; the server does not become ready; the request cannot
    /// be chosen (see [`RequestChoice::try_candidates`]).
    pub(super) async fn choose<'c>(
        &self,
        target: &Target,
        context: &RunContext,
        cases: &'c [Case],
    ) -> Result<Chosen<'c>> {
        let candidates = self.candidates(cases)?;
        let limits = connection_limit_notices(self.session, cases.len(), context.runs());
        limits.iter().for_each(terminal::warn);
        let first = candidates
            .first()
            .ok_or_else(|| Error::internal("a run without requests"))?;
        self.session.learn(cases, self.adapter.as_ref(), first)?;
        let sending = self.sending(first);
        let ready_requests = wait_for_answer(&sending, target, cases).await?;
        // Before the trial, which compiles the constraint.
        let (first_requests, first_use) = first_use(&sending, &context.history, cases).await?;
        let first = first.dialect;
        let mut chosen = self.try_candidates(candidates, cases).await?;
        chosen.trial.requests += ready_requests + first_requests;
        let history = context.history.sent.iter().cloned();
        chosen.trial.constraints.extend(history);
        // A dropped dialect may never have applied the constraint.
        chosen.first_use = first_use.filter(|_| chosen.request.dialect == first);
        chosen.notices = (limits.into_iter())
            .chain(chosen.notices)
            .chain(chosen.first_use.map(FirstUse::notice))
            .chain(context.notice())
            .chain(chosen.trial.refusal.clone())
            .chain(std::mem::take(&mut chosen.trial.notices))
            .collect();
        Ok(chosen)
    }

    /// The check of the first answers, if preflight proved nothing.
    pub(super) fn early_answers<'c>(
        &self,
        chosen: &Chosen<'_>,
        cases: &'c [Case],
    ) -> Option<EarlyAnswers<'c>> {
        let channel = chosen.request.dialect.expected_channel();
        EarlyAnswers::new(
            &chosen.enforcement,
            self.unenforced(),
            cases,
            Some(channel),
            self.settings.evaluate,
        )
    }

    /// The possible requests, one per dialect, the first choice first. There is more than one only
    /// where the dialect is `auto` and a preflight is made.
    ///
    /// # Errors
    /// No dialect can carry every constraint.
    fn candidates(&self, cases: &[Case]) -> Result<Vec<BodySettings>> {
        let first = BodySettings {
            max_tokens_only: self.session.max_tokens_only,
            ..request_options(
                self.settings,
                self.session.model.clone(),
                self.session.dialect,
            )
        };
        let checked =
            |request: &BodySettings| backend::check(self.settings.backend, cases, request);
        let is_open = self.settings.constraint.dialect.is_none()
            && self.unenforced().is_some()
            && kinds(cases).into_iter().any(ProbeKind::is_of_text);
        let others = self
            .settings
            .backend
            .dialects()
            .iter()
            .filter(|dialect| is_open && **dialect != first.dialect);
        let others = others.map(|dialect| BodySettings {
            dialect: *dialect,
            ..first.clone()
        });
        let fitting: Vec<BodySettings> = std::iter::once(first.clone())
            .chain(others)
            .filter(|request| checked(request).is_ok())
            .collect();
        if fitting.is_empty() {
            checked(&first).map_err(|error| self.explain_auto(error))?;
        }
        Ok(fitting)
    }

    /// Tries the run's own requests, then tests the kinds of constraints. The embedded server is
    /// not tested. A server without a result is measured too.
    ///
    /// # Errors
    /// The trial run fails; the server drops a constraint without an error, and
    /// `--allow-unenforced` is not set; the user stopped it.
    async fn try_candidates<'c>(
        &self,
        mut candidates: Vec<BodySettings>,
        cases: &'c [Case],
    ) -> Result<Chosen<'c>> {
        let (tried, limit_notice) = self.try_out(&mut candidates, cases).await?;
        if !tried.has_answer {
            tried.notices.iter().for_each(terminal::warn);
        }
        let first = candidates
            .first()
            .ok_or_else(|| Error::internal("a run without a request to send"))?;
        let mut chosen = Chosen {
            request: first.clone(),
            trial: tried,
            enforcement: Enforcement {
                dialect: self.choice(first.dialect, false),
                ..Enforcement::default()
            },
            first_use: None,
            notices: limit_notice.into_iter().collect(),
        };
        let kinds = kinds(cases);
        let (Some(unenforced), false) = (self.unenforced(), kinds.is_empty()) else {
            return Ok(chosen);
        };
        let Chosen { request, trial, .. } = &mut chosen;
        let first_constrained = self.first_constrained(request, trial, cases).await?;
        let options = self.options(&candidates, kinds, cases);
        let asked = if trial.has_answer {
            preflight::run(&self.session.client, &options, self.shutdown, |_| {}).await
        } else {
            Err(Error::environment("no trial request has an answer"))
        };
        let found = match asked {
            Ok(found) => found,
            Err(error) if error.kind == ErrorKind::Environment => {
                let notice = Notice::from(PreflightNotice::EnforcementUnknown { why: error.what });
                terminal::warn(&notice);
                chosen.notices.push(notice);
                chosen.enforcement = Enforcement {
                    state: State::Unproven,
                    first_constrained,
                    requests: 1,
                    ..chosen.enforcement
                };
                return Ok(chosen);
            }
            Err(error) => return Err(error),
        };
        let first = request.dialect;
        let best = found.recommendation();
        let best = best.map_or(first, |best| best.dialect);
        let changed = self.changed(first, best, &found);
        let of_gate = gate(&found, best, unenforced)?;
        of_gate.iter().chain(&changed).for_each(terminal::warn);
        chosen.notices = (changed.into_iter())
            .chain(of_gate)
            .chain(chosen.notices)
            .chain(proved(&found, best))
            .collect();
        chosen.enforcement = self.enforcement(&found, best, first_constrained);
        if best != first {
            let mut candidates = candidates.into_iter();
            let other = candidates.find(|request| request.dialect == best);
            chosen.request = other.unwrap_or(chosen.request);
            let again = self.sending(&chosen.request).try_out(cases).await?;
            // Trials in dropped dialects count, and so do the constraints that they sent.
            let dropped = std::mem::replace(&mut chosen.trial, again);
            chosen.trial.requests += dropped.requests;
            chosen.trial.constraints.extend(dropped.constraints);
        }
        Ok(chosen)
    }

    pub(super) fn sending<'s>(&'s self, request: &'s BodySettings) -> Sending<'s> {
        Sending {
            session: self.session,
            adapter: Arc::clone(self.adapter),
            request,
            shutdown: self.shutdown.clone(),
        }
    }

    /// The action for a dropped constraint; `None` without a preflight.
    fn unenforced(&self) -> Option<UnenforcedPolicy> {
        self.settings
            .constraint
            .preflight
            .filter(|_| !self.session.is_embedded())
    }

    /// Sends a constrained request of the run first to a vLLM server, and records which it was. Its
    /// requests count as trial requests.
    async fn first_constrained(
        &self,
        request: &BodySettings,
        trial: &mut Trial<'_>,
        cases: &[Case],
    ) -> Result<Option<FirstConstrained>> {
        // If several were refused before one was accepted, the one that was compiled first is
        // unknown.
        if !self.session.is_vllm() || trial.requests > 1 {
            return Ok(None);
        }
        let of_trial = std::iter::once(trial.case);
        let Some(case) = of_trial.chain(cases).find(|case| is_constrained(case)) else {
            return Ok(None);
        };
        if !is_constrained(trial.case) {
            self.sending(request)
                .send(case, "trial-constrained")
                .await?;
            trial.requests += 1;
        }
        let constraint = case
            .constraint
            .clone()
            .ok_or_else(|| Error::internal("a constrained case without a constraint"))?;
        trial.constraints.insert(constraint.fingerprint());
        let (engine, why) = self.routed(constraint).await;
        let case_id = case.id.clone();
        let first = FirstConstrained {
            case_id,
            engine,
            why,
        };
        Ok(Some(first))
    }

    /// The engine that vLLM's rule for `auto` chooses, if the user states that the server runs in
    /// `auto`. The rule is of one version, so the server must report its version.
    async fn routed(&self, constraint: Arc<Constraint>) -> (Option<String>, String) {
        match (
            self.session.engine_choice.value(),
            &self.session.server_version,
        ) {
            (Some(named), _) if named != EngineName::Auto.name() => {
                return (
                    None,
                    format!("the user states an engine other than auto: {named}"),
                );
            }
            (None, _) => {
                return (
                    None,
                    "the server does not report whether it runs in `auto`; if it does, state it with --guided-decoding-backend auto"
                        .to_owned(),
                );
            }
            (_, None) => return (None, "the server does not report its version".to_owned()),
            _ => {}
        }
        let routed = tokio::task::spawn_blocking(move || {
            let vocabulary = Arc::new(Vocabulary::cl100k()?);
            let auto = engine::open(EngineName::Auto, &vocabulary, &EnginePolicy::default())?;
            Ok::<_, Error>(auto.route(&constraint))
        });
        match routed.await {
            Ok(Ok(Some(route))) => (
                Some(route.engine.name().to_owned()),
                format!("as of vLLM 0.33: {}", route.why),
            ),
            Ok(Ok(None)) => (
                None,
                "vLLM's rule has no engine for this constraint".to_owned(),
            ),
            Ok(Err(error)) => (None, error.what),
            Err(_) => (None, "vLLM's rule could not be applied".to_owned()),
        }
    }

    fn options(
        &self,
        candidates: &[BodySettings],
        kinds: Vec<ProbeKind>,
        cases: &[Case],
    ) -> PreflightSettings {
        let request = &candidates[0];
        let backend = self.settings.backend;
        let is_supported = |case: &&Case| backend::unsupported(backend, case).is_none();
        let supported = cases.iter().filter(is_supported);
        let tools = sent(supported).filter_map(Constraint::tools);
        PreflightSettings {
            backend,
            model: request.model.clone(),
            kinds,
            dialects: candidates.iter().map(|request| request.dialect).collect(),
            notation: notation(cases).unwrap_or(self.session.grammar_dialect),
            seed: self.settings.dataset.seed,
            output_len: DEFAULT_OUTPUT_LEN,
            stream: request.stream,
            guided_decoding_backend: request.guided_decoding_backend.clone(),
            extra_body: request.extra_body.clone(),
            timeout: Duration::min(self.settings.load.request_timeout, DEFAULT_TIMEOUT),
            all_dialects: false,
            extent: Extent::BeforeRun,
            max_tokens_only: request.max_tokens_only,
            templated_prompt: self.templated_prompt.clone(),
            tool_questions: ToolQuestion::from_run(tools),
        }
    }

    /// Notice on a dialect other than the expected one.
    fn changed(
        &self,
        first: ConstraintDialect,
        chosen: ConstraintDialect,
        found: &Preflight,
    ) -> Vec<Notice> {
        if first == chosen {
            return Vec::new();
        }
        let not_enforced = (found.cells.iter())
            .filter(|cell| cell.dialect == first && cell.finding.class != Class::Enforced)
            .map(|cell| KindClass {
                constraint: cell.label(),
                class: cell.finding.class,
            })
            .collect();
        vec![
            PreflightNotice::DialectChanged {
                chosen,
                expected: first,
                not_enforced,
            }
            .into(),
        ]
    }

    fn choice(&self, dialect: ConstraintDialect, is_proved: bool) -> DialectChoice {
        match self.settings.constraint.dialect {
            Some(named) if named == dialect => DialectChoice::Named,
            _ if is_proved => DialectChoice::Proved,
            _ => DialectChoice::Suggested,
        }
    }

    fn enforcement(
        &self,
        found: &Preflight,
        chosen: ConstraintDialect,
        first: Option<FirstConstrained>,
    ) -> Enforcement {
        let cells: Vec<_> = found
            .text_kinds()
            .filter_map(|kind| found.verdict_for(kind, chosen))
            .collect();
        let calls = || found.tool_calls.iter().flat_map(|calls| &calls.cells);
        // Without `strict` nothing is demanded of `auto`.
        let demands = || calls().filter(|cell| cell.question.is_demanding());
        let is_text_enforced = cells
            .iter()
            .all(|cell| cell.finding.class == Class::Enforced);
        let is_enforced =
            is_text_enforced && demands().all(|cell| cell.finding.class == Class::Enforced);
        let state = match () {
            () if cells.iter().any(|cell| cell.finding.class.is_silent_loss())
                || calls().any(ToolCell::is_silent_loss) =>
            {
                State::NotEnforced
            }
            () if cells.is_empty() && demands().next().is_none() => State::NotChecked,
            () if is_enforced => State::Enforced,
            () => State::Unproven,
        };
        let held = |cell: &preflight::Cell| KindResult {
            kind: cell.kind,
            dialect: Some(cell.dialect),
            class: cell.finding.class,
            reason: cell.finding.reason.clone(),
        };
        let held_call = |cell: &ToolCell| KindResult {
            kind: ProbeKind::Tool,
            dialect: None,
            class: cell.finding.class,
            reason: format!("{}: {}", cell.question, cell.finding.reason),
        };
        let is_proved = is_text_enforced && !cells.is_empty();
        let tried_before = found
            .cells
            .iter()
            .filter(|cell| cell.dialect != chosen && cell.finding.class != Class::NotCarried);
        Enforcement {
            state,
            requests: found.requests,
            dialect: self.choice(chosen, is_proved),
            findings: (cells.into_iter().map(held))
                .chain(calls().map(held_call))
                .chain(tried_before.map(held))
                .collect(),
            first_constrained: first,
            early: None,
            server: Some(found.facts.clone()),
            spelling: found.spelling.clone(),
        }
    }

    /// Adds the source of a dialect that was not set by the user.
    fn explain_auto(&self, mut error: Error) -> Error {
        if self.settings.constraint.dialect.is_none() {
            let hint = error.hint.take().unwrap_or_default();
            error.hint = Some(format!(
                "{hint} (--constraint-dialect auto chose {}, from /version and from the owner of the model in /v1/models)",
                self.session.dialect
            ));
        }
        error
    }
}

/// The result of the preflight, for the record.
fn proved(found: &Preflight, chosen: ConstraintDialect) -> Option<Notice> {
    let best = found.recommendation().filter(|best| best.dialect == chosen);
    let mut constraints = best.map(|best| best.enforced).unwrap_or_default();
    let dialect = (!constraints.is_empty()).then_some(chosen);
    let calls = found.tool_calls.iter().flat_map(|calls| &calls.cells);
    let mut demands = calls.filter(|cell| cell.question.is_demanding()).peekable();
    let is_enforced = |cell: &ToolCell| cell.finding.class == Class::Enforced;
    if demands.peek().is_some() && demands.all(is_enforced) {
        constraints.push(ProbeKind::Tool);
    }
    (!constraints.is_empty()).then(|| {
        PreflightNotice::Enforced {
            requests: found.requests,
            constraints,
            dialect,
        }
        .into()
    })
}

/// The kinds of constraints that are sent and tested, each once, in test order.
fn kinds(cases: &[Case]) -> Vec<ProbeKind> {
    let is_sent = |kind: &ProbeKind| {
        sent(cases.iter()).any(|constraint| ProbeKind::from_constraint(constraint) == *kind)
    };
    ProbeKind::all().filter(is_sent).collect()
}

/// The notation of the first grammar.
fn notation(cases: &[Case]) -> Option<GrammarDialect> {
    sent(cases.iter()).find_map(|constraint| Some(constraint.grammar()?.0))
}

fn sent<'c>(cases: impl Iterator<Item = &'c Case>) -> impl Iterator<Item = &'c Constraint> {
    cases
        .filter(|case| case.arm.sends_constraint())
        .filter_map(|case| case.constraint.as_deref())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use sobench_core::case::{Arm, Prompt};
    use sobench_core::constraint::ConstraintKind;

    fn case(constraint: Constraint, arm: Arm) -> Case {
        Case {
            arm,
            ..Case::new(
                "t-0",
                Prompt::Text("?".into()),
                Some(Arc::new(constraint)),
                8,
            )
        }
    }

    #[test]
    fn only_kinds_in_the_run_are_tested() {
        let regex = || Constraint::Regex("a".into());
        let lark = Constraint::Grammar {
            dialect: GrammarDialect::Lark,
            text: "start: \"a\"".into(),
        };
        let cases = [
            case(lark, Arm::Constrained),
            case(regex(), Arm::Constrained),
            case(regex(), Arm::Constrained),
        ];
        assert_eq!(
            (kinds(&cases), notation(&cases)),
            (
                vec![ProbeKind::Text(ConstraintKind::Regex), ProbeKind::GRAMMAR],
                Some(GrammarDialect::Lark)
            )
        );
        let control = [case(regex(), Arm::Control)];
        assert_eq!((kinds(&control), notation(&control)), (vec![], None));
    }
}
