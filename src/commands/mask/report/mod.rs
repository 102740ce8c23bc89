//! The report of a measurement: adds its rows up to one [`Summary`], and shows that as a page
//! ([`page`]), as JSON ([`json`]) and its rows and tags as CSV ([`csv`]). Pure.
//!
//! Rows are read twice and never kept: which schemas all engines pass is known only after the last
//! row.

mod charts;
pub mod conditions;
pub mod csv;
pub mod definitions;
pub mod json;
pub mod latency;
pub mod maskbench;
mod number;
pub mod outcome;
pub mod page;
pub mod reason;
mod tables;
mod tags;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod witness;

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;

use self::latency::{
    BatchSummary, CompileSummary, MaskSummary, MemorySummary, PassSummary, Set, Sets,
};
use self::maskbench::MaskbenchColumn;
use self::outcome::{Counts, InstanceClass, SchemaOutcome, instances_in};
use self::reason::Reasons;
pub use self::tags::{TagCounts, Tags};
use self::witness::{Disputes, Witnesses};
use sobench_core::error::{Error, Result};
use sobench_engine::EngineName;
use sobench_mask::record::{BatchRow, MaskRecord};
use sobench_mask::row::{InstanceOutcome, InstanceRow, Row, Spelling, Stage};
use sobench_notices::notice::Notice;

/// A measurement without its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub about: MaskRecord,
    pub batches: Vec<BatchRow>,
    pub sobench_version: String,
    /// When it began, as vLLM writes it: `%Y%m%d-%H%M%S`.
    pub date: Option<String>,
    pub wall_ns: Option<u64>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
    /// What the reader has to know besides the numbers.
    pub notices: Vec<Notice>,
}

/// Everything that is said about a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub measurement: Measurement,
    /// The spelling that outcomes of schemas, tags and the common set are by;
    /// [`Spelling::Verbatim`] where no instance that was reached is JSON.
    pub headline: Spelling,
    /// What the instances that were reached are, all engines together.
    pub written: Written,
    /// Schemas that every engine passes in the headline spelling.
    pub common_schemas: u64,
    /// As in [`MaskRecord::engines`].
    pub engines: Vec<EngineSummary>,
    pub tags: Tags,
    pub disputes: Disputes,
}

/// Rows of instances, an engine and a spelling each, by how they can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// JSON, in one of the measured spellings.
    pub json: u64,
    /// Text, which has one spelling and counts in each.
    pub text: u64,
}

/// One engine's part.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EngineSummary {
    pub engine: EngineName,
    pub version: String,
    /// Rows of it; the unit is the schema. Fewer than were selected where the measurement was
    /// interrupted.
    pub schemas: u64,
    pub spellings: Vec<SpellingSummary>,
    pub declines: Reasons,
    /// Rows that ended early, in whatever spelling, with where they stood and the last words.
    pub stops: Reasons,
    /// Where `auto` sent schemas, and by which rule.
    pub routes: Vec<RouteCount>,
    pub compile: Sets<CompileSummary>,
    pub memory: MemorySummary,
    pub batches: Vec<BatchSummary>,
    /// Absent where no engine reached a text in MaskBench's spelling.
    pub maskbench: Option<MaskbenchColumn>,
    pub witnesses: Witnesses,
}

/// One engine in one spelling.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SpellingSummary {
    pub spelling: Spelling,
    /// The unit is the schema.
    pub schemas: Counts<SchemaOutcome>,
    /// The unit is the instance.
    pub instances: Counts<InstanceClass>,
    /// Of the rejected valid instances: those of which only the end was masked out.
    pub rejects_valid_at_end: u64,
    /// Of the instances that accept invalid text: valid ones that were allowed to end too early.
    pub accepts_invalid_early_end: u64,
    pub masks: Sets<MaskSummary>,
}

/// One rule of `auto` with the engine that it chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RouteCount {
    pub engine: EngineName,
    pub why: String,
    pub schemas: u64,
}

