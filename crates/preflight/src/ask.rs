//! Puts the questions to a server, one after the other. Knows neither flags nor rendering.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::classify::{Control, Evidence, classify};
use super::envelope::{Envelope, envelopes};
use super::question::{Question, Words, control_case, spelling_question};
use super::{Cell, Preflight, PreflightConditions};
use sobench_backend::{
    Adapter, ConstraintDialect, Product, RequestOptions, Sampling, ServerKind, adapter,
};
use sobench_client::{self as driver, Client, DriverOptions};
use sobench_core::case::Case;
use sobench_core::constraint::{Constraint, GrammarDialect};
use sobench_core::error::{Error, Result};
use sobench_core::observation::{Observation, Outcome, TransportCause};
use sobench_core::printable::printable_body;
use sobench_core::verdict::Verdict;
use sobench_judge::{EvaluateOptions, Evaluator};
use sobench_notices::enforcement::{Cause, Class, Finding, Kind, Page, ServerFacts, Spelling};
use sobench_notices::notice::{Notice, PreflightNotice};
use sobench_shutdown::Shutdown;

/// The most tokens of a first answer: enough for every text that is allowed, a letter a token.
pub const DEFAULT_OUTPUT_LEN: u32 = 64;

/// How long a question may take unless told otherwise: a first compile has taken 12 s on a real
/// server.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// How much more room a question gets that was cut before it proved anything: a model may reason
/// before it answers.
const MORE_ROOM: u32 = 16;

/// How much more room the question of spelling gets: it has three members.
const SPELLING_ROOM: u32 = 4;

/// How much of a server's words an error quotes.
const QUOTED_CHARS: usize = 400;

/// What is asked, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    pub backend: ServerKind,
    /// The model's name as the server knows it.
    pub model: String,
    /// In the order in which they are asked.
    pub kinds: Vec<Kind>,
    /// In the order in which they are asked, the one that `auto` means first.
    pub dialects: Vec<ConstraintDialect>,
    /// The notation in which grammars are asked first. The other one is asked only where the server
    /// refuses this one: some servers die of a grammar that they cannot read.
    pub notation: GrammarDialect,
    pub seed: u64,
    /// The most tokens of a first answer.
    pub output_len: u32,
    /// Whether answers are asked for as streams, as the runs do that are to follow.
    pub stream: bool,
    /// Sent in the `guided` dialect, as `--guided-decoding-backend` is.
    pub guided_decoding_backend: Option<String>,
    /// Merged into every body, as `--extra-body` is. Fields of it that constrain are left out of
    /// the control.
    pub extra_body: Option<Map<String, Value>>,
    /// The most that one question may take.
    pub timeout: Duration,
    pub extent: Extent,
}

impl Options {
    /// What every request in a dialect has in common.
    pub(super) fn request(&self, dialect: ConstraintDialect, sampling: Sampling) -> RequestOptions {
        RequestOptions {
            model: self.model.clone(),
            stream: self.stream,
            sampling,
            ignore_eos: false,
            dialect,
            guided_decoding_backend: self.guided_decoding_backend.clone(),
            extra_body: self.extra_body.clone(),
        }
    }
}

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Everything: what the server says of itself, grammars in the second notation, how JSON is
    /// spelt.
    Whole,
    /// What a run has to know: a grammar in the one notation, and no dialect more after one that
    /// enforces every kind.
    BeforeRun,
}

