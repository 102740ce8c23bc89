//! The HTTP client and its limits.

use std::str::FromStr as _;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url, redirect, retry};
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;

use super::connection_hint::addresses;
use super::endpoint::{Endpoint, JSON};
use super::pooled_connection::{OutgoingMessage, PooledConnection};
use super::tls;
use super::transport::{Connections, Pool, Proxy, Target, Threads};
use sobench_backend::DEFAULT_MAX_EVENT_BYTES;
use sobench_core::error::{Error, Result};
use sobench_core::shard::Shard;

/// Default request timeout, as in vLLM's client.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);

/// How long an idle connection is kept. uvicorn closes idle connections after 5 s. A shorter time
/// here avoids sending requests on connections that are being closed, which would be recorded as
/// server failures.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// The header that carries the request id.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The `user-agent` header.
pub(super) const USER_AGENT: &str = concat!("sobench/", env!("CARGO_PKG_VERSION"));

/// How requests are sent.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    pub endpoint: Endpoint,
    /// The concurrency cap; `None` for no cap.
    pub max_concurrency: Option<usize>,
    /// Request timeout, from sent to end; `None` for [`DEFAULT_REQUEST_TIMEOUT`].
    pub request_timeout: Option<Duration>,
    /// Idle timeout: the longest time without a byte of the response, from sent to the head and
    /// between reads; `None` for no limit.
    pub idle_timeout: Option<Duration>,
    /// `x-request-id` is this and the case's index; without it no such header is sent.
    pub request_id_prefix: Option<String>,
    /// The header with the id of the session of a turn: the request id prefix, `session-`, and its
    /// number. Without it no such header is sent.
    pub session_header: Option<String>,
    /// The shard of the load that this client sends; it distinguishes the request ids of trial
    /// requests.
    pub part: Shard,
    /// Whether answers keep their frames.
    pub keeps_frames: bool,
    pub limits: Limits,
}

impl ClientSettings {
    /// Options with no cap, no request ids and default limits.
    pub fn with_defaults(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            max_concurrency: None,
            request_timeout: None,
            idle_timeout: None,
            request_id_prefix: None,
            session_header: None,
            part: Shard::WHOLE,
            keeps_frames: false,
            limits: Limits::default(),
        }
    }
}

/// Limits of the client. Reaching one is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum body size in bytes of a response with status 200:
    /// [`sobench_core::observation::TransportCause::BodyTooLarge`].
    pub max_body_bytes: usize,
    /// Maximum size in bytes of one stream event:
    /// [`sobench_core::observation::Outcome::StreamError`].
    pub max_event_bytes: usize,
    /// Maximum number of bytes kept of the body of a response with another status; a note marks the
    /// cut.
    pub max_error_body_bytes: usize,
    /// How long to wait for the body of such a response, which occupies a slot meanwhile.
    pub refusal_timeout: Duration,
    /// Connect timeout, including the TLS handshake.
    pub connect_timeout: Duration,
    /// How long requests in flight may continue after the first shutdown signal.
    pub drain_timeout: Duration,
    /// How long to wait for the end of a body after its terminal event, so that the connection can
    /// be reused.
    pub linger: Duration,
    /// Timeout of one request for information about the server (models, version).
    pub probe_timeout: Duration,
    /// The pause between two checks of a server that is not ready.
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

/// An HTTP/1.1 client with its connections and the threads that own them. Cheap to clone; clones
/// share them. Redirects are not followed and requests are not retried, with one exception: if a
/// kept connection turns out to be closed without a byte since the last response, the server did
/// not process the request, and it is sent once more on a new connection. Its send time is then
/// that of the second attempt, and from then on connections are used once. HTTP proxies are taken
/// from the environment, except for servers on this machine.
#[derive(Clone)]
pub struct Client {
    /// For requests about the server, outside the timed run.
    http: reqwest::Client,
    url: Url,
    headers: Arc<HeaderMap>,
    has_proxy: bool,
    options: Arc<ClientSettings>,
    session_header: Option<HeaderName>,
    threads: Arc<Threads>,
    /// One pool for each thread.
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
    /// # Errors
    /// An invalid address, header or cap (usage); an unsupported proxy, or a failed TLS set-up
    /// (environment).
    pub fn new(options: ClientSettings) -> Result<Self> {
        if options.max_concurrency == Some(0) {
            return Err(Error::usage("--max-concurrency must be at least 1: 0")
                .hint("give at least 1, or omit the flag for no limit"));
        }
        let url = options.endpoint.url(&options.endpoint.path)?;
        let headers = options.endpoint.header_map()?;
        if let Some(prefix) = &options.request_id_prefix {
            HeaderValue::from_str(prefix).map_err(|_| {
                Error::usage(format!(
                    "--request-id-prefix is not valid in an HTTP header: {prefix:?}"
                ))
                .hint("use visible ASCII")
            })?;
        }
        let session_header = options.session_header.as_deref().map(|name| {
            HeaderName::from_str(name).map_err(|_| {
                Error::usage(format!(
                    "--session-header is not the name of a header: {name:?}"
                ))
                .hint("give a name such as x-session-id")
            })
        });
        let session_header = session_header.transpose()?;
        let proxy = if options.endpoint.is_loopback()? {
            None
        } else {
            Proxy::from_env(&url)?
        };
        let has_tls = url.scheme() == "https" || proxy.as_ref().is_some_and(|proxy| proxy.is_tls);
        let has_proxy = proxy.is_some();
        let http = http_client(&options, has_proxy, has_tls)?;
        let tls = has_tls
            .then(|| tls::tls_config(options.endpoint.insecure))
            .transpose()?;
        let tls = tls.map(|config| TlsConnector::from(Arc::new(config)));
        let target = Target::new(&url, &headers, USER_AGENT, tls.as_ref(), proxy)?;
        let threads = Threads::start().map_err(|error| {
            Error::environment(format!("cannot start a client thread: {error}"))
                .hint("check the limits on threads, memory and open files (ulimit -n)")
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
            session_header,
            threads: Arc::new(threads),
            pools,
            connections,
        })
    }