impl Summary {
    /// Adds up all rows. `rows` is called twice, and gives the same rows each time.
    ///
    /// # Errors
    /// What the rows cannot be read for, or a row of an engine that [`MaskRecord::engines`] does
    /// not name.
    pub fn build<I>(measurement: Measurement, rows: impl Fn() -> Result<I>) -> Result<Self>
    where
        I: IntoIterator<Item = Result<Row>>,
    {
        let mut summary = Self::empty(measurement);
        let mut passed: HashMap<usize, usize> = HashMap::new();
        let mut routes = vec![BTreeMap::new(); summary.engines.len()];
        for row in rows()? {
            let row = row?;
            let place = summary.place(&row)?;
            if let Some(route) = &row.route {
                *routes[place]
                    .entry((route.engine, route.why.clone()))
                    .or_insert(0) += 1;
            }
            if summary.add(place, &row) == SchemaOutcome::Pass {
                *passed.entry(row.index).or_default() += 1;
            }
        }
        summary.drop_spellings_never_written();
        let everyone = summary.engines.len();
        passed.retain(|_, engines| *engines == everyone);
        summary.common_schemas = passed.len() as u64;
        for row in rows()? {
            let row = row?;
            if passed.contains_key(&row.index) {
                let place = summary.place(&row)?;
                summary.add_common(place, &row);
            }
        }
        if !summary.engines.iter().any(|it| {
            it.maskbench
                .as_ref()
                .is_some_and(MaskbenchColumn::has_tests)
        }) {
            summary
                .engines
                .iter_mut()
                .for_each(|it| it.maskbench = None);
        }
        if !summary.measurement.about.warm {
            // Walks that ran into the time limit were counted in both.
            let spellings = summary.engines.iter_mut().flat_map(|it| &mut it.spellings);
            spellings
                .flat_map(|it| [&mut it.masks.own, &mut it.masks.common])
                .for_each(|it| it.warm = PassSummary::default());
        }
        for (engine, routes) in summary.engines.iter_mut().zip(routes) {
            engine.routes = routes
                .into_iter()
                .map(|((engine, why), schemas)| RouteCount {
                    engine,
                    why,
                    schemas,
                })
                .collect();
            engine
                .maskbench
                .iter_mut()
                .for_each(MaskbenchColumn::finish);
        }
        Ok(summary)
    }

    /// The sets that figures are shown over: where no schema is passed by every engine, there is no
    /// common one.
    pub fn sets(&self) -> &'static [Set] {
        if self.common_schemas == 0 {
            &[Set::Own]
        } else {
            &[Set::Own, Set::Common]
        }
    }

    fn empty(measurement: Measurement) -> Self {
        let about = &measurement.about;
        let headline = about
            .spellings
            .first()
            .copied()
            .unwrap_or(Spelling::Verbatim);
        let spellings = if about.spellings.is_empty() {
            vec![headline]
        } else {
            about.spellings.clone()
        };
        let engines = about.engines.iter().map(|engine| {
            let batches = measurement
                .batches
                .iter()
                .filter(|it| it.engine == engine.engine)
                .map(BatchSummary::of)
                .collect();
            EngineSummary {
                engine: engine.engine,
                version: engine.version.clone(),
                spellings: spellings
                    .iter()
                    .map(|it| SpellingSummary::empty(*it))
                    .collect(),
                batches,
                maskbench: spellings
                    .contains(&Spelling::Maskbench)
                    .then(MaskbenchColumn::default),
                ..EngineSummary::default()
            }
        });
        let engines: Vec<EngineSummary> = engines.collect();
        let tags = Tags::new(engines.len());
        let (written, disputes) = (Written::default(), Disputes::default());
        Self {
            headline,
            written,
            common_schemas: 0,
            engines,
            tags,
            disputes,
            measurement,
        }
    }

    /// Where all instances are text, what was counted in every spelling is said once, under its own
    /// name.
    fn drop_spellings_never_written(&mut self) {
        if self.written.json > 0 || self.written.text == 0 {
            return;
        }
        self.headline = Spelling::Verbatim;
        for engine in &mut self.engines {
            engine.spellings.truncate(1);
            engine
                .spellings
                .iter_mut()
                .for_each(|it| it.spelling = Spelling::Verbatim);
        }
    }

    fn place(&self, row: &Row) -> Result<usize> {
        self.engines
            .iter()
            .position(|it| it.engine == row.engine)
            .ok_or_else(|| {
                Error::internal(format!(
                    "row {} is of an engine that was not measured: {}",
                    row.index,
                    row.engine.name()
                ))
            })
    }

    /// Adds a row to everything but the common set, and says what became of its schema.
    fn add(&mut self, place: usize, row: &Row) -> SchemaOutcome {
        let about = &self.measurement.about;
        let (order, limit_ns) = (&about.spellings, about.timeout_ms.saturating_mul(1_000_000));
        let text = row
            .instances
            .iter()
            .filter(|it| it.spelling == Spelling::Verbatim)
            .count() as u64;
        self.written.text += text;
        self.written.json += row.instances.len() as u64 - text;
        let outcome = SchemaOutcome::of(row, self.headline, order);
        let engine = &mut self.engines[place];
        engine.add(row, order, limit_ns);
        engine.witnesses.add(row, instances_in(row, self.headline));
        for spelling in order.iter().filter(|it| **it != self.headline) {
            engine.witnesses.add(
                row,
                row.instances.iter().filter(|it| it.spelling == *spelling),
            );
        }
        if let Some(stopped) = &row.stopped {
            let cause = SchemaOutcome::of_stop(stopped).unwrap_or(SchemaOutcome::NotJudged);
            engine.stops.add(
                cause,
                None,
                &row.entry,
                &format!("{}: {}", words_of(stopped.stage), stopped.words),
            );
        }
        self.tags.add(place, &row.tags, outcome);
        self.disputes.add(row, instances_in(row, self.headline));
        outcome
    }

    fn add_common(&mut self, place: usize, row: &Row) {
        let limit_ns = self.measurement.about.timeout_ms.saturating_mul(1_000_000);
        let engine = &mut self.engines[place];
        engine.compile.common.add(row, limit_ns);
        engine
            .spellings
            .iter_mut()
            .for_each(|it| it.masks.common.add(row, it.spelling, limit_ns));
    }
}

