//! An Earley recogniser: decides membership and prefixes for any context-free grammar.
//!
//! Earley, "An efficient context-free parsing algorithm" (1970), with three refinements. Items skip
//! nullable rules immediately (Aycock and Horspool, "Practical Earley Parsing", 2002), so that
//! completion never inspects the current column. Deterministic chains of completions are followed
//! once (Leo, "A general context-free parsing algorithm running in linear time on every LR(k)
//! grammar without using lookahead", 1991), so that right recursion is linear. Only productions
//! that can start with the next character are predicted.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::limits;
use super::tables::{Slot, Tables};

/// Result of recognising a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recognition {
    /// A sentence.
    Sentence,
    /// A proper prefix of a sentence.
    Prefix,
    /// No sentence continues with the character at this byte.
    Dead { byte: usize },
    /// A resource limit was reached.
    OutOf(Resource),
}

/// A limited resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Items,
    Steps,
}

/// Number of productions checked for a first character in the time of a step.
const PRODUCTIONS_PER_STEP: u64 = 4;

/// Number of waiting items counted in the time of a step.
const ITEMS_PER_STEP: u64 = 16;

/// Recognises a text.
pub(super) fn recognise(tables: &Tables, text: &str) -> Recognition {
    recognise_within(tables, text, limits::MAX_CHART_ITEMS, limits::MAX_STEPS)
}

fn recognise_within(tables: &Tables, text: &str, max_items: usize, max_steps: u64) -> Recognition {
    if tables.is_empty {
        return Recognition::Dead { byte: 0 };
    }
    let mut chart = Chart::new(tables, max_items, max_steps);
    for (byte, scalar) in text.char_indices() {
        chart.column(Some(tables.classes.class_of(scalar)));
        if let Some(resource) = chart.out_of() {
            return Recognition::OutOf(resource);
        }
        if chart.kernel.is_empty() {
            return Recognition::Dead { byte };
        }
    }
    chart.column(None);
    if let Some(resource) = chart.out_of() {
        return Recognition::OutOf(resource);
    }
    if chart.accepted {
        Recognition::Sentence
    } else {
        Recognition::Prefix
    }
}

/// The prefixes of a text that are sentences.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prefixes {
    /// Their lengths in bytes, ascending.
    pub(super) ends: Vec<usize>,
    /// The byte up to which the text is the start of a sentence.
    pub(super) read: usize,
    /// Steps taken.
    pub(super) steps: u64,
}

/// Finds all prefixes of a text that are sentences.
pub(super) fn prefixes(tables: &Tables, text: &str, max_steps: u64) -> Result<Prefixes, Resource> {
    let mut found = Prefixes {
        ends: Vec::new(),
        read: 0,
        steps: 0,
    };
    if tables.is_empty {
        return Ok(found);
    }
    let mut chart = Chart::new(tables, limits::MAX_CHART_ITEMS, max_steps);
    let classes = text
        .char_indices()
        .map(|(byte, scalar)| (byte, Some(tables.classes.class_of(scalar))))
        .chain([(text.len(), None)]);
    for (byte, class) in classes {
        chart.column(class);
        found.steps = chart.steps;
        if let Some(resource) = chart.out_of() {
            return Err(resource);
        }
        if chart.accepted {
            found.ends.push(byte);
        }
        found.read = byte;
        if class.is_some() && chart.kernel.is_empty() {
            break;
        }
    }
    Ok(found)
}

/// A position in a production, and the column where the production started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    slot: u32,
    origin: u32,
}

/// An item of a finished column that waits for the completion of a rule.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    rule: u32,
    item: Item,
    /// The end of the chain of completions through this item, once computed.
    top: Option<Completed>,
}

/// A rule that derives the text from column `origin` to the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Completed {
    rule: u32,
    origin: u32,
}

struct Chart<'t> {
    tables: &'t Tables,
    /// The waiting items of all finished columns, sorted by rule within a column.
    waiting: Vec<Waiting>,
    /// The start of each column in `waiting`.
    columns: Vec<usize>,
    /// The initial items of the next column.
    kernel: Vec<Item>,
    agenda: Vec<Item>,
    /// Items and completions of this column, to find duplicates.
    seen: HashSet<u64, BuildHasherDefault<Mixer>>,
    /// For each rule, the last column in which it was predicted, plus 1.
    predicted: Vec<u32>,
    /// The waiting items of the current chain.
    chain: Vec<usize>,
    steps: u64,
    max_steps: u64,
    max_items: usize,
    accepted: bool,
}

