//! Incremental parser of HTTP/1.1 responses: head and body framing.
//!
//! Framing by RFC 9112, sections 6 and 7: the transfer coding `chunked`, else `Content-Length`,
//! else until the connection closes. Body bytes are passed on without a copy, as this is the
//! client's inner loop with thousands of streams.

use std::{fmt, io};

use reqwest::StatusCode;

use sobench_core::observation::Advice;

/// Maximum bytes of a response head including interim responses, of the extensions of a chunk, and
/// of the trailers.
pub(super) const MAX_HEAD_BYTES: usize = 128 << 10;

/// Maximum number of header lines.
const MAX_HEADERS: usize = 100;

/// Maximum hexadecimal digits of a chunk size: 64 bits.
const MAX_SIZE_DIGITS: u8 = 16;

/// The parts of a response head that are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<String>,
    /// The content codings of the body; `None` if it is not encoded.
    pub(crate) content_encoding: Option<String>,
    /// Only read if the status is not 2xx.
    pub(crate) advice: Option<Advice>,
    /// Whether the connection may carry another request after this response.
    pub(super) keeps_connection: bool,
}

impl ResponseHead {
    /// Whether the body has this media type.
    pub(crate) fn is_of_type(&self, media_type: &str) -> bool {
        let essence = self
            .content_type
            .as_deref()
            .unwrap_or_default()
            .split(';')
            .next()
            .unwrap_or_default();
        essence.trim().eq_ignore_ascii_case(media_type)
    }
}

/// Maximum characters kept of a `Location` or `Retry-After` header; a longer one ends in an
/// ellipsis.
const MAX_ADVICE_CHARS: usize = 1000;

/// Why a response could not be read.
#[derive(Debug)]
pub(crate) enum HttpError {
    /// The connection ended before the end of the response.
    Closed,
    Io(io::Error),
    /// Not valid HTTP; the message.
    Broken(String),
}

/// Parser state of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    Done,
    /// Bytes left.
    Length(u64),
    UntilClose,
    Chunked(Chunk),
}

/// Parser state of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// In the digits of the size.
    Size {
        size: u64,
        digits: u8,
    },
    /// After the size: white space or extensions, which are ignored.
    Extension {
        size: u64,
        seen: usize,
    },
    /// After the CR behind the size.
    SizeEnd {
        size: u64,
    },
    Data {
        left: u64,
    },
    /// In the CR LF after the data.
    DataEnd {
        seen_cr: bool,
    },
    /// After the last chunk; `line` counts the bytes of the current line, `all` those of all lines.
    Trailers {
        line: usize,
        all: usize,
    },
}

impl Body {
    pub(super) fn is_done(self) -> bool {
        self == Self::Done
    }

    /// Parses bytes and calls `on_data` for those of the body. Returns the number of bytes used,
    /// which is all of them unless the body ends earlier.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        on_data: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, HttpError> {
        match self {
            Self::Done => Ok(0),
            Self::UntilClose => {
                on_data(bytes);
                Ok(bytes.len())
            }
            Self::Length(left) => {
                let used = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                on_data(&bytes[..used]);
                *left -= used as u64;
                if *left == 0 {
                    *self = Self::Done;
                }
                Ok(used)
            }
            Self::Chunked(chunk) => {
                let (next, used) = chunk.take(bytes, on_data)?;
                *self = next.map_or(Self::Done, Self::Chunked);
                Ok(used)
            }
        }
    }

    /// Handles the end of the connection.
    pub(super) fn end(&mut self) -> Result<(), HttpError> {
        match self {
            Self::Done | Self::UntilClose => {
                *self = Self::Done;
                Ok(())
            }
            Self::Length(_) | Self::Chunked(_) => Err(HttpError::Closed),
        }
    }
}

impl Chunk {
    const FIRST: Self = Self::Size { size: 0, digits: 0 };

