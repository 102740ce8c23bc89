//! The socket: binding it, taking connections, and letting one break. Knows no route.

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
/// The address is taken, is not this machine's, or is not for everybody; no loopback port is free.
#[expect(clippy::disallowed_methods, reason = "a server listens")]
pub(super) fn bind(address: Option<SocketAddr>) -> Result<TcpListener> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let listener =
        TcpListener::bind(address.unwrap_or(free)).map_err(|error| refusal(address, &error))?;
    listener
        .set_nonblocking(true)
        .map_err(|error| Error::environment(format!("server cannot use its port: {error}")))?;
    Ok(listener)
}

fn refusal(address: Option<SocketAddr>, error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let Some(address) = address else {
        return Error::environment(format!("embedded server found no loopback port: {error}"));
    };
    match error.kind() {
        ErrorKind::AddrInUse => Error::environment(format!("address is in use: {address}")).hint(
            "stop the server that listens there, or choose another port; port 0 takes a free one",
        ),
        ErrorKind::AddrNotAvailable => {
            Error::environment(format!("this machine does not have the address: {address}"))
                .hint("127.0.0.1 is this machine alone, 0.0.0.0 is every address that it has")
        }
        ErrorKind::PermissionDenied => {
            Error::environment(format!("the system does not allow listening at {address}"))
                .hint("ports below 1024 are often reserved; choose a higher one")
        }
        _ => Error::environment(format!("cannot listen at {address}: {error}")),
    }
}

/// Where a client on this machine reaches a listener.
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

/// Takes connections.
pub(super) struct Listening {
    listener: tokio::net::TcpListener,
    /// A file that is given up for a moment where the system gives out no more of them.
    spare: Option<Spare>,
    /// Whether connections are to be resettable, which takes a second handle of each.
    resettable: bool,
}

/// A connection, as far as its answers have to do with it.
#[derive(Clone, Debug, Default)]
pub(super) struct Connection {
    #[cfg(unix)]
    handle: Option<Arc<std::os::fd::OwnedFd>>,
    #[cfg(not(unix))]
    handle: Option<Arc<()>>,
}

impl Listener for Listening {
    type Io = TcpStream;
    type Addr = Connection;

    async fn accept(&mut self) -> (TcpStream, Connection) {
        let stream = self.taken().await;
        // Small writes, one a token, must not wait for each other.
        let _ = stream.set_nodelay(true);
        let connection = if self.resettable {
            Connection::of(&stream)
        } else {
            Connection::default()
        };
        (stream, connection)
    }

    fn local_addr(&self) -> std::io::Result<Connection> {
        Ok(Connection::default())
    }
}

/// A file that is open for nothing.
type Spare = TcpListener;

/// How long a listener waits that cannot take connections, before it tries again.
const PAUSE: Duration = Duration::from_millis(10);

impl Listening {
    /// Takes connections on the runtime that this is called on.
    ///
    /// # Errors
    /// There is no runtime.
    pub(super) fn new(listener: TcpListener, resettable: bool) -> std::io::Result<Self> {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        Ok(Self {
            spare: dup(&listener),
            listener,
            resettable,
        })
    }

    /// The next connection. Where there is no file for it any more, connections are turned away
    /// instead: one that is left waiting would hold a file of the client's for ever, which is in
    /// the same process, and both would wait for each other.
    async fn taken(&mut self) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return stream,
                // Who waited has gone.
                Err(error) if is_of_the_connection(&error) => {}
                Err(_) => self.turn_away().await,
            }
        }
    }

    async fn turn_away(&mut self) {
        if self.spare.take().is_some()
            && let Ok(Ok((stream, _))) = tokio::time::timeout(PAUSE, self.listener.accept()).await
        {
            // A reset: nothing is to linger.
            let _ = stream.set_zero_linger();
        }
        tokio::time::sleep(PAUSE).await;
        self.spare = dup(&self.listener);
    }
}

fn is_of_the_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

#[cfg(unix)]
fn dup(listener: &tokio::net::TcpListener) -> Option<Spare> {
    use std::os::fd::AsFd;
    listener.as_fd().try_clone_to_owned().ok().map(Spare::from)
}

#[cfg(not(unix))]
fn dup(_: &tokio::net::TcpListener) -> Option<Spare> {
    None
}

impl Connected<IncomingStream<'_, Listening>> for Connection {
    fn connect_info(stream: IncomingStream<'_, Listening>) -> Self {
        stream.remote_addr().clone()
    }
}

impl Connection {
    #[cfg(unix)]
    fn of(stream: &TcpStream) -> Self {
        use std::os::fd::AsFd;
        Self {
            handle: stream.as_fd().try_clone_to_owned().ok().map(Arc::new),
        }
    }

    #[cfg(not(unix))]
    fn of(_: &TcpStream) -> Self {
        Self::default()
    }

    /// Makes the connection end with a reset when it is closed, where the system lets us; elsewhere
    /// it is cut off.
    pub(super) fn end_with_reset(&self) {
        #[cfg(unix)]
        if let Some(handle) = &self.handle
            && let Ok(handle) = handle.try_clone()
            && let Ok(stream) = TcpStream::from_std(std::net::TcpStream::from(handle))
        {
            // The option belongs to the socket, whichever handle it is set through.
            let _ = stream.set_zero_linger();
        }
        #[cfg(not(unix))]
        let _ = &self.handle;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_cannot_be_had_say_why() {
        let taken = bind(None).unwrap().local_addr();
        // Bound again before the first is dropped.
        let holder = bind(None).unwrap();
        let address = holder.local_addr().unwrap();
        let error = bind(Some(address)).unwrap_err();
        assert!(
            error.what == format!("address is in use: {address}") && error.hint.is_some(),
            "{error}"
        );
        assert!(taken.unwrap().ip().is_loopback());
        let foreign = bind(Some("203.0.113.1:0".parse().unwrap())).unwrap_err();
        assert!(
            foreign.what.contains("203.0.113.1") && foreign.exit_code() == 3,
            "{foreign}"
        );
    }

    #[test]
    fn a_listener_everywhere_is_reached_here() {
        for (address, url) in [
            ("0.0.0.0:80", "http://127.0.0.1:80"),
            ("[::]:80", "http://[::1]:80"),
            ("192.0.2.1:8000", "http://192.0.2.1:8000"),
        ] {
            assert_eq!(base_url(address.parse().unwrap()), url);
        }
    }
}