impl<'t> Chart<'t> {
    fn new(tables: &'t Tables, max_items: usize, max_steps: u64) -> Self {
        Self {
            tables,
            waiting: Vec::new(),
            columns: vec![0],
            kernel: tables
                .productions_of(tables.start)
                .map(|slot| Item { slot, origin: 0 })
                .collect(),
            agenda: Vec::new(),
            seen: HashSet::default(),
            predicted: vec![0; tables.nullable.len()],
            chain: Vec::new(),
            steps: 0,
            max_steps,
            max_items,
            accepted: tables.nullable[tables.start as usize],
        }
    }

    /// The exhausted resource, if any. Checked for every item, because a single column can exceed
    /// the limit.
    fn out_of(&self) -> Option<Resource> {
        if self.steps > self.max_steps {
            return Some(Resource::Steps);
        }
        let items = self.waiting.len() + self.seen.len() + self.agenda.len() + self.kernel.len();
        (items > self.max_items).then_some(Resource::Items)
    }

    /// Processes the next column, unless a resource is exhausted: from its kernel to the kernel of
    /// the following column. `class` is the class of the next character, `None` at the end of the
    /// text.
    fn column(&mut self, class: Option<u32>) {
        let here = u32::try_from(self.columns.len() - 1)
            .expect("the limit on steps is far below 2^32 columns");
        self.accepted = here == 0 && self.tables.nullable[self.tables.start as usize];
        self.clear_seen();
        std::mem::swap(&mut self.agenda, &mut self.kernel);
        self.kernel.clear();
        while let Some(item) = self.agenda.pop() {
            self.steps += 1;
            if self.out_of().is_some() {
                break;
            }
            match self.tables.slots[item.slot as usize] {
                Slot::Set(set) => {
                    if class.is_some_and(|class| self.tables.set_has(set, class)) {
                        self.kernel.push(Item {
                            slot: item.slot + 1,
                            origin: item.origin,
                        });
                    }
                }
                Slot::Rule(rule) => {
                    if let Some(class) = class {
                        self.waiting.push(Waiting {
                            rule,
                            item,
                            top: None,
                        });
                        self.predict(rule, here, class);
                    }
                    if self.tables.nullable[rule as usize] {
                        self.add(Item {
                            slot: item.slot + 1,
                            origin: item.origin,
                        });
                    }
                }
                // A rule completed in its own start column is empty, and was skipped when it was
                // predicted.
                Slot::End(rule) if item.origin < here => self.complete(Completed {
                    rule,
                    origin: item.origin,
                }),
                Slot::End(_) => {}
            }
        }
        let start = self.columns[here as usize];
        self.waiting[start..].sort_unstable_by_key(|waiting| waiting.rule);
        self.columns.push(self.waiting.len());
    }

    /// Predicted items need no duplicate check: no other step makes items at the start of a
    /// production.
    fn predict(&mut self, rule: u32, here: u32, class: u32) {
        if self.predicted[rule as usize] == here + 1 {
            return;
        }
        self.predicted[rule as usize] = here + 1;
        self.steps += self.tables.productions_of(rule).len() as u64 / PRODUCTIONS_PER_STEP;
        self.agenda.extend(
            self.tables
                .productions_starting_with(rule, class)
                .map(|slot| Item { slot, origin: here }),
        );
    }

    fn add(&mut self, item: Item) {
        if self
            .seen
            .insert(u64::from(item.slot) << 32 | u64::from(item.origin))
        {
            self.agenda.push(item);
        }
    }

    fn complete(&mut self, completed: Completed) {
        if !self.mark_seen(completed) {
            return;
        }
        let top = self.top(completed);
        if top != completed && !self.mark_seen(top) {
            return;
        }
        if top.rule == self.tables.start {
            self.accepted = true;
        }
        for index in self.waiting_for(top) {
            self.steps += 1;
            let Item { slot, origin } = self.waiting[index].item;
            self.add(Item {
                slot: slot + 1,
                origin,
            });
        }
    }

