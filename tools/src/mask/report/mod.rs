//! The report of a measurement: summarises rows as [`Summary`], shown as a page ([`page`]) and as
//! JSON ([`json`]), with rows and tags as CSV ([`csv`]).
//!
//! Rows are read twice and not stored: the common set is known only after the last row.

mod charts;
pub mod conditions;
pub mod csv;
pub mod definitions;
pub mod drafts;
pub mod json;
pub mod latency;
pub mod maskbench;
mod number;
pub mod outcome;
pub mod page;
pub mod reason;
pub(crate) mod tables;
mod tags;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod witness;

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use self::drafts::DraftSummary;
use self::latency::{
    BatchSummary, CompileSummary, MaskSummary, MemorySummary, PassSummary, Set, Sets,
};
use self::maskbench::MaskbenchColumn;
use self::outcome::{Counts, InstanceClass, SchemaOutcome, instances_in};
use self::reason::Reasons;
pub use self::tags::{TagCounts, Tags};
use self::witness::{Disputes, Witnesses};
use crate::mask::record::{BatchRow, MaskRecord};
use crate::mask::row::{InstanceOutcome, InstanceRow, Row, Spelling, Stage};
use sobench_core::error::{Error, Result};
use sobench_engine::EngineName;
use sobench_notices::notice::Notice;

/// A measurement without its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub record: MaskRecord,
    pub batches: Vec<BatchRow>,
    pub sobench_version: String,
    /// Start time in vLLM's format: `%Y%m%d-%H%M%S`.
    pub date: Option<String>,
    pub wall_ns: Option<u64>,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// Notices for the reader.
    pub notices: Vec<Notice>,
}

/// The summary of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub measurement: Measurement,
    /// The spelling of schema outcomes, tags and the common set; [`Spelling::Verbatim`] if no
    /// reached instance is JSON.
    pub headline: Spelling,
    /// Kinds of the reached instances, of all engines.
    pub instance_kinds: InstanceKinds,
    /// Schemas that every engine passes in the headline spelling.
    pub common_schemas: u64,
    /// As in [`MaskRecord::engines`].
    pub engines: Vec<EngineSummary>,
    pub tags: Tags,
    pub disputes: Disputes,
}

/// Instances by kind, counted per engine and spelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstanceKinds {
    /// JSON in a measured spelling.
    pub json: u64,
    /// Text, which has one spelling and counts in all.
    pub text: u64,
}

/// The summary of one engine.
#[derive(Clone, Debug, Default, PartialEq, JsonSchema, Serialize)]
pub struct EngineSummary {
    pub engine: EngineName,
    pub version: String,
    /// Its rows; the unit is the schema. Fewer than selected if the measurement was interrupted.
    pub schemas: u64,
    pub spellings: Vec<SpellingSummary>,
    pub declines: Reasons,
    /// Rows stopped early in any spelling, with stage and message.
    pub stops: Reasons,
    /// Choices of `auto`, by rule.
    pub routes: Vec<RouteCount>,
    pub compile: Sets<CompileSummary>,
    pub memory: MemorySummary,
    pub batches: Vec<BatchSummary>,
    /// Absent without drafts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drafts: Option<DraftSummary>,
    /// Absent if no engine reached a text in MaskBench's spelling.
    pub maskbench: Option<MaskbenchColumn>,
    pub witnesses: Witnesses,
}

/// One engine in one spelling.
#[derive(Clone, Debug, PartialEq, JsonSchema, Serialize)]
pub struct SpellingSummary {
    pub spelling: Spelling,
    /// The unit is the schema.
    pub schemas: Counts<SchemaOutcome>,
    /// The unit is the instance.
    pub instances: Counts<InstanceClass>,
    /// Rejected valid instances of which only the end was masked out.
    pub rejects_valid_at_end: u64,
    /// Valid instances that were allowed to end too early.
    pub accepts_invalid_early_end: u64,
    pub masks: Sets<MaskSummary>,
}

