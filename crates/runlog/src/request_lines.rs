//! Requests of a log as places in its file. A request is in memory while it is worked on.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::Source;
use super::line::ReadLine;
use super::read::{LineReader, RunLog, SharedParts, changed};
use sobench_core::case::Case;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::observation::Observation;
use sobench_facts::RequestTable;

/// The line of a request.
#[derive(Clone, Copy, Debug)]
struct Place {
    offset: u64,
    case_index: u32,
}

/// The requests of a log in plan order, in 16 bytes each.
#[derive(Debug)]
pub struct RequestLines {
    source: Source,
    parts: SharedParts,
    places: Vec<Place>,
    constraints: Vec<Arc<Constraint>>,
}

impl RunLog {
    /// The requests as places in the file. The numbers are dropped.
    pub fn into_lines(self) -> RequestLines {
        RequestLines::new(self.source, self.parts, &self.requests)
    }
}

impl RequestLines {
    fn new(source: Source, parts: SharedParts, requests: &RequestTable) -> Self {
        let place = |offset: u64, case_index: usize| Place {
            offset,
            case_index: case_index as u32,
        };
        let mut known = HashSet::new();
        let constraints = requests.iter().filter_map(|request| request.constraint());
        Self {
            places: requests
                .iter()
                .map(|request| place(request.offset(), request.case_index()))
                .collect(),
            constraints: constraints
                .filter(|constraint| known.insert(Arc::as_ptr(constraint)))
                .cloned()
                .collect(),
            source,
            parts,
        }
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The constraints of the requests, in the order of their first use.
    pub fn constraints(&self) -> &[Arc<Constraint>] {
        &self.constraints
    }

    /// Reads requests, in one thread.
    pub fn reader(&self) -> RequestReader<'_> {
        RequestReader {
            requests: self,
            lines: LineReader::new(&self.source),
        }
    }
}

/// Reads requests of a log again.
#[derive(Debug)]
pub struct RequestReader<'l> {
    requests: &'l RequestLines,
    lines: LineReader,
}

impl RequestReader<'_> {
    /// The requests of a range in plan order, with their whole answers.
    ///
    /// # Errors
    /// The file is unreadable or has changed.
    ///
    /// # Panics
    /// The range is out of bounds.
    pub fn read(&mut self, range: Range<usize>) -> Result<Vec<(Case, Observation)>> {
        let places = &self.requests.places[range];
        // Requests end in another order than they are planned in.
        let mut in_file: Vec<usize> = (0..places.len()).collect();
        in_file.sort_unstable_by_key(|index| places[*index].offset);
        let mut found = Vec::with_capacity(places.len());
        for index in in_file {
            found.push((index, self.request(places[index])?));
        }
        found.sort_unstable_by_key(|(index, _)| *index);
        Ok(found.into_iter().map(|(_, request)| request).collect())
    }

    fn request(&mut self, place: Place) -> Result<(Case, Observation)> {
        let RequestLines { source, parts, .. } = self.requests;
        let line = self.lines.line(place.offset)?;
        let Ok(ReadLine::Request(read)) = serde_json::from_slice(line.trim_ascii_end()) else {
            return Err(changed(source));
        };
        let request = parts.request(*read).ok();
        request
            .filter(|(_, observation)| observation.case_index == place.case_index as usize)
            .ok_or_else(|| changed(source))
    }
}
