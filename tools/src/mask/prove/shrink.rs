//! Shrinks a finding: removes keywords and members of the schema and pieces of the text while an
//! error of the same kind reproduces.
//!
//! Every attempt compiles the constraint and walks along the text again, so the shrunk finding was
//! observed, not inferred.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::engine_session::{EngineSession, ProofEngine};
use super::finding::{Finding, Origin, Proof};
use super::mask_checks::{ConstraintContext, WalkText, check_masks_along};
use super::oracles::Judgement;
use super::prover::{ProofObserver, VocabularyTools};
use super::witness::{self, WitnessStatus};
use super::{consistency, constraint_reduction, respell, rollback, schema_reduction};
use crate::mask::clock::Stopwatch;
use sobench_core::constraint::Constraint;
use sobench_engine::{Grammar, TokenId};
use sobench_pycompat::random::PythonRandom;

/// Maximum masks of one attempt.
const MAX_MASKS: u64 = 4096;

/// Limits of shrinking one finding, applied once over bytes and, if that fails, once over the
/// engine's tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShrinkLimits {
    /// Compiles.
    pub(crate) tries: usize,
    /// Time limit. It affects how small a finding gets, not whether it reproduces.
    pub(crate) time: Duration,
}

/// Maximum passes over all pieces.
const MAX_ROUNDS: usize = 8;

/// A finding with its constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FindingCase {
    pub(crate) constraint: Constraint,
    pub(crate) finding: Finding,
}

/// A constraint, and the text to walk along.
type ConstraintAndText = (Constraint, Vec<u8>);

/// Shrinks a case within the limits; `None` if the finding does not reproduce.
pub(crate) fn shrink(
    engine: &ProofEngine,
    tools: &VocabularyTools<'_>,
    case: FindingCase,
    limits: ShrinkLimits,
    observer: &mut dyn ProofObserver,
) -> Option<FindingCase> {
    let by_bytes = smaller_by_bytes(engine, tools, &case, limits, observer);
    let mut shrinker = Shrinker::new(engine, tools, &case.finding, limits, observer);
    let smallest = by_bytes
        .and_then(|smaller| shrinker.case(smaller))
        .or_else(|| {
            let text = shrinker.text(&case.finding);
            let smallest = shrinker.smallest(case.constraint.clone(), text)?;
            shrinker.case(smallest)
        });
    [smallest, Some(case)]
        .into_iter()
        .flatten()
        .find(|case| recheck(engine, tools, case) == WitnessStatus::Holds)
}

/// Constraint and text shrunk over the vocabulary of bytes, where compiling is fast. The result is
/// then verified over the engine's own vocabulary.
fn smaller_by_bytes(
    engine: &ProofEngine,
    tools: &VocabularyTools<'_>,
    case: &FindingCase,
    limits: ShrinkLimits,
    observer: &mut dyn ProofObserver,
) -> Option<ConstraintAndText> {
    let (engine, by_bytes) = (engine.by_bytes.as_deref()?, tools.by_bytes?);
    let ids = |tokens: &[TokenId]| {
        tools
            .vocabulary
            .decode(tokens)
            .into_iter()
            .map(TokenId::from)
            .collect()
    };
    let mut finding = Finding {
        prefix: ids(&case.finding.prefix),
        ..case.finding.clone()
    };
    if finding.proof == Proof::Rollback {
        // The end token has no bytes.
        let of_bytes = |token: &TokenId| {
            if *token == tools.vocabulary.eos() {
                vec![by_bytes.vocabulary.eos()]
            } else {
                ids(&[*token])
            }
        };
        let mut tokens = finding
            .rolled_back()
            .iter()
            .flat_map(of_bytes)
            .collect::<Vec<_>>();
        finding.token = (!tokens.is_empty()).then(|| tokens.remove(0));
        finding.tail = tokens;
    }
    let mut shrinker = Shrinker::new(engine, by_bytes, &finding, limits, observer);
    let text = shrinker.text(&finding);
    shrinker.smallest(case.constraint.clone(), text)
}

/// Rechecks a case with an engine.
pub(crate) fn recheck(
    engine: &ProofEngine,
    tools: &VocabularyTools<'_>,
    case: &FindingCase,
) -> WitnessStatus {
    let constraint = Arc::new(case.constraint.clone());
    witness::check(
        &*engine.engine,
        &constraint,
        &case.finding,
        tools.vocabulary,
        tools.sorted,
    )
}

