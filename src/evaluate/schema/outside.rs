//! Refuses what lies outside of a schema's document, and says which document that is. Knows the registry that references are resolved by;
//! knows no keyword.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{Retrieve, Uri};
use referencing::{Draft, Error, Registry, ResourceRef};

/// What the registry calls a document without an address of its own: it says nothing to anybody.
const NO_BASE: &str = "json-schema:///";

type Retrieved = Result<serde_json::Value, Box<dyn std::error::Error + Send + Sync>>;

/// Refuses to leave the document: a schema never makes us open a socket or a file.
pub(super) struct NothingOutside;

impl Retrieve for NothingOutside {
    fn retrieve(&self, uri: &Uri<String>) -> Retrieved {
        Err(format!("{uri} is outside the document").into())
    }
}

/// Builds the registry that the validator will build for the document `resource` at `base`.
///
/// # Errors
/// A reference that leads out of the document, always the same one: the registry meets them in any order. Others as the registry's.
pub(super) fn registry<'a>(base: &str, draft: Draft, resource: ResourceRef<'a>) -> Result<Registry<'a>, Error> {
    let built = prepared(base, draft, resource, NothingOutside);
    let Err(Error::Unretrievable { uri, source }) = built else { return built };
    let uri = first_outside(base, draft, resource).unwrap_or(uri);
    Err(Error::Unretrievable { uri, source })
}

fn prepared<'a>(
    base: &str,
    draft: Draft,
    resource: ResourceRef<'a>,
    retriever: impl Retrieve + 'static,
) -> Result<Registry<'a>, Error> {
    Registry::new().retriever(retriever).draft(draft).add(base, resource)?.prepare()
}

/// The first document, by its address, that a reference leads to. The registry asks for what `$schema` names as well, and goes on without:
/// which is which shows in whether it goes on.
fn first_outside(base: &str, draft: Draft, resource: ResourceRef<'_>) -> Option<String> {
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    // Whatever comes of it: the registry has asked for everything by then.
    drop(prepared(base, draft, resource, Pretends { asked: Arc::clone(&asked), refused: None }));
    let asked: Vec<String> = asked.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
    let goes_on = |last: &String| {
        let pretends = Pretends { asked: Arc::default(), refused: Some(last.clone()) };
        !matches!(prepared(base, draft, resource, pretends), Err(Error::Unretrievable { .. }))
    };
    let first = asked.get(asked.partition_point(goes_on))?;
    Some(first.strip_prefix(NO_BASE).unwrap_or(first).to_owned())
}

/// Answers that every document is there and empty but for those up to `refused`, and keeps what it was asked for.
struct Pretends {
    asked: Arc<Mutex<BTreeSet<String>>>,
    refused: Option<String>,
}

impl Retrieve for Pretends {
    fn retrieve(&self, uri: &Uri<String>) -> Retrieved {
        if self.refused.as_deref().is_some_and(|last| uri.as_str() <= last) {
            return NothingOutside.retrieve(uri);
        }
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(uri.as_str().to_owned());
        Ok(serde_json::Value::Bool(true))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_several_references_out_of_a_document_always_the_first_by_address_is_named() {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "properties": {
                "a": { "$schema": "a.json" },
                "b": { "$ref": "d.json#/x" }, "c": { "$ref": "c.json#/x" }, "d": { "$ref": "c.json#/y" }, "e": { "$ref": "~/$defs/b" }
            }
        });
        for (base, named) in [("json-schema:///", "c.json"), ("https://example.com/s/", "https://example.com/s/c.json")] {
            // Each registry has an order of its own.
            for _ in 0..20 {
                let resource = Draft::Draft202012.create_resource_ref(&schema);
                let Err(Error::Unretrievable { uri, .. }) = registry(base, Draft::Draft202012, resource) else {
                    panic!("{base}")
                };
                assert_eq!(uri, named);
            }
        }
    }
}
