//! The server of a run: starts the embedded server or connects to a running one, and resolves
//! `auto`.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::commands::bench::options::{RunPlan, ServerTarget, Target};
use sobench_backend::identify::{Server, identify};
use sobench_backend::{Adapter, BodySettings, ConstraintDialect, Product};
use sobench_client::{self, Client, ClientSettings, Endpoint, Limits, ModelInfo};
use sobench_core::case::Case;
use sobench_core::constraint::{Constraint, GrammarDialect, GrammarSpelling};
use sobench_core::error::{Error, Result};
use sobench_core::shard::Shard;
use sobench_core::speed::Speed;
use sobench_data::dataset::Source;
use sobench_embedded::{self, EmbeddedServer, EmbeddedSettings, Knowledge, SYNTHETIC_MODEL};
use sobench_engine::Route;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::{Engine, EngineChoice, EngineWork, Settings};
use sobench_shutdown::Shutdown;

/// Requests to the embedded server carry their number, so that the same run gets the same answers.
const EMBEDDED_REQUEST_ID_PREFIX: &str = "sobench-";

/// The hint if no server answers at the default address.
pub const DEFAULT_ADDRESS_HINT: &str = "--model alone asks the server at http://127.0.0.1:8000: \
    give its address with --base-url, or leave --model out to measure the embedded server";

/// A server, and how this run talks to it.
pub struct Session {
    pub client: Client,
    pub base_url: String,
    /// Whether the address is the default one, because only --model names a server.
    pub is_default_address: bool,
    pub path: String,
    /// The model name in requests.
    pub model: String,
    /// The model name in results.
    pub model_id: String,
    pub dialect: ConstraintDialect,
    pub grammar_dialect: GrammarDialect,
    /// How grammars in the other notation are sent.
    pub grammar_spelling: GrammarSpelling,
    pub server_version: Option<String>,
    pub engine_choice: EngineChoice,
    /// The product that the owner of the model names.
    pub product: Option<Product>,
    /// See [`BodySettings::max_tokens_only`].
    pub max_tokens_only: bool,
    /// Notices for the reader.
    pub notices: Vec<Notice>,
    /// The speed of the synthetic model, if it is known.
    pub speed: Option<Speed>,
    /// The identified server.
    server: Server,
    /// Dropping it stops the server.
    embedded: Option<EmbeddedServer>,
    /// The engine of a running `sobench serve`.
    served: Option<Engine>,
}

impl Session {
    /// Starts the embedded server, or waits for the running one.
    ///
    /// # Errors
    /// No server answers, the server cannot be sent what the plan requests, or it was stopped.
    pub fn open(
        target: &Target,
        settings: &Settings<Source>,
        part: Shard,
        runtime: &Runtime,
        shutdown: &Shutdown,
    ) -> Result<Self> {
        match target {
            Target::Embedded(options) => Self::embedded(settings, options),
            Target::Server(target) => {
                let client = client(settings, part, target.endpoint.clone(), None)?;
                runtime.block_on(async {
                    tokio::select! {
                        opened = Self::running(settings, client, target) => opened,
                        () = shutdown.drain_requested() => Err(Error::interrupted("stopped while waiting for the server").hint("nothing was measured")),
                    }
                })
            }
        }
    }

    /// Whether the server was started for this run.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Whether it is a vLLM server, whose first constrained request fixes its engine in `auto`.
    pub fn is_vllm(&self) -> bool {
        self.server.is_vllm()
    }

    /// Takes over the token limit and the dialect of the chosen request.
    pub fn adopt(&mut self, request: &BodySettings) {
        self.max_tokens_only = request.max_tokens_only;
        if request.dialect != self.dialect {
            self.dialect = request.dialect;
            let engine = request.guided_decoding_backend.as_deref();
            (self.engine_choice, self.notices) =
                engine_and_notices(engine, self.server, self.dialect);
        }
    }

    /// Whether the answers are of the synthetic model: of the embedded server, or of `sobench
    /// serve`.
    pub fn is_synthetic(&self) -> bool {
        self.server == Server::Embedded
    }

    /// The engine that the embedded `auto` chooses for a constraint; `None` for other engines.
    pub fn route(&self, constraint: &Constraint) -> Option<Route> {
        self.embedded.as_ref()?.route(constraint)
    }

    /// The embedded engine with its work so far, or the engine of `sobench serve`; `None` for other
    /// servers.
    pub fn engine(&self) -> Option<Engine> {
        let Some(embedded) = &self.embedded else {
            return self.served.clone();
        };
        let stats = embedded.stats();
        let us = |ns: u64| ns as f64 / 1e3;
        Some(Engine {
            name: stats.engine,
            version: Some(stats.engine_version),
            settings: stats.settings,
            work: Some(EngineWork {
                cache_hits: stats.cache_hits,
                cache_misses: stats.cache_misses,
                max_batch: stats.max_batch,
                largest_batch: stats.largest_batch,
                steps: stats.steps,
                masks: stats.masks,
                mask_p50_us: stats.mask_ns.map(|times| us(times.p50)),
                mask_p99_us: stats.mask_ns.map(|times| us(times.p99)),
            }),
        })
    }

