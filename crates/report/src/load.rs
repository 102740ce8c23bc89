//! What is said about the load itself: what was asked for, what was offered, and how. Knows no
//! formula and no clock.

use serde::Serialize;
use serde_json::{Map, Value};

use super::cold;
use super::json::{Rps, members_of, put};
use super::tables::percentile_cell;
use super::text::figure;
use sobench_core::schedule::{Pace, Rate};
use sobench_render::{Document, Table};
use sobench_results::metrics::cold::FirstUses;
use sobench_results::metrics::cold_load::ColdLoad;
use sobench_results::metrics::offered::Offered;
use sobench_results::metrics::steady::SteadyState;
use sobench_results::record::RunRecord;

/// Figures of the load of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadFigures {
    /// What became of the ramp, where there was one.
    pub ramp: Option<RampFigures>,
    pub offered: Offered,
    /// The part of the run in which the cap was reached; `None` where it never was, and without a
    /// cap.
    pub steady_state: Option<SteadyState>,
    /// First uses of constraints against later ones; `None` where no constraint was sent.
    pub first_uses: Option<FirstUses>,
    /// What new schemas did to the others, where they were asked for.
    pub cold_load: Option<ColdLoad>,
}

/// How the rate of a ramp rose.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RampFigures {
    /// When the ramp came to each whole number of requests per second.
    pub events: Vec<RpsChange>,
    /// Requests per second at each request, in plan order.
    pub rates: Vec<f64>,
}

/// vLLM's event: a rate in whole requests per second, and the wall clock (ISO 8601, UTC) when it
/// was come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RpsChange {
    pub rps: u32,
    pub timestamp: String,
}

/// vLLM's settings of a ramp, which stand among the other settings.
pub(crate) fn add_ramp_settings(file: &mut Map<String, Value>, record: &RunRecord) {
    if let Some(ramp) = record.settings.load.pace.ramp() {
        put(file, "ramp_up_strategy", ramp.strategy);
        put(file, "ramp_up_start_rps", ramp.start_rps);
        put(file, "ramp_up_end_rps", ramp.end_rps);
    }
}

impl LoadFigures {
    /// The load of the saved result: what was asked for, and what came of it.
    pub(super) fn to_json(&self, record: &RunRecord) -> Value {
        let load = &record.settings.load;
        let mut own = Map::new();
        // A ramp has rates of its own.
        put(
            &mut own,
            "asked_rps",
            load.pace
                .ramp()
                .is_none()
                .then(|| Rps(record.own_request_rate())),
        );
        put(&mut own, "ramp", load.pace.ramp());
        put(
            &mut own,
            "duration_limit_s",
            load.until.time().map(|time| time.as_secs_f64()),
        );
        own.extend(members_of(&load.error_limits));
        put(&mut own, "offered", self.offered);
        put(&mut own, "steady_state", &self.steady_state);
        put(&mut own, "first_uses", &self.first_uses);
        put(&mut own, "cold_load", &self.cold_load);
        Value::Object(own)
    }

    /// vLLM's record of a ramp, and the steady state of its `vllm-bench`, which stand before the
    /// latencies.
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

    /// vLLM's record of a ramp alone.
    pub(super) fn add_rate_changes(&self, file: &mut Map<String, Value>) {
        if let Some(ramp) = &self.ramp {
            put(file, "rps_change_events", &ramp.events);
        }
    }

    /// The rate at each request, for files that hold every request.
    pub(super) fn add_columns(&self, file: &mut Map<String, Value>) {
        if let Some(ramp) = &self.ramp {
            put(file, "request_rates", &ramp.rates);
        }
    }

    /// Adds the tables on the console.
    pub(super) fn add_tables(&self, page: &mut Document, record: &RunRecord) {
        self.add_offered(page, record);
        self.add_steady(page, record.own_cap());
        if let Some(uses) = &self.first_uses {
            cold::add_first_uses(page, uses, self.cold_load.is_some());
        }
        if let Some(load) = &self.cold_load {
            cold::add_load(page, load);
        }
    }

    fn add_offered(&self, page: &mut Document, record: &RunRecord) {
        let offered = &self.offered;
        let load = &record.settings.load;
        let asked = match load.pace {
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
            row("asked", Some(asked)),
            row(
                "scheduled, up to the last one sent",
                offered.scheduled_rps.map(|rate| figure(Some(rate))),
            ),
            row("sent", offered.achieved_rps.map(|rate| figure(Some(rate)))),
            row(
                "sent, off the schedule by",
                offered
                    .deviation_percent
                    .map(|percent| format!("{percent:+.2} %")),
            ),
        ];
        // What this run does not tell takes no line.
        page.heading("The load");
        page.table(
            Table::new(["requests per second", ""], 1).with_rows(rows.into_iter().flatten()),
        );
        let limits = load.error_limits.phrases("enough requests");
        if !limits.is_empty() {
            page.paragraph(format!("the run was to give up {}", limits.join(", or ")));
        }
    }

    /// Figures of the window; a sentence where there is none in a closed loop.
    fn add_steady(&self, page: &mut Document, cap: Option<usize>) {
        let Some(cap) = cap else { return };
        page.heading("The steady state, beside the whole run");
        let Some(steady) = &self.steady_state else {
            return page.paragraph(format!(
                "the run never had its {cap} requests under way: it has no steady state"
            ));
        };
        let window = &steady.window;
        let mut rows = vec![
            [
                "window (s)".to_owned(),
                format!("{:.2} to {:.2}", window.start_s, window.end_s),
            ],
            [
                "requests under way at least".to_owned(),
                format!("{} of {cap}", window.threshold_abs),
            ],
            [
                "requests sent / ended in it".to_owned(),
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
            rows.extend(percentiles.map(|(place, it)| {
                [
                    format!("{name} p{} (ms)", it.word()),
                    percentile_cell(summary, place),
                ]
            }));
        }
        page.table(Table::new(["steady state", ""], 1).with_rows(rows));
        page.paragraphs(window.warning.clone());
    }
}
