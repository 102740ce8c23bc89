//! `sobench serve`: the embedded server until Ctrl-C. Knows no route and no engine.

use crate::ending::Ending;
use crate::error::Result;
use crate::progress;
use crate::server::{EmbeddedOptions, EmbeddedServer};

/// Serves until Ctrl-C or a termination signal; says where on stderr once it takes connections.
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

/// Resolves with Ctrl-C, or where there is such a thing with the signal that asks a program to end.
async fn stopped() {
    let ctrl_c = tokio::signal::ctrl_c();
    #[cfg(unix)]
    if let Ok(mut terminate) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        tokio::select! {
            _ = ctrl_c => {}
            _ = terminate.recv() => {}
        }
        return;
    }
    // Without signals it serves until it is killed.
    if ctrl_c.await.is_err() {
        std::future::pending::<()>().await;
    }
}
