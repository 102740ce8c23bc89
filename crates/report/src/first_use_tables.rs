//! Tables of first (cold) and later (warm) uses of constraints.

use super::text::figure;
use sobench_render::{Document, Table};
use sobench_results::metrics::cold_load::{BesideLatencies, ColdLoad};
use sobench_results::metrics::first_uses::FirstUses;
use sobench_statistics::Summary;
use sobench_statistics::contrast::{Difference, Method};

/// Adds TTFT of first and later uses. `spread` is whether new schemas are sent throughout the run
/// (`--cold-schema-every`). Adds nothing where the only constraint was known before.
pub(super) fn add_first_uses(page: &mut Document, uses: &FirstUses, spread: bool) {
    let known = uses.known_before;
    if uses.cold == 0 && known == uses.constraints {
        return;
    }
    page.heading("First and later uses of a constraint: TTFT (ms)");
    if uses.cold == 0 {
        return page.paragraph(format!(
            "no first use has a streamed answer: {known} of {} constraints were known before the run",
            uses.constraints
        ));
    }
    page.table(table().with_rows([
        row("first use (cold)", &uses.cold_ttft_ms),
        row("later uses (warm)", &uses.warm_ttft_ms),
    ]));
    // Pairs within each constraint are the better comparison where there are enough for an
    // interval.
    let within = uses
        .paired_difference_ms
        .filter(|difference| difference.low.is_some());
    page.paragraph(match (within, uses.difference_ms) {
        (Some(paired), _) => format!(
            "cold minus warm, paired by constraint: {}",
            difference(&paired)
        ),
        (None, Some(all)) => format!("cold minus warm: {}", difference(&all)),
        (None, None) => {
            "no constraint was used twice: there are no warm uses to compare with".to_owned()
        }
    });
    let more = [
        ("constraints known before the run", known),
        (
            "answers that waited for the same compilation (in neither row)",
            uses.beside_first,
        ),
    ];
    page.paragraphs(
        more.into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{what}: {count}")),
    );
    if !spread {
        page.paragraph("first uses are early in the run and include its start-up cost; --cold-schema-every spreads them over the run");
    }
}

/// Adds latencies of requests in flight beside new schemas and beside known ones.
pub(super) fn add_load(page: &mut Document, load: &ColdLoad) {
    page.heading("Requests concurrent with a new schema and with a known one (ms)");
    let Some(window_ms) = load.window_ms else {
        return page.paragraph(format!(
            "none of {} requests with a new schema has a streamed answer",
            load.requests
        ));
    };
    let latencies = [("TTFT", &load.ttft), ("ITL", &load.itl)];
    page.table(table().with_rows(latencies.into_iter().flat_map(
        |(
            name,
            BesideLatencies {
                beside_new_ms,
                beside_known_ms,
                ..
            },
        )| {
            [
                row(&format!("{name} with a new schema"), beside_new_ms),
                row(&format!("{name} with a known schema"), beside_known_ms),
            ]
        },
    )));
    for (name, beside) in latencies {
        let difference = beside
            .difference_ms
            .as_ref()
            .map_or_else(|| "nothing to compare".to_owned(), difference);
        page.paragraph(format!("{name}, new minus known, by request: {difference}"));
    }
    let ColdLoad {
        requests, every, ..
    } = load;
    page.paragraph(format!(
        "new schemas: {requests}, one in {every} constrained requests; concurrent requests start within {window_ms:.1} ms of sending"
    ));
}

fn table() -> Table {
    Table::new(["", "n", "mean", "median", "max"], 1)
}

fn row(name: &str, summary: &Summary) -> [String; 5] {
    [
        name.to_owned(),
        summary.n.to_string(),
        figure(summary.mean),
        figure(summary.median),
        figure(summary.max),
    ]
}

fn difference(found: &Difference) -> String {
    let method = match found.method {
        Method::Bootstrap => format!("bootstrap of {} and {}", found.n, found.m),
        Method::PairedBootstrap => format!("bootstrap of {} differences", found.n),
        Method::Welch => format!("Welch, {} and {}", found.n, found.m),
        Method::PairedNormal => format!("normal, {} differences", found.n),
    };
    match (found.low, found.high) {
        (Some(low), Some(high)) => format!(
            "{:+.2} ms, 95 % interval {low:+.2} to {high:+.2} ({method})",
            found.difference
        ),
        _ => format!(
            "too few values for a difference ({} and {})",
            found.n, found.m
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(low: Option<f64>, high: Option<f64>, method: Method) -> Difference {
        Difference {
            difference: 12.5,
            low,
            high,
            n: 3,
            m: 40,
            method,
        }
    }

    #[test]
    fn differences_have_an_interval_and_a_method_or_are_not_shown() {
        let found = between(Some(-1.0), Some(26.04), Method::Bootstrap);
        assert_eq!(
            difference(&found),
            "+12.50 ms, 95 % interval -1.00 to +26.04 (bootstrap of 3 and 40)"
        );
        assert_eq!(
            difference(&between(None, None, Method::Bootstrap)),
            "too few values for a difference (3 and 40)"
        );
    }

    #[test]
    fn missing_figures_have_a_sentence() {
        let uses = |constraints, known_before, cold| FirstUses {
            constraints,
            known_before,
            cold,
            ..FirstUses::default()
        };
        let first_uses = |uses: &FirstUses, spread| {
            let mut page = Document::default();
            add_first_uses(&mut page, uses, spread);
            sobench_render::text::render(&page)
        };
        assert_eq!(first_uses(&uses(1, 1, 0), false), "");
        assert_eq!(
            first_uses(&uses(3, 1, 0), false),
            "First and later uses of a constraint: TTFT (ms)\nno first use has a streamed answer: 1 of 3 constraints were known before the run\n"
        );
        assert_eq!(
            first_uses(&uses(3, 0, 3), false),
            "First and later uses of a constraint: TTFT (ms)\n                   | n | mean | median | max\n-------------------+---+------+--------+-----\n first use (cold)  | 0 |  n/a |    n/a | n/a\n later uses (warm) | 0 |  n/a |    n/a | n/a\nno constraint was used twice: there are no warm uses to compare with\nfirst uses are early in the run and include its start-up cost; --cold-schema-every spreads them over\n  the run\n"
        );
        let paired = Some(between(Some(1.0), Some(20.0), Method::PairedBootstrap));
        let both = FirstUses {
            paired_difference_ms: paired,
            beside_first: 4,
            ..uses(3, 1, 2)
        };
        let shown = first_uses(&both, true);
        assert!(!shown.contains("are early") && first_uses(&both, false).contains("are early"));
        assert_eq!(
            shown,
            "First and later uses of a constraint: TTFT (ms)\n                   | n | mean | median | max\n-------------------+---+------+--------+-----\n first use (cold)  | 0 |  n/a |    n/a | n/a\n later uses (warm) | 0 |  n/a |    n/a | n/a\ncold minus warm, paired by constraint: +12.50 ms, 95 % interval +1.00 to +20.00 (bootstrap of 3\n  differences)\nconstraints known before the run: 1\nanswers that waited for the same compilation (in neither row): 4\n"
        );
    }
}
