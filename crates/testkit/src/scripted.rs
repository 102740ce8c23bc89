//! An HTTP/1.1 test server on a free loopback port whose exact bytes a test controls.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::net::TcpSocket;

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method, path and version.
    pub line: String,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Index of the request over all connections.
    pub number: usize,
}

impl Request {
    /// Whether this requests the model list, which precedes generation requests.
    pub fn is_model_list(&self) -> bool {
        self.line.starts_with("GET /v1/models ")
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(header, _)| header == name)
            .map(|(_, value)| value.as_str())
    }
}

/// What happens to the connection after a response.
pub enum Then {
    Keep,
    Close,
}

/// A server that listens until dropped.
pub struct ScriptedServer {
    pub base_url: String,
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    pub connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl ScriptedServer {
    /// Calls `answer` for each request; it may write any bytes to the connection.
    pub fn new(answer: impl Fn(&Request, &mut TcpStream) -> Then + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Self {
            base_url: format!("http://{address}"),
            address,
            stopped: Arc::default(),
            connections: Arc::default(),
            requests: Arc::default(),
        };
        let (stopped, connections, requests) = (
            Arc::clone(&server.stopped),
            Arc::clone(&server.connections),
            Arc::clone(&server.requests),
        );
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                connections.fetch_add(1, Ordering::SeqCst);
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                std::thread::spawn(move || {
                    serve_connection(stream.unwrap(), &requests, answer.as_ref());
                });
            }
        });
        server
    }

    /// A server that replies to each request with the same bytes and closes the connection.
    pub fn with_response(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self::new(move |_, stream| {
            stream.write_all(&bytes).unwrap();
            Then::Close
        })
    }

    /// A server that replies to each request with a complete response (see [`whole`]) and keeps the
    /// connection open. Closing it without notice could hit the next request, which is a separate
    /// fault.
    pub fn answering(answer: impl Fn(&Request) -> String + Send + Sync + 'static) -> Self {
        Self::new(
            move |request, stream| match stream.write_all(answer(request).as_bytes()) {
                Ok(()) => Then::Keep,
                // The client may have disconnected.
                Err(_) => Then::Close,
            },
        )
    }

    /// Requests received so far.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // Wakes the listener, which then stops.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve_connection(
    mut stream: TcpStream,
    requests: &Mutex<Vec<Request>>,
    answer: &dyn Fn(&Request, &mut TcpStream) -> Then,
) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while let Some(mut request) = read_request(&mut reader) {
        {
            let mut requests = requests.lock().unwrap();
            request.number = requests.len();
            requests.push(request.clone());
        }
        if let Then::Close = answer(&request, &mut stream) {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut headers = vec![];
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request {
        line: line.trim_end().to_owned(),
        headers,
        body: vec![],
        number: 0,
    };
    let length = request
        .header("content-length")
        .map_or(0, |length| length.parse().unwrap());
    request.body = vec![0; length];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

/// A complete response with a content length.
pub fn whole(status: &str, content_type: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A model list with one model.
pub fn models() -> String {
    whole(
        "200 OK",
        "application/json",
        r#"{"object":"list","data":[{"id":"tiny","object":"model","root":"tiny"}]}"#,
    )
}

/// A free port of this machine. It is reserved until the test binary ends; a server can be started
/// on it.
pub fn free_port() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_reuseaddr(true).unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    // A bound socket that does not listen reserves the port and refuses connections.
    std::mem::forget(socket);
    address
}

/// A URL that refuses connections.
pub fn refusing_url() -> String {
    format!("http://{}", free_port())
}

/// Response head of a chunked event stream.
pub const STREAM_HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk of the chunked transfer coding; an empty one ends the body.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A TLS server with an untrusted certificate (`fixtures/tls`); it replies to one request per
/// connection with the same bytes, until the test ends. Returns its URL.
pub fn with_tls(bytes: impl Into<Vec<u8>>) -> String {
    let bytes = bytes.into();
    with_tls_answering(move |_| bytes.clone())
}

/// The same with a response to each request head. Also an HTTP proxy: after `CONNECT` it acts as
/// the server behind the tunnel.
pub fn with_tls_answering(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> String {
    let read =
        |name: &str| std::fs::read(crate::repository_path("fixtures/tls").join(name)).unwrap();
    let certificate = vec![CertificateDer::from(read("certificate.der"))];
    let key = PrivatePkcs8KeyDer::from(read("key.der"));
    let builder =
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let config = Arc::new(builder.with_single_cert(certificate, key.into()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("https://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let (config, answer, tcp) = (Arc::clone(&config), Arc::clone(&answer), tcp.unwrap());
            std::thread::spawn(move || {
                serve_tls_connection(&config, Box::new(tcp), answer.as_ref());
            });
        }
    });
    base_url
}

/// The transport below TLS: TCP, or TLS to a proxy.
trait Wire: Read + Write {
    /// Closes the sending side.
    fn end(&mut self) -> std::io::Result<()>;
}

impl Wire for TcpStream {
    fn end(&mut self) -> std::io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl Wire for StreamOwned<ServerConnection, Box<dyn Wire>> {
    fn end(&mut self) -> std::io::Result<()> {
        self.conn.send_close_notify();
        self.flush()?;
        self.sock.end()
    }
}

fn serve_tls_connection(
    config: &Arc<ServerConfig>,
    wire: Box<dyn Wire>,
    answer: &dyn Fn(&str) -> Vec<u8>,
) {
    let mut stream = StreamOwned::new(ServerConnection::new(Arc::clone(config)).unwrap(), wire);
    let mut seen = Vec::new();
    let mut byte = [0; 1];
    // A client that does not trust the certificate disconnects before it sends a request.
    while !seen.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        seen.push(byte[0]);
    }
    if seen.starts_with(b"CONNECT ") {
        if stream
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .is_ok()
        {
            serve_tls_connection(config, Box::new(stream), answer);
        }
    } else if stream
        .write_all(&answer(&String::from_utf8_lossy(&seen)))
        .is_ok()
        && stream.end().is_ok()
    {
        // Unread data would make the kernel send a reset, which discards the response.
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
}

/// A URL that neither accepts nor refuses connections: the queue is full, so SYN packets are
/// dropped. Valid until the sockets are dropped.
#[cfg(target_os = "linux")]
pub fn unresponsive_url() -> (String, Vec<TcpStream>, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    // Fills the queue: the first connection that is not accepted immediately found it full.
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) {
        waiting.push(stream);
    }
    (format!("http://{address}"), waiting, listener)
}

/// Blocks until the client disconnects.
pub fn wait_until_closed(stream: &mut TcpStream) {
    let _ = stream.read(&mut [0; 1]);
}
