//! The HTTP client and its limits. Knows no request's content.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Request, Url, redirect, retry};

use super::endpoint::{Endpoint, JSON};
use crate::backend::DEFAULT_MAX_EVENT_BYTES;
use crate::error::{Error, Result};

/// How long a request may take where nobody said: what vLLM's client gives.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(6 * 60 * 60);

/// How long an idle connection is kept. uvicorn closes after 5 s; giving up earlier than the server does keeps requests off
/// connections that are being closed, which would show as failures of the server.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// How requests are sent.
#[derive(Clone, Debug)]
pub struct DriverOptions {
    pub endpoint: Endpoint,
    /// The most requests under way at a time; `None` for no cap.
    pub max_concurrency: Option<usize>,
    /// The most that one request may take, from sent to end; `None` for [`DEFAULT_REQUEST_TIMEOUT`].
    pub request_timeout: Option<Duration>,
    /// `x-request-id` is this and the case's index; without it no such header is sent.
    pub request_id_prefix: Option<String>,
    pub limits: Limits,
}

/// What is bounded, with defaults that no sane answer comes near. Reaching one is an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of a 200 answer's body: [`crate::observation::TransportCause::BodyTooLarge`].
    pub max_body_bytes: usize,
    /// The most bytes of one event of a stream: [`crate::observation::Outcome::StreamError`].
    pub max_event_bytes: usize,
    /// How much is kept of the body of an answer that is not 200; what is cut is said.
    pub max_error_body_bytes: usize,
    /// The most that connecting may take, TLS included.
    pub connect_timeout: Duration,
    /// How long requests under way may go on after the first stop signal.
    pub drain_timeout: Duration,
    /// How long the end of a body is waited for after its terminal event, so that the connection can be used again.
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
            connect_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(30),
            linger: Duration::from_millis(250),
            probe_timeout: Duration::from_secs(10),
            ready_poll: Duration::from_secs(1),
        }
    }
}

/// An HTTP/1.1 client with its connections. Cheap to clone; clones share the connections.
///
/// It follows no redirect and retries nothing. (The HTTP library moves a request to a fresh connection if the idle one that it
/// was meant for turns out closed before a byte was written: the server never saw it, and the time it took is in the latency.)
/// Proxies are taken from the environment, except for servers on this machine.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: Url,
    headers: Arc<HeaderMap>,
    options: Arc<DriverOptions>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.url.as_str()).field("options", &self.options).finish_non_exhaustive()
    }
}

impl Client {
    /// Errors: an address, header or cap that makes no sense (usage); a TLS set-up that fails (environment).
    pub fn new(options: DriverOptions) -> Result<Self> {
        if options.max_concurrency == Some(0) {
            return Err(Error::usage("nothing can be sent with --max-concurrency 0").hint("give at least 1, or leave it out"));
        }
        let url = options.endpoint.url(&options.endpoint.path)?;
        let headers = options.endpoint.header_map()?;
        if let Some(prefix) = &options.request_id_prefix {
            HeaderValue::from_str(prefix).map_err(|_| {
                Error::usage(format!("a header cannot carry this --request-id-prefix: {prefix:?}")).hint("use visible ASCII")
            })?;
        }
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("sobench/", env!("CARGO_PKG_VERSION")))
            .http1_only()
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .tcp_nodelay(true)
            .connect_timeout(options.limits.connect_timeout)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .pool_max_idle_per_host(usize::MAX);
        if options.endpoint.is_loopback()? {
            builder = builder.no_proxy();
        }
        if url.scheme() == "http" {
            // Without TLS, no certificates: loading them costs time, and fails where a machine has none.
            builder = builder.tls_certs_only([]);
        } else if options.endpoint.insecure {
            builder = builder.tls_danger_accept_invalid_certs(true);
        }
        install_tls_provider();
        let http = builder.build().map_err(|error| {
            Error::environment(format!("could not set up the HTTP client: {}", describe(&error)))
                .hint("for https the machine's CA certificates must be readable")
        })?;
        Ok(Self { http, url, headers: Arc::new(headers), options: Arc::new(options) })
    }

    /// What it was made from.
    pub fn options(&self) -> &DriverOptions {
        &self.options
    }

    /// The address that requests are posted to.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    pub(super) fn http(&self) -> &reqwest::Client {
        &self.http
    }

    /// A generating request; `label` completes `x-request-id`. A form names its boundary in `content_type`, which no header of the
    /// user's may replace.
    pub(super) fn post(&self, body: Bytes, content_type: &'static str, label: &str) -> Request {
        let mut request = self.request(Method::POST, self.url.clone());
        if content_type != JSON {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        *request.body_mut() = Some(body.into());
        if let Some(prefix) = &self.options.request_id_prefix {
            let id = HeaderValue::from_str(&format!("{prefix}{label}"));
            // The prefix was tried in `new`; labels are ours.
            let id = id.expect("prefix and label are header text");
            request.headers_mut().insert(HeaderName::from_static("x-request-id"), id);
        }
        request
    }

    /// A question about the server.
    pub(super) fn get(&self, url: Url) -> Request {
        self.request(Method::GET, url)
    }

    fn request(&self, method: Method, url: Url) -> Request {
        let mut request = Request::new(method, url);
        request.headers_mut().clone_from(&self.headers);
        request
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

/// reqwest is built without a TLS provider of its own, as the lighter one does; it takes the process's default.
fn install_tls_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails only where another thread was faster, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
