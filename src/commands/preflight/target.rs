//! Who is asked: a server that runs, or the embedded one, started for it; and what was left to
//! `auto`, settled. Knows no question.

use tokio::runtime::Runtime;

use crate::commands::preflight::options::{Dialects, PreflightOptions, PreflightTarget};
use sobench_backend::identify::{Server, identify};
use sobench_client::{self as driver, Client, DriverOptions, Endpoint};
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::Result;
use sobench_embedded::{EmbeddedOptions, EmbeddedServer, SYNTHETIC_MODEL};
use sobench_preflight::ask;
use sobench_preflight::ask::{Extent, Options};
use sobench_preflight::features::MARKS;

/// A server that is there, and what it is asked.
pub(super) struct Target {
    pub(super) client: Client,
    pub(super) options: Options,
    /// Kept for as long as it is asked: dropping it stops the server.
    _embedded: Option<EmbeddedServer>,
}

impl Target {
    /// Makes sure that somebody answers.
    ///
    /// # Errors
    /// Nobody does, or says which model there is.
    pub(super) fn open(
        flags: &PreflightOptions,
        target: &PreflightTarget,
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
                    driver::wait_ready(&client, *ready_timeout).await?;
                    let (server, model) = identified(flags, &client, model.as_deref()).await?;
                    Ok(asked(flags, model, server, server.grammar_dialect()))
                })?;
                Ok(Self {
                    client,
                    options,
                    _embedded: None,
                })
            }
            PreflightTarget::Embedded { engine } => {
                let embedded = EmbeddedServer::start(EmbeddedOptions {
                    engine: *engine,
                    seed: flags.seed,
                    // A model that does as it is told, so that the mask alone stands between it and
                    // a wrong answer.
                    repeats_between: flags.features.is_some().then_some(MARKS),
                    ..EmbeddedOptions::default()
                })?;
                let client = client(Endpoint {
                    base_url: embedded.base_url().to_owned(),
                    path: flags.backend.path(flags.stream).to_owned(),
                    ..Endpoint::default()
                })?;
                let notation = embedded
                    .grammar_dialect()
                    .unwrap_or(Server::Embedded.grammar_dialect());
                let options = asked(
                    flags,
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

/// What kind of server it is, and the model to ask for: the one that the user names, else the first
/// listed, else the one that the server's other pages name.
async fn identified(
    flags: &PreflightOptions,
    client: &Client,
    named: Option<&str>,
) -> Result<(Server, String)> {
    let listed = driver::models(client).await;
    let version = driver::version(client).await;
    let owned_by = listed
        .as_ref()
        .ok()
        .and_then(|models| models.first()?.owned_by.as_deref());
    let server = identify(flags.backend, version.as_deref(), owned_by);
    let model = match (named, listed) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(models)) => models
            .into_iter()
            .next()
            .map(|model| model.id)
            .unwrap_or_default(),
        (None, Err(error)) => ask::facts(client).await.model.ok_or(error)?,
    };
    Ok((server, model))
}

fn asked(
    flags: &PreflightOptions,
    model: String,
    server: Server,
    notation: GrammarDialect,
) -> Options {
    let preferred = server.constraint_dialect();
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
            // Of the embedded server it is known what it reads; a constraint in another dialect it
            // would not see.
            let others =
                others.filter(|dialect| server != Server::Embedded || dialect.is_embedded());
            std::iter::once(preferred).chain(others).collect()
        }
    };
    Options {
        backend: flags.backend,
        model,
        kinds: flags.kinds.clone(),
        dialects,
        notation: flags.grammar_dialect.unwrap_or(notation),
        seed: flags.seed,
        output_len: flags.output_len,
        stream: flags.stream,
        guided_decoding_backend: None,
        extra_body: flags.extra_body.clone(),
        timeout: flags.timeout,
        extent: Extent::Whole,
    }
}

fn client(endpoint: Endpoint) -> Result<Client> {
    Client::new(DriverOptions::plain(endpoint))
}
