//! Finds out by experiment whether a declared departure explains a finding: it is undone, in the
//! engine's own policy or in the text, and the engine is asked again. Knows no corpus.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::along::Ground;
use super::finding::{Reading, Why};
use super::json_prefix::JsonPrefix;
use super::{EngineResult, consistency, respell, simpler};
use sobench_core::constraint::Constraint;
use sobench_engine::{Departure, Engine, EngineName, Grammar, Matcher, TokenId, Vocabulary};

/// An engine whose policy does not depart in one respect.
#[derive(Clone)]
pub(super) struct Relaxed {
    pub(super) departure: Departure,
    pub(super) engine: Arc<dyn Engine>,
    /// The one that it masks.
    pub(super) vocabulary: Arc<Vocabulary>,
    /// The constraint, compiled when it is first needed; none where it cannot be.
    pub(super) grammar: OnceCell<Option<Arc<dyn Grammar>>>,
}

impl Relaxed {
    /// Whether it can be what the refusal is about: members and items that are not named are
    /// refused where one begins.
    fn is_at_stake(&self, refusal: &Refusal<'_>) -> bool {
        self.departure != Departure::AdditionalProperties
            || refusal.touches(|state| state.is_at_name() || state.is_at_item())
    }

    fn grammar(&self, constraint: &Constraint) -> Option<&dyn Grammar> {
        let compile = || {
            let refers =
                || matches!(constraint, Constraint::JsonSchema(schema) if simpler::refers(schema));
            let can_matter = self.departure != Departure::References || refers();
            can_matter
                .then(|| {
                    self.engine
                        .check_quick(constraint)
                        .and_then(|()| self.engine.compile(constraint))
                        .ok()
                })
                .flatten()
        };
        self.grammar.get_or_init(compile).as_deref()
    }
}

/// Explains the findings of one engine on one constraint.
pub(super) struct Explainer<'a> {
    pub(super) engine: EngineName,
    pub(super) grammar: &'a dyn Grammar,
    pub(super) relaxed: &'a [Relaxed],
    pub(super) constraint: &'a Constraint,
    /// The instance that a text was made of, where the engine lets that through.
    pub(super) accepted: Option<&'a Value>,
}

/// A text that matches and was not let through.
pub(super) struct Refusal<'a> {
    pub(super) text: &'a str,
    /// What of it had been committed.
    pub(super) committed: &'a [TokenId],
    /// The bytes of that, and the byte that the longest token ends at that was refused after them.
    pub(super) before: usize,
    pub(super) reach: usize,
}

impl Refusal<'_> {
    /// Whether what was refused begins or reaches where this is so. A token can be refused for what
    /// it ends with.
    fn touches(&self, is_so: impl Fn(&JsonPrefix) -> bool) -> bool {
        let bytes = self.text.as_bytes();
        let Some(mut state) = bytes.get(..self.before).and_then(JsonPrefix::after) else {
            return false;
        };
        let refused = &bytes[self.before..self.reach.clamp(self.before, bytes.len())];
        is_so(&state)
            || refused
                .iter()
                .any(|byte| state.push(*byte) && is_so(&state))
    }
}

