//! The way of a request to the server and of its answer back: over connections of our own, or through a proxy by the HTTP library.
//! Knows no case and no decoder.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Request, StatusCode};

use super::client::describe;
use super::clock;
use super::files::ran_out;
use super::remedy::{causes, remedy};
use super::transport::{Answer, Connection, HttpError, Pool, advice};
use crate::observation::{Advice, Outcome, TransportCause};

/// What carries one request.
pub(super) enum Way {
    /// An open connection, and where it goes after use.
    Direct(Connection, Arc<Pool>),
    /// The HTTP library, which opens a connection inside the request if it has none, and tells instants of this process only; with
    /// what all requests have in common.
    Proxied(reqwest::Client, Box<Request>),
}

/// A request to the generating endpoint.
pub(super) struct Message {
    /// Those that not all requests have alike.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

/// An answer whose head has come.
pub(super) enum Response {
    Direct(Box<Answer>, Arc<Pool>),
    Proxied(Box<reqwest::Response>),
}

/// Why there is no answer, or no more of it.
pub(super) enum Broken {
    /// No connection.
    Connect(io::Error),
    Direct(HttpError),
    Proxied(reqwest::Error),
}

impl Way {
    /// Sends the request, and waits for the head of the answer. `sent` is called at the instant when the request goes out, again if
    /// it has to go out once more: where a connection that had been kept after an earlier answer was closed without a word.
    pub(super) async fn send(self, message: Message, mut sent: impl FnMut()) -> Result<Response, Broken> {
        let (connection, pool) = match self {
            Self::Direct(connection, pool) => (connection, pool),
            Self::Proxied(http, mut request) => {
                request.headers_mut().extend(message.headers);
                *request.body_mut() = Some(message.body.into());
                sent();
                let answer = http.execute(*request).await;
                return answer.map(|response| Response::Proxied(Box::new(response))).map_err(Broken::Proxied);
            }
        };
        let request = pool.target().request(&message.headers, message.body);
        sent();
        let answer = match connection.send(request.clone()).await {
            Ok(answer) => answer,
            Err(not_sent) if !not_sent.is_unheard => return Err(Broken::Direct(not_sent.error)),
            Err(not_sent) => {
                pool.closes_after_answers();
                let fresh = match pool.open().await {
                    Ok(fresh) => fresh,
                    Err(lacking) if ran_out(&lacking).is_some() => return Err(Broken::Connect(lacking)),
                    // Where nobody takes a fresh one either, the server has gone: what it died of is the request that it had.
                    Err(_) => return Err(Broken::Direct(not_sent.error)),
                };
                sent();
                fresh.send(request).await.map_err(|not_sent| Broken::Direct(not_sent.error))?
            }
        };
        Ok(Response::Direct(Box::new(answer), pool))
    }
}

impl Response {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Direct(answer, _) => answer.head.status,
            Self::Proxied(response) => response.status(),
        }
    }

    /// What its headers say to do, where it is no answer.
    pub(super) fn advice(&mut self) -> Option<Advice> {
        match self {
            Self::Direct(answer, _) => answer.head.advice.take(),
            Self::Proxied(response) => advice(response.status(), |name| {
                response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            }),
        }
    }

    /// What its `Content-Type` says.
    pub(super) fn content_type(&self) -> Option<&str> {
        match self {
            Self::Direct(answer, _) => answer.head.content_type.as_deref(),
            Self::Proxied(response) => response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()),
        }
    }

    /// Whether the body is of this media type.
    pub(super) fn is_of_type(&self, media_type: &str) -> bool {
        let essence = self.content_type().unwrap_or_default().split(';').next().unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(media_type)
    }

    /// Waits for the next bytes of the body and hands them on, in one piece or several that share an instant; `false` at the end.
    pub(super) async fn piece(&mut self, on_data: &mut (dyn FnMut(&[u8]) + Send)) -> Result<bool, Broken> {
        match self {
            Self::Direct(answer, _) => answer.piece(on_data).await.map_err(Broken::Direct),
            Self::Proxied(response) => {
                let chunk = response.chunk().await.map_err(Broken::Proxied)?;
                chunk.iter().for_each(|bytes| on_data(bytes));
                Ok(chunk.is_some())
            }
        }
    }

    /// When the head, or the piece that was read last, arrived, in [`clock::process_ns`].
    pub(super) fn arrived_ns(&self) -> u64 {
        match self {
            Self::Direct(answer, _) => answer.arrived_ns(),
            Self::Proxied(_) => clock::process_ns(),
        }
    }

    /// Gives the connection back for the next request, if the body has been read to its end.
    pub(super) fn keep_connection(self) {
        if let Self::Direct(answer, pool) = self
            && let Some(connection) = answer.into_connection()
        {
            pool.put_back(connection);
        }
    }
}

