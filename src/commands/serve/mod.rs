//! `sobench serve`: runs the embedded server until Ctrl-C.

pub mod options;

use self::options::ServeArgs;
use crate::commands::output::CommandOutput;
use crate::terminal;
use sobench_core::error::Result;
use sobench_embedded::EmbeddedServer;
use sobench_shutdown::Shutdown;

/// Serves until the first shutdown signal. Prints the address on stderr when the server accepts
/// connections.
///
/// # Errors
/// The address is not available, or the engine or the vocabulary cannot be opened.
pub fn run(flags: &ServeArgs, shutdown: &Shutdown) -> Result<CommandOutput> {
    let options = flags.options()?;
    let (model, faults) = (options.model.clone(), options.faults.clone());
    let server = EmbeddedServer::start(options)?;
    let _listener = shutdown.listen(|_| {})?;
    terminal::say(&format!(
        "serving {model} (synthetic, speed {}) with {} at {}",
        server.speed(),
        server.engine_label(),
        server.base_url()
    ));
    for fault in faults {
        terminal::say(&format!("fault: {fault}"));
    }
    terminal::say("stop with Ctrl-C");
    server.wait(shutdown.drain_requested())?;
    Ok(CommandOutput {
        lines: vec!["stopped".to_owned()],
        ..CommandOutput::default()
    })
}
