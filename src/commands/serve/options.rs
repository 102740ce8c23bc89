//! The flags of `sobench serve`, checked and turned into what the embedded server is to be like. Opens no socket.

use std::net::ToSocketAddrs;

use crate::commands::flags::embedded;
use crate::commands::serve::args::ServeArgs;
use crate::engine::EngineName;
use crate::engine::vocabulary::VocabularySource;
use crate::error::{Error, Result};
use crate::server::{EmbeddedOptions, Fault, GuidedFields, SYNTHETIC_MODEL};

/// Checks the flags of `sobench serve`.
///
/// # Errors
/// Usage errors that name the flag and its value.
pub fn serve_plan(flags: &ServeArgs) -> Result<EmbeddedOptions> {
    let engine = flags.guided_decoding_backend.as_deref().map_or(Ok(EngineName::Guidance), EngineName::parse)?;
    let pace = embedded::pace(&flags.embedded)?;
    let mut found = (flags.host.as_str(), flags.port).to_socket_addrs().ok().into_iter().flatten();
    let bind = found.next().ok_or_else(|| {
        Error::usage(format!("--host is no address of this machine: {}", flags.host)).hint("127.0.0.1 serves this machine alone")
    })?;
    Ok(EmbeddedOptions {
        engine,
        policy: embedded::policy(&flags.engine),
        vocabulary: VocabularySource::parse(&flags.tokenizer)?,
        eos_token: flags.eos_token.clone(),
        seed: flags.seed,
        ttft_ms: pace.ttft_ms,
        itl_ms: pace.itl_ms,
        step_ms: pace.step_ms,
        max_batch: pace.max_batch,
        compile_timeout_s: pace.compile_timeout_s,
        model: flags.model.clone().unwrap_or_else(|| SYNTHETIC_MODEL.to_owned()),
        bind: Some(bind),
        guided_fields: if flags.guided_fields == "ignore" { GuidedFields::Ignore } else { GuidedFields::Honour },
        faults: flags.fault.iter().map(|fault| Fault::parse(fault)).collect::<Result<_>>()?,
        repeats_between: None,
    })
}
