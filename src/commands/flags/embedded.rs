//! The flags of decoding engines and of the synthetic model, checked. Knows no engine's library.

use crate::commands::flags::engine::{EmbeddedArgs, EngineArgs};
use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_core::error::{Error, Result};
use sobench_embedded::EmbeddedOptions;
use sobench_engine::{EngineName, EnginePolicy};

/// The policy that the flags describe.
pub(crate) fn policy(flags: &EngineArgs) -> EnginePolicy {
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

/// The options of an embedded server, as far as these flags go.
pub(crate) fn options(
    engine: EngineName,
    pace: &EmbeddedArgs,
    flags: &EngineArgs,
) -> Result<EmbeddedOptions> {
    Ok(EmbeddedOptions {
        engine,
        policy: policy(flags),
        ttft_ms: milliseconds("--embedded-ttft-ms", pace.embedded_ttft_ms)?,
        itl_ms: milliseconds("--embedded-itl-ms", pace.embedded_itl_ms)?,
        step_ms: milliseconds("--embedded-step-ms", pace.embedded_step_ms)?,
        max_batch: usize::try_from(pace.embedded_max_batch).unwrap_or(usize::MAX),
        compile_timeout_s: compile_timeout(pace.embedded_compile_timeout_s)?,
        ..EmbeddedOptions::default()
    })
}

/// Refuses what only other servers read: the embedded one would answer 404, or not see the
/// constraint.
pub(crate) fn refuse_unembedded(
    backend: ServerKind,
    dialect: Option<ConstraintDialect>,
) -> Result<()> {
    if !backend.is_embedded() {
        return Err(Error::usage(format!(
            "no server is named, and the embedded engine is no such backend: {backend}"
        ))
        .hint("name a server with --base-url, or leave --backend out"));
    }
    dialect
        .filter(|dialect| !dialect.is_embedded())
        .map_or(Ok(()), |dialect| {
            Err(Error::usage(format!(
                "no server is named, and the embedded engine reads no such dialect: {dialect}"
            ))
            .hint("name a server with --base-url, or leave --constraint-dialect out"))
        })
}

/// The flags of the embedded engine that were changed; where a server is named they would do
/// nothing.
pub(crate) fn embedded_flags(pace: &EmbeddedArgs, engine: &EngineArgs) -> Vec<&'static str> {
    let changed = [
        ("--embedded-ttft-ms", pace.embedded_ttft_ms != 0.0),
        ("--embedded-itl-ms", pace.embedded_itl_ms != 0.0),
        ("--embedded-step-ms", pace.embedded_step_ms != 0.0),
        ("--embedded-max-batch", pace.embedded_max_batch != 256),
        (
            "--embedded-compile-timeout-s",
            pace.embedded_compile_timeout_s != 10.0,
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

fn milliseconds(flag: &str, value: f64) -> Result<f64> {
    if value.is_finite() && (0.0..=600_000.0).contains(&value) {
        return Ok(value);
    }
    Err(Error::usage(format!("{flag} is not a time: {value}"))
        .hint("give milliseconds from 0 to 600000"))
}