    /// Parses bytes and calls `on_data` for the data. Returns the state behind them, which is `None`
    /// at the end of the body, and the number of bytes used.
    fn take(
        mut self,
        bytes: &[u8],
        on_data: &mut dyn FnMut(&[u8]),
    ) -> Result<(Option<Self>, usize), HttpError> {
        let mut used = 0;
        while let Some(byte) = bytes.get(used) {
            self = if let Self::Data { left } = self {
                let rest = &bytes[used..];
                let size = usize::try_from(left).map_or(rest.len(), |left| left.min(rest.len()));
                on_data(&rest[..size]);
                used += size;
                match left - size as u64 {
                    0 => Self::DataEnd { seen_cr: false },
                    left => Self::Data { left },
                }
            } else {
                used += 1;
                match self.step(*byte)? {
                    Some(next) => next,
                    None => return Ok((None, used)),
                }
            };
        }
        Ok((Some(self), used))
    }

    /// Parses a byte outside the data; `None` at the end of the body.
    fn step(self, byte: u8) -> Result<Option<Self>, HttpError> {
        let broken = || {
            Err(HttpError::Broken(format!(
                "invalid chunked transfer coding: byte {byte:#04x} {}",
                self.position()
            )))
        };
        Ok(Some(match (self, byte) {
            (Self::Size { size, digits }, _)
                if byte.is_ascii_hexdigit() && digits < MAX_SIZE_DIGITS =>
            {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                Self::Size {
                    size: (size << 4) | digit,
                    digits: digits + 1,
                }
            }
            (Self::Size { size, digits: 1.. }, b'\r') | (Self::Extension { size, .. }, b'\r') => {
                Self::SizeEnd { size }
            }
            (Self::Size { size, digits: 1.. }, b';' | b' ' | b'\t') => {
                Self::Extension { size, seen: 0 }
            }
            (Self::Extension { size, seen }, _) if byte != b'\n' && seen < MAX_HEAD_BYTES => {
                Self::Extension {
                    size,
                    seen: seen + 1,
                }
            }
            (Self::SizeEnd { size: 0 }, b'\n') => Self::Trailers { line: 0, all: 0 },
            (Self::SizeEnd { size }, b'\n') => Self::Data { left: size },
            (Self::DataEnd { seen_cr: false }, b'\r') => Self::DataEnd { seen_cr: true },
            (Self::DataEnd { seen_cr: true }, b'\n') => Self::FIRST,
            (Self::Trailers { line: 0, .. }, b'\n') => return Ok(None),
            (Self::Trailers { all, .. }, b'\n') => Self::Trailers { line: 0, all },
            // The CR of an empty line does not count.
            (Self::Trailers { line: 0, all }, b'\r') => Self::Trailers { line: 0, all },
            (Self::Trailers { line, all }, _) if all < MAX_HEAD_BYTES => Self::Trailers {
                line: line + 1,
                all: all + 1,
            },
            _ => return broken(),
        }))
    }

    fn position(self) -> &'static str {
        match self {
            Self::Size { .. } => "in a chunk's size",
            Self::Extension { .. } | Self::SizeEnd { .. } => "after a chunk's size",
            Self::Data { .. } | Self::DataEnd { .. } => "after a chunk's data",
            Self::Trailers { .. } => "in trailers that are too long",
        }
    }
}

