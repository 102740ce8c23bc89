//! Metrics pages of servers: which series is which quantity. One file for each kind of page.
//!
//! Pages are in Prometheus' text format; `text.rs` reads it.

mod embedded;
mod llama_cpp;
mod sglang;
mod text;
mod tgi;
mod triton;
mod trtllm_serve;
mod vllm;

use std::collections::{BTreeMap, HashMap};

use super::ServerKind;
use sobench_core::registry;
use sobench_core::server_sample::{
    HistogramCounts, Quantity, QuantityType, SampleSource, ScrapeFault, ServerSample,
};
use text::{SeriesName, label_value};

/// Maximum size of a page in bytes. A vLLM server with one engine has about 60 KiB.
pub const MAX_PAGE_BYTES: usize = 8 << 20;

/// The path of most pages.
const PATH: &str = "/metrics";

/// Series of every process with a client library of Prometheus.
/// Source: <https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>
const PROCESS: [Series; 2] = [
    Series::new(Quantity::Memory, "process_resident_memory_bytes"),
    Series::new(Quantity::StartTime, "process_start_time_seconds").highest(),
];

registry! {
    /// The kind of a metrics page, recognised by the names of its series.
    pub enum MetricsPage is "metrics page" with PageSpec {
        // Before vLLM, whose names it also uses.
        Embedded => embedded::SPEC,
        Vllm => vllm::SPEC,
        Sglang => sglang::SPEC,
        LlamaCpp => llama_cpp::SPEC,
        Tgi => tgi::SPEC,
        TrtllmServe => trtllm_serve::SPEC,
        Triton => triton::SPEC,
    }
}

/// The properties of a kind of page.
pub struct PageSpec {
    pub(crate) name: &'static str,
    /// The display name of the server.
    label: &'static str,
    /// The start of its series' names.
    prefix: &'static str,
    /// The address of the page.
    path: &'static str,
    /// The port of the page, if it is not that of the requests.
    port: Option<u16>,
    /// The kinds of servers that have this page at another address than [`PATH`].
    kinds: &'static [ServerKind],
    /// Of several series of a quantity, the first one on the page counts.
    series: &'static [Series],
    /// The counter of accepted draft tokens with a label `position`.
    accepted_by_position: Option<&'static str>,
}

/// The series of a quantity.
struct Series {
    quantity: Quantity,
    name: &'static str,
    /// The label that it must have.
    label: Option<(&'static str, &'static str)>,
    /// The factor from the series' unit to that of the quantity.
    scale: f64,
    /// Whether the highest of several series counts, and not their sum.
    is_highest: bool,
    /// The counter of events, where `name` is a counter of their total time.
    count: Option<&'static str>,
}

impl Series {
    /// The series of this name, in the unit of the quantity; over all other labels the sum.
    const fn new(quantity: Quantity, name: &'static str) -> Self {
        Self {
            quantity,
            name,
            label: None,
            scale: 1.0,
            is_highest: false,
            count: None,
        }
    }

    /// A series in seconds of a quantity in milliseconds.
    const fn seconds(quantity: Quantity, name: &'static str) -> Self {
        Self::new(quantity, name).scaled(1000.0)
    }

    /// A series from 0 to 1 of a quantity in percent; the highest of several engines.
    const fn share(quantity: Quantity, name: &'static str) -> Self {
        Self::new(quantity, name).scaled(100.0).highest()
    }

    const fn with_label(self, name: &'static str, value: &'static str) -> Self {
        Self {
            label: Some((name, value)),
            ..self
        }
    }

    const fn scaled(self, scale: f64) -> Self {
        Self { scale, ..self }
    }

    const fn highest(self) -> Self {
        Self {
            is_highest: true,
            ..self
        }
    }

    const fn with_count(self, count: &'static str) -> Self {
        Self {
            count: Some(count),
            ..self
        }
    }

    /// The series as its page writes it.
    fn text(&self) -> String {
        match (self.label, self.count) {
            (Some((name, value)), _) => format!("{}{{{name}=\"{value}\"}}", self.name),
            (None, Some(count)) => format!("{} / {count}", self.name),
            (None, None) => self.name.to_owned(),
        }
    }
}

/// The addresses at which a server of this kind may have its metrics page, the most likely first:
/// a port, if it is not that of the requests, and a path.
pub fn addresses(kind: ServerKind) -> Vec<(Option<u16>, &'static str)> {
    let own = MetricsPage::ALL
        .into_iter()
        .map(MetricsPage::spec)
        .filter(|page| page.kinds.contains(&kind))
        .map(|page| (page.port, page.path));
    own.chain([(None, PATH)]).collect()
}

