//! Open connections of one thread that wait for a request. Knows no request.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::{Connection, Target};
use crate::clock;
use crate::files::no_more_files;

/// How many connections are opened at a time, ahead of their use. More would fill the server's
/// queue of connections to accept (128 on many systems), and the kernel tries the rest again only
/// after a second.
const OPENING_AT_A_TIME: usize = 64;

/// A connection that a server closes within this time of an answer is one that it does not keep,
/// whatever its headers say.
const CLOSES_AT_ONCE: Duration = Duration::from_secs(1);

/// How many connections were opened.
pub(crate) struct Connections {
    opened: AtomicUsize,
    waited_for: AtomicUsize,
    /// Those that are open, or being opened.
    open: AtomicUsize,
    /// The most that may be.
    most: AtomicUsize,
    /// Where idle ones lie.
    pools: Mutex<Vec<Weak<Pool>>>,
}

/// The right to have a connection open, until it is dropped.
pub(super) struct Place(Arc<Connections>);

impl Default for Connections {
    fn default() -> Self {
        Self {
            opened: AtomicUsize::default(),
            waited_for: AtomicUsize::default(),
            open: AtomicUsize::default(),
            most: AtomicUsize::new(usize::MAX),
            pools: Mutex::default(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connections {
    /// From now on no more than so many are open at a time; those past them are refused as the
    /// system would refuse them.
    pub(crate) fn keep_within(&self, most: usize) {
        self.most.store(most, Ordering::Relaxed);
    }

    /// A place for one more.
    fn place(self: &Arc<Self>) -> io::Result<Place> {
        let place = Place(Arc::clone(self));
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        if before < self.most.load(Ordering::Relaxed) {
            Ok(place)
        } else {
            Err(no_more_files())
        }
    }

    /// A place for one more, for which one that lies idle is closed where there is no other:
    /// threads share the places, and each keeps its own connections.
    fn place_or_make_one(self: &Arc<Self>) -> io::Result<Place> {
        self.place().or_else(|full| {
            if self.close_an_idle_one() {
                self.place()
            } else {
                Err(full)
            }
        })
    }

    /// Whether there was one.
    fn close_an_idle_one(&self) -> bool {
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

    /// All that were opened.
    pub(crate) fn opened(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    /// Those of them that a request had to wait for, as no open one was free.
    pub(crate) fn waited_for(&self) -> usize {
        self.waited_for.load(Ordering::Relaxed)
    }
}

/// Idle connections, the one used last on top.
pub(crate) struct Pool {
    target: Target,
    idle: Mutex<Vec<Idle>>,
    connections: Arc<Connections>,
    /// How long a connection may lie idle between two requests.
    keep: Duration,
    connect_timeout: Duration,
    /// How many are kept ready besides those in use.
    spare: AtomicUsize,
    is_refilling: AtomicBool,
    /// Whether the server was seen to close connections after an answer. Such a server often has a
    /// thread for every connection as well (llama.cpp's does both), which one that lies ready would
    /// hold up: then none is kept and none opened ahead.
    closes: AtomicBool,
}

struct Idle {
    connection: Connection,
    /// Since when, in [`clock::process_ns`]; `None` for one that has carried no request yet: a
    /// server's patience with idle connections begins after an answer.
    since_ns: Option<u64>,
}

impl Pool {
    pub(crate) fn new(
        target: Target,
        connections: Arc<Connections>,
        keep: Duration,
        connect_timeout: Duration,
    ) -> Arc<Self> {
        let pool = Arc::new(Self {
            target,
            idle: Mutex::default(),
            connections,
            keep,
            connect_timeout,
            spare: AtomicUsize::new(0),
            is_refilling: AtomicBool::new(false),
            closes: AtomicBool::new(false),
        });
        locked(&pool.connections.pools).push(Arc::downgrade(&pool));
        pool
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
    }

    /// From now on so many connections are kept ready besides those in use, opened whenever fewer
    /// are.
    pub(crate) fn keep_spare(&self, spare: usize) {
        self.spare.store(spare, Ordering::Relaxed);
    }

    /// An open connection; opens one if none is free.
    pub(crate) async fn take(self: &Arc<Self>) -> io::Result<Connection> {
        self.refill();
        loop {
            let Some(idle) = self.lock().pop() else {
                self.connections.waited_for.fetch_add(1, Ordering::Relaxed);
                return self.open().await;
            };
            if idle.time().is_some_and(|time| time >= self.keep) {
                continue;
            }
            if let Some(idle) = self.still_open(idle).await {
                return Ok(idle.connection);
            }
        }
    }

    /// The server closed a connection after an answer: from now on none is kept.
    pub(crate) fn closes_after_answers(&self) {
        self.closes.store(true, Ordering::Relaxed);
        self.lock().clear();
    }

    /// A connection that nobody has used yet, for a request that waits for it.
    pub(crate) async fn open(&self) -> io::Result<Connection> {
        self.open_at(self.connections.place_or_make_one()?).await
    }

    /// One that nobody waits for yet: it takes nobody's place.
    async fn open_ahead(&self) -> io::Result<Connection> {
        self.open_at(self.connections.place()?).await
    }

    async fn open_at(&self, place: Place) -> io::Result<Connection> {
        let mut connection = self.target.open(self.connect_timeout).await?;
        connection.place = Some(place);
        self.connections.opened.fetch_add(1, Ordering::Relaxed);
        Ok(connection)
    }

    /// Takes back a connection after an answer.
    pub(crate) fn put_back(&self, mut connection: Connection) {
        if self.closes.load(Ordering::Relaxed) {
            return;
        }
        connection.is_reused = true;
        self.lock().push(Idle {
            connection,
            since_ns: Some(clock::process_ns()),
        });
    }

    /// Opens connections ahead of their use, until so many lie ready or one fails: the request that
    /// it was meant for will tell.
    pub(crate) async fn prepare(&self, wanted: usize) {
        self.look().await;
        while !self.closes.load(Ordering::Relaxed) {
            let missing = wanted
                .saturating_sub(self.lock().len())
                .min(OPENING_AT_A_TIME);
            if missing == 0 {
                return;
            }
            let opened =
                futures_util::future::join_all((0..missing).map(|_| self.open_ahead())).await;
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

    /// Looks whether the connections that lie here are still open.
    async fn look(&self) {
        let idle = std::mem::take(&mut *self.lock());
        for idle in idle {
            if let Some(idle) = self.still_open(idle).await {
                self.lock().push(idle);
            } else if self.closes.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    /// The connection, unless it was closed while it lay here; one that was closed soon after its
    /// answer tells of the server.
    async fn still_open(&self, mut idle: Idle) -> Option<Idle> {
        if idle.connection.is_usable().await {
            return Some(idle);
        }
        if idle.time().is_some_and(|time| time < CLOSES_AT_ONCE) {
            self.closes_after_answers();
        }
        None
    }

    /// Has spare connections opened, beside the request that is about to take one.
    fn refill(self: &Arc<Self>) {
        let spare = self.spare.load(Ordering::Relaxed);
        if spare == 0
            || self.closes.load(Ordering::Relaxed)
            || self.lock().len() > spare
            || self.is_refilling.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let pool = Arc::clone(self);
        tokio::spawn(async move {
            pool.prepare(2 * spare).await;
            pool.is_refilling.store(false, Ordering::Relaxed);
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        locked(&self.idle)
    }
}

fn locked<T>(it: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    // Nobody panics while holding it; a vector is whole at any time.
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Idle {
    /// How long it has lain here; `None` for one that has carried nothing yet.
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
    async fn what_lies_idle_with_one_thread_makes_room_for_a_request_of_another() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap())
            .parse()
            .unwrap();
        let target = Target::new(&url, &HeaderMap::new(), "test", None, None).unwrap();
        let connections = Arc::new(Connections::default());
        let an_hour = Duration::from_secs(3600);
        let pool = || Pool::new(target.clone(), Arc::clone(&connections), an_hour, an_hour);
        let (one, other) = (pool(), pool());
        connections.keep_within(2);
        one.prepare(2).await;
        other.prepare(1).await;
        assert_eq!(
            (one.lock().len(), other.lock().len()),
            (2, 0),
            "nobody waits for what is opened ahead"
        );
        let first = other.take().await.unwrap();
        assert_eq!((one.lock().len(), connections.opened()), (1, 3));
        let second = other.take().await.unwrap();
        assert!(other.take().await.is_err(), "all are in use");
        drop((first, second));
        assert!(one.take().await.is_ok());
    }
}