/// Parses a head at the start of `bytes` and returns it with the framing of the body and the size
/// of the head; `None` if it is incomplete. Interim responses (1xx) are skipped.
pub(super) fn read_head(bytes: &[u8]) -> Result<Option<(ResponseHead, Body, usize)>, HttpError> {
    let mut passed = 0;
    loop {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let parsed = response
            .parse(&bytes[passed..])
            .map_err(|error| invalid_response(&bytes[passed..], error))?;
        let httparse::Status::Complete(size) = parsed else {
            return if bytes.len() - passed > MAX_HEAD_BYTES {
                Err(HttpError::Broken(format!(
                    "the response head exceeds {MAX_HEAD_BYTES} bytes"
                )))
            } else {
                Ok(None)
            };
        };
        passed += size;
        let code = response.code.unwrap_or_default();
        let status = StatusCode::from_u16(code)
            .map_err(|_| HttpError::Broken(format!("invalid HTTP status: {code}")))?;
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(HttpError::Broken(
                "the server switched to another protocol".to_owned(),
            ));
        }
        if !status.is_informational() {
            let (head, body) = parse_head(status, response.version == Some(0), response.headers)?;
            return Ok(Some((head, body, passed)));
        }
        if passed > MAX_HEAD_BYTES {
            return Err(HttpError::Broken(format!(
                "the interim responses (1xx) exceed {MAX_HEAD_BYTES} bytes"
            )));
        }
    }
}

/// The error for bytes that are not HTTP. A TLS server answers plain HTTP with an alert record (RFC
/// 8446, sections 5.1 and 6).
fn invalid_response(bytes: &[u8], error: httparse::Error) -> HttpError {
    HttpError::Broken(match bytes {
        [0x15, 0x03, ..] => {
            "got a TLS alert instead of an HTTP response: check whether the URL should start with https://".to_owned()
        }
        _ => format!("not an HTTP response: {error}"),
    })
}

fn parse_head(
    status: StatusCode,
    is_http_1_0: bool,
    headers: &[httparse::Header<'_>],
) -> Result<(ResponseHead, Body), HttpError> {
    let values = |name: &'static str| {
        let named = headers
            .iter()
            .filter(move |header| header.name.eq_ignore_ascii_case(name));
        named.map(|header| String::from_utf8_lossy(header.value))
    };
    let list_contains = |name: &'static str, word: &str| {
        values(name).any(|value| {
            value
                .split(',')
                .any(|item| item.trim().eq_ignore_ascii_case(word))
        })
    };
    let mut transfer_codings = values("transfer-encoding").peekable();
    let body = if status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED {
        Body::Done
    } else if transfer_codings.peek().is_some() {
        // With a transfer coding other than chunked, the body ends with the connection.
        if list_contains("transfer-encoding", "chunked") {
            Body::Chunked(Chunk::FIRST)
        } else {
            Body::UntilClose
        }
    } else {
        match length(values("content-length"))? {
            None => Body::UntilClose,
            Some(0) => Body::Done,
            Some(length) => Body::Length(length),
        }
    };
    let keeps_connection = if is_http_1_0 {
        list_contains("connection", "keep-alive")
    } else {
        !list_contains("connection", "close")
    };
    let value = |name: &'static str| values(name).next().map(std::borrow::Cow::into_owned);
    let (content_type, advice) = (value("content-type"), advice(status, value));
    let content_encoding = content_encoding(values("content-encoding"));
    Ok((
        ResponseHead {
            status,
            content_type,
            content_encoding,
            advice,
            keeps_connection,
        },
        body,
    ))
}

/// The advice in the headers of an error response. `header` returns the first value of a lower-case
/// name.
fn advice(status: StatusCode, header: impl Fn(&'static str) -> Option<String>) -> Option<Advice> {
    if status.is_success() {
        return None;
    }
    let short = |value: String| match value.char_indices().nth(MAX_ADVICE_CHARS) {
        Some((end, _)) => format!("{}…", &value[..end]),
        None => value,
    };
    if status.is_redirection() {
        header("location").map(|value| Advice::Location(short(value)))
    } else {
        header("retry-after").map(|value| Advice::RetryAfter(short(value)))
    }
}

/// The content codings other than `identity`, in order (RFC 9110, section 8.4).
fn content_encoding<'a>(values: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> Option<String> {
    let values: Vec<_> = values.collect();
    let codings: Vec<&str> = values
        .iter()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
        .collect();
    (!codings.is_empty()).then(|| codings.join(", "))
}

