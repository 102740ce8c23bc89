//! The request flags (sampling, LoRA modules, extra fields), checked against the fields of the
//! backend.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::commands::bench::args::BenchArgs;
use crate::commands::bench::options::server::ServerArgs;
use crate::commands::flags::checks::json_object;
use crate::commands::flags::values::Described;
use sobench_backend::{Input, Sampling, ServerKind};
use sobench_core::error::{Error, Result};
use sobench_core::load::{CancelAfter, Cancellation};
use sobench_core::shard::Shard;
use sobench_data::dataset::DatasetName;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_plan::record::{Lora, LoraAssignment, RequestSettings};

/// The sampling flags.
#[derive(Args, Clone, Debug)]
pub struct SamplingArgs {
    /// Sampling temperature
    #[arg(long, allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Cumulative probability of nucleus sampling
    #[arg(long)]
    pub top_p: Option<f64>,
    /// Number of most probable tokens to sample from
    #[arg(long, allow_negative_numbers = true)]
    pub top_k: Option<i64>,
    /// Minimum probability relative to that of the most probable token
    #[arg(long)]
    pub min_p: Option<f64>,
    /// Penalty on tokens in proportion to their frequency in the answer
    #[arg(long, allow_negative_numbers = true)]
    pub frequency_penalty: Option<f64>,
    /// Penalty on tokens that occur in the answer
    #[arg(long, allow_negative_numbers = true)]
    pub presence_penalty: Option<f64>,
    /// Penalty factor on tokens that occur in the prompt or the answer
    #[arg(long)]
    pub repetition_penalty: Option<f64>,
    /// Generate past the end of the answer (ignore_eos); makes constrained answers invalid
    #[arg(long)]
    pub ignore_eos: bool,
    /// Number of most probable tokens per position to request log probabilities of
    #[arg(long, value_name = "N")]
    pub logprobs: Option<u32>,
    /// Number of candidate answers; only 1 is supported
    #[arg(long, value_name = "N", hide = true)]
    pub best_of: Option<u32>,
    /// Variables of the chat template as a JSON object. They are sent to chat endpoints, and
    /// otherwise used with the template of --tokenizer
    #[arg(long, value_name = "JSON")]
    pub chat_template_kwargs: Option<String>,
    /// JSON object to merge into each request body
    #[arg(long, alias = "extra-request-body", value_name = "JSON")]
    pub extra_body: Option<String>,
}

/// The values of `--lora-assignment`.
pub(crate) const LORA_ASSIGNMENTS: [Described<LoraAssignment>; 2] = [
    Described(
        LoraAssignment::Random,
        "random",
        "At random for each request, from --seed",
    ),
    Described(LoraAssignment::RoundRobin, "round-robin", "In turn"),
];

/// The settings of requests.
///
/// # Errors
/// `--extra-body` or `--chat-template-kwargs` is not a JSON object. The backend lacks a requested
/// field, or two flags set the same one.
pub(crate) fn request(
    arguments: &BenchArgs,
    backend: ServerKind,
    dataset: DatasetName,
) -> Result<RequestSettings> {
    let flags = &arguments.sampling;
    let mut own = flags
        .extra_body
        .as_deref()
        .map(|text| json_object("--extra-body", text))
        .transpose()?;
    if arguments.traffic.continuous_usage {
        add(&mut own, "--continuous-usage", usage_fields(backend)?)?;
    }
    if let Some(n) = flags.logprobs {
        let fields = backend
            .logprobs(n)
            .ok_or_else(|| no_field("--logprobs", backend))?;
        add(&mut own, "--logprobs", fields)?;
    }
    let template_variables = flags
        .chat_template_kwargs
        .as_deref()
        .map(|text| json_object("--chat-template-kwargs", text));
    let mut template_variables = template_variables.transpose()?;
    // If the server applies the template, the variables are a field of the request.
    if let Some(variables) = template_variables.take_if(|_| backend.input() != Input::Text) {
        let field = backend
            .template_variables()
            .ok_or_else(|| no_field("--chat-template-kwargs", backend))?;
        add(
            &mut own,
            "--chat-template-kwargs",
            [(field.to_owned(), Value::Object(variables))]
                .into_iter()
                .collect(),
        )?;
    }
    let stream_parity = stream_parity(arguments, backend)?;
    let sampling = sampling(flags, backend);
    Ok(RequestSettings {
        stream: streams(arguments, backend),
        sampling: match stream_parity {
            Some(_) => repeatable(&sampling, arguments.traffic.seed, backend),
            None => sampling,
        },
        stream_parity,
        wire: arguments.traffic.wire,
        ignore_eos: flags.ignore_eos
            || super::dataset::sets_ignore_eos(&arguments.dataset, backend, dataset),
        extra_body: own,
        template_variables,
        request_id_prefix: arguments.server.request_id_prefix.clone(),
        session_header: arguments.server.session_header.clone(),
        lora: lora(&arguments.server, backend)?,
        profile: arguments.server.profile,
    })
}

/// The share of requests of `--stream-parity`.
///
/// # Errors
/// It is not a share, or answers of this kind are never streamed.
fn stream_parity(arguments: &BenchArgs, backend: ServerKind) -> Result<Option<f64>> {
    let Some(share) = arguments.traffic.stream_parity else {
        return Ok(None);
    };
    if !(share > 0.0 && share <= 1.0) {
        return Err(Error::usage(format!(
            "--stream-parity is not above 0 and at most 1: {share}"
        ))
        .hint("give the share of requests, such as --stream-parity=0.1, or no number for all"));
    }
    if !backend.generates() {
        return Err(Error::usage(format!(
            "--stream-parity needs streamed answers, which --backend {backend} does not have"
        ))
        .hint("leave it out"));
    }
    Ok(Some(share))
}