    /// The end of the chain of completions that starts here. The chain continues if exactly one
    /// item waits for the completed rule and the completion finishes the item's own rule. A chain
    /// has no cycle: the item that first predicted one of its rules also waits for it, from outside
    /// the chain.
    fn top(&mut self, from: Completed) -> Completed {
        let mut top = from;
        self.chain.clear();
        loop {
            self.steps += 1;
            let waiting = self.waiting_for(top);
            if waiting.len() != 1 {
                break;
            }
            let position = waiting.start;
            let Waiting {
                item, top: known, ..
            } = self.waiting[position];
            let Slot::End(rule) = self.tables.slots[item.slot as usize + 1] else {
                break;
            };
            if let Some(known) = known {
                top = known;
                break;
            }
            self.chain.push(position);
            top = Completed {
                rule,
                origin: item.origin,
            };
        }
        for &position in &self.chain {
            self.waiting[position].top = Some(top);
        }
        top
    }

    /// The range of items of a finished column that wait for a rule.
    fn waiting_for(&mut self, completed: Completed) -> Range<usize> {
        let origin = completed.origin as usize;
        let column = &self.waiting[self.columns[origin]..self.columns[origin + 1]];
        let start =
            self.columns[origin] + column.partition_point(|waiting| waiting.rule < completed.rule);
        let length = self.waiting[start..self.columns[origin + 1]]
            .iter()
            .take_while(|found| found.rule == completed.rule)
            .count();
        self.steps += length as u64 / ITEMS_PER_STEP;
        start..start + length
    }

    /// Whether a completion is new in this column. Its key differs from those of items: there are
    /// fewer than 2^31 slots.
    fn mark_seen(&mut self, completed: Completed) -> bool {
        self.seen
            .insert(1 << 63 | u64::from(completed.rule) << 32 | u64::from(completed.origin))
    }

    /// Clears `seen` for the next column. Clearing a hash table costs its capacity, so a large
    /// table is replaced.
    fn clear_seen(&mut self) {
        if self.seen.capacity() > 1024 && self.seen.len() < self.seen.capacity() / 8 {
            self.seen = HashSet::default();
        } else {
            self.seen.clear();
        }
    }
}

