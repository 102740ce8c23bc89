//! The flags of `sobench preflight`, checked and turned into what is asked of whom. Opens no socket.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{Format, checked_url, json_object, key_values};
use crate::backend::{ConstraintDialect, ServerKind};
use crate::cli::{PreflightArgs, PreflightFormat};
use crate::constraint::GrammarDialect;
use crate::driver::{ApiKey, Endpoint};
use crate::engine::EngineName;
use crate::error::{Error, Result};
use crate::preflight::Kind;

/// What is asked of whom.
#[derive(Clone, Debug)]
pub struct PreflightPlan {
    pub target: PreflightTarget,
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
    pub format: Format,
    pub json: Option<PathBuf>,
    pub progress: bool,
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

/// Checks the flags of `sobench preflight`. `api_key` is `OPENAI_API_KEY`'s value, if set.
///
/// # Errors
/// Usage errors that name the flag and its value.
pub fn preflight_plan(flags: &PreflightArgs, api_key: Option<String>) -> Result<PreflightPlan> {
    let backend = flags.backend.unwrap_or(ServerKind::Vllm);
    Ok(PreflightPlan {
        target: target(flags, backend, api_key)?,
        backend,
        dialects: match flags.constraint_dialect.as_str() {
            "all" => Dialects::All,
            "auto" => Dialects::Auto,
            name => Dialects::One(name.parse()?),
        },
        grammar_dialect: [GrammarDialect::Lark, GrammarDialect::Ebnf]
            .into_iter()
            .find(|dialect| dialect.name() == flags.grammar_dialect),
        kinds: kinds(&flags.kind)?,
        seed: flags.seed,
        output_len: flags.output_len,
        timeout: timeout(flags.request_timeout)?,
        stream: !flags.disable_stream,
        extra_body: flags.extra_body.as_deref().map(extra_body).transpose()?,
        format: match flags.format {
            PreflightFormat::Text => Format::Text,
            PreflightFormat::Json => Format::Json,
        },
        json: flags.json.clone(),
        progress: !flags.disable_tqdm,
    })
}

fn target(flags: &PreflightArgs, backend: ServerKind, api_key: Option<String>) -> Result<PreflightTarget> {
    let Some(url) = &flags.base_url else {
        refuse_unembedded(flags, backend)?;
        let name = flags.guided_decoding_backend.as_deref();
        return Ok(PreflightTarget::Embedded { engine: name.map_or(Ok(EngineName::Guidance), EngineName::parse)? });
    };
    Ok(PreflightTarget::Server {
        endpoint: Endpoint {
            base_url: checked_url(url)?,
            path: flags.endpoint.clone().unwrap_or_else(|| backend.path(!flags.disable_stream).to_owned()),
            headers: key_values("--header", &flags.header)?,
            api_key: api_key.map(ApiKey::new),
            insecure: flags.insecure,
        },
        model: flags.model.clone(),
        ready_timeout: Duration::from_secs(flags.ready_check_timeout_sec),
    })
}

/// The embedded server would answer 404, or not see the constraint.
fn refuse_unembedded(flags: &PreflightArgs, backend: ServerKind) -> Result<()> {
    if !backend.is_embedded() {
        return Err(Error::usage(format!("no server is named, and the embedded engine is no such backend: {backend}"))
            .hint("name a server with --base-url, or leave --backend out"));
    }
    match flags.constraint_dialect.parse::<ConstraintDialect>() {
        Ok(dialect) if !dialect.is_embedded() => {
            Err(Error::usage(format!("no server is named, and the embedded engine reads no such dialect: {dialect}"))
                .hint("name a server with --base-url, or leave --constraint-dialect out"))
        }
        _ => Ok(()),
    }
}

/// The kinds in the order in which they are asked, whatever the order typed.
fn kinds(names: &[String]) -> Result<Vec<Kind>> {
    let named = names.iter().map(|name| Kind::parse(name)).collect::<Result<Vec<_>>>()?;
    if named.is_empty() {
        return Err(Error::usage("--kind names none").hint("leave it out to ask about the usual ones"));
    }
    Ok(Kind::ALL.into_iter().filter(|kind| named.contains(kind)).collect())
}

/// An own field that constrains would constrain the control, and be taken for what is asked.
fn extra_body(text: &str) -> Result<Map<String, Value>> {
    let fields = json_object(text)?;
    match fields.iter().find(|(field, value)| ConstraintDialect::constrains(field, value)) {
        None => Ok(fields),
        Some((field, _)) => Err(Error::usage(format!("--extra-body would constrain every question, the control too: {field}"))
            .hint("take the field out: preflight sends constraints itself")),
    }
}

fn timeout(seconds: f64) -> Result<Duration> {
    let timeout = Duration::try_from_secs_f64(seconds).ok().filter(|timeout| !timeout.is_zero());
    timeout.ok_or_else(|| Error::usage(format!("--request-timeout is not a time: {seconds}")).hint("give seconds above 0"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{Cli, Command};

    fn plan(arguments: &[&str]) -> Result<PreflightPlan> {
        let arguments = ["sobench", "preflight"].iter().chain(arguments).map(OsString::from);
        let command = Cli::parse_arguments(arguments).expect("clap takes these arguments").into_command();
        let Command::Preflight(arguments) = command else { panic!("{command:?}") };
        preflight_plan(&arguments, Some("key-from-environment".to_owned()))
    }

    #[test]
    fn without_a_server_the_embedded_engine_is_asked() {
        let embedded = plan(&["--guided-decoding-backend", "outlines"]).unwrap();
        assert!(matches!(embedded.target, PreflightTarget::Embedded { engine: EngineName::Outlines }));
        assert_eq!((embedded.dialects, embedded.kinds), (Dialects::All, Kind::USUAL.to_vec()));
        let named = plan(&["--base-url", "http://h/v1", "--backend", "openai-chat", "--constraint-dialect", "guided"]).unwrap();
        assert!(!format!("{named:?}").contains("key-from-environment"));
        let PreflightTarget::Server { endpoint, .. } = named.target else { panic!("a URL names a server") };
        assert_eq!((endpoint.path.as_str(), named.dialects), ("/v1/chat/completions", Dialects::One(ConstraintDialect::Guided)));
    }

    #[test]
    fn kinds_are_asked_in_one_order() {
        let kinds = plan(&["--kind", "structural_tag,choice,json"]).unwrap().kinds;
        assert_eq!(kinds, [Kind::Json, Kind::Choice, Kind::StructuralTag]);
    }

    #[test]
    fn wrong_values_name_flag_and_value() {
        for (arguments, words) in [
            (&["--kind", "xml"][..], "unknown kind of constraint: xml"),
            (&["--request-timeout", "-1"], "--request-timeout is not a time: -1"),
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
            (&["--backend", "tgi"], "no server is named, and the embedded engine is no such backend: tgi"),
            (&["--constraint-dialect", "sglang"], "no server is named, and the embedded engine reads no such dialect: sglang"),
            (&["--guided-decoding-backend", "llama.cpp"], "llama.cpp"),
        ] {
            let error = plan(arguments).expect_err("the value is wrong");
            assert!(error.what.contains(words) && error.exit_code() == 2 && error.hint.is_some(), "{error}");
        }
    }
}
