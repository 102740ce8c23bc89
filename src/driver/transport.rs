//! Connections of our own for the timed path: HTTP/1.1 (hyper) over sockets that say when bytes arrived. Knows no case and no
//! schedule.
//!
//! Against a general HTTP client this one opens connections ahead of their use, so that none is opened inside a TTFT; polls a
//! connection in the very task that waits for its answer, which saves a hand-over between tasks for each chunk; and lives on
//! threads of its own, so that nothing else in the process takes their turn.

mod link;
mod pool;
mod socket;
mod threads;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;

use link::Link;
pub(super) use link::Target;
pub(super) use pool::{Connections, Pool};
use socket::Arrival;
pub(crate) use socket::Socket;
pub(super) use threads::Threads;

/// An open connection; one request at a time.
pub(super) struct Connection {
    requests: http1::SendRequest<Full<Bytes>>,
    wire: Wire,
    arrival: Arrival,
    /// Whether it has carried an answer already.
    is_reused: bool,
}

/// The half of a connection that reads and writes, while somebody polls it.
struct Wire {
    io: Pin<Box<http1::Connection<TokioIo<Link>, Full<Bytes>>>>,
    is_closed: bool,
}

/// An answer whose head has come, and the connection that it comes on.
pub(super) struct Answer {
    connection: Connection,
    body: Incoming,
    pub(super) head: hyper::http::response::Parts,
}

/// A request that went nowhere, or broke.
pub(super) struct NotSent {
    pub(super) error: hyper::Error,
    /// The request, where the server has not taken it: a connection that had carried an answer before was closed without a byte.
    pub(super) request: Option<Request<Full<Bytes>>>,
}

impl Connection {
    fn new(
        requests: http1::SendRequest<Full<Bytes>>,
        io: http1::Connection<TokioIo<Link>, Full<Bytes>>,
        arrival: Arrival,
    ) -> Self {
        Self { requests, wire: Wire { io: Box::pin(io), is_closed: false }, arrival, is_reused: false }
    }

    /// When the bytes arrived that were read last, in [`super::clock::process_ns`].
    pub(super) fn arrived_ns(&self) -> u64 {
        self.arrival.at_ns()
    }

    /// Whether a request can be sent now. Looks at the socket, as a server may have closed it since.
    pub(super) async fn is_usable(&mut self) -> bool {
        // One look: whoever waits for nothing is ready at once.
        self.wire.beside(std::future::ready(())).await;
        !self.wire.is_closed && self.requests.is_ready()
    }

    /// Sends the request and waits for the head of its answer.
    pub(super) async fn send(mut self, request: Request<Full<Bytes>>) -> Result<Answer, NotSent> {
        let before_ns = self.arrived_ns();
        let again = self.is_reused.then(|| request.clone());
        let answer = self.requests.try_send_request(request);
        match self.wire.beside(answer).await {
            Ok(response) => {
                let (head, body) = Response::into_parts(response);
                Ok(Answer { connection: self, body, head })
            }
            Err(mut error) => {
                let request = error.take_message();
                let error = error.into_error();
                // A server that closes an idle connection says nothing on it, and does not look at what comes too late.
                let is_unheard = self.arrived_ns() == before_ns && !error.is_timeout() && !error.is_parse();
                Err(NotSent { error, request: request.or(again.filter(|_| is_unheard)) })
            }
        }
    }
}

impl Answer {
    /// The next piece of the body: at most one read from the socket, and one chunk of the transfer coding. `None` at the end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, hyper::Error> {
        loop {
            let frame = self.connection.wire.beside(self.body.frame()).await;
            match frame.transpose()? {
                None => return Ok(None),
                Some(frame) => {
                    // Trailers are no part of the body.
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// When the head, or the piece that was read last, arrived, in [`super::clock::process_ns`].
    pub(super) fn arrived_ns(&self) -> u64 {
        self.connection.arrived_ns()
    }

    /// The connection, if the body has been read to its end and the server keeps it open.
    pub(super) async fn into_connection(self, patience: Duration) -> Option<Connection> {
        let Self { mut connection, body, .. } = self;
        drop(body);
        if connection.wire.is_closed || connection.requests.is_closed() {
            return None;
        }
        let ready = tokio::time::timeout(patience, connection.wire.beside(connection.requests.ready())).await;
        matches!(ready, Ok(Ok(()))).then_some(connection)
    }
}

impl Wire {
    /// Reads and writes while somebody waits for what comes of it.
    ///
    /// The connection goes first and brings news, and again after the other, which may have made room or handed over a request.
    async fn beside<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|cx| {
            self.turn(cx);
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            self.turn(cx);
            // What the second turn brought wakes this task again: the two are joined by channels.
            Poll::Pending
        })
        .await
    }

    fn turn(&mut self, cx: &mut std::task::Context<'_>) {
        if !self.is_closed && self.io.as_mut().poll(cx).is_ready() {
            // Its error reaches the request or the body, whichever is under way.
            self.is_closed = true;
        }
    }
}
