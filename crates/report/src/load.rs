//! Offered load, ramp, steady state: JSON members and tables.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::first_use_tables;
use super::json::put;
use super::tables::percentile_cell;
use super::text::figure;
use sobench_core::json_numbers::{NumberOrInf, number_or_inf_or_null};
use sobench_core::json_struct;
use sobench_core::load::ErrorLimits;
use sobench_core::schedule::{Pace, Ramp, RampStrategy, Rate};
use sobench_plan::record::RunRecord;
use sobench_render::{Document, Table};
use sobench_results::metrics::cold_load::ColdLoad;
use sobench_results::metrics::first_uses::FirstUses;
use sobench_results::metrics::offered_load::OfferedLoad;
use sobench_results::metrics::steady_state::SteadyState;

/// Figures of the load of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadFigures {
    /// The ramp, where there was one.
    pub ramp: Option<RampFigures>,
    pub offered: OfferedLoad,
    /// The part of the run at the concurrency cap; `None` without a cap, or where it was never
    /// reached.
    pub steady_state: Option<SteadyState>,
    /// First and later uses of constraints; `None` without constraints.
    pub first_uses: Option<FirstUses>,
    /// Effect of new schemas on other requests (`--cold-schema-every`).
    pub cold_load: Option<ColdLoad>,
}

/// The rates of a ramp.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RampFigures {
    /// When the ramp reached each whole number of requests per second.
    pub events: Vec<RpsChange>,
    /// Requests per second at each request, in plan order.
    pub rates: Vec<f64>,
}

/// vLLM's event: a rate in whole requests per second, and the time (ISO 8601, UTC) when it was
/// reached.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct RpsChange {
    pub rps: u32,
    pub timestamp: String,
}

json_struct! {
    /// vLLM's settings of a ramp, among the other settings.
    pub(crate) struct RampKeys = |ramp: &Ramp| {
        ramp_up_strategy: RampStrategy = ramp.strategy,
        ramp_up_start_rps: u32 = ramp.start_rps,
        ramp_up_end_rps: u32 = ramp.end_rps,
    }

    /// The requested and the offered load in the result file.
    pub(super) struct LoadPart<'a> = |figures: &'a LoadFigures, record: &'a RunRecord| [
        let load = &record.settings.load;
        let ramp = load.pace.ramp();
    ] {
        /// `null` with a ramp, which has its own rates.
        #[serde(with = "number_or_inf_or_null")]
        #[schemars(with = "Option<NumberOrInf>")]
        requested_rps: Option<f64> = ramp.is_none().then(|| record.own_request_rate()),
        ramp: Option<Ramp> = ramp,
        duration_limit_s: Option<f64> = load.until.time().map(|time| time.as_secs_f64()),
        #[serde(flatten)]
        error_limits: &'a ErrorLimits = &load.error_limits,
        offered: OfferedLoad = figures.offered,
        steady_state: &'a Option<SteadyState> = &figures.steady_state,
        first_uses: &'a Option<FirstUses> = &figures.first_uses,
        cold_load: &'a Option<ColdLoad> = &figures.cold_load,
    }
}

impl LoadFigures {
    /// vLLM's record of a ramp, and the steady state of its `vllm-bench`, before the latencies.
    pub(super) fn add_events(&self, file: &mut Map<String, Value>, cap: Option<usize>) {
        self.add_rate_changes(file);
        if cap.is_some() {
            put(
                file,
                "steady_state",
                self.steady_state.as_ref().map(SteadyState::vllm_keys),
            );
        }
    }

    /// vLLM's record of a ramp.
    pub(super) fn add_rate_changes(&self, file: &mut Map<String, Value>) {
        if let Some(ramp) = &self.ramp {
            put(file, "rps_change_events", &ramp.events);
        }
    }

    /// The rate at each request, for files with every request.
    pub(super) fn add_columns(&self, file: &mut Map<String, Value>) {
        if let Some(ramp) = &self.ramp {
            put(file, "request_rates", &ramp.rates);
        }
    }

    /// Adds the tables of the text report.
    pub(super) fn add_tables(&self, page: &mut Document, record: &RunRecord) {
        self.add_offered(page, record);
        self.add_steady(page, record.own_cap());
        if let Some(uses) = &self.first_uses {
            first_use_tables::add_first_uses(page, uses, self.cold_load.is_some());
        }
        if let Some(load) = &self.cold_load {
            first_use_tables::add_load(page, load);
        }
    }

    fn add_offered(&self, page: &mut Document, record: &RunRecord) {
        let offered = &self.offered;
        let load = &record.settings.load;
        let requested = match load.pace {
            _ if load.replay_speed.is_some() => load.to_string(),
            Pace::Ramp(ramp) => format!(
                "{} to {} ({})",
                ramp.start_rps,
                ramp.end_rps,
                ramp.strategy.name()
            ),
            Pace::Steady(Rate::Infinite) => "all at once".to_owned(),
            Pace::Steady(Rate::PerSecond(_)) => figure(Some(record.own_request_rate())),
        };
        let row = |name: &str, value: Option<String>| value.map(|value| [name.to_owned(), value]);
        let rows = [
            row("requested", Some(requested)),
            row(
                "scheduled, up to the last request sent",
                offered.scheduled_rps.map(|rate| figure(Some(rate))),
            ),
            row("sent", offered.achieved_rps.map(|rate| figure(Some(rate)))),
            row(
                "deviation from the schedule",
                offered
                    .deviation_percent
                    .map(|percent| format!("{percent:+.2} %")),
            ),
        ];
        // Rows without a known value are left out.
        page.heading("Offered load");
        page.table(
            Table::new(["requests per second", ""], 1).with_rows(rows.into_iter().flatten()),
        );
        let limits = load.error_limits.phrases("enough requests");
        if !limits.is_empty() {
            page.paragraph(format!(
                "error limits: the run stops {}",
                limits.join(", or ")
            ));
        }
    }

    /// Adds the steady state, or a sentence where a run with a cap has none.
    fn add_steady(&self, page: &mut Document, cap: Option<usize>) {
        let Some(cap) = cap else { return };
        page.heading("Steady state");
        let Some(steady) = &self.steady_state else {
            return page.paragraph(format!(
                "no steady state: the run never reached {cap} concurrent requests"
            ));
        };
        let window = &steady.window;
        let mut rows = vec![
            [
                "window (s)".to_owned(),
                format!("{:.2} to {:.2}", window.start_s, window.end_s),
            ],
            [
                "concurrent requests, at least".to_owned(),
                format!("{} of {cap}", window.threshold_abs),
            ],
            [
                "requests sent / ended in the window".to_owned(),
                format!(
                    "{} / {} of {}",
                    window.requests_started_in_window,
                    window.requests_completed_in_window,
                    window.requests_total
                ),
            ],
            [
                "answers per second".to_owned(),
                figure(steady.request_throughput),
            ],
            [
                "output tokens per second".to_owned(),
                figure(steady.output_throughput),
            ],
        ];
        for (name, summary) in [("TTFT", &steady.ttft_ms), ("TPOT", &steady.tpot_ms)] {
            rows.push([format!("{name} mean (ms)"), figure(summary.mean)]);
            rows.push([format!("{name} median (ms)"), figure(summary.median)]);
            let percentiles = summary.percentiles.iter().enumerate();
            rows.extend(percentiles.map(|(index, percentile)| {
                [
                    format!("{name} p{} (ms)", percentile.label()),
                    percentile_cell(summary, index),
                ]
            }));
        }
        page.table(Table::new(["steady state", ""], 1).with_rows(rows));
        page.paragraphs(window.warning.clone());
    }
}
