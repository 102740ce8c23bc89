//! The charts of the comparison's HTML page, each with a table of its numbers.

use std::cmp::Reverse;

use super::capacity::SweepStep;
use super::cells::NAME_CHARS;
use super::{Comparison, Control, Figures, Load, Row, SchemaCell, SchemaRow, capacity};
use sobench_core::case::Arm;
use sobench_core::distinct::distinct;
use sobench_core::printable::printable;
use sobench_core::verdict::Reason;
use sobench_render::axis::{Axis, Range};
use sobench_render::dots::{self, Dot};
use sobench_render::heat_map::{self, Class};
use sobench_render::lines::{self, Axes, Line};
use sobench_render::svg::{self, Bar, COLOURS, Curve, Part, ShareScale};
use sobench_render::{Block, Chart, Charts, Document, Layout, LegendEntry, Table};
use sobench_results::metrics::constraint_overhead::Added;
use sobench_results::metrics::examples::{Example, Group};
use sobench_results::metrics::knee::Knee;
use sobench_statistics::{Rate, Summary, percentile};

/// Points of a curve. With fewer values, each value is a point.
const CURVE_POINTS: usize = 200;

/// The axis of a distribution starts where this share of the answers has been seen, and not below a
/// microsecond: the TPOT of an answer whose chunks are read at once is almost 0.
const AXIS_FROM_SHARE: f64 = 0.01;
const AXIS_FROM_NS: u64 = 1_000;

/// Charts of distributions that are shown at once; more are collapsed.
const OPEN_DISTRIBUTIONS: usize = 4;

/// Rows at most of a heat map.
const HEAT_ROWS: usize = 400;

/// Characters at most of an example.
const EXAMPLE_CHARS: usize = 160;

/// The result of a correct answer, and its class.
const VALID_RESULT: &str = "valid";
const VALID_CLASS: &str = "ok";

/// Results besides valid and invalid answers.
const OTHER_CAUSES: [&str; 3] = ["cut at limit", "refused", "failed"];

/// Classes of other results, repeated after the last one.
const REASON_CLASSES: [&str; 6] = ["r0", "r1", "r2", "r3", "r4", "r5"];

/// Classes of the heat map, from the best to the worst. The colours also differ in lightness.
const VALID: Class = class('v', "valid", "heat-valid");
const SLOW: Class = class('S', "slow", "heat-slow");
const TRUNCATED: Class = class('T', "truncated", "heat-truncated");
const FAILED: Class = class('F', "failed", "heat-failed");
const REFUSED: Class = class('R', "refused", "heat-refused");
const INVALID: Class = class('I', "invalid", "heat-invalid");

/// A reason of invalid answers, with the first of them.
#[derive(Clone, Debug, PartialEq)]
pub struct InvalidReason {
    pub name: &'static str,
    pub count: usize,
    pub example: Option<Example>,
}

impl InvalidReason {
    /// Those of several runs, the most frequent first, with the first example.
    pub fn merged<'g>(groups: impl Iterator<Item = &'g Group>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        // Cut answers are no invalid ones.
        for group in groups.filter(|group| group.name != Reason::Truncated.name()) {
            match merged.iter_mut().find(|reason| reason.name == group.name) {
                Some(reason) => reason.count += group.count,
                None => merged.push(Self {
                    name: group.name,
                    count: group.count,
                    example: group.examples.first().cloned(),
                }),
            }
        }
        merged.sort_by_key(|reason| Reverse(reason.count));
        merged
    }

    /// Its name in words, and the message of the first example.
    pub fn described(&self) -> Option<(String, String)> {
        let message = self.example.as_ref()?.message.clone();
        Some((self.name.replace('_', " "), message))
    }
}

/// Distributions of the latencies of a row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distributions {
    pub ttft_ms: Curves,
    pub tpot_ms: Curves,
}

/// A distribution with and without the constraint.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curves {
    pub constrained: Quantiles,
    pub control: Quantiles,
}