/// Whether a finding shows that the engine is too strict.
fn is_strict(finding: &Finding) -> bool {
    matches!(
        finding.proof,
        Proof::RefusesToken | Proof::RefusesEnd | Proof::DiffersStrict
    )
}

/// Whether a smaller finding is of the same kind as the first. A difference of two engines
/// reproduces with one engine once the text is known.
fn is_alike(first: &Finding, smaller: &Finding) -> bool {
    let is_proof = match first.proof {
        Proof::DiffersStrict => matches!(smaller.proof, Proof::RefusesToken | Proof::RefusesEnd),
        Proof::DiffersLoose => smaller.proof == Proof::AllowsEnd,
        proof => smaller.proof == proof,
    };
    is_proof
        && (&smaller.interpretation, &smaller.breaks, smaller.cause)
            == (&first.interpretation, &first.breaks, first.cause)
}

struct Shrinker<'a> {
    engine: &'a ProofEngine,
    tools: &'a VocabularyTools<'a>,
    /// The finding to shrink.
    first: Finding,
    left: usize,
    time: Duration,
    stopwatch: Stopwatch,
    observer: &'a mut dyn ProofObserver,
}

impl<'a> Shrinker<'a> {
    fn new(
        engine: &'a ProofEngine,
        tools: &'a VocabularyTools<'a>,
        finding: &Finding,
        limits: ShrinkLimits,
        observer: &'a mut dyn ProofObserver,
    ) -> Self {
        Self {
            engine,
            tools,
            first: finding.clone(),
            left: limits.tries,
            time: limits.time,
            stopwatch: Stopwatch::start(),
            observer,
        }
    }

    /// The smallest constraint and text that show the error, starting from these; `None` if these
    /// do not.
    fn smallest(
        &mut self,
        mut constraint: Constraint,
        mut text: Vec<u8>,
    ) -> Option<ConstraintAndText> {
        self.reproduce(&constraint, &text)?;
        for _ in 0..MAX_ROUNDS {
            let before = self.left;
            let deeper = self.narrow_to_part(&mut constraint, &mut text);
            let smaller_schema = self.reduce(&mut constraint, &text, |constraint, number| {
                let schema = schema_reduction::without_piece(constraint.schema()?, number)?;
                Some(Constraint::JsonSchema(schema.into()))
            });
            let is_plainer = self.reduce(
                &mut constraint,
                &text,
                constraint_reduction::reduced_constraint,
            );
            let smaller_text = self.shorten_text(&constraint, &mut text);
            if !(deeper || smaller_schema || is_plainer || smaller_text)
                || !self.has_budget()
                || self.left == before
            {
                break;
            }
        }
        self.shorten_names(&mut constraint, &mut text);
        Some((constraint, text))
    }

    fn case(&mut self, (constraint, text): ConstraintAndText) -> Option<FindingCase> {
        let finding = self.reproduce(&constraint, &text)?;
        Some(FindingCase {
            constraint,
            finding,
        })
    }

    /// Whether attempts and time are left.
    fn has_budget(&self) -> bool {
        self.left > 0 && self.stopwatch.elapsed() < self.time
    }

    /// The bytes to walk along: the text of the proof, or the prefix.
    fn text(&self, finding: &Finding) -> Vec<u8> {
        let text = finding.text.clone().map(String::into_bytes);
        text.unwrap_or_else(|| self.tools.vocabulary.decode(&finding.prefix))
    }

