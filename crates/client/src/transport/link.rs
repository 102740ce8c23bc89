//! Opens connections to one server, directly or through a proxy, with or without TLS, and writes
//! the heads of requests to it.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING, USER_AGENT,
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
use crate::clock::instant_in;
use crate::files::ran_out;
use crate::remedy::addresses;
use sobench_core::error::{Error, Result};

/// Where connections go, and how every request to there begins.
#[derive(Clone)]
pub(crate) struct Target {
    /// Of the server, or of its proxy.
    host: String,
    port: u16,
    /// Request line and headers, as far as all requests have them in common.
    begin: Bytes,
    tls: Option<Tls>,
    via: Option<Via>,
}

/// The way through a proxy.
#[derive(Clone)]
struct Via {
    proxy: Proxy,
    tls: Option<Tls>,
    /// The request for a tunnel; `None` where the proxy is sent the requests themselves.
    connect_head: Option<Bytes>,
}

/// TLS with one host.
#[derive(Clone)]
struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// Headers that say what the body is: they are written for each request.
const OF_THE_BODY: [HeaderName; 3] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONTENT_TYPE];

impl Target {
    /// The server of an address, behind this proxy if there is one. `tls` is for a server of the
    /// scheme `https` and for a proxy of it.
    ///
    /// # Errors
    /// The host cannot be that of a certificate.
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
        let mut begin = format!("POST {origin}{path} HTTP/1.1\r\n").into_bytes();
        let password = forwarding.and_then(|proxy| {
            Some((
                PROXY_AUTHORIZATION,
                proxy.authorization.as_ref()?.as_bytes(),
            ))
        });
        let own = [
            (HOST, authority.as_bytes()),
            (USER_AGENT, agent.as_bytes()),
            (ACCEPT, "*/*".as_bytes()),
        ];
        for (name, value) in own.into_iter().chain(password) {
            if !headers.contains_key(&name) {
                write_header(&mut begin, name.as_str(), value);
            }
        }
        for (name, value) in headers
            .iter()
            .filter(|(name, _)| !OF_THE_BODY.contains(name))
        {
            write_header(&mut begin, name.as_str(), value.as_bytes());
        }
        let via = proxy.map(|proxy| -> Result<Via> {
            let connect_head =
                is_https.then(|| proxy.connect_head(&format!("{with_brackets}:{port}"), agent));
            Ok(Via {
                tls: tls_with(proxy.is_tls, &proxy.host)?,
                connect_head,
                proxy,
            })
        });
        let (via, tls) = (via.transpose()?, tls_with(is_https, host)?);
        let (host, port) = via
            .as_ref()
            .map_or((host, port), |via| (&via.proxy.host, via.proxy.port));
        Ok(Self {
            host: host.to_owned(),
            port,
            begin: begin.into(),
            tls,
            via,
        })
    }

    /// A request as it goes over a connection to this very server, with such headers of its own.
    pub(crate) fn request(&self, own: &[(HeaderName, HeaderValue)], body: Bytes) -> Outgoing {
        let mut head = Vec::with_capacity(self.begin.len() + 128);
        head.extend_from_slice(&self.begin);
        for (name, value) in own {
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

    /// Opens a connection on the runtime that this is called on, within this time.
    ///
    /// # Errors
    /// Those of a proxy have a [`ProxyError`](super::ProxyError) among their causes.
    pub(super) async fn open(&self, most: Duration) -> io::Result<Connection> {
        let limit = Limit {
            most,
            deadline: instant_in(most),
        };
        let connection = match &self.via {
            None => self.reach(&limit).await,
            Some(via) => self
                .reach_through(via, &limit)
                .await
                .map_err(|error| via.proxy.error(error)),
        }?;
        match &self.tls {
            None => Ok(connection),
            Some(tls) => {
                limit
                    .bound("no TLS handshake", tls.handshake(connection))
                    .await
            }
        }
    }

    async fn reach(&self, limit: &Limit) -> io::Result<Connection> {
        let connecting = async {
            let addresses = addresses(&self.host, self.port)
                .await
                .map_err(io::Error::other)?;
            first_that_takes(&addresses, TcpStream::connect).await
        };
        let socket = Socket::new(limit.bound("no connection", connecting).await?)?;
        let arrival = socket.arrival();
        Ok(Connection::new(Link::Plain(socket), arrival))
    }

    async fn reach_through(&self, via: &Via, limit: &Limit) -> io::Result<Connection> {
        let mut connection = self.reach(limit).await?;
        if let Some(tls) = &via.tls {
            connection = limit
                .bound("no TLS handshake", tls.handshake(connection))
                .await?;
        }
        match &via.connect_head {
            None => Ok(connection),
            Some(head) => {
                limit
                    .bound("no answer to CONNECT", tunnel(connection, head.clone()))
                    .await
            }
        }
    }

    /// The error for a status that comes from the proxy and not from the server.
    pub(crate) fn refusal_of_proxy(&self, status: StatusCode) -> Option<io::Error> {
        let via = self.via.as_ref().filter(|via| via.connect_head.is_none())?;
        (status == StatusCode::PROXY_AUTHENTICATION_REQUIRED).then(|| via.proxy.refusal(status))
    }
}

impl Tls {
    fn new(connector: &TlsConnector, host: &str) -> Result<Self> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Error::usage(format!("no certificate can be for this host: {host}"))
                .hint("check --base-url, and the proxy's address if there is one")
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
        Ok(Connection::new(
            Link::Tls(Box::new(stream)),
            connection.arrival,
        ))
    }
}

