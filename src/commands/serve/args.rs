//! The flags of `sobench serve`. Clap types only.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::commands::flags::engine::{EmbeddedArgs, EngineArgs};
use crate::engine::{EngineName, SERVER_ONLY};

/// The embedded server, for trying clients.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Address to listen at
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// Port to listen at; 0 takes a free one
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Name of the model that is offered
    #[arg(long, visible_alias = "served-model-name", value_name = "NAME")]
    pub model: Option<String>,
    /// Decoding engine [default: guidance]; lm-format-enforcer and llama.cpp are server only
    #[arg(long, visible_alias = "structured-output-backend", value_name = "ENGINE",
          value_parser = PossibleValuesParser::new(EngineName::ALL.map(EngineName::name).into_iter().chain(SERVER_ONLY)))]
    pub guided_decoding_backend: Option<String>,
    /// Vocabulary: cl100k_base, o200k_base, a tokenizer.json or its folder
    #[arg(long, value_name = "NAME|PATH", default_value = "cl100k_base")]
    pub tokenizer: String,
    /// Seed of the answers
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// The token that ends an answer, where the tokenizer does not say
    #[arg(long, value_name = "TOKEN")]
    pub eos_token: Option<String>,
    /// What becomes of the fields guided_json, guided_regex ...: constrain (vLLM up to 0.11), or are dropped without a word
    /// (from 0.12 on)
    #[arg(long, value_name = "FATE", default_value = "honour", value_parser = ["honour", "ignore"])]
    pub guided_fields: String,
    /// Something to go wrong on purpose, in a share of the requests, e.g. ignore-constraint@0.1 or stall:250: ignore-constraint,
    /// error-400, error-429, error-500, error-503, hang, slow-header:MS, stall:MS, reset, truncate, error-mid-stream, no-done,
    /// no-usage, wrong-model, invalid-utf8, extra-text, empty
    #[arg(long, value_name = "KIND[:MS][@SHARE]", num_args = 1..)]
    pub fault: Vec<String>,
    #[command(flatten, next_help_heading = "Synthetic model")]
    pub embedded: EmbeddedArgs,
    #[command(flatten, next_help_heading = "Decoding engines")]
    pub engine: EngineArgs,
}
