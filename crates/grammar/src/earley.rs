//! An Earley recogniser: decides membership and viable prefixes for any context-free grammar. Knows
//! tables, not dialects.
//!
//! Earley, "An efficient context-free parsing algorithm" (1970), with three refinements: items step
//! over rules that can be empty at once (Aycock and Horspool, "Practical Earley Parsing", 2002), so
//! that completion never looks at the column being built; a chain of completions that can only go
//! one way is walked once (Leo, "A general context-free parsing algorithm running in linear time on
//! every LR(k) grammar without using lookahead", 1991), so that right recursion stays linear; and
//! only productions that can begin with the next character are predicted.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

use super::limits;
use super::tables::{Slot, Tables};

/// What a chart says about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A sentence.
    Sentence,
    /// Not a sentence, but the beginning of one.
    Beginning,
    /// The character that begins at this byte continues no sentence.
    Dead { byte: usize },
    /// The work or the memory allowed for one text was used up.
    OutOf(Resource),
}

/// What can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Items,
    Steps,
}

/// Productions that are asked whether they can begin with a character, in the time of a step.
const PRODUCTIONS_PER_STEP: u64 = 4;

/// Waiting items that are counted in the time of a step.
const ITEMS_PER_STEP: u64 = 16;

/// Reads a text.
pub(super) fn read(tables: &Tables, text: &str) -> Found {
    read_within(tables, text, limits::MAX_CHART_ITEMS, limits::MAX_STEPS)
}

fn read_within(tables: &Tables, text: &str, max_items: usize, max_steps: u64) -> Found {
    if tables.is_empty {
        return Found::Dead { byte: 0 };
    }
    let mut chart = Chart::new(tables, max_items, max_steps);
    for (byte, scalar) in text.char_indices() {
        chart.column(Some(tables.classes.of(scalar)));
        if let Some(resource) = chart.out_of() {
            return Found::OutOf(resource);
        }
        if chart.kernel.is_empty() {
            return Found::Dead { byte };
        }
    }
    chart.column(None);
    if let Some(resource) = chart.out_of() {
        return Found::OutOf(resource);
    }
    if chart.accepted {
        Found::Sentence
    } else {
        Found::Beginning
    }
}

/// A place in a production, and the column where the production began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    slot: u32,
    origin: u32,
}

/// An item of a finished column that waits for a rule to be completed.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    rule: u32,
    item: Item,
    /// Where a chain of completions through this item ends, once somebody has walked it.
    top: Option<Completed>,
}

/// A rule that derives the text from the column `origin` to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Completed {
    rule: u32,
    origin: u32,
}

