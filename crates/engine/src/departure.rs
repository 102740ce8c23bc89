//! Departures from the meaning of a constraint that an engine's documentation declares. Each engine
//! lists its departures in its `SPEC`. Findings that a declared departure explains are counted
//! separately from errors.
//!
//! Departures that are widely known but not documented are not listed, because users cannot rely on
//! them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EngineName;
use sobench_core::constraint::Constraint;

/// Kind of departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Departure {
    /// Object members are restricted to the order of the schema.
    MemberOrder,
    /// No white space before the first and after the last byte.
    OuterWhiteSpace,
    /// At most one space between two tokens.
    WhiteSpace,
    /// Only some escapes in strings.
    Escapes,
    /// Not all characters that a string can contain.
    Characters,
    /// No members and items that the schema does not name, even if it allows additional ones.
    AdditionalProperties,
    /// Only one spelling of a number.
    Numbers,
    /// Only the tokenizer's canonical tokens for forced text.
    CanonicalTokens,
    /// A keyword that the library does not list as supported has no effect.
    UnlistedKeyword,
    /// Nested references are followed to a limited depth. Deeper references are left out.
    References,
    /// With `any_order` in a structural tag, only the number of members counts: required ones may
    /// be missing.
    AnyOrder,
}

impl Departure {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::MemberOrder,
        Self::OuterWhiteSpace,
        Self::WhiteSpace,
        Self::Escapes,
        Self::Characters,
        Self::AdditionalProperties,
        Self::Numbers,
        Self::CanonicalTokens,
        Self::UnlistedKeyword,
        Self::References,
        Self::AnyOrder,
    ];

    /// Name in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Self::MemberOrder => "member order",
            Self::OuterWhiteSpace => "outer white space",
            Self::WhiteSpace => "white space",
            Self::Escapes => "escapes",
            Self::Characters => "characters",
            Self::AdditionalProperties => "additional properties",
            Self::Numbers => "numbers",
            Self::CanonicalTokens => "canonical tokens",
            Self::UnlistedKeyword => "unlisted keyword",
            Self::References => "references",
            Self::AnyOrder => "any order",
        }
    }
}

/// Departure that an engine declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct DeclaredDeparture {
    pub departure: Departure,
    /// Behaviour of the engine.
    pub what: &'static str,
    /// Document that declares the departure, and the section.
    pub source: &'static str,
    /// Whether it applies to structural tags only.
    #[serde(skip)]
    pub only_in_tags: bool,
}

impl DeclaredDeparture {
    pub(super) const fn new(
        departure: Departure,
        what: &'static str,
        source: &'static str,
    ) -> Self {
        Self {
            departure,
            what,
            source,
            only_in_tags: false,
        }
    }

    /// A departure in structural tags.
    pub(super) const fn in_tags(
        departure: Departure,
        what: &'static str,
        source: &'static str,
    ) -> Self {
        Self {
            only_in_tags: true,
            ..Self::new(departure, what, source)
        }
    }
}

impl EngineName {
    /// The departures that the engine declares.
    pub fn departures(self) -> &'static [DeclaredDeparture] {
        self.spec().departures
    }

    /// Whether the engine declares a departure for any constraint.
    pub fn declares(self, departure: Departure) -> bool {
        self.departures()
            .iter()
            .any(|declared| declared.departure == departure)
    }

    /// Whether the engine declares a departure for this constraint.
    pub fn declares_for(self, departure: Departure, constraint: &Constraint) -> bool {
        let is_tag = constraint.structural_tag().is_some();
        self.departures()
            .iter()
            .any(|declared| declared.departure == departure && (is_tag || !declared.only_in_tags))
    }

    /// The departure that explains why the engine accepts a text that violates `keyword`.
    pub fn departure_for_keyword(self, keyword: &str) -> Option<Departure> {
        let is_keyword = keyword.chars().all(char::is_alphanumeric);
        let is_unlisted =
            is_keyword && !self.spec().listed_keywords.contains(&keyword) && keyword != "$ref";
        (is_unlisted && self.declares(Departure::UnlistedKeyword))
            .then_some(Departure::UnlistedKeyword)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn declared_departures_have_a_source_and_are_unique() {
        for engine in EngineName::ALL {
            for (index, declared) in engine.departures().iter().enumerate() {
                assert!(
                    !declared.source.is_empty() && !declared.what.is_empty(),
                    "{declared:?}"
                );
                assert!(
                    !engine.departures()[..index]
                        .iter()
                        .any(|earlier| earlier.departure == declared.departure),
                    "{engine} {declared:?}"
                );
            }
            let lists_keywords = !engine.spec().listed_keywords.is_empty();
            assert_eq!(
                engine.declares(Departure::UnlistedKeyword),
                lists_keywords,
                "{engine}"
            );
        }
        assert!(EngineName::Guidance.declares(Departure::MemberOrder));
        assert_eq!(EngineName::Auto.departures(), []);
    }

    #[test]
    fn departures_in_tags_are_not_declared_for_schemas() {
        let tag = Constraint::StructuralTag(Arc::new(json!({})));
        let schema = Constraint::JsonSchema(Arc::new(json!({})));
        for (departure, in_tags, in_schemas) in [
            (Departure::MemberOrder, true, true),
            (Departure::OuterWhiteSpace, true, false),
            (Departure::AnyOrder, true, false),
            (Departure::References, false, false),
        ] {
            let declares = |constraint| EngineName::Xgrammar.declares_for(departure, constraint);
            assert_eq!((declares(&tag), declares(&schema)), (in_tags, in_schemas));
        }
    }

    #[test]
    fn only_unlisted_keywords_are_explained_by_the_declaration() {
        for (engine, keyword, expected) in [
            (
                EngineName::Outlines,
                "multipleOf",
                Some(Departure::UnlistedKeyword),
            ),
            (EngineName::Outlines, "maxLength", None),
            (EngineName::Outlines, "not_json", None),
            (EngineName::Xgrammar, "multipleOf", None),
        ] {
            assert_eq!(engine.departure_for_keyword(keyword), expected, "{keyword}");
        }
    }
}
