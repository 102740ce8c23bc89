//! Connections of our own for the timed path: HTTP/1.1 over sockets that say when bytes arrived.
//! Knows no case and no schedule.
//!
//! Against a general HTTP client this one opens connections ahead of their use, so that none is
//! opened inside a TTFT; reads in the very task that waits for the answer, and hands bytes on where
//! the read left them, so that a chunk costs one system call, no hand-over and no copy; keeps no
//! buffer for a connection that has nothing to say; and lives on threads of its own, so that
//! nothing else in the process takes their turn.

mod http;
mod link;
mod pool;
mod proxy;
mod socket;
mod threads;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use http::{Body, read_head};
pub(super) use http::{Head, HttpError};
use link::Link;
pub(super) use link::Target;
pub(super) use pool::{Connections, Pool};
pub(super) use proxy::{Proxy, ProxyError};
use socket::Arrival;
pub use socket::Socket;
pub(super) use threads::Threads;

/// The most bytes of one read. What lies ready in the socket together is stamped with its last
/// packet's arrival, so more would blur a client that lags behind; less would cost it system calls.
const READ_BYTES: usize = 8 << 10;

thread_local! {
    /// Where reads of this thread put their bytes, until they are handed on at once.
    static BYTES: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// An open connection; one request at a time.
pub(super) struct Connection {
    link: Link,
    arrival: Arrival,
    /// Whether it has carried an answer already.
    is_reused: bool,
    /// Its place among those that may be open, where they are counted.
    place: Option<pool::Place>,
}

/// A request as bytes.
#[derive(Clone)]
pub(super) struct Outgoing {
    /// Request line and headers, with the empty line.
    pub(super) head: Bytes,
    pub(super) body: Bytes,
}

/// An answer whose head has come, and the connection that it comes on.
pub(super) struct Answer {
    connection: Connection,
    pub(super) head: Head,
    body: Body,
    /// What came together with the head and belongs to the body.
    early: Vec<u8>,
    /// Whether the server sent more than its answer.
    has_more: bool,
}

/// A request that went nowhere, or broke.
pub(super) struct NotSent {
    pub(super) error: HttpError,
    /// Whether the server has not taken the request: a connection that had carried an answer before
    /// was closed without a byte.
    pub(super) is_unheard: bool,
}

impl Connection {
    fn new(link: Link, arrival: Arrival) -> Self {
        Self {
            link,
            arrival,
            is_reused: false,
            place: None,
        }
    }

    /// When the bytes arrived that were read last, in [`super::clock::process_ns`].
    fn arrived_ns(&self) -> u64 {
        self.arrival.at_ns()
    }

    /// Whether a request can be sent now. Looks at the socket, as a server may have closed it
    /// since.
    pub(super) async fn is_usable(&mut self) -> bool {
        // Nothing is owed here: an end, an error or bytes that nobody asked for all spoil it.
        poll_fn(|cx| Poll::Ready(self.poll_bytes(cx, &mut |_| {}).is_pending())).await
    }

    /// Sends the request and waits for the head of its answer.
    pub(super) async fn send(mut self, mut outgoing: Outgoing) -> Result<Answer, NotSent> {
        let mut received = Vec::new();
        let mut write_error = None;
        let answered = poll_fn(|cx| {
            if write_error.is_none()
                && let Poll::Ready(Err(error)) = self.poll_write(cx, &mut outgoing)
            {
                write_error = Some(error);
            }
            // Also while writing: who refuses a request need not read it whole.
            self.poll_head(cx, &mut received)
        })
        .await;
        let is_written = !outgoing.has_remaining();
        match answered {
            Ok((mut head, body)) => {
                head.keeps_connection &= is_written;
                Ok(Answer {
                    connection: self,
                    head,
                    body,
                    early: received,
                    has_more: false,
                })
            }
            Err(error) => {
                // A server that closes an idle connection says nothing on it, and does not look at
                // what comes too late.
                let is_unheard =
                    self.is_reused && received.is_empty() && !matches!(error, HttpError::Broken(_));
                // What the write met comes first, and says more than the end of the connection
                // does.
                Err(NotSent {
                    error: write_error.map_or(error, HttpError::Io),
                    is_unheard,
                })
            }
        }
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        outgoing: &mut Outgoing,
    ) -> Poll<io::Result<()>> {
        while outgoing.has_remaining() {
            let parts = [IoSlice::new(&outgoing.head), IoSlice::new(&outgoing.body)];
            let written = ready!(Pin::new(&mut self.link).poll_write_vectored(cx, &parts))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            outgoing.advance(written);
        }
        Pin::new(&mut self.link).poll_flush(cx)
    }

    /// Reads until the head is whole; what follows it stays in `received`.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        received: &mut Vec<u8>,
    ) -> Poll<Result<(Head, Body), HttpError>> {
        loop {
            let read = ready!(self.poll_bytes(cx, &mut |bytes| received.extend_from_slice(bytes)))
                .map_err(HttpError::Io)?;
            if read == 0 {
                return Poll::Ready(Err(HttpError::Closed));
            }
            if let Some((head, body, used)) = read_head(received)? {
                received.drain(..used);
                return Poll::Ready(Ok((head, body)));
            }
        }
    }

    /// Reads once and hands on what came; how much it was, and 0 at the end.
    fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        on_bytes: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        BYTES.with_borrow_mut(|bytes| {
            let mut buffer = ReadBuf::new(bytes);
            ready!(Pin::new(&mut self.link).poll_read(cx, &mut buffer))?;
            on_bytes(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }
}

impl Outgoing {
    fn has_remaining(&self) -> bool {
        self.head.has_remaining() || self.body.has_remaining()
    }

    fn advance(&mut self, written: usize) {
        let of_head = written.min(self.head.len());
        self.head.advance(of_head);
        self.body.advance(written - of_head);
    }
}

impl Answer {
    /// Waits for the next bytes of the body and hands them on, in one piece or several of the same
    /// instant: those of one read from the socket. `false` at the end.
    pub(super) async fn piece(
        &mut self,
        on_data: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<bool, HttpError> {
        let Self {
            connection,
            body,
            early,
            has_more,
            ..
        } = self;
        let mut has_data = false;
        let mut take = |bytes: &[u8]| {
            let used = body.take(bytes, &mut |data| {
                has_data |= !data.is_empty();
                on_data(data);
            })?;
            *has_more |= used < bytes.len();
            Ok(if has_data {
                Some(true)
            } else {
                body.is_done().then_some(false)
            })
        };
        // A body without a byte is done before anything is read.
        if let Some(piece) = take(&std::mem::take(early))? {
            return Ok(piece);
        }
        let read = poll_fn(|cx| {
            loop {
                let mut taken = Ok(None);
                let read = ready!(connection.poll_bytes(cx, &mut |bytes| taken = take(bytes)))
                    .map_err(HttpError::Io)?;
                if let Some(piece) = taken? {
                    return Poll::Ready(Ok(Some(piece)));
                }
                if read == 0 {
                    return Poll::Ready(Ok(None));
                }
            }
        });
        match read.await? {
            Some(piece) => Ok(piece),
            None => body.end().map(|()| false),
        }
    }

    /// When the head, or the bytes that were read last, arrived, in [`super::clock::process_ns`].
    pub(super) fn arrived_ns(&self) -> u64 {
        self.connection.arrived_ns()
    }

    /// The connection, if the body has been read to its end and the server keeps it open.
    pub(super) fn into_connection(self) -> Option<Connection> {
        (self.body.is_done() && self.head.keeps_connection && !self.has_more)
            .then_some(self.connection)
    }
}