    /// A finding of the same kind on this constraint along this text.
    fn reproduce(&mut self, constraint: &Constraint, bytes: &[u8]) -> Option<Finding> {
        self.observer.engine_changed(None);
        let constraint = Arc::new(constraint.clone());
        let vocabulary = self.tools.vocabulary;
        let text = std::str::from_utf8(bytes).ok();
        // The original tokens are kept if the bytes are the same, since other tokens may lead to
        // other masks.
        let same = vocabulary.decode(&self.first.prefix) == bytes;
        let tokens: Vec<TokenId> = if same {
            self.first.prefix.clone()
        } else {
            vocabulary.encode_exactly(text?)?
        };
        let mut context = ConstraintContext::new(vocabulary, self.tools.sorted, &constraint);
        let matching = text.filter(|text| {
            is_strict(&self.first) && context.oracles.judge(text) == Judgement::Matches
        });
        // Judging is cheap compared with compiling.
        let is_hopeless = match self.first.proof {
            _ if is_strict(&self.first) => matching.is_none(),
            Proof::AllowsEnd | Proof::DiffersLoose => !matches!(
                context.oracles.judge_bytes(bytes),
                Judgement::Violates { .. }
            ),
            _ => false,
        };
        if is_hopeless {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        self.observer.engine_changed(Some(self.engine.name));
        let session = EngineSession::new(self.engine, &constraint);
        let grammar = session.grammar().ok()?;
        if self.first.proof == Proof::Contradicts {
            return self.contradiction(&session, &constraint, &tokens);
        }
        if self.first.proof == Proof::Rollback {
            return self.wrong_rollback(&*grammar, &tokens);
        }
        let text = WalkText {
            bytes,
            tokens: &tokens,
            matching,
            origin: Origin::Other,
        };
        let walked = check_masks_along(
            &*grammar,
            &mut context,
            &session.explainer(None).ok()?,
            &text,
            MAX_MASKS,
        )
        .ok()?;
        walked
            .findings
            .into_iter()
            .find(|finding| is_alike(&self.first, finding))
    }

    fn contradiction(
        &self,
        session: &EngineSession,
        constraint: &Constraint,
        tokens: &[TokenId],
    ) -> Option<Finding> {
        let (vocabulary, grammar) = (self.tools.vocabulary, session.grammar().ok()?);
        let (mut matcher, mask) =
            consistency::matcher_after(&*grammar, vocabulary, tokens, &mut 0).ok()??;
        let (mut all, _) =
            consistency::check_matcher(&mut *matcher, vocabulary, &mut PythonRandom::new(0))
                .ok()?;
        all.extend(
            consistency::check_repeated(
                &*session.engine,
                constraint,
                &*grammar,
                vocabulary,
                (tokens, &mask),
                true,
            )
            .ok()?
            .0,
        );
        let (contradiction, token) = all
            .into_iter()
            .find(|(contradiction, _)| Some(*contradiction) == self.first.contradiction)?;
        let finding = Finding::new(Proof::Contradicts, tokens, token, Origin::Other);
        Some(Finding {
            contradiction: Some(contradiction),
            ..finding
        })
    }

    fn wrong_rollback(&self, grammar: &dyn Grammar, prefix: &[TokenId]) -> Option<Finding> {
        let wrong = self.first.contradiction?;
        let rolled_back = self.first.rolled_back();
        let tokens = rollback::find_similar(
            grammar,
            self.tools.vocabulary,
            prefix,
            (&rolled_back, wrong),
            &mut PythonRandom::new(0),
        )
        .ok()??;
        Some(Finding::wrong_rollback(
            prefix,
            &tokens,
            wrong,
            Origin::Other,
        ))
    }

    /// Reduces to a single member or item while the error reproduces; returns whether it did.
    fn narrow_to_part(&mut self, constraint: &mut Constraint, text: &mut Vec<u8>) -> bool {
        let mut is_smaller = false;
        while let Some(schema) = constraint.schema()
            && self.has_budget()
        {
            let mut parts = schema_reduction::subschemas(schema, text)
                .into_iter()
                .map(|(schema, text)| (Constraint::JsonSchema(Arc::new(schema)), text));
            let Some((part, part_text)) =
                parts.find(|(part, text)| self.reproduce(part, text).is_some())
            else {
                break;
            };
            (*constraint, *text, is_smaller) = (part, part_text, true);
        }
        is_smaller
    }

    /// Shortens long names and values.
    fn shorten_names(&mut self, constraint: &mut Constraint, text: &mut Vec<u8>) {
        let schema = constraint.schema();
        let short = schema.and_then(|schema| schema_reduction::with_short_names(schema, text));
        let Some((schema, renamed)) = short else {
            return;
        };
        let short = Constraint::JsonSchema(Arc::new(schema));
        if self.reproduce(&short, &renamed).is_some() {
            (*constraint, *text) = (short, renamed);
        }
    }

    /// Tries one candidate after another and continues from each that shows the error; returns
    /// whether there was any.
    fn reduce(
        &mut self,
        constraint: &mut Constraint,
        text: &[u8],
        candidate: impl Fn(&Constraint, usize) -> Option<Constraint>,
    ) -> bool {
        let mut is_smaller = false;
        let mut next = 0;
        while self.has_budget() {
            let Some(tried) = candidate(constraint, next) else {
                break;
            };
            if self.reproduce(&tried, text).is_some() {
                (*constraint, is_smaller) = (tried, true);
            } else {
                next += 1;
            }
        }
        is_smaller
    }

    /// Removes pieces of the text; returns whether it did.
    fn shorten_text(&mut self, constraint: &Constraint, text: &mut Vec<u8>) -> bool {
        let mut is_smaller = false;
        let mut next = 0;
        let is_json = constraint.is_json();
        while self.has_budget() {
            let piece = if is_json {
                pieces(text).into_iter().nth(next)
            } else {
                schema_reduction::chunks(text.len()).into_iter().nth(next)
            };
            let Some(piece) = piece else { break };
            let candidate = schema_reduction::without_range(text, piece);
            if self.reproduce(constraint, &candidate).is_some() {
                (*text, is_smaller) = (candidate, true);
            } else {
                next += 1;
            }
        }
        is_smaller
    }
}

/// Maximum pieces of a string or number that are tried: down to 1/32 of it.
const MAX_PIECES: usize = 62;

/// Removable pieces of a JSON text, longest first: members and items with a comma, string contents,
/// white space, and halves, quarters and so on of these and of numbers.
fn pieces(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut pieces = Vec::new();
    // Start of the current member or item of every open bracket.
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(length) = respell::piece_length(&text[at..]) {
            let end = at + length;
            let (all, is_removable) = match text[at] {
                b'"' => (at + 1..end.saturating_sub(1).max(at + 1), true),
                first => (at..end, first.is_ascii_whitespace()),
            };
            pieces.extend(subranges(all.clone()));
            pieces.extend((is_removable && !all.is_empty()).then_some(all));
            at = end;
            continue;
        }
        match text[at] {
            b'{' | b'[' => open.push(at + 1),
            byte @ (b'}' | b']' | b',') => {
                if let Some(start) = open.last_mut() {
                    if at > *start {
                        // With the comma after it, or before it for the last one.
                        let before = usize::from(byte != b',' && text[*start - 1] == b',');
                        pieces.push(*start - before..at + usize::from(byte == b','));
                    }
                    *start = at + 1;
                }
                if byte != b',' {
                    open.pop();
                }
            }
            _ => {}
        }
        at += 1;
    }
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len()));
    pieces
}

