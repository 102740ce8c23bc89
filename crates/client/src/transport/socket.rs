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
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

#[cfg(target_os = "linux")]
use self::kernel::Stamps;
#[cfg(not(target_os = "linux"))]
use self::user::Stamps;
use crate::clock::Arrival;

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

    /// When the bytes of the last read arrived.
    pub fn arrival(&self) -> Arrival {
        self.arrival
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
                this.arrival = arrived;
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
    use std::cell::RefCell;
    use std::io::{self, IoSliceMut};
    use std::os::fd::AsRawFd;
    use std::task::{Context, Poll, ready};
    use std::time::Duration;

    use nix::cmsg_space;
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
    use nix::sys::time::TimeSpec;
    use tokio::io::{Interest, ReadBuf};
    use tokio::net::TcpStream;

    use crate::clock::{Arrival, LastRead};

    thread_local! {
        /// The buffer of this thread for one stamp, which is taken out before the next read.
        static CONTROL_BUFFER: RefCell<Vec<u8>> = RefCell::new(cmsg_space!(TimeSpec));
    }

    /// Reads with kernel time stamps.
    #[derive(Debug)]
    pub(super) struct Stamps {
        last: LastRead,
    }

    impl Stamps {
        pub(super) fn enable(tcp: &TcpStream) -> Self {
            // On failure there are no stamps, and the instants of the reads are used.
            let _ = setsockopt(tcp, sockopt::ReceiveTimestampns, &true);
            Self {
                last: LastRead::new(),
            }
        }

        pub(super) fn for_accepted(self) -> Self {
            let last = LastRead::accepted();
            Self { last }
        }

        /// Reads once and returns when the last of the bytes arrived.
        pub(super) fn poll_read(
            &mut self,
            tcp: &mut TcpStream,
            cx: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<Arrival>> {
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

        fn receive(&mut self, tcp: &TcpStream, buffer: &mut [u8]) -> io::Result<(usize, Arrival)> {
            CONTROL_BUFFER.with_borrow_mut(|control_buffer| {
                let mut parts = [IoSliceMut::new(buffer)];
                let message = recvmsg::<()>(
                    tcp.as_raw_fd(),
                    &mut parts,
                    Some(control_buffer),
                    MsgFlags::empty(),
                )?;
                let stamp = message.cmsgs().ok().and_then(|mut all| {
                    all.find_map(|one| match one {
                        ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
                        _ => None,
                    })
                });
                Ok((message.bytes, self.last.arrived(stamp)))
            })
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

    use crate::clock::Arrival;

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
        ) -> Poll<io::Result<Arrival>> {
            Pin::new(tcp)
                .poll_read(cx, buffer)
                .map_ok(|()| Arrival::now())
        }
    }
}
