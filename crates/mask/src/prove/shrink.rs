//! Makes a finding as small as it stays one: keywords and members of the schema are taken away, and
//! pieces of the text, as long as an error of the same kind is left. Knows no corpus and no file.
//!
//! Every try compiles the constraint anew and walks along the text, so that what is left was seen,
//! and not concluded.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::along::{Ground, Text, along};
use super::contender::{Bench, Contender};
use super::finding::{Finding, Origin, Proof};
use super::judges::Judged;
use super::prover::{Tools, Watch};
use super::witness::{self, Standing};
use super::{consistency, plainer, respell, simpler};
use crate::clock::Stopwatch;
use sobench_core::constraint::Constraint;
use sobench_engine::TokenId;
use sobench_pycompat::random::PythonRandom;

/// Masks of one try.
const MAX_MASKS: u64 = 4096;

/// What making one finding small may take, once over bytes and, where that comes to nothing, once
/// over the engine's own tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Compiles.
    pub(crate) tries: usize,
    /// For what the machine cannot do in tries: it decides how small a finding gets, and never
    /// whether it stands.
    pub(crate) time: Duration,
}

/// Times that all pieces are gone through again after something was taken away.
const MAX_ROUNDS: usize = 8;

/// A finding with what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) constraint: Constraint,
    pub(crate) finding: Finding,
}

/// A constraint, and the text that an engine is walked along.
type Along = (Constraint, Vec<u8>);

/// The case made smaller within the limits; `None` where the finding cannot be found again, or does
/// not stand when it is checked.
pub(crate) fn shrink(
    engine: &Bench,
    tools: &Tools<'_>,
    case: Case,
    limits: Limits,
    watch: &mut dyn Watch,
) -> Option<Case> {
    let by_bytes = smaller_by_bytes(engine, tools, &case, limits, watch);
    let mut shrinker = Shrinker::new(engine, tools, &case.finding, limits, watch);
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
        .find(|case| stands(engine, tools, case) == Standing::Holds)
}

/// Constraint and text made small over the vocabulary of bytes, where compiling is quick; what that
/// comes to has to be seen over the engine's own.
fn smaller_by_bytes(
    engine: &Bench,
    tools: &Tools<'_>,
    case: &Case,
    limits: Limits,
    watch: &mut dyn Watch,
) -> Option<Along> {
    let (engine, by_bytes) = (engine.by_bytes.as_deref()?, tools.by_bytes?);
    let ids = |tokens: &[TokenId]| {
        tools
            .vocabulary
            .decode(tokens)
            .into_iter()
            .map(TokenId::from)
            .collect()
    };
    let finding = Finding {
        prefix: ids(&case.finding.prefix),
        ..case.finding.clone()
    };
    let mut shrinker = Shrinker::new(engine, by_bytes, &finding, limits, watch);
    let text = shrinker.text(&finding);
    shrinker.smallest(case.constraint.clone(), text)
}

/// Checks a case against an engine anew.
pub(crate) fn stands(engine: &Bench, tools: &Tools<'_>, case: &Case) -> Standing {
    let constraint = Arc::new(case.constraint.clone());
    witness::check(
        &*engine.engine,
        &constraint,
        &case.finding,
        tools.vocabulary,
        tools.sorted,
    )
}

/// Whether a finding shows the engine too strict.
fn is_strict(finding: &Finding) -> bool {
    matches!(
        finding.proof,
        Proof::RefusesToken | Proof::RefusesEnd | Proof::DiffersStrict
    )
}

/// Whether a smaller finding is of the kind of the first one. What two engines differ in is found
/// by the engine alone once the text is known.
fn is_alike(first: &Finding, smaller: &Finding) -> bool {
    let is_proof = match first.proof {
        Proof::DiffersStrict => matches!(smaller.proof, Proof::RefusesToken | Proof::RefusesEnd),
        Proof::DiffersLoose => smaller.proof == Proof::AllowsEnd,
        proof => smaller.proof == proof,
    };
    is_proof
        && (&smaller.reading, &smaller.breaks, smaller.cause)
            == (&first.reading, &first.breaks, first.cause)
}

struct Shrinker<'a> {
    engine: &'a Bench,
    tools: &'a Tools<'a>,
    /// What is made small.
    first: Finding,
    left: usize,
    time: Duration,
    watched: Stopwatch,
    watch: &'a mut dyn Watch,
}

