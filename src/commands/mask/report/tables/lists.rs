//! Tables that list: tags, reasons, wrong masks, disputed instances, the engines themselves. Knows no durations but their setting.

use super::{Section, head, row};
use crate::commands::mask::report::number::{UNKNOWN, Unit, bytes, count};
use crate::commands::mask::report::outcome::{Class, InstanceClass, SchemaOutcome};
use crate::commands::mask::report::reason::Reasons;
use crate::commands::mask::report::witness::Witness;
use crate::commands::mask::report::{EngineSummary, RouteCount, Summary};
use crate::engine::EngineName;
use crate::printable::printable;

/// How many lines a person is shown; the file has the rest.
const TAGS_SHOWN: usize = 20;
const REASONS_SHOWN: usize = 8;
const WITNESSES_SHOWN: usize = 20;
const DISPUTED_SHOWN: usize = 20;

/// The most characters of a cell.
const NAME_CHARS: usize = 40;
const WORDS_CHARS: usize = 56;
const TOKEN_CHARS: usize = 24;
const BEFORE_CHARS: usize = 12;

/// Where a list goes on that is cut for the reader.
const FILE: &str = "the file of --json has more";

/// Tags, those with the most faults first.
pub(super) fn tags(summary: &Summary) -> Option<Section> {
    let sorted = summary.tags.sorted();
    let rows: Vec<Vec<String>> = sorted
        .iter()
        .take(TAGS_SHOWN)
        .map(|tag| {
            let cells = tag.engines.iter().map(|it| {
                let other =
                    it.sum(|it| it.is_fault() && !matches!(it, SchemaOutcome::RejectsValid | SchemaOutcome::AcceptsInvalid));
                let figures = [
                    it.get(SchemaOutcome::Pass),
                    it.sum(SchemaOutcome::is_declined),
                    it.get(SchemaOutcome::RejectsValid),
                    it.get(SchemaOutcome::AcceptsInvalid),
                    other,
                ];
                figures.map(|it| it.to_string()).join(" / ")
            });
            [printable(tag.tag, NAME_CHARS), count(tag.schemas())].into_iter().chain(cells).collect()
        })
        .collect();
    let mut heads = head(summary, "tag");
    heads.insert(1, "schemas".to_owned());
    (!rows.is_empty()).then(|| Section {
        title: format!("By keyword tag (unit: schema; spelling: {})", summary.headline.name()),
        notes: vec![format!(
            "pass / declined / rejects valid / accepts invalid / any other fault; {} of {} tags, most faults first",
            rows.len(),
            sorted.len()
        )],
        head: heads,
        rows,
        word_columns: 1,
    })
}

/// Where `auto` sent schemas.
pub(super) fn routes(summary: &Summary) -> Option<Section> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for auto in summary.engines.iter().filter(|it| it.engine == EngineName::Auto) {
        let named = |it: &RouteCount| vec![it.engine.name().to_owned(), printable(&it.why, 2 * WORDS_CHARS), count(it.schemas)];
        rows.extend(auto.routes.iter().map(named));
        let routed: u64 = auto.routes.iter().map(|it| it.schemas).sum();
        let none = auto.schemas.saturating_sub(routed);
        if none > 0 {
            rows.push(vec!["none".to_owned(), "no engine took it; --explain says which and why".to_owned(), count(none)]);
        }
    }
    (!rows.is_empty()).then(|| Section {
        title: "Where auto sent schemas (unit: schema)".to_owned(),
        notes: Vec::new(),
        head: ["engine", "why", "schemas"].map(str::to_owned).to_vec(),
        rows,
        word_columns: 2,
    })
}

/// Why schemas were declined, and what ended rows, a table an engine.
pub(super) fn reasons(summary: &Summary) -> Vec<Section> {
    let of = |engine: &EngineSummary| {
        let name = engine.engine.name();
        let declined = reasons_of(&engine.declines, format!("What {name} declared that it cannot do (unit: schema)"));
        let stopped = reasons_of(&engine.stops, format!("What ended rows of {name} early (unit: schema, any spelling)"));
        [declined, stopped]
    };
    summary.engines.iter().flat_map(of).flatten().collect()
}

/// Wrong masks, a table an engine.
pub(super) fn witnesses(summary: &Summary) -> Vec<Section> {
    summary.engines.iter().filter_map(witnesses_of).collect()
}

/// Instances that nobody is blamed for.
pub(super) fn disputed(summary: &Summary) -> Option<Section> {
    let word = |verdict: Option<bool>| match verdict {
        Some(true) => "valid",
        Some(false) => "invalid",
        None => UNKNOWN,
    };
    let names = |engines: &[EngineName]| {
        let names: Vec<&str> = engines.iter().map(|it| it.name()).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(" ") }
    };
    let rows: Vec<Vec<String>> = summary
        .disputes
        .iter()
        .take(DISPUTED_SHOWN)
        .map(|it| {
            let place = [end_of(&it.entry), it.instance.to_string()];
            let verdicts = [word(it.label).to_owned(), word(it.judged).to_owned(), names(&it.accepted_by)];
            place.into_iter().chain(verdicts).collect()
        })
        .collect();
    (!rows.is_empty()).then(|| Section {
        title: "Disputed instances (unit: instance)".to_owned(),
        notes: vec![format!(
            "{} of {}; instances count from 0; the file of --json has them all",
            rows.len(),
            count(summary.disputes.total() as u64)
        )],
        head: ["schema", "instance", "corpus says", "evaluator says", "accepted by"].map(str::to_owned).to_vec(),
        rows,
        word_columns: 5,
    })
}