/// A distribution as at most `CURVE_POINTS` quantiles at equal distances.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantiles {
    /// Number of values.
    pub n: usize,
    /// Ascending, in ms. The last one is the largest value.
    pub values_ms: Vec<f64>,
}

/// A value with its interval, where one is known.
struct Interval {
    value: f64,
    bounds: Option<(f64, f64)>,
    n: String,
}

/// Shows a property of a row as an interval.
type Shown = fn(&Figures) -> Option<Interval>;

/// Curves of a row.
type CurvesOf = fn(&Figures) -> &Curves;

const fn class(letter: char, name: &'static str, css: &'static str) -> Class {
    Class { letter, name, css }
}

impl Quantiles {
    pub fn new(values_ms: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values_ms.filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let points = sorted.len().min(CURVE_POINTS);
        let rank = |point: usize| ((point + 1) * sorted.len()).div_ceil(points) - 1;
        Self {
            n: sorted.len(),
            values_ms: (0..points).map(|point| sorted[rank(point)]).collect(),
        }
    }
}

/// Adds the charts that the comparison has data for.
pub fn add(document: &mut Document, comparison: &Comparison) {
    let pictures = Pictures { comparison };
    pictures.add_sweeps(document);
    pictures.add_group(
        document,
        "Answers",
        "dots: pooled over the repeats; lines: 95 % intervals",
        vec![pictures.intervals("Correct rate", "%", |figures| share(figures.correct_rate))],
    );
    pictures.add_group(
        document,
        "Time that the constraint adds",
        "difference of the means of the same requests with and without their constraint; lines: 95 % intervals; left of 0 the constraint \
         is faster",
        vec![
            pictures.intervals("Added TTFT", "ms", |figures| {
                added(figures, |control| control.ttft_added.as_ref())
            }),
            pictures.intervals("Added TPOT", "ms a token", |figures| {
                added(figures, |control| control.tpot_added.as_ref())
            }),
        ],
    );
    pictures.add_distributions(document);
    pictures.add_group(
        document,
        "First and later uses of a constraint",
        "filled: median TTFT of first uses (cold, with the compile); hollow: of later uses (warm)",
        vec![pictures.cold_and_warm()],
    );
    pictures.add_results(document);
    pictures.add_heat_maps(document);
}

struct Pictures<'a> {
    comparison: &'a Comparison,
}

