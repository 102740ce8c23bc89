//! Starts and stops the server's profiler (`--profile`).

use std::future::ready;

use crate::commands::bench::run::side_check::{CheckedRun, SideCheck, Step};
use crate::terminal;
use sobench_core::error::Result;
use sobench_core::run_event::RunEvent;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_runlog::write::EventSender;

/// The profiler of the server, which is stopped only after a run that `has_started`.
struct Profile {
    has_started: bool,
}

/// Profiles the server, if it `is_wanted`.
pub(super) fn check(is_wanted: bool) -> Option<Box<dyn SideCheck>> {
    is_wanted.then(|| Box::new(Profile { has_started: false }) as Box<dyn SideCheck>)
}

impl SideCheck for Profile {
    fn before<'a>(&'a mut self, run: &'a mut CheckedRun<'_>) -> Step<'a> {
        Box::pin(command(run, "/start_profile"))
    }

    fn on_event(&mut self, event: &RunEvent) {
        self.has_started |= matches!(event, RunEvent::Started { .. });
    }

    fn after<'a>(&'a mut self, run: &'a mut CheckedRun<'_>, _: &'a EventSender) -> Step<'a> {
        if self.has_started {
            Box::pin(command(run, "/stop_profile"))
        } else {
            Box::pin(ready(Ok(())))
        }
    }
}

/// Sends a command to the profiler. A refusal is a notice, not an error.
async fn command(run: &mut CheckedRun<'_>, path: &str) -> Result<()> {
    if let Err(why) = sobench_client::post_command(&run.sending.session.client, path).await {
        let path = path.to_owned();
        let notice = Notice::from(BenchNotice::ProfilerRefused { path, why });
        terminal::warn(&notice);
        run.found.notices.push(notice);
    }
    Ok(())
}
