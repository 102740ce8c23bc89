//! Reads the server's metrics page during a run, on a connection of its own and outside the timed
//! path.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;
use reqwest::{Method, Request, StatusCode, Url};
use tokio::sync::oneshot;

use super::client::{Client, ClientSettings, describe, page_client};
use super::clock::{process_ns, wall_clock};
use super::endpoint::Endpoint;
use sobench_backend::server_metrics::{MAX_PAGE_BYTES, read_page};
use sobench_core::error::{Error, Result};
use sobench_core::server_sample::{SampleSource, ScrapeFault, ServerSample};

/// Time between two readings.
const INTERVAL: Duration = Duration::from_millis(500);

/// Time limit of a reading.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Time from the end of the run to the last reading: servers count a step after they have sent its
/// tokens.
const LAST_WAIT: Duration = Duration::from_millis(20);

/// The address of a metrics page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageAddress {
    Url(String),
    /// Beside the path of the requests, possibly at another port.
    OfServer {
        port: Option<u16>,
        path: &'static str,
    },
}

/// Reads one metrics page.
#[derive(Clone)]
pub struct Scraper {
    http: reqwest::Client,
    url: Url,
    /// The address without user and password.
    page: String,
    headers: HeaderMap,
    named: Vec<String>,
}

/// A reading of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Scrape {
    /// When the whole page had arrived.
    pub at: SystemTime,
    pub sample: ServerSample,
    /// Why values were left out.
    pub fault: Option<ScrapeFault>,
}

/// The readings of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScrapeTotals {
    pub scrapes: usize,
    pub failed: usize,
    /// The first fault.
    pub fault: Option<ScrapeFault>,
    pub first: Option<ServerSample>,
    pub last: Option<ServerSample>,
}

impl ScrapeTotals {
    /// Counts a reading.
    pub fn add(&mut self, scrape: &std::result::Result<Scrape, ScrapeFault>) {
        self.scrapes += 1;
        let fault = match scrape {
            Ok(scrape) => {
                self.first.get_or_insert_with(|| scrape.sample.clone());
                self.last = Some(scrape.sample.clone());
                scrape.fault.clone()
            }
            Err(fault) => {
                self.failed += 1;
                Some(fault.clone())
            }
        };
        if self.fault.is_none() {
            self.fault = fault;
        }
    }
}

impl Scraper {
    /// A reader of a page of the client's server. `named` are further series. The headers and the
    /// key of the client are sent to the origin of its requests only.
    ///
    /// # Errors
    /// The address is invalid, or the connection cannot be set up.
    pub fn new(client: &Client, address: &PageAddress, named: Vec<String>) -> Result<Self> {
        let own = &client.options().endpoint;
        let requests = own.root_url("")?;
        let url = match address {
            PageAddress::Url(url) => Url::parse(url).map_err(|error| {
                Error::usage(format!("--server-metrics is not a URL: {url} ({error})")).hint(
                    "give the address of the metrics page, such as http://127.0.0.1:8000/metrics",
                )
            })?,
            PageAddress::OfServer { port, path } => {
                let mut url = own.root_url(path)?;
                if port.is_some() {
                    // Fails only for URLs without a host.
                    let _ = url.set_port(*port);
                }
                url
            }
        };
        let is_own = url.origin() == requests.origin();
        let endpoint = Endpoint {
            base_url: url.to_string(),
            headers: own.headers.iter().filter(|_| is_own).cloned().collect(),
            kind: own.kind,
            api_key: own.api_key.clone().filter(|_| is_own),
            insecure: own.insecure,
            ..Endpoint::default()
        };
        let options = ClientSettings {
            endpoint,
            ..client.options().clone()
        };
        Ok(Self {
            http: page_client(&options, &url)?,
            page: options.endpoint.public_base_url(),
            headers: options.endpoint.header_map()?,
            url,
            named,
        })
    }

    /// The address without user and password.
    pub fn page(&self) -> &str {
        &self.page
    }

    /// Reads the page.
    ///
    /// # Errors
    /// There is no page, or it is not one of metrics.
    pub async fn scrape(&self) -> std::result::Result<Scrape, ScrapeFault> {
        let from_ns = process_ns();
        let page = tokio::time::timeout(TIMEOUT, self.fetch())
            .await
            .unwrap_or(Err(ScrapeFault::TimedOut(TIMEOUT.as_millis() as u64)))?;
        let (at, took_ns) = (wall_clock(), process_ns().saturating_sub(from_ns));
        let page = String::from_utf8_lossy(&page);
        let (mut sample, fault) = read_page(&page, &self.page, &self.named)?;
        sample.took_ns = took_ns;
        Ok(Scrape { at, sample, fault })
    }

    async fn fetch(&self) -> std::result::Result<Vec<u8>, ScrapeFault> {
        let mut request = Request::new(Method::GET, self.url.clone());
        request.headers_mut().clone_from(&self.headers);
        let failed = |error: reqwest::Error| {
            ScrapeFault::NoAnswer(describe(&reqwest::Error::without_url(error)))
        };
        let mut response = self.http.execute(request).await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(ScrapeFault::Status(response.status().as_u16()));
        }
        let mut page = Vec::new();
        while let Some(bytes) = response.chunk().await.map_err(failed)? {
            if page.len() + bytes.len() > MAX_PAGE_BYTES {
                return Err(ScrapeFault::TooLarge(MAX_PAGE_BYTES));
            }
            page.extend_from_slice(&bytes);
        }
        Ok(page)
    }

    /// Reads the page at intervals until the run is over, and once more. `totals` are those of
    /// earlier readings. The source of a sample is left out where it equals that of the sample
    /// before.
    pub async fn until(
        self,
        mut over: oneshot::Receiver<()>,
        mut totals: ScrapeTotals,
        mut on_scrape: impl FnMut(Scrape),
    ) -> ScrapeTotals {
        let mut known = totals.last.as_ref().and_then(|last| last.source.clone());
        loop {
            // A closed channel means that the run is over.
            let is_over = tokio::time::timeout(INTERVAL, &mut over).await.is_ok();
            if is_over {
                tokio::time::sleep(LAST_WAIT).await;
            }
            let mut scrape = self.scrape().await;
            totals.add(&scrape);
            if let Ok(scrape) = &mut scrape {
                leave_out_known(&mut scrape.sample.source, &mut known);
            }
            if let Ok(scrape) = scrape {
                on_scrape(scrape);
            }
            if is_over {
                return totals;
            }
        }
    }
}

/// Leaves out a source that is known already.
fn leave_out_known(source: &mut Option<Box<SampleSource>>, known: &mut Option<Box<SampleSource>>) {
    if source == known {
        *source = None;
    } else {
        known.clone_from(source);
    }
}
