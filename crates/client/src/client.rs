//! The HTTP client and its limits.

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url, redirect, retry};
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

use super::endpoint::{Endpoint, JSON};
use super::remedy::addresses;
use super::tls;
use super::transport::{Connections, Pool, Proxy, Target, Threads};
use super::way::{Message, Way};
use sobench_backend::DEFAULT_MAX_EVENT_BYTES;
use sobench_core::error::{Error, Result};
use sobench_core::shard::Shard;

/// How long a request may take where nobody said: what vLLM's client gives.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);

/// How long an idle connection is kept. uvicorn closes after 5 s; giving up earlier than the server
/// does keeps requests off connections that are being closed, which would show as failures of the
/// server.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Where requests carry their number.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Who asks.
pub(super) const USER_AGENT: &str = concat!("sobench/", env!("CARGO_PKG_VERSION"));

/// How requests are sent.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    pub endpoint: Endpoint,
    /// The most requests under way at a time; `None` for no cap.
    pub max_concurrency: Option<usize>,
    /// The most that one request may take, from sent to end; `None` for
    /// [`DEFAULT_REQUEST_TIMEOUT`].
    pub request_timeout: Option<Duration>,
    /// The most time without any byte of the answer: from sent to its head, and between its pieces;
    /// `None` for no such limit.
    pub idle_timeout: Option<Duration>,
    /// `x-request-id` is this and the case's index; without it no such header is sent.
    pub request_id_prefix: Option<String>,
    /// Which part of a load this client carries: what several send beside the plan is told apart by
    /// it.
    pub part: Shard,
    pub limits: Limits,
}

impl DriverOptions {
    /// No cap, no ids, and every limit as it is by default.
    pub fn plain(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            max_concurrency: None,
            request_timeout: None,
            idle_timeout: None,
            request_id_prefix: None,
            part: Shard::WHOLE,
            limits: Limits::default(),
        }
    }
}

/// What is bounded, with defaults that no sane answer comes near. Reaching one is an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a 200 answer's body:
    /// [`sobench_core::observation::TransportCause::BodyTooLarge`].
    pub max_body_bytes: usize,
    /// The most bytes of one event of a stream:
    /// [`sobench_core::observation::Outcome::StreamError`].
    pub max_event_bytes: usize,
    /// How much is kept of the body of an answer that is not 200; what is cut is said.
    pub max_error_body_bytes: usize,
    /// How long the body of such an answer is waited for: its status is what counts, and it has a
    /// slot meanwhile.
    pub refusal_timeout: Duration,
    /// The most that connecting may take, TLS included.
    pub connect_timeout: Duration,
    /// How long requests under way may go on after the first stop signal.
    pub drain_timeout: Duration,
    /// How long the end of a body is waited for after its terminal event, so that the connection
    /// can be used again.
    pub linger: Duration,
    /// The most that one question about the server (models, version) may take.
    pub probe_timeout: Duration,
    /// The pause between two looks at a server that is not ready.
    pub ready_poll: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_body_bytes: 64 << 20,
            max_event_bytes: DEFAULT_MAX_EVENT_BYTES,
            max_error_body_bytes: 64 << 10,
            refusal_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            linger: Duration::from_millis(250),
            probe_timeout: Duration::from_secs(10),
            ready_poll: Duration::from_secs(1),
        }
    }
}