impl<'a> Shrinker<'a> {
    fn new(
        engine: &'a Bench,
        tools: &'a Tools<'a>,
        finding: &Finding,
        limits: Limits,
        watch: &'a mut dyn Watch,
    ) -> Self {
        Self {
            engine,
            tools,
            first: finding.clone(),
            left: limits.tries,
            time: limits.time,
            watched: Stopwatch::start(),
            watch,
        }
    }

    /// The smallest constraint and text that were found to show the error, from these on; `None`
    /// where not even they do.
    fn smallest(&mut self, mut constraint: Constraint, mut text: Vec<u8>) -> Option<Along> {
        self.found(&constraint, &text)?;
        for _ in 0..MAX_ROUNDS {
            let before = self.left;
            let deeper = self.within(&mut constraint, &mut text);
            let smaller_schema = self.simpler(&mut constraint, &text, |it, number| match it {
                Constraint::JsonSchema(schema) => Some(Constraint::JsonSchema(
                    simpler::without_piece(schema, number)?.into(),
                )),
                _ => None,
            });
            let is_plainer = self.simpler(&mut constraint, &text, plainer::plainer);
            let smaller_text = self.shorter(&constraint, &mut text);
            if !(deeper || smaller_schema || is_plainer || smaller_text)
                || !self.is_on()
                || self.left == before
            {
                break;
            }
        }
        self.with_short_names(&mut constraint, &mut text);
        Some((constraint, text))
    }

    fn case(&mut self, (constraint, text): Along) -> Option<Case> {
        let finding = self.found(&constraint, &text)?;
        Some(Case {
            constraint,
            finding,
        })
    }

    /// Whether there are tries left, and time.
    fn is_on(&self) -> bool {
        self.left > 0 && self.watched.elapsed() < self.time
    }

    /// The bytes that are walked along: the text that a proof rests on, or what was committed.
    fn text(&self, finding: &Finding) -> Vec<u8> {
        let text = finding.text.clone().map(String::into_bytes);
        text.unwrap_or_else(|| self.tools.vocabulary.decode(&finding.prefix))
    }

