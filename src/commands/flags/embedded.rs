//! The options of decoding engines and of the embedded server, from their flags.

use crate::commands::flags::engine::{EmbeddedArgs, EngineArgs};
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::error::{Error, Result};
use sobench_core::speed::Speed;
use sobench_embedded::{EmbeddedSettings, ReasoningStyle, ToolStyle};
use sobench_engine::{EngineName, EnginePolicy};

/// The engine policy of the flags.
pub fn policy(flags: &EngineArgs) -> EnginePolicy {
    EnginePolicy {
        any_whitespace: !flags.disable_any_whitespace,
        xgrammar_strict: !flags.xgrammar_compliant,
        guidance_forcing: !flags.guidance_no_forcing,
        guidance_slicer: !flags.guidance_no_slicer,
        auto_lock: flags.auto_lock,
        compile_threads: usize::from(flags.compile_threads),
        ..EnginePolicy::default()
    }
}

/// The options of an embedded server that these flags determine.
///
/// # Errors
/// A time is invalid.
pub fn options(
    engine: EngineName,
    timing: &EmbeddedArgs,
    flags: &EngineArgs,
) -> Result<EmbeddedSettings> {
    Ok(EmbeddedSettings {
        engine,
        policy: policy(flags),
        speed: Speed {
            profile: timing.embedded_speed.unwrap_or_default(),
            ttft_ms: milliseconds("--embedded-ttft-ms", timing.embedded_ttft_ms)?,
            itl_ms: milliseconds("--embedded-itl-ms", timing.embedded_itl_ms)?,
            step_ms: milliseconds("--embedded-step-ms", timing.embedded_step_ms)?,
        },
        max_batch: usize::try_from(timing.embedded_max_batch).unwrap_or(usize::MAX),
        speculate: usize::from(timing.embedded_speculate),
        kv_tokens: timing.embedded_kv_tokens,
        compile_timeout_s: compile_timeout(timing.embedded_compile_timeout_s)?,
        tool_style: timing.embedded_tool_style,
        reasoning_tokens: timing.embedded_reasoning_tokens,
        reasoning_style: timing.embedded_reasoning_style,
        ..EmbeddedSettings::default()
    })
}

/// Refuses backends and dialects that the embedded server does not support: it would answer 404 or
/// ignore the constraint.
pub fn refuse_unembedded(backend: ServerKind, dialect: Option<ConstraintDialect>) -> Result<()> {
    if !backend.is_embedded() {
        return Err(Error::usage(format!(
            "the embedded server does not support --backend {backend}, and no other server is named"
        ))
        .hint("name a server with --base-url, or leave --backend out"));
    }
    dialect
        .filter(|dialect| !dialect.is_embedded())
        .map_or(Ok(()), |dialect| {
            Err(Error::usage(format!(
                "the embedded server does not support --constraint-dialect {dialect}, and no other server is named"
            ))
            .hint("name a server with --base-url, or leave --constraint-dialect out"))
        })
}

/// The flags of the embedded server that are given or differ from their defaults. With another
/// server, they have no effect.
pub fn embedded_flags(timing: &EmbeddedArgs, engine: &EngineArgs) -> Vec<&'static str> {
    let changed = [
        ("--embedded-speed", timing.embedded_speed.is_some()),
        ("--embedded-ttft-ms", timing.embedded_ttft_ms.is_some()),
        ("--embedded-itl-ms", timing.embedded_itl_ms.is_some()),
        ("--embedded-step-ms", timing.embedded_step_ms.is_some()),
        ("--embedded-max-batch", timing.embedded_max_batch != 256),
        ("--embedded-speculate", timing.embedded_speculate != 0),
        ("--embedded-kv-tokens", timing.embedded_kv_tokens.is_some()),
        (
            "--embedded-compile-timeout-s",
            timing.embedded_compile_timeout_s != 10.0,
        ),
        (
            "--embedded-tool-style",
            timing.embedded_tool_style != ToolStyle::default(),
        ),
        (
            "--embedded-reasoning-tokens",
            timing.embedded_reasoning_tokens != 0,
        ),
        (
            "--embedded-reasoning-style",
            timing.embedded_reasoning_style != ReasoningStyle::default(),
        ),
        ("--disable-any-whitespace", engine.disable_any_whitespace),
        ("--xgrammar-compliant", engine.xgrammar_compliant),
        ("--guidance-no-forcing", engine.guidance_no_forcing),
        ("--guidance-no-slicer", engine.guidance_no_slicer),
        ("--auto-lock", engine.auto_lock),
        ("--compile-threads", engine.compile_threads != 1),
    ];
    changed
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(flag, _)| flag)
        .collect()
}

fn compile_timeout(seconds: f64) -> Result<f64> {
    if (0.001..=86_400.0).contains(&seconds) {
        return Ok(seconds);
    }
    Err(Error::usage(format!(
        "--embedded-compile-timeout-s is not a time limit: {seconds}"
    ))
    .hint("give seconds from 0.001 to 86400"))
}

fn milliseconds(flag: &str, value: Option<f64>) -> Result<Option<f64>> {
    match value.filter(|value| !(0.0..=600_000.0).contains(value)) {
        None => Ok(value),
        Some(wrong) => Err(Error::usage(format!("{flag} is not a time: {wrong}"))
            .hint("give milliseconds from 0 to 600000")),
    }
}
