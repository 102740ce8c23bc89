//! Hints for failed connections, by the type of the error; host name resolution.

use std::error::Error;
use std::iter::successors;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::{fmt, io};

use rustls::CertificateError;
use rustls::Error as TlsError;

use super::rlimit::exhausted_resource;
use super::transport::ProxyError;

/// A host name that could not be resolved.
#[derive(Debug)]
pub(super) struct UnresolvedHost {
    host: String,
    cause: io::Error,
}

impl fmt::Display for UnresolvedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot resolve the host {:?}", self.host)
    }
}

impl Error for UnresolvedHost {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.cause)
    }
}

/// An error and its causes, outermost first.
pub(super) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(Some(error), |error| {
        let error: &'e (dyn Error + 'static) = *error;
        // The `source` of an I/O error skips the error that it wraps.
        let inner = error
            .downcast_ref()
            .and_then(io::Error::get_ref)
            .map(|inner| inner as &(dyn Error + 'static));
        inner.or_else(|| error.source())
    })
}

/// The reachable addresses of a host name or address.
pub(super) async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, UnresolvedHost> {
    let failed = |cause| UnresolvedHost {
        host: host.to_owned(),
        cause,
    };
    let resolved: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .map_err(failed)?
        .collect();
    if resolved.is_empty() {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    Ok(if resolved.len() > 1 {
        reachable(resolved, has_route)
    } else {
        resolved
    })
}

/// The addresses with a route, or all if none has one. A name may have an address that this machine
/// cannot use (`localhost` with IPv6 disabled), and a failure there does not count as a server
/// failure.
fn reachable(
    resolved: Vec<SocketAddr>,
    has_route: impl Fn(&SocketAddr) -> bool,
) -> Vec<SocketAddr> {
    let (reached, others): (Vec<_>, Vec<_>) = resolved.into_iter().partition(has_route);
    if reached.is_empty() { others } else { reached }
}

/// Whether this machine has a route to an address, found by connecting a UDP socket, which sends
/// nothing. This needs none of the TCP ports that a run may exhaust. If no socket can be created
/// for lack of resources, the result is `true`.
#[expect(
    clippy::disallowed_methods,
    reason = "a route lookup that sends nothing"
)]
fn has_route(address: &SocketAddr) -> bool {
    let socket = match address {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    };
    // Some systems refuse port 0.
    let port = if address.port() == 0 {
        DISCARD
    } else {
        address.port()
    };
    match socket {
        Ok(socket) => socket.connect((address.ip(), port)).is_ok(),
        Err(error) => exhausted_resource(&error).is_some(),
    }
}

/// The port of the discard service (RFC 863).
const DISCARD: u16 = 9;

