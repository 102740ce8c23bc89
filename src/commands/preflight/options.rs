//! Options of `sobench preflight`, checked and built from its flags.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::commands::flags::checks::{
    checked_url, grammar_notation, json_object, key_values, seconds,
};
use crate::commands::flags::embedded::refuse_unembedded;
use crate::commands::flags::environment::KeyOf;
use crate::commands::preflight::args::{FORMATS, PreflightArgs, TargetArgs};
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_client::{ApiKey, Endpoint};
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_engine::EngineName;
use sobench_preflight::ProbeKind;
use sobench_preflight::features::data::select_features;
use sobench_preflight::features::{Feature, Settings};
use sobench_preflight::runner::DEFAULT_OUTPUT_LEN;
use sobench_report::text::Detail;

/// Default maximum tokens of an answer with --features; the longest requested text has 60 letters.
const FEATURES_OUTPUT_LEN: u32 = 192;

/// Options of a preflight.
#[derive(Clone, Debug)]
pub struct PreflightPlan {
    /// One server, or several with --features.
    pub servers: TargetPlan,
    /// JSON Schema features to test; `None` to test kinds of constraints.
    pub features: Option<FeaturePlan>,
    pub asked: Asked,
    /// Output format: text or JSON.
    pub format: OutputFormat,
    pub files: Vec<(OutputFormat, PathBuf)>,
    /// How much of the report the text output shows.
    pub detail: Detail,
}

/// Options of the servers to test.
#[derive(Clone, Debug)]
pub struct TargetPlan {
    pub targets: Vec<PreflightTarget>,
    pub backend: ServerKind,
    pub dialects: Dialects,
    /// `None` for the default of the server.
    pub grammar_dialect: Option<GrammarDialect>,
    pub seed: u64,
    pub stream: bool,
    pub extra_body: Option<Map<String, Value>>,
    pub progress: bool,
}

/// What the test asks of each server.
#[derive(Clone, Debug)]
pub struct Asked {
    pub kinds: Vec<ProbeKind>,
    pub output_len: u32,
    pub timeout: Duration,
    pub all_dialects: bool,
    /// Whether the embedded model repeats the text between the marks of a prompt.
    pub repeats: bool,
}

/// Options of --features.
#[derive(Clone, Debug)]
pub struct FeaturePlan {
    pub features: Vec<Feature>,
    pub settings: Settings,
}

/// A server to test.
#[derive(Clone, Debug)]
pub enum PreflightTarget {
    /// The embedded server, started for the test.
    Embedded { engine: EngineName },
    /// A running server.
    Server {
        endpoint: Endpoint,
        model: Option<String>,
        /// How long to wait for it to be ready; zero does not wait.
        ready_timeout: Duration,
    },
}

/// The dialects to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialects {
    All,
    /// The default dialect of runs for the identified server.
    Auto,
    One(ConstraintDialect),
}

impl PreflightPlan {
    /// Checks the flags.
    ///
    /// # Errors
    /// Usage errors with the flag and its value.
    pub fn new(flags: &PreflightArgs, key_of: KeyOf) -> Result<Self> {
        let servers = TargetPlan::new(&flags.target, key_of)?;
        if servers.targets.len() > 1 && !flags.features {
            return Err(
                Error::usage("several servers or engines without --features")
                    .hint("give one, or add --features to compare them"),
            );
        }
        Ok(Self {
            features: features(flags)?,
            asked: Asked {
                kinds: kinds(&flags.kind, servers.backend)?,
                output_len: output_len(flags),
                timeout: seconds("--request-timeout", flags.request_timeout)?,
                all_dialects: flags.all_dialects,
                // So that only the mask prevents an invalid answer.
                repeats: flags.features,
            },
            servers,
            format: flags.format,
            files: flags.save.files(&FORMATS)?,
            detail: flags.detail,
        })
    }
}

impl TargetPlan {
    /// Checks the flags.
    ///
    /// # Errors
    /// Usage errors with the flag and its value.
    pub fn new(flags: &TargetArgs, key_of: KeyOf) -> Result<Self> {
        let backend = flags.backend.unwrap_or_default();
        if backend.dialects().is_empty() {
            return Err(Error::usage(format!(
                "this kind of server has no field for a constraint: {backend}"
            ))
            .hint("use another --backend, if the server supports one"));
        }
        Ok(Self {
            targets: targets(flags, backend, key_of)?,
            backend,
            dialects: match flags.constraint_dialect.as_str() {
                "all" => Dialects::All,
                "auto" => Dialects::Auto,
                name => Dialects::One(name.parse()?),
            },
            grammar_dialect: grammar_notation(&flags.grammar_dialect),
            seed: flags.seed,
            stream: !flags.disable_stream,
            extra_body: flags.extra_body.as_deref().map(extra_body).transpose()?,
            progress: !flags.disable_tqdm,
        })
    }
}

