//! Which server is it, by what it says of itself. Pure: reads pages that somebody else fetched.
//!
//! Where the words come from: `/version` is vLLM's (and the embedded server's, which names its engine there), `owned_by` of
//! `/v1/models` names vLLM, SGLang, llama.cpp, LMDeploy and TensorRT-LLM, `/get_server_info` (older name) and `/server_info` are SGLang's and name its
//! grammar backend, `/props` is llama.cpp's, `/info` is Text Generation Inference's, `/api/version` is Ollama's, `/v2` is the
//! server metadata of Triton's inference protocol. A server that says nothing is "unknown": nobody guesses.

use serde_json::Value;

use crate::backend::identify::EMBEDDED_VERSION_PREFIX;
use crate::enforcement::{Product, ServerFacts};

/// A page that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub path: &'static str,
    pub status: u16,
    /// The `server` header.
    pub server: Option<String>,
    pub body: String,
}

impl ServerFacts {
    /// Reads the pages.
    pub fn read(pages: &[Page]) -> Self {
        let mut facts = Self { server_header: pages.iter().find_map(|page| page.server.clone()), ..Self::default() };
        for page in pages.iter().filter(|page| page.status == 200) {
            let Ok(Value::Object(body)) = serde_json::from_str::<Value>(&page.body) else { continue };
            let body = Value::Object(body);
            if facts.read_page(page.path, &body) {
                facts.sources.push(page.path);
            }
        }
        if facts.server_header.as_deref() == Some("llama.cpp") {
            facts.product.get_or_insert(Product::LlamaCpp);
        }
        if facts.product == Some(Product::LlamaCpp) {
            facts.engine.get_or_insert_with(|| "llama.cpp's own grammars".to_owned());
        }
        facts
    }

    /// Takes what a page says; whether it said anything that is known here.
    fn read_page(&mut self, path: &str, body: &Value) -> bool {
        match path {
            "/version" => self.read_version(body),
            "/v1/models" => self.read_models(&body["data"][0]),
            "/get_server_info" | "/server_info" => self.read_sglang(body),
            "/props" => self.read_llama_cpp(body),
            "/info" => self.read_tgi(body),
            "/api/version" => self.read_ollama(body),
            "/v2" => self.read_triton(body),
            _ => false,
        }
    }

    fn read_version(&mut self, body: &Value) -> bool {
        let Some(version) = text(body, "version") else { return false };
        if version.starts_with(EMBEDDED_VERSION_PREFIX) {
            self.product = Some(Product::Embedded);
            self.engine = text(body, "engine_version").or_else(|| text(body, "engine"));
        }
        self.version = Some(version);
        true
    }

    fn read_models(&mut self, first: &Value) -> bool {
        self.model = text(first, "id");
        self.max_model_len = first["max_model_len"].as_u64();
        self.owned_by = text(first, "owned_by");
        self.product = self.product.or(match self.owned_by.as_deref() {
            Some("vllm") => Some(Product::Vllm),
            Some("sglang") => Some(Product::Sglang),
            Some("llamacpp") => Some(Product::LlamaCpp),
            Some("lmdeploy") => Some(Product::Lmdeploy),
            Some("tensorrt_llm") => Some(Product::TensorrtLlm),
            _ => None,
        });
        self.model.is_some()
    }

    fn read_sglang(&mut self, body: &Value) -> bool {
        let Some(engine) = text(body, "grammar_backend") else { return false };
        self.product.get_or_insert(Product::Sglang);
        self.engine.get_or_insert(engine);
        set(&mut self.version, text(body, "version"));
        set(&mut self.model, text(body, "served_model_name"));
        true
    }

    fn read_llama_cpp(&mut self, body: &Value) -> bool {
        if body.get("default_generation_settings").is_none() {
            return false;
        }
        self.product.get_or_insert(Product::LlamaCpp);
        set(&mut self.version, text(body, "build_info"));
        set(&mut self.model, text(body, "model_alias"));
        true
    }

    fn read_tgi(&mut self, body: &Value) -> bool {
        if text(body, "router").is_none_or(|router| !router.starts_with("text-generation-router")) {
            return false;
        }
        self.product.get_or_insert(Product::Tgi);
        set(&mut self.version, text(body, "version"));
        set(&mut self.model, text(body, "model_id"));
        true
    }

    fn read_ollama(&mut self, body: &Value) -> bool {
        let Some(version) = text(body, "version") else { return false };
        self.product.get_or_insert(Product::Ollama);
        self.version.get_or_insert(version);
        true
    }