impl Pictures<'_> {
    fn add_group(
        &self,
        document: &mut Document,
        title: &str,
        caption: &str,
        charts: Vec<Option<Chart>>,
    ) {
        let charts: Vec<Chart> = charts.into_iter().flatten().collect();
        if !charts.is_empty() {
            document.heading(title);
            document.push(grid(caption, Vec::new(), charts));
        }
    }

    fn measured(&self) -> impl Iterator<Item = (&Row, &Figures)> {
        self.comparison.measured()
    }

    fn contenders(&self) -> Vec<String> {
        distinct(self.comparison.rows.iter().map(|row| row.contender.clone()))
    }

    /// The colour of a contender, the same in every chart.
    fn colour(&self, contender: &str) -> usize {
        let place = self
            .contenders()
            .iter()
            .position(|other| other == contender);
        place.unwrap_or(0) % COLOURS
    }

    /// The contender, with the dataset and load if there are several.
    fn name(&self, row: &Row) -> String {
        let datasets = distinct(self.comparison.rows.iter().map(|row| row.dataset.as_str()));
        let mut name = printable(&row.contender, NAME_CHARS);
        if datasets.len() > 1 {
            name.push_str(&format!(", {}", printable(&row.dataset, NAME_CHARS)));
        }
        if row.load != Load::AsGiven {
            name.push_str(&format!(", {}", row.load));
        }
        name
    }

    /// A row for each row of the comparison with a value.
    fn intervals(&self, title: &str, unit: &str, shown: Shown) -> Option<Chart> {
        let found: Vec<(&Row, Interval)> = self
            .measured()
            .filter_map(|(row, figures)| Some((row, shown(figures)?)))
            .collect();
        let values = found.iter().flat_map(|(_, interval)| {
            let bounds = interval.bounds.map(|(low, high)| [low, high]);
            bounds.into_iter().flatten().chain([interval.value])
        });
        let (range, zero) = match unit {
            "%" => (Range::Percent, None),
            _ => (Range::FromZero, Some(0.0)),
        };
        let axis = Axis::linear(values, range)?;
        let row = |(row, interval): &(&Row, Interval)| dots::Row {
            name: self.name(row),
            text: format!("{} ({})", interval.text(), interval.n),
            colour: self.colour(&row.contender),
            dots: vec![Dot {
                value: interval.value,
                hollow: false,
            }],
            line: interval.bounds,
        };
        let rows: Vec<dots::Row> = found.iter().map(row).collect();
        let title = format!("{title} ({unit})");
        let mut table = Table::new(["backend", &title, "95 % interval", "n"], 1);
        for (row, interval) in &found {
            table.row([
                self.name(row),
                figure(interval.value),
                interval.bounds.map_or_else(
                    || "none".to_owned(),
                    |(low, high)| format!("{} to {}", figure(low), figure(high)),
                ),
                interval.n.clone(),
            ]);
        }
        Some(Chart {
            svg: dots::rows(&title, unit, &rows, &axis, zero),
            title,
            table: Some(table),
        })
    }

    fn cold_and_warm(&self) -> Option<Chart> {
        let medians = |figures: &Figures| {
            let median = |summary: &Summary| Some((summary.median?, summary.n));
            Some((
                median(&figures.cold_ttft_ms)?,
                median(&figures.warm_ttft_ms)?,
            ))
        };
        let found: Vec<_> = self
            .measured()
            .filter_map(|(row, figures)| Some((row, medians(figures)?)))
            .collect();
        let values = found.iter().flat_map(|(_, (cold, warm))| [cold.0, warm.0]);
        let axis = Axis::logarithmic(values)?;
        let title = "TTFT of first and later uses (ms, logarithmic)".to_owned();
        let mut table = Table::new(["backend", "cold (ms)", "n", "warm (ms)", "n"], 1);
        let mut rows = Vec::new();
        for (row, (cold, warm)) in &found {
            let name = self.name(row);
            let dot = |value: f64, hollow: bool| Dot { value, hollow };
            rows.push(dots::Row {
                name: name.clone(),
                text: format!(
                    "{} ({}), {} ({})",
                    figure(cold.0),
                    cold.1,
                    figure(warm.0),
                    warm.1
                ),
                colour: self.colour(&row.contender),
                dots: vec![dot(cold.0, false), dot(warm.0, true)],
                line: Some((cold.0, warm.0)),
            });
            table.row([
                name,
                figure(cold.0),
                cold.1.to_string(),
                figure(warm.0),
                warm.1.to_string(),
            ]);
        }
        Some(Chart {
            svg: dots::rows(
                &title,
                "ms; behind the name: cold (n), warm (n)",
                &rows,
                &axis,
                None,
            ),
            title,
            table: Some(table),
        })
    }

    fn add_distributions(&self, document: &mut Document) {
        let of: [(&str, CurvesOf); 2] = [
            ("TTFT", |figures| &figures.distributions.ttft_ms),
            ("TPOT", |figures| &figures.distributions.tpot_ms),
        ];
        let rows = self.measured().map(|(row, _)| row);
        let groups = distinct(rows.map(|row| (row.dataset.clone(), row.load)));
        let charts: Vec<Chart> = groups
            .iter()
            .flat_map(|group| {
                of.iter()
                    .filter_map(move |(name, curves)| self.distribution(group, name, *curves))
            })
            .collect();
        if charts.is_empty() {
            return;
        }
        let mut legend = self.contender_legend();
        if self.comparison.record.control {
            legend.push(LegendEntry::Text(
                "solid: constrained; dashed: control".to_owned(),
            ));
        }
        document.heading("Distributions");
        let caption = "share of answers up to the value, over a logarithmic axis";
        let is_long = charts.len() > OPEN_DISTRIBUTIONS;
        let block = grid(caption, legend, charts);
        document.push(if is_long {
            Block::Details {
                summary: "Distributions by dataset and load".to_owned(),
                blocks: vec![block],
            }
        } else {
            block
        });
    }

    fn distribution(
        &self,
        group: &(String, Load),
        metric: &str,
        curves_of: CurvesOf,
    ) -> Option<Chart> {
        let rows = self
            .measured()
            .filter(|(row, _)| row.dataset == group.0 && row.load == group.1);
        let mut curves = Vec::new();
        let heads = [
            "backend", "arm", "n", "p5", "p25", "p50", "p75", "p95", "max",
        ];
        let mut table = Table::new(heads, 2);
        for (row, figures) in rows {
            let found = curves_of(figures);
            let arms = [
                ("constrained", &found.constrained, false),
                ("control", &found.control, true),
            ];
            for (arm, quantiles, dashed) in arms.into_iter().filter(|(_, arm, _)| arm.n > 0) {
                let name = printable(&row.contender, NAME_CHARS);
                let percentiles = [5.0, 25.0, 50.0, 75.0, 95.0, 100.0]
                    .map(|p| percentile(&quantiles.values_ms, p).map_or_else(String::new, figure));
                let cells = [name.clone(), arm.to_owned(), quantiles.n.to_string()];
                table.row(cells.into_iter().chain(percentiles));
                curves.push(Curve {
                    name: format!("{name}, {arm}, n = {}", quantiles.n),
                    colour: self.colour(&row.contender),
                    dashed,
                    points: quantiles.points(),
                });
            }
        }
        let is_start = |(ns, share): &&(u64, f64)| *ns >= AXIS_FROM_NS && *share >= AXIS_FROM_SHARE;
        let starts = curves
            .iter()
            .filter_map(|curve| curve.points.iter().find(is_start));
        let ends = curves.iter().filter_map(|curve| curve.points.last());
        let axis = Axis::durations(starts.chain(ends).map(|(ns, _)| *ns as f64))?;
        let load = (group.1 != Load::AsGiven).then(|| group.1.to_string());
        let dataset = (!group.0.is_empty()).then(|| printable(&group.0, NAME_CHARS));
        let place: Vec<String> = dataset.into_iter().chain(load).collect();
        let title = match place.is_empty() {
            true => metric.to_owned(),
            false => format!("{metric}: {}", place.join(", ")),
        };
        Some(Chart {
            svg: svg::cumulative(&title, &curves, ShareScale::Even, &axis),
            title: format!("{title} (table in ms)"),
            table: Some(table),
        })
    }

    /// The result of every request that can be judged, if some are not valid.
    fn add_results(&self, document: &mut Document) {
        let invalid = distinct(
            self.measured()
                .flat_map(|(_, figures)| figures.reasons.iter().map(|reason| reason.name)),
        );
        let names: Vec<&str> = [VALID_RESULT]
            .into_iter()
            .chain(invalid)
            .chain(OTHER_CAUSES)
            .collect();
        let class = |name: &str| match names.iter().position(|other| *other == name) {
            None | Some(0) => VALID_CLASS,
            Some(place) => REASON_CLASSES[(place - 1) % REASON_CLASSES.len()],
        };
        let mut bars = Vec::new();
        let mut table = Table::new(["backend", "result", "example", "requests", "of"], 3);
        for (row, figures) in self.measured() {
            let (Some(correct), Some(causes)) = (figures.correct_rate, &figures.causes) else {
                continue;
            };
            let reasons = figures.reasons.iter();
            let reasons =
                reasons.map(|reason| (reason.name, reason.count, reason.example.as_ref()));
            let others = [causes.truncated, causes.refused, causes.failed];
            let others = OTHER_CAUSES
                .into_iter()
                .zip(others)
                .map(|(name, rate)| (name, rate.hits, None));
            let results: Vec<_> = std::iter::once((VALID_RESULT, correct.hits, None))
                .chain(reasons)
                .chain(others)
                .filter(|(_, count, _)| *count > 0)
                .collect();
            for (name, count, found) in &results {
                table.row([
                    self.name(row),
                    name.replace('_', " "),
                    found.map_or_else(String::new, example),
                    count.to_string(),
                    correct.of.to_string(),
                ]);
            }
            let part = |(name, count, _): &(&str, usize, Option<&Example>)| Part {
                name: name.replace('_', " "),
                class: class(name),
                count: *count as u64,
            };
            bars.push(Bar {
                name: self.name(row),
                parts: results.iter().map(part).collect(),
            });
        }
        let is_valid = |part: &Part| part.class == VALID_CLASS;
        if bars.iter().all(|bar| bar.parts.iter().all(is_valid)) {
            return;
        }
        let is_drawn = |name: &&&str| {
            let shown = name.replace('_', " ");
            let mut parts = bars.iter().flat_map(|bar| &bar.parts);
            parts.any(|part| part.name == shown)
        };
        let entry = |name: &&str| LegendEntry::Area {
            class: class(name),
            label: name.replace('_', " "),
        };
        document.heading("Results of the requests");
        document.push(Block::Charts(Charts {
            legend: names.iter().filter(is_drawn).map(entry).collect(),
            caption: "all constrained requests that can be judged, of all repeats: valid answers, \
                      invalid ones by reason, and the rest"
                .to_owned(),
            charts: vec![Chart {
                svg: svg::stacked("Results of the requests (unit: request)", &bars),
                title: String::new(),
                table: None,
            }],
            layout: Layout::Wide,
        }));
        document.push(Block::Details {
            summary: "The same numbers as a table, with examples".to_owned(),
            blocks: vec![Block::Table(table)],
        });
    }

    fn add_heat_maps(&self, document: &mut Document) {
        let datasets = distinct(self.comparison.schemas.iter().map(|row| &row.dataset));
        for dataset in datasets {
            let rows = || {
                self.comparison
                    .schemas
                    .iter()
                    .filter(|row| row.dataset == *dataset)
            };
            let columns = distinct(rows().flat_map(|row| {
                row.cells
                    .iter()
                    .map(|cell| printable(&cell.contender, NAME_CHARS))
            }));
            let drawn: Vec<heat_map::Row> = rows()
                .take(HEAT_ROWS)
                .map(|row| heat_row(row, &columns))
                .collect();
            document.heading(format!(
                "Constraints of {} by backend",
                printable(dataset, NAME_CHARS)
            ));
            let classes = [VALID, SLOW, TRUNCATED, FAILED, REFUSED, INVALID];
            document.push(Block::Charts(Charts {
                legend: classes
                    .map(|class| LegendEntry::Area {
                        class: class.css,
                        label: format!("{} {}", class.letter, class.name),
                    })
                    .to_vec(),
                caption: format!(
                    "{} of {} constraints; the worst result of the requests of each; point at a cell for the counts",
                    drawn.len(),
                    rows().count()
                ),
                ..Charts::default()
            }));
            document.push(Block::Html(heat_map::markup(
                "constraint",
                &columns,
                &drawn,
            )));
        }
    }

    /// Figures over the loads of a sweep, by dataset.
    fn add_sweeps(&self, document: &mut Document) {
        let steps = capacity::steps(self.comparison);
        let loads = distinct(steps.iter().map(|step| step.found.load));
        if loads.len() < 2 {
            return;
        }
        let datasets = distinct(steps.iter().map(|step| step.dataset));
        let chart = |(dataset, series): (&str, &Series)| self.over_load(&steps, dataset, series);
        let charts: Vec<Chart> = datasets
            .into_iter()
            .flat_map(|dataset| SERIES.iter().map(move |series| (dataset, series)))
            .filter_map(chart)
            .collect();
        if charts.is_empty() {
            return;
        }
        let mut legend = self.contender_legend();
        legend.push(LegendEntry::Text(
            "solid: constrained; dashed: control; ring: highest load that meets the objectives; all requests at once: only in the table"
                .to_owned(),
        ));
        document.heading("Capacity over load");
        document.push(grid("", legend, charts));
        // A search has this table above.
        if self.comparison.capacity.is_empty() {
            document.push(Block::Details {
                summary: "The same numbers as a table".to_owned(),
                blocks: capacity::steps_table(self.comparison)
                    .map(Block::Table)
                    .into_iter()
                    .collect(),
            });
        }
    }

    fn contender_legend(&self) -> Vec<LegendEntry> {
        let entry = |contender: &String| LegendEntry::Curve {
            colour: self.colour(contender),
            dashed: false,
            label: printable(contender, NAME_CHARS),
        };
        self.contenders().iter().map(entry).collect()
    }

    /// A line for each contender and arm.
    fn over_load(
        &self,
        steps: &[capacity::Step<'_>],
        dataset: &str,
        series: &Series,
    ) -> Option<Chart> {
        let steps = || steps.iter().filter(|step| step.dataset == dataset);
        let x = Axis::linear(steps().map(|step| step.found.load.size()), Range::FromZero)?;
        let mut lines = Vec::new();
        for contender in self.contenders() {
            for arm in [Arm::Constrained, Arm::Control] {
                let own = steps().filter(|step| step.contender == contender && step.arm == arm);
                let point = |step: &capacity::Step<'_>| {
                    Some((step.found.load.size(), (series.value)(&step.found)?))
                };
                let points: Vec<(f64, f64)> = own.filter_map(point).collect();
                let name = printable(&contender, NAME_CHARS);
                let mark = self.knee(dataset, &contender, arm).and_then(|knee| {
                    let point = points.iter().find(|(load, _)| *load == knee.size())?;
                    Some((
                        *point,
                        format!("{name}: highest load that meets the objectives: {knee}"),
                    ))
                });
                lines.push(Line {
                    name: format!("{name}, {}", arm.name()),
                    colour: self.colour(&contender),
                    dashed: arm == Arm::Control,
                    points,
                    mark,
                });
            }
        }
        let values = lines
            .iter()
            .flat_map(|line| line.points.iter().map(|(_, value)| *value));
        let y = Axis::linear(values, series.range)?;
        let required = self.comparison.record.goodput_share_percent;
        let is_shown = series.range == Range::Percent && required <= y.end();
        let axes = Axes {
            x: &x,
            y: &y,
            x_unit: match steps().next()?.found.load {
                Load::MaxConcurrency(_) => "requests in flight",
                Load::RequestRate(_) | Load::AsGiven => "requests/s",
            },
        };
        let title = format!("{}: {}", series.title, printable(dataset, NAME_CHARS));
        Some(Chart {
            svg: lines::lines(&title, &lines, &axes, is_shown.then_some(required)),
            title,
            table: None,
        })
    }

    /// The highest load that meets the objectives.
    fn knee(&self, dataset: &str, contender: &str, arm: Arm) -> Option<Load> {
        let mut capacities = self.comparison.capacity.iter();
        if let Some(row) =
            capacities.find(|row| row.dataset == dataset && row.contender == contender)
        {
            let capacity = row.of(arm)?;
            return capacity.sustained_rps.map(Load::RequestRate);
        }
        let mut knees = self.comparison.knees.iter();
        let row = knees.find(|row| row.dataset == dataset && row.contender == contender)?;
        match row.knee {
            Knee::At { load, .. } if arm == Arm::Constrained => Some(load),
            _ => None,
        }
    }
}

