//! Views of runs for tests.

use super::*;
use sobench_facts::testing::{TestRequest, with_samples};
use sobench_plan::metrics::MetricsSettings;
use sobench_plan::record::RunRecord;
use sobench_results::metrics::summarise;

/// Calls `check` with a run of two seconds.
pub fn with_view<T>(
    run: &[TestRequest<'_>],
    record: RunRecord,
    check: impl FnOnce(View<'_>) -> T,
) -> T {
    let options = MetricsSettings {
        percentiles: vec![50.0, 99.0],
        ..MetricsSettings::default()
    };
    with_samples(run, |samples| {
        let report = Report::new(record, summarise(samples, 2_000_000_000, &options));
        let answer = |place: usize| Ok(samples[place].observation().answer);
        check(View {
            report: &report,
            samples,
            answer: &answer,
            resend: None,
            run_log: None,
            requirements: None,
        })
    })
}