    fn read_triton(&mut self, body: &Value) -> bool {
        if text(body, "name").as_deref() != Some("triton") {
            return false;
        }
        self.product.get_or_insert(Product::Triton);
        set(&mut self.version, text(body, "version"));
        true
    }
}

fn text(body: &Value, member: &str) -> Option<String> {
    body.get(member)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn set(place: &mut Option<String>, found: Option<String>) {
    if place.is_none() {
        *place = found;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::enforcement::PATHS;

    fn read(pages: &[(&'static str, &str)]) -> ServerFacts {
        let page = |(path, body): &(&'static str, &str)| Page { path, status: 200, server: None, body: (*body).to_owned() };
        ServerFacts::read(&pages.iter().map(page).collect::<Vec<_>>())
    }

    fn check(pages: &[(&'static str, &str)], product: Option<Product>, version: Option<&str>, engine: Option<&str>) {
        let facts = read(pages);
        assert_eq!((facts.product, facts.version.as_deref(), facts.engine.as_deref()), (product, version, engine));
    }

    #[test]
    fn servers_are_told_by_their_own_words() {
        let models = |owner: &str| format!(r#"{{"data":[{{"id":"m","owned_by":"{owner}","max_model_len":4096}}]}}"#);
        check(
            &[("/version", r#"{"version":"0.32.0"}"#), ("/v1/models", &models("vllm"))],
            Some(Product::Vllm),
            Some("0.32.0"),
            None,
        );
        let info = r#"{"grammar_backend":"xgrammar","version":"0.5.23","served_model_name":"tiny"}"#;
        check(
            &[("/v1/models", &models("sglang")), ("/get_server_info", info)],
            Some(Product::Sglang),
            Some("0.5.23"),
            Some("xgrammar"),
        );
        let props = r#"{"default_generation_settings":{},"build_info":"b1-abc","model_alias":"tiny"}"#;
        check(&[("/props", props)], Some(Product::LlamaCpp), Some("b1-abc"), Some("llama.cpp's own grammars"));
        let info = r#"{"router":"text-generation-router","version":"3.3.0","model_id":"a/b"}"#;
        check(&[("/info", info)], Some(Product::Tgi), Some("3.3.0"), None);
        check(&[("/api/version", r#"{"version":"0.9.1"}"#)], Some(Product::Ollama), Some("0.9.1"), None);
        check(&[("/v1/models", &models("lmdeploy"))], Some(Product::Lmdeploy), None, None);
        check(
            &[("/version", r#"{"version":"1.2.0"}"#), ("/v1/models", &models("tensorrt_llm"))],
            Some(Product::TensorrtLlm),
            Some("1.2.0"),
            None,
        );
        check(&[("/v2", r#"{"name":"triton","version":"2.60.0"}"#)], Some(Product::Triton), Some("2.60.0"), None);
        let embedded = r#"{"version":"sobench-embedded 0.1.0","engine":"guidance","engine_version":"llguidance 1.9.1"}"#;
        check(&[("/version", embedded)], Some(Product::Embedded), Some("sobench-embedded 0.1.0"), Some("llguidance 1.9.1"));
    }

    #[test]
    fn a_server_that_says_nothing_is_unknown() {
        for body in ["", "null", "[]", "<html>", "{}", r#"{"version":7,"router":"x","data":[]}"#, r#"{"data":[null]}"#] {
            for path in PATHS {
                let facts = read(&[(path, body)]);
                assert_eq!((facts, ServerFacts::default().sources.len()), (ServerFacts::default(), 0), "{path} {body}");
            }
        }
        let page = Page { path: "/version", status: 404, server: Some("x".to_owned()), body: r#"{"version":"1"}"#.to_owned() };
        let facts = ServerFacts::read(&[page]);
        assert_eq!((facts.version, facts.server_header.as_deref()), (None, Some("x")));
    }

    #[test]
    fn models_give_name_length_and_owner() {
        let facts = read(&[("/v1/models", r#"{"data":[{"id":"a","owned_by":"me","max_model_len":8},{"id":"b"}]}"#)]);
        assert_eq!((facts.model.as_deref(), facts.max_model_len, facts.owned_by.as_deref()), (Some("a"), Some(8), Some("me")));
        assert_eq!((facts.product, facts.sources), (None, vec!["/v1/models"]));
    }
}
