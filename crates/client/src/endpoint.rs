//! Endpoint of the server: base URL, path, headers and API key. Secrets stay out of debug output.

use std::fmt;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};

use sobench_backend::ServerKind;
use sobench_core::error::{Error, Result};

/// The media type of bodies, unless a header or the kind of server sets another one.
pub(super) const JSON: &str = "application/json";

/// The URL and the common headers of all requests.
#[derive(Clone, Default)]
pub struct Endpoint {
    /// With or without a trailing slash or `/v1`.
    pub base_url: String,
    /// The path of the generating endpoint, e.g. `/v1/completions`.
    pub path: String,
    /// `--header` values in order; a later one replaces an earlier one and those of the kind.
    pub headers: Vec<(String, String)>,
    /// The kind of server, which determines the variable of the key, and other headers.
    pub kind: ServerKind,
    pub api_key: Option<ApiKey>,
    /// Whether TLS certificates are accepted without verification.
    pub insecure: bool,
}

/// An API key, which is sent to the server and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Wraps the key, e.g. the value of `OPENAI_API_KEY`.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(***)")
    }
}

/// Shows only the names of headers, whose values may be secret.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            base_url,
            path,
            headers,
            kind,
            api_key,
            insecure,
        } = self;
        let names: Vec<_> = headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Endpoint")
            .field("base_url", base_url)
            .field("path", path)
            .field("headers", &names)
            .field("kind", kind)
            .field("api_key", api_key)
            .field("insecure", insecure)
            .finish()
    }
}

impl Endpoint {
    /// The base URL with user and password redacted.
    pub fn public_base_url(&self) -> String {
        let Ok(mut url) = Url::parse(&self.base_url) else {
            return self.base_url.clone();
        };
        if url.username().is_empty() && url.password().is_none() {
            return self.base_url.clone();
        }
        // Fails only for URLs without a host, which have neither.
        let _ = url
            .set_username("***")
            .and_then(|()| url.set_password(None));
        url.to_string()
    }

    /// The URL of a path under the base URL. A `/v1` at its end is not repeated.
    pub(super) fn url(&self, path: &str) -> Result<Url> {
        let root = self.base_url.trim_end_matches('/');
        let path = path.trim_start_matches('/');
        let path = if root.ends_with("/v1") {
            path.strip_prefix("v1/").unwrap_or(path)
        } else {
            path
        };
        self.parse(&format!("{root}/{path}"))
    }

    /// The URL of a path beside `/v1`, such as `/version`.
    pub(super) fn root_url(&self, path: &str) -> Result<Url> {
        let root = self.base_url.trim_end_matches('/');
        let root = root.strip_suffix("/v1").unwrap_or(root);
        self.parse(&format!("{root}/{}", path.trim_start_matches('/')))
    }

    /// Host and port of the server.
    pub fn authority(&self) -> String {
        let url = self.url("").ok();
        let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
        match url.as_ref().and_then(Url::port) {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        }
    }

    /// The port of the server.
    ///
    /// # Errors
    /// Invalid base URL.
    pub fn port(&self) -> Result<Option<u16>> {
        Ok(self.url("")?.port_or_known_default())
    }

