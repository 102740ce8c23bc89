//! Sends the requests of a preflight one after the other and collects the results.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::classify::{Control, Evidence, classify};
use super::constraint_probe::{
    ConstraintProbe, PROMPT, RandomWords, UNFINISHED_PROMPT, control_case, json_formatting_probe,
};
use super::envelope::{Envelope, envelopes};
use super::reasoning::ReasoningPreflight;
use super::tool_calls::{ToolPreflight, ToolQuestion};
use super::{Cell, Preflight, PreflightConditions, Tested, is_foreign, is_known};
use sobench_backend::{
    Adapter, BodySettings, ConstraintDialect, Product, Sampling, ServerKind, adapter,
};
use sobench_client::{
    Client, ClientSettings, Endpoint, ProbeResponse, get_path, send_body, send_one,
};
use sobench_core::case::Case;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, ErrorKind, Result};
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::printable::printable_body;
use sobench_core::run_event::AnswerForm;
use sobench_judge::{Evaluator, JudgeSettings};
use sobench_notices::enforcement::{Cause, Class, Finding, Page, ProbeKind, ServerFacts, Spelling};
use sobench_notices::notice::{Notice, PreflightNotice};
use sobench_shutdown::Shutdown;

/// Maximum tokens of a first answer: enough for every allowed text, at one letter per token.
pub const DEFAULT_OUTPUT_LEN: u32 = 64;

/// Default request timeout. A first grammar compilation took 12 s on a real server.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Factor of the token limit for the second request after a truncated answer: a model may reason
/// before it answers.
pub(super) const RETRY_FACTOR: u32 = 16;

/// Factor of the token limit for the formatting request, which has three members.
const JSON_FORMATTING_FACTOR: u32 = 4;

/// Tokens that a model has to write if it ends at once otherwise. Every allowed answer to a probe
/// has more, except for `{}`.
const MIN_TOKENS: u32 = 4;

/// Kinds and dialects that are tested at another endpoint.
const MAX_ELSEWHERE: usize = 2;

/// Settings of a preflight.
#[derive(Clone, Debug, PartialEq)]
pub struct PreflightSettings {
    pub backend: ServerKind,
    /// The model's name on the server.
    pub model: String,
    /// In the order in which they are tested.
    pub kinds: Vec<ProbeKind>,
    /// In the order in which they are tested, that of `auto` first.
    pub dialects: Vec<ConstraintDialect>,
    /// Whether to test all of them. Otherwise none is tested after one that enforces everything, if
    /// the server is identified or in [`Extent::BeforeRun`], and those of other servers only if its
    /// own have no effect.
    pub all_dialects: bool,
    /// The notation in which grammars are tested first. The other one is tested only if the server
    /// refuses this one, because some servers crash on a grammar that they cannot parse.
    pub notation: GrammarDialect,
    pub seed: u64,
    /// Maximum tokens of a first answer.
    pub output_len: u32,
    /// Whether to stream, as the following runs do.
    pub stream: bool,
    /// Sent in the `guided` dialect, like `--guided-decoding-backend`.
    pub guided_decoding_backend: Option<String>,
    /// See [`BodySettings::max_tokens_only`].
    pub max_tokens_only: bool,
    /// Merged into every body, like `--extra-body`. Its constraint fields are omitted from the
    /// control.
    pub extra_body: Option<Map<String, Value>>,
    /// Timeout of one request.
    pub timeout: Duration,
    pub extent: Extent,
    /// [`PROMPT`] in the chat template of the model, for servers that take text; `None` if the
    /// template is unknown. Tried if the model does not answer the plain prompt.
    pub templated_prompt: Option<String>,
    /// The questions about tool calls, in the order in which they are tested, for [`ProbeKind::Tool`].
    pub tool_questions: Vec<ToolQuestion>,
}

impl PreflightSettings {
    /// The first dialect: it does not matter without a constraint.
    fn dialect_of_control(&self) -> ConstraintDialect {
        let first = self.dialects.first().copied();
        first.unwrap_or(ConstraintDialect::ResponseFormat)
    }