    /// A finding of the kind on this constraint along this text.
    fn found(&mut self, constraint: &Constraint, bytes: &[u8]) -> Option<Finding> {
        self.watch.at(None);
        let constraint = Arc::new(constraint.clone());
        let vocabulary = self.tools.vocabulary;
        let text = std::str::from_utf8(bytes).ok();
        // What was committed is kept as it was where it is the very same text: other tokens may
        // lead elsewhere.
        let same = vocabulary.decode(&self.first.prefix) == bytes;
        let tokens: Vec<TokenId> = if same {
            self.first.prefix.clone()
        } else {
            vocabulary.encode_exactly(text?)?
        };
        let mut ground = Ground::new(vocabulary, self.tools.sorted, &constraint);
        let matching = text
            .filter(|text| is_strict(&self.first) && ground.judges.judge(text) == Judged::Matches);
        // Judging is cheap beside compiling.
        let is_hopeless = match self.first.proof {
            _ if is_strict(&self.first) => matching.is_none(),
            Proof::AllowsEnd | Proof::DiffersLoose => {
                !matches!(ground.judges.judge_bytes(bytes), Judged::Breaks { .. })
            }
            _ => false,
        };
        if is_hopeless {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        self.watch.at(Some(self.engine.name));
        let contender = Contender::new(self.engine, &constraint);
        let grammar = contender.grammar().ok()?;
        if self.first.proof == Proof::Contradicts {
            return self.contradiction(&contender, &constraint, &tokens);
        }
        let text = Text {
            bytes,
            tokens: &tokens,
            matching,
            origin: Origin::Other,
        };
        let walked = along(
            &*grammar,
            &mut ground,
            &contender.explainer(None).ok()?,
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
        contender: &Contender,
        constraint: &Constraint,
        tokens: &[TokenId],
    ) -> Option<Finding> {
        let (vocabulary, grammar) = (self.tools.vocabulary, contender.grammar().ok()?);
        let (mut matcher, mask) =
            consistency::stand(&*grammar, vocabulary, tokens, &mut 0).ok()??;
        let (mut all, _) =
            consistency::here(&mut *matcher, vocabulary, &mut PythonRandom::new(0)).ok()?;
        all.extend(
            consistency::again(
                &*contender.engine,
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
            .find(|(it, _)| Some(*it) == self.first.contradiction)?;
        let finding = Finding::new(Proof::Contradicts, tokens, token, Origin::Other);
        Some(Finding {
            contradiction: Some(contradiction),
            ..finding
        })
    }

    /// Goes on with a member or an item alone, as long as the error is in there; whether it could.
    fn within(&mut self, constraint: &mut Constraint, text: &mut Vec<u8>) -> bool {
        let mut is_smaller = false;
        while let Constraint::JsonSchema(schema) = &*constraint
            && self.is_on()
        {
            let mut parts = simpler::parts(schema, text)
                .into_iter()
                .map(|(schema, text)| (Constraint::JsonSchema(Arc::new(schema)), text));
            let Some((part, part_text)) =
                parts.find(|(part, text)| self.found(part, text).is_some())
            else {
                break;
            };
            (*constraint, *text, is_smaller) = (part, part_text, true);
        }
        is_smaller
    }

    /// Gives names and values of one or two letters to all that has long ones.
    fn with_short_names(&mut self, constraint: &mut Constraint, text: &mut Vec<u8>) {
        let Constraint::JsonSchema(schema) = &*constraint else {
            return;
        };
        let Some((schema, renamed)) = simpler::with_short_names(schema, text) else {
            return;
        };
        let short = Constraint::JsonSchema(Arc::new(schema));
        if self.found(&short, &renamed).is_some() {
            (*constraint, *text) = (short, renamed);
        }
    }

    /// Goes on with one candidate after the other that shows the error, each made from the last
    /// one; whether there was any.
    fn simpler(
        &mut self,
        constraint: &mut Constraint,
        text: &[u8],
        candidate: impl Fn(&Constraint, usize) -> Option<Constraint>,
    ) -> bool {
        let mut is_smaller = false;
        let mut next = 0;
        while self.is_on() {
            let Some(tried) = candidate(constraint, next) else {
                break;
            };
            if self.found(&tried, text).is_some() {
                (*constraint, is_smaller) = (tried, true);
            } else {
                next += 1;
            }
        }
        is_smaller
    }

    /// Takes pieces of the text away; whether it could.
    fn shorter(&mut self, constraint: &Constraint, text: &mut Vec<u8>) -> bool {
        let mut is_smaller = false;
        let mut next = 0;
        let is_json = constraint.is_json();
        while self.is_on() {
            let piece = if is_json {
                pieces(text).into_iter().nth(next)
            } else {
                simpler::chunks(text.len()).into_iter().nth(next)
            };
            let Some(piece) = piece else { break };
            let candidate = simpler::without(text, piece);
            if self.found(constraint, &candidate).is_some() {
                (*text, is_smaller) = (candidate, true);
            } else {
                next += 1;
            }
        }
        is_smaller
    }
}

/// Pieces of one string or number that are tried: down to the 32nd part of it.
const MAX_PIECES: usize = 62;

/// Pieces of a JSON text that can be taken away, the longest first: members and items with the
/// comma beside them, what strings hold, white space, and of these and of numbers halves, quarters
/// and so on.
fn pieces(text: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut pieces = Vec::new();
    // Where the member or item at hand began, for every bracket that is open.
    let mut open: Vec<usize> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if let Some(length) = respell::piece_length(&text[at..]) {
            let end = at + length;
            let (all, goes_whole) = match text[at] {
                b'"' => (at + 1..end.saturating_sub(1).max(at + 1), true),
                first => (at..end, first.is_ascii_whitespace()),
            };
            pieces.extend(parts(all.clone()));
            pieces.extend((goes_whole && !all.is_empty()).then_some(all));
            at = end;
            continue;
        }
        match text[at] {
            b'{' | b'[' => open.push(at + 1),
            byte @ (b'}' | b']' | b',') => {
                if let Some(start) = open.last_mut() {
                    if at > *start {
                        // With the comma after it, or, of the last one, the one before it.
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

/// Halves, quarters and so on of what stands there.
fn parts(all: std::ops::Range<usize>) -> impl Iterator<Item = std::ops::Range<usize>> {
    let (start, length) = (all.start, all.len());
    let parts = simpler::chunks(length)
        .into_iter()
        .filter(move |it| it.len() < length)
        .take(MAX_PIECES);
    parts.map(move |it| start + it.start..start + it.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_loses_members_items_and_parts_of_strings() {
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
        assert_eq!(simpler::chunks(3), [0..2, 2..3, 0..1, 1..2, 2..3]);
        assert!(simpler::chunks(0).is_empty());
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