/// Asks everything, until the first shutdown request. `told` hears of each cell as it is found.
///
/// # Errors
/// Environment errors with the server's own words: nobody answers, or the very same request is
/// refused without a constraint, so that nothing could be told of constraints. Stopped by the user.
pub async fn run(
    client: &Client,
    options: &Options,
    shutdown: &Shutdown,
    mut told: impl FnMut(&Cell),
) -> Result<Preflight> {
    let client = Client::new(DriverOptions {
        request_timeout: Some(options.timeout),
        idle_timeout: None,
        ..client.options().clone()
    })?;
    let is_whole = options.extent == Extent::Whole;
    let mut asking = Asking {
        adapter: Arc::from(adapter(options.backend)),
        words: Words::new(options.seed),
        evaluator: Evaluator::new(EvaluateOptions::default()),
        control: Control {
            answer: None,
            failure: None,
        },
        requests: 0,
        gone: None,
        cells: Vec::new(),
        asked: Vec::new(),
        options,
        client,
        shutdown: shutdown.clone(),
    };
    asking.ask_control().await?;
    let facts = self::facts(&asking.client).await;
    for dialect in &options.dialects {
        asking.asked.push(*dialect);
        for kind in &options.kinds {
            let before = asking.cells.len();
            asking.ask_kind(*kind, *dialect).await?;
            asking.cells[before..].iter().for_each(&mut told);
        }
        let of_dialect = |cell: &&Cell| cell.dialect == *dialect;
        if !is_whole
            && asking
                .cells
                .iter()
                .filter(of_dialect)
                .all(|cell| cell.finding.class == Class::Enforced)
        {
            break;
        }
    }
    let mut preflight = asking.finish(facts);
    if is_whole || options.kinds.contains(&Kind::Json) {
        asking.ask_spelling(&mut preflight).await?;
    }
    preflight.requests = asking.requests;
    Ok(preflight)
}

/// What the server says of itself. The first question that gets no answer at all ends the asking: a
/// server that hangs would hang on every page.
pub async fn facts(client: &Client) -> ServerFacts {
    let mut pages = Vec::new();
    for path in Product::page_paths() {
        let Some(driver::Page {
            status,
            server,
            body,
        }) = driver::page(client, path).await
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
    ServerFacts::read(&pages)
}

struct Asking<'a> {
    client: Client,
    shutdown: Shutdown,
    adapter: Arc<dyn Adapter>,
    options: &'a Options,
    words: Words,
    evaluator: Evaluator,
    control: Control,
    requests: usize,
    /// What was asked last before the server was gone.
    gone: Option<String>,
    cells: Vec<Cell>,
    /// The dialects that were asked.
    asked: Vec<ConstraintDialect>,
}

