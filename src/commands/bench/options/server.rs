//! The server flags, and the target of a run.

use std::time::Duration;

use clap::Args;

use super::request::{self, LORA_ASSIGNMENTS};
use super::{ServerMetricsPlan, ServerTarget, Target};
use crate::commands::bench::args::BenchArgs;
use crate::commands::flags::checks::{checked_url, key_values};
use crate::commands::flags::embedded;
use crate::commands::flags::environment::KeyOf;
use crate::commands::flags::paths::InputNames;
use crate::commands::flags::values::{described, named};
use sobench_backend::ServerKind;
use sobench_backend::server_metrics::is_series_name;
use sobench_client::{ApiKey, Endpoint};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::DatasetName;
use sobench_embedded::EmbeddedSettings;
use sobench_engine::EngineName;
use sobench_plan::record::LoraAssignment;
use sobench_results::compare::rules::LimitRule;

/// The server flags.
#[derive(Args, Clone, Debug)]
pub struct ServerArgs {
    /// Kind of server, which determines the request format [default: vllm]
    #[arg(long, visible_alias = "endpoint-type", value_name = "KIND",
          value_parser = named(&ServerKind::ALL, ServerKind::name))]
    pub backend: Option<ServerKind>,
    /// URL of a running server, e.g. http://127.0.0.1:8000; overrides --host and --port. Without
    /// --base-url, --host, --port, --model, --target and --launch, the embedded server is measured
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Host of a running server [default: 127.0.0.1]. With --host alone, requests go to its port
    /// 8000, and the embedded server is not started
    #[arg(long)]
    pub host: Option<String>,
    /// Port of a running server [default: 8000]. With --port alone, even without --model, requests
    /// go to 127.0.0.1, and the embedded server is not started
    #[arg(long)]
    pub port: Option<u16>,
    /// Path of the requests [default: depends on the backend, e.g. /v1/completions]
    #[arg(long, value_name = "PATH")]
    pub endpoint: Option<String>,
    /// Model to request [default: the first model of /v1/models]. With --model alone, requests go
    /// to http://127.0.0.1:8000, and the embedded server is not started
    #[arg(long)]
    pub model: Option<String>,
    /// Name of the model on the server, if it differs from --model
    #[arg(long, value_name = "NAME")]
    pub served_model_name: Option<String>,
    /// Names of LoRA modules on the server. Each request asks for one of them in place of --model
    #[arg(long, alias = "lora-name", value_name = "NAME", num_args = 1..)]
    pub lora_modules: Vec<String>,
    /// Assignment of LoRA modules to requests
    #[arg(long, value_name = "HOW", requires = "lora_modules", default_value = "random", value_parser = described(&LORA_ASSIGNMENTS))]
    pub lora_assignment: LoraAssignment,
    /// Profile the measured part on the server: post to /start_profile before it and to
    /// /stop_profile after it
    #[arg(long)]
    pub profile: bool,
    /// Tokenizer for prompt lengths and chat templates: a folder, a tokenizer.json or a Hub id
    /// [default: the built-in cl100k_base]
    #[arg(long, value_name = "PATH|ID")]
    pub tokenizer: Option<InputNames>,
    /// Additional request headers. The environment variable OPENAI_API_KEY (ANTHROPIC_API_KEY with --backend anthropic) is the key
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    pub header: Vec<String>,
    /// Skip the verification of the server's TLS certificate
    #[arg(long)]
    pub insecure: bool,
    /// Prefix of each request's x-request-id, followed by the number of the request
    #[arg(long, value_name = "PREFIX")]
    pub request_id_prefix: Option<String>,
    /// Name of a header with the id of the session, for routers: the prefix of --request-id-prefix,
    /// session-, and a number. Only --dataset sessions has sessions
    #[arg(long, value_name = "NAME")]
    pub session_header: Option<String>,
    /// Metrics page of the server, read every 500 ms during the run: auto reads the page of the kind
    /// of server if it answers, a URL reads another page, off reads none
    #[arg(long, value_name = "auto|URL|off", default_value = "auto")]
    pub server_metrics: String,
    /// Further series of the metrics page, as NAME or NAME{label="value"}. Repeatable
    #[arg(long, value_name = "NAME")]
    pub server_metric: Vec<String>,
    /// Time limit in seconds for the server to answer a test request, which is repeated; 0 does not
    /// wait
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub ready_check_timeout_sec: u64,
}

const DEFAULT_HOST: &str = "127.0.0.1";
const DEFAULT_PORT: u16 = 8000;

/// The kind of server. Tools and reasoning are part of chats, so they make a chat server of the
/// embedded server.
pub(crate) fn backend(arguments: &BenchArgs) -> ServerKind {
    let datasets = &arguments.dataset.dataset;
    let chats = [DatasetName::Tools, DatasetName::Sessions].map(DatasetName::name);
    let is_chat = !datasets.is_empty()
        && arguments.dataset.mix.is_none()
        && datasets.iter().all(|name| chats.contains(&name.as_str()));
    let needs_chat = is_chat || arguments.embedded.embedded_reasoning_tokens > 0;
    let default = if needs_chat && !is_named(&arguments.server) {
        ServerKind::OpenaiChat
    } else {
        ServerKind::default()
    };
    arguments.server.backend.unwrap_or(default)
}