fn output_len(flags: &PreflightArgs) -> u32 {
    flags.output_len.unwrap_or(if flags.features {
        FEATURES_OUTPUT_LEN
    } else {
        DEFAULT_OUTPUT_LEN
    })
}

fn targets(flags: &TargetArgs, backend: ServerKind, key_of: KeyOf) -> Result<Vec<PreflightTarget>> {
    if !flags.base_url.is_empty() {
        return flags
            .base_url
            .iter()
            .map(|url| server(flags, url, backend, key_of))
            .collect();
    }
    refuse_unembedded(backend, flags.constraint_dialect.parse().ok())?;
    let engines = flags
        .guided_decoding_backend
        .iter()
        .map(|name| EngineName::parse(name))
        .collect::<Result<Vec<_>>>()?;
    let engines = if engines.is_empty() {
        vec![EngineName::default()]
    } else {
        engines
    };
    Ok(engines
        .into_iter()
        .map(|engine| PreflightTarget::Embedded { engine })
        .collect())
}

fn server(
    flags: &TargetArgs,
    url: &str,
    backend: ServerKind,
    key_of: KeyOf,
) -> Result<PreflightTarget> {
    let endpoint = Endpoint {
        base_url: checked_url(url)?,
        path: flags
            .endpoint
            .clone()
            .unwrap_or_else(|| backend.path(!flags.disable_stream).to_owned()),
        headers: key_values("--header", &flags.header)?,
        kind: backend,
        api_key: key_of(backend).map(ApiKey::new),
        insecure: flags.insecure,
    };
    Ok(PreflightTarget::Server {
        endpoint,
        model: flags.model.clone(),
        ready_timeout: Duration::from_secs(flags.ready_check_timeout_sec),
    })
}

fn features(flags: &PreflightArgs) -> Result<Option<FeaturePlan>> {
    if !flags.features {
        return Ok(None);
    }
    Ok(Some(FeaturePlan {
        features: select_features(&flags.keyword)?,
        settings: Settings {
            samples: flags.samples.into(),
            seed: flags.target.seed,
            output_len: output_len(flags),
            max_concurrency: flags.max_concurrency.into(),
            request_timeout_s: flags.request_timeout,
            stream: !flags.target.disable_stream,
        },
    }))
}

/// The kinds in the order of the tests.
fn kinds(names: &[String], backend: ServerKind) -> Result<Vec<ProbeKind>> {
    let parsed = names
        .iter()
        .map(|name| ProbeKind::parse(name))
        .collect::<Result<Vec<_>>>()?;
    if parsed.is_empty() {
        return Err(Error::usage("--kind is empty")
            .hint("give at least one kind, or omit --kind for the default"));
    }
    if parsed.contains(&ProbeKind::Tool) && !backend.takes_tools() {
        return Err(Error::usage(format!(
            "--kind tool needs a kind of server with tools: {backend}"
        ))
        .hint("use --backend openai-chat, openai-responses or anthropic, if the server has their endpoints"));
    }
    if parsed.contains(&ProbeKind::Wire) && backend != ServerKind::OpenaiChat {
        return Err(Error::usage(format!(
            "--kind wire needs a kind of server with chat completions: {backend}"
        ))
        .hint("use --backend openai-chat, if the server has its endpoint"));
    }
    if parsed.contains(&ProbeKind::Reasoning) && backend.thinking_switches().is_empty() {
        return Err(Error::usage(format!(
            "--kind reasoning needs a kind of server with a field that turns thinking on and off: {backend}"
        ))
        .hint("use --backend openai-chat, openai-responses, anthropic or ollama, if the server has their endpoints"));
    }
    Ok(ProbeKind::all()
        .filter(|kind| parsed.contains(kind))
        .collect())
}

