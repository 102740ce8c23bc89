//! What a check beside the measured requests can do, and when.

use std::future::{Future, ready};
use std::pin::Pin;

use super::sending::Sending;
use sobench_core::error::Result;
use sobench_core::run_event::RunEvent;
use sobench_notices::notice::Notice;
use sobench_runlog::probe::ProbeResults;
use sobench_runlog::recovery::Recovery;
use sobench_runlog::spec_decode::SpecDecode;
use sobench_runlog::write::EventSender;

/// A run with the results of its checks.
pub(super) struct CheckedRun<'a> {
    pub(super) sending: Sending<'a>,
    pub(super) found: Findings,
}

/// The results of checks, for the footer of the log.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) probe: Option<ProbeResults>,
    pub(super) recovery: Option<Recovery>,
    pub(super) spec_decode: Option<SpecDecode>,
    pub(super) notices: Vec<Notice>,
}

/// A step of a check.
pub(super) type Step<'a> = Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// An optional check beside the measured requests, which has some of these steps. The checks take
/// the first two in the order of their list, and the last two in the opposite order.
pub(super) trait SideCheck {
    /// Acts before the measured requests. Its notices are in the record of the run.
    fn before<'a>(&'a mut self, _: &'a mut CheckedRun<'_>) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }

    /// Starts a task beside the measured requests.
    fn start(&mut self, _: &Sending<'_>, _: &EventSender) -> Result<()> {
        Ok(())
    }

    /// Sees the events of the measured requests, except [`RunEvent::Sent`].
    fn on_event(&mut self, _: &RunEvent) {}

    /// Ends the task, or acts after the measured requests. The log is still open. This step is also
    /// taken if the measured requests could not start.
    fn after<'a>(&'a mut self, _: &'a mut CheckedRun<'_>, _: &'a EventSender) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }

    /// Acts when the log has everything but its footer.
    fn close<'a>(&'a mut self, _: &'a mut CheckedRun<'_>) -> Step<'a> {
        Box::pin(ready(Ok(())))
    }
}
