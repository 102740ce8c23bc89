//! Server products and how to identify them: by information pages, model owner or header.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::ServerKind;

/// Pages of several products, requested before product-specific ones: `/version` of vLLM and the
/// embedded server, `/v1/models` of OpenAI's API.
const COMMON_PAGES: [&str; 2] = ["/version", "/v1/models"];

/// Names and identification of a product.
pub(crate) struct ProductSpec {
    /// The name in result files.
    pub(super) name: &'static str,
    /// The display name.
    pub(super) label: &'static str,
    /// `owned_by` of its models.
    pub(super) owned_by: Option<&'static str>,
    /// The `server` header of its responses.
    pub(super) server_header: Option<&'static str>,
    /// Information pages, in the order in which they are requested.
    pub(super) pages: &'static [InfoPage],
    /// The library that enforces constraints, if it is fixed and not reported.
    pub(super) engine: Option<&'static str>,
    /// Whether it accepts requests with vLLM's constraint fields but ignores the fields.
    pub(super) ignores_vllm_fields: bool,
    /// Whether its chat completions read the token limit from `max_tokens` only.
    pub(super) max_tokens_only: bool,
}

impl ProductSpec {
    /// A product without identification.
    pub(super) const fn new(name: &'static str, label: &'static str) -> Self {
        Self {
            name,
            label,
            owned_by: None,
            server_header: None,
            pages: &[],
            engine: None,
            ignores_vllm_fields: false,
            max_tokens_only: false,
        }
    }
}

/// An information page of a product.
pub(crate) struct InfoPage {
    pub(super) path: &'static str,
    /// Parses the page; `None` if it is of another product.
    pub(super) read: fn(&Value) -> Option<ServerInfo>,
}

/// The contents of an information page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerInfo {
    pub version: Option<String>,
    /// The library that enforces constraints, as the server reports it.
    pub engine: Option<String>,
    pub model: Option<String>,
}

/// A non-empty text member of a page.
pub fn text_member(page: &Value, member: &str) -> Option<String> {
    page.get(member)?
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// A server product; see [`ServerKind::product`].
#[derive(Clone, Copy, schemars::JsonSchema)]
#[schemars(with = "String")]
pub struct Product(&'static ProductSpec);

impl Product {
    /// The server of `sobench serve`, which supports the formats of other kinds.
    pub const EMBEDDED: Self = Self(&ProductSpec::new("embedded", "sobench's embedded server"));

    /// The server of llama-cpp-python, which has no kind of its own. Source:
    /// `llama_cpp/server/app.py` and `types.py` of 0.3.36; its issue 1907.
    const LLAMA_CPP_PYTHON: Self = Self(&ProductSpec {
        owned_by: Some("me"),
        engine: Some("llama.cpp grammars"),
        ignores_vllm_fields: true,
        max_tokens_only: true,
        ..ProductSpec::new("llama_cpp_python", "llama-cpp-python")
    });

    pub(super) const fn new(spec: &'static ProductSpec) -> Self {
        Self(spec)
    }

    /// Every product.
    pub fn all() -> impl Iterator<Item = Self> {
        ServerKind::ALL
            .into_iter()
            .filter_map(ServerKind::product)
            .chain([Self::EMBEDDED, Self::LLAMA_CPP_PYTHON])
    }

    /// The name in result files.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The display name.
    pub fn label(self) -> &'static str {
        self.0.label
    }

    /// The library that enforces constraints, if it is fixed.
    pub fn engine(self) -> Option<&'static str> {
        self.0.engine
    }

    /// Whether it accepts requests with vLLM's constraint fields but ignores the fields.
    pub(super) fn ignores_vllm_fields(self) -> bool {
        self.0.ignores_vllm_fields
    }

    /// Whether its chat completions read the token limit from `max_tokens` only.
    pub fn reads_max_tokens_only(self) -> bool {
        self.0.max_tokens_only
    }

    /// The product with this model owner.
    pub fn by_owner(owned_by: &str) -> Option<Self> {
        Self::all().find(|product| product.0.owned_by == Some(owned_by))
    }

    /// The product with this `server` header.
    pub fn by_header(header: &str) -> Option<Self> {
        Self::all().find(|product| product.0.server_header == Some(header))
    }

    /// The paths to request, most reliable first.
    pub fn page_paths() -> impl Iterator<Item = &'static str> {
        let own = Self::all().flat_map(|product| product.0.pages.iter().map(|page| page.path));
        COMMON_PAGES.into_iter().chain(own)
    }

    /// The product of a page, and the page's contents.
    pub fn by_page(path: &str, body: &Value) -> Option<(Self, ServerInfo)> {
        Self::all().find_map(|product| {
            let page = product.0.pages.iter().find(|page| page.path == path)?;
            Some((product, (page.read)(body)?))
        })
    }
}

impl PartialEq for Product {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Product {}

impl std::fmt::Debug for Product {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Product {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Product {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let found = Self::all().find(|product| product.name() == name);
        found.ok_or_else(|| serde::de::Error::custom(format!("unknown product: {name}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_have_distinct_names_and_pages() {
        let products: Vec<Product> = Product::all().collect();
        for (place, product) in products.iter().enumerate() {
            assert!(!products[..place].contains(product), "{product:?}");
            let read: Product =
                serde_json::from_value(serde_json::to_value(product).unwrap()).unwrap();
            assert_eq!((read, read.label()), (*product, product.label()));
        }
        let paths: Vec<&str> = Product::page_paths().collect();
        assert!(
            (0..paths.len()).all(|place| !paths[..place].contains(&paths[place])),
            "{paths:?}"
        );
        assert!(serde_json::from_str::<Product>("\"nginx\"").is_err());
    }
}
