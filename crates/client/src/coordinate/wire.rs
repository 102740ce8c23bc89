//! The messages between shards, and the line of JSON that each is. Knows no role.

use std::io::{self, ErrorKind};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The version of what is said; other versions are refused.
pub(super) const PROTOCOL: u32 = 1;

/// The most bytes of a message; what is longer is none of ours.
const MAX_LINE_BYTES: usize = 64 << 10;

/// What shards say to each other. Instants are nanoseconds since 1970, by the clock of who states
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// A shard to the leader, first of all.
    Join {
        protocol: u32,
        shard: usize,
        of: usize,
        plan_sha256: String,
    },
    /// The leader has no objection.
    Welcome {},
    /// A shard could begin.
    Ready {},
    /// All could: they begin then, by the leader's clock.
    Start { at_ns: u64 },
    /// Nobody begins, and why.
    Refused { words: String },
    /// A shard asks for the time.
    Stamp { sent_ns: u64 },
    /// The leader's answer, with its own instants.
    Stamped {
        sent_ns: u64,
        received_ns: u64,
        answered_ns: u64,
    },
}

/// A connection between two shards.
pub(super) struct Link {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    /// What there is of a line that is not whole yet.
    line: Vec<u8>,
}

impl Link {
    pub(super) fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        Ok(Self {
            reader: BufReader::new(reader),
            writer,
            line: Vec::new(),
        })
    }

    /// # Errors
    /// The other side is gone.
    pub(super) async fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        self.writer.write_all(&bytes).await
    }

    /// The next message. Cancelling the wait loses nothing.
    ///
    /// # Errors
    /// The other side is gone, or says what is no message.
    pub(super) async fn receive(&mut self) -> io::Result<Message> {
        let room = (MAX_LINE_BYTES - self.line.len()) as u64;
        (&mut self.reader)
            .take(room)
            .read_until(b'\n', &mut self.line)
            .await?;
        if !self.line.ends_with(b"\n") {
            let kind = if self.line.len() < MAX_LINE_BYTES {
                ErrorKind::UnexpectedEof
            } else {
                ErrorKind::InvalidData
            };
            return Err(kind.into());
        }
        let message = serde_json::from_slice(&self.line).map_err(|_| ErrorKind::InvalidData.into());
        self.line.clear();
        message
    }
}
