//! Counts that rules are on.

/// Things of a count that are named.
const MAX_EXAMPLES: usize = 4;

/// A count that is not exactly known.
pub(super) struct Count {
    pub(super) name: String,
    pub(super) least: usize,
    pub(super) most: usize,
    /// Why they differ.
    pub(super) doubt: String,
    /// What is counted.
    pub(super) examples: Vec<String>,
}

impl Count {
    /// The first examples, and how many more there are.
    pub(super) fn named(&self) -> Option<String> {
        let (first, more) = self
            .examples
            .split_at(self.examples.len().min(MAX_EXAMPLES));
        let more = match more.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!first.is_empty()).then(|| first.join(", ") + &more)
    }

    /// A count of which as many more may be there as are not known.
    pub(super) fn new(name: &str, known: usize, unknown: usize) -> Self {
        Self {
            name: name.to_owned(),
            least: known,
            most: known + unknown,
            doubt: format!("{unknown} are not known"),
            examples: Vec::new(),
        }
    }
}
