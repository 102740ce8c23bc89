//! Server software that is recognised by what it says of itself: at pages of its own, as the owner
//! of its models, in a header.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::ServerKind;

/// Pages that several products have, asked for before those of one product: `/version` is vLLM's
/// and the embedded server's, `/v1/models` is in OpenAI's API.
const COMMON_PAGES: [&str; 2] = ["/version", "/v1/models"];

/// How a product is recognised, and what it is called.
pub(crate) struct ProductSpec {
    /// The name in files.
    pub(super) name: &'static str,
    /// The name for people.
    pub(super) label: &'static str,
    /// `owned_by` of the models that it lists.
    pub(super) owned_by: Option<&'static str>,
    /// The `server` header of its answers.
    pub(super) server_header: Option<&'static str>,
    /// Pages on which it describes itself, in the order in which they are asked for.
    pub(super) pages: &'static [InfoPage],
    /// The library that enforces constraints, where it is always the same and not stated.
    pub(super) engine: Option<&'static str>,
    /// Whether it answers requests with vLLM's fields for constraints and ignores these fields.
    pub(super) ignores_vllm_fields: bool,
}

impl ProductSpec {
    /// A product that says nothing of itself.
    pub(super) const fn new(name: &'static str, label: &'static str) -> Self {
        Self {
            name,
            label,
            owned_by: None,
            server_header: None,
            pages: &[],
            engine: None,
            ignores_vllm_fields: false,
        }
    }
}

/// A page on which a product describes itself.
pub(crate) struct InfoPage {
    pub(super) path: &'static str,
    /// Reads the page; `None` if it is not this product's.
    pub(super) read: fn(&Value) -> Option<Info>,
}

/// What a page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pub version: Option<String>,
    /// The library that enforces constraints, in the server's words.
    pub engine: Option<String>,
    pub model: Option<String>,
}

/// A text member of a page that is not empty.
pub fn text_member(page: &Value, member: &str) -> Option<String> {
    page.get(member)?
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// A product, as [`ServerKind::product`] gives it.
#[derive(Clone, Copy)]
pub struct Product(&'static ProductSpec);

impl Product {
    /// The server of `sobench serve`. It speaks the formats of other kinds and has none of its own.
    pub const EMBEDDED: Self = Self(&ProductSpec::new("embedded", "sobench's embedded server"));

    pub(super) const fn new(spec: &'static ProductSpec) -> Self {
        Self(spec)
    }

    /// Every product.
    pub fn all() -> impl Iterator<Item = Self> {
        ServerKind::ALL
            .into_iter()
            .filter_map(ServerKind::product)
            .chain([Self::EMBEDDED])
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// The name for people.
    pub fn label(self) -> &'static str {
        self.0.label
    }

    /// The library that enforces constraints, where it is always the same.
    pub fn engine(self) -> Option<&'static str> {
        self.0.engine
    }

    /// Whether it answers requests with vLLM's fields for constraints and ignores these fields.
    pub(super) fn ignores_vllm_fields(self) -> bool {
        self.0.ignores_vllm_fields
    }

    /// The product that lists models of this owner.
    pub fn by_owner(owned_by: &str) -> Option<Self> {
        Self::all().find(|product| product.0.owned_by == Some(owned_by))
    }

    /// The product that answers with this `server` header.
    pub fn by_header(header: &str) -> Option<Self> {
        Self::all().find(|product| product.0.server_header == Some(header))
    }

    /// The pages that are asked for, by the order in which they are believed.
    pub fn page_paths() -> impl Iterator<Item = &'static str> {
        let own = Self::all().flat_map(|product| product.0.pages.iter().map(|page| page.path));
        COMMON_PAGES.into_iter().chain(own)
    }

    /// The product whose page this is, and what it says.
    pub fn by_page(path: &str, body: &Value) -> Option<(Self, Info)> {
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
    fn products_have_names_and_pages_of_their_own() {
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