/// What was measured, and how long it took.
pub(super) fn engines(summary: &Summary) -> Section {
    let about = |it: &EngineSummary| summary.measurement.about.engines.iter().find(|about| about.engine == it.engine);
    let seconds = |ns: u64| format!("{:.1}", ns as f64 / 1e9);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in summary.measurement.about.engines.iter().flat_map(|it| &it.settings) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for name in names {
        rows.push(row(summary, printable(name, NAME_CHARS), |it| {
            let setting = about(it).and_then(|it| it.settings.iter().find(|(key, _)| key == name));
            setting.map_or_else(String::new, |(_, value)| printable(value, TOKEN_CHARS))
        }));
    }
    let known = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    rows.push(row(summary, "opened over the vocabulary in (ms)", |it| {
        Unit::Ms.of_ns(about(it).and_then(|it| it.open_ns).map(|ns| ns as f64))
    }));
    rows.push(row(summary, "wall time of its rows (s)", |it| known(about(it).map(|it| seconds(it.wall_ns)))));
    rows.push(row(summary, "most resident memory", |it| bytes(about(it).and_then(|it| it.peak_rss_bytes))));
    Section {
        title: "Engines and their settings".to_owned(),
        notes: Vec::new(),
        head: head(summary, "setting"),
        rows,
        word_columns: 1,
    }
}

fn reasons_of(reasons: &Reasons, title: String) -> Option<Section> {
    let sorted = reasons.sorted();
    let rows: Vec<Vec<String>> = sorted
        .iter()
        .take(REASONS_SHOWN)
        .map(|it| {
            let words = [it.outcome.title().to_owned(), printable(&it.reason, WORDS_CHARS), end_of(&it.entry)];
            words.into_iter().chain([count(it.schemas)]).collect()
        })
        .collect();
    (!rows.is_empty()).then(|| {
        let file = if rows.len() < sorted.len() { format!("; {FILE}") } else { String::new() };
        let beyond = match reasons.left_out() {
            0 => String::new(),
            left_out => format!("; {} schemas had further reasons that were not told apart", count(left_out)),
        };
        Section {
            title,
            notes: vec![format!("{} of {} reasons, the most frequent first{file}{beyond}", rows.len(), sorted.len())],
            head: ["outcome", "reason", "first schema", "schemas"].map(str::to_owned).to_vec(),
            rows,
            word_columns: 3,
        }
    })
}

fn witnesses_of(engine: &EngineSummary) -> Option<Section> {
    let all: Vec<&Witness> = engine.witnesses.iter().collect();
    let mut kinds: Vec<InstanceClass> = all.iter().map(|it| it.class).collect();
    kinds.dedup();
    // Every kind gets its share of the lines, so that many of the worst do not hide the others.
    let each = WITNESSES_SHOWN / kinds.len().max(1);
    let shown = kinds.iter().flat_map(|kind| all.iter().filter(move |it| it.class == *kind).take(each));
    let rows: Vec<Vec<String>> = shown.map(|it| witness_cells(it)).collect();
    let schemas = rows.len();
    let file = if schemas < all.len() { format!("; {FILE}") } else { String::new() };
    (!rows.is_empty()).then(|| Section {
        title: format!("Wrong masks of {} (unit: schema, its first of a kind)", engine.engine.name()),
        notes: vec![format!(
            "the first {schemas}, {each} of a kind at most{file}; instances count from 0; byte: bytes of the text before the wrong \
             mask; after: the end of that text"
        )],
        head: ["kind", "schema", "instance", "spelling", "byte", "after", "what was wrong"].map(str::to_owned).to_vec(),
        rows,
        word_columns: 7,
    })
}

fn witness_cells(witness: &Witness) -> Vec<String> {
    let token = match (&witness.token, &witness.words, witness.class) {
        (Some(token), _, _) => format!("no {}", printable(&format!("{token:?}"), TOKEN_CHARS)),
        (None, Some(words), _) => printable(words, TOKEN_CHARS),
        (None, None, InstanceClass::RejectsValid) => "no end".to_owned(),
        (None, None, InstanceClass::DeadEnd) => "nothing allowed".to_owned(),
        (None, None, InstanceClass::AcceptsInvalid) => "end allowed".to_owned(),
        (None, None, _) => String::new(),
    };
    let before = witness.before.as_deref().map(|text| format!("{:?}", last(text, BEFORE_CHARS))).unwrap_or_default();
    vec![
        witness.class.title().to_owned(),
        end_of(&witness.entry),
        witness.instance.to_string(),
        witness.spelling.name().to_owned(),
        witness.byte.to_string(),
        printable(&before, 2 * BEFORE_CHARS),
        token,
    ]
}

/// The last so many characters of a text.
fn last(text: &str, characters: usize) -> &str {
    text.char_indices().rev().nth(characters - 1).map_or(text, |(start, _)| &text[start..])
}

/// A name that is too long for its cell is told by its end: the folders that it begins with are those of its neighbours.
fn end_of(name: &str) -> String {
    let characters = name.chars().count();
    match characters.checked_sub(NAME_CHARS) {
        None | Some(0) => printable(name, NAME_CHARS),
        Some(beyond) => {
            let end: String = name.chars().skip(beyond + 1).collect();
            format!("…{}", printable(&end, NAME_CHARS))
        }
    }
}
