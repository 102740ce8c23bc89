//! Connections to one server, directly or through a proxy, with or without TLS, and the encoding of
//! request heads.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName,
    HeaderValue, PROXY_AUTHORIZATION, TRANSFER_ENCODING, USER_AGENT,
};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Url;

use super::proxy::{Proxy, tunnel};
use super::socket::Socket;
use super::{Connection, Outgoing};
use crate::clock::{Arrival, instant_in};
use crate::connection_hint::addresses;
use crate::rlimit::exhausted_resource;
use sobench_core::error::{Error, Result};

/// The server to connect to, and the common head of its requests.
#[derive(Clone)]
pub(crate) struct Target {
    /// The host of the server or of its proxy.
    host: String,
    port: u16,
    /// Request line and the headers that all requests share.
    request_head: Bytes,
    tls: Option<Tls>,
    route: Option<ProxyRoute>,
}

/// Route through a proxy.
#[derive(Clone)]
struct ProxyRoute {
    proxy: Proxy,
    tls: Option<Tls>,
    /// The `CONNECT` request; `None` if requests are sent to the proxy itself.
    connect_head: Option<Bytes>,
}

/// TLS settings for one host.
#[derive(Clone)]
struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// Headers that describe the body, written for each request.
const BODY_HEADERS: [HeaderName; 3] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONTENT_TYPE];

impl Target {
    /// The server of a URL, through this proxy if there is one. `tls` is used for `https` servers
    /// and `https` proxies.
    ///
    /// # Errors
    /// The host is not valid in a certificate.
    pub(crate) fn new(
        url: &Url,
        headers: &HeaderMap,
        agent: &str,
        tls: Option<&TlsConnector>,
        proxy: Option<Proxy>,
    ) -> Result<Self> {
        let with_brackets = url.host_str().unwrap_or_default();
        let host = with_brackets.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or_default();
        let is_https = url.scheme() == "https";
        let tls_with = |is_wanted: bool, host: &str| {
            let tls = tls.filter(|_| is_wanted);
            tls.map(|connector| Tls::new(connector, host)).transpose()
        };
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let forwarding = proxy.as_ref().filter(|_| !is_https);
        let origin = forwarding.map_or_else(String::new, |_| format!("http://{authority}"));
        let mut request_head = format!("POST {origin}{path} HTTP/1.1\r\n").into_bytes();
        let password = forwarding.and_then(|proxy| {
            Some((
                PROXY_AUTHORIZATION,
                proxy.authorization.as_ref()?.as_bytes(),
            ))
        });
        let extra_headers = [
            (HOST, authority.as_bytes()),
            (USER_AGENT, agent.as_bytes()),
            (ACCEPT, "*/*".as_bytes()),
            // A compressing server collects events, which then arrive late and together.
            (ACCEPT_ENCODING, "identity".as_bytes()),
        ];
        for (name, value) in extra_headers.into_iter().chain(password) {
            if !headers.contains_key(&name) {
                write_header(&mut request_head, name.as_str(), value);
            }
        }
        for (name, value) in headers
            .iter()
            .filter(|(name, _)| !BODY_HEADERS.contains(name))
        {
            write_header(&mut request_head, name.as_str(), value.as_bytes());
        }
        let route = proxy.map(|proxy| -> Result<ProxyRoute> {
            let connect_head =
                is_https.then(|| proxy.connect_head(&format!("{with_brackets}:{port}"), agent));
            Ok(ProxyRoute {
                tls: tls_with(proxy.is_tls, &proxy.host)?,
                connect_head,
                proxy,
            })
        });
        let (route, tls) = (route.transpose()?, tls_with(is_https, host)?);
        let (host, port) = route
            .as_ref()
            .map_or((host, port), |route| (&route.proxy.host, route.proxy.port));
        Ok(Self {
            host: host.to_owned(),
            port,
            request_head: request_head.into(),
            tls,
            route,
        })
    }

    /// Encodes a request to this server with these additional headers.
    pub(crate) fn request(
        &self,
        extra_headers: &[(HeaderName, HeaderValue)],
        body: Bytes,
    ) -> Outgoing {
        let mut head = Vec::with_capacity(self.request_head.len() + 128);
        head.extend_from_slice(&self.request_head);
        for (name, value) in extra_headers {
            write_header(&mut head, name.as_str(), value.as_bytes());
        }
        write_header(
            &mut head,
            CONTENT_LENGTH.as_str(),
            body.len().to_string().as_bytes(),
        );
        head.extend_from_slice(b"\r\n");
        Outgoing {
            head: head.into(),
            body,
        }
    }

    /// Opens a connection on the current runtime, within this time.
    ///
    /// # Errors
    /// Errors of a proxy have a [`ProxyError`](super::ProxyError) among their causes.
    pub(super) async fn open(&self, timeout: Duration) -> io::Result<Connection> {
        let limit = Limit {
            timeout,
            deadline: instant_in(timeout),
        };
        let connection = match &self.route {
            None => self.connect_tcp(&limit).await,
            Some(route) => self
                .connect_proxy(route, &limit)
                .await
                .map_err(|error| route.proxy.error(error)),
        }?;
        match &self.tls {
            None => Ok(connection),
            Some(tls) => {
                limit
                    .bound("TLS handshake", tls.handshake(connection))
                    .await
            }
        }
    }

    async fn connect_tcp(&self, limit: &Limit) -> io::Result<Connection> {
        let connecting = async {
            let addresses = addresses(&self.host, self.port)
                .await
                .map_err(io::Error::other)?;
            connect_first(&addresses, TcpStream::connect).await
        };
        let socket = Socket::new(limit.bound("TCP connection", connecting).await?)?;
        Ok(Connection::new(Link::Plain(socket)))
    }

