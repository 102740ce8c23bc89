//! Requests about the server, outside the timed run: readiness, models, version.

use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, LOCATION, SERVER};
use reqwest::{Request, StatusCode};
use serde::Deserialize;

use super::client::{Client, describe};
use super::connection_hint::{PROXY_HINT, PROXY_PASSWORD_HINT, connection_hint};
use sobench_backend::StreamFault;
use sobench_core::error::{Error, Result};
use sobench_core::observation::{Observation, Outcome, failure_message};
use sobench_core::printable::{printable_body, printable_message};

/// Maximum body size of such a response in bytes; a list of models takes a few KiB.
const MAX_PROBE_BODY_BYTES: usize = 4 << 20;

const MODELS_PATH: &str = "/v1/models";

/// One model of `/v1/list_models`, with the fields of vLLM and SGLang; other servers give the id
/// only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct ModelInfo {
    /// The model name for requests.
    pub id: String,
    /// The Hub name or path that the model was loaded from; it can locate a tokenizer.
    pub root: Option<String>,
    /// Maximum number of tokens of prompt and answer together.
    pub max_model_len: Option<u64>,
    /// The serving software, for example `vllm`, `sglang`, `llamacpp`.
    pub owned_by: Option<String>,
}

/// The models that the server lists, at least one. Errors quote the server's response.
pub async fn list_models(client: &Client) -> Result<Vec<ModelInfo>> {
    let url = client.options().endpoint.url(MODELS_PATH)?;
    let hint = "check that --base-url is an OpenAI-compatible server; if it lists no models, name one with --model";
    let (status, headers, body) =
        fetch(client, client.get(url.clone()))
            .await
            .map_err(|failure| {
                Error::environment(format!("no response from {url}: {}", failure.message)).hint(
                    failure
                        .hint
                        .unwrap_or("start the server, or give its address with --base-url"),
                )
            })?;
    if status != StatusCode::OK {
        let key_hint = client.options().endpoint.kind.credentials().hint();
        let hint = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => &key_hint,
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => PROXY_PASSWORD_HINT,
            StatusCode::TOO_MANY_REQUESTS => {
                "wait until the server's rate limit allows another request, then try again"
            }
            _ => hint,
        };
        if let Some(target) = headers.get(LOCATION).filter(|_| status.is_redirection()) {
            let target = quote(target.as_bytes());
            return Err(Error::environment(format!("{url} returned {} and redirects to: {target}", status.as_u16()))
                .hint("give the target as --base-url; redirects are not followed, so that the API key is not sent to another host"));
        }
        return Err(Error::environment(format!(
            "{url} returned {}: {}",
            status.as_u16(),
            quote(&body)
        ))
        .hint(hint));
    }
    if let Some(coding) = headers.get(CONTENT_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        let coding = quote(coding.as_bytes());
        let what = format!("{url}: {}", StreamFault::Compressed.message(&coding));
        return Err(Error::environment(what).hint(StreamFault::Compressed.hint()));
    }
    let list: ModelList = serde_json::from_slice(&body).map_err(|error| {
        Error::environment(format!(
            "{url} did not return a list of models ({error}): {}",
            quote(&body)
        ))
        .hint(hint)
    })?;
    if list.data.is_empty() {
        return Err(Error::environment(format!("the server lists no models: {url}")).hint(hint));
    }
    Ok(list.data)
}

/// The `version` member of `/version`, as vLLM has it; `None` if there is none.
pub async fn server_version(client: &Client) -> Option<String> {
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let url = client.options().endpoint.root_url("/version").ok()?;
    let (status, body) = fetch_status_and_body(client, client.get(url)).await.ok()?;
    let version: Option<Version> = serde_json::from_slice(&body).ok();
    version
        .filter(|_| status == StatusCode::OK)
        .map(|answer| answer.version)
}

/// A response to a probe, with any status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResponse {
    pub status: u16,
    /// The `server` header.
    pub server: Option<String>,
    pub body: String,
}

/// Gets a path beside `/v1`, such as `/props`; `None` without a response, or if it exceeds the
/// maximum size.
pub async fn get_path(client: &Client, path: &str) -> Option<ProbeResponse> {
    let url = client.options().endpoint.root_url(path).ok()?;
    let (status, headers, body) = fetch(client, client.get(url)).await.ok()?;
    let server = headers
        .get(SERVER)
        .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Some(ProbeResponse {
        status: status.as_u16(),
        server,
        body: String::from_utf8_lossy(&body).into_owned(),
    })
}

/// Posts JSON to a path beside `/v1`, such as `/tokenize`, and returns the JSON of a response with
/// status 200; `None` without one.
pub async fn post_json(
    client: &Client,
    path: &str,
    body: &serde_json::Value,
) -> Option<serde_json::Value> {
    let mut request = client.post(client.options().endpoint.root_url(path).ok()?);
    request
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *request.body_mut() = Some(body.to_string().into());
    let (status, body) = fetch_status_and_body(client, request).await.ok()?;
    serde_json::from_slice(&body)
        .ok()
        .filter(|_| status == StatusCode::OK)
}

