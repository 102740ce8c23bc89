//! HTTP/1.1 transport of the timed path, over sockets that record when bytes arrived.
//!
//! Unlike a general HTTP client, it opens connections before they are needed, so that no TTFT
//! includes a connect. It reads in the task that waits for the response and passes bytes on without
//! a copy: a chunk costs one system call. Idle connections have no buffer. Connections run on their
//! own threads, so that other work of the process does not delay them.

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

use super::clock::process_ns;

use http::{Body, read_head};
pub(super) use http::{HttpError, ResponseHead};
use link::Link;
pub(super) use link::Target;
pub(super) use pool::{Connections, Pool};
pub(super) use proxy::{Proxy, ProxyError};
pub use socket::Socket;
pub(super) use threads::Threads;

/// Maximum bytes of one read. All bytes of a read are stamped with the arrival of the last packet,
/// so a larger size makes a slow client less exact; a smaller one costs system calls.
const READ_BYTES: usize = 8 << 10;

thread_local! {
    /// The read buffer of this thread. Bytes are passed on before the next read.
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// An open connection, used for one request at a time.
pub(super) struct Connection {
    link: Link,
    /// Whether it has carried a response before.
    is_reused: bool,
    /// Its share of the connection limit.
    permit: Option<pool::ConnectionPermit>,
}

/// An encoded request.
#[derive(Clone)]
pub(super) struct Outgoing {
    /// Request line and headers, with the empty line.
    pub(super) head: Bytes,
    pub(super) body: Bytes,
}

/// A response whose head has been received, with its connection.
pub(super) struct IncomingResponse {
    connection: Connection,
    /// When the kernel had taken the request, or as much of it as fits into its buffer.
    pub(super) handed_over_ns: u64,
    pub(super) head: ResponseHead,
    body: Body,
    /// Body bytes that were received together with the head.
    early: Vec<u8>,
    /// Whether the server sent bytes after the end of the response.
    has_more: bool,
}

/// A failed request.
pub(super) struct NotSent {
    pub(super) error: HttpError,
    /// Whether the server did not process the request: the connection had carried a response before
    /// and was closed without a byte.
    pub(super) is_unprocessed: bool,
}

impl Connection {
    fn new(link: Link) -> Self {
        Self {
            link,
            is_reused: false,
            permit: None,
        }
    }

    /// When the bytes of the last read arrived, as [`super::clock::process_ns`].
    fn arrived_ns(&self) -> u64 {
        self.link.arrival().at_ns()
    }

    /// Whether a request can be sent now. Polls the socket, because the server may have closed it.
    pub(super) async fn is_usable(&mut self) -> bool {
        // No response is pending: end of file, an error or any bytes make the connection unusable.
        poll_fn(|cx| Poll::Ready(self.poll_bytes(cx, &mut |_| {}).is_pending())).await
    }

    /// Sends the request and waits for the head of the response.
    pub(super) async fn send(
        mut self,
        mut outgoing: Outgoing,
    ) -> Result<IncomingResponse, NotSent> {
        let mut received = Vec::new();
        let mut write_error = None;
        let mut handed_over_ns = None;
        let result = poll_fn(|cx| {
            if write_error.is_none()
                && let Poll::Ready(Err(error)) = self.poll_write(cx, &mut outgoing)
            {
                write_error = Some(error);
            }
            handed_over_ns.get_or_insert_with(process_ns);
            // Also while writing: a server may refuse a request before it has read all of it.
            self.poll_head(cx, &mut received)
        })
        .await;
        let is_written = !outgoing.has_remaining();
        match result {
            Ok((mut head, body)) => {
                head.keeps_connection &= is_written;
                Ok(IncomingResponse {
                    connection: self,
                    handed_over_ns: handed_over_ns.unwrap_or_default(),
                    head,
                    body,
                    early: received,
                    has_more: false,
                })
            }
            Err(error) => {
                // A server that closes an idle connection sends no byte and does not process later
                // requests.
                let is_unprocessed =
                    self.is_reused && received.is_empty() && !matches!(error, HttpError::Broken(_));
                // The write error occurred first and is more specific than the end of the
                // connection.
                Err(NotSent {
                    error: write_error.map_or(error, HttpError::Io),
                    is_unprocessed,
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

    /// Reads until the head is complete; the bytes after it stay in `received`.
    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        received: &mut Vec<u8>,
    ) -> Poll<Result<(ResponseHead, Body), HttpError>> {
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

    /// Reads once and passes the bytes on; returns their number, 0 at the end.
    fn poll_bytes(
        &mut self,
        cx: &mut Context<'_>,
        on_bytes: &mut dyn FnMut(&[u8]),
    ) -> Poll<io::Result<usize>> {
        READ_BUFFER.with_borrow_mut(|bytes| {
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
        let from_head = written.min(self.head.len());
        self.head.advance(from_head);
        self.body.advance(written - from_head);
    }
}

impl IncomingResponse {
    /// Waits for the next bytes of the body and passes them on, in one or several slices of one
    /// read from the socket. `false` at the end.
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
        // An empty body is complete before any read.
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

    /// When the head, or the last bytes read, arrived, as [`super::clock::process_ns`].
    pub(super) fn arrived_ns(&self) -> u64 {
        self.connection.arrived_ns()
    }

    /// How much earlier the first of these bytes can have arrived, if they were passed on in this
    /// number of slices; `None` if unknown.
    pub(super) fn arrival_slack_ns(&self, slices: usize) -> Option<u64> {
        self.connection.link.arrival().slack_ns(slices)
    }

    /// The connection, if the body has been read to its end and the server keeps it open.
    pub(super) fn into_connection(self) -> Option<Connection> {
        (self.body.is_done() && self.head.keeps_connection && !self.has_more)
            .then_some(self.connection)
    }
}
