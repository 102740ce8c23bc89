//! HTTP proxies: selection from the environment, and tunnels through them.
//!
//! Requests to `https://` servers go through a tunnel (`CONNECT`, RFC 9110, section 9.3.6).
//! Requests to `http://` servers are sent to the proxy in absolute form (RFC 9112, section 3.2.2),
//! as many proxies allow tunnels to port 443 only.

use std::io;

use bytes::Bytes;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::StatusCode;
use reqwest::header::{HOST, HeaderValue, PROXY_AUTHORIZATION, USER_AGENT};
use thiserror::Error;
use url::Url;

use super::http::HttpError;
use super::link::write_header;
use super::{Connection, Outgoing};
use crate::connection_hint::causes;
use sobench_core::error::{Error, Result};

/// An HTTP proxy from the environment.
#[derive(Clone)]
pub(crate) struct Proxy {
    /// Scheme, host and port, without user and password.
    address: String,
    pub(super) host: String,
    pub(super) port: u16,
    /// The value of `Proxy-Authorization`.
    pub(super) authorization: Option<HeaderValue>,
    /// Whether the connection to the proxy itself uses TLS.
    pub(crate) is_tls: bool,
}

/// A connection through a proxy failed because of the proxy, not the server.
#[derive(Debug, Error)]
#[error("cannot connect through the proxy {proxy}")]
pub(crate) struct ProxyError {
    proxy: String,
    source: io::Error,
}

/// An error status of a proxy.
#[derive(Debug, Error)]
#[error("the proxy returned {}", .0.as_u16())]
struct ProxyStatus(StatusCode);

impl Proxy {
    /// The proxy for a URL from the environment: `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and
    /// `NO_PROXY`, as curl reads them.
    ///
    /// # Errors
    /// The proxy is not an HTTP proxy.
    pub(crate) fn from_env(url: &Url) -> Result<Option<Self>> {
        Self::find(&Matcher::from_env(), url)
    }

    fn find(matcher: &Matcher, url: &Url) -> Result<Option<Self>> {
        let found = url
            .as_str()
            .parse()
            .ok()
            .and_then(|uri| matcher.intercept(&uri));
        let Some((found, authority)) = found
            .as_ref()
            .and_then(|found| Some((found, found.uri().authority()?)))
        else {
            return Ok(None);
        };
        let scheme = found.uri().scheme_str().unwrap_or_default();
        let address = format!("{scheme}://{authority}");
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => {
                return Err(Error::environment(format!("only HTTP proxies are supported: {address}")).hint(
                    "set HTTP_PROXY or HTTPS_PROXY to a URL with http:// or https://, or add the server's host to NO_PROXY",
                ));
            }
        };
        Ok(Some(Self {
            address,
            host: authority
                .host()
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
            port: authority.port_u16().unwrap_or(default_port),
            authorization: found.basic_auth().cloned(),
            is_tls: scheme == "https",
        }))
    }

    /// The head of a `CONNECT` request to `authority`, which is `host:port`.
    pub(super) fn connect_head(&self, authority: &str, agent: &str) -> Bytes {
        let mut head = format!("CONNECT {authority} HTTP/1.1\r\n").into_bytes();
        write_header(&mut head, HOST.as_str(), authority.as_bytes());
        write_header(&mut head, USER_AGENT.as_str(), agent.as_bytes());
        if let Some(value) = &self.authorization {
            write_header(&mut head, PROXY_AUTHORIZATION.as_str(), value.as_bytes());
        }
        head.extend_from_slice(b"\r\n");
        head.into()
    }

    pub(super) fn error(&self, source: io::Error) -> io::Error {
        io::Error::other(ProxyError {
            proxy: self.address.clone(),
            source,
        })
    }

    pub(super) fn status_error(&self, status: StatusCode) -> io::Error {
        self.error(proxy_status_error(status))
    }
}

impl ProxyError {
    pub(crate) fn needs_password(&self) -> bool {
        causes(self)
            .filter_map(|error| error.downcast_ref())
            .any(|ProxyStatus(status)| *status == StatusCode::PROXY_AUTHENTICATION_REQUIRED)
    }
}

fn proxy_status_error(status: StatusCode) -> io::Error {
    io::Error::other(ProxyStatus(status))
}

