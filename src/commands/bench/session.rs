//! Who answers: starts the embedded server or asks a running one what it is, and settles what was left to `auto`. Knows neither
//! datasets nor verdicts.

use std::collections::BTreeMap;

use serde::Deserialize;
use tokio::runtime::Runtime;

use crate::backend::identify::{Server, identify};
use crate::backend::{ConstraintDialect, RequestOptions};
use crate::commands::bench::options::{RunPlan, ServerTarget, Target};
use crate::commands::flags::embedded::Pace;
use crate::constraint::{Constraint, GrammarDialect, GrammarSpelling};
use crate::driver::{self, Client, DriverOptions, Endpoint, Limits, ModelInfo};
use crate::engine::{EngineName, EnginePolicy, Route};
use crate::error::{Error, Result};
use crate::record::{ConstraintSettings, Engine, EngineChoice, EngineWork, Settings};
use crate::server::{self, EmbeddedOptions, EmbeddedServer, SYNTHETIC_MODEL};
use crate::shutdown::Shutdown;

/// Requests to the embedded server carry their number, so that the same run gets the same answer to each of them.
const EMBEDDED_REQUEST_ID_PREFIX: &str = "sobench-";

/// A server that is there, and how this run speaks to it.
pub struct Session {
    pub client: Client,
    pub base_url: String,
    pub path: String,
    /// The name that requests ask for.
    pub model: String,
    /// The name that results are filed under.
    pub model_id: String,
    pub dialect: ConstraintDialect,
    pub grammar_dialect: GrammarDialect,
    /// What becomes of grammars in the other notation.
    pub grammar_spelling: GrammarSpelling,
    pub server_version: Option<String>,
    pub engine_choice: EngineChoice,
    /// Things found out that the reader of the result has to know.
    pub notices: Vec<String>,
    /// What it is taken for, by its kind and its own words.
    server: Server,
    /// Kept for as long as the run: dropping it stops the server.
    embedded: Option<EmbeddedServer>,
    /// What a server of ours that runs elsewhere says of its engine.
    served: Option<Engine>,
}

impl Session {
    /// Makes sure that somebody answers, and waits for that until stopped.
    ///
    /// # Errors
    /// Nobody does, or the plan asks for what this server cannot be sent; it was stopped.
    pub fn open(plan: &RunPlan, runtime: &Runtime, shutdown: &Shutdown) -> Result<Self> {
        match &plan.target {
            Target::Embedded { engine, policy, pace } => Self::embedded(plan, *engine, policy, *pace),
            Target::Server(target) => {
                let client = client(plan, target.endpoint.clone(), None)?;
                runtime.block_on(async {
                    tokio::select! {
                        opened = Self::running(plan, client, target) => opened,
                        () = shutdown.drain_requested() => Err(Error::interrupted("stopped while a server was waited for").hint("nothing was measured")),
                    }
                })
            }
        }
    }

    /// Whether the server was started for this run.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Whether it is a vLLM server, which in `auto` fixes its engine by the first constrained request of its life.
    pub fn is_vllm(&self) -> bool {
        matches!(self.server, Server::Vllm { .. })
    }

    /// Speaks another dialect to a server that runs, from now on.
    pub fn speak(&mut self, constraint: &ConstraintSettings, dialect: ConstraintDialect) {
        self.dialect = dialect;
        (self.engine_choice, self.notices) = known_of(constraint.guided_decoding_backend.as_deref(), self.server, dialect);
    }

    /// Whether the answers come from our own synthetic model: from the embedded server, or from one that `sobench serve` runs.
    pub fn is_synthetic(&self) -> bool {
        self.server == Server::Embedded
    }

    /// Where the embedded `auto` sends a constraint; `None` for every other engine.
    pub fn route(&self, constraint: &Constraint) -> Option<Route> {
        self.embedded.as_ref()?.route(constraint)
    }

