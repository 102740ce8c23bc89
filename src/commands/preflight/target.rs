//! The server under test: a running one or the embedded one; resolves `auto` options.

use tokio::runtime::Runtime;

use crate::commands::preflight::options::{Asked, Dialects, PreflightTarget, TargetPlan};
use sobench_backend::Product;
use sobench_backend::identify::{Server, identify};
use sobench_client::{Client, ClientSettings, Endpoint, list_models, server_version, wait_ready};
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::{Error, Result};
use sobench_embedded::{EmbeddedServer, EmbeddedSettings, SYNTHETIC_MODEL};
use sobench_preflight::ToolQuestion;
use sobench_preflight::features::MARKS;
use sobench_preflight::runner::{self, Extent, PreflightSettings};

/// A reachable server and the settings of its preflight.
pub struct Target {
    pub client: Client,
    pub options: PreflightSettings,
    /// Dropping it stops the server.
    _embedded: Option<EmbeddedServer>,
}

impl Target {
    /// Connects to the server, or starts the embedded one.
    ///
    /// # Errors
    /// The server does not answer, or its model is unknown.
    pub fn open(
        flags: &TargetPlan,
        target: &PreflightTarget,
        asked: &Asked,
        runtime: &Runtime,
    ) -> Result<Self> {
        match target {
            PreflightTarget::Server {
                endpoint,
                model,
                ready_timeout,
            } => {
                let client = client(endpoint.clone())?;
                let options = runtime.block_on(async {
                    wait_ready(&client, *ready_timeout).await?;
                    let (server, max_tokens_only, model) =
                        identify_server_and_model(flags, &client, model.as_deref()).await?;
                    let notation = server.grammar_dialect();
                    let options = PreflightSettings {
                        max_tokens_only,
                        ..preflight_options(flags, asked, model, server, notation)
                    };
                    runner::wait_until_loaded(&client, &options, *ready_timeout).await?;
                    Ok::<_, Error>(options)
                })?;
                Ok(Self {
                    client,
                    options,
                    _embedded: None,
                })
            }
            PreflightTarget::Embedded { engine } => {
                let embedded = EmbeddedServer::start(EmbeddedSettings {
                    engine: *engine,
                    seed: flags.seed,
                    repeats_between: asked.repeats.then_some(MARKS),
                    ..EmbeddedSettings::default()
                })?;
                let client = client(Endpoint {
                    base_url: embedded.base_url().to_owned(),
                    path: flags.backend.path(flags.stream).to_owned(),
                    kind: flags.backend,
                    ..Endpoint::default()
                })?;
                let notation = embedded
                    .grammar_dialect()
                    .unwrap_or(Server::Embedded.grammar_dialect());
                let options = preflight_options(
                    flags,
                    asked,
                    SYNTHETIC_MODEL.to_owned(),
                    Server::Embedded,
                    notation,
                );
                Ok(Self {
                    client,
                    options,
                    _embedded: Some(embedded),
                })
            }
        }
    }
}

/// Identifies the server, whether it reads `max_tokens` only, and the model: that of the user, else the first listed one, else that of
/// the server's information pages.
async fn identify_server_and_model(
    flags: &TargetPlan,
    client: &Client,
    model_flag: Option<&str>,
) -> Result<(Server, bool, String)> {
    let models = list_models(client).await;
    let version = server_version(client).await;
    let owned_by = models
        .as_ref()
        .ok()
        .and_then(|models| models.first()?.owned_by.as_deref());
    let server = identify(flags.backend, version.as_deref(), owned_by);
    let max_tokens_only = owned_by
        .and_then(Product::by_owner)
        .is_some_and(Product::reads_max_tokens_only);
    let model = match (model_flag, models) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(models)) => models
            .into_iter()
            .next()
            .map(|model| model.id)
            .unwrap_or_default(),
        (None, Err(error)) => runner::facts(client).await.model.ok_or(error)?,
    };
    Ok((server, max_tokens_only, model))
}

fn preflight_options(
    flags: &TargetPlan,
    asked: &Asked,
    model: String,
    server: Server,
    notation: GrammarDialect,
) -> PreflightSettings {
    let preferred = server.constraint_dialect(flags.backend);
    let dialects = match flags.dialects {
        Dialects::One(dialect) => vec![dialect],
        Dialects::Auto => vec![preferred],
        Dialects::All => {
            let others = flags
                .backend
                .dialects()
                .iter()
                .copied()
                .filter(|dialect| *dialect != preferred);
            // The embedded server ignores the dialects that it does not support.
            let others =
                others.filter(|dialect| server != Server::Embedded || dialect.is_embedded());
            std::iter::once(preferred).chain(others).collect()
        }
    };
    PreflightSettings {
        backend: flags.backend,
        model,
        kinds: asked.kinds.clone(),
        dialects,
        notation: flags.grammar_dialect.unwrap_or(notation),
        seed: flags.seed,
        output_len: asked.output_len,
        stream: flags.stream,
        guided_decoding_backend: None,
        extra_body: flags.extra_body.clone(),
        timeout: asked.timeout,
        all_dialects: asked.all_dialects,
        extent: Extent::Whole,
        max_tokens_only: false,
        templated_prompt: None,
        tool_questions: ToolQuestion::ALL.to_vec(),
    }
}

fn client(endpoint: Endpoint) -> Result<Client> {
    Client::new(ClientSettings::with_defaults(endpoint))
}
