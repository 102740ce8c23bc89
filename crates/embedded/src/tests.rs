//! The server with an engine that does as it is told: compiles that are held up, languages without
//! words, masks that hang.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use futures_util::FutureExt;
use serde_json::{Value, json};

use super::*;
use sobench_core::constraint::GrammarDialect;
use sobench_engine::vocabulary::shared;
use sobench_engine::{EngineError, Grammar, Matcher, TokenId, TokenMask};

/// A compile of the regex `slow` reports and waits; masks of any other regex allow its first token,
/// those of `nothing` none.
struct Told {
    began: Sender<()>,
    release: Mutex<Receiver<()>>,
    settings: EnginePolicy,
}

#[derive(Clone)]
struct One(Option<TokenId>);

impl Engine for Told {
    fn name(&self) -> &'static str {
        "told"
    }
    fn version(&self) -> &'static str {
        "told 1"
    }
    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![("any_whitespace", self.settings.any_whitespace.to_string())]
    }
    fn validate(&self, constraint: &Constraint) -> std::result::Result<(), EngineError> {
        match constraint {
            Constraint::Regex(_) => Ok(()),
            _ => Err(EngineError::Unsupported {
                feature: constraint.kind().into(),
                words: "regexes only, I was told".into(),
            }),
        }
    }
    fn route(&self, _: &Constraint) -> Option<Route> {
        Some(Route {
            engine: EngineName::Outlines,
            why: "it was told so".into(),
        })
    }
    fn compile(
        &self,
        constraint: &Constraint,
    ) -> std::result::Result<Arc<dyn Grammar>, EngineError> {
        let Constraint::Regex(regex) = constraint else {
            panic!("it was not validated")
        };
        if &**regex == "slow" {
            let _ = self.began.send(());
            let _ = self.release.lock().unwrap().recv();
        }
        Ok(Arc::new(One(
            (&**regex != "nothing").then(|| shared().encode(regex)[0])
        )))
    }
    fn grammar_dialects(&self) -> &'static [GrammarDialect] {
        &[]
    }
}

impl Grammar for One {
    fn matcher(&self) -> std::result::Result<Box<dyn Matcher>, EngineError> {
        Ok(Box::new(self.clone()))
    }
}

impl Matcher for One {
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

struct World {
    server: EmbeddedServer,
    began: Receiver<()>,
    release: Sender<()>,
    http: reqwest::Client,
}

async fn world() -> World {
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::task::spawn_blocking(|| {
        let (report, began) = channel();
        let (release, held) = channel();
        let options = EmbeddedOptions::default();
        let engine = Told {
            began: report,
            release: Mutex::new(held),
            settings: options.policy.clone(),
        };
        let (batching, listener) = (batching(&options).unwrap(), listening::bind(None).unwrap());
        let server =
            EmbeddedServer::run(options, batching, listener, shared(), Arc::new(engine)).unwrap();
        World {
            server,
            began,
            release,
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
        }
    })
    .await
    .unwrap()
}

impl World {
    /// Status and body of a completion under a constraint.
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

