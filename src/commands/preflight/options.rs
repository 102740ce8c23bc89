//! The flags of `sobench preflight`, checked and turned into what is asked of whom. Opens no
//! socket.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::commands::flags::checks::{
    checked_url, grammar_notation, json_object, key_values, seconds,
};
use crate::commands::flags::embedded::refuse_unembedded;
use crate::commands::flags::paths::OutputPath;
use crate::commands::preflight::args::PreflightArgs;
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_client::{ApiKey, Endpoint};
use sobench_core::constraint::GrammarDialect;
use sobench_core::error::{Error, Result};
use sobench_core::output_format::OutputFormat;
use sobench_engine::EngineName;
use sobench_preflight::Kind;
use sobench_preflight::ask::DEFAULT_OUTPUT_LEN;
use sobench_preflight::features::data::chosen;
use sobench_preflight::features::{Feature, Settings};

/// The most tokens of an answer to a schema of a feature, unless told otherwise: the longest that
/// is asked for has 60 letters.
const FEATURES_OUTPUT_LEN: u32 = 192;

/// What is asked of whom.
#[derive(Clone, Debug)]
pub struct PreflightOptions {
    /// One, or several for features.
    pub targets: Vec<PreflightTarget>,
    /// Which keywords of JSON Schema to ask about; `None` asks about kinds of constraints.
    pub features: Option<FeatureOptions>,
    pub backend: ServerKind,
    pub dialects: Dialects,
    /// `None` for what suits the server.
    pub grammar_dialect: Option<GrammarDialect>,
    pub kinds: Vec<Kind>,
    pub seed: u64,
    pub output_len: u32,
    pub timeout: Duration,
    pub stream: bool,
    pub extra_body: Option<Map<String, Value>>,
    /// What stdout gets: text or JSON.
    pub format: OutputFormat,
    pub json: Option<OutputPath>,
    pub progress: bool,
}

/// The probe of JSON-Schema features.
#[derive(Clone, Debug)]
pub struct FeatureOptions {
    pub features: Vec<Feature>,
    pub settings: Settings,
}

/// Who is asked.
#[derive(Clone, Debug)]
pub enum PreflightTarget {
    /// The embedded engine, started for it.
    Embedded { engine: EngineName },
    /// A server that runs already.
    Server {
        endpoint: Endpoint,
        model: Option<String>,
        /// How long it may take to become ready; zero does not wait.
        ready_timeout: Duration,
    },
}

/// In which dialects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialects {
    All,
    /// The one that runs would use, by what the server says of itself.
    Auto,
    One(ConstraintDialect),
}