impl Asking<'_> {
    /// The request without a constraint.
    async fn ask_control(&mut self) -> Result<()> {
        // No constraint is sent, so any dialect does.
        let dialect = self
            .options
            .dialects
            .first()
            .copied()
            .unwrap_or(ConstraintDialect::ResponseFormat);
        let mut request = self.request(dialect);
        if let Some(extra) = &mut request.extra_body {
            extra.retain(|field, value| !ConstraintDialect::constrains(field, value));
        }
        let seen = self
            .send(&control_case(self.options.output_len), &request)
            .await?;
        if let Some(error) = self.unusable(&seen.outcome) {
            return Err(error);
        }
        self.control = Control::of(&seen);
        Ok(())
    }

    /// An outcome after which there is no use in asking about constraints.
    fn unusable(&self, outcome: &Outcome) -> Option<Error> {
        let place = self.client.url();
        let error = |why: &str| {
            Error::environment(format!(
                "preflight got no answer without a constraint from {place}: {why}"
            ))
        };
        match outcome {
            Outcome::Rejected { status, body, .. } => {
                let hint = match status {
                    401 | 403 => "set OPENAI_API_KEY, or give the header with --header",
                    404 => {
                        "check --model against /v1/models, and --endpoint and --backend against the server"
                    }
                    _ => {
                        "the server refuses the request as such: its words say why; --extra-body changes fields"
                    }
                };
                Some(error(&format!("{status} {}", printable_body(body, QUOTED_CHARS))).hint(hint))
            }
            Outcome::Transport {
                cause: TransportCause::Connect,
                message,
            } => Some(error(message).hint("is the server up? say where with --base-url")),
            Outcome::TimedOut { limit_ms, .. } => Some(
                error(&format!("nothing within {limit_ms} ms"))
                    .hint("raise --request-timeout, or look at the server"),
            ),
            _ => None,
        }
    }

    /// One kind in one dialect; a grammar that is refused in one notation is tried in the other.
    async fn ask_kind(&mut self, kind: Kind, dialect: ConstraintDialect) -> Result<()> {
        let first = self.options.notation;
        let class = self.ask_cell(kind, first, dialect).await?;
        if kind == Kind::Grammar && class == Class::Rejected && self.options.extent == Extent::Whole
        {
            self.ask_cell(kind, other(first), dialect).await?;
        }
        Ok(())
    }

    async fn ask_cell(
        &mut self,
        kind: Kind,
        notation: GrammarDialect,
        dialect: ConstraintDialect,
    ) -> Result<Class> {
        let mut asked_again = false;
        let finding = match &self.gone {
            Some(last) => Finding::new(
                Class::NotAsked,
                format!("the server takes no connections since it was asked {last}"),
            ),
            None => {
                let (finding, cut) = self
                    .ask_once(kind, notation, dialect, self.options.output_len)
                    .await?;
                if finding.class == Class::Unproven && cut {
                    asked_again = true;
                    self.ask_once(
                        kind,
                        notation,
                        dialect,
                        self.options.output_len.saturating_mul(MORE_ROOM),
                    )
                    .await?
                    .0
                } else {
                    finding
                }
            }
        };
        let class = finding.class;
        let notation = (kind == Kind::Grammar).then_some(notation);
        self.cells.push(Cell {
            kind,
            notation,
            dialect,
            finding,
            asked_again,
        });
        Ok(class)
    }

    /// Draws a question, asks it, judges the answer; also whether the answer was cut at the token
    /// limit.
    async fn ask_once(
        &mut self,
        kind: Kind,
        notation: GrammarDialect,
        dialect: ConstraintDialect,
        output_len: u32,
    ) -> Result<(Finding, bool)> {
        let question = Question::draw(kind, notation, &mut self.words);
        let case = question.case(output_len);
        let request = self.request(dialect);
        let envelopes = match self.adapter.encode(&case, &request) {
            Err(unsendable) => {
                return Ok((Finding::new(Class::NotCarried, unsendable.what), false));
            }
            Ok(body) => self::envelopes_of(&body, &question.constraint),
        };
        let seen = self.send(&case, &request).await?;
        if let Outcome::Transport {
            cause: TransportCause::Connect,
            message,
        } = &seen.outcome
        {
            let last = self
                .cells
                .iter()
                .rfind(|cell| cell.finding.class != Class::NotCarried);
            let last = last.map_or("without a constraint".to_owned(), |cell| {
                format!("{} in {}", cell.label(), cell.dialect)
            });
            let words =
                format!("the server takes no connections since it was asked {last}: {message}");
            self.gone = Some(last);
            return Ok((Finding::new(Class::NotAsked, words), false));
        }
        let evidence = Evidence {
            question: &question,
            observation: &seen,
            control: &self.control,
            envelopes: &envelopes,
        };
        Ok((
            classify(&evidence, &mut self.evaluator),
            seen.outcome == Outcome::Truncated,
        ))
    }

    /// How JSON is spelt, where a dialect enforces schemas.
    async fn ask_spelling(&mut self, preflight: &mut Preflight) -> Result<()> {
        let enforces = |dialect: &&ConstraintDialect| {
            preflight
                .verdict_for(Kind::Json, **dialect)
                .is_some_and(|cell| cell.finding.class == Class::Enforced)
        };
        let Some(dialect) = self
            .options
            .dialects
            .iter()
            .find(enforces)
            .filter(|_| self.gone.is_none())
        else {
            return Ok(());
        };
        let (question, names) = spelling_question(&mut self.words);
        let case = question.case(self.options.output_len.saturating_mul(SPELLING_ROOM));
        let seen = self.send(&case, &self.request(*dialect)).await?;
        match self
            .evaluator
            .judge_text(&question.judged_by, None, &seen.answer.text())
        {
            Verdict::Valid => {
                preflight.spelling = Some(Spelling::read(&seen.answer.text(), &names))
            }
            _ => preflight.notices.push(
                PreflightNotice::SpellingUnknown {
                    outcome: seen.outcome.name().to_owned(),
                }
                .into(),
            ),
        }
        Ok(())
    }

    async fn send(&mut self, case: &Case, request: &RequestOptions) -> Result<Observation> {
        let label = format!("preflight-{}", self.requests);
        self.requests += 1;
        let adapter = Arc::clone(&self.adapter);
        let seen =
            driver::send_one(&self.client, adapter, request, case, &label, &self.shutdown).await?;
        if self.shutdown.is_requested() {
            return Err(
                Error::interrupted("stopped during the preflight").hint("nothing was measured")
            );
        }
        Ok(seen)
    }

    fn request(&self, dialect: ConstraintDialect) -> RequestOptions {
        self.options.request(
            dialect,
            Sampling {
                temperature: Some(0.0),
                ..Sampling::default()
            },
        )
    }

    fn finish(&mut self, facts: ServerFacts) -> Preflight {
        let endpoint = &self.client.options().endpoint;
        let mut notices = notices(&self.control, self.gone.as_deref(), &self.cells);
        if self.options.extent == Extent::Whole {
            notices.extend(fixed_engine(&facts, &self.cells));
        }
        Preflight {
            about: PreflightConditions {
                backend: self.options.backend,
                base_url: endpoint.base_url.clone(),
                path: endpoint.path.clone(),
                model: self.options.model.clone(),
                seed: self.options.seed,
                output_len: self.options.output_len,
                stream: self.options.stream,
                kinds: self.options.kinds.clone(),
                dialects: std::mem::take(&mut self.asked),
                notation: self.options.notation,
            },
            facts,
            control: self.control.clone(),
            cells: std::mem::take(&mut self.cells),
            spelling: None,
            requests: self.requests,
            notices,
        }
    }
}

