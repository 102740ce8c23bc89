//! Which server answers: the flags, and the target of a run that they name. Opens no connection.

use std::time::Duration;

use clap::Args;

use super::request::{self, LORA_ASSIGNMENTS};
use super::{ServerTarget, Target};
use crate::commands::bench::args::BenchArgs;
use crate::commands::flags::checks::{checked_url, key_values};
use crate::commands::flags::embedded;
use crate::commands::flags::paths::InputNames;
use crate::commands::flags::values::{described, named};
use sobench_backend::ServerKind;
use sobench_client::{ApiKey, Endpoint};
use sobench_core::error::{Error, Result};
use sobench_engine::EngineName;
use sobench_results::record::LoraAssignment;

/// Which server, and how it is spoken to.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Kind of server [default: vllm]; the endpoint's path follows it
    #[arg(long, visible_alias = "endpoint-type", value_name = "KIND",
          value_parser = named(&ServerKind::ALL, ServerKind::name))]
    pub backend: Option<ServerKind>,
    /// Where the server is, e.g. http://127.0.0.1:8000; replaces --host and --port
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Host of the server [default: 127.0.0.1]
    #[arg(long)]
    pub host: Option<String>,
    /// Port of the server [default: 8000]
    #[arg(long)]
    pub port: Option<u16>,
    /// Path to post to [default: by backend, e.g. /v1/completions]
    #[arg(long, value_name = "PATH")]
    pub endpoint: Option<String>,
    /// Model to ask for [default: the first that /v1/models lists]
    #[arg(long)]
    pub model: Option<String>,
    /// Name the server knows the model by, where it differs from --model
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Option<String>,
    /// Models that requests ask for in place of --model, one each: LoRA modules of the server
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub lora_modules: Vec<String>,
    /// How they are dealt out
    #[arg(long, value_name = "HOW", requires = "lora_modules", default_value = "random", value_parser = described(&LORA_ASSIGNMENTS))]
    pub lora_assignment: LoraAssignment,
    /// Have the server profile the measured part: posts to /start_profile before it, to
    /// /stop_profile after it
    #[arg(long)]
    pub profile: bool,
    /// Tokenizer for prompt counts and chat templates: a folder, a tokenizer.json or a Hub id
    /// [default: embedded cl100k_base]
    #[arg(long, value_name = "PATH|ID")]
    pub tokenizer: Option<InputNames>,
    /// Extra request headers (OPENAI_API_KEY in the environment becomes the bearer token)
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub header: Vec<String>,
    /// Do not check the server's TLS certificate
    #[arg(long)]
    pub insecure: bool,
    /// Begin of each request's x-request-id; the request's number follows
    #[arg(long, value_name = "PREFIX")]
    pub request_id_prefix: Option<String>,
    /// Wait up to so many seconds for the server to be ready; 0 does not wait
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub ready_check_timeout_sec: u64,
}

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 8000;

/// The server that the flags name, or the embedded engine where they name none.
///
/// # Errors
/// Flags that only the other one takes; a URL, a header or a pace that is none.
pub(crate) fn target(
    arguments: &BenchArgs,
    backend: ServerKind,
    api_key: Option<String>,
) -> Result<Target> {
    let ServerArgs {
        base_url,
        host,
        port,
        model,
        ..
    } = &arguments.server;
    let named = base_url.is_some() || host.is_some() || port.is_some() || model.is_some();
    if !named {
        return embedded_target(arguments, backend);
    }
    let mut embedded = embedded::embedded_flags(&arguments.embedded, &arguments.engine);
    embedded.extend(arguments.constraint.explain.then_some("--explain"));
    if let Some(flag) = embedded.first() {
        return Err(Error::usage(format!(
            "a server is named, and only the embedded engine takes {flag}"
        ))
        .hint(format!("leave {flag} out, or name no server")));
    }
    let base_url = match base_url {
        Some(url) => checked_url(url)?,
        None => format!(
            "http://{}:{}",
            bracketed(host.as_deref().unwrap_or(DEFAULT_HOST)),
            port.unwrap_or(DEFAULT_PORT)
        ),
    };
    Ok(Target::Server(ServerTarget {
        endpoint: Endpoint {
            base_url,
            path: arguments.server.endpoint.clone().unwrap_or_else(|| {
                backend
                    .path(request::streams(arguments, backend))
                    .to_owned()
            }),
            headers: key_values("--header", &arguments.server.header)?,
            api_key: api_key.map(ApiKey::new),
            insecure: arguments.server.insecure,
        },
        model: model.clone(),
        served_model_name: arguments.server.served_model_name.clone(),
        ready_timeout: Duration::from_secs(arguments.server.ready_check_timeout_sec),
    }))
}

fn embedded_target(arguments: &BenchArgs, backend: ServerKind) -> Result<Target> {
    embedded::refuse_unembedded(backend, arguments.constraint.dialect())?;
    let engine = arguments
        .constraint
        .engine()
        .map_or(Ok(EngineName::default()), EngineName::parse)?;
    let server = &arguments.server;
    let rows = [
        ("--endpoint", server.endpoint.is_some()),
        ("--served-model-name", server.served_model_name.is_some()),
        ("--header", !server.header.is_empty()),
        ("--insecure", server.insecure),
        ("--lora-modules", !server.lora_modules.is_empty()),
        ("--profile", server.profile),
        (
            "--ready-check-timeout-sec",
            server.ready_check_timeout_sec > 0,
        ),
    ];
    if let Some((flag, _)) = rows.iter().find(|(_, given)| *given) {
        return Err(Error::usage(format!(
            "no server is named, and the embedded engine takes no {flag}"
        ))
        .hint(format!(
            "name a server with --base-url, or leave {flag} out"
        )));
    }
    embedded::options(engine, &arguments.embedded, &arguments.engine).map(Target::Embedded)
}

/// An IPv6 address goes into brackets in a URL.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}