impl Broken {
    pub(super) fn outcome(self) -> Outcome {
        let lacking = match &self {
            Self::Connect(error) => ran_out(error),
            Self::Proxied(error) => ran_out(error),
            Self::Direct(_) => None,
        };
        if let Some(words) = lacking {
            return Outcome::Transport { cause: TransportCause::Local, message: words.to_owned() };
        }
        match self {
            Self::Connect(error) => Outcome::Transport {
                cause: TransportCause::Connect,
                message: format!("error trying to connect: {}", with_remedy(&error)),
            },
            Self::Direct(error) => Outcome::Transport { cause: cause_within(&error), message: with_remedy(&error) },
            Self::Proxied(error) => {
                let error = error.without_url();
                let cause = if error.is_connect() { TransportCause::Connect } else { cause_within(&error) };
                Outcome::Transport { cause, message: with_remedy(&error) }
            }
        }
    }
}

/// The error in words, with what to do about it where that is known.
fn with_remedy(error: &(dyn std::error::Error + 'static)) -> String {
    let words = describe(error);
    remedy(error).map_or_else(|| words.clone(), |remedy| format!("{words}: {remedy}"))
}

/// Finds the cause in an error and its sources: by type, never by words.
fn cause_within(error: &(dyn std::error::Error + 'static)) -> TransportCause {
    causes(error).find_map(cause_of_one).unwrap_or(TransportCause::Other)
}

fn cause_of_one(error: &(dyn std::error::Error + 'static)) -> Option<TransportCause> {
    match error.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe) => {
            return Some(TransportCause::Reset);
        }
        Some(io::ErrorKind::UnexpectedEof) => return Some(TransportCause::Closed),
        _ => {}
    }
    // One that was cut short by a reset names the reset as its source, which is looked at next.
    let is_cut = |error: &hyper::Error| error.is_incomplete_message() || error.is_closed() || error.is_canceled();
    let is_closed = matches!(error.downcast_ref(), Some(HttpError::Closed)) || error.downcast_ref().is_some_and(is_cut);
    is_closed.then_some(TransportCause::Closed)
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use reqwest::header::HeaderMap;

    use super::super::transport::{Connections, Target};
    use super::*;

    /// A server that answers once and closes when it is told to.
    #[tokio::test]
    async fn a_kept_connection_that_cannot_be_replaced_for_want_of_files_says_nothing_of_the_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (close, told) = channel::<()>();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
            let _ = told.recv();
        });
        let connections = Arc::new(Connections::default());
        let target = Target::new(&url, &HeaderMap::new(), "test", None).unwrap();
        let (keep, connect_timeout) = (Duration::from_secs(3600), Duration::from_secs(3600));
        let pool = Pool::new(target, Arc::clone(&connections), keep, connect_timeout);
        let message = || Message { headers: vec![], body: Bytes::from_static(b"{}") };
        let first = Way::Direct(pool.take().await.unwrap(), Arc::clone(&pool));
        let Ok(mut answer) = first.send(message(), || {}).await else { panic!("no answer") };
        while let Ok(true) = answer.piece(&mut |_| {}).await {}
        answer.keep_connection();
        let second = Way::Direct(pool.take().await.unwrap(), Arc::clone(&pool));
        drop(close);
        server.join().unwrap();
        connections.keep_within(0);
        let Err(broken) = second.send(message(), || {}).await else { panic!("an answer") };
        let outcome = broken.outcome();
        assert!(outcome.is_local(), "{outcome:?}");
    }
}
