//! Tests by experiment whether a declared departure explains a finding: the departure is undone, in
//! the engine's policy or in the text, and the engine is run again.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::finding::{Explanation, Interpretation};
use super::json_prefix::JsonPrefix;
use super::mask_checks::ConstraintContext;
use super::tag_reader::JsonPart;
use super::{EngineResult, consistency};
use crate::mask::commit::commits_all;
use sobench_core::constraint::Constraint;
use sobench_engine::{Departure, Engine, EngineName, Grammar, Matcher, TokenId, Vocabulary};

/// An engine whose policy undoes one departure.
#[derive(Clone)]
pub(super) struct RelaxedEngine {
    pub(super) departure: Departure,
    pub(super) engine: Arc<dyn Engine>,
    /// The vocabulary of the engine.
    pub(super) vocabulary: Arc<Vocabulary>,
    /// The constraint, compiled on first use; `None` if that fails.
    pub(super) grammar: OnceCell<Option<Arc<dyn Grammar>>>,
}

impl RelaxedEngine {
    /// Whether undoing the departure may explain the refusal: unnamed members and items are refused
    /// at their start.
    fn may_explain(&self, refusal: &Refusal<'_>, parts: &[JsonPart]) -> bool {
        match self.departure {
            // It explains accepted texts only.
            Departure::AnyOrder => false,
            Departure::AdditionalProperties => refusal
                .refused_part_reaches(parts, |state| state.is_at_name() || state.is_at_item()),
            _ => true,
        }
    }

    fn grammar(&self, constraint: &Constraint) -> Option<&dyn Grammar> {
        let compile = || {
            let relaxed = self.relaxed_constraint(constraint)?;
            self.engine
                .check_size_strict(&relaxed)
                .and_then(|()| self.engine.compile(&relaxed))
                .ok()
        };
        self.grammar.get_or_init(compile).as_deref()
    }

    /// The constraint to compile; `None` if the departure cannot matter. In a structural tag,
    /// departures are undone in the tag, because the engine's policy has no effect on it.
    fn relaxed_constraint<'c>(&self, constraint: &'c Constraint) -> Option<Cow<'c, Constraint>> {
        let changed = |tag: Value| Cow::Owned(Constraint::StructuralTag(Arc::new(tag)));
        match (self.departure, constraint.structural_tag()) {
            (Departure::AnyOrder, Some(tag)) => {
                sobench_reduce::tag::with_fixed_order(tag).map(changed)
            }
            (Departure::AdditionalProperties, Some(tag)) => {
                sobench_reduce::tag::with_open_objects(tag).map(changed)
            }
            (Departure::AnyOrder, None) | (Departure::WhiteSpace, Some(_)) => None,
            (Departure::References, _) => {
                let has_references = sobench_reduce::schema::has_references(constraint.schema()?);
                has_references.then_some(Cow::Borrowed(constraint))
            }
            _ => Some(Cow::Borrowed(constraint)),
        }
    }
}

/// Explains the findings of one engine on one constraint.
pub(super) struct Explainer<'a> {
    pub(super) engine: EngineName,
    pub(super) grammar: &'a dyn Grammar,
    pub(super) relaxed: &'a [RelaxedEngine],
    pub(super) constraint: &'a Constraint,
    /// The source instance of the text, if the engine accepts it.
    pub(super) accepted: Option<&'a Value>,
}

/// A matching text that was refused.
pub(super) struct Refusal<'a> {
    pub(super) text: &'a str,
    /// The committed tokens of the text.
    pub(super) committed: &'a [TokenId],
    /// Length of the committed bytes, and the end offset of the longest token that was refused
    /// after them.
    pub(super) before: usize,
    pub(super) reach: usize,
}

impl Refusal<'_> {
    /// Whether a predicate holds at any position of the refused part. A token can be refused for
    /// its last bytes.
    fn refused_part_reaches(
        &self,
        parts: &[JsonPart],
        is_so: impl Fn(&JsonPrefix) -> bool,
    ) -> bool {
        let bytes = self.text.as_bytes();
        let reach = self.reach.clamp(self.before, bytes.len());
        let reaches = |part: &&JsonPart| part.range.start <= reach && part.range.end >= self.before;
        parts.iter().filter(reaches).any(|part| {
            let start = self.before.clamp(part.range.start, part.range.end);
            let refused = &bytes[start..reach.clamp(start, part.range.end)];
            JsonPrefix::after(&bytes[part.range.start..start]).is_some_and(|mut state| {
                is_so(&state)
                    || refused
                        .iter()
                        .any(|byte| state.push(*byte) && is_so(&state))
            })
        })
    }
}