/// A constraint field would also constrain the control.
fn extra_body(text: &str) -> Result<Map<String, Value>> {
    let fields = json_object("--extra-body", text)?;
    match fields
        .iter()
        .find(|(field, value)| ConstraintDialect::constrains(field, value))
    {
        None => Ok(fields),
        Some((field, _)) => Err(Error::usage(format!(
            "--extra-body constrains every request, including the control: {field}"
        ))
        .hint("remove the field; preflight sends constraints itself")),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{Cli, Command};
    use sobench_core::constraint::ConstraintKind;

    fn options(arguments: &[&str]) -> Result<PreflightPlan> {
        let arguments = ["sobench", "preflight"]
            .iter()
            .chain(arguments)
            .map(OsString::from);
        let command = Cli::parse_arguments(arguments)
            .expect("clap takes these arguments")
            .into_command();
        let Command::Preflight(arguments) = command else {
            panic!("{command:?}")
        };
        PreflightPlan::new(&arguments, |_| Some("key-from-environment".to_owned()))
    }

    #[test]
    fn without_a_url_the_embedded_server_is_tested() {
        let embedded = options(&["--guided-decoding-backend", "outlines"]).unwrap();
        assert!(matches!(
            embedded.servers.targets[..],
            [PreflightTarget::Embedded {
                engine: EngineName::Outlines
            }]
        ));
        assert_eq!(embedded.servers.dialects, Dialects::All);
        let kinds: Vec<&str> = embedded
            .asked
            .kinds
            .into_iter()
            .map(ProbeKind::name)
            .collect();
        assert_eq!(kinds, ["json", "json_object", "regex", "choice", "grammar"]);
        let parsed = options(&[
            "--base-url",
            "http://h/v1",
            "--backend",
            "openai-chat",
            "--constraint-dialect",
            "guided",
        ])
        .unwrap();
        assert!(!format!("{parsed:?}").contains("key-from-environment"));
        let [PreflightTarget::Server { endpoint, .. }] = &parsed.servers.targets[..] else {
            panic!("a URL is a server")
        };
        assert_eq!(
            (endpoint.path.as_str(), parsed.servers.dialects),
            (
                "/v1/chat/completions",
                Dialects::One(ConstraintDialect::Guided)
            )
        );
    }

    #[test]
    fn kinds_are_tested_in_a_fixed_order() {
        let kinds = options(&["--kind", "structural_tag,choice,json"])
            .unwrap()
            .asked
            .kinds;
        assert_eq!(
            kinds,
            [
                ProbeKind::JSON_SCHEMA,
                ProbeKind::Text(ConstraintKind::Choice),
                ProbeKind::Text(ConstraintKind::StructuralTag)
            ]
        );
        let kinds = options(&["--backend", "openai-chat", "--kind", "reasoning,tool,json"])
            .unwrap()
            .asked
            .kinds;
        assert_eq!(
            kinds,
            [
                ProbeKind::JSON_SCHEMA,
                ProbeKind::Tool,
                ProbeKind::Reasoning
            ]
        );
    }

    #[test]
    fn features_are_tested_on_several_servers() {
        let engines = options(&[
            "--features",
            "--guided-decoding-backend",
            "guidance,outlines",
            "--keyword",
            "not,maxLength",
        ])
        .unwrap();
        let features = engines.features.unwrap();
        assert_eq!(
            (
                engines.servers.targets.len(),
                features.settings.samples,
                features.settings.max_concurrency
            ),
            (2, 16, 8)
        );
        assert!(
            features
                .features
                .iter()
                .any(|feature| feature.id == "not-enum")
        );
        assert_eq!(engines.asked.output_len, FEATURES_OUTPUT_LEN);
        let urls = options(&[
            "--features",
            "--base-url",
            "http://a",
            "--base-url",
            "http://b",
            "--samples",
            "4",
        ])
        .unwrap();
        assert_eq!(
            (
                urls.servers.targets.len(),
                urls.features.unwrap().settings.samples
            ),
            (2, 4)
        );
        assert!(options(&[]).unwrap().features.is_none());
    }

    #[test]
    fn errors_contain_the_flag_and_the_value() {
        for (arguments, message) in [
            (&["--kind", "xml"][..], "unknown constraint kind: xml"),
            (
                &["--kind", "tool"],
                "--kind tool needs a kind of server with tools: vllm",
            ),
            (
                &[
                    "--base-url",
                    "http://a",
                    "--backend",
                    "tgi",
                    "--kind",
                    "tool",
                ],
                "--kind tool needs a kind of server with tools: tgi",
            ),
            (
                &["--kind", "json,reasoning"],
                "--kind reasoning needs a kind of server with a field that turns thinking on and off: vllm",
            ),
            (
                &["--request-timeout", "-1"],
                "--request-timeout is not a time: -1",
            ),
            (&["--extra-body", "[]"], "--extra-body is not a JSON object"),
            (
                &["--extra-body", r#"{"response_format": {}}"#],
                "--extra-body constrains every request, including the control: response_format",
            ),
            (
                &["--extra-body", r#"{"sampling_params": {"regex": "a"}}"#],
                "--extra-body constrains every request, including the control: sampling_params",
            ),
            (&["--base-url", "h:1"], "h:1"),
            (
                &["--base-url", "http://a", "--base-url", "http://b"],
                "several servers or engines without --features",
            ),
            (
                &["--base-url", "http://a", "--backend", "scalellm"],
                "this kind of server has no field for a constraint: scalellm",
            ),
            (
                &["--base-url", "http://a", "--backend", "vllm-rerank"],
                "this kind of server has no field for a constraint: vllm-rerank",
            ),
            (
                &["--features", "--keyword", "maxLenght"],
                "unknown feature or keyword: maxLenght",
            ),
            (
                &["--backend", "tgi"],
                "the embedded server does not support --backend tgi, and no other server is named",
            ),
            (
                &["--constraint-dialect", "sglang"],
                "the embedded server does not support --constraint-dialect sglang, and no other server is named",
            ),
            (&["--guided-decoding-backend", "llama.cpp"], "llama.cpp"),
        ] {
            let error = options(arguments).expect_err("the value is wrong");
            assert!(
                error.what.contains(message) && error.exit_code() == 2 && error.hint.is_some(),
                "{error}"
            );
        }
    }
}