    /// Whether the server is on this machine, so that no proxy is used.
    ///
    /// # Errors
    /// Invalid base URL.
    pub fn is_loopback(&self) -> Result<bool> {
        let url = self.url("")?;
        let host = url
            .host_str()
            .unwrap_or_default()
            .trim_start_matches('[')
            .trim_end_matches(']');
        Ok(host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|address| address.is_loopback()))
    }

    /// The headers of all requests.
    pub(super) fn header_map(&self) -> Result<HeaderMap> {
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let credentials = self.kind.credentials();
        for (name, value) in credentials.headers {
            map.insert(*name, HeaderValue::from_static(value));
        }
        if let Some(ApiKey(key)) = &self.api_key {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| {
                Error::usage("the API key contains characters that are not valid in an HTTP header")
                    .hint(format!(
                        "remove line ends and non-ASCII characters from {}",
                        credentials.variable
                    ))
            })?;
            value.set_sensitive(true);
            map.insert(AUTHORIZATION, value);
        }
        for (name, value) in &self.headers {
            let hint = "write it as NAME=VALUE, with a name of letters, digits and dashes";
            let header = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| Error::usage(format!("invalid header name: {name:?}")).hint(hint))?;
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                Error::usage(format!(
                    "the value contains characters that are not valid in an HTTP header: header {name}"
                ))
                .hint(hint)
            })?;
            value.set_sensitive(true);
            map.insert(header, value);
        }
        Ok(map)
    }

    fn parse(&self, url: &str) -> Result<Url> {
        let bad = || {
            Error::usage(format!("not an HTTP URL: {}", self.base_url))
                .hint("give --base-url with a scheme, for example http://127.0.0.1:8000")
        };
        // The base is parsed alone first: with a path appended, `http:///v1` would have the host
        // `v1`.
        let base = Url::parse(&self.base_url).map_err(|_| bad())?;
        if !matches!(base.scheme(), "http" | "https")
            || base.query().is_some()
            || base.fragment().is_some()
        {
            return Err(bad());
        }
        Url::parse(url).map_err(|_| bad())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(base_url: &str) -> Endpoint {
        let headers = vec![("x-token".to_owned(), "s3cret".to_owned())];
        let api_key = Some(ApiKey::new("s3cret"));
        Endpoint {
            base_url: base_url.to_owned(),
            path: "/v1/completions".to_owned(),
            headers,
            api_key,
            ..Endpoint::default()
        }
    }

    #[test]
    fn base_urls_of_every_form() {
        for (base_url, url, version) in [
            (
                "http://h:8000",
                "http://h:8000/v1/completions",
                "http://h:8000/version",
            ),
            (
                "http://h:8000/",
                "http://h:8000/v1/completions",
                "http://h:8000/version",
            ),
            (
                "http://h:8000/v1",
                "http://h:8000/v1/completions",
                "http://h:8000/version",
            ),
            (
                "https://h/api/v1/",
                "https://h/api/v1/completions",
                "https://h/api/version",
            ),
            (
                "https://h/api",
                "https://h/api/v1/completions",
                "https://h/api/version",
            ),
        ] {
            let endpoint = endpoint(base_url);
            assert_eq!(endpoint.url(&endpoint.path).unwrap().as_str(), url);
            assert_eq!(endpoint.root_url("/version").unwrap().as_str(), version);
        }
        assert_eq!(
            endpoint("http://h/v1").url("generate").unwrap().as_str(),
            "http://h/v1/generate"
        );
    }

    #[test]
    fn invalid_urls_are_refused() {
        for base_url in [
            "localhost:8000",
            "127.0.0.1:8000",
            "ftp://h",
            "http://",
            "http://h?x=1",
            "",
        ] {
            let error = endpoint(base_url).url("/v1/models").unwrap_err();
            assert_eq!(
                (error.exit_code(), error.what),
                (2, format!("not an HTTP URL: {base_url}"))
            );
        }
    }

    #[test]
    fn loopback_is_recognised() {
        for (base_url, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.9", true),
            ("http://[::1]:80/v1", true),
            ("http://10.0.0.1", false),
            ("https://localhost.example", false),
        ] {
            assert_eq!(
                endpoint(base_url).is_loopback().unwrap(),
                expected,
                "{base_url}"
            );
        }
    }

    #[test]
    fn secrets_stay_out_of_debug_output() {
        let endpoint = endpoint("http://h");
        let shown = format!("{endpoint:?} {:?}", endpoint.header_map().unwrap());
        assert!(!shown.contains("s3cret"), "{shown}");
        assert_eq!(
            endpoint.header_map().unwrap()[AUTHORIZATION],
            "Bearer s3cret"
        );
        let anthropic = Endpoint {
            kind: ServerKind::Anthropic,
            ..endpoint
        };
        let headers = anthropic.header_map().unwrap();
        assert_eq!(headers[AUTHORIZATION], "Bearer s3cret");
        assert_eq!(headers["anthropic-version"], "2026-10-21");
    }

    #[test]
    fn user_headers_win_and_invalid_ones_are_reported() {
        let mut endpoint = endpoint("http://h");
        endpoint
            .headers
            .push(("Authorization".to_owned(), "Basic x".to_owned()));
        assert_eq!(endpoint.header_map().unwrap()[AUTHORIZATION], "Basic x");
        endpoint
            .headers
            .push(("bad name".to_owned(), "x".to_owned()));
        assert_eq!(
            endpoint.header_map().unwrap_err().what,
            "invalid header name: \"bad name\""
        );
        endpoint.headers = vec![("x-a".to_owned(), "a\nb".to_owned())];
        assert!(
            endpoint
                .header_map()
                .unwrap_err()
                .what
                .ends_with("header x-a")
        );
    }
}
