//! Lower bound for client overhead: a minimal loop of the system calls that any client of many
//! streams makes, without parsing answers or recording instants.

use std::io::{self, Write as _};
use std::net::TcpStream;
use std::os::fd::AsRawFd as _;

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;

use super::options::FloorArgs;
use super::server::MODEL;
use sobench_core::error::{Error, Result};

/// Maximum events per wait, as in tokio.
const EVENTS: usize = 1024;

/// Maximum bytes of one read, as in the client.
const READ_BYTES: usize = 8 << 10;

/// The last bytes of a response in chunked transfer coding.
const END: &[u8] = b"0\r\n\r\n";

/// Keeps the streams running until all requests are answered: one thread, epoll, and one read per
/// event, more only if it filled the buffer.
///
/// # Errors
/// A connection cannot be made or breaks.
pub(super) fn run(floor: &FloorArgs) -> Result<()> {
    drive(floor).map_err(|error| Error::environment(format!("the minimal loop failed: {error}")))
}

#[expect(
    clippy::disallowed_methods,
    reason = "a minimal loop of system calls, for comparison"
)]
fn drive(floor: &FloorArgs) -> io::Result<()> {
    let request = request(floor);
    let streams = floor.streams.min(floor.requests);
    let mut connections = Vec::with_capacity(streams);
    for _ in 0..streams {
        let tcp = TcpStream::connect(("127.0.0.1", floor.port))?;
        tcp.set_nodelay(true)?;
        tcp.set_nonblocking(true)?;
        setsockopt(&tcp, sockopt::ReceiveTimestampns, &true)?;
        connections.push(tcp);
    }
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (number, tcp) in connections.iter().enumerate() {
        epoll.add(
            tcp,
            EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, number as u64),
        )?;
    }
    let (mut unsent, mut waiting) = (floor.requests, 0);
    for tcp in &mut connections {
        tcp.write_all(&request)?;
        (unsent, waiting) = (unsent - 1, waiting + 1);
    }
    let mut events = vec![EpollEvent::empty(); EVENTS];
    // Before the bytes of a read, the last ones of the read before.
    let mut bytes = vec![0; END.len() + READ_BYTES];
    let mut control_buffer = nix::cmsg_space!(TimeSpec);
    while waiting > 0 {
        let ready = epoll.wait(&mut events, EpollTimeout::NONE)?;
        for event in &events[..ready] {
            let Some(tcp) = usize::try_from(event.data())
                .ok()
                .and_then(|number| connections.get_mut(number))
            else {
                continue;
            };
            // A full buffer may have left bytes in the socket, and there is no event for them.
            let mut is_full = true;
            bytes[..END.len()].fill(0);
            while is_full {
                let mut parts = [io::IoSliceMut::new(&mut bytes[END.len()..])];
                let read = match recvmsg::<()>(
                    tcp.as_raw_fd(),
                    &mut parts,
                    Some(&mut control_buffer),
                    MsgFlags::empty(),
                ) {
                    Ok(message) => message.bytes,
                    Err(nix::errno::Errno::EAGAIN) => break,
                    Err(error) => return Err(error.into()),
                };
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                is_full = read == READ_BYTES;
                let is_end = bytes[..END.len() + read].ends_with(END);
                bytes.copy_within(read..read + END.len(), 0);
                if is_end {
                    waiting -= 1;
                    if unsent > 0 {
                        tcp.write_all(&request)?;
                        (unsent, waiting) = (unsent - 1, waiting + 1);
                    }
                }
            }
        }
    }
    Ok(())
}

fn request(floor: &FloorArgs) -> Vec<u8> {
    let body = format!(
        r#"{{"model":"{MODEL}","prompt":"a","max_tokens":{},"stream":true}}"#,
        floor.output_len
    );
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        floor.port,
        body.len()
    );
    format!("{head}{body}").into_bytes()
}