impl<'a> Explainer<'a> {
    /// The engine without forced tokens.
    pub(super) fn unforced(&self) -> Option<&'a dyn Grammar> {
        self.relaxed
            .iter()
            .find(|relaxed| relaxed.departure == Departure::CanonicalTokens)?
            .grammar(self.constraint)
    }

    fn declares(&self, departure: Departure) -> bool {
        self.engine.declares_for(departure, self.constraint)
    }

    /// Why a matching text is refused.
    ///
    /// # Errors
    /// An error of the library.
    pub(super) fn explain_refusal(
        &self,
        refusal: &Refusal<'_>,
        context: &ConstraintContext<'_>,
    ) -> EngineResult<Explanation> {
        let parts = context.oracles.json_parts(refusal.text);
        let piece = self.refused_piece(refusal, &parts, context)?;
        let interpretation = self.declared_explanation(refusal, &parts, piece.as_ref(), context)?;
        let cause = if interpretation == Interpretation::Error {
            self.cause(refusal, &parts, piece.as_ref(), context)?
        } else {
            None
        };
        Ok(Explanation {
            interpretation,
            cause,
        })
    }

    /// The declared departure that explains a refusal.
    fn declared_explanation(
        &self,
        refusal: &Refusal<'_>,
        parts: &[JsonPart],
        piece: Option<&RefusedPiece>,
        context: &ConstraintContext<'_>,
    ) -> EngineResult<Interpretation> {
        if self.engine.departures().is_empty() {
            return Ok(Interpretation::Error);
        }
        if let Some(departure) = self.departure_at_piece(refusal.text, piece, true, context)? {
            return Ok(Interpretation::Declared(vec![departure]));
        }
        let respellings = self.respellings(refusal.text, parts);
        for (departures, text) in respellings.iter().skip(1) {
            if accepts_text(self.grammar, text, context.vocabulary)? {
                return Ok(Interpretation::Declared(departures.clone()));
            }
        }
        let orders = self.declares(Departure::MemberOrder);
        if orders
            && let Some(interpretation) =
                self.explained_by_order((self.grammar, context.vocabulary), refusal, parts, &[])?
        {
            return Ok(interpretation);
        }
        for relaxed in self
            .relaxed
            .iter()
            .filter(|relaxed| relaxed.may_explain(refusal, parts))
        {
            let Some(grammar) = relaxed.grammar(self.constraint) else {
                continue;
            };
            for (departures, text) in &respellings {
                if accepts_text(grammar, text, &relaxed.vocabulary)? {
                    return Ok(Interpretation::Declared(
                        [&departures[..], &[relaxed.departure]].concat(),
                    ));
                }
            }
            if orders
                && let Some(interpretation) = self.explained_by_order(
                    (grammar, &relaxed.vocabulary),
                    refusal,
                    parts,
                    &[relaxed.departure],
                )?
            {
                return Ok(interpretation);
            }
        }
        // At a name, the reason may still be the order, which the schema can fix in ways that were
        // not tried.
        let may_be_order = orders
            && refusal.refused_part_reaches(parts, JsonPrefix::is_at_name)
            && parts
                .iter()
                .any(|part| has_several_members(&refusal.text[part.range.clone()]));
        Ok(if may_be_order {
            Interpretation::Unclear
        } else {
            Interpretation::Error
        })
    }

    /// The cause of an error by the same experiments, with undeclared departures.
    fn cause(
        &self,
        refusal: &Refusal<'_>,
        parts: &[JsonPart],
        piece: Option<&RefusedPiece>,
        context: &ConstraintContext<'_>,
    ) -> EngineResult<Option<Departure>> {
        if !self.has_schemas() {
            return Ok(None);
        }
        if let Some(departure) = self.departure_at_piece(refusal.text, piece, false, context)? {
            return Ok(Some(departure));
        }
        if !self.declares(Departure::MemberOrder)
            && let Some(Interpretation::Declared(_)) =
                self.explained_by_order((self.grammar, context.vocabulary), refusal, parts, &[])?
        {
            return Ok(Some(Departure::MemberOrder));
        }
        let named = with_parts(refusal.text, parts, |text, part| {
            let text = normalized(text);
            sobench_reduce::respell::without_unnamed_members(&text, &part.schema).unwrap_or(text)
        });
        let is_named = !parts.is_empty() && accepts_text(self.grammar, &named, context.vocabulary)?;
        Ok(is_named.then_some(Departure::AdditionalProperties))
    }

    /// The white space, string, number or other character of a JSON text that is refused,
    /// regardless of its continuation.
    fn refused_piece(
        &self,
        refusal: &Refusal<'_>,
        parts: &[JsonPart],
        context: &ConstraintContext<'_>,
    ) -> EngineResult<Option<RefusedPiece>> {
        if parts.is_empty() {
            return Ok(None);
        }
        let Some(at) = first_refused_byte(self.least_restricted(), refusal, context)? else {
            return Ok(None);
        };
        Ok(parts
            .iter()
            .find(|part| part.range.contains(&at))
            .and_then(|part| {
                let start = part.range.start;
                let piece = sobench_reduce::respell::piece_around(
                    &refusal.text[part.range.clone()],
                    at - start,
                )?;
                let range = start + piece.start..start + piece.end;
                Some(RefusedPiece {
                    is_outermost: range.start == start || range.end == part.range.end,
                    range,
                })
            }))
    }

    /// Whether the constraint has JSON Schemas.
    fn has_schemas(&self) -> bool {
        let schema = self.constraint.schema();
        schema.or(self.constraint.structural_tag()).is_some()
    }

    /// The engine without forced tokens, if available.
    fn least_restricted(&self) -> &'a dyn Grammar {
        self.unforced().unwrap_or(self.grammar)
    }

    /// The departure whose undoing makes the engine accept this piece, among the declared or the
    /// undeclared departures.
    fn departure_at_piece(
        &self,
        text: &str,
        piece: Option<&RefusedPiece>,
        declared: bool,
        context: &ConstraintContext<'_>,
    ) -> EngineResult<Option<Departure>> {
        let Some(place) = piece else { return Ok(None) };
        let is_outermost = place.is_outermost;
        let (before, piece) = (&text[..place.range.start], &text[place.range.clone()]);
        for (departure, respell) in RESPELLINGS {
            let respellings = respell(piece);
            if self.declares(departure) == declared
                && respellings != piece
                && (is_outermost || departure != Departure::OuterWhiteSpace)
                && matcher_after_text(
                    self.least_restricted(),
                    &format!("{before}{respellings}"),
                    context.vocabulary,
                )?
                .is_some()
            {
                return Ok(Some(departure));
            }
        }
        Ok(None)
    }

    /// The text itself, the text with each declared departure undone, and the text with all of them
    /// undone.
    fn respellings(&self, text: &str, parts: &[JsonPart]) -> Vec<(Vec<Departure>, String)> {
        let mut texts = vec![(Vec::new(), text.to_owned())];
        let mut all: (Vec<Departure>, Vec<Respelling>) = (Vec::new(), Vec::new());
        for (departure, respell) in RESPELLINGS {
            let respelt = with_parts(text, parts, |text, _| respell(text));
            if self.declares(departure) && respelt != text {
                texts.push((vec![departure], respelt));
                all.0.push(departure);
                all.1.push(respell);
            }
        }
        if all.0.len() > 1 {
            let respell_all = |text: &str| {
                let respell = |text: String, respell: &Respelling| respell(&text);
                all.1.iter().fold(text.to_owned(), respell)
            };
            texts.push((all.0, with_parts(text, parts, |text, _| respell_all(text))));
        }
        texts
    }

    /// Why `text`, which violates this rule, is accepted.
    ///
    /// # Errors
    /// An error of the library.
    pub(super) fn explain_acceptance(
        &self,
        rule: &str,
        text: &str,
        context: &ConstraintContext<'_>,
    ) -> EngineResult<Interpretation> {
        if let Some(departure) = self.engine.departure_for_keyword(rule) {
            return Ok(Interpretation::Declared(vec![departure]));
        }
        let any_order = self
            .relaxed
            .iter()
            .filter(|relaxed| self.declares(relaxed.departure))
            .find(|relaxed| relaxed.departure == Departure::AnyOrder);
        if let Some(relaxed) = any_order
            && let Some(grammar) = relaxed.grammar(self.constraint)
        {
            // The members that are there, in the order of the schema.
            let parts = context.oracles.json_parts(text);
            let ordered = with_parts(text, &parts, |text, part| {
                let ordered = sobench_reduce::respell::in_order(text, None, Some(&part.schema));
                ordered.unwrap_or_else(|| text.to_owned())
            });
            if !accepts_text(grammar, &ordered, &relaxed.vocabulary)? {
                return Ok(Interpretation::Declared(vec![relaxed.departure]));
            }
        }
        Ok(Interpretation::Error)
    }

    /// Tests whether the text is accepted only with its members in another order. Returns the
    /// explanation, or an error if its spelling is the reason.
    fn explained_by_order(
        &self,
        (grammar, vocabulary): (&dyn Grammar, &Vocabulary),
        refusal: &Refusal<'_>,
        parts: &[JsonPart],
        besides: &[Departure],
    ) -> EngineResult<Option<Interpretation>> {
        if !self.has_schemas() {
            return Ok(None);
        }
        let compact = with_parts(refusal.text, parts, |text, _| normalized(text));
        if accepts_text(grammar, &compact, vocabulary)? {
            return Ok(Some(Interpretation::Error));
        }
        for like in [self.accepted, None] {
            let ordered = with_parts(refusal.text, parts, |text, part| {
                let text = normalized(text);
                sobench_reduce::respell::in_order(&text, like, Some(&part.schema)).unwrap_or(text)
            });
            if ordered != compact && accepts_text(grammar, &ordered, vocabulary)? {
                return Ok(Some(Interpretation::Declared(
                    [&[Departure::MemberOrder], besides].concat(),
                )));
            }
        }
        Ok(None)
    }
}

