//! Flags of `sobench serve`, converted to the options of the embedded server.

use std::net::ToSocketAddrs;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::embedded;
use crate::commands::flags::engine::{EMBEDDED_HEADING, ENGINE_HEADING, EmbeddedArgs, EngineArgs};
use crate::commands::flags::paths::InputNames;
use crate::commands::flags::values::{Described, described};
use sobench_core::error::{Error, Result};
use sobench_embedded::{EmbeddedSettings, Fault, GuidedFields, SYNTHETIC_MODEL};
use sobench_engine::vocabulary::VocabularySource;
use sobench_engine::{EngineName, SERVER_ONLY_ENGINES};

/// Serve synthetic answers with real masks, to test clients.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Port to listen on; 0 selects a free port
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Name of the served model
    #[arg(long, visible_alias = "served-model-name", value_name = "NAME")]
    pub model: Option<String>,
    /// Decoding engine [default: guidance]; lm-format-enforcer and llama.cpp are server only
    #[arg(long, visible_alias = "structured-output-backend", value_name = "ENGINE",
          value_parser = PossibleValuesParser::new(EngineName::ALL.map(EngineName::name).into_iter().chain(SERVER_ONLY_ENGINES)))]
    pub guided_decoding_backend: Option<String>,
    /// Vocabulary: cl100k_base, a tokenizer.json or its folder
    #[arg(long, value_name = "NAME|PATH", default_value = "cl100k_base")]
    pub tokenizer: InputNames,
    /// Seed of the answers
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// End-of-sequence token, if the tokenizer does not declare it
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// Treatment of the fields guided_json, guided_regex ...: honour them as constraints (vLLM up
    /// to 0.11), or ignore them silently (vLLM from 0.12 on)
    #[arg(long, value_name = "MODE", default_value = "honour", value_parser = described(&GUIDED_FIELDS))]
    pub guided_fields: GuidedFields,
    /// Faults to inject, each into a share of the requests, e.g. ignore-constraint@0.1 or
    /// stall:250: ignore-constraint, error-429, error-500, hang, slow-header:MS, stall:MS, reset,
    /// truncate, error-mid-stream, no-done, no-usage, wrong-model, extra-text, empty; of tool calls:
    /// merge-calls, drop-strict, leak-markup, wrong-tool, call-under-none, cut-arguments,
    /// duplicate-id, buffer-arguments; of reasoning: suppress-thinking, constrain-thinking,
    /// constraint-early, constraint-late, answer-in-reasoning, leak-end-marker, endless-thinking; of
    /// masks under load: swap-masks, mask-off-by-one, fail-open:N, restart-grammar, bad-rollback,
    /// shorten-under-load, shorten; of cancellation: die-on-cancel, leak-slot-on-cancel; of compiles:
    /// leak-per-schema:BYTES, slow-compile:MS, stall-neighbours, zombie-compile, die-on-large:BYTES.
    /// -from-turn:N, -above-tools:N and -above-context:N after a kind without a number restrict it to
    /// later turns, more tools or longer prompts, such as leak-markup-from-turn:4.
    /// merge-calls@20of2000 injects it into exactly 20 of the first 2,000 requests that it can change
    #[arg(long, value_name = "KIND[:MS|:N|:BYTES][@SHARE]", num_args = 1..)]
    pub fault: Vec<String>,
    /// Report the tokens of prompts that a prefix cache would have, as cached tokens of usage
    #[arg(long)]
    pub prefix_cache: bool,
    #[command(flatten, next_help_heading = EMBEDDED_HEADING)]
    pub embedded: EmbeddedArgs,
    #[command(flatten, next_help_heading = ENGINE_HEADING)]
    pub engine: EngineArgs,
}

/// Values of `--guided-fields`.
const GUIDED_FIELDS: [Described<GuidedFields>; 2] = [
    Described(GuidedFields::Honour, "honour", ""),
    Described(GuidedFields::Ignore, "ignore", ""),
];

impl ServeArgs {
    /// The options of the embedded server.
    ///
    /// # Errors
    /// Usage errors that name the flag and its value.
    #[expect(clippy::disallowed_methods, reason = "resolves the listen address")]
    pub fn options(&self) -> Result<EmbeddedSettings> {
        let engine = self
            .guided_decoding_backend
            .as_deref()
            .map_or(Ok(EngineName::default()), EngineName::parse)?;
        let options = embedded::options(engine, &self.embedded, &self.engine)?;
        let mut found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .ok()
            .into_iter()
            .flatten();
        let bind = found.next().ok_or_else(|| {
            Error::usage(format!(
                "--host is not an address of this machine: {}",
                self.host
            ))
            .hint("use 127.0.0.1 to serve this machine only")
        })?;
        Ok(EmbeddedSettings {
            vocabulary: VocabularySource::parse(&self.tokenizer)?,
            eos_token: self.eos_token.clone(),
            seed: self.seed,
            model: self
                .model
                .clone()
                .unwrap_or_else(|| SYNTHETIC_MODEL.to_owned()),
            bind: Some(bind),
            guided_fields: self.guided_fields,
            prefix_cache: self.prefix_cache,
            faults: self
                .fault
                .iter()
                .map(|fault| Fault::parse(fault))
                .collect::<Result<_>>()?,
            ..options
        })
    }
}
