//! The warnings and notices of all runs of a comparison, each printed once.

/// Notes by their first occurrence, with the numbers of their runs.
#[derive(Debug, Default)]
pub struct Notes {
    found: Vec<(String, Vec<usize>)>,
}

impl Notes {
    /// Adds the notes of a run. Numbers of runs ascend.
    pub fn add(&mut self, run: usize, notes: &[String]) {
        for note in notes {
            match self.found.iter_mut().find(|(text, _)| text == note) {
                Some((_, runs)) if runs.last() == Some(&run) => {}
                Some((_, runs)) => runs.push(run),
                None => self.found.push((note.clone(), vec![run])),
            }
        }
    }

    /// A line for each distinct note, with its runs out of `all`.
    pub fn lines(&self, all: usize) -> Vec<String> {
        let line = |(note, runs): &(String, Vec<usize>)| {
            if runs.len() == all {
                format!("{note} (all runs)")
            } else if let [run] = runs[..] {
                format!("{note} (run {run})")
            } else {
                format!("{note} (runs {})", ranges(runs))
            }
        };
        self.found.iter().map(line).collect()
    }
}

/// Ascending numbers with runs of neighbors abbreviated: `1-3, 5`.
fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let text = |(first, last): &(usize, usize)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    };
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_is_printed_once_with_its_runs() {
        let mut notes = Notes::default();
        for run in 1..=6 {
            let mut found = vec!["warning: of all".to_owned(), "warning: of all".to_owned()];
            if run != 4 {
                found.push("of most".to_owned());
            }
            if run == 5 {
                found.insert(0, "of one".to_owned());
            }
            notes.add(run, &found);
        }
        assert_eq!(
            notes.lines(6),
            [
                "warning: of all (all runs)",
                "of most (runs 1-3, 5-6)",
                "of one (run 5)"
            ]
        );
    }
}