/// A figure over the loads of a sweep.
struct Series {
    title: &'static str,
    range: Range,
    value: fn(&SweepStep) -> Option<f64>,
}

const fn from_zero(title: &'static str, value: fn(&SweepStep) -> Option<f64>) -> Series {
    let range = Range::FromZero;
    Series {
        title,
        range,
        value,
    }
}

const SERIES: [Series; 6] = [
    Series {
        title: "Within the objectives (% of requests)",
        range: Range::Percent,
        value: |step| Some(step.share?.percent),
    },
    from_zero("Output tokens/s", |step| step.output_tokens_per_s),
    from_zero("TTFT, median (ms)", |step| step.ttft_ms.median),
    from_zero("TTFT, p99 (ms)", |step| step.ttft_ms.at(99.0)),
    from_zero("TPOT, median (ms)", |step| step.tpot_ms.median),
    from_zero("TPOT, p99 (ms)", |step| step.tpot_ms.at(99.0)),
];

impl Quantiles {
    /// Durations in ns with the share of values up to each.
    fn points(&self) -> Vec<(u64, f64)> {
        let count = self.values_ms.len() as f64;
        let point = |(index, ms): (usize, &f64)| {
            let ns = (ms * 1e6).round().max(1.0) as u64;
            (ns, (index + 1) as f64 / count)
        };
        self.values_ms.iter().enumerate().map(point).collect()
    }
}

