//! Look-up tables of an Earley chart, computed once per grammar: nullable rules, and the characters
//! that productions can start with.

use super::cfg::{Cfg, Symbol};
use super::classes::Classes;
use super::error::GrammarError;
use super::limits;

/// Tables of a grammar, without rules that derive nothing; productions are stored end to end.
#[derive(Debug)]
pub(super) struct Tables {
    /// The symbols of each production, followed by its end.
    pub(super) slots: Vec<Slot>,
    /// Index in [`Self::productions`] of each rule's first production.
    first_production: Vec<usize>,
    /// The first slot of each production, ordered by rule.
    productions: Vec<u32>,
    /// Whether each rule derives the empty text.
    pub(super) nullable: Vec<bool>,
    /// The character classes.
    pub(super) classes: Classes,
    /// The classes in each set.
    sets: BitMatrix,
    /// The classes that each production can start with.
    first_classes: BitMatrix,
    /// The start rule.
    pub(super) start: u32,
    /// Whether the language is empty.
    pub(super) is_empty: bool,
}

/// A position in a production: the next symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Rule(u32),
    Set(u32),
    /// End of a production of this rule.
    End(u32),
}

impl Tables {
    /// Computes the tables.
    ///
    /// # Errors
    /// Characters times productions exceed the limit.
    pub(super) fn new(cfg: &Cfg) -> Result<Self, GrammarError> {
        let (productive, nullable) = (productive(cfg), nullable(cfg));
        let Layout {
            slots,
            productions,
            first_production,
        } = Layout::new(cfg, &productive);
        let classes = Classes::new(&cfg.sets)?;
        let rows = cfg.sets.len() + productions.len() + cfg.rules.len();
        if rows.saturating_mul(classes.len()) > limits::MAX_LOOKAHEAD_BITS {
            return Err(GrammarError::Limit {
                what: format!(
                    "characters times productions: {}",
                    limits::MAX_LOOKAHEAD_BITS
                ),
            });
        }
        let mut sets = BitMatrix::new(cfg.sets.len(), classes.len());
        for (row, set) in cfg.sets.iter().enumerate() {
            classes
                .classes_of(set)
                .for_each(|class| sets.set(row, class));
        }
        let is_empty = !productive[cfg.start as usize];
        let mut tables = Self {
            first_classes: BitMatrix::new(productions.len(), classes.len()),
            slots,
            first_production,
            productions,
            nullable,
            classes,
            sets,
            start: cfg.start,
            is_empty,
        };
        tables.fill_first_classes(cfg.rules.len());
        Ok(tables)
    }

    /// The first slots of the productions of a rule that can start with a character of this class.
    pub(super) fn productions_starting_with(
        &self,
        rule: u32,
        class: u32,
    ) -> impl Iterator<Item = u32> {
        self.of_rule(rule)
            .filter(move |&production| self.first_classes.has(production, class))
            .map(|index| self.productions[index])
    }

    /// The first slots of all productions of a rule.
    pub(super) fn productions_of(&self, rule: u32) -> impl ExactSizeIterator<Item = u32> {
        self.of_rule(rule).map(|index| self.productions[index])
    }

    /// Whether a set contains a class.
    pub(super) fn set_has(&self, set: u32, class: u32) -> bool {
        self.sets.has(set as usize, class)
    }

    fn of_rule(&self, rule: u32) -> std::ops::Range<usize> {
        self.first_production[rule as usize]..self.first_production[rule as usize + 1]
    }

    /// Computes the classes that each rule can start with, to a fixed point, and from that those of
    /// each production.
    fn fill_first_classes(&mut self, rules: usize) {
        let mut of_rules = BitMatrix::new(rules, self.classes.len());
        // For each rule, the rules that can start with it.
        let mut started_by: Vec<Vec<usize>> = vec![Vec::new(); rules];
        for rule in 0..rules {
            for index in self.first_production[rule]..self.first_production[rule + 1] {
                for slot in self.leading(index) {
                    match slot {
                        Slot::Set(set) => of_rules.merge(rule, &self.sets, set as usize),
                        Slot::Rule(inner) => started_by[inner as usize].push(rule),
                        Slot::End(_) => {}
                    }
                }
            }
        }
        let mut changed: Vec<usize> = (0..rules).collect();
        let mut queued = vec![true; rules];
        while let Some(inner) = changed.pop() {
            queued[inner] = false;
            for &rule in &started_by[inner] {
                if of_rules.merge_own(rule, inner) && !queued[rule] {
                    queued[rule] = true;
                    changed.push(rule);
                }
            }
        }
        let mut first_classes = std::mem::take(&mut self.first_classes);
        for index in 0..self.productions.len() {
            for slot in self.leading(index) {
                match slot {
                    Slot::Set(set) => first_classes.merge(index, &self.sets, set as usize),
                    Slot::Rule(rule) => first_classes.merge(index, &of_rules, rule as usize),
                    Slot::End(_) => {}
                }
            }
        }
        self.first_classes = first_classes;
    }