impl<'a> Explainer<'a> {
    /// The engine without forced tokens.
    pub(super) fn unforced(&self) -> Option<&'a dyn Grammar> {
        self.relaxed
            .iter()
            .find(|it| it.departure == Departure::CanonicalTokens)?
            .grammar(self.constraint)
    }

    fn is_json(&self) -> bool {
        self.constraint.is_json()
    }

    fn declares(&self, departure: Departure) -> bool {
        self.engine.declares(departure)
    }

    /// Why a text that matches is not let through.
    ///
    /// # Errors
    /// The library's own.
    pub(super) fn strict(&self, refusal: &Refusal<'_>, ground: &Ground<'_>) -> EngineResult<Why> {
        let piece = self.refused_piece(refusal, ground)?;
        let reading = self.declared(refusal, piece.as_ref(), ground)?;
        let cause = if reading == Reading::Error {
            self.cause(refusal, piece.as_ref(), ground)?
        } else {
            None
        };
        Ok(Why { reading, cause })
    }

    /// What is declared and explains it.
    fn declared(
        &self,
        refusal: &Refusal<'_>,
        piece: Option<&Range<usize>>,
        ground: &Ground<'_>,
    ) -> EngineResult<Reading> {
        if self.engine.departures().is_empty() {
            return Ok(Reading::Error);
        }
        if let Some(departure) = self.by_piece(refusal.text, piece, true, ground)? {
            return Ok(Reading::Declared(vec![departure]));
        }
        let respelt = self.respelt(refusal.text);
        for (departures, text) in respelt.iter().skip(1) {
            if passes(self.grammar, text, ground.vocabulary)? {
                return Ok(Reading::Declared(departures.clone()));
            }
        }
        let orders = self.declares(Departure::MemberOrder);
        if orders
            && let Some(reading) = self.by_order((self.grammar, ground.vocabulary), refusal, &[])?
        {
            return Ok(reading);
        }
        for relaxed in self.relaxed.iter().filter(|it| it.is_at_stake(refusal)) {
            let Some(grammar) = relaxed.grammar(self.constraint) else {
                continue;
            };
            for (departures, text) in &respelt {
                if passes(grammar, text, &relaxed.vocabulary)? {
                    return Ok(Reading::Declared(
                        [&departures[..], &[relaxed.departure]].concat(),
                    ));
                }
            }
            if orders
                && let Some(reading) = self.by_order(
                    (grammar, &relaxed.vocabulary),
                    refusal,
                    &[relaxed.departure],
                )?
            {
                return Ok(reading);
            }
        }
        // At a name it may still be the order, which the schema can fix in ways that were not
        // tried.
        let may_be_order =
            orders && refusal.touches(JsonPrefix::is_at_name) && has_choice(refusal.text);
        Ok(if may_be_order {
            Reading::Unclear
        } else {
            Reading::Error
        })
    }

    /// What an error is about, by the same experiments: nothing declares it, but it names what is
    /// wrong.
    fn cause(
        &self,
        refusal: &Refusal<'_>,
        piece: Option<&Range<usize>>,
        ground: &Ground<'_>,
    ) -> EngineResult<Option<Departure>> {
        let Constraint::JsonSchema(schema) = self.constraint else {
            return Ok(None);
        };
        if let Some(departure) = self.by_piece(refusal.text, piece, false, ground)? {
            return Ok(Some(departure));
        }
        if !self.declares(Departure::MemberOrder)
            && let Some(Reading::Declared(_)) =
                self.by_order((self.grammar, ground.vocabulary), refusal, &[])?
        {
            return Ok(Some(Departure::MemberOrder));
        }
        let named = respell::named_alone(&plainly(refusal.text), schema);
        let is_named = named.map_or(Ok(false), |text| {
            passes(self.grammar, &text, ground.vocabulary)
        })?;
        Ok(is_named.then_some(Departure::AdditionalProperties))
    }

    /// The white space, string, number or other character of a JSON text that is not let through,
    /// whatever comes after it.
    fn refused_piece(
        &self,
        refusal: &Refusal<'_>,
        ground: &Ground<'_>,
    ) -> EngineResult<Option<Range<usize>>> {
        if !self.is_json() {
            return Ok(None);
        }
        let stuck = stuck(self.freest(), refusal, ground)?;
        Ok(stuck.and_then(|at| respell::piece_around(refusal.text, at)))
    }

    /// The engine without forced tokens, where it has any.
    fn freest(&self) -> &'a dyn Grammar {
        self.unforced().unwrap_or(self.grammar)
    }

    /// The departure that the text is refused for at this piece: undone there, it lets the piece
    /// through. Of the departures that the engine declares, or of the others.
    fn by_piece(
        &self,
        text: &str,
        piece: Option<&Range<usize>>,
        declared: bool,
        ground: &Ground<'_>,
    ) -> EngineResult<Option<Departure>> {
        let Some(place) = piece else { return Ok(None) };
        let is_outermost = place.start == 0 || place.end == text.len();
        let (before, piece) = (&text[..place.start], &text[place.clone()]);
        for (departure, respell) in RESPELLINGS {
            let respelt = respell(piece);
            if self.declares(departure) == declared
                && respelt != piece
                && (is_outermost || departure != Departure::OuterWhiteSpace)
                && begins(
                    self.freest(),
                    &format!("{before}{respelt}"),
                    ground.vocabulary,
                )?
                .is_some()
            {
                return Ok(Some(departure));
            }
        }
        Ok(None)
    }

    /// The text as it is, with each declared departure undone that can be undone in it, and with
    /// all of them undone.
    fn respelt(&self, text: &str) -> Vec<(Vec<Departure>, String)> {
        let mut texts = vec![(Vec::new(), text.to_owned())];
        let mut all = (Vec::new(), text.to_owned());
        for (departure, respell) in RESPELLINGS {
            let respelt = respell(text);
            if self.is_json() && self.declares(departure) && respelt != text {
                texts.push((vec![departure], respelt));
                all = ([all.0, vec![departure]].concat(), respell(&all.1));
            }
        }
        if all.0.len() > 1 {
            texts.push(all);
        }
        texts
    }

    /// Why a text that breaks the constraint in this way is let through.
    pub(super) fn loose(&self, how: &str) -> Reading {
        self.engine
            .departure_for_keyword(how)
            .map_or(Reading::Error, |departure| {
                Reading::Declared(vec![departure])
            })
    }

    /// Whether the text passes with its members in another order, and does not without that: then
    /// what explains it, or that nothing declared does, since it is its spelling that is refused.
    fn by_order(
        &self,
        (grammar, vocabulary): (&dyn Grammar, &Vocabulary),
        refusal: &Refusal<'_>,
        besides: &[Departure],
    ) -> EngineResult<Option<Reading>> {
        let Constraint::JsonSchema(schema) = self.constraint else {
            return Ok(None);
        };
        let compact = plainly(refusal.text);
        if passes(grammar, &compact, vocabulary)? {
            return Ok(Some(Reading::Error));
        }
        for like in [self.accepted, None] {
            let ordered =
                respell::in_order(&compact, like, Some(schema)).filter(|text| *text != compact);
            if let Some(ordered) = ordered
                && passes(grammar, &ordered, vocabulary)?
            {
                return Ok(Some(Reading::Declared(
                    [&[Departure::MemberOrder], besides].concat(),
                )));
            }
        }
        Ok(None)
    }
}

