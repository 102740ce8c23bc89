//! What every request carries beside its case: the flags, checked against the fields that the kind
//! of server has.

use clap::Args;
use serde_json::{Map, Value, json};

use crate::commands::bench::args::BenchArgs;
use crate::commands::bench::options::server::ServerArgs;
use crate::commands::flags::checks::json_object;
use crate::commands::flags::values::Described;
use sobench_backend::{Input, Sampling, ServerKind};
use sobench_core::error::{Error, Result};
use sobench_data::dataset::DatasetName;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_results::record::{Lora, LoraAssignment, RequestSettings};

/// Fields of the request that steer sampling.
#[derive(Args, Clone, Debug)]
pub struct SamplingArgs {
    /// Sampling temperature
    #[arg(long, allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Nucleus sampling
    #[arg(long)]
    pub top_p: Option<f64>,
    /// Sample from so many tokens
    #[arg(long, allow_negative_numbers = true)]
    pub top_k: Option<i64>,
    /// Least probability, relative to the likeliest token's
    #[arg(long)]
    pub min_p: Option<f64>,
    /// Penalty on tokens by how often they came
    #[arg(long, allow_negative_numbers = true)]
    pub frequency_penalty: Option<f64>,
    /// Penalty on tokens that came
    #[arg(long, allow_negative_numbers = true)]
    pub presence_penalty: Option<f64>,
    /// Factor on tokens that came
    #[arg(long)]
    pub repetition_penalty: Option<f64>,
    /// Ask the server to go on past the end of the answer; breaks constrained requests
    #[arg(long)]
    pub ignore_eos: bool,
    /// Ask for the log probabilities of so many of the likeliest tokens at each place, in the field
    /// that the backend has for it
    #[arg(long, value_name = "N")]
    pub logprobs: Option<u32>,
    /// Answers to choose the best one from; only 1 can be asked for
    #[arg(long, value_name = "N", hide = true)]
    pub best_of: Option<u32>,
    /// JSON object of variables for the chat template: the server's, or the tokenizer's where
    /// prompts are put into it here
    #[arg(long, value_name = "JSON")]
    pub chat_template_kwargs: Option<String>,
    /// JSON object merged into every request body
    #[arg(long, value_name = "JSON")]
    pub extra_body: Option<String>,
}

/// The assignments, as they are typed.
pub(crate) const LORA_ASSIGNMENTS: [Described<LoraAssignment>; 2] = [
    Described(
        LoraAssignment::Random,
        "random",
        "Drawn for each request, by --seed",
    ),
    Described(LoraAssignment::RoundRobin, "round-robin", "In turn"),
];

/// # Errors
/// `--extra-body` or `--chat-template-kwargs` is no JSON object; a field is asked for that the kind
/// does not have, or twice.
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
        add(&mut own, "--continuous-usage", counting(backend)?)?;
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
    // Where the template is the server's, the variables are a field of the request.
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
    Ok(RequestSettings {
        stream: streams(arguments, backend),
        sampling: sampling(flags, backend),
        ignore_eos: flags.ignore_eos
            || super::dataset::goes_on(&arguments.dataset, backend, dataset),
        extra_body: own,
        template_variables,
        request_id_prefix: arguments.server.request_id_prefix.clone(),
        lora: lora(&arguments.server, backend)?,
        profile: arguments.server.profile,
    })
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
                .hint("name modules that the server was started with"),
        );
    }
    Ok(Some(Lora {
        modules: flags.lora_modules.clone(),
        assignment: flags.lora_assignment,
    }))
}

/// Prompts of one's own are sent as they are in any case.
pub(crate) fn untemplated(arguments: &BenchArgs) -> Option<Notice> {
    let is_given = arguments.dataset.typed.contains("skip_chat_template");
    is_given.then(|| {
        without_effect(
            "skip-chat-template",
            "prompts of one's own are sent as they are",
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

/// One answer is what every request asks for; more are refused.
///
/// # Errors
/// The flag asks for another number.
pub(crate) fn best_of(flags: &SamplingArgs) -> Result<Option<Notice>> {
    match flags.best_of {
        None => Ok(None),
        Some(1) => Ok(Some(without_effect(
            "best-of",
            "every request asks for one answer",
        ))),
        Some(n) => Err(Error::usage(format!(
            "an answer that is chosen from several has no latency of its own: --best-of {n}"
        ))
        .hint("leave it out; servers of today do not take it any more")),
    }
}

/// A small request beside the run is text or a chat message.
///
/// # Errors
/// The kind of server takes neither.
pub(crate) fn refuse_probe(rate: Option<f64>, backend: ServerKind) -> Result<()> {
    match (rate, backend.input()) {
        (None, _) | (_, Input::Text | Input::Messages) => Ok(()),
        (Some(_), Input::Audio | Input::Ranking) => Err(no_field("--probe-request-rate", backend)),
    }
}

fn no_field(flag: &str, backend: ServerKind) -> Error {
    Error::usage(format!("{flag} has no field on --backend {backend}"))
        .hint("leave it out; if the server takes it under some name, --extra-body can carry it")
}

/// Adds the fields of a flag to the user's own.
fn add(own: &mut Option<Map<String, Value>>, flag: &str, fields: Map<String, Value>) -> Result<()> {
    let all = own.get_or_insert_with(Map::new);
    for (field, value) in fields {
        if all.contains_key(&field) {
            return Err(Error::usage(format!(
                "{flag} sets {field}, which --extra-body sets as well"
            ))
            .hint("leave one of them out"));
        }
        all.insert(field, value);
    }
    Ok(())
}

/// Whether answers are asked for as streams: where nothing is generated, there is nothing to
/// stream.
pub(crate) fn streams(arguments: &BenchArgs, backend: ServerKind) -> bool {
    !arguments.traffic.disable_stream && backend.generates()
}

/// The fields that ask for usage in every chunk.
fn counting(backend: ServerKind) -> Result<Map<String, Value>> {
    if !backend.takes_stream_options() {
        return Err(Error::usage(format!(
            "--continuous-usage has no field on --backend {backend}"
        ))
        .hint(
            "leave it out: where such a server counts tokens in its chunks, that is read as it is",
        ));
    }
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    Ok([("stream_options".to_owned(), options)]
        .into_iter()
        .collect())
}

/// What was typed; and the penalty of 1 that vLLM's own client sends, so that it is in the record
/// as well.
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
