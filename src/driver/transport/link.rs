//! Opens connections to one server, with or without TLS. Knows no HTTP but its handshake.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, HOST, HeaderMap, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Url;

use super::Connection;
use super::socket::Socket;

/// The most bytes that a connection buffers of what has come and is not yet taken; the head of an answer has to fit.
const MAX_READ_BUFFER_BYTES: usize = 128 << 10;

/// Where connections go.
#[derive(Clone)]
pub(in crate::driver) struct Target {
    host: String,
    port: u16,
    /// The value of the `Host` header.
    authority: HeaderValue,
    agent: HeaderValue,
    /// Path and query.
    path: Uri,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Target {
    /// The server of an address; `tls` is for those of the scheme `https`. `None` where the address names no host.
    pub(in crate::driver) fn new(url: &Url, agent: &'static str, tls: Option<ClientConfig>) -> Option<Self> {
        let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match tls {
            None => None,
            Some(config) => Some((TlsConnector::from(Arc::new(config)), ServerName::try_from(host.clone()).ok()?)),
        };
        let authority = url[url::Position::BeforeHost..url::Position::AfterPort].parse().ok()?;
        let path = url[url::Position::BeforePath..url::Position::AfterQuery].parse().ok()?;
        let agent = HeaderValue::from_static(agent);
        Some(Self { host, port: url.port_or_known_default()?, authority, agent, path, tls })
    }

    /// A request as it goes over a connection to this very server.
    pub(in crate::driver) fn request(&self, mut headers: HeaderMap, body: Bytes) -> Request<Full<Bytes>> {
        headers.entry(HOST).or_insert_with(|| self.authority.clone());
        headers.entry(USER_AGENT).or_insert_with(|| self.agent.clone());
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        *request.headers_mut() = headers;
        request
    }

    /// Opens a connection on the runtime that this is called on.
    pub(super) async fn open(&self) -> io::Result<Connection> {
        let tcp = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let socket = Socket::new(tcp)?;
        let arrival = socket.arrival();
        let link = match &self.tls {
            None => Link::Plain(socket),
            Some((connector, name)) => Link::Tls(Box::new(connector.connect(name.clone(), socket).await?)),
        };
        let handshake = http1::Builder::new().max_buf_size(MAX_READ_BUFFER_BYTES).handshake(TokioIo::new(link)).await;
        let (requests, io) = handshake.map_err(io::Error::other)?;
        Ok(Connection::new(requests, io, arrival))
    }
}

/// Bytes to and from a server.
pub(super) enum Link {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
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
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_read(cx, buffer))
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, one => one.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, one => one.poll_shutdown(cx))
    }
}