    /// The options that all requests in a dialect share.
    pub fn request(&self, dialect: ConstraintDialect, sampling: Sampling) -> BodySettings {
        BodySettings {
            model: self.model.clone(),
            stream: self.stream,
            sampling,
            ignore_eos: false,
            dialect,
            guided_decoding_backend: self.guided_decoding_backend.clone(),
            thinking: None,
            max_tokens_only: self.max_tokens_only,
            extra_body: self.extra_body.clone(),
        }
    }
}

/// The extent of a preflight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything, including server information, grammars in the second notation and JSON
    /// formatting.
    Whole,
    /// Only what a run needs: grammars in one notation, and no further dialect after one that
    /// enforces every kind.
    BeforeRun,
}

/// Runs the preflight until the first shutdown request. `on_test` is called with each result. If a
/// constraint is lost, a few requests test whether the other endpoint of the server enforces it.
///
/// # Errors
/// Environment errors that quote the server: it does not answer, or it refuses the same request
/// without a constraint, so that constraints cannot be tested. Interrupted by the user.
pub async fn run(
    client: &Client,
    options: &PreflightSettings,
    shutdown: &Shutdown,
    mut on_test: impl FnMut(Tested<'_>),
) -> Result<Preflight> {
    let mut found = test(client, options, shutdown, &mut on_test).await?;
    let Some((client, options)) = other_endpoint(client, options, &found)? else {
        return Ok(found);
    };
    match test(&client, &options, shutdown, &mut |_| {}).await {
        Ok(other) => {
            found.requests += other.requests;
            let elsewhere = other.recommendation().map(|best| {
                PreflightNotice::EnforcedElsewhere {
                    constraints: best.enforced,
                    backend: options.backend,
                    path: other.record.path,
                    dialect: best.dialect,
                }
                .into()
            });
            found.notices.splice(0..0, elsewhere);
        }
        Err(error) if error.kind == ErrorKind::Environment => found.requests += 1,
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// The other endpoint of the server, and the constraints to test there: those that are lost and
/// that no dialect enforces. `None` if there are none.
fn other_endpoint(
    client: &Client,
    options: &PreflightSettings,
    found: &Preflight,
) -> Result<Option<(Client, PreflightSettings)>> {
    let backend = match options.backend {
        ServerKind::OpenaiChat => ServerKind::Openai,
        _ => ServerKind::OpenaiChat,
    };
    let class_is = |kind: ProbeKind, is: fn(Class) -> bool| {
        let mut cells = found.cells.iter().filter(|cell| cell.kind == kind);
        cells.any(|cell| is(cell.finding.class))
    };
    let is_lost = |kind: &ProbeKind| {
        class_is(*kind, Class::is_silent_loss) && !class_is(*kind, |class| class == Class::Enforced)
    };
    let kinds: Vec<ProbeKind> = found
        .text_kinds()
        .filter(is_lost)
        .take(MAX_ELSEWHERE)
        .collect();
    let endpoint = &client.options().endpoint;
    let prefix = endpoint
        .path
        .strip_suffix(options.backend.path(options.stream));
    let (false, Some(prefix)) = (kinds.is_empty(), prefix) else {
        return Ok(None);
    };
    let is_shared = |dialect: &&ConstraintDialect| {
        backend.dialects().contains(dialect) && !is_foreign(found.facts.product, **dialect)
    };
    let shared = options.dialects.iter().filter(is_shared).copied();
    let mut dialects: Vec<ConstraintDialect> = shared.take(MAX_ELSEWHERE).collect();
    if dialects.is_empty() {
        dialects.push(ConstraintDialect::ResponseFormat);
    }
    let client = Client::new(ClientSettings {
        endpoint: Endpoint {
            path: format!("{prefix}{}", backend.path(options.stream)),
            kind: backend,
            ..endpoint.clone()
        },
        ..client.options().clone()
    })?;
    let options = PreflightSettings {
        backend,
        kinds,
        dialects,
        all_dialects: false,
        extent: Extent::BeforeRun,
        templated_prompt: None,
        // Other random words: a proxy may keep answers.
        seed: options.seed.wrapping_add(1),
        ..options.clone()
    };
    Ok(Some((client, options)))
}

/// Waits until the server answers the request without a constraint (`--ready-check-timeout-sec`).
///
/// # Errors
/// As for [`sobench_client::wait_until_loaded`].
pub async fn wait_until_loaded(
    client: &Client,
    options: &PreflightSettings,
    timeout: Duration,
) -> Result<()> {
    let dialect = options.dialect_of_control();
    let request = without_constraint(options.request(dialect, Sampling::default()));
    let case = control_case(PROMPT, options.output_len);
    let adapter: Arc<dyn Adapter> = Arc::from(adapter(options.backend));
    let shutdown = Shutdown::new();
    sobench_client::wait_until_loaded(client, timeout, async || {
        let adapter = Arc::clone(&adapter);
        send_one(client, adapter, &request, &case, "ready", &shutdown).await
    })
    .await
}

/// Tests one endpoint.
async fn test(
    client: &Client,
    options: &PreflightSettings,
    shutdown: &Shutdown,
    on_test: &mut impl FnMut(Tested<'_>),
) -> Result<Preflight> {
    let client = Client::new(ClientSettings {
        request_timeout: Some(options.timeout),
        idle_timeout: None,
        ..client.options().clone()
    })?;
    let is_whole = options.extent == Extent::Whole;
    let mut runner = Runner {
        adapter: Arc::from(adapter(options.backend)),
        random_words: RandomWords::new(options.seed),
        evaluator: Evaluator::new(JudgeSettings::default()),
        control: Control {
            answer: None,
            failure: None,
        },
        asking: Asking::plain(),
        requests: 0,
        last_request: None,
        dropped_tools: None,
        last_sent: "control".to_owned(),
        thinks_freely: false,
        silenced: None,
        cells: Vec::new(),
        tested_dialects: Vec::new(),
        options,
        client,
        shutdown: shutdown.clone(),
    };
    let text_kinds = || options.kinds.iter().filter(|kind| kind.is_of_text());
    let has_text_kinds = text_kinds().next().is_some();
    // A run has had its trial request, and tool calls have controls of their own.
    if is_whole || has_text_kinds {
        runner.send_control().await?;
    }
    let facts = self::facts(&runner.client).await;
    if has_text_kinds {
        runner.make_it_speak(&facts).await?;
    }
    let is_foreign = |dialect: &&ConstraintDialect| {
        !options.all_dialects && is_foreign(facts.product, **dialect)
    };
    let (foreign, own): (Vec<&ConstraintDialect>, Vec<_>) =
        options.dialects.iter().partition(is_foreign);
    let own_count = own.len();
    for (index, dialect) in own.into_iter().chain(foreign).enumerate() {
        let has_effect = || {
            runner
                .cells
                .iter()
                .any(|cell| cell.finding.class.has_effect())
        };
        if !has_text_kinds || (index >= own_count && has_effect()) {
            break;
        }
        runner.tested_dialects.push(*dialect);
        for kind in text_kinds() {
            let before = runner.cells.len();
            runner.test_kind(*kind, *dialect).await?;
            for cell in &runner.cells[before..] {
                on_test(Tested::Cell(cell));
            }
        }
        let stops = !options.all_dialects && (!is_whole || is_known(facts.product));
        let mut in_dialect = (runner.cells.iter()).filter(|cell| cell.dialect == *dialect);
        if stops && in_dialect.all(|cell| cell.finding.class == Class::Enforced) {
            break;
        }
    }
    let tool_calls = match options.kinds.contains(&ProbeKind::Tool) {
        true => Some(runner.test_tool_calls(on_test).await?),
        false => None,
    };
    let reasoning = match options.kinds.contains(&ProbeKind::Reasoning) {
        true => Some(runner.test_reasoning(on_test).await?),
        false => None,
    };
    let wire = match options.kinds.contains(&ProbeKind::Wire) {
        true => Some(runner.test_wire(facts.product, on_test).await?),
        false => None,
    };
    let mut preflight = runner.finish(facts, tool_calls, reasoning);
    preflight.wire = wire;
    if is_whole || options.kinds.contains(&ProbeKind::JSON_SCHEMA) {
        runner.test_json_formatting(&mut preflight).await?;
    }
    preflight.requests = runner.requests;
    Ok(preflight)
}

/// Server information. Stops at the first request without a response, because a hanging server
/// would hang on every page.
pub async fn facts(client: &Client) -> ServerFacts {
    let mut pages = Vec::new();
    for path in Product::page_paths() {
        let Some(ProbeResponse {
            status,
            server,
            body,
        }) = get_path(client, path).await
        else {
            break;
        };
        pages.push(Page {
            path,
            status,
            server,
            body,
        });
    }
    ServerFacts::from_pages(&pages)
}

/// How the model is asked. Constrained answers prove something only if the model answers the same
/// prompt without a constraint.
#[derive(Clone, Debug, PartialEq)]
struct Asking {
    prompt: String,
    /// Sent as `min_tokens`, which keeps a model from ending at once.
    min_tokens: Option<u32>,
}

impl Asking {
    fn plain() -> Self {
        Self {
            prompt: PROMPT.to_owned(),
            min_tokens: None,
        }
    }
}

pub(super) struct Runner<'a> {
    client: Client,
    shutdown: Shutdown,
    adapter: Arc<dyn Adapter>,
    pub(super) options: &'a PreflightSettings,
    pub(super) random_words: RandomWords,
    pub(super) evaluator: Evaluator,
    control: Control,
    /// How the model is asked.
    asking: Asking,
    requests: usize,
    /// The last request before the server was gone.
    last_request: Option<String>,
    /// The last request that the server accepted.
    last_sent: String,
    /// Tokens of a prompt with tools that has as many without them.
    pub(super) dropped_tools: Option<u64>,
    /// Whether the model thinks without a constraint.
    thinks_freely: bool,
    /// The first constraint with which it does not, with its dialect.
    silenced: Option<(String, ConstraintDialect)>,
    cells: Vec<Cell>,
    /// The tested dialects.
    tested_dialects: Vec<ConstraintDialect>,
}

impl Runner<'_> {
    /// Sends the request without a constraint.
    async fn send_control(&mut self) -> Result<()> {
        let observation = self.control(&Asking::plain()).await?;
        if let Some(error) = self.control_error(&observation.outcome) {
            return Err(error);
        }
        self.control = Control::from_observation(&observation);
        self.thinks_freely = !observation.answer.reasoning.trim().is_empty();
        Ok(())
    }

    /// Tries other ways to ask until the model answers one in prose. If none works, the first one
    /// stays.
    async fn make_it_speak(&mut self, facts: &ServerFacts) -> Result<()> {
        if self.control.failure.is_some() || self.control.is_prose() {
            return Ok(());
        }
        let with_prompt = |prompt: &str| Asking {
            prompt: prompt.to_owned(),
            min_tokens: None,
        };
        let lengthened = Asking {
            min_tokens: takes_min_tokens(facts).then_some(MIN_TOKENS),
            ..with_prompt(UNFINISHED_PROMPT)
        };
        let templated = self.options.templated_prompt.as_deref().map(with_prompt);
        let ways = templated
            .into_iter()
            .chain([with_prompt(UNFINISHED_PROMPT)])
            .chain(lengthened.min_tokens.is_some().then_some(lengthened));
        for asking in ways {
            let control = Control::from_observation(&self.control(&asking).await?);
            if control.is_prose() {
                (self.control, self.asking) = (control, asking);
                break;
            }
        }
        Ok(())
    }

    /// Sends the request without a constraint.
    async fn control(&mut self, asking: &Asking) -> Result<Observation> {
        let dialect = self.options.dialect_of_control();
        let request = without_constraint(self.request(dialect, asking));
        let case = control_case(&asking.prompt, self.options.output_len);
        self.send(&case, &request).await
    }

    /// The error for an outcome of the control after which constraints cannot be tested.
    fn control_error(&self, outcome: &Outcome) -> Option<Error> {
        let url = self.client.url();
        let error = |reason: &str| {
            Error::environment(format!(
                "no answer without a constraint from {url}: {reason}"
            ))
        };
        match outcome {
            Outcome::Rejected { status, body, .. } => {
                let hint = match status {
                    401 | 403 => &self.options.backend.credentials().hint(),
                    404 => {
                        "check that the server lists --model, and that --endpoint and --backend fit it"
                    }
                    _ => {
                        "see the message of the server; use --extra-body to change fields of the request"
                    }
                };
                Some(error(&format!("{status} {}", printable_body(body))).hint(hint))
            }
            Outcome::Transport {
                cause: TransportCause::Connect,
                message,
            } => Some(error(message).hint("start the server, or give its address with --base-url")),
            Outcome::TimedOut { limit_ms, .. } => Some(
                error(&format!("no response within {limit_ms} ms"))
                    .hint("raise --request-timeout, or check the server"),
            ),
            _ => None,
        }
    }

    /// Tests one kind in one dialect; a grammar that is refused in one notation is tested in the
    /// other.
    async fn test_kind(&mut self, kind: ProbeKind, dialect: ConstraintDialect) -> Result<()> {
        let first = self.options.notation;
        let class = self.test_cell(kind, first, dialect).await?;
        if kind == ProbeKind::GRAMMAR
            && class == Class::Rejected
            && self.options.extent == Extent::Whole
        {
            self.test_cell(kind, other_notation(first), dialect).await?;
        }
        Ok(())
    }

    async fn test_cell(
        &mut self,
        kind: ProbeKind,
        notation: GrammarDialect,
        dialect: ConstraintDialect,
    ) -> Result<Class> {
        let mut asked_again = false;
        let finding = match &self.last_request {
            Some(last) => Finding::new(
                Class::NotSent,
                format!("the server has not accepted connections since the request: {last}"),
            ),
            None => {
                let (finding, cut) = self
                    .test_once(kind, notation, dialect, self.options.output_len)
                    .await?;
                // More text may complete what the answer shows of the constraint.
                if cut && matches!(finding.class, Class::Unproven | Class::Partial) {
                    asked_again = true;
                    self.test_once(
                        kind,
                        notation,
                        dialect,
                        self.options.output_len.saturating_mul(RETRY_FACTOR),
                    )
                    .await?
                    .0
                } else {
                    finding
                }
            }
        };
        let class = finding.class;
        let notation = (kind == ProbeKind::GRAMMAR).then_some(notation);
        self.cells.push(Cell {
            kind,
            notation,
            dialect,
            finding,
            asked_again,
        });
        Ok(class)
    }

    /// Sends one request and classifies the answer. Also returns whether the answer was truncated.
    async fn test_once(
        &mut self,
        kind: ProbeKind,
        notation: GrammarDialect,
        dialect: ConstraintDialect,
        output_len: u32,
    ) -> Result<(Finding, bool)> {
        let probe = ConstraintProbe::random(kind, notation, &mut self.random_words);
        let case = probe.case(&self.asking.prompt, output_len);
        let request = self.request(dialect, &self.asking);
        let envelopes = match self.adapter.encode(&case, &request) {
            Err(unsendable) => {
                return Ok((Finding::new(Class::NotCarried, unsendable.what), false));
            }
            Ok(body) => self::envelopes_of(&body, &probe.constraint),
        };
        let notation = (kind == ProbeKind::GRAMMAR).then_some(notation);
        let label = super::label(kind, notation);
        let observation = match self
            .ask(&format!("{label} in {dialect}"), &case, &request)
            .await?
        {
            Ok(observation) => observation,
            Err(finding) => return Ok((finding, false)),
        };
        let evidence = Evidence {
            probe: &probe,
            observation: &observation,
            control: &self.control,
            envelopes: &envelopes,
            dialect,
        };
        let finding = classify(&evidence, &mut self.evaluator);
        let has_no_thoughts = observation.answer.reasoning.trim().is_empty();
        if self.thinks_freely && has_no_thoughts && finding.class == Class::Enforced {
            self.silenced.get_or_insert((label, dialect));
        }
        Ok((finding, observation.outcome == Outcome::Truncated))
    }

    /// Tests the formatting of JSON, if a dialect enforces schemas.
    async fn test_json_formatting(&mut self, preflight: &mut Preflight) -> Result<()> {
        let Some(dialect) = self
            .options
            .dialects
            .iter()
            .find(|dialect: &&ConstraintDialect| {
                preflight
                    .verdict_for(ProbeKind::JSON_SCHEMA, **dialect)
                    .is_some_and(|cell| cell.finding.class == Class::Enforced)
            })
            .filter(|_| self.last_request.is_none())
        else {
            return Ok(());
        };
        let (probe, names) = json_formatting_probe(&mut self.random_words);
        let output_len = self
            .options
            .output_len
            .saturating_mul(JSON_FORMATTING_FACTOR);
        let case = probe.case(&self.asking.prompt, output_len);
        let request = self.request(*dialect, &self.asking);
        let observation = self.send(&case, &request).await?;
        let text = observation.answer.text();
        if self.evaluator.compile(&probe.judged_by).accepts(&text) {
            preflight.spelling = Some(Spelling::from_answer(&text, &names));
        } else {
            let outcome = observation.outcome.name().to_owned();
            let unknown = PreflightNotice::SpellingUnknown { outcome };
            preflight.notices.push(unknown.into());
        }
        Ok(())
    }

    /// Sends a request, named `label` in messages. A finding in place of the observation if the
    /// server no longer accepts connections, or the request has no form.
    pub(super) async fn ask(
        &mut self,
        label: &str,
        case: &Case,
        request: &BodySettings,
    ) -> Result<std::result::Result<Observation, Finding>> {
        let gone = |last: &str| {
            format!("the server has not accepted connections since the request: {last}")
        };
        if let Some(last) = &self.last_request {
            return Ok(Err(Finding::new(Class::NotSent, gone(last))));
        }
        let body = match self.adapter.encode(case, request) {
            Ok(body) => body,
            Err(unsendable) => return Ok(Err(Finding::new(Class::NotCarried, unsendable.what))),
        };
        let form = AnswerForm::new(request.stream);
        let observation = self.send_raw(body, form).await?;
        if let Outcome::Transport {
            cause: TransportCause::Connect,
            message,
        } = &observation.outcome
        {
            let message = format!("{}: {message}", gone(&self.last_sent));
            self.last_request = Some(self.last_sent.clone());
            return Ok(Err(Finding::new(Class::NotSent, message)));
        }
        label.clone_into(&mut self.last_sent);
        Ok(Ok(observation))
    }

    async fn send(&mut self, case: &Case, request: &BodySettings) -> Result<Observation> {
        let body = self
            .adapter
            .encode(case, request)
            .map_err(|unsendable| unsendable.into_error(case))?;
        self.send_raw(body, AnswerForm::new(request.stream)).await
    }

    /// Sends an encoded body.
    pub(super) async fn send_raw(&mut self, body: Bytes, form: AnswerForm) -> Result<Observation> {
        let label = format!("preflight-{}", self.requests);
        self.requests += 1;
        let (adapter, shutdown) = (Arc::clone(&self.adapter), &self.shutdown);
        let observation =
            send_body(&self.client, adapter, body, form, None, &label, shutdown).await;
        if self.shutdown.is_requested() {
            return Err(Error::interrupted("stopped during the preflight")
                .hint("run it again; no run was started"));
        }
        Ok(observation)
    }

    /// The options of a request that asks in its own way.
    pub(super) fn plain_request(&self, dialect: ConstraintDialect) -> BodySettings {
        self.request(dialect, &Asking::plain())
    }

    /// The same for a request without a constraint.
    pub(super) fn control_request(&self, dialect: ConstraintDialect) -> BodySettings {
        without_constraint(self.plain_request(dialect))
    }

    fn request(&self, dialect: ConstraintDialect, asking: &Asking) -> BodySettings {
        let sampling = Sampling {
            temperature: Some(0.0),
            ..Sampling::default()
        };
        let mut request = self.options.request(dialect, sampling);
        if let Some(min_tokens) = asking.min_tokens {
            let extra = request.extra_body.get_or_insert_default();
            extra.entry("min_tokens").or_insert(min_tokens.into());
        }
        request
    }

    fn finish(
        &mut self,
        facts: ServerFacts,
        tool_calls: Option<ToolPreflight>,
        reasoning: Option<ReasoningPreflight>,
    ) -> Preflight {
        let endpoint = &self.client.options().endpoint;
        let mut notices = notices(&self.control, self.last_request.as_deref(), &self.cells);
        let silenced = self.silenced.take();
        notices.extend(silenced.map(|(constraint, dialect)| {
            PreflightNotice::ThinkingSuppressed {
                constraint,
                dialect,
            }
            .into()
        }));
        let dropped = self
            .dropped_tools
            .map(|tokens| PreflightNotice::ToolsDropped { tokens });
        notices.extend(dropped.map(Notice::from));
        let rows = tool_calls.as_ref().map(ToolPreflight::differences);
        let rows = rows.filter(|rows| !rows.is_empty());
        notices.extend(rows.map(|rows| PreflightNotice::ToolCallsDiffer { rows }.into()));
        if self.options.extent == Extent::Whole {
            notices.extend(fixed_engine(&facts, &self.cells));
        }
        let tested = std::mem::take(&mut self.tested_dialects);
        let is_untested = |dialect: &&ConstraintDialect| !tested.contains(dialect);
        let untested = self.options.dialects.iter().filter(is_untested);
        Preflight {
            untested: untested.copied().collect(),
            record: PreflightConditions {
                backend: self.options.backend,
                base_url: endpoint.base_url.clone(),
                path: endpoint.path.clone(),
                model: self.options.model.clone(),
                seed: self.options.seed,
                output_len: self.options.output_len,
                prompt: self.asking.prompt.clone(),
                stream: self.options.stream,
                kinds: self.options.kinds.clone(),
                dialects: tested,
                notation: self.options.notation,
            },
            facts,
            control: self.control.clone(),
            cells: std::mem::take(&mut self.cells),
            spelling: None,
            tool_calls,
            reasoning,
            wire: None,
            requests: self.requests,
            notices,
        }
    }
}

/// The same request without the constraint fields of `--extra-body`.
fn without_constraint(mut request: BodySettings) -> BodySettings {
    if let Some(extra) = &mut request.extra_body {
        extra.retain(|field, value| !ConstraintDialect::constrains(field, value));
    }
    request
}

/// Notices for the reader.
fn notices(control: &Control, last_request: Option<&str>, cells: &[Cell]) -> Vec<Notice> {
    let failed = control
        .failure
        .as_ref()
        .map(|failure| PreflightNotice::ControlFailed {
            why: failure.reason.clone(),
        });
    let last_request = last_request.map(|last| PreflightNotice::ServerGone {
        last_request: last.to_owned(),
    });
    let white_space_runaway = cells
        .iter()
        .find(|cell| cell.finding.cause == Some(Cause::WhiteSpaceRunAway));
    let white_space_runaway = white_space_runaway.map(|cell| PreflightNotice::WhiteSpaceRunaway {
        constraint: cell.label(),
        dialect: cell.dialect,
    });
    [failed, last_request, white_space_runaway]
        .into_iter()
        .flatten()
        .map(Notice::from)
        .collect()
}

/// Notice that a vLLM server in `auto` may have fixed its engine because of the preflight. A
/// constraint without an effect has not been compiled.
fn fixed_engine(facts: &ServerFacts, cells: &[Cell]) -> Option<Notice> {
    let first = cells
        .iter()
        .find(|cell| matches!(cell.finding.class, Class::Enforced | Class::Partial))?;
    facts.is_vllm().then(|| {
        PreflightNotice::EngineFixedByPreflight {
            constraint: first.label(),
            dialect: first.dialect,
        }
        .into()
    })
}

/// Whether the server has `min_tokens` in its OpenAI-compatible endpoints. `ignore_eos` is no
/// substitute: after the constraint is complete, servers write unconstrained text.
fn takes_min_tokens(facts: &ServerFacts) -> bool {
    let products = [ServerKind::Vllm, ServerKind::Sglang].map(ServerKind::product);
    facts.product.is_some() && products.contains(&facts.product)
}

fn envelopes_of(body: &[u8], constraint: &Constraint) -> Vec<Envelope> {
    match (constraint.schema(), serde_json::from_slice::<Value>(body)) {
        (Some(schema), Ok(request)) => envelopes(&request, schema),
        _ => Vec::new(),
    }
}

fn other_notation(notation: GrammarDialect) -> GrammarDialect {
    match notation {
        GrammarDialect::Ebnf => GrammarDialect::Lark,
        GrammarDialect::Lark => GrammarDialect::Ebnf,
    }
}