/// Whether the flags name a server.
fn is_named(server: &ServerArgs) -> bool {
    let ServerArgs {
        base_url,
        host,
        port,
        model,
        ..
    } = server;
    base_url.is_some() || host.is_some() || port.is_some() || model.is_some()
}

/// Whether the run sends sessions.
fn names_sessions(arguments: &BenchArgs) -> bool {
    let mut datasets = arguments.dataset.dataset.iter();
    datasets.any(|name| name == DatasetName::Sessions.name())
}

/// The metrics page of the server.
///
/// # Errors
/// An invalid URL or name of a series; a series without a page.
pub(crate) fn server_metrics(server: &ServerArgs) -> Result<ServerMetricsPlan> {
    let series = server.server_metric.clone();
    if let Some(name) = series.iter().find(|name| !is_series_name(name)) {
        return Err(Error::usage(format!(
            "--server-metric is not the name of a series: {name}"
        ))
        .hint("give a name of the metrics page, such as vllm:num_requests_running"));
    }
    match server.server_metrics.as_str() {
        "auto" => Ok(ServerMetricsPlan::Auto { series }),
        "off" => match series.first() {
            None => Ok(ServerMetricsPlan::Off),
            Some(name) => Err(needs_page(&format!("--server-metric {name}"))),
        },
        url if url.starts_with("http://") || url.starts_with("https://") => {
            Ok(ServerMetricsPlan::Url {
                url: url.to_owned(),
                series,
            })
        }
        other => Err(Error::usage(format!(
            "--server-metrics is not auto, off or an http or https URL: {other}"
        ))
        .hint("give the address of the page, such as http://127.0.0.1:8000/metrics")),
    }
}

/// A rule on a figure of the server's metrics page cannot be met if the page is not read.
///
/// # Errors
/// Such a rule, which the error names.
pub(crate) fn refuse_rules_without_page(
    rules: &[LimitRule],
    page: &ServerMetricsPlan,
) -> Result<()> {
    let of_server = |rule: &&LimitRule| rule.metric.metric.is_from_server();
    match (page, rules.iter().find(of_server)) {
        (ServerMetricsPlan::Off, Some(rule)) => Err(needs_page(&format!("--require {rule}"))),
        _ => Ok(()),
    }
}

fn needs_page(flag: &str) -> Error {
    Error::usage(format!(
        "{flag} needs a metrics page, but --server-metrics is off"
    ))
    .hint("leave one of the two out")
}

/// The server that the flags name, or the embedded server if they name none.
///
/// # Errors
/// A flag that only the other kind of target takes; an invalid URL, header or time.
pub(crate) fn target(arguments: &BenchArgs, backend: ServerKind, key_of: KeyOf) -> Result<Target> {
    let ServerArgs {
        base_url,
        host,
        port,
        model,
        ..
    } = &arguments.server;
    if !is_named(&arguments.server) {
        return embedded_target(arguments, backend);
    }
    let mut embedded = embedded::embedded_flags(&arguments.embedded, &arguments.engine);
    embedded.extend(arguments.constraint.explain.then_some("--explain"));
    let knows = arguments.knowledge.embedded_knows;
    embedded.extend(knows.map(|_| "--embedded-knows"));
    if let Some(flag) = embedded.first() {
        return Err(Error::usage(format!(
            "{flag} applies to the embedded server only, but a server is named"
        ))
        .hint(format!("leave {flag} out, or name no server")));
    }
    let is_default_address = base_url.is_none() && host.is_none() && port.is_none();
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
            kind: backend,
            api_key: key_of(backend).map(ApiKey::new),
            insecure: arguments.server.insecure,
        },
        is_default_address,
        model: model.clone(),
        served_model_name: arguments.server.served_model_name.clone(),
        ready_timeout: Duration::from_secs(arguments.server.ready_check_timeout_sec),
    }))
}

fn embedded_target(arguments: &BenchArgs, backend: ServerKind) -> Result<Target> {
    embedded::refuse_unembedded(backend, arguments.constraint.dialect())?;
    if arguments.embedded.embedded_reasoning_tokens > 0 && !backend.takes_tools() {
        return Err(Error::usage(format!(
            "--embedded-reasoning-tokens has no effect with --backend {backend}"
        ))
        .hint("use --backend openai-chat, openai-responses or anthropic: completions have no reasoning"));
    }
    let engine = arguments
        .constraint
        .engine()
        .map_or(Ok(EngineName::default()), EngineName::parse)?;
    let server = &arguments.server;
    let unsupported = [
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
    if let Some((flag, _)) = unsupported.iter().find(|(_, given)| *given) {
        return Err(Error::usage(format!(
            "the embedded server does not support {flag}, and no other server is named"
        ))
        .hint(format!(
            "name a server with --base-url, or leave {flag} out"
        )));
    }
    let options = embedded::options(engine, &arguments.embedded, &arguments.engine)?;
    Ok(Target::Embedded(EmbeddedSettings {
        knowledge: arguments.knowledge.embedded_knows,
        prefix_cache: names_sessions(arguments),
        ..options
    }))
}

/// An IPv6 address goes into brackets in a URL.
fn bracketed(host: &str) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}
