//! `sobench serve`: the embedded server until Ctrl-C. Knows no route and no engine.

use crate::ending::Ending;
use crate::error::Result;
use crate::progress;
use crate::server::{EmbeddedOptions, EmbeddedServer};
use crate::signals::Wishes;

/// Serves until Ctrl-C or another wish to end; says where on stderr once it takes connections.
///
/// # Errors
/// The address cannot be had, the engine or the vocabulary cannot be opened.
pub fn run(options: EmbeddedOptions) -> Result<Ending> {
    let (model, faults) = (options.model.clone(), options.faults.clone());
    let server = EmbeddedServer::start(options)?;
    progress::say(&format!("serving {model} (synthetic) with {} at {}", server.engine_label(), server.base_url()));
    for fault in faults {
        progress::say(&format!("fault: {fault}"));
    }
    progress::say("stop with Ctrl-C");
    server.wait(stopped())?;
    Ok(Ending { lines: vec!["stopped".to_owned()], ..Ending::default() })
}

/// Resolves with the first wish to end.
async fn stopped() {
    Wishes::listen().next().await;
}