    /// The decoding engine of this process, with what it has done so far, or the one that `sobench serve` names; `None` where
    /// another server decodes.
    pub fn engine(&self) -> Option<Engine> {
        let Some(embedded) = &self.embedded else { return self.served.clone() };
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

    /// What every request of the run has in common.
    pub fn request_options(&self, settings: &Settings) -> RequestOptions {
        RequestOptions {
            model: self.model.clone(),
            stream: settings.request.stream,
            sampling: settings.request.sampling.clone(),
            ignore_eos: settings.request.ignore_eos,
            dialect: self.dialect,
            guided_decoding_backend: settings.constraint.guided_decoding_backend.clone(),
            extra_body: settings.request.extra_body.clone(),
        }
    }

    fn embedded(plan: &RunPlan, engine: EngineName, policy: &EnginePolicy, pace: Pace) -> Result<Self> {
        let embedded = EmbeddedServer::start(EmbeddedOptions {
            engine,
            seed: plan.settings.dataset.seed,
            policy: policy.clone(),
            ttft_ms: pace.ttft_ms,
            itl_ms: pace.itl_ms,
            step_ms: pace.step_ms,
            max_batch: pace.max_batch,
            compile_timeout_s: pace.compile_timeout_s,
            ..EmbeddedOptions::default()
        })?;
        let endpoint = Endpoint {
            base_url: embedded.base_url().to_owned(),
            path: plan.settings.backend.default_path().to_owned(),
            headers: Vec::new(),
            api_key: None,
            insecure: false,
        };
        let dialect = plan.settings.constraint.dialect.unwrap_or(Server::Embedded.constraint_dialect());
        let notation = embedded.grammar_dialect().unwrap_or(Server::Embedded.grammar_dialect());
        Ok(Self {
            client: client(plan, endpoint.clone(), Some(EMBEDDED_REQUEST_ID_PREFIX))?,
            base_url: endpoint.base_url,
            path: endpoint.path,
            model: SYNTHETIC_MODEL.to_owned(),
            model_id: SYNTHETIC_MODEL.to_owned(),
            dialect,
            grammar_dialect: plan.settings.constraint.grammar_dialect.unwrap_or(notation),
            grammar_spelling: match plan.settings.constraint.grammar_dialect {
                None if embedded.grammar_dialects().len() != 1 => GrammarSpelling::AsWritten,
                _ => GrammarSpelling::Converted,
            },
            server_version: Some(server::VERSION.to_owned()),
            engine_choice: match &plan.settings.constraint.guided_decoding_backend {
                Some(name) => EngineChoice::Selected(name.clone()),
                None => EngineChoice::None,
            },
            notices: vec![synthetic("the embedded engine")],
            server: Server::Embedded,
            embedded: Some(embedded),
            served: None,
        })
    }

    async fn running(plan: &RunPlan, client: Client, target: &ServerTarget) -> Result<Self> {
        let ServerTarget { endpoint, model, served_model_name, ready_timeout } = target;
        driver::wait_ready(&client, *ready_timeout).await?;
        let listed = listed_model(&client, model.as_deref().or(served_model_name.as_deref())).await?;
        let model = model.clone().or_else(|| listed.as_ref().map(|first| first.id.clone()));
        let model = model.or_else(|| served_model_name.clone()).expect("a server without a listed model was refused");
        let server_version = driver::version(&client).await;
        let owned_by = listed.as_ref().and_then(|first| first.owned_by.as_deref());
        let server = identify(plan.settings.backend, server_version.as_deref(), owned_by);
        let dialect = plan.settings.constraint.dialect.unwrap_or(server.constraint_dialect());
        let (engine_choice, notices) = known_of(plan.settings.constraint.guided_decoding_backend.as_deref(), server, dialect);
        let served = if server == Server::Embedded { served_engine(&client).await } else { None };
        Ok(Self {
            client,
            base_url: endpoint.public_base_url(),
            path: endpoint.path.clone(),
            model: served_model_name.clone().unwrap_or_else(|| model.clone()),
            model_id: model,
            dialect,
            grammar_dialect: plan.settings.constraint.grammar_dialect.unwrap_or(server.grammar_dialect()),
            grammar_spelling: grammar_spelling(server, dialect, plan.settings.constraint.grammar_dialect),
            server_version,
            engine_choice,
            notices,
            server,
            embedded: None,
            served,
        })
    }
}

fn client(plan: &RunPlan, endpoint: Endpoint, request_id_prefix: Option<&str>) -> Result<Client> {
    Client::new(DriverOptions {
        endpoint,
        max_concurrency: plan.own_cap(),
        request_timeout: Some(plan.settings.load.request_timeout),
        idle_timeout: plan.settings.load.idle_timeout,
        request_id_prefix: plan.settings.request.request_id_prefix.clone().or_else(|| request_id_prefix.map(str::to_owned)),
        part: plan.part(),
        limits: Limits { drain_timeout: plan.settings.load.drain_timeout, ..Limits::default() },
    })
}

impl RunPlan {
    /// A client for questions beside the run, such as whether the server is ready.
    ///
    /// # Errors
    /// The run has no server with an address of its own.
    pub(crate) fn plain_client(&self) -> Result<Client> {
        let Target::Server(target) = &self.target else { return Err(Error::internal("a server that is started has an address")) };
        Client::new(DriverOptions::plain(target.endpoint.clone()))
    }
}

/// What the reader of the figures has to know of our own model.
fn synthetic(whose: &str) -> String {
    format!("answers come from {whose}: its model is synthetic, and the figures are not those of a GPU server")
}

/// The engine that our own server names at `/version`, with its settings.
async fn served_engine(client: &Client) -> Option<Engine> {
    #[derive(Deserialize)]
    struct Version {
        engine: String,
        engine_version: Option<String>,
        #[serde(default)]
        settings: BTreeMap<String, String>,
    }
    let page = driver::page(client, "/version").await?;
    let said: Version = serde_json::from_str(&page.body).ok()?;
    Some(Engine { name: said.engine, version: said.engine_version, settings: said.settings.into_iter().collect(), work: None })
}

/// The first model listed. Where the user named one, a server that lists none is still worth asking.
async fn listed_model(client: &Client, named: Option<&str>) -> Result<Option<ModelInfo>> {
    match (driver::models(client).await, named) {
        (Ok(models), None) => Ok(models.into_iter().next()),
        (Ok(models), Some(name)) => {
            let known = models.iter().position(|model| model.id == name).unwrap_or(0);
            Ok(models.into_iter().nth(known))
        }
        (Err(_), Some(_)) => Ok(None),
        (Err(error), None) => Err(error),
    }
}

/// What becomes of the engine that the user named, and what is known beforehand of the dialect.
fn known_of(engine: Option<&str>, server: Server, dialect: ConstraintDialect) -> (EngineChoice, Vec<String>) {
    let ignored = ignored_dialect(server, dialect);
    let honoured = ignored.is_none() && honours_engine(server);
    let (choice, declared) = declared_engine(engine, dialect, honoured);
    let ours = (server == Server::Embedded).then(|| synthetic("a server that sobench serve runs"));
    (choice, ours.into_iter().chain(declared).chain(ignored).collect())
}

/// Only the guided dialect has a field for the engine; elsewhere the user's word is recorded as such.
fn declared_engine(engine: Option<&str>, dialect: ConstraintDialect, honoured: bool) -> (EngineChoice, Option<String>) {
    match (engine, dialect) {
        (None, _) => (EngineChoice::None, None),
        (Some(engine), ConstraintDialect::Guided) if honoured => (EngineChoice::Selected(engine.to_owned()), None),
        (Some(engine), _) => {
            let notice = format!(
                "the server decides its decoding engine, not the request: --guided-decoding-backend {engine} is recorded as declared"
            );
            (EngineChoice::Declared(engine.to_owned()), Some(notice))
        }
    }
}

/// vLLM takes the engine from the request up to 0.7 (its V0); later it belongs to the server, and the field is refused or ignored.
fn honours_engine(server: Server) -> bool {
    !matches!(server, Server::Vllm { version: Some(version) } if version >= (0, 8))
}

/// The fields of llama.cpp, SGLang and TensorRT-LLM hold EBNF; vLLM takes either notation, to its engine or through a conversion of
/// its own, and of servers that are not known nothing is known. What the user asks for is done everywhere.
pub(crate) fn grammar_spelling(server: Server, dialect: ConstraintDialect, asked: Option<GrammarDialect>) -> GrammarSpelling {
    match (dialect, asked) {
        _ if server == Server::LlamaCpp => GrammarSpelling::Portable,
        (ConstraintDialect::LlamaCpp, _) => GrammarSpelling::Portable,
        (ConstraintDialect::Sglang | ConstraintDialect::TrtllmFormat | ConstraintDialect::TritonGuide, _) => {
            GrammarSpelling::Converted
        }
        (_, Some(_)) => GrammarSpelling::Converted,
        (_, None) => GrammarSpelling::AsWritten,
    }
}

/// A field that this version is known to drop is worth a word before the numbers are read.
fn ignored_dialect(server: Server, dialect: ConstraintDialect) -> Option<String> {
    let Server::Vllm { version: Some(version) } = server else { return None };
    let too_new = dialect == ConstraintDialect::Guided && version >= (0, 12);
    let too_old = dialect == ConstraintDialect::StructuredOutputs && version < (0, 11);
    (too_new || too_old).then(|| {
        let (major, minor) = version;
        format!("vLLM {major}.{minor} ignores the fields of --constraint-dialect {dialect}: expect unconstrained answers")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammars_are_converted_where_one_notation_is_known_to_be_read() {
        use ConstraintDialect::{LlamaCpp, ResponseFormat, Sglang, StructuredOutputs, TritonGuide, TrtllmFormat};
        use GrammarSpelling::{AsWritten, Converted, Portable};
        let (vllm, lark) = (Server::Vllm { version: None }, Some(GrammarDialect::Lark));
        for (server, dialect, asked, expected) in [
            (vllm, StructuredOutputs, None, AsWritten),
            (vllm, StructuredOutputs, lark, Converted),
            (Server::Embedded, StructuredOutputs, None, AsWritten),
            (Server::Sglang, Sglang, None, Converted),
            (Server::TrtllmServe, TrtllmFormat, None, Converted),
            (Server::Triton, TritonGuide, None, Converted),
            (Server::Other, ResponseFormat, None, AsWritten),
            (Server::Other, Sglang, None, Converted),
            (Server::Other, LlamaCpp, None, Portable),
            (Server::LlamaCpp, ResponseFormat, None, Portable),
        ] {
            assert_eq!(grammar_spelling(server, dialect, asked), expected, "{server:?} {dialect} {asked:?}");
        }
    }
}
