//! Flags that steer the decoding engines of this process, the same in every command that has them.
//! Clap types only.

use clap::Args;

/// Choices that change what an engine accepts or costs; each result records them.
#[derive(Args, Clone, Debug)]
pub struct EngineArgs {
    /// JSON in the library's one spelling, without other white space (as vLLM's option of this
    /// name)
    #[arg(long)]
    pub disable_any_whitespace: bool,
    /// xgrammar with strict_mode off: members and items that a schema does not name are allowed, as
    /// JSON Schema says
    #[arg(long)]
    pub xgrammar_compliant: bool,
    /// llguidance without forcing the tokenizer's canonical tokens where text is forced
    #[arg(long)]
    pub guidance_no_forcing: bool,
    /// llguidance without its slices of the vocabulary
    #[arg(long)]
    pub guidance_no_slicer: bool,
    /// auto stays with the engine of the first constraint, and refuses what its rule sends
    /// elsewhere, as a vLLM server does
    #[arg(long)]
    pub auto_lock: bool,
    /// Threads of one compile (xgrammar)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub compile_threads: u16,
}

/// How the embedded server keeps time, and how many answers it writes at once.
#[derive(Args, Clone, Debug)]
pub struct EmbeddedArgs {
    /// Milliseconds before the first token
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub embedded_ttft_ms: f64,
    /// Milliseconds between tokens
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub embedded_itl_ms: f64,
    /// Least milliseconds of a step, in which every running sequence gets one token
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    pub embedded_step_ms: f64,
    /// Most sequences that run at once; others wait
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    pub embedded_max_batch: u32,
    /// Most seconds of one compile; a constraint that takes longer is refused
    #[arg(
        long,
        value_name = "S",
        default_value_t = 10.0,
        allow_negative_numbers = true
    )]
    pub embedded_compile_timeout_s: f64,
}