    fn embedded(settings: &Settings<Source>, options: &EmbeddedSettings) -> Result<Self> {
        let embedded = EmbeddedServer::start(EmbeddedSettings {
            seed: settings.dataset.seed,
            ..options.clone()
        })?;
        let endpoint = Endpoint {
            base_url: embedded.base_url().to_owned(),
            path: settings.backend.default_path().to_owned(),
            kind: settings.backend,
            ..Endpoint::default()
        };
        let prefix = Some(EMBEDDED_REQUEST_ID_PREFIX);
        let (server, constraint) = (Server::Embedded, &settings.constraint);
        let notation = embedded.grammar_dialect();
        let notation = notation.unwrap_or(server.grammar_dialect());
        Ok(Self {
            client: client(settings, Shard::WHOLE, endpoint.clone(), prefix)?,
            base_url: endpoint.base_url,
            is_default_address: false,
            path: endpoint.path,
            model: SYNTHETIC_MODEL.to_owned(),
            model_id: SYNTHETIC_MODEL.to_owned(),
            dialect: constraint
                .dialect
                .unwrap_or(server.constraint_dialect(settings.backend)),
            grammar_dialect: constraint.grammar_dialect.unwrap_or(notation),
            grammar_spelling: match constraint.grammar_dialect {
                None if embedded.grammar_dialects().len() != 1 => GrammarSpelling::AsWritten,
                _ => GrammarSpelling::Converted,
            },
            server_version: Some(sobench_embedded::VERSION.to_owned()),
            engine_choice: match &constraint.guided_decoding_backend {
                Some(name) => EngineChoice::Selected(name.clone()),
                None => EngineChoice::None,
            },
            product: None,
            max_tokens_only: false,
            notices: std::iter::once(BenchNotice::SyntheticModel { embedded: true })
                .chain(options.knowledge.map(planted_knowledge))
                .map(Notice::from)
                .collect(),
            speed: Some(options.speed),
            server,
            embedded: Some(embedded),
            served: None,
        })
    }

    /// Gives the references of the cases to the embedded server, if its model is to know them.
    ///
    /// # Errors
    /// No case has a reference, or a case cannot be encoded.
    pub fn learn(
        &self,
        cases: &[Case],
        adapter: &dyn Adapter,
        request: &BodySettings,
    ) -> Result<()> {
        let Some(embedded) = &self.embedded else {
            return Ok(());
        };
        embedded.learn(cases, &self.path, |case| {
            let encoded = adapter.encode(case, request);
            encoded.map_err(|unsendable| unsendable.into_error(case))
        })
    }

    async fn running(
        settings: &Settings<Source>,
        client: Client,
        target: &ServerTarget,
    ) -> Result<Self> {
        let ServerTarget {
            endpoint,
            is_default_address,
            model,
            served_model_name,
            ready_timeout,
        } = target;
        sobench_client::wait_ready(&client, *ready_timeout)
            .await
            .map_err(|error| {
                if *is_default_address {
                    error.hint(DEFAULT_ADDRESS_HINT)
                } else {
                    error
                }
            })?;
        let listed =
            listed_model(&client, model.as_deref().or(served_model_name.as_deref())).await?;
        let model = model
            .clone()
            .or_else(|| listed.as_ref().map(|first| first.id.clone()))
            .or_else(|| served_model_name.clone())
            .expect("a server without a listed model was refused");
        let server_version = sobench_client::server_version(&client).await;
        let owned_by = listed.as_ref().and_then(|first| first.owned_by.as_deref());
        let server = identify(settings.backend, server_version.as_deref(), owned_by);
        let product = owned_by.and_then(Product::by_owner);
        let constraint = &settings.constraint;
        let dialect = constraint
            .dialect
            .unwrap_or(server.constraint_dialect(settings.backend));
        let engine = constraint.guided_decoding_backend.as_deref();
        let (engine_choice, notices) = engine_and_notices(engine, server, dialect);
        let served = match server {
            Server::Embedded => served(&client).await,
            _ => None,
        };
        let (served, speed) = served.unzip();
        let notation = constraint.grammar_dialect;
        Ok(Self {
            client,
            base_url: endpoint.public_base_url(),
            is_default_address: *is_default_address,
            path: endpoint.path.clone(),
            model: served_model_name.clone().unwrap_or_else(|| model.clone()),
            model_id: model,
            dialect,
            grammar_dialect: notation.unwrap_or(server.grammar_dialect()),
            grammar_spelling: server.grammar_spelling(dialect, notation),
            server_version,
            engine_choice,
            product,
            max_tokens_only: settings.backend.sends_max_completion_tokens()
                && product.is_some_and(Product::reads_max_tokens_only),
            notices,
            speed: speed.flatten(),
            server,
            embedded: None,
            served,
        })
    }
}