impl Interval {
    fn text(&self) -> String {
        let value = figure(self.value);
        self.bounds.map_or_else(
            || value.clone(),
            |(low, high)| format!("{value} [{}, {}]", figure(low), figure(high)),
        )
    }
}

fn grid(caption: &str, legend: Vec<LegendEntry>, charts: Vec<Chart>) -> Block {
    Block::Charts(Charts {
        legend,
        caption: caption.to_owned(),
        charts,
        layout: Layout::Grid,
    })
}

fn share(rate: Option<Rate>) -> Option<Interval> {
    rate.map(|rate| Interval {
        value: rate.percent,
        bounds: Some((rate.low_percent, rate.high_percent)),
        n: format!("{}/{}", rate.hits, rate.of),
    })
}

/// Time that the constraint adds.
fn added(figures: &Figures, of: fn(&Control) -> Option<&Added>) -> Option<Interval> {
    let added = of(figures.control.as_ref()?).filter(|added| added.has_enough_pairs())?;
    Some(Interval {
        value: added.ms,
        bounds: added.low_ms.zip(added.high_ms),
        n: format!("n = {}", added.pairs),
    })
}

fn heat_row(row: &SchemaRow, columns: &[String]) -> heat_map::Row {
    let cell = |column: &String| {
        let cell = row
            .cells
            .iter()
            .find(|cell| printable(&cell.contender, NAME_CHARS) == *column)?;
        Some(heat_map::Cell {
            class: class_of(cell)?,
            shown: None,
            text: counts(cell),
        })
    };
    heat_map::Row {
        name: printable(&row.name, NAME_CHARS),
        cells: columns.iter().map(cell).collect(),
    }
}