/// Requests a tunnel from a proxy and returns the connection, which then leads to the server.
pub(super) async fn tunnel(connection: Connection, connect_head: Bytes) -> io::Result<Connection> {
    let answer = match connection
        .send(Outgoing {
            head: connect_head,
            body: Bytes::new(),
        })
        .await
    {
        Ok(answer) => answer,
        Err(not_sent) => {
            return Err(match not_sent.error {
                HttpError::Io(error) => error,
                error => io::Error::other(error),
            });
        }
    };
    if !answer.head.status.is_success() {
        return Err(proxy_status_error(answer.head.status));
    }
    // The server sends data only after the TLS client hello.
    if !answer.early.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the proxy sent data before the TLS handshake",
        ));
    }
    Ok(answer.connection)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use reqwest::header::HeaderMap;
    use tokio_rustls::TlsConnector;

    use super::super::http::MAX_HEAD_BYTES;
    use super::*;
    use crate::pooled_connection::{ExchangeError, OutgoingMessage, PooledConnection};
    use crate::tls;
    use crate::transport::{Connections, Pool, Target};
    use sobench_core::observation::{Outcome, TransportCause};

    fn found(proxy: &str, no_proxy: &str, url: &str) -> Result<Option<Proxy>> {
        Proxy::find(
            &Matcher::builder().all(proxy).no(no_proxy).build(),
            &url.parse().unwrap(),
        )
    }

    #[test]
    fn proxies_are_read_from_their_addresses() {
        for (address, expected) in [
            ("http://p:3128", ("http://p:3128", "p", 3128, false)),
            ("p", ("http://p", "p", 80, false)),
            ("https://p/path", ("https://p", "p", 443, true)),
            (
                "http://user:pa%20ss@[::1]:8080",
                ("http://[::1]:8080", "::1", 8080, false),
            ),
        ] {
            let proxy = found(address, "", "https://server/v1").unwrap().unwrap();
            assert_eq!(
                (
                    proxy.address.as_str(),
                    proxy.host.as_str(),
                    proxy.port,
                    proxy.is_tls
                ),
                expected
            );
            let basic = address.contains('@').then_some("Basic dXNlcjpwYSBzcw==");
            assert_eq!(
                proxy
                    .authorization
                    .as_ref()
                    .map(|value| value.to_str().unwrap()),
                basic
            );
        }
        assert!(
            found("http://p", "server", "http://server:8000/")
                .unwrap()
                .is_none()
        );
        assert!(found("", "", "http://server/").unwrap().is_none());
    }

    #[test]
    fn socks_proxies_are_refused_without_their_password() {
        for scheme in ["socks4", "socks5", "socks5h"] {
            let Err(error) = found(&format!("{scheme}://u:s3cret@p:1080"), "", "http://server/")
            else {
                panic!("{scheme}")
            };
            assert_eq!(
                (error.what, error.kind),
                (
                    format!("only HTTP proxies are supported: {scheme}://p:1080"),
                    sobench_core::error::ErrorKind::Environment
                )
            );
            assert!(error.hint.is_some_and(|hint| hint.contains("NO_PROXY")));
        }
    }

    /// A proxy that answers the first request of one connection with these bytes and closes.
    /// Returns its address and the head of that request.
    fn answering(bytes: impl Into<Vec<u8>>) -> (String, Receiver<String>) {
        let bytes = bytes.into();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (seen, head) = channel();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut received, mut byte) = (Vec::new(), [0]);
            while !received.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                received.push(byte[0]);
            }
            let _ = seen.send(String::from_utf8(received).unwrap());
            // The client closes the connection when it has read enough.
            let _ = stream
                .write_all(&bytes)
                .and_then(|()| stream.shutdown(std::net::Shutdown::Write));
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        (address, head)
    }

    /// Sends a request to `server.test` through the proxy and returns the status or the error
    /// message.
    async fn send(
        scheme: &str,
        proxy: &str,
        connect_timeout: Duration,
    ) -> std::result::Result<u16, String> {
        let url = format!("{scheme}://server.test:8443/v1?a=b");
        let proxy = found(proxy, "", &url).unwrap();
        let tls = (scheme == "https")
            .then(|| TlsConnector::from(std::sync::Arc::new(tls::tls_config(true).unwrap())));
        let target = Target::new(
            &url.parse().unwrap(),
            &HeaderMap::new(),
            "test",
            tls.as_ref(),
            proxy,
        )
        .unwrap();
        let pool = Pool::new(
            target,
            Connections::default().into(),
            Duration::from_secs(3600),
            connect_timeout,
        );
        let answered = match pool.take().await {
            Ok(connection) => {
                PooledConnection { connection, pool }
                    .send(
                        OutgoingMessage {
                            headers: vec![],
                            body: "{}".into(),
                        },
                        || {},
                    )
                    .await
            }
            Err(error) => Err(ExchangeError::Connect(error)),
        };
        answered
            .map(|mut response| response.head().status.as_u16())
            .map_err(|broken| match broken.outcome() {
                Outcome::Transport {
                    cause: TransportCause::Connect,
                    message,
                } => message,
                other => panic!("{other:?}"),
            })
    }

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn proxy_failures_contain_the_proxy_address() {
        const CHECK: &str =
            "check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or add the server's host to NO_PROXY";
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(2 * MAX_HEAD_BYTES));
        let password = "the proxy returned 407: give the proxy's user and password in its address: http://USER:PASSWORD@HOST:PORT";
        for (scheme, answer, expected) in [
            (
                "https",
                "HTTP/1.1 407 Login\r\ncontent-length: 2\r\n\r\nno",
                password.to_owned(),
            ),
            (
                "http",
                "HTTP/1.1 407 Login\r\ncontent-length: 2\r\n\r\nno",
                password.to_owned(),
            ),
            (
                "https",
                "HTTP/1.0 502 Bad Gateway\r\n\r\n<h1>",
                format!("the proxy returned 502: {CHECK}"),
            ),
            (
                "https",
                "HTTP/1.1 307 Moved\r\nlocation: http://elsewhere\r\n\r\n",
                format!("the proxy returned 307: {CHECK}"),
            ),
            (
                "https",
                "SSH-2.0-OpenSSH\r\n\r\n",
                format!("not an HTTP response: invalid HTTP version: {CHECK}"),
            ),
            (
                "https",
                "",
                format!("connection closed before message completed: {CHECK}"),
            ),
            (
                "https",
                "HTTP/1.1 200 OK\r\n\r\nhello",
                format!("the proxy sent data before the TLS handshake: {CHECK}"),
            ),
            (
                "https",
                &endless,
                format!("the response head exceeds 131072 bytes: {CHECK}"),
            ),
        ] {
            let (address, _head) = answering(answer);
            let message = send(scheme, &address, LONG).await.unwrap_err();
            assert_eq!(
                message,
                format!(
                    "cannot connect: cannot connect through the proxy http://{address}: {expected}"
                )
            );
        }
        let unused_address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        for scheme in ["http", "https"] {
            let message = send(scheme, &unused_address.to_string(), LONG)
                .await
                .unwrap_err();
            assert!(
                message.contains(&format!(
                    "the proxy http://{unused_address}: Connection refused"
                )) && message.ends_with(CHECK),
                "{message}"
            );
        }
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let message = send(
            "https",
            &silent.local_addr().unwrap().to_string(),
            Duration::from_secs(1),
        )
        .await
        .unwrap_err();
        assert!(
            message.contains("no response to CONNECT within the connect timeout of 1 s")
                && message.ends_with(CHECK),
            "{message}"
        );
    }

    #[tokio::test]
    async fn statuses_from_the_server_are_responses() {
        let (address, head) = answering("HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(
            send("http", &format!("http://u:p@{address}"), LONG).await,
            Ok(502)
        );
        let expected = "POST http://server.test:8443/v1?a=b HTTP/1.1\r\nhost: server.test:8443\r\nuser-agent: test\r\naccept: */*\r\naccept-encoding: identity\r\n\
                        proxy-authorization: Basic dTpw\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(head.recv().unwrap(), expected);
    }

    #[tokio::test]
    async fn failures_behind_a_tunnel_do_not_contain_the_proxy_address() {
        // The connection ends where the server's handshake should be.
        let (address, head) = answering("HTTP/1.1 200 Connection established\r\n\r\n");
        let message = send("https", &format!("http://u:p@{address}"), LONG)
            .await
            .unwrap_err();
        assert!(
            message.contains("eof") && !message.contains("proxy"),
            "{message}"
        );
        let expected = "CONNECT server.test:8443 HTTP/1.1\r\nhost: server.test:8443\r\nuser-agent: test\r\n\
                        proxy-authorization: Basic dTpw\r\n\r\n";
        assert_eq!(head.recv().unwrap(), expected);
    }
}