/// Refuses `--stream-parity` in shards: each would send its requests again while others measure.
///
/// # Errors
/// Both are given.
pub(crate) fn refuse_parity_of_shards(share: Option<f64>, shard: Option<Shard>) -> Result<()> {
    match share.and(shard) {
        None => Ok(()),
        Some(shard) => Err(Error::usage(format!(
            "--stream-parity applies to one client, not to shards: {shard}"
        ))
        .hint("check the parity in a run without --shard")),
    }
}

/// Sampling whose answers a deterministic server repeats: temperature 0 unless given, and a seed
/// where the kind has a field for it.
fn repeatable(sampling: &Sampling, seed: u64, backend: ServerKind) -> Sampling {
    // Servers read signed integers.
    let seed = seed & i64::MAX.cast_unsigned();
    Sampling {
        temperature: sampling.temperature.or(Some(0.0)),
        seed: backend.takes_seed().then_some(seed.cast_signed()),
        ..sampling.clone()
    }
}

fn lora(flags: &ServerArgs, backend: ServerKind) -> Result<Option<Lora>> {
    if flags.lora_modules.is_empty() {
        return Ok(None);
    }
    if !backend.names_model() {
        return Err(no_field("--lora-modules", backend));
    }
    if let Some(empty) = flags
        .lora_modules
        .iter()
        .find(|name| name.trim().is_empty())
    {
        return Err(
            Error::usage(format!("--lora-modules has an empty name: {empty:?}"))
                .hint("give names of modules that the server has loaded"),
        );
    }
    Ok(Some(Lora {
        modules: flags.lora_modules.clone(),
        assignment: flags.lora_assignment,
    }))
}

/// A notice for `--skip-chat-template`, which has no effect.
pub(crate) fn skip_chat_template(arguments: &BenchArgs) -> Option<Notice> {
    let is_given = arguments.dataset.typed.contains("skip_chat_template");
    is_given.then(|| {
        without_effect(
            "skip-chat-template",
            "custom prompts are always sent unchanged",
        )
    })
}

fn without_effect(flag: &str, why: &str) -> Notice {
    BenchNotice::FlagWithoutEffect {
        flag: flag.to_owned(),
        why: why.to_owned(),
    }
    .into()
}

/// A notice for `--best-of 1`.
///
/// # Errors
/// The number is not 1.
pub(crate) fn best_of(flags: &SamplingArgs) -> Result<Option<Notice>> {
    match flags.best_of {
        None => Ok(None),
        Some(1) => Ok(Some(without_effect(
            "best-of",
            "every request asks for one answer",
        ))),
        Some(n) => Err(
            Error::usage(format!("--best-of above 1 is not supported: {n}"))
                .hint("leave it out; current servers do not support it either"),
        ),
    }
}

/// Refuses `--probe-request-rate` for backends without text or chat requests.
///
/// # Errors
/// The backend takes audio or documents.
pub(crate) fn refuse_probe(rate: Option<f64>, backend: ServerKind) -> Result<()> {
    match (rate, backend.input()) {
        (None, _) | (_, Input::Text | Input::Messages) => Ok(()),
        (Some(_), Input::Audio | Input::Ranking) => Err(no_field("--probe-request-rate", backend)),
    }
}

/// Refuses to abandon requests at their first token if answers are not streamed.
///
/// # Errors
/// The server computes answers in one piece.
pub(crate) fn refuse_first_token(
    cancellation: Option<Cancellation>,
    is_streamed: bool,
) -> Result<()> {
    match cancellation {
        Some(Cancellation {
            after: CancelAfter::FirstToken,
            ..
        }) if !is_streamed => Err(Error::usage(
            "--cancel-after first-token needs answers that are streamed",
        )
        .hint("give --cancel-after seconds, e.g. 0.5")),
        _ => Ok(()),
    }
}

fn no_field(flag: &str, backend: ServerKind) -> Error {
    Error::usage(format!("--backend {backend} has no field for {flag}"))
        .hint("leave it out, or use --extra-body if the server has a field for it")
}

/// Adds the fields of a flag to the user's own.
fn add(own: &mut Option<Map<String, Value>>, flag: &str, fields: Map<String, Value>) -> Result<()> {
    let all = own.get_or_insert_with(Map::new);
    for (field, value) in fields {
        if all.contains_key(&field) {
            return Err(
                Error::usage(format!("{flag} and --extra-body both set {field}"))
                    .hint("leave one of them out"),
            );
        }
        all.insert(field, value);
    }
    Ok(())
}

/// Whether answers are streamed. Backends that do not generate text never stream.
pub(crate) fn streams(arguments: &BenchArgs, backend: ServerKind) -> bool {
    !arguments.traffic.disable_stream && backend.generates()
}

/// The fields that request usage in each chunk.
fn usage_fields(backend: ServerKind) -> Result<Map<String, Value>> {
    if !backend.takes_stream_options() {
        return Err(Error::usage(format!(
            "--backend {backend} has no field for --continuous-usage"
        ))
        .hint("leave it out; token counts in the chunks of such a server are always read"));
    }
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    Ok([("stream_options".to_owned(), options)]
        .into_iter()
        .collect())
}

/// The sampling flags, with the repetition penalty of 1 that vLLM's own client always sends.
fn sampling(flags: &SamplingArgs, backend: ServerKind) -> Sampling {
    Sampling {
        temperature: flags.temperature,
        top_p: flags.top_p,
        top_k: flags.top_k,
        min_p: flags.min_p,
        frequency_penalty: flags.frequency_penalty,
        presence_penalty: flags.presence_penalty,
        repetition_penalty: flags.repetition_penalty.or(backend.repetition_penalty()),
        seed: None,
    }
}
