//! The flags of decoding engines in this process and of the embedded server.

use std::sync::LazyLock;

use clap::Args;

use crate::commands::flags::values::{Described, described};
use sobench_core::speed::SpeedProfile;
use sobench_embedded::{Knowledge, MAX_SPECULATE, MIN_KV_TOKENS, ReasoningStyle, ToolStyle};

/// The flags of decoding engines. Every result records them.
#[derive(Args, Clone, Debug)]
pub struct EngineArgs {
    /// Allow no white space in JSON beyond the default format of the library, as vLLM's option of
    /// this name
    #[arg(long)]
    pub disable_any_whitespace: bool,
    /// Turn off strict_mode of xgrammar: members and items that the schema does not mention are
    /// allowed, as in JSON Schema
    #[arg(long)]
    pub xgrammar_compliant: bool,
    /// Turn off the forced canonical tokens of llguidance
    #[arg(long)]
    pub guidance_no_forcing: bool,
    /// Turn off the vocabulary slices of llguidance
    #[arg(long)]
    pub guidance_no_slicer: bool,
    /// Keep the engine that auto selects for the first constraint, and refuse constraints for other
    /// engines, as a vLLM server does
    #[arg(long)]
    pub auto_lock: bool,
    /// Number of threads of one compilation (xgrammar only)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub compile_threads: u16,
}

/// Headings of the flags that `--embedded` stands for.
pub const EMBEDDED_HEADING: &str = "Options of --embedded: the synthetic model";
pub const ENGINE_HEADING: &str = "Options of --embedded: decoding engines";

/// The timing, the batch size and the model of the embedded server.
#[derive(Args, Clone, Debug)]
pub struct EmbeddedArgs {
    /// Options of the embedded server, such as speed=8b-h100,max-batch=8: of its synthetic model and
    /// of its decoding engines. May be repeated
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub embedded: Vec<String>,
    /// Speed of the synthetic model: times of prompts and of steps like those of a server [default:
    /// instant, or 8b-h100 to compare several engines on the embedded server]
    #[arg(long, value_name = "PROFILE", value_parser = described(&*SPEEDS))]
    pub embedded_speed: Option<SpeedProfile>,
    /// Delay of the first token in milliseconds, in place of the time of the prompt in
    /// --embedded-speed
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub embedded_ttft_ms: Option<f64>,
    /// Delay between tokens in milliseconds, in place of the step time of --embedded-speed
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub embedded_itl_ms: Option<f64>,
    /// Minimum duration in milliseconds of a step, in which every running sequence gets one token,
    /// in place of the step time of --embedded-speed
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    pub embedded_step_ms: Option<f64>,
    /// Maximum number of running sequences; others wait
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub embedded_max_batch: u32,
    /// Speculative decoding: draft up to K tokens per step of a sequence, by n-grams of the prompt and
    /// the answer so far. The answers do not change
    #[arg(long, value_name = "K", default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=MAX_SPECULATE as i64))]
    pub embedded_speculate: u8,
    /// Limit on the tokens of prompts and answers of all running sequences (the KV cache). Sequences
    /// that do not fit are preempted and computed again. A single request must fit [default: no
    /// limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(MIN_KV_TOKENS)..))]
    pub embedded_kv_tokens: Option<u32>,
    /// Time limit of one compilation in seconds; constraints that take longer are refused
    #[arg(
        long,
        value_name = "S",
        default_value_t = 10.0,
        allow_negative_numbers = true
    )]
    pub embedded_compile_timeout_s: f64,
    /// Markup in which the model writes tool calls
    #[arg(long, visible_alias = "tool-style", value_name = "STYLE", default_value_t, value_parser = described(&*TOOL_STYLES))]
    pub embedded_tool_style: ToolStyle,
    /// Tokens of reasoning before each answer of a chat or a response, about; 0 for a model that
    /// does not reason
    #[arg(
        long,
        visible_alias = "reasoning-tokens",
        value_name = "N",
        default_value_t = 0
    )]
    pub embedded_reasoning_tokens: u32,
    /// Marks around the reasoning
    #[arg(long, visible_alias = "reasoning-style", value_name = "STYLE", default_value_t, value_parser = described(&*REASONING_STYLES))]
    pub embedded_reasoning_style: ReasoningStyle,
}

/// The knowledge of the synthetic model, in runs that start the embedded server.
#[derive(Args, Clone, Debug)]
pub struct KnowledgeArgs {
    /// Probabilities that the synthetic model knows the reference of an item: in the arm free, in the
    /// arm prompt, and in arms with a constraint. CORRELATION is the share of the items for which one
    /// random number decides in all arms, 0.5 by default. Otherwise answers are wrong
    #[arg(long, value_name = "P_FREE,P_PROMPT,P_CONSTRAINED[,CORRELATION]")]
    pub embedded_knows: Option<Knowledge>,
}

/// Values of `--embedded-tool-style`.
static TOOL_STYLES: LazyLock<[Described<ToolStyle>; ToolStyle::ALL.len()]> = LazyLock::new(|| {
    ToolStyle::ALL.map(|style| Described(style, style.name(), style.spec().about))
});

/// Values of `--embedded-reasoning-style`.
static REASONING_STYLES: LazyLock<[Described<ReasoningStyle>; ReasoningStyle::ALL.len()]> =
    LazyLock::new(|| {
        ReasoningStyle::ALL.map(|style| Described(style, style.name(), style.spec().about))
    });

/// Values of `--embedded-speed`.
static SPEEDS: LazyLock<[Described<SpeedProfile>; SpeedProfile::ALL.len()]> = LazyLock::new(|| {
    SpeedProfile::ALL.map(|speed| Described(speed, speed.name(), speed.spec().about))
});
