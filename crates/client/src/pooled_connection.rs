//! One request over a pooled connection, and its response.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};

use super::client::describe;
use super::connection_hint::{causes, connection_hint};
use super::rlimit::exhausted_resource;
use super::transport::{Connection, HttpError, IncomingResponse, Pool, ProxyError, ResponseHead};
use sobench_core::observation::{Outcome, TransportCause};

/// An open connection and the pool that it returns to.
pub(super) struct PooledConnection {
    pub(super) connection: Connection,
    pub(super) pool: Arc<Pool>,
}

/// A request to the generating endpoint.
pub(super) struct OutgoingMessage {
    /// Headers that differ between requests.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

/// A response whose head has been received.
pub(super) struct Response {
    answer: Box<IncomingResponse>,
    pool: Arc<Pool>,
}

/// Why an exchange failed.
pub(super) enum ExchangeError {
    /// No connection could be made.
    Connect(io::Error),
    Exchange(HttpError),
}

impl PooledConnection {
    /// Sends the request and waits for the head of the response. `sent` is called when the request
    /// is sent, and again if it is sent a second time because a kept connection was closed without
    /// a byte.
    pub(super) async fn send(
        self,
        message: OutgoingMessage,
        mut sent: impl FnMut(),
    ) -> Result<Response, ExchangeError> {
        let Self { connection, pool } = self;
        let request = pool.target().request(&message.headers, message.body);
        sent();
        let answer = match connection.send(request.clone()).await {
            Ok(answer) => answer,
            Err(not_sent) if !not_sent.is_unprocessed => {
                return Err(ExchangeError::Exchange(not_sent.error));
            }
            Err(not_sent) => {
                pool.stop_keeping_connections();
                let new_connection = match Box::pin(pool.open()).await {
                    Ok(new_connection) => new_connection,
                    Err(error)
                        if exhausted_resource(&error).is_some() || is_proxy_error(&error) =>
                    {
                        return Err(ExchangeError::Connect(error));
                    }
                    // If a new connection fails too, the server is gone, and this request may have
                    // crashed it.
                    Err(_) => return Err(ExchangeError::Exchange(not_sent.error)),
                };
                sent();
                new_connection
                    .send(request)
                    .await
                    .map_err(|not_sent| ExchangeError::Exchange(not_sent.error))?
            }
        };
        if let Some(error) = pool.target().proxy_refusal(answer.head.status) {
            return Err(ExchangeError::Connect(error));
        }
        Ok(Response {
            answer: Box::new(answer),
            pool,
        })
    }
}

impl Response {
    pub(super) fn head(&mut self) -> &mut ResponseHead {
        &mut self.answer.head
    }

    /// Waits for the next bytes of the body and passes them on, in one or several slices of the
    /// same instant; `false` at the end.
    pub(super) async fn piece(
        &mut self,
        on_data: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<bool, ExchangeError> {
        self.answer
            .piece(on_data)
            .await
            .map_err(ExchangeError::Exchange)
    }

    /// When the head, or the last bytes read, arrived, as [`super::clock::process_ns`].
    pub(super) fn arrived_ns(&self) -> u64 {
        self.answer.arrived_ns()
    }

    /// How much earlier the first of these bytes can have arrived, if they were passed on in this
    /// number of slices; `None` if unknown.
    pub(super) fn arrival_slack_ns(&self, slices: usize) -> Option<u64> {
        self.answer.arrival_slack_ns(slices)
    }

    /// When the kernel had taken the request, as [`super::clock::process_ns`].
    pub(super) fn handed_over_ns(&self) -> u64 {
        self.answer.handed_over_ns
    }

    /// Returns the connection to the pool if the body has been read to its end.
    pub(super) fn keep_connection(self) {
        if let Some(connection) = self.answer.into_connection() {
            self.pool.put_back(connection);
        }
    }
}

impl ExchangeError {
    pub(super) fn outcome(self) -> Outcome {
        let (cause, message) = match self {
            Self::Connect(error) => match exhausted_resource(&error) {
                Some(hint) => (TransportCause::Local, hint.to_owned()),
                None => (
                    TransportCause::Connect,
                    format!("cannot connect: {}", with_hint(&error)),
                ),
            },
            Self::Exchange(error) => (cause_of(&error), with_hint(&error)),
        };
        Outcome::Transport { cause, message }
    }
}

fn is_proxy_error(error: &io::Error) -> bool {
    causes(error).any(|error| error.is::<ProxyError>())
}

/// The error with its causes, and a hint if there is one.
fn with_hint(error: &(dyn std::error::Error + 'static)) -> String {
    let message = describe(error);
    connection_hint(error).map_or_else(|| message.clone(), |hint| format!("{message}: {hint}"))
}

fn cause_of(error: &HttpError) -> TransportCause {
    match error {
        HttpError::Closed => TransportCause::Closed,
        HttpError::Io(error) => match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => TransportCause::Reset,
            io::ErrorKind::UnexpectedEof => TransportCause::Closed,
            _ => TransportCause::Other,
        },
        HttpError::Broken(_) => TransportCause::Other,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use reqwest::header::HeaderMap;

    use super::super::transport::{Connections, Target};
    use super::*;

    /// A server that answers once and closes on a signal of the test.
    #[tokio::test]
    async fn a_kept_connection_that_cannot_be_replaced_is_a_local_failure() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let (close, closing) = channel::<()>();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            let _ = closing.recv();
        });
        let connections = Arc::new(Connections::default());
        let target = Target::new(&url, &HeaderMap::new(), "test", None, None).unwrap();
        let (keep, connect_timeout) = (Duration::from_secs(3600), Duration::from_secs(3600));
        let pool = Pool::new(target, Arc::clone(&connections), keep, connect_timeout);
        let message = || OutgoingMessage {
            headers: vec![],
            body: Bytes::from_static(b"{}"),
        };
        let first = PooledConnection {
            connection: pool.take().await.unwrap(),
            pool: Arc::clone(&pool),
        };
        let Ok(mut answer) = first.send(message(), || {}).await else {
            panic!("no answer")
        };
        while let Ok(true) = answer.piece(&mut |_| {}).await {}
        answer.keep_connection();
        let second = PooledConnection {
            connection: pool.take().await.unwrap(),
            pool: Arc::clone(&pool),
        };
        drop(close);
        server.join().unwrap();
        connections.limit_open_connections(0);
        let Err(broken) = second.send(message(), || {}).await else {
            panic!("an answer")
        };
        let outcome = broken.outcome();
        assert!(outcome.is_local(), "{outcome:?}");
    }
}