impl MetricsPage {
    /// The display name of the server.
    pub fn label(self) -> &'static str {
        self.spec().label
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.name() == name)
    }
}

/// Whether a name can be given to [`read_page`].
pub fn is_series_name(name: &str) -> bool {
    SeriesName::parse(name).is_some()
}

/// Reads a page of `url`. `named` are further series, with or without labels: `name` or
/// `name{label="value"}`; over the labels that a name leaves out they are summed. The times of the
/// sample are the caller's. Returns the sample, and a fault that left values out.
///
/// # Errors
/// The page is HTML, or has no series.
pub fn read_page(
    page: &str,
    url: &str,
    named: &[String],
) -> Result<(ServerSample, Option<ScrapeFault>), ScrapeFault> {
    if page.trim_start().starts_with('<') {
        return Err(ScrapeFault::Html);
    }
    let page = Page::new(page);
    if page.series.is_empty() {
        return Err(ScrapeFault::NoSeries);
    }
    let kind = MetricsPage::ALL
        .into_iter()
        .find(|kind| page.has_prefix(kind.spec().prefix));
    let mut reading = Reading {
        page: &page,
        sample: ServerSample::default(),
        source: SampleSource {
            page: url.to_owned(),
            server: kind.map(|kind| kind.name().to_owned()),
            series: BTreeMap::new(),
        },
        left_out: 0,
    };
    let own = kind.map_or(&[][..], |kind| kind.spec().series);
    own.iter()
        .chain(&PROCESS)
        .for_each(|series| reading.add(series));
    if let Some(name) = kind.and_then(|kind| kind.spec().accepted_by_position) {
        reading.add_positions(name);
    }
    named.iter().for_each(|name| reading.add_named(name));
    reading.leave_out_overflows();
    let Reading {
        mut sample,
        source,
        left_out,
        ..
    } = reading;
    sample.source = Some(Box::new(source));
    let fault = (left_out > 0).then_some(ScrapeFault::NotFinite(left_out));
    Ok((sample, fault))
}

/// A page by the names of its series.
struct Page<'p> {
    /// The labels of each series, with the value. Of repeated lines the last one counts.
    series: HashMap<&'p str, BTreeMap<&'p str, f64>>,
}

impl<'p> Page<'p> {
    fn new(page: &'p str) -> Self {
        let mut series: HashMap<&str, BTreeMap<&str, f64>> = HashMap::new();
        for (name, labels, value) in page.lines().filter_map(text::line) {
            series.entry(name).or_default().insert(labels, value);
        }
        Self { series }
    }

    fn has_prefix(&self, prefix: &str) -> bool {
        self.series.keys().any(|name| name.starts_with(prefix))
    }

    /// The values of a series with this label.
    fn values(&self, name: &str, label: Option<(&str, &str)>) -> Vec<f64> {
        let Some(found) = self.series.get(name) else {
            return Vec::new();
        };
        let fits = |labels: &str| {
            label.is_none_or(|(name, value)| label_value(labels, name).as_deref() == Some(value))
        };
        found
            .iter()
            .filter(|(labels, _)| fits(labels))
            .map(|(_, value)| *value)
            .collect()
    }

    /// The values by the number in a label.
    fn by_number(&self, name: &str, label: &str) -> Vec<(f64, f64)> {
        let found = self.series.get(name).into_iter().flatten();
        found
            .filter_map(|(labels, value)| {
                Some((text::number(&label_value(labels, label)?)?, *value))
            })
            .collect()
    }
}

/// A sample while its page is read.
struct Reading<'p> {
    page: &'p Page<'p>,
    sample: ServerSample,
    source: SampleSource,
    /// Values that are not finite or negative.
    left_out: usize,
}