    /// The options that the client was created with.
    pub fn options(&self) -> &ClientSettings {
        &self.options
    }

    /// The URL that requests are posted to.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// The number of connections opened to the generating endpoint, and of those that a request had
    /// to wait for.
    pub fn connections(&self) -> (usize, usize) {
        (self.connections.opened(), self.connections.waited_for())
    }

    /// Limits the number of connections to the generating endpoint that are open at a time;
    /// requests beyond the limit get none.
    pub fn limit_open_connections(&self, most: usize) {
        self.connections.limit_open_connections(most);
    }

    /// Opens connections before they are needed. Stops at the first failure, which the request
    /// itself will report.
    pub(super) async fn preconnect(&self, wanted: usize, spare: usize) {
        let threads = self.threads.len();
        let opening: Vec<_> = self
            .pools
            .iter()
            .zip(self.threads.handles())
            .map(|(pool, handle)| {
                let pool = Arc::clone(pool);
                pool.keep_spare(spare.div_ceil(threads));
                handle.spawn(async move { pool.preconnect(wanted.div_ceil(threads)).await })
            })
            .collect();
        for task in opening {
            // Only fails when the runtime, and with it the run, ends.
            let _ = task.await;
        }
    }

    /// How many threads send requests and read answers.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// The next thread in turn: its index and its runtime handle.
    pub(super) fn thread(&self) -> (usize, &Handle) {
        self.threads.next()
    }

    /// Takes an open connection from the pool of this thread, or opens one.
    pub(super) async fn take_connection(&self, thread: usize) -> io::Result<PooledConnection> {
        let pool = Arc::clone(&self.pools[thread]);
        Ok(PooledConnection {
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

    /// A request to the generating endpoint; `label` completes `x-request-id`, and `session` is the
    /// number of its session. A form states its boundary in `content_type`, so a user's header does
    /// not replace it.
    pub(super) fn message(
        &self,
        body: Bytes,
        content_type: &'static str,
        (label, session): (&str, Option<usize>),
    ) -> OutgoingMessage {
        let given = self
            .headers
            .get(CONTENT_TYPE)
            .filter(|_| content_type == JSON)
            .cloned();
        let mut headers = vec![(
            CONTENT_TYPE,
            given.unwrap_or(HeaderValue::from_static(content_type)),
        )];
        let prefix = self.options.request_id_prefix.as_deref();
        // `new` has checked the prefix, and labels are ASCII.
        let id = |text: String| HeaderValue::from_str(&text).expect("ids are header text");
        if let Some(prefix) = prefix {
            headers.push((REQUEST_ID, id(format!("{prefix}{label}"))));
        }
        if let (Some(name), Some(session)) = (&self.session_header, session) {
            let prefix = prefix.unwrap_or_default();
            headers.push((name.clone(), id(format!("{prefix}session-{session}"))));
        }
        OutgoingMessage { headers, body }
    }

    /// A request about the server.
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

/// The client for a page at another address, with the options of `options`.
pub(super) fn page_client(options: &ClientSettings, url: &Url) -> Result<reqwest::Client> {
    let proxy = if options.endpoint.is_loopback()? {
        None
    } else {
        Proxy::from_env(url)?
    };
    let has_tls = url.scheme() == "https" || proxy.as_ref().is_some_and(|proxy| proxy.is_tls);
    http_client(options, proxy.is_some(), has_tls)
}

/// The client for requests about the server.
fn http_client(
    options: &ClientSettings,
    has_proxy: bool,
    has_tls: bool,
) -> Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .default_headers(HeaderMap::from_iter([(
            ACCEPT_ENCODING,
            HeaderValue::from_static("identity"),
        )]))
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
        // Certificates are only loaded for TLS: loading takes time, and fails on machines without
        // any.
        builder = builder.tls_certs_only([]);
    } else if options.endpoint.insecure {
        builder = builder.tls_danger_accept_invalid_certs(true);
    }
    tls::install_provider();
    builder.build().map_err(|error| {
        Error::environment(format!(
            "cannot set up the HTTP client: {}",
            describe(&error)
        ))
        .hint("make the CA certificates of this machine readable, which https needs")
    })
}

/// Resolves hosts as the timed connections do, so that failures have the same type.
struct Resolver;

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = addresses(name.as_str(), 0).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// An error with all its causes, without the URL (which may contain credentials).
pub(super) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        // Wrappers often repeat the error that they wrap.
        if !text.ends_with(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
