//! The listening socket: binds it, accepts connections, and resets connections for injected faults.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::net::TcpStream;

use sobench_core::error::{Error, Result};

/// Binds to an address, or to a free loopback port.
///
/// # Errors
/// The address is in use, does not belong to this machine or requires privileges, or no loopback
/// port is free.
#[expect(clippy::disallowed_methods, reason = "a server listens")]
pub(super) fn bind(address: Option<SocketAddr>) -> Result<TcpListener> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener =
        TcpListener::bind(address.unwrap_or(free)).map_err(|error| refusal(address, &error))?;
    listener.set_nonblocking(true).map_err(|error| {
        Error::environment(format!(
            "cannot set up the port of the embedded server: {error}"
        ))
    })?;
    Ok(listener)
}

fn refusal(address: Option<SocketAddr>, error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let Some(address) = address else {
        return Error::environment(format!(
            "no free loopback port for the embedded server: {error}"
        ));
    };
    match error.kind() {
        ErrorKind::AddrInUse => Error::environment(format!("address is in use: {address}")).hint(
            "stop the server on that port, or choose another one; port 0 selects a free port",
        ),
        ErrorKind::AddrNotAvailable => Error::environment(format!(
            "the address does not belong to this machine: {address}"
        ))
        .hint("use 127.0.0.1 for this machine only, or 0.0.0.0 for all its addresses"),
        ErrorKind::PermissionDenied => {
            Error::environment(format!("no permission to listen on {address}"))
                .hint("use a port from 1024 on")
        }
        _ => Error::environment(format!("cannot listen on {address}: {error}")),
    }
}

/// The URL of a listener for clients on this machine.
pub(super) fn base_url(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        let loopback = if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        };
        address.set_ip(loopback);
    }
    format!("http://{address}")
}

/// Accepts connections.
pub(super) struct Listening {
    listener: tokio::net::TcpListener,
    /// A file descriptor that is closed for a moment when no more are available.
    spare: Option<Spare>,
    /// Whether connections can be reset. This needs a second file descriptor for each.
    resettable: bool,
}

/// A handle of a connection, to reset it.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    handle: Option<Arc<std::os::fd::OwnedFd>>,
}

impl Listener for Listening {
    type Io = TcpStream;
    type Addr = Connection;

    async fn accept(&mut self) -> (TcpStream, Connection) {
        let stream = self.next_connection().await;
        // The small writes, one per token, must not be delayed.
        let _ = stream.set_nodelay(true);
        let connection = if self.resettable {
            Connection::new(&stream)
        } else {
            Connection::default()
        };
        (stream, connection)
    }

    fn local_addr(&self) -> std::io::Result<Connection> {
        Ok(Connection::default())
    }
}

/// A duplicate of the listening socket that only reserves a file descriptor.
type Spare = TcpListener;

/// Delay before the listener tries again after an error.
const PAUSE: Duration = Duration::from_millis(10);

impl Listening {
    /// Accepts connections on the current runtime.
    ///
    /// # Errors
    /// No runtime is active.
    pub(super) fn new(listener: TcpListener, resettable: bool) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(Self {
            spare: dup(&listener),
            listener,
            resettable,
        })
    }

    /// The next connection. Without free file descriptors, connections are reset instead: otherwise
    /// a client in the same process would wait forever, while its waiting connections use up the
    /// descriptors.
    async fn next_connection(&mut self) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return stream,
                // The client disconnected while waiting.
                Err(error) if is_connection_error(&error) => {}
                Err(_) => self.reset_one().await,
            }
        }
    }

    async fn reset_one(&mut self) {
        if self.spare.take().is_some()
            && let Ok(Ok((stream, _))) = tokio::time::timeout(PAUSE, self.listener.accept()).await
        {
            // Close with a reset, without lingering.
            let _ = stream.set_zero_linger();
        }
        tokio::time::sleep(PAUSE).await;
        self.spare = dup(&self.listener);
    }
}

fn is_connection_error(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

fn dup(listener: &tokio::net::TcpListener) -> Option<Spare> {
    use std::os::fd::AsFd;
    listener.as_fd().try_clone_to_owned().ok().map(Spare::from)
}

impl Connected<IncomingStream<'_, Listening>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Listening>) -> Self {
        stream.remote_addr().clone()
    }
}

impl Connection {
    fn new(stream: &TcpStream) -> Self {
        use std::os::fd::AsFd;
        Self {
            handle: stream.as_fd().try_clone_to_owned().ok().map(Arc::new),
        }
    }

    /// Makes the connection close with a reset. On systems without support it is closed normally.
    pub(super) fn end_with_reset(&self) {
        if let Some(handle) = &self.handle
            && let Ok(handle) = handle.try_clone()
            && let Ok(stream) = TcpStream::from_std(std::net::TcpStream::from(handle))
        {
            // The option applies to the socket, through any of its handles.
            let _ = stream.set_zero_linger();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unavailable_addresses_are_reported() {
        let free = bind(None).unwrap().local_addr();
        // This may bind the port that was just released.
        let holder = bind(None).unwrap();
        let address = holder.local_addr().unwrap();
        let error = bind(Some(address)).unwrap_err();
        assert!(
            error.what == format!("address is in use: {address}") && error.hint.is_some(),
            "{error}"
        );
        assert!(free.unwrap().ip().is_loopback());
        let foreign = bind(Some("203.0.113.1:0".parse().unwrap())).unwrap_err();
        assert!(
            foreign.what.contains("203.0.113.1") && foreign.exit_code() == 3,
            "{foreign}"
        );
    }

    #[test]
    fn base_url_of_an_unspecified_address_is_loopback() {
        for (address, url) in [
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:80", "http://[::1]:80"),
            ("192.0.2.1:8000", "http://192.0.2.1:8000"),
        ] {
            assert_eq!(base_url(address.parse().unwrap()), url);
        }
    }
}