/// An HTTP/1.1 client with its connections and the threads that they live on. Cheap to clone;
/// clones share them.
///
/// It follows no redirect and retries nothing. (A request moves to a fresh connection, once, if the
/// kept one that it was meant for turns out to have been closed: without a byte on it since the
/// last answer, the server did not take the request, which counts as sent when it went out again.
/// From then on connections are used once.) HTTP proxies are taken from the environment, except for
/// servers on this machine.
#[derive(Clone)]
pub struct Client {
    /// For questions about the server.
    http: reqwest::Client,
    url: Url,
    headers: Arc<HeaderMap>,
    has_proxy: bool,
    options: Arc<DriverOptions>,
    threads: Arc<Threads>,
    /// A pool for each thread.
    pools: Arc<[Arc<Pool>]>,
    connections: Arc<Connections>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url.as_str())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Errors: an address, header or cap that makes no sense (usage); a proxy that is not
    /// supported, a TLS set-up that fails (environment).
    pub fn new(options: DriverOptions) -> Result<Self> {
        if options.max_concurrency == Some(0) {
            return Err(Error::usage("nothing can be sent with --max-concurrency 0")
                .hint("give at least 1, or leave it out"));
        }
        let url = options.endpoint.url(&options.endpoint.path)?;
        let headers = options.endpoint.header_map()?;
        if let Some(prefix) = &options.request_id_prefix {
            HeaderValue::from_str(prefix).map_err(|_| {
                Error::usage(format!(
                    "a header cannot carry this --request-id-prefix: {prefix:?}"
                ))
                .hint("use visible ASCII")
            })?;
        }
        let proxy = if options.endpoint.is_loopback()? {
            None
        } else {
            Proxy::from_env(&url)?
        };
        let has_tls = url.scheme() == "https" || proxy.as_ref().is_some_and(|proxy| proxy.is_tls);
        let has_proxy = proxy.is_some();
        let http = http_client(&options, has_proxy, has_tls)?;
        let tls = has_tls
            .then(|| tls::config(options.endpoint.insecure))
            .transpose()?;
        let tls = tls.map(|config| TlsConnector::from(Arc::new(config)));
        let target = Target::new(&url, &headers, USER_AGENT, tls.as_ref(), proxy)?;
        let threads = Threads::start().map_err(|error| {
            Error::environment(format!("no thread for the client: {error}"))
                .hint("is this machine out of threads, memory or open files (ulimit -n)?")
        })?;
        let connections = Arc::new(Connections::default());
        let connect_timeout = options.limits.connect_timeout;
        let pool = |_| {
            Pool::new(
                target.clone(),
                Arc::clone(&connections),
                POOL_IDLE_TIMEOUT,
                connect_timeout,
            )
        };
        let pools = (0..threads.len()).map(pool).collect();
        Ok(Self {
            http,
            url,
            headers: Arc::new(headers),
            has_proxy,
            options: Arc::new(options),
            threads: Arc::new(threads),
            pools,
            connections,
        })
    }

    /// What it was made from.
    pub fn options(&self) -> &DriverOptions {
        &self.options
    }

    /// The address that requests are posted to.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Connections that were opened to the generating endpoint, and those of them that a request
    /// had to wait for.
    pub fn connections(&self) -> (usize, usize) {
        (self.connections.opened(), self.connections.waited_for())
    }

    /// From now on no more than so many connections to the generating endpoint are open at a time;
    /// requests past them find none.
    pub fn keep_within(&self, most: usize) {
        self.connections.keep_within(most);
    }

    /// Opens connections ahead of their use: so many as may be under way at a time. Stops at the
    /// first that fails, as the request that it was meant for will tell.
    pub(super) async fn open_ahead(&self, wanted: usize, spare: usize) {
        let threads = self.threads.len();
        let opening: Vec<_> = self
            .pools
            .iter()
            .zip(self.threads.handles())
            .map(|(pool, handle)| {
                let pool = Arc::clone(pool);
                pool.keep_spare(spare.div_ceil(threads));
                handle.spawn(async move { pool.prepare(wanted.div_ceil(threads)).await })
            })
            .collect();
        for one in opening {
            // It only fails where the runtime ends, and with it the run.
            let _ = one.await;
        }
    }

    /// How many threads send requests and read answers.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// The next thread in turn: its number, and what spawns on it.
    pub(super) fn thread(&self) -> (usize, &Handle) {
        self.threads.next()
    }

    /// An open connection to the server, on the thread that asks.
    pub(super) async fn way(&self, thread: usize) -> io::Result<Way> {
        let pool = Arc::clone(&self.pools[thread]);
        Ok(Way {
            connection: pool.take().await?,
            pool,
        })
    }

    pub(super) fn has_proxy(&self) -> bool {
        self.has_proxy
    }

    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// A generating request; `label` completes `x-request-id`. A form names its boundary in
    /// `content_type`, which no header of the user's may replace.
    pub(super) fn message(&self, body: Bytes, content_type: &'static str, label: &str) -> Message {
        let given = self
            .headers
            .get(CONTENT_TYPE)
            .filter(|_| content_type == JSON)
            .cloned();
        let mut headers = vec![(
            CONTENT_TYPE,
            given.unwrap_or(HeaderValue::from_static(content_type)),
        )];
        if let Some(prefix) = &self.options.request_id_prefix {
            let id = HeaderValue::from_str(&format!("{prefix}{label}"));
            // The prefix was tried in `new`; labels are ours.
            let id = id.expect("prefix and label are header text");
            headers.push((REQUEST_ID, id));
        }
        Message { headers, body }
    }

    /// A question about the server.
    pub(super) fn get(&self, url: Url) -> Request {
        self.request(Method::GET, url)
    }

    pub(super) fn post(&self, url: Url) -> Request {
        self.request(Method::POST, url)
    }

    fn request(&self, method: Method, url: Url) -> Request {
        let mut request = Request::new(method, url);
        request.headers_mut().clone_from(&self.headers);
        request
    }
}

/// The client for questions about the server.
fn http_client(options: &DriverOptions, has_proxy: bool, has_tls: bool) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .http1_only()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .tcp_nodelay(true)
        .connect_timeout(options.limits.connect_timeout)
        .dns_resolver(Arc::new(Resolver))
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_max_idle_per_host(usize::MAX);
    if !has_proxy {
        builder = builder.no_proxy();
    }
    if !has_tls {
        // Without TLS, no certificates: loading them costs time, and fails where a machine has
        // none.
        builder = builder.tls_certs_only([]);
    } else if options.endpoint.insecure {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    tls::install_provider();
    builder.build().map_err(|error| {
        Error::environment(format!(
            "could not set up the HTTP client: {}",
            describe(&error)
        ))
        .hint("for https the machine's CA certificates must be readable")
    })
}

/// Looks hosts up as the connections of our own do, so that a failure is known as one.
struct Resolver;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = addresses(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// An error with all its causes, without the address (which may hold credentials).
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Wrappers often repeat what they wrap.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