impl PreflightOptions {
    /// Checks the flags. `api_key` is `OPENAI_API_KEY`'s value, if set.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    pub fn new(flags: &PreflightArgs, api_key: Option<&str>) -> Result<Self> {
        let backend = flags.backend.unwrap_or_default();
        if backend.dialects().is_empty() {
            return Err(Error::usage(format!(
                "servers of this kind have no field for a constraint: {backend}"
            ))
            .hint(
                "there is nothing to ask them; name another --backend if the server speaks one",
            ));
        }
        Ok(Self {
            targets: targets(flags, backend, api_key)?,
            features: features(flags)?,
            backend,
            dialects: match flags.constraint_dialect.as_str() {
                "all" => Dialects::All,
                "auto" => Dialects::Auto,
                name => Dialects::One(name.parse()?),
            },
            grammar_dialect: grammar_notation(&flags.grammar_dialect),
            kinds: kinds(&flags.kind)?,
            seed: flags.seed,
            output_len: output_len(flags),
            timeout: seconds("--request-timeout", flags.request_timeout)?,
            stream: !flags.disable_stream,
            extra_body: flags.extra_body.as_deref().map(extra_body).transpose()?,
            format: flags.format,
            json: flags.json.clone(),
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

fn targets(
    flags: &PreflightArgs,
    backend: ServerKind,
    api_key: Option<&str>,
) -> Result<Vec<PreflightTarget>> {
    let several = flags.base_url.len() > 1 || flags.guided_decoding_backend.len() > 1;
    if several && !flags.features {
        return Err(Error::usage(
            "several servers or engines, and only --features compares them side by side",
        )
        .hint("name one, or add --features"));
    }
    if !flags.base_url.is_empty() {
        return flags
            .base_url
            .iter()
            .map(|url| server(flags, url, backend, api_key))
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
    flags: &PreflightArgs,
    url: &str,
    backend: ServerKind,
    api_key: Option<&str>,
) -> Result<PreflightTarget> {
    Ok(PreflightTarget::Server {
        endpoint: Endpoint {
            base_url: checked_url(url)?,
            path: flags
                .endpoint
                .clone()
                .unwrap_or_else(|| backend.path(!flags.disable_stream).to_owned()),
            headers: key_values("--header", &flags.header)?,
            api_key: api_key.map(ApiKey::new),
            insecure: flags.insecure,
        },
        model: flags.model.clone(),
        ready_timeout: Duration::from_secs(flags.ready_check_timeout_sec),
    })
}

fn features(flags: &PreflightArgs) -> Result<Option<FeatureOptions>> {
    if !flags.features {
        return Ok(None);
    }
    Ok(Some(FeatureOptions {
        features: chosen(&flags.keyword)?,
        settings: Settings {
            samples: flags.samples.into(),
            seed: flags.seed,
            output_len: output_len(flags),
            max_concurrency: flags.max_concurrency.into(),
            request_timeout_s: flags.request_timeout,
            stream: !flags.disable_stream,
        },
    }))
}

/// The kinds in the order in which they are asked, whatever the order typed.
fn kinds(names: &[String]) -> Result<Vec<Kind>> {
    let named = names
        .iter()
        .map(|name| Kind::parse(name))
        .collect::<Result<Vec<_>>>()?;
    if named.is_empty() {
        return Err(
            Error::usage("--kind names none").hint("leave it out to ask about the usual ones")
        );
    }
    Ok(Kind::ALL
        .into_iter()
        .filter(|kind| named.contains(kind))
        .collect())
}

/// An own field that constrains would constrain the control, and be taken for what is asked.
fn extra_body(text: &str) -> Result<Map<String, Value>> {
    let fields = json_object("--extra-body", text)?;
    match fields
        .iter()
        .find(|(field, value)| ConstraintDialect::constrains(field, value))
    {
        None => Ok(fields),
        Some((field, _)) => Err(Error::usage(format!(
            "--extra-body would constrain every question, the control too: {field}"
        ))
        .hint("take the field out: preflight sends constraints itself")),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{Cli, Command};

    fn options(arguments: &[&str]) -> Result<PreflightOptions> {
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
        PreflightOptions::new(&arguments, Some("key-from-environment"))
    }

    #[test]
    fn without_a_server_the_embedded_engine_is_asked() {
        let embedded = options(&["--guided-decoding-backend", "outlines"]).unwrap();
        assert!(matches!(
            embedded.targets[..],
            [PreflightTarget::Embedded {
                engine: EngineName::Outlines
            }]
        ));
        assert_eq!(
            (embedded.dialects, embedded.kinds),
            (Dialects::All, Kind::USUAL.to_vec())
        );
        let named = options(&[
            "--base-url",
            "http://h/v1",
            "--backend",
            "openai-chat",
            "--constraint-dialect",
            "guided",
        ])
        .unwrap();
        assert!(!format!("{named:?}").contains("key-from-environment"));
        let [PreflightTarget::Server { endpoint, .. }] = &named.targets[..] else {
            panic!("a URL names a server")
        };
        assert_eq!(
            (endpoint.path.as_str(), named.dialects),
            (
                "/v1/chat/completions",
                Dialects::One(ConstraintDialect::Guided)
            )
        );
    }

    #[test]
    fn kinds_are_asked_in_one_order() {
        let kinds = options(&["--kind", "structural_tag,choice,json"])
            .unwrap()
            .kinds;
        assert_eq!(kinds, [Kind::Json, Kind::Choice, Kind::StructuralTag]);
    }

    #[test]
    fn features_are_asked_of_several_side_by_side() {
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
                engines.targets.len(),
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
        assert_eq!(engines.output_len, FEATURES_OUTPUT_LEN);
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
            (urls.targets.len(), urls.features.unwrap().settings.samples),
            (2, 4)
        );
        assert!(options(&[]).unwrap().features.is_none());
    }

    #[test]
    fn wrong_values_name_flag_and_value() {
        for (arguments, words) in [
            (&["--kind", "xml"][..], "unknown kind of constraint: xml"),
            (
                &["--request-timeout", "-1"],
                "--request-timeout is not a time: -1",
            ),
            (&["--extra-body", "[]"], "--extra-body is not a JSON object"),
            (
                &["--extra-body", r#"{"response_format": {}}"#],
                "--extra-body would constrain every question, the control too: response_format",
            ),
            (
                &["--extra-body", r#"{"sampling_params": {"regex": "a"}}"#],
                "--extra-body would constrain every question, the control too: sampling_params",
            ),
            (&["--base-url", "h:1"], "h:1"),
            (
                &["--base-url", "http://a", "--base-url", "http://b"],
                "several servers or engines, and only --features compares them side by side",
            ),
            (
                &["--base-url", "http://a", "--backend", "scalellm"],
                "servers of this kind have no field for a constraint: scalellm",
            ),
            (
                &["--base-url", "http://a", "--backend", "vllm-rerank"],
                "servers of this kind have no field for a constraint: vllm-rerank",
            ),
            (
                &["--features", "--keyword", "maxLenght"],
                "no feature is about this keyword: maxLenght",
            ),
            (
                &["--backend", "tgi"],
                "no server is named, and the embedded engine is no such backend: tgi",
            ),
            (
                &["--constraint-dialect", "sglang"],
                "no server is named, and the embedded engine reads no such dialect: sglang",
            ),
            (&["--guided-decoding-backend", "llama.cpp"], "llama.cpp"),
        ] {
            let error = options(arguments).expect_err("the value is wrong");
            assert!(
                error.what.contains(words) && error.exit_code() == 2 && error.hint.is_some(),
                "{error}"
            );
        }
    }
}
