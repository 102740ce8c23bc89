//! Tests of the server with a fake engine: blocked compiles, empty masks, refusals and routes.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::*;
use sobench_core::constraint::GrammarDialect;
use sobench_engine::vocabulary::shared;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask};

/// Accepts regular expressions only. Compiling the regex `slow` reports and waits. Masks of the
/// regex `nothing` are empty, and others allow only the first token of the regex.
struct FakeEngine {
    started: Sender<()>,
    release: Mutex<Receiver<()>>,
    settings: EnginePolicy,
}

#[derive(Clone)]
struct FirstToken(Option<TokenId>);

impl Engine for FakeEngine {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn version(&self) -> &'static str {
        "fake 1"
    }
    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("any_whitespace", self.settings.any_whitespace.to_string())]
    }
    fn validate(&self, constraint: &Constraint) -> std::result::Result<(), EngineError> {
        match constraint {
            Constraint::Regex(_) => Ok(()),
            _ => Err(EngineError::Unsupported {
                feature: constraint.kind().into(),
                message: "only regular expressions".into(),
            }),
        }
    }
    fn route(&self, _: &Constraint) -> Option<Route> {
        Some(Route {
            engine: EngineName::Outlines,
            why: "set by the test".into(),
        })
    }
    fn compile(
        &self,
        constraint: &Constraint,
    ) -> std::result::Result<Arc<dyn Grammar>, EngineError> {
        let Constraint::Regex(regex) = constraint else {
            panic!("not validated")
        };
        if &**regex == "slow" {
            let _ = self.started.send(());
            let _ = self.release.lock().unwrap().recv();
        }
        Ok(Arc::new(FirstToken(
            (&**regex != "nothing").then(|| shared().encode(regex)[0]),
        )))
    }
    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[]
    }
}

impl Grammar for FirstToken {
    fn matcher(&self) -> std::result::Result<Box<dyn Matcher>, EngineError> {
        Ok(Box::new(self.clone()))
    }
}

impl Matcher for FirstToken {
    fn mask(&mut self, mask: &mut TokenMask) -> std::result::Result<(), EngineError> {
        *mask = TokenMask::new(shared().len());
        self.0.into_iter().for_each(|token| mask.allow(token));
        Ok(())
    }
    fn commit(&mut self, _: TokenId) -> std::result::Result<(), EngineError> {
        Ok(())
    }
    fn is_accepting(&mut self) -> std::result::Result<bool, EngineError> {
        Ok(false)
    }
    fn forced_tokens(&mut self) -> Vec<TokenId> {
        Vec::new()
    }
    fn rollback(&mut self, _: usize) -> std::result::Result<(), EngineError> {
        Ok(())
    }
    fn fork(&self) -> Box<dyn Matcher> {
        Box::new(self.clone())
    }
}

struct Harness {
    server: EmbeddedServer,
    started: Receiver<()>,
    release: Sender<()>,
    http: reqwest::Client,
}

