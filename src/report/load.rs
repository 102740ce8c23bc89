//! What is said about the load itself: what was asked for, what was offered, and how. Knows no formula and no clock.

use serde::Serialize;
use serde_json::{Map, Value};
use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

use super::cold;
use super::json::put;
use super::tables::percentile_cell;
use super::text::figure;
use crate::metrics::cold::FirstUses;
use crate::metrics::cold_load::ColdLoad;
use crate::metrics::offered::Offered;
use crate::metrics::steady::SteadyState;

/// The load of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadReport {
    /// Requests per second asked for; infinite where all were due at once, `None` where a ramp has its own.
    #[serde(serialize_with = "super::rate_or_inf")]
    pub asked_rps: Option<f64>,
    pub ramp: Option<RampAbout>,
    /// After which sending was to end, where a time was given.
    pub duration_limit_s: Option<f64>,
    /// The share of errors, and the errors in a row, at which the run was to give up, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_error_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_consecutive_errors: Option<usize>,
    pub offered: Offered,
    /// The most requests under way at a time; `None` without a cap.
    #[serde(skip)]
    pub max_concurrency: Option<usize>,
    /// The part of the run in which the cap was reached; `None` where it never was, and without a cap.
    pub steady_state: Option<SteadyState>,
    /// First uses of constraints against later ones; `None` where no constraint was sent.
    pub first_uses: Option<FirstUses>,
    /// What new schemas did to the others, where they were asked for.
    pub cold_load: Option<ColdLoad>,
}

/// A rate that rose during the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RampAbout {
    /// `linear` or `exponential`.
    pub strategy: String,
    pub start_rps: u32,
    pub end_rps: u32,
    /// When the ramp came to each whole number of requests per second.
    #[serde(skip)]
    pub events: Vec<RpsChange>,
    /// Requests per second at each request, in plan order.
    #[serde(skip)]
    pub rates: Vec<f64>,
}

/// vLLM's event: a rate in whole requests per second, and the wall clock (ISO 8601, UTC) when it was come to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RpsChange {
    pub rps: u32,
    pub timestamp: String,
}

impl LoadReport {
    /// vLLM's settings of a ramp, which stand among the other settings.
    pub(super) fn add_settings(&self, file: &mut Map<String, Value>) {
        if let Some(ramp) = &self.ramp {
            put(file, "ramp_up_strategy", &ramp.strategy);
            put(file, "ramp_up_start_rps", ramp.start_rps);
            put(file, "ramp_up_end_rps", ramp.end_rps);
        }
    }

    /// vLLM's record of a ramp, and the steady state of its `vllm-bench`, which stand before the latencies.
    pub(super) fn add_events(&self, file: &mut Map<String, Value>) {
        self.add_rate_changes(file);
        if self.max_concurrency.is_some() {
            put(file, "steady_state", self.steady_state.as_ref().map(SteadyState::vllm_keys));
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

    /// The tables on the console.
    pub(super) fn tables(&self) -> [(&'static str, Option<String>); 4] {
        [
            ("The load", Some(self.offered_table())),
            ("The steady state, beside the whole run", self.steady_table()),
            (
                "First uses of a constraint against later ones: TTFT (ms)",
                self.first_uses.as_ref().and_then(|uses| cold::first_uses(uses, self.cold_load.is_some())),
            ),
            ("Requests beside a new schema against those beside a known one (ms)", self.cold_load.as_ref().map(cold::load)),
        ]
    }

    fn offered_table(&self) -> String {
        let offered = &self.offered;
        let asked = match (&self.ramp, self.asked_rps) {
            (Some(ramp), _) => format!("{} to {} ({})", ramp.start_rps, ramp.end_rps, ramp.strategy),
            (None, Some(rate)) if rate.is_infinite() => "all at once".to_owned(),
            (None, rate) => figure(rate),
        };
        let row = |name: &str, value: Option<String>| value.map(|value| [name.to_owned(), value]);
        let rows = [
            row("asked", Some(asked)),
            row("scheduled, up to the last one sent", offered.scheduled_rps.map(|rate| figure(Some(rate)))),
            row("sent", offered.achieved_rps.map(|rate| figure(Some(rate)))),
            row("sent, off the schedule by", offered.deviation_percent.map(|percent| format!("{percent:+.2} %"))),
        ];
        // What this run does not tell takes no line.
        let table = lay_out(["requests per second", ""], rows.into_iter().flatten());
        self.error_limits().map_or_else(|| table.clone(), |limits| format!("{table}\n{limits}"))
    }

    /// The errors that the run was to put up with, where that was said.
    fn error_limits(&self) -> Option<String> {
        let rate = self
            .max_error_rate
            .map(|share| format!("above a share of errors of {share}, once enough requests have ended (--max-error-rate)"));
        let in_a_row = self.max_consecutive_errors.map(|most| format!("at {most} errors in a row (--max-consecutive-errors)"));
        let limits: Vec<String> = rate.into_iter().chain(in_a_row).collect();
        (!limits.is_empty()).then(|| format!("the run was to give up {}", limits.join(", or ")))
    }

    /// Figures of the window; a sentence where there is none in a closed loop.
    fn steady_table(&self) -> Option<String> {
        let cap = self.max_concurrency?;
        let Some(steady) = &self.steady_state else {
            return Some(format!("the run never had its {cap} requests under way: it has no steady state"));
        };
        let window = &steady.window;
        let mut rows = vec![
            ["window (s)".to_owned(), format!("{:.2} to {:.2}", window.start_s, window.end_s)],
            ["requests under way at least".to_owned(), format!("{} of {cap}", window.threshold_abs)],
            [
                "requests sent / ended in it".to_owned(),
                format!(
                    "{} / {} of {}",
                    window.requests_started_in_window, window.requests_completed_in_window, window.requests_total
                ),
            ],
            ["answers per second".to_owned(), figure(steady.request_throughput)],
            ["output tokens per second".to_owned(), figure(steady.output_throughput)],
        ];
        for (name, summary) in [("TTFT", &steady.ttft_ms), ("TPOT", &steady.tpot_ms)] {
            rows.push([format!("{name} mean (ms)"), figure(summary.mean)]);
            rows.push([format!("{name} median (ms)"), figure(summary.median)]);
            let percentiles = summary.percentiles.iter().enumerate();
            rows.extend(percentiles.map(|(place, it)| [format!("{name} p{} (ms)", it.word()), percentile_cell(summary, place)]));
        }
        let table = lay_out(["steady state", ""], rows);
        Some(window.warning.as_ref().map_or_else(|| table.clone(), |warning| format!("{table}\n{warning}")))
    }
}

/// Names on the left, figures on the right.
fn lay_out(head: [&str; 2], rows: impl IntoIterator<Item = [String; 2]>) -> String {
    let mut builder = Builder::default();
    builder.push_record(head);
    rows.into_iter().for_each(|row| builder.push_record(row));
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(1..)).with(Alignment::right()));
    table.to_string()
}
