//! One request over an open connection, and its response.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};

use super::client::describe;
use super::files::ran_out;
use super::remedy::{causes, remedy};
use super::transport::{Answer, Connection, Head, HttpError, Pool, ProxyError};
use sobench_core::observation::{Outcome, TransportCause};

/// An open connection, and where it goes after use.
pub(super) struct Way {
    pub(super) connection: Connection,
    pub(super) pool: Arc<Pool>,
}

/// A request to the generating endpoint.
pub(super) struct Message {
    /// Those that not all requests have alike.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) body: Bytes,
}

/// An answer whose head has come.
pub(super) struct Response {
    answer: Box<Answer>,
    pool: Arc<Pool>,
}

/// Why there is no answer, or no more of it.
pub(super) enum Broken {
    /// No connection.
    Connect(io::Error),
    Exchange(HttpError),
}

impl Way {
    /// Sends the request, and waits for the head of the answer. `sent` is called at the instant
    /// when the request goes out, again if it has to go out once more: where a connection that had
    /// been kept after an earlier answer was closed without a byte.
    pub(super) async fn send(
        self,
        message: Message,
        mut sent: impl FnMut(),
    ) -> Result<Response, Broken> {
        let Self { connection, pool } = self;
        let request = pool.target().request(&message.headers, message.body);
        sent();
        let answer = match connection.send(request.clone()).await {
            Ok(answer) => answer,
            Err(not_sent) if !not_sent.is_unheard => return Err(Broken::Exchange(not_sent.error)),
            Err(not_sent) => {
                pool.closes_after_answers();
                let fresh = match pool.open().await {
                    Ok(fresh) => fresh,
                    Err(lacking) if ran_out(&lacking).is_some() || is_of_proxy(&lacking) => {
                        return Err(Broken::Connect(lacking));
                    }
                    // Where nobody takes a fresh one either, the server has gone: what it died of
                    // is the request that it had.
                    Err(_) => return Err(Broken::Exchange(not_sent.error)),
                };
                sent();
                fresh
                    .send(request)
                    .await
                    .map_err(|not_sent| Broken::Exchange(not_sent.error))?
            }
        };
        if let Some(refusal) = pool.target().refusal_of_proxy(answer.head.status) {
            return Err(Broken::Connect(refusal));
        }
        Ok(Response {
            answer: Box::new(answer),
            pool,
        })
    }
}

impl Response {
    pub(super) fn head(&mut self) -> &mut Head {
        &mut self.answer.head
    }

    /// Waits for the next bytes of the body and hands them on, in one piece or several that share
    /// an instant; `false` at the end.
    pub(super) async fn piece(
        &mut self,
        on_data: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<bool, Broken> {
        self.answer.piece(on_data).await.map_err(Broken::Exchange)
    }

    /// When the head, or the piece that was read last, arrived, in [`super::clock::process_ns`].
    pub(super) fn arrived_ns(&self) -> u64 {
        self.answer.arrived_ns()
    }

    /// Gives the connection back for the next request, if the body has been read to its end.
    pub(super) fn keep_connection(self) {
        if let Some(connection) = self.answer.into_connection() {
            self.pool.put_back(connection);
        }
    }
}

impl Broken {
    pub(super) fn outcome(self) -> Outcome {
        let (cause, message) = match self {
            Self::Connect(error) => match ran_out(&error) {
                Some(words) => (TransportCause::Local, words.to_owned()),
                None => (
                    TransportCause::Connect,
                    format!("error trying to connect: {}", with_remedy(&error)),
                ),
            },
            Self::Exchange(error) => (cause_of(&error), with_remedy(&error)),
        };
        Outcome::Transport { cause, message }
    }
}

fn is_of_proxy(error: &io::Error) -> bool {
    causes(error).any(|error| error.is::<ProxyError>())
}

/// The error in words, with what to do about it where that is known.
fn with_remedy(error: &(dyn std::error::Error + 'static)) -> String {
    let words = describe(error);
    remedy(error).map_or_else(|| words.clone(), |remedy| format!("{words}: {remedy}"))
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
    async fn a_kept_connection_that_cannot_be_replaced_for_want_of_files_says_nothing_of_the_server()
     {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let (close, told) = channel::<()>();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .unwrap();
            let _ = told.recv();
        });
        let connections = Arc::new(Connections::default());
        let target = Target::new(&url, &HeaderMap::new(), "test", None, None).unwrap();
        let (keep, connect_timeout) = (Duration::from_secs(3600), Duration::from_secs(3600));
        let pool = Pool::new(target, Arc::clone(&connections), keep, connect_timeout);
        let message = || Message {
            headers: vec![],
            body: Bytes::from_static(b"{}"),
        };
        let first = Way {
            connection: pool.take().await.unwrap(),
            pool: Arc::clone(&pool),
        };
        let Ok(mut answer) = first.send(message(), || {}).await else {
            panic!("no answer")
        };
        while let Ok(true) = answer.piece(&mut |_| {}).await {}
        answer.keep_connection();
        let second = Way {
            connection: pool.take().await.unwrap(),
            pool: Arc::clone(&pool),
        };
        drop(close);
        server.join().unwrap();
        connections.keep_within(0);
        let Err(broken) = second.send(message(), || {}).await else {
            panic!("an answer")
        };
        let outcome = broken.outcome();
        assert!(outcome.is_local(), "{outcome:?}");
    }
}
