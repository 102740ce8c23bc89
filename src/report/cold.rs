//! Cold and warm on the console. Knows no formula.

use tabled::builder::Builder;
use tabled::settings::object::Columns;
use tabled::settings::{Alignment, Modify, Style};

use super::text::figure;
use crate::metrics::cold::FirstUses;
use crate::metrics::cold_load::{Beside, ColdLoad};
use crate::metrics::difference::{Difference, Method};
use crate::statistics::Summary;

/// First uses against later ones; `spread` tells whether they are all over the run, and not at its begin. A sentence where the run has nothing to say; `None` where it had one constraint that was known.
pub(super) fn first_uses(uses: &FirstUses, spread: bool) -> Option<String> {
    let known = uses.known_before;
    if uses.cold == 0 {
        let known_all = known == uses.constraints;
        let sentence = format!(
            "no first use was answered in a stream: {known} of {} constraints were known before the run",
            uses.constraints
        );
        return (!known_all).then_some(sentence);
    }
    let mut builder = head();
    builder.push_record(row("first use (cold)", &uses.cold_ttft_ms));
    builder.push_record(row("later uses (warm)", &uses.warm_ttft_ms));
    let mut lines = vec![lay_out(builder)];
    // Within each constraint says more, where there are constraints enough to have an interval.
    let within = uses.paired_difference_ms.filter(|it| it.low.is_some());
    match (within, uses.difference_ms) {
        (Some(paired), _) => lines.push(format!("cold less warm, within each constraint: {}", difference(&paired))),
        (None, Some(all)) => lines.push(format!("cold less warm: {}", difference(&all))),
        (None, None) => lines.push("no use was warm: there is nothing to hold the first ones against".to_owned()),
    }
    let more = [
        ("constraints known before the run", known),
        ("answers that waited for the same compile, in neither row", uses.beside_first),
    ];
    lines.extend(more.into_iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{what}: {count}")));
    if !spread {
        lines.push(
            "first uses come early: what the begin of a run costs is in it, unless --cold-schema-every spreads them".to_owned(),
        );
    }
    Some(lines.join("\n"))
}

/// The others beside new schemas and beside known ones.
pub(super) fn load(load: &ColdLoad) -> String {
    let Some(window_ms) = load.window_ms else {
        return format!("of {} requests with a new schema none was answered in a stream", load.requests);
    };
    let mut builder = head();
    for (name, Beside { beside_new_ms, beside_known_ms, .. }) in [("TTFT", &load.ttft), ("ITL", &load.itl)] {
        builder.push_record(row(&format!("{name} beside a new schema"), beside_new_ms));
        builder.push_record(row(&format!("{name} beside a known one"), beside_known_ms));
    }
    let mut lines = vec![lay_out(builder)];
    for (name, beside) in [("TTFT", &load.ttft), ("ITL", &load.itl)] {
        let words = beside.difference_ms.as_ref().map_or_else(|| "nothing to compare".to_owned(), difference);
        lines.push(format!("{name}, new less known, each request beside which it was taken as one: {words}"));
    }
    let ColdLoad { requests, every, .. } = load;
    lines.push(format!(
        "new schemas: {requests}, one in {every} constrained requests; beside is what began within {window_ms:.1} ms of the sending"
    ));
    lines.join("\n")
}

fn head() -> Builder {
    let mut builder = Builder::default();
    builder.push_record(["", "n", "mean", "median", "max"]);
    builder
}

fn row(name: &str, summary: &Summary) -> [String; 5] {
    [name.to_owned(), summary.n.to_string(), figure(summary.mean), figure(summary.median), figure(summary.max)]
}

fn lay_out(builder: Builder) -> String {
    let mut table = builder.build();
    table.with(Style::psql()).with(Modify::new(Columns::new(1..)).with(Alignment::right()));
    table.to_string()
}

fn difference(it: &Difference) -> String {
    let method = match it.method {
        Method::Bootstrap => format!("bootstrap of {} and {}", it.n, it.m),
        Method::PairedBootstrap => format!("bootstrap of {} differences", it.n),
        Method::Welch => format!("Welch, {} and {}", it.n, it.m),
        Method::PairedNormal => format!("normal, {} differences", it.n),
    };
    match (it.low, it.high) {
        (Some(low), Some(high)) => format!("{:+.2} ms, 95 % interval {low:+.2} to {high:+.2} ({method})", it.difference),
        _ => format!("{:+.2} ms, too few for an interval ({} and {})", it.difference, it.n, it.m),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(low: Option<f64>, high: Option<f64>, method: Method) -> Difference {
        Difference { difference: 12.5, low, high, n: 3, m: 40, method }
    }

    #[test]
    fn differences_name_their_interval_and_its_method() {
        let found = between(Some(-1.0), Some(26.04), Method::Bootstrap);
        assert_eq!(difference(&found), "+12.50 ms, 95 % interval -1.00 to +26.04 (bootstrap of 3 and 40)");
        assert_eq!(difference(&between(None, None, Method::Bootstrap)), "+12.50 ms, too few for an interval (3 and 40)");
    }

    #[test]
    fn what_the_run_cannot_tell_is_said() {
        let uses = |constraints, known_before, cold| FirstUses { constraints, known_before, cold, ..FirstUses::default() };
        assert_eq!(first_uses(&uses(1, 1, 0), false), None);
        assert!(first_uses(&uses(3, 1, 0), false).unwrap().contains("1 of 3 constraints were known"));
        assert!(first_uses(&uses(3, 0, 3), false).unwrap().contains("no use was warm"));
        let paired = Some(between(Some(1.0), Some(20.0), Method::PairedBootstrap));
        let both = FirstUses { paired_difference_ms: paired, beside_first: 4, ..uses(3, 1, 2) };
        let shown = first_uses(&both, true).unwrap();
        assert!(!shown.contains("come early") && first_uses(&both, false).unwrap().contains("come early"));
        assert!(shown.contains("within each constraint: +12.50 ms") && shown.contains("in neither row: 4"), "{shown}");
    }
}
