//! TCP socket that records when its bytes arrived.
//!
//! An instant taken when a task runs includes delays of the client: with a thousand streams on one
//! thread, the last one waits for all others. On Linux, the kernel therefore stamps received
//! packets (`SO_TIMESTAMPNS`, see "timestamping" in the kernel's networking documentation). If
//! several packets are ready, the kernel merges them and returns the stamp of the last one. On
//! other systems, and if a socket does not support this, the instant right after the read is used.
//! The stamps are by the wall clock, which can be set at any time; implausible ones are ignored
//! (see [`crate::clock::LastRead`]).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[cfg(target_os = "linux")]
use self::kernel::Stamps;
#[cfg(not(target_os = "linux"))]
use self::user::Stamps;
use crate::clock::Arrived;

/// When the bytes of the last read arrived, as [`crate::clock::process_ns`]; shared by a socket and
/// its reader.
#[derive(Clone, Debug, Default)]
pub struct Arrival(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    at_ns: AtomicU64,
    is_stamped: AtomicBool,
    /// [`UNKNOWN`] if unknown.
    slack_ns: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Arrival {
    pub fn at_ns(&self) -> u64 {
        self.0.at_ns.load(Ordering::Relaxed)
    }

    /// Whether the instant is the kernel's.
    pub fn is_stamped(&self) -> bool {
        self.0.is_stamped.load(Ordering::Relaxed)
    }

    /// How much earlier the first of the bytes can have arrived; `None` if unknown. The bytes of one
    /// part, which the server wrote at once, have the stamp of its last packet.
    pub fn slack_ns(&self, parts: usize) -> Option<u64> {
        if parts == 1 && self.is_stamped() {
            return Some(0);
        }
        Some(self.0.slack_ns.load(Ordering::Relaxed)).filter(|slack_ns| *slack_ns != UNKNOWN)
    }

    fn set(&self, arrived: Arrived) {
        let slack_ns = arrived.slack_ns.unwrap_or(UNKNOWN);
        self.0.at_ns.store(arrived.at_ns, Ordering::Relaxed);
        let is_stamped = arrived.is_stamped;
        self.0.is_stamped.store(is_stamped, Ordering::Relaxed);
        self.0.slack_ns.store(slack_ns, Ordering::Relaxed);
    }
}

/// A connected socket.
#[derive(Debug)]
pub struct Socket {
    tcp: TcpStream,
    arrival: Arrival,
    stamps: Stamps,
}

impl Socket {
    /// A socket that this process has connected.
    pub fn new(tcp: TcpStream) -> io::Result<Self> {
        let stamps = Stamps::enable(&tcp);
        Self::with_stamps(tcp, stamps)
    }

    /// A socket that this process has accepted. Bytes can have arrived before.
    pub fn accepted(tcp: TcpStream) -> io::Result<Self> {
        let stamps = Stamps::enable(&tcp).for_accepted();
        Self::with_stamps(tcp, stamps)
    }

    fn with_stamps(tcp: TcpStream, stamps: Stamps) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        Ok(Self {
            tcp,
            arrival: Arrival::default(),
            stamps,
        })
    }

    pub fn arrival(&self) -> Arrival {
        self.arrival.clone()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let arrived = this.stamps.poll_read(&mut this.tcp, cx, buffer);
        arrived.map_ok(|arrived| {
            // The end of the stream is not an arrival.
            if buffer.filled().len() > before {
                this.arrival.set(arrived);
            }
        })
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().tcp).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().tcp).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(cx)
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use std::io::{self, IoSliceMut};
    use std::os::fd::AsRawFd;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use nix::cmsg_space;
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
    use nix::sys::time::TimeSpec;
    use tokio::io::{Interest, ReadBuf};
    use tokio::net::TcpStream;

    use crate::clock::{Arrived, LastRead};

    /// Reads with kernel time stamps.
    #[derive(Debug)]
    pub(super) struct Stamps {
        /// Buffer for one stamp.
        control_buffer: Vec<u8>,
        last: LastRead,
    }

    impl Stamps {
        pub(super) fn enable(tcp: &TcpStream) -> Self {
            // On failure there are no stamps, and the instants of the reads are used.
            let _ = setsockopt(tcp, sockopt::ReceiveTimestampns, &true);
            Self {
                control_buffer: cmsg_space!(TimeSpec),
                last: LastRead::new(),
            }
        }

        pub(super) fn for_accepted(self) -> Self {
            let last = LastRead::accepted();
            Self { last, ..self }
        }

        /// Reads once and returns when the last of the bytes arrived.
        pub(super) fn poll_read(
            &mut self,
            tcp: &mut TcpStream,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<Arrived>> {
            loop {
                ready!(tcp.poll_read_ready(cx))?;
                let unfilled = buffer.initialize_unfilled();
                let size = unfilled.len();
                let mut received = None;
                let tried = tcp.try_io(Interest::READABLE, || {
                    let (read, arrived) = self.receive(tcp, unfilled)?;
                    received = Some((read, arrived));
                    // A read that did not fill the buffer has emptied the socket. `WouldBlock`
                    // saves the system call that would return nothing.
                    if 0 < read && read < size {
                        Err(io::ErrorKind::WouldBlock.into())
                    } else {
                        Ok(())
                    }
                });
                if let Some((read, arrived)) = received {
                    buffer.advance(read);
                    return Poll::Ready(Ok(arrived));
                }
                match tried {
                    Err(error)
                        if matches!(
                            error.kind(),
                            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                        ) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                    Ok(()) => return Poll::Ready(Err(io::Error::other("a read without a result"))),
                }
            }
        }

        fn receive(&mut self, tcp: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Arrived)> {
            let mut parts = [IoSliceMut::new(buffer)];
            let message = recvmsg::<()>(
                tcp.as_raw_fd(),
                &mut parts,
                Some(&mut self.control_buffer),
                MsgFlags::empty(),
            )?;
            let stamp = message.cmsgs().ok().and_then(|mut all| {
                all.find_map(|one| match one {
                    ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
                    _ => None,
                })
            });
            Ok((message.bytes, self.last.arrived(stamp)))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod user {
    use std::io;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead as _, ReadBuf};
    use tokio::net::TcpStream;

    use crate::clock::{self, Arrived};

    /// Reads without kernel time stamps.
    #[derive(Debug)]
    pub(super) struct Stamps;

    impl Stamps {
        pub(super) fn enable(_tcp: &TcpStream) -> Self {
            Self
        }

        pub(super) fn for_accepted(self) -> Self {
            self
        }

        pub(super) fn poll_read(
            &mut self,
            tcp: &mut TcpStream,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<Arrived>> {
            Pin::new(tcp).poll_read(cx, buffer).map_ok(|()| Arrived {
                at_ns: clock::process_ns(),
                is_stamped: false,
                slack_ns: None,
            })
        }
    }
}