    async fn connect_proxy(&self, route: &ProxyRoute, limit: &Limit) -> io::Result<Connection> {
        let mut connection = self.connect_tcp(limit).await?;
        if let Some(tls) = &route.tls {
            connection = limit
                .bound("TLS handshake", tls.handshake(connection))
                .await?;
        }
        match &route.connect_head {
            None => Ok(connection),
            Some(head) => {
                limit
                    .bound("response to CONNECT", tunnel(connection, head.clone()))
                    .await
            }
        }
    }

    /// The error for a status that the proxy returned, not the server.
    pub(crate) fn proxy_refusal(&self, status: StatusCode) -> Option<io::Error> {
        let route = self
            .route
            .as_ref()
            .filter(|route| route.connect_head.is_none())?;
        (status == StatusCode::PROXY_AUTHENTICATION_REQUIRED)
            .then(|| route.proxy.status_error(status))
    }
}

impl Tls {
    fn new(connector: &TlsConnector, host: &str) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Error::usage(format!(
                "the host is not valid in a TLS certificate: {host}"
            ))
            .hint("check --base-url, and the address of the proxy if there is one")
        })?;
        Ok(Self {
            connector: connector.clone(),
            name,
        })
    }

    async fn handshake(&self, connection: Connection) -> io::Result<Connection> {
        let stream = self
            .connector
            .connect(self.name.clone(), connection.link)
            .await?;
        Ok(Connection::new(Link::Tls(Box::new(stream))))
    }
}

/// The connect timeout, over all steps.
struct Limit {
    timeout: Duration,
    deadline: Instant,
}

impl Limit {
    /// Runs one step of connecting; `step_name` is for the error if the time expires in it.
    async fn bound<T>(
        &self,
        step_name: &str,
        step: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        timeout_at(self.deadline, step).await.unwrap_or_else(|_| {
            let seconds = self.timeout.as_secs_f64();
            let message = format!("no {step_name} within the connect timeout of {seconds} s");
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        })
    }
}

/// Connects to the first address that accepts, in order. If none does, the first failure is
/// returned, but a lack of local resources takes precedence: it explains why a listening address
/// was not reached.
async fn connect_first<T, F: Future<Output = io::Result<T>>>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut failure: Option<io::Error> = None;
    for address in addresses {
        match connect(*address).await {
            Ok(connected) => return Ok(connected),
            Err(error) => {
                if failure.as_ref().is_none_or(|failure: &io::Error| {
                    exhausted_resource(failure).is_none() && exhausted_resource(&error).is_some()
                }) {
                    failure = Some(error);
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

pub(super) fn write_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
    }
}

/// A byte stream to a server.
pub(super) enum Link {
    Plain(Socket),
    /// Over a socket, or over TLS to a proxy.
    Tls(Box<TlsStream<Link>>),
}

impl Link {
    /// When the bytes of the last read from the socket arrived.
    pub(super) fn arrival(&self) -> Arrival {
        match self {
            Self::Plain(socket) => socket.arrival(),
            Self::Tls(stream) => stream.get_ref().0.arrival(),
        }
    }
}

macro_rules! either {
    ($link:expr, $one:ident => $call:expr) => {
        match $link.get_mut() {
            Link::Plain($one) => {
                let $one = Pin::new($one);
                $call
            }
            Link::Tls($one) => {
                let $one = Pin::new(&mut **$one);
                $call
            }
        }
    };
}

impl AsyncRead for Link {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Link {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, one => one.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, one => one.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::result::Result;

    use super::*;

    /// The result of connecting to addresses with these results: the index of the one that accepts,
    /// or the error.
    #[track_caller]
    fn check(
        answers: &[Result<(), nix::errno::Errno>],
        expected: Result<usize, nix::errno::Errno>,
    ) {
        let addresses: Vec<SocketAddr> = (0..answers.len())
            .map(|port| ([127, 0, 0, 1], port as u16).into())
            .collect();
        let connect = |address: SocketAddr| {
            let place = usize::from(address.port());
            std::future::ready(answers[place].map(|()| place).map_err(io::Error::from))
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let found = runtime.block_on(connect_first(&addresses, connect));
        let number = |error: io::Error| {
            error
                .raw_os_error()
                .map_or(nix::errno::Errno::UnknownErrno, nix::errno::Errno::from_raw)
        };
        assert_eq!(found.map_err(number), expected, "{answers:?}");
    }

    #[test]
    fn the_most_useful_failure_of_several_addresses_is_returned() {
        use nix::errno::Errno::{EADDRNOTAVAIL, ECONNREFUSED, EHOSTUNREACH, EMFILE};
        check(&[Err(ECONNREFUSED), Ok(())], Ok(1));
        check(&[Err(EADDRNOTAVAIL), Ok(())], Ok(1));
        // The server's machine answered; the last address is just not reachable.
        check(&[Err(ECONNREFUSED), Err(EHOSTUNREACH)], Err(ECONNREFUSED));
        // Local ports are exhausted for the server's address, and nothing listens at the other one.
        check(&[Err(EADDRNOTAVAIL), Err(ECONNREFUSED)], Err(EADDRNOTAVAIL));
        check(&[Err(ECONNREFUSED), Err(EADDRNOTAVAIL)], Err(EADDRNOTAVAIL));
        check(&[Err(EMFILE), Err(EMFILE)], Err(EMFILE));
    }
}