async fn harness() -> Harness {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::task::spawn_blocking(|| {
        let (report, started) = channel();
        let (release, released) = channel();
        let options = EmbeddedSettings::default();
        let engine = FakeEngine {
            started: report,
            release: Mutex::new(released),
            settings: options.policy.clone(),
        };
        let (batching, listener) = (batching(&options).unwrap(), listening::bind(None).unwrap());
        let server =
            EmbeddedServer::run(options, batching, listener, shared(), Arc::new(engine)).unwrap();
        Harness {
            server,
            started,
            release,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    })
    .await
    .unwrap()
}

impl Harness {
    /// Sends a completion with a constraint, and returns its status and body.
    fn complete(&self, constraint: &Value) -> tokio::task::JoinHandle<(u16, Value)> {
        let body =
            json!({"prompt": "p", "max_tokens": 3, "structured_outputs": constraint}).to_string();
        let request = self
            .http
            .post(format!("{}/v1/completions", self.server.base_url()))
            .body(body);
        tokio::spawn(async move {
            let response = request.send().await.unwrap();
            (
                response.status().as_u16(),
                serde_json::from_str(&response.text().await.unwrap()).unwrap(),
            )
        })
    }

    async fn stop(self) {
        tokio::task::spawn_blocking(move || drop(self))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_compile_delays_only_its_own_requests() {
    let harness = harness().await;
    let slow: Vec<_> = (0..6)
        .map(|_| harness.complete(&json!({"regex": "slow"})))
        .collect();
    harness.started.recv().unwrap();
    // More requests wait for it than there are compile threads, and other constraints are still
    // compiled.
    for regex in ["!", "a"] {
        let (status, body) = harness.complete(&json!({ "regex": regex })).await.unwrap();
        assert_eq!(
            (status, &body["choices"][0]["text"]),
            (200, &json!(regex.repeat(3)))
        );
    }
    let stats = harness.server.stats();
    assert_eq!(
        (
            stats.compiling,
            stats.running,
            stats.cache_misses,
            stats.cache_hits
        ),
        (1, 0, 3, 0)
    );
    harness.release.send(()).unwrap();
    for request in slow {
        assert_eq!(request.await.unwrap().0, 200);
    }
    let (status, body) = harness.complete(&json!({"regex": "slow"})).await.unwrap();
    assert_eq!(
        (status, &body["choices"][0]["text"]),
        (200, &json!("slowslowslow"))
    );
    let stats = harness.server.stats();
    assert_eq!(
        (stats.compiling, stats.cache_misses, stats.cache_hits),
        (0, 3, 6),
        "one compile for all waiting requests"
    );
    assert_eq!((stats.tokens, stats.masks, stats.ended.length), (27, 27, 9));
    harness.stop().await;
}

#[test]
fn a_compile_continues_after_its_client_disconnects() {
    let ((report, started), (release, released)) = (channel(), channel());
    let engine = FakeEngine {
        started: report,
        release: Mutex::new(released),
        settings: EnginePolicy::default(),
    };
    let compiler = Compiler::new(Arc::new(engine), shared().len(), guarded::COMPILE_TIMEOUT);
    let planting = Arc::new(faults::Planting::new(&[], Arc::default()));
    let request = |regex: &'static str| {
        let (constraint, compiler) = (Arc::new(Constraint::Regex(regex.into())), &compiler);
        let planting = &planting;
        async move {
            compiler
                .matcher(&constraint, &constraint.fingerprint(), planting)
                .await
        }
    };
    runtime().unwrap().block_on(async {
        for _ in 0..=COMPILE_THREADS {
            assert!(
                request("slow").now_or_never().is_none(),
                "the request waits, and is dropped"
            );
        }
        started.recv().unwrap();
        assert!(request("a").await.is_ok(), "another constraint is compiled");
        assert_eq!(
            (compiler.compiling(), compiler.misses(), compiler.hits()),
            (1, 2, 0),
            "one compile for all requests"
        );
        release.send(()).unwrap();
        assert!(request("slow").await.is_ok());
        assert_eq!(
            (compiler.misses(), compiler.hits()),
            (2, 1),
            "a cache hit, whether the compile was finished or not"
        );
    });
    assert!(started.try_recv().is_err(), "it was compiled once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsupported_constraints_are_refused_with_status_400() {
    let harness = harness().await;
    for (constraint, message) in [
        (json!({"json": {}}), "only regular expressions"),
        (json!({"json_object": true}), "only regular expressions"),
        (
            json!({"grammar": "start: \"a\""}),
            "only regular expressions",
        ),
        (json!({"regex": "nothing"}), "no token at the start"),
    ] {
        let (status, body) = harness.complete(&constraint).await.unwrap();
        assert_eq!(
            (status, &body["error"]["type"]),
            (400, &json!("BadRequestError")),
            "{constraint}: {body}"
        );
        assert!(
            body["error"]["message"].as_str().unwrap().contains(message),
            "{body}"
        );
    }
    assert_eq!(harness.server.stats().tokens, 0);
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_route_is_computed_only_on_request() {
    let harness = harness().await;
    let (_, body) = harness.complete(&json!({"regex": "a"})).await.unwrap();
    let fingerprint = body["system_fingerprint"].as_str().unwrap();
    assert!(
        fingerprint.ends_with("synthetic, fake 1"),
        "an answer does not contain the route: {fingerprint}"
    );
    let route = harness
        .server
        .route(&Constraint::Regex("a".into()))
        .unwrap();
    assert_eq!(
        (route.engine, route.why.as_str()),
        (EngineName::Outlines, "set by the test")
    );
    assert_eq!(
        harness.server.stats().settings,
        [("any_whitespace".to_owned(), "true".to_owned())]
    );
    harness.stop().await;
}

#[test]
fn wait_returns_after_the_stop_signal() {
    let server = EmbeddedServer::start(EmbeddedSettings::default()).unwrap();
    let address = server.address();
    let (sender, stop) = oneshot::channel::<()>();
    let client = thread::spawn(move || {
        let connected = std::net::TcpStream::connect(address).is_ok();
        sender.send(()).unwrap();
        connected
    });
    server.wait(async { drop(stop.await) }).unwrap();
    assert!(client.join().unwrap());
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "it has stopped"
    );
}
