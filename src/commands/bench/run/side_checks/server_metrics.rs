//! The server's metrics page during a run (`--server-metrics`).

use std::future::ready;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::commands::bench::options::ServerMetricsPlan;
use crate::commands::bench::run::sending::Sending;
use crate::commands::bench::run::side_check::{CheckedRun, SideCheck, Step};
use crate::commands::bench::session::Session;
use crate::terminal;
use sobench_backend::ServerKind;
use sobench_backend::server_metrics;
use sobench_client::{PageAddress, Scrape, ScrapeTotals, Scraper};
use sobench_core::error::Result;
use sobench_core::run_event::RunEvent;
use sobench_core::server_sample::{ScrapeFault, ServerSample};
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_runlog::spec_decode::SpecDecode;
use sobench_runlog::write::EventSender;

/// The page of a server during a run.
struct PageCheck<'p> {
    plan: &'p ServerMetricsPlan,
    kind: ServerKind,
    /// The page, if there is one.
    page: Option<Page>,
    /// The warning that was printed before the run.
    first_warning: Option<String>,
}

/// A page with the readings so far.
struct Page {
    scraper: Scraper,
    before: Option<Scrape>,
    totals: ScrapeTotals,
    /// Reads the page until the sender is dropped.
    task: Option<(oneshot::Sender<()>, JoinHandle<ScrapeTotals>)>,
}

/// Reads the page of a kind of servers.
pub(super) fn check(plan: &ServerMetricsPlan, kind: ServerKind) -> Option<Box<dyn SideCheck + '_>> {
    Some(Box::new(PageCheck {
        plan,
        kind,
        page: None,
        first_warning: None,
    }))
}

impl SideCheck for PageCheck<'_> {
    fn before<'a>(&'a mut self, run: &'a mut CheckedRun<'_>) -> Step<'a> {
        Box::pin(async move {
            let (page, fault) = open(self.plan, self.kind, run.sending.session).await?;
            fault.iter().for_each(terminal::warn);
            self.first_warning = fault.as_ref().map(ToString::to_string);
            let fault = fault.filter(|_| page.is_none());
            run.found.notices.extend(fault);
            self.page = page;
            Ok(())
        })
    }

    /// Starts to read the page. Readings are events of the run.
    fn start(&mut self, _: &Sending<'_>, log: &EventSender) -> Result<()> {
        let send = |log: &EventSender, scrape: Scrape| {
            log.send(RunEvent::ServerSampled {
                at: scrape.at,
                sample: Box::new(scrape.sample),
            });
        };
        if let Some(page) = &mut self.page {
            if let Some(before) = page.before.take() {
                send(log, before);
            }
            let log = log.clone();
            let on_scrape = move |scrape| send(&log, scrape);
            let (over, ends) = oneshot::channel();
            let (scraper, totals) = (page.scraper.clone(), page.totals.clone());
            let reading = scraper.until(ends, totals, on_scrape);
            page.task = Some((over, tokio::spawn(reading)));
        }
        Ok(())
    }

    /// Reads the page for the last time.
    fn after<'a>(&'a mut self, _: &'a mut CheckedRun<'_>, _: &'a EventSender) -> Step<'a> {
        Box::pin(async move {
            if let Some(page) = &mut self.page
                && let Some((over, task)) = page.task.take()
            {
                drop(over);
                page.totals = task.await.unwrap_or_default();
            }
            Ok(())
        })
    }

    fn close<'a>(&'a mut self, run: &'a mut CheckedRun<'_>) -> Step<'a> {
        if let Some(page) = &self.page {
            let ends = page.totals.first.as_ref().zip(page.totals.last.as_ref());
            run.found.spec_decode = ends.and_then(|(first, last)| SpecDecode::between(first, last));
            let is_missing = |name: &&String| {
                let is_in = |sample: &ServerSample| sample.named.contains_key(*name);
                ends.is_some_and(|(first, last)| !is_in(first) && !is_in(last))
            };
            let missing = self.plan.series().iter().filter(is_missing).cloned();
            let missing = missing.map(|name| {
                let page = page.scraper.page().to_owned();
                BenchNotice::ServerMetricMissing { name, page }.into()
            });
            for notice in missing.chain(page.fault()) {
                if self.first_warning != Some(notice.to_string()) {
                    terminal::warn(&notice);
                }
                run.found.notices.push(notice);
            }
        }
        Box::pin(ready(Ok(())))
    }
}

impl Page {
    async fn read(session: &Session, address: &PageAddress, series: &[String]) -> Result<Self> {
        let scraper = Scraper::new(&session.client, address, series.to_vec())?;
        let scrape = scraper.scrape().await;
        let mut totals = ScrapeTotals::default();
        totals.add(&scrape);
        Ok(Self {
            scraper,
            before: scrape.ok(),
            totals,
            task: None,
        })
    }

    /// The notice on readings that failed.
    fn fault(&self) -> Option<Notice> {
        let notice = BenchNotice::ServerMetricsUnreadable {
            page: self.scraper.page().to_owned(),
            fault: self.totals.fault.clone()?,
            failed: self.totals.failed,
            scrapes: self.totals.scrapes,
        };
        Some(notice.into())
    }
}

/// Reads the page before the run. In `auto` a server without a page has none, and a page that is not
/// one of metrics is a notice. A page that the user named is read during the run in any case; the
/// notice then is a first warning, and the one of the whole run follows.
///
/// # Errors
/// The address is invalid, or the connection cannot be set up.
async fn open(
    plan: &ServerMetricsPlan,
    kind: ServerKind,
    session: &Session,
) -> Result<(Option<Page>, Option<Notice>)> {
    let series = plan.series();
    let addresses = match plan {
        ServerMetricsPlan::Off => return Ok((None, None)),
        ServerMetricsPlan::Url { url, .. } => {
            let address = PageAddress::Url(url.clone());
            let page = Page::read(session, &address, series).await?;
            let fault = page.fault();
            return Ok((Some(page), fault));
        }
        ServerMetricsPlan::Auto { .. } => server_metrics::addresses(kind),
    };
    let mut first_fault = None;
    for (port, path) in addresses {
        let address = PageAddress::OfServer { port, path };
        let mut page = Page::read(session, &address, series).await?;
        let has_series = |scrape: &Scrape| !scrape.sample.is_empty();
        if page.before.as_ref().is_some_and(has_series) {
            return Ok((Some(page), None));
        }
        page.totals.failed = 1;
        let fault = page.totals.fault.as_ref();
        if fault.is_some_and(is_worth_a_notice) {
            first_fault = first_fault.or(page.fault());
        }
    }
    Ok((None, first_fault))
}

/// Whether a page that is looked for has a fault, and is not just missing.
fn is_worth_a_notice(fault: &ScrapeFault) -> bool {
    use ScrapeFault::{NoAnswer, NoSeries, Status};
    !matches!(fault, Status(_) | NoAnswer(_) | NoSeries)
}
