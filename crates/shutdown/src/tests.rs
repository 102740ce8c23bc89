//! Tests of stages, child tokens and abandoned work, without real delays.

use std::future::{pending, ready};
use std::sync::mpsc::channel;

use super::*;

#[tokio::test]
async fn the_first_request_drains_and_the_second_aborts() {
    let shutdown = Shutdown::new();
    assert_eq!(
        (shutdown.stage(), shutdown.is_requested()),
        (Stage::Running, false)
    );
    assert_eq!(shutdown.request(), Stage::Draining);
    assert!(shutdown.clone().is_requested());
    shutdown.drain_requested().await;
    shutdown.cut_off(Duration::ZERO).await;
    tokio::select! {
        biased;
        () = shutdown.abort_requested() => panic!("the first request must not abort"),
        () = ready(()) => {}
    }
    assert_eq!(shutdown.request(), Stage::Aborting);
    shutdown.abort_requested().await;
    shutdown.cut_off(Duration::MAX).await;
    assert_eq!(shutdown.request(), Stage::Aborting);
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_have_the_drain_timeout() {
    let shutdown = Shutdown::new();
    shutdown.request();
    let started = tokio::time::Instant::now();
    shutdown.cut_off(Duration::from_secs(30)).await;
    assert_eq!(started.elapsed(), Duration::from_secs(30));
}

#[tokio::test]
async fn waiting_tasks_wake_at_their_stage() {
    let shutdown = Shutdown::new();
    let stages = |token: Shutdown| async move {
        token.drain_requested().await;
        let draining = token.stage();
        token.abort_requested().await;
        (draining, token.stage())
    };
    let tasks = [shutdown.clone(), shutdown.child()].map(|token| tokio::spawn(stages(token)));
    tokio::task::yield_now().await;
    shutdown.request();
    tokio::task::yield_now().await;
    shutdown.request();
    for task in tasks {
        assert_eq!(task.await.unwrap(), (Stage::Draining, Stage::Aborting));
    }
}

#[test]
fn drain_counts_once() {
    let shutdown = Shutdown::new();
    assert!(shutdown.drain());
    assert!(!shutdown.drain());
    assert_eq!(shutdown.stage(), Stage::Draining);
    assert_eq!(
        shutdown.request(),
        Stage::Aborting,
        "a signal to a draining run aborts it"
    );
    assert!(!shutdown.drain());
    assert_eq!(shutdown.stage(), Stage::Aborting);
}

#[test]
fn a_child_follows_and_stops_alone() {
    let shutdown = Shutdown::new();
    let [broken, other] = [shutdown.child(), shutdown.child()];
    assert!(broken.drain());
    let stages = || [shutdown.stage(), broken.stage(), other.stage()];
    assert_eq!(stages(), [Stage::Running, Stage::Draining, Stage::Running]);
    assert_eq!(shutdown.request(), Stage::Draining);
    assert_eq!(
        stages(),
        [Stage::Draining; 3],
        "the first request does not abort a draining child"
    );
    assert!(other.is_requested() && !other.drain());
    assert_eq!(shutdown.child().stage(), Stage::Draining);
    shutdown.request();
    assert_eq!(stages(), [Stage::Aborting; 3]);
    let late = shutdown.child();
    assert_eq!(
        (late.stage(), late.is_requested(), late.child().stage()),
        (Stage::Aborting, true, Stage::Aborting)
    );
}

#[test]
fn children_of_dropped_tokens_are_forgotten() {
    let shutdown = Shutdown::new();
    drop(shutdown.child());
    let kept = shutdown.child();
    assert_eq!(lock(&shutdown.node.children).len(), 1);
    drop(shutdown);
    assert_eq!(kept.stage(), Stage::Running);
}

#[tokio::test]
async fn later_work_counts_from_its_start() {
    let shutdown = Shutdown::new();
    shutdown.request();
    let later = shutdown.from_now();
    assert_eq!(
        (later.stage(), later.is_requested(), shutdown.stage()),
        (Stage::Running, false, Stage::Draining)
    );
    assert!(later.drain());
    assert_eq!(
        (later.stage(), later.is_requested(), shutdown.stage()),
        (Stage::Draining, true, Stage::Aborting)
    );
    let child = later.child();
    assert_eq!(child.stage(), Stage::Draining);
    shutdown.request();
    later.abort_requested().await;
    assert_eq!(
        (later.stage(), child.stage(), later.from_now().stage()),
        (Stage::Aborting, Stage::Aborting, Stage::Running)
    );
}

#[test]
fn signals_report_the_stage_of_the_listening_work() {
    let (sender, reported) = channel();
    let report = |token: &Shutdown| {
        // Replaces the thread that waits for real signals.
        lock(&token.node.listening).has_thread = true;
        let sender = sender.clone();
        token
            .listen(move |stage| sender.send(stage).unwrap())
            .unwrap()
    };
    let shutdown = Shutdown::new();
    let listener = report(&shutdown);
    shutdown.signalled();
    shutdown.signalled();
    drop(listener);
    shutdown.signalled();
    assert_eq!(
        reported.try_iter().collect::<Vec<_>>(),
        [Stage::Draining, Stage::Aborting]
    );
    let later = shutdown.from_now();
    let _listener = report(&later);
    // The signal thread holds the token that listened first.
    shutdown.signalled();
    shutdown.signalled();
    assert_eq!(
        reported.try_iter().collect::<Vec<_>>(),
        [Stage::Draining, Stage::Aborting]
    );
    assert_eq!(later.stage(), Stage::Aborting);
}

#[tokio::test]
async fn work_is_awaited_or_abandoned() {
    assert_eq!(run_abandonable("a run", || 7, pending()).await, Ok(Some(7)));
    let (_sender, receiver) = channel::<()>();
    let endless = move || receiver.recv().is_ok();
    assert_eq!(run_abandonable("a run", endless, ready(())).await, Ok(None));
    let panicked = run_abandonable(
        "a run",
        || std::panic::resume_unwind(Box::new("as a library would")),
        pending(),
    )
    .await;
    assert_eq!(
        panicked.map(|_: Option<()>| ()).unwrap_err().what,
        "a run panicked"
    );
}

#[test]
fn a_command_without_partial_results_is_abandoned_at_the_first_request() {
    let listening = || {
        let shutdown = Shutdown::new();
        lock(&shutdown.node.listening).has_thread = true;
        shutdown
    };
    assert_eq!(listening().run_or_abandon(|| Ok(7)), Ok(7));
    let failed = listening().run_or_abandon(|| Err::<(), _>(Error::usage("no such file")));
    assert_eq!(failed.unwrap_err().what, "no such file");
    let shutdown = listening();
    let (_sender, receiver) = channel::<()>();
    let token = shutdown.clone();
    let interrupted = shutdown.run_or_abandon(move || {
        token.signalled();
        let _ = receiver.recv();
        Ok(())
    });
    assert_eq!(interrupted.unwrap_err().exit_code(), 130);
}
