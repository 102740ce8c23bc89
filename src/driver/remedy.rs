//! What a person can do about a connection that failed, by the kind of the failure. Knows no request and no server.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use rustls::CertificateError;
use rustls::Error as TlsError;

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

/// The addresses of a host; an address stands for itself.
pub(super) async fn addresses(host: &str, port: u16) -> Result<Vec<SocketAddr>, NoAddress> {
    let failed = |why| NoAddress { host: host.to_owned(), why };
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await.map_err(failed)?.collect();
    if found.is_empty() {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    Ok(found)
}

/// What to do about an error or one of its causes, found by their types and never by words; `None` where nothing better can be said
/// than that it happened.
pub(super) fn remedy(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = of_one(error) {
            return Some(found);
        }
        // An I/O error passes over the error that it was made from when it is asked for its cause.
        let inner = error.downcast_ref().and_then(io::Error::get_ref).map(|inner| inner as &(dyn Error + 'static));
        next = inner.or_else(|| error.source());
    }
    None
}

fn of_one(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if error.is::<NoAddress>() {
        return Some("check the name in --base-url, or this machine's DNS");
    }
    if error.downcast_ref().is_some_and(hyper::Error::is_parse) {
        return Some("what answers there speaks no HTTP/1.1: is the address one of https://?");
    }
    match error.downcast_ref()? {
        TlsError::InvalidMessage(_) => Some("what answers there speaks no TLS: is the address one of http://?"),
        TlsError::InvalidCertificate(why) => Some(match why {
            CertificateError::UnknownIssuer => {
                "the certificate is signed by nobody whom this machine trusts: --insecure takes it unchecked"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "the certificate is for another name: check --base-url; --insecure takes it unchecked"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "the certificate has expired, or this machine's clock is wrong: --insecure takes it unchecked"
            }
            _ => "the certificate is self-signed, or not one to trust for another reason: --insecure takes it unchecked",
        }),
        TlsError::AlertReceived(_) | TlsError::PeerIncompatible(_) => {
            Some("the server and this client agree on no TLS: the server's log may say why")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::InvalidMessage;

    #[test]
    fn remedies_are_found_however_deep_the_cause_lies() {
        let tls = |error: TlsError| io::Error::new(io::ErrorKind::InvalidData, error);
        let certificate = |why| tls(TlsError::InvalidCertificate(why));
        for (error, word) in [
            (tls(TlsError::InvalidMessage(InvalidMessage::InvalidContentType)), Some("http://")),
            (certificate(CertificateError::UnknownIssuer), Some("--insecure")),
            (certificate(CertificateError::NotValidForName), Some("another name")),
            (certificate(CertificateError::Expired), Some("clock")),
            (certificate(CertificateError::BadSignature), Some("--insecure")),
            (io::Error::other(NoAddress { host: "h".to_owned(), why: io::ErrorKind::NotFound.into() }), Some("DNS")),
            (io::Error::other(tls(TlsError::PeerIncompatible(rustls::PeerIncompatible::NoCipherSuitesInCommon))), Some("agree")),
            (io::ErrorKind::ConnectionRefused.into(), None),
        ] {
            let found = remedy(&error);
            assert_eq!(found.is_some(), word.is_some(), "{error}");
            assert!(found.unwrap_or_default().contains(word.unwrap_or_default()), "{found:?}");
        }
    }
}