/// The worst result of a cell; `None` without requests.
fn class_of(cell: &SchemaCell) -> Option<Class> {
    let worst = [
        (cell.invalid > 0, INVALID),
        (cell.refused > 0, REFUSED),
        (cell.failed > 0, FAILED),
        (cell.truncated > 0, TRUNCATED),
        (cell.slow, SLOW),
        (cell.correct > 0, VALID),
    ];
    worst
        .into_iter()
        .find_map(|(applies, class)| applies.then_some(class))
}

fn counts(cell: &SchemaCell) -> String {
    let counts = [
        (cell.correct, "correct"),
        (cell.invalid, "invalid"),
        (cell.truncated, "truncated"),
        (cell.refused, "refused"),
        (cell.failed, "failed"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let mut text = counts
        .map(|(count, name)| format!("{count} {name}"))
        .collect::<Vec<_>>()
        .join(", ");
    if let Some(ms) = cell.ttft_ms {
        text.push_str(&format!(", median TTFT {} ms", figure(ms)));
    }
    let refusal = cell.refusal.as_ref().map(|refusal| &refusal.message);
    if let Some(message) = cell.finding.as_ref().or(refusal) {
        text.push_str(&format!(": {}", printable(message, EXAMPLE_CHARS)));
    }
    text
}

fn example(example: &Example) -> String {
    format!(
        "{}: {}: {}",
        printable(&example.case_id, NAME_CHARS),
        printable(&example.message, EXAMPLE_CHARS),
        printable(&example.text, EXAMPLE_CHARS)
    )
}

/// A number with three significant digits or so.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::eventful;
    use super::*;

    #[test]
    fn quantiles_keep_the_ends_and_the_number_of_values() {
        let few = Quantiles::new([3.0, 1.0, f64::NAN, 2.0].into_iter());
        assert_eq!((few.n, few.values_ms), (3, vec![1.0, 2.0, 3.0]));
        let many = Quantiles::new((1..=1000).map(f64::from));
        assert_eq!(
            (many.n, many.values_ms.len(), many.values_ms[99]),
            (1000, CURVE_POINTS, 500.0)
        );
        assert_eq!(many.values_ms.last(), Some(&1000.0));
        assert!(Quantiles::new(std::iter::empty()).points().is_empty());
    }

    #[test]
    fn a_cell_has_the_class_of_its_worst_result() {
        let cell = |invalid: usize, truncated: usize, slow: bool| SchemaCell {
            requests: 9,
            correct: 9 - invalid - truncated,
            invalid,
            truncated,
            slow,
            ..SchemaCell::default()
        };
        for (cell, expected) in [
            (cell(1, 1, true), Some(INVALID)),
            (cell(0, 1, true), Some(TRUNCATED)),
            (cell(0, 0, true), Some(SLOW)),
            (cell(0, 0, false), Some(VALID)),
            (SchemaCell::default(), None),
        ] {
            assert_eq!(class_of(&cell), expected);
        }
    }

    #[test]
    fn every_picture_has_a_table_and_the_page_is_escaped() {
        let mut document = Document::default();
        add(&mut document, &eventful());
        let page = sobench_render::html::render(&document);
        sobench_render::html::testing::check_well_formed(&page);
        for title in [
            "Correct rate (%)",
            "Added TTFT (ms)",
            "Added TPOT (ms a token)",
            "TTFT: json, 4 req/s",
            "TTFT of first and later uses",
            "Results of the requests",
            "Constraints of json by backend",
            "Within the objectives (% of requests)",
            "TTFT, median (ms)",
            "TPOT, p99 (ms)",
            "Output tokens/s",
            "price|list",
            "refused: 10 refused",
        ] {
            assert!(page.contains(title), "{title}");
        }
        // The steps of a search have one table, which is not in a chart.
        assert!(
            page.matches("role=\"img\"").count()
                <= page.matches("<details>").count() + SERIES.len(),
            "every chart has a table"
        );
        assert!(!page.contains("NaN") && !page.contains("<b>|odd"));
    }

    #[test]
    fn steps_of_a_sweep_are_drawn_for_both_arms_and_are_in_one_table() {
        let page = |comparison: &Comparison| {
            let mut document = Document::default();
            Pictures { comparison }.add_sweeps(&mut document);
            sobench_render::html::render(&document)
        };
        let mut comparison = eventful();
        let search = page(&comparison);
        for part in [
            "TTFT, p99 (ms): json",
            "constrained</title>",
            "control</title>",
            "14 req/s</title>",
        ] {
            assert!(search.contains(part), "{part} in {search}");
        }
        assert_eq!(search.matches(" dashed\" d=").count(), SERIES.len());
        assert!(!search.contains("<table"), "the page has it: {search}");
        let whole = super::super::page::document(&comparison).plain_text();
        assert_eq!(whole.matches("Steps of the search").count(), 1);
        comparison.capacity.clear();
        assert_eq!(page(&comparison).matches("<table").count(), 1);
    }

    #[test]
    fn a_comparison_without_figures_has_no_charts() {
        let mut comparison = eventful();
        comparison.rows.retain(|row| row.figures().is_none());
        comparison.schemas.clear();
        comparison.capacity.clear();
        let mut document = Document::default();
        add(&mut document, &comparison);
        assert_eq!(document.blocks, []);
    }
}
