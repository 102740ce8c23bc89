//! Opens connections to one server, with or without TLS, and writes the heads of requests to it. Knows no answer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use reqwest::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING, USER_AGENT,
};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Url;

use super::socket::Socket;
use super::{Connection, Outgoing};
use crate::driver::files::ran_out;
use crate::driver::remedy::addresses;

/// Where connections go, and how every request to there begins.
#[derive(Clone)]
pub(in crate::driver) struct Target {
    host: String,
    port: u16,
    /// Request line and headers, as far as all requests have them in common.
    begin: Bytes,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// Headers that say what the body is: they are written for each request.
const OF_THE_BODY: [HeaderName; 3] = [CONTENT_LENGTH, TRANSFER_ENCODING, CONTENT_TYPE];

impl Target {
    /// The server of an address; `tls` is for those of the scheme `https`. `None` where the address names no host.
    pub(in crate::driver) fn new(url: &Url, headers: &HeaderMap, agent: &str, tls: Option<ClientConfig>) -> Option<Self> {
        let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match tls {
            None => None,
            Some(config) => Some((TlsConnector::from(Arc::new(config)), ServerName::try_from(host.clone()).ok()?)),
        };
        let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
        let mut begin = format!("POST {path} HTTP/1.1\r\n").into_bytes();
        let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
        for (name, value) in [(HOST, authority), (USER_AGENT, agent), (ACCEPT, "*/*")] {
            if !headers.contains_key(&name) {
                write_header(&mut begin, name.as_str(), value.as_bytes());
            }
        }
        for (name, value) in headers.iter().filter(|(name, _)| !OF_THE_BODY.contains(name)) {
            write_header(&mut begin, name.as_str(), value.as_bytes());
        }
        Some(Self { host, port: url.port_or_known_default()?, begin: begin.into(), tls })
    }

    /// A request as it goes over a connection to this very server, with such headers of its own.
    pub(in crate::driver) fn request(&self, own: &[(HeaderName, HeaderValue)], body: Bytes) -> Outgoing {
        let mut head = Vec::with_capacity(self.begin.len() + 128);
        head.extend_from_slice(&self.begin);
        for (name, value) in own {
            write_header(&mut head, name.as_str(), value.as_bytes());
        }
        write_header(&mut head, CONTENT_LENGTH.as_str(), body.len().to_string().as_bytes());
        head.extend_from_slice(b"\r\n");
        Outgoing { head: head.into(), body }
    }

    /// Opens a connection on the runtime that this is called on. `reached` is set when the server has taken it, from when on only
    /// the TLS handshake is waited for.
    pub(super) async fn open(&self, reached: &AtomicBool) -> io::Result<Connection> {
        let addresses = addresses(&self.host, self.port).await.map_err(io::Error::other)?;
        let tcp = first_that_takes(&addresses, TcpStream::connect).await?;
        reached.store(true, Ordering::Relaxed);
        let socket = Socket::new(tcp)?;
        let arrival = socket.arrival();
        let link = match &self.tls {
            None => Link::Plain(socket),
            Some((connector, name)) => Link::Tls(Box::new(connector.connect(name.clone(), socket).await?)),
        };
        Ok(Connection::new(link, arrival))
    }
}

/// Connects to the first of the addresses that takes it, in their order. Where none does, it is the first failure that is told, but
/// before all others that this machine lacked something: who listens elsewhere was not the one who was meant, and refuses.
async fn first_that_takes<T, F: Future<Output = io::Result<T>>>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut failure: Option<io::Error> = None;
    for address in addresses {
        match connect(*address).await {
            Ok(taken) => return Ok(taken),
            Err(error) => {
                let tells_more = |failure: &io::Error| ran_out(failure).is_none() && ran_out(&error).is_some();
                if failure.as_ref().is_none_or(tells_more) {
                    failure = Some(error);
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
}

fn write_header(head: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        head.extend_from_slice(part);
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

    fn poll_write_vectored(self: Pin<&mut Self>, cx: &mut Context<'_>, parts: &[io::IoSlice<'_>]) -> Poll<io::Result<usize>> {
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
    use super::*;

    /// What becomes of connecting to addresses that do so: their number, where one takes it, or what is told.
    #[cfg(unix)]
    #[track_caller]
    fn check(answers: &[Result<(), nix::errno::Errno>], expected: Result<usize, nix::errno::Errno>) {
        let addresses: Vec<SocketAddr> = (0..answers.len()).map(|port| ([127, 0, 0, 1], port as u16).into()).collect();
        let connect = |address: SocketAddr| {
            let place = usize::from(address.port());
            std::future::ready(answers[place].map(|()| place).map_err(io::Error::from))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let found = runtime.block_on(first_that_takes(&addresses, connect));
        let number = |error: io::Error| error.raw_os_error().map_or(nix::errno::Errno::UnknownErrno, nix::errno::Errno::from_raw);
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