/// Timeout for starting or stopping a profile, which the server writes to disk.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(600);

/// Posts to a path beside `/v1` without a body, such as `/start_profile`. The error is a message.
pub async fn post_command(client: &Client, path: &str) -> std::result::Result<(), String> {
    let url = client
        .options()
        .endpoint
        .root_url(path)
        .map_err(|error| error.what)?;
    match fetch_within(client, client.post(url), PROFILE_TIMEOUT).await {
        Ok((StatusCode::OK, _, _)) => Ok(()),
        Ok((status, _, body)) => Err(format!("{} {}", status.as_u16(), quote(&body))
            .trim_end()
            .to_owned()),
        Err(failure) => Err(failure.message),
    }
}

/// Waits until the server responds, for at most `timeout`; zero skips the check.
///
/// vLLM's client sends the first real request until one succeeds. This requests `/v1/list_models`
/// instead, so that nothing is generated and no grammar is compiled before the run. Any status
/// below 500 counts as ready, also a refusal; llama.cpp returns 503 while it loads.
pub async fn wait_ready(client: &Client, timeout: Duration) -> Result<()> {
    if timeout.is_zero() {
        return Ok(());
    }
    let url = client.options().endpoint.url(MODELS_PATH)?;
    let mut last = "no response yet".to_owned();
    let poll = async {
        loop {
            last = match fetch_status_and_body(client, client.get(url.clone())).await {
                Ok((status, _)) if status.as_u16() < 500 => return,
                Ok((status, body)) => format!("{}: {}", status.as_u16(), quote(&body)),
                Err(NoResponse {
                    message,
                    hint: Some(hint),
                }) => format!("{message}: {hint}"),
                Err(NoResponse {
                    message,
                    hint: None,
                }) => message,
            };
            tokio::time::sleep(client.options().limits.ready_poll).await;
        }
    };
    tokio::time::timeout(timeout, poll).await.map_err(|_| {
        Error::environment(format!(
            "the server at {url} was not ready within {} s: {last}",
            timeout.as_secs_f64()
        ))
        .hint("raise --ready-check-timeout-sec, or skip the check with 0")
    })
}

/// Repeats a test request until the server answers it, or refuses it for another reason than that it
/// loads its model, for at most `timeout`; zero skips the check. A server may list its models before
/// it has loaded them. vLLM's `wait_for_endpoint` repeats it too.
///
/// # Errors
/// The server is not ready in time; as for `send`.
pub async fn wait_until_loaded(
    client: &Client,
    timeout: Duration,
    mut send: impl AsyncFnMut() -> Result<Observation>,
) -> Result<()> {
    if timeout.is_zero() {
        return Ok(());
    }
    let pause = client.options().limits.ready_poll;
    let mut last = "no response yet".to_owned();
    let answered = async {
        loop {
            let seen = send().await?;
            let is_loading = matches!(
                seen.outcome,
                Outcome::Transport { .. }
                    | Outcome::ServerError {
                        status: 500..=504,
                        ..
                    }
            );
            if !is_loading {
                return Ok(());
            }
            last = printable_message(&failure_message(&seen.outcome));
            tokio::time::sleep(pause).await;
        }
    };
    let waited = tokio::time::timeout(timeout, answered).await;
    waited.unwrap_or_else(|_| {
        let limit_s = timeout.as_secs_f64();
        Err(Error::environment(format!(
            "the server did not answer a test request within {limit_s} s: {last}"
        ))
        .hint("raise --ready-check-timeout-sec, or check the server's log"))
    })
}

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ModelInfo>,
}

/// Why there was no response.
struct NoResponse {
    message: String,
    /// A hint for the user, if there is one.
    hint: Option<&'static str>,
}

impl From<String> for NoResponse {
    fn from(message: String) -> Self {
        Self {
            message,
            hint: None,
        }
    }
}

/// Sends one request and returns status and body.
async fn fetch_status_and_body(
    client: &Client,
    request: Request,
) -> std::result::Result<(StatusCode, Vec<u8>), NoResponse> {
    fetch(client, request)
        .await
        .map(|(status, _, body)| (status, body))
}

async fn fetch(
    client: &Client,
    request: Request,
) -> std::result::Result<(StatusCode, HeaderMap, Vec<u8>), NoResponse> {
    fetch_within(client, request, client.options().limits.probe_timeout).await
}

async fn fetch_within(
    client: &Client,
    request: Request,
    limit: Duration,
) -> std::result::Result<(StatusCode, HeaderMap, Vec<u8>), NoResponse> {
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
            Err(format!("the response exceeds {MAX_PROBE_BODY_BYTES} bytes").into())
        }
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let error = reqwest::Error::without_url(error);
            let proxy = (client.has_proxy() && error.is_connect()).then_some(PROXY_HINT);
            Err(NoResponse {
                message: describe(&error),
                hint: connection_hint(&error).or(proxy),
            })
        }
        Err(_) => Err(format!("no response within {} s", limit.as_secs_f64()).into()),
    }
}

fn quote(body: &[u8]) -> String {
    printable_body(&String::from_utf8_lossy(body))
}