/// The refused white space, string, number or other character of a JSON value.
struct RefusedPiece {
    /// Its place in the text.
    range: Range<usize>,
    /// Whether the value starts or ends with it.
    is_outermost: bool,
}

/// The text with every JSON value rewritten.
fn with_parts(text: &str, parts: &[JsonPart], write: impl Fn(&str, &JsonPart) -> String) -> String {
    let (mut written, mut end) = (String::with_capacity(text.len()), 0);
    for part in parts {
        written.push_str(&text[end..part.range.start]);
        written.push_str(&write(&text[part.range.clone()], part));
        end = part.range.end;
    }
    written.push_str(&text[end..]);
    written
}

/// A function that undoes a departure in a text.
type Respelling = fn(&str) -> String;

/// Departures that can be undone in the text.
const RESPELLINGS: [(Departure, Respelling); 5] = [
    (Departure::OuterWhiteSpace, sobench_reduce::respell::trimmed),
    (
        Departure::WhiteSpace,
        sobench_reduce::respell::without_spaces,
    ),
    (
        Departure::Escapes,
        sobench_reduce::respell::with_least_escapes,
    ),
    (
        Departure::Characters,
        sobench_reduce::respell::with_plain_characters,
    ),
    (
        Departure::Numbers,
        sobench_reduce::respell::with_plain_numbers,
    ),
];