/// Undoes a departure in a text.
type Respelling = fn(&str) -> String;

/// The departures that can be undone in the text, and how.
const RESPELLINGS: [(Departure, Respelling); 5] = [
    (Departure::OuterWhiteSpace, respell::trimmed),
    (Departure::WhiteSpace, respell::without_spaces),
    (Departure::Escapes, respell::with_least_escapes),
    (Departure::Characters, respell::with_plain_characters),
    (Departure::Numbers, respell::with_plain_numbers),
];

/// The text with no liberty of spelling taken.
fn plainly(text: &str) -> String {
    respell::with_plain_numbers(&respell::with_least_escapes(&respell::without_spaces(text)))
}

/// The first byte of the text that cannot be let through after what was committed, by whatever
/// tokens; `None` where the refused token can, by others.
fn stuck(
    grammar: &dyn Grammar,
    refusal: &Refusal<'_>,
    ground: &Ground<'_>,
) -> EngineResult<Option<usize>> {
    let mut at = refusal.before;
    let Some((mut matcher, mut mask)) =
        consistency::stand(grammar, ground.vocabulary, refusal.committed, &mut 0)?
    else {
        return Ok(None);
    };
    while at < refusal.reach {
        let rest = &refusal.text.as_bytes()[at..];
        let Some(token) = ground
            .sorted
            .beginning(rest)
            .filter(|token| mask.allows(*token))
            .last()
        else {
            return Ok(Some(at));
        };
        matcher.commit(token)?;
        matcher.mask(&mut mask)?;
        at += ground.vocabulary.bytes(token).len();
    }
    Ok(None)
}

/// A matcher behind the text, by its canonical tokens; `None` where one of them is not taken.
///
/// # Errors
/// The library's own, except that it refuses a token.
fn begins(
    grammar: &dyn Grammar,
    text: &str,
    vocabulary: &Vocabulary,
) -> EngineResult<Option<Box<dyn Matcher>>> {
    let Some(tokens) = vocabulary.encode_exactly(text) else {
        return Ok(None);
    };
    let mut matcher = grammar.matcher()?;
    Ok(consistency::takes(&mut *matcher, &tokens)?.then_some(matcher))
}

/// Whether a text is let through to its end, by its canonical tokens.
///
/// # Errors
/// As [`begins`].
pub(super) fn passes(
    grammar: &dyn Grammar,
    text: &str,
    vocabulary: &Vocabulary,
) -> EngineResult<bool> {
    let matcher = begins(grammar, text, vocabulary)?;
    matcher.map_or(Ok(false), |mut matcher| matcher.is_accepting())
}

/// Whether some object of the text has two members.
fn has_choice(text: &str) -> bool {
    let has_two = |value: &Value| value.as_object().is_some_and(|members| members.len() > 1);
    serde_json::from_str(text).is_ok_and(|value| simpler::all_within(&value).any(has_two))
}