/// The hint for an error or one of its causes, found by type; `None` if there is none.
pub(super) fn connection_hint(error: &(dyn Error + 'static)) -> Option<&'static str> {
    causes(error).find_map(hint_for_error)
}

/// All hints, to recognise one at the end of an error message.
const HINTS: [&str; 10] = [
    HOST_NAME_HINT,
    PROXY_HINT,
    PROXY_PASSWORD_HINT,
    NOT_HTTP_HINT,
    NOT_TLS_HINT,
    UNKNOWN_ISSUER_HINT,
    OTHER_NAME_HINT,
    EXPIRED_HINT,
    BAD_CERTIFICATE_HINT,
    NO_COMMON_TLS_HINT,
];

const HOST_NAME_HINT: &str = "check the host name in --base-url and the DNS of this machine";
pub(super) const PROXY_HINT: &str =
    "check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or add the server's host to NO_PROXY";
pub(super) const PROXY_PASSWORD_HINT: &str =
    "give the proxy's user and password in its address: http://USER:PASSWORD@HOST:PORT";
const NOT_HTTP_HINT: &str =
    "the server does not speak HTTP/1.1: check whether the URL should start with https://";
const NOT_TLS_HINT: &str =
    "the server does not speak TLS: check whether the URL should start with http://";
const UNKNOWN_ISSUER_HINT: &str =
    "the certificate is signed by an unknown authority: use --insecure to skip verification";
const OTHER_NAME_HINT: &str = "the certificate is for another host name: check --base-url, or use --insecure to skip verification";
const EXPIRED_HINT: &str = "the certificate has expired, or the clock of this machine is wrong: use --insecure to skip verification";
const BAD_CERTIFICATE_HINT: &str =
    "the certificate is self-signed or otherwise not trusted: use --insecure to skip verification";
const NO_COMMON_TLS_HINT: &str = "no common TLS version or cipher suite: check the server's log";

/// Whether the error message of a failed exchange ends with one of the hints of this client.
pub fn ends_with_hint(message: &str) -> bool {
    HINTS
        .iter()
        .any(|connection_hint| message.ends_with(connection_hint))
}

fn hint_for_error(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if error.is::<UnresolvedHost>() {
        return Some(HOST_NAME_HINT);
    }
    if let Some(error) = error.downcast_ref::<ProxyError>() {
        return Some(if error.needs_password() {
            PROXY_PASSWORD_HINT
        } else {
            PROXY_HINT
        });
    }
    if error.downcast_ref().is_some_and(hyper::Error::is_parse) {
        return Some(NOT_HTTP_HINT);
    }
    match error.downcast_ref()? {
        TlsError::InvalidMessage(_) => Some(NOT_TLS_HINT),
        TlsError::InvalidCertificate(cause) => Some(match cause {
            CertificateError::UnknownIssuer => UNKNOWN_ISSUER_HINT,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                OTHER_NAME_HINT
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => EXPIRED_HINT,
            _ => BAD_CERTIFICATE_HINT,
        }),
        TlsError::AlertReceived(_) | TlsError::PeerIncompatible(_) => Some(NO_COMMON_TLS_HINT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::InvalidMessage;

    #[test]
    fn unreachable_addresses_are_used_if_there_are_no_others() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (four, six) = (at("127.0.0.1:1"), at("[::1]:1"));
        for (way_to, expected) in [
            (vec![four, six], vec![four, six]),
            (vec![four], vec![four]),
            (vec![six], vec![six]),
            (vec![], vec![four, six]),
        ] {
            assert_eq!(
                reachable(vec![four, six], |address| way_to.contains(address)),
                expected
            );
        }
        assert!(
            has_route(&four) && has_route(&at("127.0.0.1:0")),
            "there is a way to this machine itself"
        );
    }

    #[test]
    fn hints_are_found_for_nested_causes() {
        let tls = |error: TlsError| io::Error::new(io::ErrorKind::InvalidData, error);
        let certificate = |cause| tls(TlsError::InvalidCertificate(cause));
        for (error, word) in [
            (
                tls(TlsError::InvalidMessage(InvalidMessage::InvalidContentType)),
                Some("http://"),
            ),
            (
                certificate(CertificateError::UnknownIssuer),
                Some("--insecure"),
            ),
            (
                certificate(CertificateError::NotValidForName),
                Some("another host name"),
            ),
            (certificate(CertificateError::Expired), Some("clock")),
            (
                certificate(CertificateError::BadSignature),
                Some("--insecure"),
            ),
            (
                io::Error::other(UnresolvedHost {
                    host: "h".to_owned(),
                    cause: io::ErrorKind::NotFound.into(),
                }),
                Some("DNS"),
            ),
            (
                io::Error::other(tls(TlsError::PeerIncompatible(
                    rustls::PeerIncompatible::NoCipherSuitesInCommon,
                ))),
                Some("no common TLS"),
            ),
            (io::ErrorKind::ConnectionRefused.into(), None),
        ] {
            let resolved = connection_hint(&error);
            assert_eq!(
                (resolved.is_some(), resolved.is_some_and(ends_with_hint)),
                (word.is_some(), word.is_some()),
                "{error}"
            );
            assert!(
                resolved
                    .unwrap_or_default()
                    .contains(word.unwrap_or_default()),
                "{resolved:?}"
            );
        }
    }
}