/// What the reader has to know besides the cells.
fn notices(control: &Control, gone: Option<&str>, cells: &[Cell]) -> Vec<Notice> {
    let failed = control
        .failure
        .as_ref()
        .map(|failure| PreflightNotice::ControlFailed {
            why: failure.words.clone(),
        });
    let gone = gone.map(|last| PreflightNotice::ServerGone {
        last_request: last.to_owned(),
    });
    let ran_away = cells
        .iter()
        .find(|cell| cell.finding.cause == Some(Cause::WhiteSpaceRunAway));
    let ran_away = ran_away.map(|cell| PreflightNotice::WhiteSpaceRunaway {
        constraint: cell.label(),
        dialect: cell.dialect,
    });
    [failed, gone, ran_away]
        .into_iter()
        .flatten()
        .map(Notice::from)
        .collect()
}

/// What a vLLM server in `auto` may have done because of us.
fn fixed_engine(facts: &ServerFacts, cells: &[Cell]) -> Option<Notice> {
    let first = cells
        .iter()
        .find(|cell| !matches!(cell.finding.class, Class::NotCarried | Class::NotAsked))?;
    facts.is_vllm().then(|| {
        PreflightNotice::EngineFixedByPreflight {
            constraint: first.label(),
            dialect: first.dialect,
        }
        .into()
    })
}

fn envelopes_of(body: &[u8], constraint: &Constraint) -> Vec<Envelope> {
    match (constraint, serde_json::from_slice::<Value>(body)) {
        (Constraint::JsonSchema(schema), Ok(request)) => envelopes(&request, schema),
        _ => Vec::new(),
    }
}

fn other(notation: GrammarDialect) -> GrammarDialect {
    match notation {
        GrammarDialect::Ebnf => GrammarDialect::Lark,
        GrammarDialect::Lark => GrammarDialect::Ebnf,
    }
}