/// The text in its plainest spelling.
fn normalized(text: &str) -> String {
    sobench_reduce::respell::with_plain_numbers(&sobench_reduce::respell::with_least_escapes(
        &sobench_reduce::respell::without_spaces(text),
    ))
}

/// The offset of the first byte that is refused after the committed tokens, with any tokenization;
/// `None` if the refused token is accepted in other tokens.
fn first_refused_byte(
    grammar: &dyn Grammar,
    refusal: &Refusal<'_>,
    context: &ConstraintContext<'_>,
) -> EngineResult<Option<usize>> {
    let mut at = refusal.before;
    let Some((mut matcher, mut mask)) =
        consistency::matcher_after(grammar, context.vocabulary, refusal.committed, &mut 0)?
    else {
        return Ok(None);
    };
    while at < refusal.reach {
        let rest = &refusal.text.as_bytes()[at..];
        let Some(token) = context
            .sorted
            .prefix_tokens(rest)
            .filter(|token| mask.allows(*token))
            .last()
        else {
            return Ok(Some(at));
        };
        matcher.commit(token)?;
        matcher.mask(&mut mask)?;
        at += context.vocabulary.bytes(token).len();
    }
    Ok(None)
}

/// A matcher after the text's canonical tokens; `None` if one of them is refused.
///
/// # Errors
/// The library's own, except for a refused token.
fn matcher_after_text(
    grammar: &dyn Grammar,
    text: &str,
    vocabulary: &Vocabulary,
) -> EngineResult<Option<Box<dyn Matcher>>> {
    let Some(tokens) = vocabulary.encode_exactly(text) else {
        return Ok(None);
    };
    let mut matcher = grammar.matcher()?;
    Ok(commits_all(&mut *matcher, &tokens)?.then_some(matcher))
}

/// Whether a text is accepted to its end, by its canonical tokens.
///
/// # Errors
/// As [`matcher_after_text`].
pub(super) fn accepts_text(
    grammar: &dyn Grammar,
    text: &str,
    vocabulary: &Vocabulary,
) -> EngineResult<bool> {
    let matcher = matcher_after_text(grammar, text, vocabulary)?;
    matcher.map_or(Ok(false), |mut matcher| matcher.is_accepting())
}

/// Whether an object of the text has several members.
fn has_several_members(text: &str) -> bool {
    let has_two = |value: &Value| value.as_object().is_some_and(|members| members.len() > 1);
    serde_json::from_str(text)
        .is_ok_and(|value| sobench_reduce::schema::nested_values(&value).any(has_two))
}