/// A hasher for 64-bit keys: one multiplication (Knuth's multiplicative hashing), with the high
/// half folded into the low half.
#[derive(Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        let mixed = (self.0 ^ key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::cfg::{Cfg, Symbol};
    use super::super::charset::CharSet;
    use super::*;

    /// Maximum length of compared texts.
    const LONGEST: usize = 5;

    /// A grammar from strings: lower-case letters are characters, upper-case letters are rules, `|`
    /// separates alternatives. An added last rule derives the first.
    fn cfg(rules: &[&str]) -> Cfg {
        let mut cfg = Cfg {
            sets: "abc".chars().map(CharSet::one).collect(),
            ..Cfg::default()
        };
        let symbol = |letter: u8| match letter {
            b'A'..=b'Z' => Symbol::Rule(u32::from(letter - b'A')),
            _ => Symbol::Set(u32::from(letter - b'a')),
        };
        for rule in rules {
            cfg.rules.push(
                rule.split('|')
                    .map(|alternative| alternative.bytes().map(symbol).collect())
                    .collect(),
            );
        }
        cfg.start = u32::try_from(rules.len()).unwrap();
        cfg.rules.push(vec![vec![Symbol::Rule(0)]]);
        cfg
    }

    /// The sentences up to the maximum length, computed as a fixed point of sets of texts.
    fn language(cfg: &Cfg) -> BTreeSet<String> {
        let mut derived: Vec<BTreeSet<String>> = vec![BTreeSet::new(); cfg.rules.len()];
        loop {
            let before: usize = derived.iter().map(BTreeSet::len).sum();
            for (rule, alternatives) in cfg.rules.iter().enumerate() {
                for symbols in alternatives {
                    let mut texts = BTreeSet::from([String::new()]);
                    for symbol in symbols {
                        let next: BTreeSet<String> = match symbol {
                            Symbol::Rule(inner) => derived[*inner as usize].clone(),
                            Symbol::Set(set) => cfg.sets[*set as usize]
                                .ranges()
                                .iter()
                                .flat_map(|&(first, last)| first..=last)
                                .map(|scalar| char::from_u32(scalar).unwrap().to_string())
                                .collect(),
                        };
                        let joined = texts
                            .iter()
                            .flat_map(|head| next.iter().map(move |tail| format!("{head}{tail}")));
                        texts = joined.filter(|text| text.len() <= LONGEST).collect();
                    }
                    derived[rule].extend(texts);
                }
            }
            if derived.iter().map(BTreeSet::len).sum::<usize>() == before {
                return derived.swap_remove(cfg.start as usize);
            }
        }
    }

    /// All texts of these letters up to this length.
    fn texts(letters: &str, longest: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut start = 0;
        for _ in 0..longest {
            let end = all.len();
            for index in start..end {
                all.extend(
                    letters
                        .chars()
                        .map(|letter| format!("{}{letter}", all[index]))
                        .collect::<Vec<_>>(),
                );
            }
            start = end;
        }
        all
    }

    fn check(rules: &[&str], letters: &str) {
        let cfg = cfg(rules);
        let sentences = language(&cfg);
        let tables = Tables::new(&cfg).unwrap();
        for text in texts(letters, LONGEST) {
            let found = recognise(&tables, &text);
            assert_eq!(
                found == Recognition::Sentence,
                sentences.contains(&text),
                "{rules:?} on {text:?}: {found:?}"
            );
            let is_known_prefix = sentences.iter().any(|sentence| sentence.starts_with(&text));
            match found {
                Recognition::Sentence | Recognition::Prefix => {}
                Recognition::Dead { byte } => {
                    assert!(!is_known_prefix, "{rules:?} on {text:?}");
                    let before = recognise(&tables, &text[..byte]);
                    assert!(
                        matches!(before, Recognition::Sentence | Recognition::Prefix)
                            || tables.is_empty,
                        "{rules:?} on {text:?}"
                    );
                }
                Recognition::OutOf(_) => panic!("{rules:?} on {text:?} is small"),
            }
        }
    }

    #[test]
    fn edge_case_grammars_agree_with_their_derivations() {
        for rules in [
            &["aA|b"][..],
            &["Aa|b"],
            &["A|a"],
            &["B|a", "A|b"],
            &["|aA"],
            &["|Aa"],
            &["AA|a"],
            &["AA|a|"],
            &["aAa|bAb|a|b|"],
            &["BA|b", "|a"],
            &["BB", "CC", "|a"],
            &["aBc", "|B"],
            &["aB", "bA"],
            &["aA|B", "bB|"],
            &["BAB|c", "|a"],
            &["aAB|", "|b"],
            &["BC|c", "aB|", "b|C"],
            &["AB|", "bA|A"],
            &["aB|ab", "bB|b|A"],
        ] {
            check(rules, "abc");
        }
    }

    #[test]
    fn random_grammars_agree_with_their_derivations() {
        let mut state = 0x5DEE_CE66_D1CE_4E5B_u64;
        let mut below = |limit: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % limit
        };
        for _ in 0..400 {
            let count = 1 + below(4);
            let rules: Vec<String> = (0..count)
                .map(|_| {
                    let alternatives = (0..1 + below(3)).map(|_| {
                        let symbols = (0..below(4)).map(|_| match below(4) {
                            letter @ 0..2 => b'a' + letter as u8,
                            _ => b'A' + below(count) as u8,
                        });
                        String::from_utf8(symbols.collect()).unwrap()
                    });
                    alternatives.collect::<Vec<_>>().join("|")
                })
                .collect();
            check(&rules.iter().map(String::as_str).collect::<Vec<_>>(), "ab");
        }
    }

    fn steps(rules: &[&str], text: &str) -> u64 {
        let tables = Tables::new(&cfg(rules)).unwrap();
        let mut chart = Chart::new(&tables, limits::MAX_CHART_ITEMS, limits::MAX_STEPS);
        for scalar in text.chars() {
            chart.column(Some(tables.classes.class_of(scalar)));
        }
        chart.column(None);
        assert!(chart.accepted, "{rules:?}");
        chart.steps
    }

    #[test]
    fn lists_take_linear_steps() {
        for rules in [
            &["aA|a"][..],
            &["Aa|a"],
            &["aA|"],
            &["aB", "|A"],
            &["aB|a", "A"],
            &["aBA|", "b|"],
        ] {
            let (short, long) = (
                steps(rules, &"a".repeat(1_000)),
                steps(rules, &"a".repeat(10_000)),
            );
            assert!(long < short * 11, "{rules:?}: {short} steps, then {long}");
        }
    }

    #[test]
    fn exhausted_resources_are_reported() {
        let tables = Tables::new(&cfg(&["AA|a"])).unwrap();
        let text = "a".repeat(200);
        assert_eq!(
            recognise_within(&tables, &text, 1_000_000, 10_000),
            Recognition::OutOf(Resource::Steps)
        );
        assert_eq!(
            recognise_within(&tables, &text, 1_000, 100_000_000),
            Recognition::OutOf(Resource::Items)
        );
        assert_eq!(
            recognise_within(&tables, &text, 1_000_000, 100_000_000),
            Recognition::Sentence
        );
    }
}