impl Reading<'_> {
    /// Adds a quantity, unless another series has it.
    fn add(&mut self, series: &Series) {
        if self.source.series.contains_key(&series.quantity) {
            return;
        }
        let is_found = match series.quantity.quantity_type() {
            QuantityType::Histogram => {
                let counts = match series.count {
                    Some(count) => self.total_and_count(series, count),
                    None => self.histogram(series),
                };
                let is_found = counts.is_some();
                self.sample
                    .histograms
                    .extend(counts.map(|counts| (series.quantity, counts)));
                is_found
            }
            QuantityType::Counter | QuantityType::Gauge => {
                let value = self.value(series);
                self.sample
                    .values
                    .extend(value.map(|value| (series.quantity, value)));
                value.is_some()
            }
        };
        if is_found {
            self.source.series.insert(series.quantity, series.text());
        }
    }

    fn value(&mut self, series: &Series) -> Option<f64> {
        let values = self.usable(self.page.values(series.name, series.label));
        let value = if series.is_highest {
            values.into_iter().reduce(f64::max)
        } else {
            values.into_iter().reduce(|sum, value| sum + value)
        };
        value.map(|value| value * series.scale)
    }

    /// The values that are finite and not negative.
    fn usable(&mut self, mut values: Vec<f64>) -> Vec<f64> {
        let before = values.len();
        values.retain(|value| value.is_finite() && *value >= 0.0);
        self.left_out += before - values.len();
        values
    }

    /// The sum of the usable values; `None` without one.
    fn sum(&mut self, name: &str) -> Option<f64> {
        let values = self.usable(self.page.values(name, None));
        values.into_iter().reduce(|sum, value| sum + value)
    }

    fn total_and_count(&mut self, series: &Series, count: &str) -> Option<HistogramCounts> {
        Some(HistogramCounts {
            count: self.sum(count)?,
            sum: self.sum(series.name)? * series.scale,
            buckets: Vec::new(),
        })
    }

    fn histogram(&mut self, series: &Series) -> Option<HistogramCounts> {
        let name = series.name;
        let count = self.sum(&format!("{name}_count"))?;
        let sum = self.sum(&format!("{name}_sum"))? * series.scale;
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        let mut bounds = self.page.by_number(&format!("{name}_bucket"), "le");
        let before = bounds.len();
        bounds.retain(|(bound, value)| !bound.is_nan() && value.is_finite() && *value >= 0.0);
        self.left_out += before - bounds.len();
        bounds.retain(|(bound, _)| bound.is_finite());
        bounds.sort_by(|one, other| one.0.total_cmp(&other.0));
        for (bound, value) in bounds {
            let bound = bound * series.scale;
            match buckets.last_mut().filter(|(last, _)| *last == bound) {
                Some((_, total)) => *total += value,
                None => buckets.push((bound, value)),
            }
        }
        Some(HistogramCounts {
            count,
            sum,
            buckets,
        })
    }

    /// Leaves out sums and products beyond the range of numbers, which no file can have.
    fn leave_out_overflows(&mut self) {
        let sample = &mut self.sample;
        let count = |sample: &ServerSample| {
            let positions = sample.accepted_by_position.len();
            sample.values.len() + sample.histograms.len() + sample.named.len() + positions
        };
        let before = count(sample);
        sample.values.retain(|_, value| value.is_finite());
        sample.named.retain(|_, value| value.is_finite());
        sample.histograms.retain(|_, counts| {
            let mut buckets = counts.buckets.iter();
            counts.count.is_finite()
                && counts.sum.is_finite()
                && buckets.all(|(bound, count)| bound.is_finite() && count.is_finite())
        });
        if !sample
            .accepted_by_position
            .iter()
            .all(|count| count.is_finite())
        {
            sample.accepted_by_position.clear();
        }
        self.left_out += before - count(sample);
    }

    fn add_positions(&mut self, name: &str) {
        /// Maximum number of positions in a draft.
        const MAX_POSITIONS: usize = 1024;
        for (position, value) in self.page.by_number(name, "position") {
            let place = position as usize;
            if !(value.is_finite() && value >= 0.0 && position >= 0.0 && place < MAX_POSITIONS) {
                self.left_out += 1;
                continue;
            }
            let positions = &mut self.sample.accepted_by_position;
            if positions.len() <= place {
                positions.resize(place + 1, 0.0);
            }
            positions[place] += value;
        }
    }

    fn add_named(&mut self, name: &str) {
        let Some(wanted) = SeriesName::parse(name) else {
            return;
        };
        let found = self.page.series.get(wanted.name).into_iter().flatten();
        let values: Vec<f64> = found
            .filter(|(labels, _)| wanted.fits(labels))
            .map(|(_, value)| *value)
            .collect();
        let usable = values.iter().copied().filter(|value| value.is_finite());
        self.left_out += values.len() - usable.clone().count();
        if let Some(sum) = usable.reduce(|sum, value| sum + value) {
            self.sample.named.insert(name.to_owned(), sum);
        }
    }
}

#[cfg(test)]
mod tests;
