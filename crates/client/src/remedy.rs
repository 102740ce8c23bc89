//! What a person can do about a connection that failed, by the kind of the failure. Knows no
//! request and no server.

use std::error::Error;
use std::iter::successors;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::{fmt, io};

use rustls::CertificateError;
use rustls::Error as TlsError;

use super::files::ran_out;
use super::transport::ProxyError;

/// A host that has no address.
#[derive(Debug)]
pub(super) struct NoAddress {
    host: String,
    why: io::Error,
}

impl fmt::Display for NoAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no address is known for the host {:?}", self.host)
    }
}

impl Error for NoAddress {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.why)
    }
}

/// An error and its causes, from the outside in.
pub(super) fn causes<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(Some(error), |error| {
        let error: &'e (dyn Error + 'static) = *error;
        // An I/O error passes over the error that it was made from when it is asked for its cause.
        let inner = error
            .downcast_ref()
            .and_then(io::Error::get_ref)
            .map(|inner| inner as &(dyn Error + 'static));
        inner.or_else(|| error.source())
    })
}

/// The addresses of a host that there is a way to, as far as that is known; an address stands for
/// itself.
pub(super) async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, NoAddress> {
    let failed = |why| NoAddress {
        host: host.to_owned(),
        why,
    };
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .map_err(failed)?
        .collect();
    if found.is_empty() {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    Ok(if found.len() > 1 {
        within_reach(found, has_way)
    } else {
        found
    })
}

/// Those that there is a way to; all where there is a way to none. A name may have an address that
/// is of no use on this machine (`localhost`, where `::1` is switched off), and that nobody is
/// reached there says nothing of the server.
fn within_reach(found: Vec<SocketAddr>, has_way: impl Fn(&SocketAddr) -> bool) -> Vec<SocketAddr> {
    let (reached, others): (Vec<_>, Vec<_>) = found.into_iter().partition(has_way);
    if reached.is_empty() { others } else { reached }
}

/// Whether this machine has a way to an address, which a socket for datagrams tells without sending
/// any. Unlike a connection it needs none of the ports that connections run out of. Where there is
/// no such socket to be had, it is not known.
#[expect(
    clippy::disallowed_methods,
    reason = "asks the system for its own address, and sends nothing"
)]
fn has_way(address: &SocketAddr) -> bool {
    let socket = match address {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    };
    // Not every system takes port 0 there.
    let port = if address.port() == 0 {
        DISCARD
    } else {
        address.port()
    };
    match socket {
        Ok(socket) => socket.connect((address.ip(), port)).is_ok(),
        Err(error) => ran_out(&error).is_some(),
    }
}

/// The port of a service that nobody minds being looked for (RFC 863).
const DISCARD: u16 = 9;

/// What to do about an error or one of its causes, found by their types and never by words; `None`
/// where nothing better can be said than that it happened.
pub(super) fn remedy(error: &(dyn Error + 'static)) -> Option<&'static str> {
    causes(error).find_map(of_one)
}

/// What can be said, to be known again at the end of a sentence of ours.
const REMEDIES: [&str; 10] = [
    NAME,
    PROXY,
    PROXY_PASSWORD,
    PLAIN_HTTP,
    PLAIN_TCP,
    UNTRUSTED,
    OTHER_NAME,
    EXPIRED,
    BAD_CERTIFICATE,
    NO_COMMON_TLS,
];

const NAME: &str = "check the name in --base-url, or this machine's DNS";
pub(super) const PROXY: &str =
    "check HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, or add the server's host to NO_PROXY";
pub(super) const PROXY_PASSWORD: &str =
    "give the proxy's user and password in its address: http://USER:PASSWORD@HOST:PORT";
const PLAIN_HTTP: &str = "what answers there speaks no HTTP/1.1: is the address one of https://?";
const PLAIN_TCP: &str = "what answers there speaks no TLS: is the address one of http://?";
const UNTRUSTED: &str =
    "the certificate is signed by nobody whom this machine trusts: --insecure takes it unchecked";
const OTHER_NAME: &str =
    "the certificate is for another name: check --base-url; --insecure takes it unchecked";
const EXPIRED: &str =
    "the certificate has expired, or this machine's clock is wrong: --insecure takes it unchecked";
const BAD_CERTIFICATE: &str = "the certificate is self-signed, or not one to trust for another reason: --insecure takes it unchecked";
const NO_COMMON_TLS: &str =
    "the server and this client agree on no TLS: the server's log may say why";

/// Whether the words of a failed exchange, which are this client's own, end in what to do about it.
pub fn names_a_remedy(words: &str) -> bool {
    REMEDIES.iter().any(|remedy| words.ends_with(remedy))
}

fn of_one(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if error.is::<NoAddress>() {
        return Some(NAME);
    }
    if let Some(error) = error.downcast_ref::<ProxyError>() {
        return Some(if error.asks_for_password() {
            PROXY_PASSWORD
        } else {
            PROXY
        });
    }
    if error.downcast_ref().is_some_and(hyper::Error::is_parse) {
        return Some(PLAIN_HTTP);
    }
    match error.downcast_ref()? {
        TlsError::InvalidMessage(_) => Some(PLAIN_TCP),
        TlsError::InvalidCertificate(why) => Some(match why {
            CertificateError::UnknownIssuer => UNTRUSTED,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                OTHER_NAME
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => EXPIRED,
            _ => BAD_CERTIFICATE,
        }),
        TlsError::AlertReceived(_) | TlsError::PeerIncompatible(_) => Some(NO_COMMON_TLS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::InvalidMessage;

    #[test]
    fn addresses_without_a_way_count_where_there_are_no_others() {
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (four, six) = (at("127.0.0.1:1"), at("[::1]:1"));
        for (way_to, expected) in [
            (vec![four, six], vec![four, six]),
            (vec![four], vec![four]),
            (vec![six], vec![six]),
            (vec![], vec![four, six]),
        ] {
            assert_eq!(
                within_reach(vec![four, six], |address| way_to.contains(address)),
                expected
            );
        }
        assert!(
            has_way(&four) && has_way(&at("127.0.0.1:0")),
            "there is a way to this machine itself"
        );
    }

    #[test]
    fn remedies_are_found_however_deep_the_cause_lies() {
        let tls = |error: TlsError| io::Error::new(io::ErrorKind::InvalidData, error);
        let certificate = |why| tls(TlsError::InvalidCertificate(why));
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
                Some("another name"),
            ),
            (certificate(CertificateError::Expired), Some("clock")),
            (
                certificate(CertificateError::BadSignature),
                Some("--insecure"),
            ),
            (
                io::Error::other(NoAddress {
                    host: "h".to_owned(),
                    why: io::ErrorKind::NotFound.into(),
                }),
                Some("DNS"),
            ),
            (
                io::Error::other(tls(TlsError::PeerIncompatible(
                    rustls::PeerIncompatible::NoCipherSuitesInCommon,
                ))),
                Some("agree"),
            ),
            (io::ErrorKind::ConnectionRefused.into(), None),
        ] {
            let found = remedy(&error);
            assert_eq!(
                (found.is_some(), found.is_some_and(names_a_remedy)),
                (word.is_some(), word.is_some()),
                "{error}"
            );
            assert!(
                found.unwrap_or_default().contains(word.unwrap_or_default()),
                "{found:?}"
            );
        }
    }
}
