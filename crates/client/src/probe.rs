//! Questions about the server, outside the timed run: is it ready, which models has it, what
//! version is it. Knows no case.

use std::time::Duration;

use reqwest::header::{HeaderMap, LOCATION, SERVER};
use reqwest::{Request, StatusCode};
use serde::Deserialize;

use super::client::{Client, describe};
use super::remedy::{PROXY, PROXY_PASSWORD, remedy};
use sobench_core::error::{Error, Result};
use sobench_core::printable::printable_body;

/// The most bytes of an answer to such a question; a list of models has a few KiB.
const MAX_PROBE_BODY_BYTES: usize = 4 << 20;

/// How much of an answer is quoted in an error.
const QUOTED_CHARS: usize = 400;

const MODELS_PATH: &str = "/v1/models";

/// One model of `/v1/models`, in the words of vLLM and SGLang; other servers give the id only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ModelInfo {
    /// The name that requests have to give.
    pub id: String,
    /// What the model was loaded from: a Hub name or a path, by which a tokenizer may be found.
    pub root: Option<String>,
    /// The longest prompt and answer together, in tokens.
    pub max_model_len: Option<u64>,
    /// Who serves it, e.g. `vllm`, `sglang`, `llamacpp`.
    pub owned_by: Option<String>,
}

/// The models that the server offers, at least one. Environment errors carry the server's own
/// words.
pub async fn models(client: &Client) -> Result<Vec<ModelInfo>> {
    let url = client.options().endpoint.url(MODELS_PATH)?;
    let hint = "name the model with --model if the server does not list it";
    let (status, headers, body) = fetch(client, client.get(url.clone()))
        .await
        .map_err(|why| {
            Error::environment(format!("no answer from {url}: {}", why.words)).hint(
                why.remedy
                    .unwrap_or("is the server up? say where with --base-url, or --host and --port"),
            )
        })?;
    if status != StatusCode::OK {
        let hint = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "set OPENAI_API_KEY, or give the key with --header"
            }
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => PROXY_PASSWORD,
            StatusCode::TOO_MANY_REQUESTS => {
                "the server has a limit on how fast it may be asked: wait, then try again"
            }
            _ => hint,
        };
        if let Some(place) = headers.get(LOCATION).filter(|_| status.is_redirection()) {
            let place = quote(place.as_bytes());
            return Err(Error::environment(format!("{url} answered {}, and points to: {place}", status.as_u16()))
                .hint("redirects are not followed, so that no key goes to another host: give that server as --base-url"));
        }
        return Err(Error::environment(format!(
            "{url} answered {}: {}",
            status.as_u16(),
            quote(&body)
        ))
        .hint(hint));
    }
    let list: ModelList = serde_json::from_slice(&body).map_err(|error| {
        Error::environment(format!(
            "{url} did not list models ({error}): {}",
            quote(&body)
        ))
        .hint(hint)
    })?;
    if list.data.is_empty() {
        return Err(Error::environment(format!("the server offers no model: {url}")).hint(hint));
    }
    Ok(list.data)
}

/// The `version` member of `/version`, as vLLM answers; `None` where there is none.
pub async fn version(client: &Client) -> Option<String> {
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let url = client.options().endpoint.root_url("/version").ok()?;
    let (status, body) = ask(client, client.get(url)).await.ok()?;
    let version: Option<Version> = serde_json::from_slice(&body).ok();
    version
        .filter(|_| status == StatusCode::OK)
        .map(|answer| answer.version)
}

/// One page as the server gave it, whatever its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    /// The `server` header.
    pub server: Option<String>,
    pub body: String,
}