/// The time limit of connecting, over all of its steps.
struct Limit {
    most: Duration,
    deadline: Instant,
}

impl Limit {
    /// Takes a step of connecting. `lacking` says what is missing if the time runs out in it.
    async fn bound<T>(
        &self,
        lacking: &str,
        step: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        timeout_at(self.deadline, step).await.unwrap_or_else(|_| {
            let seconds = self.most.as_secs_f64();
            let words = format!("{lacking} within {seconds} s, the most that connecting may take");
            Err(io::Error::new(io::ErrorKind::TimedOut, words))
        })
    }
}

/// Connects to the first of the addresses that takes it, in their order. Where none does, it is the
/// first failure that is told, but before all others that this machine lacked something: who
/// listens elsewhere was not the one who was meant, and refuses.
async fn first_that_takes<T, F: Future<Output = io::Result<T>>>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut failure: Option<io::Error> = None;
    for address in addresses {
        match connect(*address).await {
            Ok(taken) => return Ok(taken),
            Err(error) => {
                let tells_more =
                    |failure: &io::Error| ran_out(failure).is_none() && ran_out(&error).is_some();
                if failure.as_ref().is_none_or(tells_more) {
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

/// Bytes to and from a server.
pub(super) enum Link {
    Plain(Socket),
    /// Over a socket, or over TLS with a proxy.
    Tls(Box<TlsStream<Link>>),
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

    /// What becomes of connecting to addresses that do so: their number, where one takes it, or
    /// what is told.
    #[cfg(unix)]
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
        let found = runtime.block_on(first_that_takes(&addresses, connect));
        let number = |error: io::Error| {
            error
                .raw_os_error()
                .map_or(nix::errno::Errno::UnknownErrno, nix::errno::Errno::from_raw)
        };
        assert_eq!(found.map_err(number), expected, "{answers:?}");
    }

    #[cfg(unix)]
    #[test]
    fn what_is_told_of_several_addresses() {
        use nix::errno::Errno::{EADDRNOTAVAIL, ECONNREFUSED, EHOSTUNREACH, EMFILE};
        check(&[Err(ECONNREFUSED), Ok(())], Ok(1));
        check(&[Err(EADDRNOTAVAIL), Ok(())], Ok(1));
        // The server's machine answered; the last of the addresses is merely no way to it.
        check(&[Err(ECONNREFUSED), Err(EHOSTUNREACH)], Err(ECONNREFUSED));
        // Ports ran out where the server is, and nobody listens at the other address.
        check(&[Err(EADDRNOTAVAIL), Err(ECONNREFUSED)], Err(EADDRNOTAVAIL));
        check(&[Err(ECONNREFUSED), Err(EADDRNOTAVAIL)], Err(EADDRNOTAVAIL));
        check(&[Err(EMFILE), Err(EMFILE)], Err(EMFILE));
    }
}