/// One rule of `auto` with the chosen engine.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RouteCount {
    pub engine: EngineName,
    pub why: String,
    pub schemas: u64,
}

impl Summary {
    /// Summarises all rows. `rows` is called twice and must return the same rows.
    ///
    /// # Errors
    /// Rows cannot be read, or a row has an engine that is not in [`MaskRecord::engines`].
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
        summary.drop_unused_spellings();
        let engine_count = summary.engines.len();
        passed.retain(|_, engines| *engines == engine_count);
        summary.common_schemas = passed.len() as u64;
        for row in rows()? {
            let row = row?;
            if passed.contains_key(&row.index) {
                let place = summary.place(&row)?;
                summary.add_common(place, &row);
            }
        }
        if !summary.engines.iter().any(|engine| {
            engine
                .maskbench
                .as_ref()
                .is_some_and(MaskbenchColumn::has_tests)
        }) {
            summary
                .engines
                .iter_mut()
                .for_each(|engine| engine.maskbench = None);
        }
        let spellings = summary
            .engines
            .iter_mut()
            .flat_map(|engine| &mut engine.spellings);
        for masks in spellings.flat_map(|found| [&mut found.masks.own, &mut found.masks.common]) {
            if !summary.measurement.record.warm {
                // Walks that timed out were counted in both passes.
                masks.warm = PassSummary::default();
            }
            masks.cold.finish();
            masks.warm.finish();
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

    /// The sets shown; no common set if no schema is passed by every engine.
    pub fn sets(&self) -> &'static [Set] {
        if self.common_schemas == 0 {
            &[Set::Own]
        } else {
            &[Set::Own, Set::Common]
        }
    }

    fn empty(measurement: Measurement) -> Self {
        let record = &measurement.record;
        let headline = record
            .spellings
            .first()
            .copied()
            .unwrap_or(Spelling::Verbatim);
        let spellings = if record.spellings.is_empty() {
            vec![headline]
        } else {
            record.spellings.clone()
        };
        let engines = record.engines.iter().map(|engine| {
            let batches = measurement
                .batches
                .iter()
                .filter(|batch| batch.engine == engine.engine)
                .map(BatchSummary::from_row)
                .collect();
            EngineSummary {
                engine: engine.engine,
                version: engine.version.clone(),
                spellings: spellings
                    .iter()
                    .map(|spelling| SpellingSummary::empty(*spelling))
                    .collect(),
                batches,
                drafts: record.drafts.map(|_| DraftSummary::new()),
                maskbench: spellings
                    .contains(&Spelling::Maskbench)
                    .then(MaskbenchColumn::default),
                ..EngineSummary::default()
            }
        });
        let engines: Vec<EngineSummary> = engines.collect();
        let tags = Tags::new(engines.len());
        let (instance_kinds, disputes) = (InstanceKinds::default(), Disputes::default());
        Self {
            headline,
            instance_kinds,
            common_schemas: 0,
            engines,
            tags,
            disputes,
            measurement,
        }
    }

    /// If all instances are text, keeps one spelling, named verbatim.
    fn drop_unused_spellings(&mut self) {
        if self.instance_kinds.json > 0 || self.instance_kinds.text == 0 {
            return;
        }
        self.headline = Spelling::Verbatim;
        for engine in &mut self.engines {
            engine.spellings.truncate(1);
            engine
                .spellings
                .iter_mut()
                .for_each(|summary| summary.spelling = Spelling::Verbatim);
        }
    }

    fn place(&self, row: &Row) -> Result<usize> {
        self.engines
            .iter()
            .position(|engine| engine.engine == row.engine)
            .ok_or_else(|| {
                Error::internal(format!(
                    "row {} is of an engine that was not measured: {}",
                    row.index,
                    row.engine.name()
                ))
            })
    }