/// The options that all requests share.
pub(crate) fn request_options(
    settings: &Settings<Source>,
    model: String,
    dialect: ConstraintDialect,
) -> BodySettings {
    BodySettings {
        model,
        stream: settings.request.stream,
        sampling: settings.request.sampling.clone(),
        ignore_eos: settings.request.ignore_eos,
        dialect,
        guided_decoding_backend: settings.constraint.guided_decoding_backend.clone(),
        thinking: settings.backend.thinking_switch_for(&settings.dataset.arms),
        max_tokens_only: false,
        extra_body: settings.request.extra_body.clone(),
    }
}

fn client(
    settings: &Settings<Source>,
    part: Shard,
    endpoint: Endpoint,
    request_id_prefix: Option<&str>,
) -> Result<Client> {
    Client::new(ClientSettings {
        endpoint,
        max_concurrency: settings.load.max_concurrency.map(|cap| part.share(cap)),
        request_timeout: Some(settings.load.request_timeout),
        idle_timeout: settings.load.idle_timeout,
        request_id_prefix: settings
            .request
            .request_id_prefix
            .clone()
            .or_else(|| request_id_prefix.map(str::to_owned)),
        session_header: settings.request.session_header.clone(),
        part,
        keeps_frames: settings.request.wire,
        limits: Limits {
            drain_timeout: settings.load.drain_timeout,
            ..Limits::default()
        },
    })
}

impl RunPlan {
    /// A client for requests outside the run, such as a readiness check.
    ///
    /// # Errors
    /// The server has no address yet.
    pub(crate) fn plain_client(&self) -> Result<Client> {
        let endpoint = self
            .endpoint()
            .ok_or_else(|| Error::internal("a server that is started has an address"))?;
        Client::new(ClientSettings::with_defaults(endpoint.clone()))
    }
}

/// The engine that `sobench serve` reports at `/version`, with its settings, and the speed of its
/// model.
async fn served(client: &Client) -> Option<(Engine, Option<Speed>)> {
    #[derive(Deserialize)]
    struct Version {
        engine: String,
        engine_version: Option<String>,
        #[serde(default)]
        settings: BTreeMap<String, String>,
        /// Not typed, because a profile of another version may be unknown.
        #[serde(default)]
        speed: Value,
    }
    let page = sobench_client::get_path(client, "/version").await?;
    let version: Version = serde_json::from_str(&page.body).ok()?;
    let engine = Engine {
        name: version.engine,
        version: version.engine_version,
        settings: version.settings.into_iter().collect(),
        work: None,
    };
    Some((engine, serde_json::from_value(version.speed).ok()))
}

/// The listed model: the named one if it is listed, else the first. A named model does not have to
/// be listed.
async fn listed_model(client: &Client, named: Option<&str>) -> Result<Option<ModelInfo>> {
    match (sobench_client::list_models(client).await, named) {
        (Ok(models), named) => {
            let known = models
                .iter()
                .position(|model| Some(model.id.as_str()) == named)
                .unwrap_or(0);
            Ok(models.into_iter().nth(known))
        }
        (Err(_), Some(_)) => Ok(None),
        (Err(error), None) => Err(error),
    }
}

/// The engine choice, and the notices that follow from the server and the dialect.
fn engine_and_notices(
    engine: Option<&str>,
    server: Server,
    dialect: ConstraintDialect,
) -> (EngineChoice, Vec<Notice>) {
    // This version of the server is known to drop the field.
    let ignored: Option<Notice> = server
        .version_ignoring(dialect)
        .map(|server| BenchNotice::DialectIgnored { server, dialect }.into());
    let is_sent = ignored.is_none() && server.accepts_engine() && dialect.names_engine();
    let (choice, declared) = declared_engine(engine, is_sent);
    let ours = (server == Server::Embedded)
        .then(|| BenchNotice::SyntheticModel { embedded: false }.into());
    let notices = ours.into_iter().chain(declared).chain(ignored);
    (choice, notices.collect())
}

fn planted_knowledge(knowledge: Knowledge) -> BenchNotice {
    BenchNotice::PlantedKnowledge {
        free: knowledge.free,
        prompt: knowledge.prompt,
        constrained: knowledge.constrained,
        correlation: knowledge.correlation,
    }
}

/// Only the guided dialect has a field for the engine; elsewhere the user's engine is recorded as
/// declared.
fn declared_engine(engine: Option<&str>, is_sent: bool) -> (EngineChoice, Option<Notice>) {
    let Some(engine) = engine.map(str::to_owned) else {
        return (EngineChoice::None, None);
    };
    if is_sent {
        return (EngineChoice::Selected(engine), None);
    }
    let notice = BenchNotice::EngineDeclared {
        engine: engine.clone(),
    };
    (EngineChoice::Declared(engine), Some(notice.into()))
}