/// The content length; repeated values must be equal.
fn length<'a>(
    values: impl Iterator<Item = std::borrow::Cow<'a, str>>,
) -> Result<Option<u64>, HttpError> {
    let mut length_so_far = None;
    for value in values {
        for item in value.split(',') {
            let stated = item.trim();
            let length = stated
                .parse()
                .ok()
                .filter(|_| stated.bytes().all(|byte| byte.is_ascii_digit()));
            if length.is_none()
                || length_so_far.is_some_and(|length_so_far| Some(length_so_far) != length)
            {
                return Err(HttpError::Broken(format!(
                    "invalid Content-Length: {value}"
                )));
            }
            length_so_far = length;
        }
    }
    Ok(length_so_far)
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("connection closed before message completed"),
            Self::Io(error) => write!(f, "{error}"),
            Self::Broken(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for HttpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Closed | Self::Broken(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Status, body, whether the connection is kept, and the number of bytes left over; or the
    /// error message. The bytes arrive in these pieces, then the connection ends.
    fn read<'a>(
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(u16, String, bool, usize), String> {
        let (mut received, mut answer, mut text, mut left) = (vec![], None, vec![], 0);
        for piece in pieces {
            received.extend_from_slice(piece);
            if answer.is_none()
                && let Some((head, body, used)) =
                    read_head(&received).map_err(|error| error.to_string())?
            {
                received.drain(..used);
                answer = Some((head, body));
            }
            if let Some((_, body)) = &mut answer {
                let used = body
                    .take(&received, &mut |data| text.extend_from_slice(data))
                    .map_err(|error| error.to_string())?;
                left += received.len() - used;
                received.clear();
            }
        }
        let (head, mut body) = answer.ok_or("no head")?;
        body.end().map_err(|error| error.to_string())?;
        Ok((
            head.status.as_u16(),
            String::from_utf8_lossy(&text).into_owned(),
            head.keeps_connection,
            left,
        ))
    }

    /// Checks that the result is the same for the whole input, cut at every byte, and byte by byte.
    #[track_caller]
    fn check(bytes: &str, expected: Result<(u16, &str, bool, usize), &str>) {
        let expected = expected
            .map(|(status, text, keeps, left)| (status, text.to_owned(), keeps, left))
            .map_err(str::to_owned);
        let bytes = bytes.as_bytes();
        assert_eq!(read([bytes].into_iter()), expected);
        assert_eq!(read(bytes.chunks(1)), expected);
        for cut in 1..bytes.len() {
            assert_eq!(
                read([&bytes[..cut], &bytes[cut..]].into_iter()),
                expected,
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn bodies_of_every_framing() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(
            &format!("{chunked}3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n0\r\n\r\n"),
            Ok((200, "abc0123456789", true, 0)),
        );
        check(
            &format!("{chunked}3 \r\nabc\r\n000\r\nx-a: b\r\nx-c: d\r\n\r\nmore"),
            Ok((200, "abc", true, 4)),
        );
        check(&format!("{chunked}0\r\n\r\n"), Ok((200, "", true, 0)));
        check(
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 3\r\n\r\nabcd",
            Ok((400, "abc", true, 1)),
        );
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\nContent-Length: 3, 3\r\n\r\nabc",
            Ok((200, "abc", true, 0)),
        );
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: Close\r\n\r\n",
            Ok((200, "", false, 0)),
        );
        check("HTTP/1.0 200 OK\r\n\r\nabc", Ok((200, "abc", false, 0)));
        check(
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\na",
            Ok((200, "a", true, 0)),
        );
        check("HTTP/1.1 204 No Content\r\n\r\n", Ok((204, "", true, 0)));
        check(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nabc",
            Ok((200, "abc", true, 0)),
        );
        check(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
            Ok((200, "a", true, 0)),
        );
    }

    #[test]
    fn what_breaks_off_or_is_no_http_is_an_error() {
        let closed = "connection closed before message completed";
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab",
            Err(closed),
        );
        check(&format!("{chunked}3\r\nab"), Err(closed));
        check(&format!("{chunked}3\r\nabc\r\n"), Err(closed));
        check(&format!("{chunked}0\r\n"), Err(closed));
        check(
            &format!("{chunked}g\r\n"),
            Err("invalid chunked transfer coding: byte 0x67 in a chunk's size"),
        );
        check(
            &format!("{chunked}\r\n"),
            Err("invalid chunked transfer coding: byte 0x0d in a chunk's size"),
        );
        check(
            &format!("{chunked}1\r\nab"),
            Err("invalid chunked transfer coding: byte 0x62 after a chunk's data"),
        );
        check(
            &format!("{chunked}11111111111111111"),
            Err("invalid chunked transfer coding: byte 0x31 in a chunk's size"),
        );
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\n",
            Err("invalid Content-Length: 4"),
        );
        check(
            "HTTP/1.1 200 OK\r\ncontent-length: +3\r\n\r\n",
            Err("invalid Content-Length: +3"),
        );
        check(
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            Err("the server switched to another protocol"),
        );
        check(
            "SSH-2.0-OpenSSH\r\n\r\n",
            Err("not an HTTP response: invalid HTTP version"),
        );
        let alert = read_head(b"\x15\x03\x01\x00\x02\x02\x46")
            .unwrap_err()
            .to_string();
        assert_eq!(
            alert,
            "got a TLS alert instead of an HTTP response: check whether the URL should start with https://"
        );
    }

    #[test]
    fn advice_is_read_where_there_is_no_answer() {
        let retry = |value: &str| Some(Advice::RetryAfter(value.to_owned()));
        let long = format!("https://b/{}", "é".repeat(MAX_ADVICE_CHARS));
        let cut = format!("https://b/{}…", "é".repeat(MAX_ADVICE_CHARS - 10));
        for (status, headers, expected) in [
            ("429 Slow", "Retry-After: 7".to_owned(), retry("7")),
            (
                "503 Full",
                "retry-after: Fri, 31 Dec 1999 23:59:59 GMT".to_owned(),
                retry("Fri, 31 Dec 1999 23:59:59 GMT"),
            ),
            (
                "307 Moved",
                "location: /b\r\nretry-after: 7".to_owned(),
                Some(Advice::Location("/b".to_owned())),
            ),
            (
                "301 Moved",
                format!("location: {long}"),
                Some(Advice::Location(cut)),
            ),
            ("304 Same", "retry-after: 7".to_owned(), None),
            ("400 Bad", "location: /b".to_owned(), None),
            ("200 OK", "retry-after: 7\r\nlocation: /b".to_owned(), None),
        ] {
            let head = format!("HTTP/1.1 {status}\r\n{headers}\r\n\r\n");
            assert_eq!(
                read_head(head.as_bytes()).unwrap().unwrap().0.advice,
                expected,
                "{head}"
            );
        }
    }

    #[test]
    fn heads_and_trailers_are_bounded() {
        let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "a".repeat(MAX_HEAD_BYTES));
        assert_eq!(
            read_head(endless.as_bytes()).unwrap_err().to_string(),
            "the response head exceeds 131072 bytes"
        );
        let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(MAX_HEAD_BYTES / 20);
        let error = read_head(interim.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "the interim responses (1xx) exceed 131072 bytes");
        let mut body = Body::Chunked(Chunk::FIRST);
        let error = body
            .take(
                format!("1;{}", "x".repeat(MAX_HEAD_BYTES + 1)).as_bytes(),
                &mut |_| {},
            )
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid chunked transfer coding: byte 0x78 after a chunk's size"
        );
        let mut body = Body::Chunked(Chunk::Trailers { line: 0, all: 0 });
        let error = body
            .take(
                "a: b\r\n".repeat(MAX_HEAD_BYTES / 4).as_bytes(),
                &mut |_| {},
            )
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid chunked transfer coding: byte 0x20 in trailers that are too long"
        );
    }
}