/// Halves, quarters and so on of a range.
fn subranges(all: std::ops::Range<usize>) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (start, length) = (all.start, all.len());
    let parts = schema_reduction::chunks(length)
        .into_iter()
        .filter(move |range| range.len() < length)
        .take(MAX_PIECES);
    parts.map(move |range| start + range.start..start + range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removable_pieces_are_members_items_and_string_parts() {
        let text = br#"{"a":[1,2],"b":"x\"yz"}"#;
        let left = |piece: std::ops::Range<usize>| {
            String::from_utf8([&text[..piece.start], &text[piece.end..]].concat()).unwrap()
        };
        let all: Vec<String> = pieces(text).into_iter().map(left).collect();
        for expected in [
            r#"{"b":"x\"yz"}"#,
            r#"{"a":[1,2]}"#,
            r#"{"a":[2],"b":"x\"yz"}"#,
            r#"{"a":[1],"b":"x\"yz"}"#,
            r#"{"a":[1,2],"b":""}"#,
            r#"{"a":[1,2],"b":"x\"y"}"#,
        ] {
            assert!(
                all.iter().any(|text| text == expected),
                "{expected} of {all:#?}"
            );
        }
        assert_eq!(schema_reduction::chunks(3), [0..2, 2..3, 0..1, 1..2, 2..3]);
        assert!(schema_reduction::chunks(0).is_empty());
        assert!(pieces(b"{\"a").iter().all(|piece| piece.end <= 3));
        let shown = |text: &'static str| -> Vec<&str> {
            pieces(text.as_bytes())
                .into_iter()
                .map(|piece| &text[piece])
                .collect()
        };
        assert_eq!(
            shown("[ \n, 2.5"),
            [" \n,", " \n", "2.", " ", "\n", " ", "5", "2", ".", "5"]
        );
    }
}
