//! What the integration tests share: running the program, and small servers that say what a test wants said.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use serde_json::Value;

/// What a run of the program left behind.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs `sobench` with these arguments, away from any proxy, key or configuration of the machine.
pub(crate) fn sobench<S: AsRef<str>>(arguments: &[S]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_sobench"))
        .args(arguments.iter().map(AsRef::as_ref))
        .env_remove("OPENAI_API_KEY")
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .expect("the program was built");
    Ran {
        code: output.status.code().expect("the program ended by itself"),
        stdout: String::from_utf8(output.stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("stderr is UTF-8"),
    }
}

/// Runs `sobench` saving its result, and reads the result back.
pub(crate) fn sobench_result(arguments: &[&str]) -> (Ran, Value) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().to_str().expect("the temporary folder's path is UTF-8");
    let mut all = vec!["--save-result", "--result-dir", path, "--result-filename", "result.json", "--disable-tqdm"];
    all.extend_from_slice(arguments);
    let ran = sobench(&all);
    let text = std::fs::read_to_string(folder.path().join("result.json"))
        .unwrap_or_else(|error| panic!("no result file ({error}); stderr:\n{}", ran.stderr));
    (ran, serde_json::from_str(&text).expect("the result is JSON"))
}

/// A path below the package's root.
pub(crate) fn in_package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// One request as the scripted server saw it.
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// A server on a free port that answers every request with what `answer` returns, a whole HTTP response, and then closes.
pub(crate) fn scripted_server(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port is free");
    let url = format!("http://{}", listener.local_addr().expect("the socket is bound"));
    let answer = std::sync::Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let answer = answer.clone();
            thread::spawn(move || {
                let mut stream = stream.expect("a connection");
                if let Some(asked) = read_request(&mut BufReader::new(&stream)) {
                    let _ = stream.write_all(answer(&asked).as_bytes());
                }
            });
        }
    });
    url
}

fn read_request(reader: &mut impl BufRead) -> Option<Asked> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut words = first.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Asked { method, path, body: String::from_utf8(body).ok()? })
}

/// A whole HTTP response that closes the connection.
pub(crate) fn response(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}")
}

/// A model list with one model.
pub(crate) fn models_response() -> String {
    response("200 OK", "application/json", r#"{"object":"list","data":[{"id":"tiny","object":"model","root":"tiny"}]}"#)
}

/// A port on which nothing listens: it was free a moment ago, and is bound by nobody.
pub(crate) fn dead_url() -> String {
    static PORT: OnceLock<u16> = OnceLock::new();
    let port = PORT.get_or_init(|| {
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a loopback port is free").port()
    });
    format!("http://127.0.0.1:{port}")
}
