//! `sobench serve`: runs the embedded server until Ctrl-C.

pub mod options;

use self::options::ServeArgs;
use crate::commands::output::CommandOutput;
use crate::error::Result;
use crate::server::EmbeddedServer;
use crate::shutdown::Wishes;
use crate::terminal;

/// Serves until Ctrl-C or another wish to end; says where on stderr once it takes connections.
///
/// # Errors
/// The address cannot be had, the engine or the vocabulary cannot be opened.
pub fn run(flags: &ServeArgs) -> Result<CommandOutput> {
    let options = flags.options()?;
    let (model, faults) = (options.model.clone(), options.faults.clone());
    let server = EmbeddedServer::start(options)?;
    terminal::say(&format!("serving {model} (synthetic) with {} at {}", server.engine_label(), server.base_url()));
    for fault in faults {
        terminal::say(&format!("fault: {fault}"));
    }
    terminal::say("stop with Ctrl-C");
    server.wait(stopped())?;
    Ok(CommandOutput { lines: vec!["stopped".to_owned()], ..CommandOutput::default() })
}

/// Resolves with the first wish to end.
async fn stopped() {
    Wishes::listen().next().await;
}
