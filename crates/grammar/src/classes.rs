//! Character equivalence classes: characters that are in the same sets of a grammar.

use super::charset::CharSet;
use super::error::GrammarError;
use super::limits;

/// A partition of all scalars such that each set of a grammar is a union of classes.
#[derive(Debug)]
pub(super) struct Classes {
    /// The first scalar of each segment, sorted; the scalars of a segment have the same class.
    starts: Vec<u32>,
    /// The class of each segment.
    classes: Vec<u32>,
    /// The class of each ASCII character, for direct look-up.
    ascii: [u32; 128],
    count: usize,
}

impl Classes {
    /// The coarsest partition for these sets.
    ///
    /// # Errors
    /// Sets times segments exceed the limit.
    pub(super) fn new(sets: &[CharSet]) -> Result<Self, GrammarError> {
        let ends = sets
            .iter()
            .flat_map(CharSet::ranges)
            .flat_map(|&(first, last)| [first, last + 1]);
        let mut starts: Vec<u32> = ends.chain([0]).collect();
        starts.sort_unstable();
        starts.dedup();
        if starts.len().saturating_mul(sets.len()) > limits::MAX_LOOKAHEAD_BITS {
            return Err(GrammarError::Limit {
                what: format!("characters times sets: {}", limits::MAX_LOOKAHEAD_BITS),
            });
        }
        let mut partition = Partition::new(starts.len());
        for set in sets {
            partition.split(|| {
                set.ranges()
                    .iter()
                    .flat_map(|&(first, last)| segments(&starts, first, last))
            });
        }
        let count = partition.sizes.len();
        let classes = partition.classes;
        let mut found = Self {
            starts,
            classes,
            ascii: [0; 128],
            count,
        };
        for scalar in 0..128 {
            found.ascii[scalar as usize] = found.search(scalar);
        }
        Ok(found)
    }

    /// The class of a scalar.
    pub(super) fn class_of(&self, scalar: char) -> u32 {
        match self.ascii.get(scalar as usize) {
            Some(&class) => class,
            None => self.search(u32::from(scalar)),
        }
    }

    /// The classes of a set, with duplicates.
    pub(super) fn classes_of(&self, set: &CharSet) -> impl Iterator<Item = u32> {
        set.ranges()
            .iter()
            .flat_map(|&(first, last)| segments(&self.starts, first, last))
            .map(|index| self.classes[index])
    }

    /// Number of classes.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    fn search(&self, scalar: u32) -> u32 {
        self.classes[self.starts.partition_point(|&start| start <= scalar) - 1]
    }
}

/// The segments of a range that starts and ends at segment boundaries.
fn segments(starts: &[u32], first: u32, last: u32) -> std::ops::Range<usize> {
    starts.partition_point(|&start| start < first)..starts.partition_point(|&start| start <= last)
}

/// Partition of segments into classes, refined set by set.
struct Partition {
    /// The class of each segment.
    classes: Vec<u32>,
    /// Number of segments of each class.
    sizes: Vec<usize>,
    /// Number of those in the current set.
    touched: Vec<usize>,
    /// The new class of those, if the set splits the class.
    renamed: Vec<Option<u32>>,
}

impl Partition {
    fn new(segments: usize) -> Self {
        Self {
            classes: vec![0; segments],
            sizes: vec![segments],
            touched: vec![0],
            renamed: vec![None],
        }
    }

    /// Splits each class that is partly inside the set.
    fn split<I: Iterator<Item = usize>>(&mut self, set: impl Fn() -> I) {
        for segment in set() {
            self.touched[self.classes[segment] as usize] += 1;
        }
        for segment in set() {
            let class = self.classes[segment] as usize;
            if self.touched[class] == self.sizes[class] {
                continue;
            }
            if self.renamed[class].is_none() {
                self.renamed[class] =
                    Some(u32::try_from(self.sizes.len()).expect("fewer classes than scalars"));
                self.sizes.push(self.touched[class]);
                self.touched.push(0);
                self.renamed.push(None);
            }
            self.classes[segment] = self.renamed[class].unwrap_or_default();
        }
        for class in 0..self.sizes.len() {
            if self.renamed[class].take().is_some() {
                self.sizes[class] -= self.touched[class];
            }
            self.touched[class] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_share_a_class_if_no_set_distinguishes_them() {
        let range = |first: char, last: char| CharSet::new([(u32::from(first), u32::from(last))]);
        let sets = [
            range('a', 'z'),
            range('f', 'm'),
            range('é', 'é'),
            CharSet::one('\n').complement(),
            CharSet::default(),
        ];
        let classes = Classes::new(&sets).unwrap();
        let samples = [
            'a',
            'e',
            'f',
            'm',
            'n',
            'z',
            '\n',
            '\0',
            '~',
            'é',
            'è',
            '😀',
            char::MAX,
        ];
        let contains = |set: &CharSet, scalar: char| {
            set.ranges()
                .iter()
                .any(|r| (r.0..=r.1).contains(&u32::from(scalar)))
        };
        for left in samples {
            for right in samples {
                let same_sets = sets
                    .iter()
                    .all(|set| contains(set, left) == contains(set, right));
                assert_eq!(
                    classes.class_of(left) == classes.class_of(right),
                    same_sets,
                    "{left:?} {right:?}"
                );
            }
            for set in &sets {
                assert_eq!(
                    classes
                        .classes_of(set)
                        .any(|class| class == classes.class_of(left)),
                    contains(set, left),
                    "{left:?}"
                );
            }
        }
        assert_eq!(classes.len(), 5);
    }
}