    /// Adds a row to everything except the common set; returns the outcome of its schema.
    fn add(&mut self, place: usize, row: &Row) -> SchemaOutcome {
        let record = &self.measurement.record;
        let (order, limit_ns) = (
            &record.spellings,
            record.timeout_ms.saturating_mul(1_000_000),
        );
        let text = row
            .instances
            .iter()
            .filter(|instance| instance.spelling == Spelling::Verbatim)
            .count() as u64;
        self.instance_kinds.text += text;
        self.instance_kinds.json += row.instances.len() as u64 - text;
        let outcome = SchemaOutcome::from_row(row, self.headline, order);
        let engine = &mut self.engines[place];
        engine.add(row, order, limit_ns);
        if let Some(drafts) = &mut engine.drafts {
            drafts.add(row, &record.corpora);
        }
        engine.witnesses.add(row, instances_in(row, self.headline));
        for spelling in order.iter().filter(|spelling| **spelling != self.headline) {
            engine.witnesses.add(
                row,
                row.instances
                    .iter()
                    .filter(|instance| instance.spelling == *spelling),
            );
        }
        if let Some(stopped) = &row.stopped {
            let cause = SchemaOutcome::from_stop(stopped).unwrap_or(SchemaOutcome::NotJudged);
            engine.stops.add(
                cause,
                None,
                &row.entry,
                &format!("{}: {}", stage_title(stopped.stage), stopped.message),
            );
        }
        self.tags.add(place, &row.tags, outcome);
        self.disputes.add(row, instances_in(row, self.headline));
        outcome
    }

    fn add_common(&mut self, place: usize, row: &Row) {
        let limit_ns = self.measurement.record.timeout_ms.saturating_mul(1_000_000);
        let engine = &mut self.engines[place];
        engine.compile.common.add(row, limit_ns);
        engine
            .spellings
            .iter_mut()
            .for_each(|summary| summary.masks.common.add(row, summary.spelling, limit_ns));
    }
}

impl EngineSummary {
    /// The summary of the headline spelling.
    pub fn headline(&self) -> &SpellingSummary {
        self.spellings
            .first()
            .expect("`Summary::empty` adds the headline spelling first")
    }

    fn add(&mut self, row: &Row, order: &[Spelling], limit_ns: u64) {
        self.schemas += 1;
        self.spellings
            .iter_mut()
            .for_each(|summary| summary.add(row, order, limit_ns));
        self.compile.own.add(row, limit_ns);
        self.memory.add(row);
        self.maskbench
            .iter_mut()
            .for_each(|column| column.add(row, order, limit_ns));
        if let Some(declined) = &row.declined {
            let outcome = SchemaOutcome::from_decline(declined.class);
            self.declines.add(
                outcome,
                declined.feature.as_deref(),
                &row.entry,
                &declined.message,
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
            .add(SchemaOutcome::from_row(row, self.spelling, order));
        for instance in instances_in(row, self.spelling) {
            self.instances
                .add(InstanceClass::from_outcome(&instance.outcome));
            self.rejects_valid_at_end += u64::from(matches!(
                instance.outcome,
                InstanceOutcome::RejectsValid { token: None, .. }
            ));
            self.accepts_invalid_early_end += u64::from(is_early_end(instance));
        }
        self.masks.own.add(row, self.spelling, limit_ns);
    }
}

/// Whether a valid text was allowed to end too early.
fn is_early_end(instance: &InstanceRow) -> bool {
    let valid = instance.label.or(instance.judged) == Some(true);
    valid && matches!(instance.outcome, InstanceOutcome::AcceptsInvalid { .. })
}

/// The title of a stage.
fn stage_title(stage: Stage) -> String {
    match stage {
        Stage::Oracle => "sobench's evaluator".to_owned(),
        Stage::Compile => "compile".to_owned(),
        Stage::FirstMask => "first mask".to_owned(),
        Stage::Cached => "compile from cache".to_owned(),
        Stage::Instance { spelling, .. } => format!("walk of instance, {}", spelling.name()),
        Stage::Drafts { spelling, .. } => format!("drafts along instance, {}", spelling.name()),
    }
}