/// The page at a path beside `/v1`, such as `/props`; `None` where no answer came. Pages larger
/// than the bound of every such question count as none.
pub async fn page(client: &Client, path: &str) -> Option<Page> {
    let url = client.options().endpoint.root_url(path).ok()?;
    let (status, headers, body) = fetch(client, client.get(url)).await.ok()?;
    let server = headers
        .get(SERVER)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Some(Page {
        status: status.as_u16(),
        server,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// The most that the server may take to begin or end a profile: it writes it to disk meanwhile.
const MAX_ORDER_TIME: Duration = Duration::from_secs(600);

/// Posts to a path beside `/v1` without a body, such as `/start_profile`. The error is in words.
pub async fn order(client: &Client, path: &str) -> std::result::Result<(), String> {
    let url = client
        .options()
        .endpoint
        .root_url(path)
        .map_err(|error| error.what)?;
    match fetch_within(client, client.post(url), MAX_ORDER_TIME).await {
        Ok((StatusCode::OK, _, _)) => Ok(()),
        Ok((status, _, body)) => Err(format!("{} {}", status.as_u16(), quote(&body))
            .trim_end()
            .to_owned()),
        Err(why) => Err(why.words),
    }
}

/// Waits until the server answers at all, for at most `timeout`; zero does not wait and does not
/// look.
///
/// vLLM's client sends the first real request until one succeeds. This asks for `/v1/models`
/// instead, so that nothing is generated and no grammar is compiled before the run. Any status
/// below 500 counts as ready: a server that refuses the question is up (llama.cpp says 503 while it
/// loads).
pub async fn wait_ready(client: &Client, timeout: Duration) -> Result<()> {
    if timeout.is_zero() {
        return Ok(());
    }
    let url = client.options().endpoint.url(MODELS_PATH)?;
    let mut last = "no answer yet".to_owned();
    let poll = async {
        loop {
            last = match ask(client, client.get(url.clone())).await {
                Ok((status, _)) if status.as_u16() < 500 => return,
                Ok((status, body)) => format!("{}: {}", status.as_u16(), quote(&body)),
                Err(Unanswered {
                    words,
                    remedy: Some(remedy),
                }) => format!("{words}: {remedy}"),
                Err(Unanswered {
                    words,
                    remedy: None,
                }) => words,
            };
            tokio::time::sleep(client.options().limits.ready_poll).await;
        }
    };
    tokio::time::timeout(timeout, poll).await.map_err(|_| {
        Error::environment(format!(
            "the server was not ready within {} s at {url}: {last}",
            timeout.as_secs_f64()
        ))
        .hint("give it longer with --ready-check-timeout-sec, or skip the check with 0")
    })
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ModelInfo>,
}

/// Why there was no answer.
struct Unanswered {
    words: String,
    /// What to do about it, where that is known.
    remedy: Option<&'static str>,
}

impl From<String> for Unanswered {
    fn from(words: String) -> Self {
        Self {
            words,
            remedy: None,
        }
    }
}

/// One question and its answer.
async fn ask(
    client: &Client,
    request: Request,
) -> std::result::Result<(StatusCode, Vec<u8>), Unanswered> {
    fetch(client, request)
        .await
        .map(|(status, _, body)| (status, body))
}

async fn fetch(
    client: &Client,
    request: Request,
) -> std::result::Result<(StatusCode, HeaderMap, Vec<u8>), Unanswered> {
    fetch_within(client, request, client.options().limits.probe_timeout).await
}

async fn fetch_within(
    client: &Client,
    request: Request,
    limit: Duration,
) -> std::result::Result<(StatusCode, HeaderMap, Vec<u8>), Unanswered> {
    let answer = async {
        let mut response = client.http().execute(request).await?;
        let mut body = Vec::new();
        while body.len() <= MAX_PROBE_BODY_BYTES
            && let Some(bytes) = response.chunk().await?
        {
            body.extend_from_slice(&bytes);
        }
        Ok((response.status(), response.headers().clone(), body))
    };
    match tokio::time::timeout(limit, answer).await {
        Ok(Ok((_, _, body))) if body.len() > MAX_PROBE_BODY_BYTES => {
            Err(format!("an answer larger than {MAX_PROBE_BODY_BYTES} bytes").into())
        }
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let error = reqwest::Error::without_url(error);
            let proxy = (client.has_proxy() && error.is_connect()).then_some(PROXY);
            Err(Unanswered {
                words: describe(&error),
                remedy: remedy(&error).or(proxy),
            })
        }
        Err(_) => Err(format!("nothing within {} s", limit.as_secs_f64()).into()),
    }
}

fn quote(body: &[u8]) -> String {
    printable_body(&String::from_utf8_lossy(body), QUOTED_CHARS)
}
