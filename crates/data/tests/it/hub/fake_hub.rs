//! A fake Hugging Face Hub on a free local port: listings, and files by range, with the headers
//! that clients read.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The newest commit of the fake hub.
pub(super) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// The repository, and how the hub responds.
#[derive(Default)]
pub(super) struct Contents {
    /// `datasets/owner/name` or `models/owner/name`.
    pub(super) repo: &'static str,
    pub(super) files: Vec<(&'static str, Vec<u8>)>,
    /// If set, requests without this token are refused.
    pub(super) token: Option<&'static str>,
    /// Sent in place of the listing.
    pub(super) listing: Option<&'static str>,
    /// If set, every request gets this status and no body.
    pub(super) status: Option<&'static str>,
}

/// A received request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) authorization: Option<String>,
    range: Option<String>,
}

/// The running hub. Its threads end with the process.
pub(super) struct FakeHub {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl FakeHub {
    pub(super) fn start(contents: Contents) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                answer(stream, &contents, &seen);
            }
        });
        Self { address, requests }
    }

    pub(super) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Removes and returns all requests so far.
    pub(super) fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn answer(mut stream: TcpStream, contents: &Contents, seen: &Mutex<Vec<Request>>) {
    let Some(request) = read(&stream) else { return };
    seen.lock().unwrap().push(request.clone());
    // A client may disconnect early.
    let _ = stream.write_all(&respond(&request, contents));
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let mut request = Request {
        path,
        authorization: None,
        range: None,
    };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        match name.to_ascii_lowercase().as_str() {
            "authorization" => request.authorization = Some(value.trim().to_owned()),
            "range" => request.range = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    Some(request)
}

fn respond(request: &Request, contents: &Contents) -> Vec<u8> {
    if let Some(status) = contents.status {
        return response(status, "", b"");
    }
    let wanted = contents.token.map(|token| format!("Bearer {token}"));
    if wanted.is_some() && request.authorization != wanted {
        return response("401 Unauthorized", "", b"");
    }
    if request.path == format!("/api/{}/revision/main", contents.repo) {
        let siblings: Vec<_> = contents
            .files
            .iter()
            .map(|(name, _)| serde_json::json!({"rfilename": name}))
            .collect();
        let listing = serde_json::json!({"id": contents.repo, "sha": COMMIT, "siblings": siblings})
            .to_string();
        return response(
            "200 OK",
            "content-type: application/json\r\n",
            contents.listing.unwrap_or(&listing).as_bytes(),
        );
    }
    // Models are resolved below their bare id.
    let prefix = format!("/{}/resolve/", contents.repo.trim_start_matches("models/"));
    let named = request
        .path
        .strip_prefix(&prefix)
        .and_then(|rest| rest.split_once('/'));
    let file = named.and_then(|(revision, name)| {
        let is_known = revision == COMMIT || revision == "main";
        contents
            .files
            .iter()
            .find(|(file, _)| *file == name && is_known)
    });
    let Some((_, bytes)) = file else {
        return response("404 Not Found", "", b"");
    };
    ranged(request.range.as_deref().unwrap_or("bytes=0-"), bytes)
}

fn ranged(range: &str, bytes: &[u8]) -> Vec<u8> {
    let (first, last) = range.trim_start_matches("bytes=").split_once('-').unwrap();
    let first: usize = first.parse().unwrap();
    let end = last
        .parse::<usize>()
        .map_or(bytes.len(), |last| bytes.len().min(last + 1));
    let headers = format!(
        "etag: \"etag-{}\"\r\nx-repo-commit: {COMMIT}\r\naccept-ranges: bytes\r\ncontent-range: bytes {first}-{}/{}\r\n",
        bytes.len(),
        end - 1,
        bytes.len()
    );
    response("206 Partial Content", &headers, &bytes[first..end])
}

fn response(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