    /// The slots of a production that can consume its first character: up to the first slot that is
    /// not nullable.
    fn leading(&self, production: usize) -> impl Iterator<Item = Slot> {
        let mut open = true;
        self.slots[self.productions[production] as usize..]
            .iter()
            .copied()
            .take_while(move |slot| {
                let taken = open;
                open = open && matches!(slot, Slot::Rule(rule) if self.nullable[*rule as usize]);
                taken && !matches!(slot, Slot::End(_))
            })
    }
}

/// Whether each rule derives any text.
pub(super) fn productive(cfg: &Cfg) -> Vec<bool> {
    closure(cfg, |symbol| match symbol {
        Symbol::Rule(rule) => Need::Rule(rule),
        Symbol::Set(set) if cfg.sets[set as usize].is_empty() => Need::Never,
        Symbol::Set(_) => Need::Nothing,
    })
}

/// Whether each rule derives the empty text.
pub(super) fn nullable(cfg: &Cfg) -> Vec<bool> {
    closure(cfg, |symbol| match symbol {
        Symbol::Rule(rule) => Need::Rule(rule),
        Symbol::Set(_) => Need::Never,
    })
}

/// Productions stored end to end.
struct Layout {
    slots: Vec<Slot>,
    productions: Vec<u32>,
    first_production: Vec<usize>,
}

impl Layout {
    /// Stores the productions whose symbols all derive a text. Without the others, every item of a
    /// chart can be completed, so a text is a prefix of a sentence as long as its chart has items.
    fn new(cfg: &Cfg, productive: &[bool]) -> Self {
        let mut layout = Self {
            slots: Vec::new(),
            productions: Vec::new(),
            first_production: vec![0],
        };
        for (rule, alternatives) in (0..).zip(&cfg.rules) {
            for symbols in alternatives {
                let is_productive = symbols.iter().all(|symbol| match symbol {
                    Symbol::Rule(rule) => productive[*rule as usize],
                    Symbol::Set(set) => !cfg.sets[*set as usize].is_empty(),
                });
                if is_productive {
                    layout.productions.push(
                        u32::try_from(layout.slots.len())
                            .expect("the limit on symbols is far below 2^32"),
                    );
                    layout
                        .slots
                        .extend(symbols.iter().map(|symbol| match symbol {
                            Symbol::Rule(rule) => Slot::Rule(*rule),
                            Symbol::Set(set) => Slot::Set(*set),
                        }));
                    layout.slots.push(Slot::End(rule));
                }
            }
            layout.first_production.push(layout.productions.len());
        }
        layout
    }
}

/// The condition of a symbol.
enum Need {
    Nothing,
    Never,
    Rule(u32),
}

/// The rules with a production whose symbols are all satisfied, by a worklist that visits each rule
/// once.
fn closure(cfg: &Cfg, need: impl Fn(Symbol) -> Need) -> Vec<bool> {
    let mut reached = vec![false; cfg.rules.len()];
    let mut missing: Vec<usize> = Vec::new();
    let mut owners: Vec<usize> = Vec::new();
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); cfg.rules.len()];
    let mut agenda = Vec::new();
    for (rule, alternatives) in cfg.rules.iter().enumerate() {
        for symbols in alternatives {
            let production = missing.len();
            owners.push(rule);
            missing.push(0);
            for &symbol in symbols {
                match need(symbol) {
                    Need::Nothing => {}
                    Need::Never => missing[production] += 1,
                    Need::Rule(inner) => {
                        missing[production] += 1;
                        waiting[inner as usize].push(production);
                    }
                }
            }
            if missing[production] == 0 && !reached[rule] {
                reached[rule] = true;
                agenda.push(rule);
            }
        }
    }
    while let Some(rule) = agenda.pop() {
        for &production in &waiting[rule] {
            missing[production] -= 1;
            let owner = owners[production];
            if missing[production] == 0 && !reached[owner] {
                reached[owner] = true;
                agenda.push(owner);
            }
        }
    }
    reached
}

/// A bit matrix with one column per class.
#[derive(Debug, Default)]
struct BitMatrix {
    words: Vec<u64>,
    per_row: usize,
}

impl BitMatrix {
    fn new(rows: usize, columns: usize) -> Self {
        let per_row = columns.div_ceil(64);
        Self {
            words: vec![0; rows * per_row],
            per_row,
        }
    }

    fn set(&mut self, row: usize, column: u32) {
        self.words[row * self.per_row + column as usize / 64] |= 1 << (column % 64);
    }

    fn has(&self, row: usize, column: u32) -> bool {
        self.words[row * self.per_row + column as usize / 64] >> (column % 64) & 1 == 1
    }

    /// Ors a row of another matrix into a row.
    fn merge(&mut self, row: usize, other: &Self, other_row: usize) {
        for word in 0..self.per_row {
            self.words[row * self.per_row + word] |= other.words[other_row * other.per_row + word];
        }
    }

    /// Ors a row of this matrix into another row; returns whether it changed.
    fn merge_own(&mut self, row: usize, other_row: usize) -> bool {
        let mut changed = false;
        for word in 0..self.per_row {
            let before = self.words[row * self.per_row + word];
            let after = before | self.words[other_row * self.per_row + word];
            self.words[row * self.per_row + word] = after;
            changed |= after != before;
        }
        changed
    }
}