    async fn done(self) {
        tokio::task::spawn_blocking(move || drop(self))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_compile_delays_its_own_requests_and_no_others() {
    let world = world().await;
    let slow: Vec<_> = (0..6)
        .map(|_| world.complete(&json!({"regex": "slow"})))
        .collect();
    world.began.recv().unwrap();
    // More wait for it than there are threads to compile in; neighbours are compiled and answered
    // all the same.
    for regex in ["!", "a"] {
        let (status, body) = world.complete(&json!({ "regex": regex })).await.unwrap();
        assert_eq!(
            (status, &body["choices"][0]["text"]),
            (200, &json!(regex.repeat(3)))
        );
    }
    let stats = world.server.stats();
    assert_eq!(
        (
            stats.compiling,
            stats.running,
            stats.cache_misses,
            stats.cache_hits
        ),
        (1, 0, 3, 0)
    );
    world.release.send(()).unwrap();
    for request in slow {
        assert_eq!(request.await.unwrap().0, 200);
    }
    let (status, body) = world.complete(&json!({"regex": "slow"})).await.unwrap();
    assert_eq!(
        (status, &body["choices"][0]["text"]),
        (200, &json!("slowslowslow"))
    );
    let stats = world.server.stats();
    assert_eq!(
        (stats.compiling, stats.cache_misses, stats.cache_hits),
        (0, 3, 6),
        "one compile for all who waited"
    );
    assert_eq!((stats.tokens, stats.masks, stats.ended.length), (27, 27, 9));
    world.done().await;
}

#[test]
fn who_goes_away_during_a_compile_leaves_it_to_the_next() {
    let ((report, began), (release, held)) = (channel(), channel());
    let engine = Told {
        began: report,
        release: Mutex::new(held),
        settings: EnginePolicy::default(),
    };
    let compiler = Compiler::new(Arc::new(engine), shared().len(), guarded::COMPILE_TIMEOUT);
    let ask = |regex: &'static str| {
        let (constraint, compiler) = (Arc::new(Constraint::Regex(regex.into())), &compiler);
        async move {
            compiler
                .matcher(&constraint, &constraint.fingerprint())
                .await
        }
    };
    runtime().unwrap().block_on(async {
        for _ in 0..=COMPILE_THREADS {
            assert!(
                ask("slow").now_or_never().is_none(),
                "it waits, and is gone at once"
            );
        }
        began.recv().unwrap();
        assert!(
            ask("a").await.is_ok(),
            "a neighbour finds a thread to be compiled in"
        );
        assert_eq!(
            (compiler.compiling(), compiler.misses(), compiler.hits()),
            (1, 2, 0),
            "one compile, whoever waits"
        );
        release.send(()).unwrap();
        assert!(ask("slow").await.is_ok());
        assert_eq!(
            (compiler.misses(), compiler.hits()),
            (2, 1),
            "found, whether it was done by then or not"
        );
    });
    assert!(began.try_recv().is_err(), "it was compiled once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_engine_refuses_is_refused_before_the_answer_begins() {
    let world = world().await;
    for (constraint, words) in [
        (json!({"json": {}}), "regexes only, I was told"),
        (json!({"json_object": true}), "regexes only"),
        (json!({"grammar": "start: \"a\""}), "regexes only"),
        (json!({"regex": "nothing"}), "no token at the start"),
    ] {
        let (status, body) = world.complete(&constraint).await.unwrap();
        assert_eq!(
            (status, &body["error"]["type"]),
            (400, &json!("BadRequestError")),
            "{constraint}: {body}"
        );
        assert!(
            body["error"]["message"].as_str().unwrap().contains(words),
            "{body}"
        );
    }
    assert_eq!(world.server.stats().tokens, 0);
    world.done().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_is_told_to_who_asks_for_it() {
    let world = world().await;
    let (_, body) = world.complete(&json!({"regex": "a"})).await.unwrap();
    let fingerprint = body["system_fingerprint"].as_str().unwrap();
    assert!(
        fingerprint.ends_with("synthetic, told 1"),
        "an answer asks no engine for its route: {fingerprint}"
    );
    let route = world.server.route(&Constraint::Regex("a".into())).unwrap();
    assert_eq!(
        (route.engine, route.why.as_str()),
        (EngineName::Outlines, "it was told so")
    );
    assert_eq!(
        world.server.stats().settings,
        [("any_whitespace".to_owned(), "true".to_owned())]
    );
    world.done().await;
}

#[test]
fn a_server_waits_until_it_is_told_to_stop() {
    let server = EmbeddedServer::start(EmbeddedOptions::default()).unwrap();
    let address = server.address();
    let (sender, stop) = oneshot::channel::<()>();
    let asked = thread::spawn(move || {
        let connected = std::net::TcpStream::connect(address).is_ok();
        sender.send(()).unwrap();
        connected
    });
    server.wait(async { drop(stop.await) }).unwrap();
    assert!(asked.join().unwrap());
    assert!(
        std::net::TcpStream::connect(address).is_err(),
        "it has stopped"
    );
}
