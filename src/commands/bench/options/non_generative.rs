//! Backends without constraints or without generated text: the flags that they refuse, and their
//! defaults.

use crate::commands::bench::args::BenchArgs;
use sobench_backend::{Input, ServerKind};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::{DatasetArgs, DatasetName};
use sobench_plan::dataset::{MAX_DOCUMENTS, PromptForm};

/// Refuses constraint flags for backends without constraints, and token latencies for backends
/// without tokens.
///
/// # Errors
/// Usage errors that name the flag, its value and the backend.
pub(crate) fn refuse(arguments: &BenchArgs, backend: ServerKind) -> Result<()> {
    if arguments.dataset.rerank_documents.is_some() && backend.input() != Input::Ranking {
        return Err(Error::usage(format!(
            "--rerank-documents has no meaning with --backend {backend}"
        ))
        .hint("use it with --backend vllm-rerank, or leave it out"));
    }
    if !backend.takes_constraints() {
        refuse_constraint(arguments, backend)?;
    }
    if let Some(seconds) = arguments
        .traffic
        .idle_timeout
        .filter(|_| !backend.generates())
    {
        return Err(Error::usage(format!(
            "--backend {backend} does not stream answers, so --idle-timeout has no meaning: {seconds}"
        ))
        .hint("leave it out, and use --request-timeout"));
    }
    if !backend.generates() {
        refuse_token_latencies(arguments, backend)?;
    }
    Ok(())
}

fn refuse_constraint(arguments: &BenchArgs, backend: ServerKind) -> Result<()> {
    let flags = &arguments.constraint;
    let ratio = flags.guided_decoding_ratio.filter(|&ratio| ratio != 0.0);
    let rows = [
        (
            "--guided-decoding-ratio",
            ratio.map(|ratio| ratio.to_string()),
        ),
        (
            "--constraint-dialect",
            flags.dialect().map(|dialect| dialect.to_string()),
        ),
        (
            "--grammar-dialect",
            flags
                .grammar_notation()
                .map(|notation| notation.to_string()),
        ),
        (
            "--guided-decoding-backend",
            flags.engine().map(str::to_owned),
        ),
        (
            "--arms",
            (!flags.arms.is_empty()).then(|| flags.arms.join(",")),
        ),
        ("--score", flags.score.clone()),
    ];
    match rows
        .into_iter()
        .find_map(|(flag, value)| Some((flag, value?)))
    {
        None => Ok(()),
        Some((flag, value)) => Err(Error::usage(format!(
            "the {backend} backend does not support constraints: {flag} {value}"
        ))
        .hint(format!("leave {flag} out"))),
    }
}

fn refuse_token_latencies(arguments: &BenchArgs, backend: ServerKind) -> Result<()> {
    let percentiles = arguments
        .output
        .percentile_metrics
        .iter()
        .find(|name| *name != "e2el");
    let goodput = arguments
        .output
        .goodput
        .iter()
        .find(|pair| !pair.starts_with("e2el:"));
    let rows = [
        ("--percentile-metrics", percentiles),
        ("--goodput", goodput),
    ];
    match rows
        .into_iter()
        .find_map(|(flag, value)| Some((flag, value?)))
    {
        None => Ok(()),
        Some((flag, value)) => Err(Error::usage(format!(
            "the {backend} backend generates no tokens: {flag} {value}"
        ))
        .hint("use e2el, the only latency of this backend")),
    }
}

/// The default dataset of a backend.
pub(crate) fn default_dataset(backend: ServerKind) -> DatasetName {
    if backend.input() == Input::Audio {
        DatasetName::Audio
    } else {
        DatasetName::Json
    }
}

/// The form of prompts for a backend.
///
/// # Errors
/// The number of documents per request is 0 or above the limit.
pub(crate) fn prompt_form(backend: ServerKind, flags: &DatasetArgs) -> Result<PromptForm> {
    Ok(match backend.input() {
        Input::Text => PromptForm::Text,
        Input::Messages => PromptForm::Messages,
        Input::Audio => PromptForm::Audio,
        Input::Ranking => {
            let documents = flags.rerank_documents.unwrap_or(1);
            if documents == 0 || documents > MAX_DOCUMENTS {
                return Err(Error::usage(format!(
                    "--rerank-documents is not from 1 to {MAX_DOCUMENTS}: {documents}"
                ))
                .hint(format!("give a number from 1 to {MAX_DOCUMENTS}")));
            }
            PromptForm::Ranking { documents }
        }
    })
}

/// The latencies of the report by default, as in vLLM.
pub(crate) fn default_latencies(backend: ServerKind) -> Vec<String> {
    let keys: &[&str] = match backend.generates() {
        true => &["ttft", "tpot", "itl"],
        false => &["e2el"],
    };
    keys.iter().map(|key| (*key).to_owned()).collect()
}
