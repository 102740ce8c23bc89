//! Connection pool of one client thread, and the limit on open connections.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::{Connection, Target};
use crate::clock;
use crate::rlimit::too_many_open_files;

/// Maximum connections that are opened at a time before they are needed. More would overflow the
/// server's accept queue (128 on many systems), and the kernel retries only after a second.
const OPENING_AT_A_TIME: usize = 64;

/// A server that closes a connection within this time of a response does not keep connections, even
/// if its headers state otherwise.
const CLOSES_AT_ONCE: Duration = Duration::from_secs(1);

/// Counts and limits the connections of a client.
pub(crate) struct Connections {
    opened: AtomicUsize,
    waited_for: AtomicUsize,
    /// Connections that are open or being opened.
    open: AtomicUsize,
    /// Maximum of `open`.
    max_open: AtomicUsize,
    /// The pools with idle connections.
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// Permit for one open connection, released when dropped.
pub(super) struct ConnectionPermit(Arc<Connections>);

impl Default for Connections {
    fn default() -> Self {
        Self {
            opened: AtomicUsize::default(),
            waited_for: AtomicUsize::default(),
            open: AtomicUsize::default(),
            max_open: AtomicUsize::new(usize::MAX),
            pools: Mutex::default(),
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    /// Limits the open connections; those beyond fail with the system's error for too many open
    /// files.
    pub(crate) fn limit_open_connections(&self, max_open: usize) {
        self.max_open.store(max_open, Ordering::Relaxed);
    }

    /// A permit for one more connection.
    fn permit(self: &Arc<Self>) -> io::Result<ConnectionPermit> {
        let permit = ConnectionPermit(Arc::clone(self));
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        if before < self.max_open.load(Ordering::Relaxed) {
            Ok(permit)
        } else {
            Err(too_many_open_files())
        }
    }

    /// A permit for one more connection. Closes an idle one if the limit is reached: threads share
    /// the permits, but each has its own pool.
    fn permit_or_close_idle(self: &Arc<Self>) -> io::Result<ConnectionPermit> {
        self.permit().or_else(|full| {
            if self.close_idle() {
                self.permit()
            } else {
                Err(full)
            }
        })
    }

    /// Returns whether there was one.
    fn close_idle(&self) -> bool {
        let pools: Vec<Arc<Pool>> = locked(&self.pools)
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let longest_idle = |pool: &Arc<Pool>| {
            let mut idle = pool.lock();
            (!idle.is_empty()).then(|| idle.remove(0))
        };
        pools.iter().find_map(longest_idle).is_some()
    }

    /// Number of connections that were opened.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// Number of connections that a request had to wait for because no open one was free.
    pub(crate) fn waited_for(&self) -> usize {
        self.waited_for.load(Ordering::Relaxed)
    }
}

/// Idle connections, last used on top.
pub(crate) struct Pool {
    target: Target,
    idle: Mutex<Vec<Idle>>,
    connections: Arc<Connections>,
    /// How long a connection may be idle between two requests.
    idle_timeout: Duration,
    connect_timeout: Duration,
    /// Number of spare connections besides those in use.
    spare: AtomicUsize,
    is_refilling: AtomicBool,
    /// Whether the server has closed a connection after a response. Such a server often uses a
    /// thread for each connection as well (llama.cpp does both), which an idle connection would
    /// block. Then no connection is kept or opened before it is needed.
    server_closes: AtomicBool,
}

struct Idle {
    connection: Connection,
    /// Since when, as [`clock::process_ns`]; `None` for a connection that has carried no request
    /// yet: the keep-alive timeout of a server starts after a response.
    since_ns: Option<u64>,
}

impl Pool {
    pub(crate) fn new(
        target: Target,
        connections: Arc<Connections>,
        idle_timeout: Duration,
        connect_timeout: Duration,
    ) -> Arc<Self> {
        let pool = Arc::new(Self {
            target,
            idle: Mutex::default(),
            connections,
            idle_timeout,
            connect_timeout,
            spare: AtomicUsize::new(0),
            is_refilling: AtomicBool::new(false),
            server_closes: AtomicBool::new(false),
        });
        locked(&pool.connections.pools).push(Arc::downgrade(&pool));
        pool
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// Sets the number of spare connections to keep besides those in use.
    pub(crate) fn keep_spare(&self, spare: usize) {
        self.spare.store(spare, Ordering::Relaxed);
    }

    /// Takes an idle connection, or opens one.
    pub(crate) async fn take(self: &Arc<Self>) -> io::Result<Connection> {
        self.refill();
        loop {
            let Some(idle) = self.lock().pop() else {
                self.connections.waited_for.fetch_add(1, Ordering::Relaxed);
                // In a box, so that the task of a request is small while it waits for tokens.
                return Box::pin(self.open()).await;
            };
            if idle.time().is_some_and(|time| time >= self.idle_timeout) {
                continue;
            }
            if let Some(idle) = self.still_open(idle).await {
                return Ok(idle.connection);
            }
        }
    }

    /// Stops keeping connections, because the server closed one after a response.
    pub(crate) fn stop_keeping_connections(&self) {
        self.server_closes.store(true, Ordering::Relaxed);
        self.lock().clear();
    }

    /// Opens a connection for a waiting request.
    pub(crate) async fn open(&self) -> io::Result<Connection> {
        self.open_with_permit(self.connections.permit_or_close_idle()?)
            .await
    }

    /// Opens a connection that no request waits for, if the limit is not reached.
    async fn preconnect_one(&self) -> io::Result<Connection> {
        self.open_with_permit(self.connections.permit()?).await
    }

    async fn open_with_permit(&self, permit: ConnectionPermit) -> io::Result<Connection> {
        let mut connection = self.target.open(self.connect_timeout).await?;
        connection.permit = Some(permit);
        self.connections.opened.fetch_add(1, Ordering::Relaxed);
        Ok(connection)
    }

    /// Takes back a connection after a response.
    pub(crate) fn put_back(&self, mut connection: Connection) {
        if self.server_closes.load(Ordering::Relaxed) {
            return;
        }
        connection.is_reused = true;
        self.lock().push(Idle {
            connection,
            since_ns: Some(clock::process_ns()),
        });
    }

    /// Opens connections before they are needed, until `wanted` are idle or one fails. The failure
    /// is not reported here; the request itself will report it.
    pub(crate) async fn preconnect(&self, wanted: usize) {
        self.remove_closed().await;
        while !self.server_closes.load(Ordering::Relaxed) {
            let missing = wanted
                .saturating_sub(self.lock().len())
                .min(OPENING_AT_A_TIME);
            if missing == 0 {
                return;
            }
            let opened =
                futures_util::future::join_all((0..missing).map(|_| self.preconnect_one())).await;
            let mut idle = self.lock();
            let before = idle.len();
            idle.extend(opened.into_iter().flatten().map(|connection| Idle {
                connection,
                since_ns: None,
            }));
            if idle.len() < before + missing {
                return;
            }
        }
    }

    /// Removes idle connections that were closed.
    async fn remove_closed(&self) {
        let idle = std::mem::take(&mut *self.lock());
        for idle in idle {
            if let Some(idle) = self.still_open(idle).await {
                self.lock().push(idle);
            } else if self.server_closes.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// The connection, unless it was closed while idle. If it was closed soon after its response,
    /// the server does not keep connections.
    async fn still_open(&self, mut idle: Idle) -> Option<Idle> {
        if idle.connection.is_usable().await {
            return Some(idle);
        }
        if idle.time().is_some_and(|time| time < CLOSES_AT_ONCE) {
            self.stop_keeping_connections();
        }
        None
    }

    /// Opens spare connections in the background.
    fn refill(self: &Arc<Self>) {
        let spare = self.spare.load(Ordering::Relaxed);
        if spare == 0
            || self.server_closes.load(Ordering::Relaxed)
            || self.lock().len() > spare
            || self.is_refilling.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            pool.preconnect(2 * spare).await;
            pool.is_refilling.store(false, Ordering::Relaxed);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        locked(&self.idle)
    }
}

fn locked<T>(mutex: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    // No code panics while holding the lock, and a vector is always valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Idle {
    /// The idle time; `None` for a connection that has carried no request yet.
    fn time(&self) -> Option<Duration> {
        self.since_ns
            .map(|since_ns| Duration::from_nanos(clock::process_ns().saturating_sub(since_ns)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use reqwest::header::HeaderMap;

    use super::*;

    #[tokio::test]
    async fn an_idle_connection_of_one_thread_is_closed_for_a_request_of_another() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let target = Target::new(&url, &HeaderMap::new(), "test", None, None).unwrap();
        let connections = Arc::new(Connections::default());
        let an_hour = Duration::from_secs(3600);
        let pool = || Pool::new(target.clone(), Arc::clone(&connections), an_hour, an_hour);
        let (one, other) = (pool(), pool());
        connections.limit_open_connections(2);
        one.preconnect(2).await;
        other.preconnect(1).await;
        assert_eq!(
            (one.lock().len(), other.lock().len()),
            (2, 0),
            "no request waits for a preconnected connection"
        );
        let first = other.take().await.unwrap();
        assert_eq!((one.lock().len(), connections.opened()), (1, 3));
        let second = other.take().await.unwrap();
        assert!(other.take().await.is_err(), "all are in use");
        drop((first, second));
        assert!(one.take().await.is_ok());
    }
}
