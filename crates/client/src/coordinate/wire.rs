//! Coordination protocol: messages between shards, one line of JSON each.

use std::io::{self, ErrorKind};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// Protocol version; other versions are refused.
pub(super) const PROTOCOL: u32 = 1;

/// Maximum size of a message in bytes.
const MAX_LINE_BYTES: usize = 64 << 10;

/// A message between shards. Instants are nanoseconds since 1970, by the sender's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Message {
    /// First message of a shard to the leader.
    Join {
        protocol: u32,
        shard: usize,
        of: usize,
        plan_sha256: String,
    },
    /// The leader accepts the shard.
    Welcome {},
    /// A shard is ready to start.
    Ready {},
    /// All shards start at this instant, by the leader's clock.
    Start { at_ns: u64 },
    /// The run does not start, and why.
    Refused {
        #[serde(rename = "words")]
        reason: String,
    },
    /// A shard requests the leader's time.
    Stamp { sent_ns: u64 },
    /// The leader's reply, with its own instants.
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
    /// The part of a line received so far.
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
    /// The peer is gone.
    pub(super) async fn send(&mut self, message: &Message) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(message)?;
        bytes.push(b'\n');
        self.writer.write_all(&bytes).await
    }

    /// Receives the next message. Cancel-safe.
    ///
    /// # Errors
    /// The peer is gone, or the line is not a message.
    pub(super) async fn receive(&mut self) -> io::Result<Message> {
        let remaining = (MAX_LINE_BYTES - self.line.len()) as u64;
        (&mut self.reader)
            .take(remaining)
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
