//! The server's metrics page during a run (`--server-metrics`).

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::commands::bench::options::ServerMetricsPlan;
use crate::commands::bench::session::Session;
use sobench_backend::ServerKind;
use sobench_backend::server_metrics;
use sobench_client::{PageAddress, Scrape, ScrapeTotals, Scraper};
use sobench_core::error::Result;
use sobench_core::run_event::RunEvent;
use sobench_core::server_sample::ScrapeFault;
use sobench_notices::notice::{BenchNotice, Notice};
use sobench_runlog::spec_decode::SpecDecode;
use sobench_runlog::write::EventSender;

/// The page of a server, with a reading from before the run.
pub(super) struct OpenPage {
    scraper: Scraper,
    series: Vec<String>,
    before: Option<Scrape>,
    totals: ScrapeTotals,
}

/// The readings of a page during the run.
pub(super) struct Reading {
    task: JoinHandle<ScrapeTotals>,
    over: oneshot::Sender<()>,
    page: String,
    /// The series that the user named.
    series: Vec<String>,
}

/// The readings of a run.
#[derive(Default)]
pub(super) struct PageReadings {
    /// Speculative decoding, where the server reports it.
    pub(super) spec_decode: Option<SpecDecode>,
    pub(super) notices: Vec<Notice>,
}

impl OpenPage {
    /// Reads the page before the run. In `auto` a server without a page has none, and a page that is
    /// not one of metrics is a notice. A page that the user named is read during the run in any case;
    /// the notice then is a first warning, and [`Reading::finish`] has the one of the whole run.
    ///
    /// # Errors
    /// The address is invalid, or the connection cannot be set up.
    pub(super) async fn open(
        plan: &ServerMetricsPlan,
        kind: ServerKind,
        session: &Session,
    ) -> Result<(Option<Self>, Option<Notice>)> {
        let (addresses, series) = match plan {
            ServerMetricsPlan::Off => return Ok((None, None)),
            ServerMetricsPlan::Url { url, series } => {
                let address = PageAddress::Url(url.clone());
                let page = Self::read(session, &address, series).await?;
                let ScrapeTotals {
                    failed, scrapes, ..
                } = page.totals;
                let fault = page.totals.fault.clone();
                let notice =
                    fault.map(|fault| unreadable(page.scraper.page(), fault, failed, scrapes));
                return Ok((Some(page), notice));
            }
            ServerMetricsPlan::Auto { series } => (server_metrics::addresses(kind), series),
        };
        let mut notice = None;
        for (port, path) in addresses {
            let address = PageAddress::OfServer { port, path };
            let page = Self::read(session, &address, series).await?;
            let has_series = |scrape: &Scrape| !scrape.sample.is_empty();
            if page.before.as_ref().is_some_and(has_series) {
                return Ok((Some(page), None));
            }
            let fault = page.totals.fault.filter(is_worth_a_notice);
            notice = notice.or_else(|| Some(unreadable(page.scraper.page(), fault?, 1, 1)));
        }
        Ok((None, notice))
    }

    async fn read(session: &Session, address: &PageAddress, series: &[String]) -> Result<Self> {
        let scraper = Scraper::new(&session.client, address, series.to_vec())?;
        let scrape = scraper.scrape().await;
        let mut totals = ScrapeTotals::default();
        totals.add(&scrape);
        Ok(Self {
            scraper,
            series: series.to_vec(),
            before: scrape.ok(),
            totals,
        })
    }

    /// Starts to read the page in a task of its own. Readings are events of the run.
    pub(super) fn start(self, events: &EventSender) -> Reading {
        let (over, ends) = oneshot::channel();
        let send = |events: &EventSender, scrape: Scrape| {
            events.send(RunEvent::ServerSampled {
                at: scrape.at,
                sample: Box::new(scrape.sample),
            });
        };
        if let Some(before) = self.before {
            send(events, before);
        }
        let page = self.scraper.page().to_owned();
        let events = events.clone();
        let on_scrape = move |scrape| send(&events, scrape);
        Reading {
            task: tokio::spawn(self.scraper.until(ends, self.totals, on_scrape)),
            over,
            page,
            series: self.series,
        }
    }
}

impl Reading {
    /// Reads the page for the last time.
    pub(super) async fn finish(self) -> PageReadings {
        drop(self.over);
        let Ok(totals) = self.task.await else {
            return PageReadings::default();
        };
        let ends = totals.first.as_ref().zip(totals.last.as_ref());
        let spec_decode = ends.and_then(|(first, last)| SpecDecode::between(first, last));
        let is_missing = |name: &String| {
            ends.is_some_and(|(first, last)| {
                [first, last]
                    .iter()
                    .all(|sample| !sample.named.contains_key(name))
            })
        };
        let missing = self.series.iter().filter(|name| is_missing(name));
        let mut notices: Vec<Notice> = missing
            .map(|name| {
                let (name, page) = (name.clone(), self.page.clone());
                BenchNotice::ServerMetricMissing { name, page }.into()
            })
            .collect();
        let fault = totals.fault;
        notices.extend(
            fault.map(|fault| unreadable(&self.page, fault, totals.failed, totals.scrapes)),
        );
        PageReadings {
            spec_decode,
            notices,
        }
    }
}

/// Whether a page that is looked for has a fault, and is not just missing.
fn is_worth_a_notice(fault: &ScrapeFault) -> bool {
    !matches!(
        fault,
        ScrapeFault::Status(_) | ScrapeFault::NoAnswer(_) | ScrapeFault::NoSeries
    )
}

fn unreadable(page: &str, fault: ScrapeFault, failed: usize, scrapes: usize) -> Notice {
    BenchNotice::ServerMetricsUnreadable {
        page: page.to_owned(),
        fault,
        failed,
        scrapes,
    }
    .into()
}