struct Chart<'t> {
    tables: &'t Tables,
    /// Of every finished column, the items that wait for a rule, sorted by rule.
    waiting: Vec<Waiting>,
    /// Where each column begins in `waiting`.
    columns: Vec<usize>,
    /// The items that the next column begins with.
    kernel: Vec<Item>,
    agenda: Vec<Item>,
    /// The items and completions of this column that could be found twice.
    seen: HashSet<u64, BuildHasherDefault<Mixer>>,
    /// For each rule, one more than the last column in which it was predicted.
    predicted: Vec<u32>,
    /// The places of a chain being walked.
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

    /// What has been used up. Looked at for every item: a single column can hold more than may be
    /// kept.
    fn out_of(&self) -> Option<Resource> {
        if self.steps > self.max_steps {
            return Some(Resource::Steps);
        }
        let items = self.waiting.len() + self.seen.len() + self.agenda.len() + self.kernel.len();
        (items > self.max_items).then_some(Resource::Items)
    }

    /// Completes the next column, unless something runs out, from its kernel to the kernel of the
    /// one after it. `class` is that of the next character, none at the end of the text.
    fn column(&mut self, class: Option<u32>) {
        let here = u32::try_from(self.columns.len() - 1)
            .expect("the limit on steps is far below 2^32 columns");
        self.accepted = here == 0 && self.tables.nullable[self.tables.start as usize];
        self.forget();
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
                // What is complete where it began is empty, and was stepped over where it was
                // predicted.
                Slot::End(rule) if item.origin < here => self.complete(Completed {
                    rule,
                    origin: item.origin,
                }),
                Slot::End(_) => {}
            }
        }
        let begin = self.columns[here as usize];
        self.waiting[begin..].sort_unstable_by_key(|waiting| waiting.rule);
        self.columns.push(self.waiting.len());
    }

    /// Predicted items need no check for having been seen: nothing else makes an item at the
    /// beginning of a production.
    fn predict(&mut self, rule: u32, here: u32, class: u32) {
        if self.predicted[rule as usize] == here + 1 {
            return;
        }
        self.predicted[rule as usize] = here + 1;
        self.steps += self.tables.productions_of(rule).len() as u64 / PRODUCTIONS_PER_STEP;
        self.agenda.extend(
            self.tables
                .productions_beginning(rule, class)
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
        if !self.see(completed) {
            return;
        }
        let top = self.top(completed);
        if top != completed && !self.see(top) {
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

    /// Where the chain of completions that begins with this one ends. A step of the chain is
    /// certain if one item alone waits for what was completed, and if that completes the item's own
    /// rule. A chain cannot run in a circle: whatever first predicted one of its rules waits for it
    /// too, from outside.
    fn top(&mut self, from: Completed) -> Completed {
        let mut top = from;
        self.chain.clear();
        loop {
            self.steps += 1;
            let waiting = self.waiting_for(top);
            if waiting.len() != 1 {
                break;
            }
            let place = waiting.start;
            let Waiting {
                item, top: known, ..
            } = self.waiting[place];
            let Slot::End(rule) = self.tables.slots[item.slot as usize + 1] else {
                break;
            };
            if let Some(known) = known {
                top = known;
                break;
            }
            self.chain.push(place);
            top = Completed {
                rule,
                origin: item.origin,
            };
        }
        for &place in &self.chain {
            self.waiting[place].top = Some(top);
        }
        top
    }

    /// The items of a finished column that wait for a rule.
    fn waiting_for(&mut self, completed: Completed) -> Range<usize> {
        let origin = completed.origin as usize;
        let column = &self.waiting[self.columns[origin]..self.columns[origin + 1]];
        let begin =
            self.columns[origin] + column.partition_point(|waiting| waiting.rule < completed.rule);
        let length = self.waiting[begin..self.columns[origin + 1]]
            .iter()
            .take_while(|found| found.rule == completed.rule)
            .count();
        self.steps += length as u64 / ITEMS_PER_STEP;
        begin..begin + length
    }

    /// Whether a completion is new in this column. Its key cannot be an item's: slots are fewer
    /// than 2^31.
    fn see(&mut self, completed: Completed) -> bool {
        self.seen
            .insert(1 << 63 | u64::from(completed.rule) << 32 | u64::from(completed.origin))
    }

    /// Empties `seen` for the next column. Clearing a table costs its capacity, so one that a large
    /// column left behind is given back.
    fn forget(&mut self) {
        if self.seen.capacity() > 1024 && self.seen.len() < self.seen.capacity() / 8 {
            self.seen = HashSet::default();
        } else {
            self.seen.clear();
        }
    }
}

/// A hasher for keys of 64 bits: one multiplication (Knuth's multiplicative hashing), the high half
/// folded onto the low one.
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

    /// The longest text that grammars are compared on.
    const LONGEST: usize = 5;

    /// A grammar of numbered rules: lower-case letters are characters, upper-case ones rules, `|`
    /// parts alternatives. The last rule is one that derives the first.
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

    /// The sentences up to the longest, found without a chart: sets of texts grow by every
    /// production until none does.
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

    /// Every text of these letters up to this length.
    fn texts(letters: &str, longest: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut begin = 0;
        for _ in 0..longest {
            let end = all.len();
            for index in begin..end {
                all.extend(
                    letters
                        .chars()
                        .map(|letter| format!("{}{letter}", all[index]))
                        .collect::<Vec<_>>(),
                );
            }
            begin = end;
        }
        all
    }

    fn check(rules: &[&str], letters: &str) {
        let cfg = cfg(rules);
        let sentences = language(&cfg);
        let tables = Tables::new(&cfg).unwrap();
        for text in texts(letters, LONGEST) {
            let found = read(&tables, &text);
            assert_eq!(
                found == Found::Sentence,
                sentences.contains(&text),
                "{rules:?} on {text:?}: {found:?}"
            );
            let known_beginning = sentences.iter().any(|sentence| sentence.starts_with(&text));
            match found {
                Found::Sentence | Found::Beginning => {}
                Found::Dead { byte } => {
                    assert!(!known_beginning, "{rules:?} on {text:?}");
                    let before = read(&tables, &text[..byte]);
                    assert!(
                        matches!(before, Found::Sentence | Found::Beginning) || tables.is_empty,
                        "{rules:?} on {text:?}"
                    );
                }
                Found::OutOf(_) => panic!("{rules:?} on {text:?} is small"),
            }
        }
    }

    #[test]
    fn awkward_grammars_agree_with_their_derivations() {
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
            chart.column(Some(tables.classes.of(scalar)));
        }
        chart.column(None);
        assert!(chart.accepted, "{rules:?}");
        chart.steps
    }

    #[test]
    fn lists_take_steps_in_proportion_to_their_length() {
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
    fn running_out_is_an_answer_of_its_own() {
        let tables = Tables::new(&cfg(&["AA|a"])).unwrap();
        let text = "a".repeat(200);
        assert_eq!(
            read_within(&tables, &text, 1_000_000, 10_000),
            Found::OutOf(Resource::Steps)
        );
        assert_eq!(
            read_within(&tables, &text, 1_000, 100_000_000),
            Found::OutOf(Resource::Items)
        );
        assert_eq!(
            read_within(&tables, &text, 1_000_000, 100_000_000),
            Found::Sentence
        );
    }
}