impl EngineSummary {
    /// The headline spelling.
    pub fn headline(&self) -> &SpellingSummary {
        self.spellings
            .first()
            .expect("`Summary::empty` gives every engine the headline spelling, first")
    }

    fn add(&mut self, row: &Row, order: &[Spelling], limit_ns: u64) {
        self.schemas += 1;
        self.spellings
            .iter_mut()
            .for_each(|it| it.add(row, order, limit_ns));
        self.compile.own.add(row, limit_ns);
        self.memory.add(row);
        self.maskbench
            .iter_mut()
            .for_each(|it| it.add(row, order, limit_ns));
        if let Some(declined) = &row.declined {
            let outcome = SchemaOutcome::of_decline(declined.class);
            self.declines.add(
                outcome,
                declined.feature.as_deref(),
                &row.entry,
                &declined.words,
            );
        }
    }
}

impl SpellingSummary {
    fn empty(spelling: Spelling) -> Self {
        Self {
            spelling,
            schemas: Counts::default(),
            instances: Counts::default(),
            rejects_valid_at_end: 0,
            accepts_invalid_early_end: 0,
            masks: Sets::default(),
        }
    }

    fn add(&mut self, row: &Row, order: &[Spelling], limit_ns: u64) {
        self.schemas
            .add(SchemaOutcome::of(row, self.spelling, order));
        for instance in instances_in(row, self.spelling) {
            self.instances.add(InstanceClass::of(&instance.outcome));
            self.rejects_valid_at_end += u64::from(matches!(
                instance.outcome,
                InstanceOutcome::RejectsValid { token: None, .. }
            ));
            self.accepts_invalid_early_end += u64::from(is_early_end(instance));
        }
        self.masks.own.add(row, self.spelling, limit_ns);
    }
}

/// Whether a valid text was allowed to end before it was valid.
fn is_early_end(instance: &InstanceRow) -> bool {
    let valid = instance.label.or(instance.judged) == Some(true);
    valid && matches!(instance.outcome, InstanceOutcome::AcceptsInvalid { .. })
}

/// Where a row stood.
fn words_of(stage: Stage) -> String {
    match stage {
        Stage::Oracle => "our evaluator".to_owned(),
        Stage::Compile => "compile".to_owned(),
        Stage::FirstMask => "first mask".to_owned(),
        Stage::Cached => "compile from the cache".to_owned(),
        Stage::Instance { spelling, .. } => format!("walk of an instance, {}", spelling.name()),
    }
}
