//! Shards that coordinate over the loopback interface, in one process. Their clocks are the same,
//! so every measured offset is an error, and must be within the stated uncertainty.

use std::net::TcpListener;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::member::{Exchange, best_offset};
use super::*;
use sobench_core::error::ErrorKind;

fn options(timeout_s: f64) -> CoordinatorSettings {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    CoordinatorSettings {
        address: format!("127.0.0.1:{port}"),
        timeout: Duration::from_secs_f64(timeout_s),
    }
}

async fn join(
    options: &CoordinatorSettings,
    number: usize,
    of: usize,
    plan: &str,
) -> Result<Coordination> {
    Coordination::join(
        options,
        Shard::new(number, of).unwrap(),
        plan,
        &Shutdown::new(),
    )
    .await
}

async fn start_together(
    options: &CoordinatorSettings,
    number: usize,
    of: usize,
    plan: &str,
) -> Result<(Coordination, StartInstant)> {
    let mut joined = join(options, number, of, plan).await?;
    let start = joined.start(&Shutdown::new()).await?;
    Ok((joined, start))
}

#[test]
fn an_offset_is_wrong_by_no_more_than_half_the_round_trip() {
    // The other clock is 1000 ahead. The two ways take 40 and 10, with 5 in between.
    let exchange = Exchange {
        sent_ns: 100,
        received_ns: 1_140,
        answered_ns: 1_145,
        returned_ns: 155,
    };
    assert_eq!(
        (exchange.offset_ns(), exchange.round_trip_ns()),
        (1_015, 50)
    );
    let slower = Exchange {
        returned_ns: 400,
        ..exchange
    };
    let found = best_offset(&[slower, exchange, slower]).unwrap();
    assert_eq!(
        (found.offset_ns, found.uncertainty_ns, found.exchanges),
        (1_015, 25, 3)
    );
    assert!(found.offset_ns.abs_diff(1_000) <= found.uncertainty_ns);
    let behind = Exchange {
        sent_ns: 5_000,
        received_ns: 1_000,
        answered_ns: 1_000,
        returned_ns: 5_001,
    };
    assert_eq!((behind.offset_ns(), behind.round_trip_ns()), (-4_000, 1));
    // Impossible instants do not panic.
    let odd = Exchange {
        sent_ns: u64::MAX,
        received_ns: 0,
        answered_ns: u64::MAX,
        returned_ns: 0,
    };
    assert_eq!(
        (best_offset(&[odd]).is_some(), best_offset(&[])),
        (true, None)
    );
    let far = Exchange {
        sent_ns: 0,
        received_ns: u64::MAX,
        answered_ns: u64::MAX,
        returned_ns: 0,
    };
    assert_eq!(far.offset_ns(), i64::MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_start_at_one_instant_and_measure_their_clocks() {
    let options = options(60.0);
    // Peers that send no hello, or a wrong one, are ignored.
    let unknown_peer = async {
        loop {
            if let Ok(mut stream) = TcpStream::connect(&options.address).await {
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
                return stream;
            }
            tokio::task::yield_now().await;
        }
    };
    let (one, two, three, _unknown_peer) = tokio::join!(
        start_together(&options, 1, 3, "plan"),
        start_together(&options, 2, 3, "plan"),
        start_together(&options, 3, 3, "plan"),
        unknown_peer
    );
    let (one, first) = one.unwrap();
    assert_eq!(
        one.clock(),
        Some(ClockOffset {
            offset_ns: 0,
            uncertainty_ns: 0,
            exchanges: 0
        })
    );
    let mut members = Vec::new();
    for (mut member, start) in [two.unwrap(), three.unwrap()] {
        let clock = member.clock().unwrap();
        assert!(
            clock.offset_ns.unsigned_abs() <= clock.uncertainty_ns && clock.exchanges > 8,
            "{clock:?}"
        );
        assert!(
            start.distance(first) <= Duration::from_nanos(clock.uncertainty_ns),
            "{start:?} {first:?} {clock:?}"
        );
        let again = member.measure_again().await.unwrap();
        assert!(
            again.offset_ns.unsigned_abs() <= again.uncertainty_ns,
            "{again:?}"
        );
        members.push(member);
    }
    let leaving = tokio::spawn(async move { one.leave(&Shutdown::new()).await });
    members.into_iter().for_each(drop);
    assert!(leaving.await.unwrap(), "the leader sees that they left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_mismatch_is_refused_for_all_shards() {
    for (number, of, plan, reason) in [
        (2, 2, "other", "shard 2 has another plan than shard 1"),
        (2, 4, "plan", "shard 2 is one of 4, but shard 1 is one of 2"),
    ] {
        let options = options(60.0);
        let (one, two) = tokio::join!(
            start_together(&options, 1, 2, "plan"),
            start_together(&options, number, of, plan)
        );
        let (one, two) = (one.unwrap_err(), two.unwrap_err());
        assert_eq!(
            (one.what.as_str(), one.kind, two.kind),
            (reason, ErrorKind::Usage, ErrorKind::Usage)
        );
        assert!(two.what.contains(reason) && two.hint.is_some(), "{two}");
    }
    let options = options(60.0);
    let (one, two, again) = tokio::join!(
        start_together(&options, 1, 3, "plan"),
        start_together(&options, 2, 3, "plan"),
        start_together(&options, 2, 3, "plan")
    );
    assert_eq!(one.unwrap_err().what, "duplicate shard 2");
    assert!(two.is_err() && again.is_err());
}

/// While the clock is paused, a wait that only a timeout can end returns at once.
#[tokio::test]
async fn missing_shards_are_listed() {
    let options = || options(60.0);
    tokio::time::pause();
    let alone = options();
    let error = start_together(&alone, 1, 4, "plan").await.unwrap_err();
    assert_eq!(
        (error.what.as_str(), error.exit_code()),
        ("of 4 shards, within 60 s, did not join: 2, 3, 4", 3)
    );
    let error = start_together(&alone, 2, 4, "plan").await.unwrap_err();
    assert!(
        error
            .what
            .starts_with("shard 2/4 found no coordinator within 60 s (")
            && error.hint.is_some(),
        "{error}"
    );

    tokio::time::resume();
    let waiting = options();
    let mut one = join(&waiting, 1, 3, "plan").await.unwrap();
    let _two = join(&waiting, 2, 3, "plan").await.unwrap();
    tokio::time::pause();
    let error = one.start(&Shutdown::new()).await.unwrap_err();
    assert_eq!(
        error.what,
        "of 3 shards, within 60 s, did not join: 3; did not become ready: 2"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_leaves_is_reported() {
    let left = options(60.0);
    let leaving = async { drop(join(&left, 2, 2, "plan").await.unwrap()) };
    let (one, ()) = tokio::join!(start_together(&left, 1, 2, "plan"), leaving);
    assert_eq!(one.unwrap_err().what, "shard 2 left before the start");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_request_ends_the_wait_for_shards() {
    for number in [1, 2] {
        let shutdown = Shutdown::new();
        let waiting = options(60.0);
        let part = Shard::new(number, 2).unwrap();
        shutdown.request();
        let joined = Coordination::join(&waiting, part, "plan", &shutdown).await;
        let error = match joined {
            Ok(mut joined) => joined.start(&shutdown).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.kind, ErrorKind::Interrupted, "{error}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let options = CoordinatorSettings {
        address: address.clone(),
        timeout: Duration::from_secs(1),
    };
    let error = join(&options, 1, 2, "plan").await.unwrap_err();
    assert!(
        error.what.starts_with("shard 1 cannot listen")
            && error.what.ends_with(&address)
            && error.exit_code() == 3,
        "{error}"
    );
}
