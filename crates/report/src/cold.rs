//! Cold and warm on the console. Knows no formula.

use super::text::figure;
use sobench_render::{Document, Table};
use sobench_results::metrics::cold::FirstUses;
use sobench_results::metrics::cold_load::{Beside, ColdLoad};
use sobench_results::metrics::difference::{Difference, Method};
use sobench_statistics::Summary;

/// Adds first uses against later ones; `spread` tells whether they are all over the run, and not at
/// its begin. A sentence where the run has nothing to say; nothing where it had one constraint that
/// was known.
pub(super) fn add_first_uses(page: &mut Document, uses: &FirstUses, spread: bool) {
    let known = uses.known_before;
    if uses.cold == 0 && known == uses.constraints {
        return;
    }
    page.heading("First uses of a constraint against later ones: TTFT (ms)");
    if uses.cold == 0 {
        return page.paragraph(format!(
            "no first use was answered in a stream: {known} of {} constraints were known before the run",
            uses.constraints
        ));
    }
    page.table(table().with_rows([
        row("first use (cold)", &uses.cold_ttft_ms),
        row("later uses (warm)", &uses.warm_ttft_ms),
    ]));
    // Within each constraint says more, where there are constraints enough to have an interval.
    let within = uses.paired_difference_ms.filter(|it| it.low.is_some());
    page.paragraph(match (within, uses.difference_ms) {
        (Some(paired), _) => format!(
            "cold less warm, within each constraint: {}",
            difference(&paired)
        ),
        (None, Some(all)) => format!("cold less warm: {}", difference(&all)),
        (None, None) => {
            "no use was warm: there is nothing to hold the first ones against".to_owned()
        }
    });
    let more = [
        ("constraints known before the run", known),
        (
            "answers that waited for the same compile, in neither row",
            uses.beside_first,
        ),
    ];
    page.paragraphs(
        more.into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(what, count)| format!("{what}: {count}")),
    );
    if !spread {
        page.paragraph("first uses come early: what the begin of a run costs is in it, unless --cold-schema-every spreads them");
    }
}

/// Adds the others beside new schemas and beside known ones.
pub(super) fn add_load(page: &mut Document, load: &ColdLoad) {
    page.heading("Requests beside a new schema against those beside a known one (ms)");
    let Some(window_ms) = load.window_ms else {
        return page.paragraph(format!(
            "of {} requests with a new schema none was answered in a stream",
            load.requests
        ));
    };
    let latencies = [("TTFT", &load.ttft), ("ITL", &load.itl)];
    page.table(table().with_rows(latencies.into_iter().flat_map(
        |(
            name,
            Beside {
                beside_new_ms,
                beside_known_ms,
                ..
            },
        )| {
            [
                row(&format!("{name} beside a new schema"), beside_new_ms),
                row(&format!("{name} beside a known one"), beside_known_ms),
            ]
        },
    )));
    for (name, beside) in latencies {
        let words = beside
            .difference_ms
            .as_ref()
            .map_or_else(|| "nothing to compare".to_owned(), difference);
        page.paragraph(format!(
            "{name}, new less known, each request beside which it was taken as one: {words}"
        ));
    }
    let ColdLoad {
        requests, every, ..
    } = load;
    page.paragraph(format!(
        "new schemas: {requests}, one in {every} constrained requests; beside is what began within {window_ms:.1} ms of the sending"
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

fn difference(it: &Difference) -> String {
    let method = match it.method {
        Method::Bootstrap => format!("bootstrap of {} and {}", it.n, it.m),
        Method::PairedBootstrap => format!("bootstrap of {} differences", it.n),
        Method::Welch => format!("Welch, {} and {}", it.n, it.m),
        Method::PairedNormal => format!("normal, {} differences", it.n),
    };
    match (it.low, it.high) {
        (Some(low), Some(high)) => format!(
            "{:+.2} ms, 95 % interval {low:+.2} to {high:+.2} ({method})",
            it.difference
        ),
        _ => format!(
            "{:+.2} ms, too few for an interval ({} and {})",
            it.difference, it.n, it.m
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
    fn differences_name_their_interval_and_its_method() {
        let found = between(Some(-1.0), Some(26.04), Method::Bootstrap);
        assert_eq!(
            difference(&found),
            "+12.50 ms, 95 % interval -1.00 to +26.04 (bootstrap of 3 and 40)"
        );
        assert_eq!(
            difference(&between(None, None, Method::Bootstrap)),
            "+12.50 ms, too few for an interval (3 and 40)"
        );
    }

    #[test]
    fn what_the_run_cannot_tell_is_said() {
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
        assert!(first_uses(&uses(3, 1, 0), false).contains("1 of 3 constraints were known"));
        assert!(first_uses(&uses(3, 0, 3), false).contains("no use was warm"));
        let paired = Some(between(Some(1.0), Some(20.0), Method::PairedBootstrap));
        let both = FirstUses {
            paired_difference_ms: paired,
            beside_first: 4,
            ..uses(3, 1, 2)
        };
        let shown = first_uses(&both, true);
        assert!(!shown.contains("come early") && first_uses(&both, false).contains("come early"));
        assert!(
            shown.contains("within each constraint: +12.50 ms")
                && shown.contains("in neither row: 4"),
            "{shown}"
        );
    }
}
