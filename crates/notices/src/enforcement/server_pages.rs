//! Identifies a server from its pages, such as `/version`, `/v1/models` and pages of one product.
//!
//! Common pages are read here, pages of one product by its kind (`crates/backend/src/kind`).
//! `/version` belongs to vLLM and the embedded server, which adds its engine. `owned_by` in
//! `/v1/models` names the product in most OpenAI-compatible servers.

use serde_json::Value;

use sobench_backend::identify::EMBEDDED_VERSION_PREFIX;
use sobench_backend::{Product, text_member};

use super::ServerFacts;

/// A fetched page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub path: &'static str,
    pub status: u16,
    /// The `server` header.
    pub server: Option<String>,
    pub body: String,
}

impl ServerFacts {
    /// Identifies the server from its pages.
    pub fn from_pages(pages: &[Page]) -> Self {
        let mut facts = Self {
            server_header: pages.iter().find_map(|page| page.server.clone()),
            ..Self::default()
        };
        for page in pages.iter().filter(|page| page.status == 200) {
            let Ok(body @ Value::Object(_)) = serde_json::from_str(&page.body) else {
                continue;
            };
            if facts.read_page(page.path, &body) {
                facts.sources.push(page.path);
            }
        }
        facts.product = facts
            .product
            .or_else(|| Product::by_header(facts.server_header.as_deref()?));
        facts.engine = facts
            .engine
            .or_else(|| facts.product.and_then(Product::engine).map(str::to_owned));
        facts
    }

    /// Reads a page and returns whether it contained known members.
    fn read_page(&mut self, path: &str, body: &Value) -> bool {
        match path {
            "/version" => self.read_version(body),
            "/v1/models" => self.read_models(&body["data"][0]),
            _ => self.read_product(path, body),
        }
    }

    fn read_version(&mut self, body: &Value) -> bool {
        let Some(version) = text_member(body, "version") else {
            return false;
        };
        if version.starts_with(EMBEDDED_VERSION_PREFIX) {
            self.product = Some(Product::EMBEDDED);
            self.engine =
                text_member(body, "engine_version").or_else(|| text_member(body, "engine"));
        }
        self.version = Some(version);
        true
    }

    fn read_models(&mut self, first: &Value) -> bool {
        self.model = text_member(first, "id");
        self.max_model_len = first["max_model_len"].as_u64();
        self.owned_by = text_member(first, "owned_by");
        self.product = self
            .product
            .or_else(|| Product::by_owner(self.owned_by.as_deref()?));
        self.model.is_some()
    }

    /// Reads a page that is specific to one product.
    fn read_product(&mut self, path: &str, body: &Value) -> bool {
        let Some((product, info)) = Product::by_page(path, body) else {
            return false;
        };
        self.product.get_or_insert(product);
        self.engine = self.engine.take().or(info.engine);
        self.version = self.version.take().or(info.version);
        self.model = self.model.take().or(info.model);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sobench_backend::ServerKind;

    fn read(pages: &[(&'static str, &str)]) -> ServerFacts {
        let page = |(path, body): &(&'static str, &str)| Page {
            path,
            status: 200,
            server: None,
            body: (*body).to_owned(),
        };
        ServerFacts::from_pages(&pages.iter().map(page).collect::<Vec<_>>())
    }

    fn check(
        pages: &[(&'static str, &str)],
        kind: ServerKind,
        version: Option<&str>,
        engine: Option<&str>,
    ) {
        let facts = read(pages);
        assert_eq!(
            (
                facts.product,
                facts.version.as_deref(),
                facts.engine.as_deref()
            ),
            (kind.product(), version, engine)
        );
    }

    #[test]
    fn servers_are_identified_by_their_pages() {
        let models = |owner: &str| {
            format!(r#"{{"data":[{{"id":"m","owned_by":"{owner}","max_model_len":4096}}]}}"#)
        };
        check(
            &[
                ("/version", r#"{"version":"0.32.0"}"#),
                ("/v1/models", &models("vllm")),
            ],
            ServerKind::Vllm,
            Some("0.32.0"),
            None,
        );
        let info =
            r#"{"grammar_backend":"xgrammar","version":"0.5.23","served_model_name":"tiny"}"#;
        check(
            &[
                ("/v1/models", &models("sglang")),
                ("/get_server_info", info),
            ],
            ServerKind::Sglang,
            Some("0.5.23"),
            Some("xgrammar"),
        );
        let props =
            r#"{"default_generation_settings":{},"build_info":"b1-abc","model_alias":"tiny"}"#;
        check(
            &[("/props", props)],
            ServerKind::LlamaCpp,
            Some("b1-abc"),
            Some("llama.cpp grammars"),
        );
        let info = r#"{"router":"text-generation-router","version":"3.3.0","model_id":"a/b"}"#;
        check(&[("/info", info)], ServerKind::Tgi, Some("3.3.0"), None);
        check(
            &[("/api/version", r#"{"version":"0.9.1"}"#)],
            ServerKind::Ollama,
            Some("0.9.1"),
            None,
        );
        check(
            &[("/v1/models", &models("lmdeploy"))],
            ServerKind::Lmdeploy,
            None,
            None,
        );
        check(
            &[
                ("/version", r#"{"version":"1.2.0"}"#),
                ("/v1/models", &models("tensorrt_llm")),
            ],
            ServerKind::TrtllmServe,
            Some("1.2.0"),
            None,
        );
        check(
            &[("/v2", r#"{"name":"triton","version":"2.60.0"}"#)],
            ServerKind::TensorrtLlm,
            Some("2.60.0"),
            None,
        );
        let embedded = r#"{"version":"sobench-embedded 0.1.0","engine":"guidance","engine_version":"llguidance 1.9.1"}"#;
        let facts = read(&[("/version", embedded)]);
        assert_eq!(
            (facts.product, facts.engine.as_deref()),
            (Some(Product::EMBEDDED), Some("llguidance 1.9.1"))
        );
        assert_eq!(facts.version.as_deref(), Some("sobench-embedded 0.1.0"));
    }

    #[test]
    fn a_server_without_known_pages_is_unknown() {
        for body in [
            "",
            "null",
            "[]",
            "<html>",
            "{}",
            r#"{"version":7,"router":"x","data":[]}"#,
            r#"{"data":[null]}"#,
        ] {
            for path in Product::page_paths() {
                let facts = read(&[(path, body)]);
                assert_eq!(
                    (facts, ServerFacts::default().sources.len()),
                    (ServerFacts::default(), 0),
                    "{path} {body}"
                );
            }
        }
        let page = Page {
            path: "/version",
            status: 404,
            server: Some("x".to_owned()),
            body: r#"{"version":"1"}"#.to_owned(),
        };
        let facts = ServerFacts::from_pages(&[page]);
        assert_eq!(
            (facts.version, facts.server_header.as_deref()),
            (None, Some("x"))
        );
    }

    #[test]
    fn models_page_gives_name_length_and_owner() {
        let facts = read(&[(
            "/v1/models",
            r#"{"data":[{"id":"a","owned_by":"an owner","max_model_len":8},{"id":"b"}]}"#,
        )]);
        assert_eq!(
            (
                facts.model.as_deref(),
                facts.max_model_len,
                facts.owned_by.as_deref()
            ),
            (Some("a"), Some(8), Some("an owner"))
        );
        assert_eq!((facts.product, facts.sources), (None, vec!["/v1/models"]));
    }
}
