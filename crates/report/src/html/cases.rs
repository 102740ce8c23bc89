//! The failing cases of a run: prompt, constraint, answer with its error marked, and a line that
//! sends the request again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::error_span::{Marked, mark};
use crate::view::{TestStatus, View, failing_as};
use sobench_core::case::{Case, Prompt};
use sobench_core::error::Result;
use sobench_core::printable::cut;
use sobench_core::printable::{is_invisible, printable, printable_message};
use sobench_facts::Sample;
use sobench_render::escape::escape;

/// Cases on a page at most, so that a browser stays responsive; the log has all of them.
pub(super) const CASES_MAX: usize = 200;

/// Bytes at most of a prompt, a constraint, or a server's message; and of an answer before, in and
/// after its error.
const TEXT_MAX_BYTES: usize = 6000;
const ANSWER_SIDE_MAX_BYTES: usize = 3000;

/// Characters at most of a message in the table.
const MESSAGE_MAX_CHARS: usize = 160;

/// The table with its filter; a sentence where nothing failed.
pub(super) fn markup(view: &View<'_>) -> Result<String> {
    let mut page = String::new();
    let mut by_name: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
    for (place, sample) in view.samples.iter().enumerate() {
        failing_as(sample)
            .into_iter()
            .for_each(|name| by_name.entry(name).or_default().push(place));
    }
    let total: usize = by_name.values().map(Vec::len).sum();
    if total == 0 {
        page.push_str(
            "<p>none: every constrained answer is valid, and every request has an answer</p>",
        );
        return Ok(page);
    }
    let shown = choose(&by_name);
    add_filter(&mut page, &by_name, &shown, total);
    page.push_str("<div class=\"cases\">");
    for (place, name) in &shown {
        add_case(&mut page, view, *place, name)?;
    }
    page.push_str("</div>");
    if shown.len() < total {
        let _ = write!(
            page,
            "<p>{} of {total} failing cases are shown, some of each reason; all of them are in the run log, in --format csv and in what \
             --save-failures writes</p>",
            shown.len()
        );
    }
    Ok(page)
}

/// The cases that fit on a page, in plan order, with a fair share for each reason.
fn choose(by_name: &BTreeMap<&'static str, Vec<usize>>) -> Vec<(usize, &'static str)> {
    let mut shown = Vec::new();
    let longest = by_name.values().map(Vec::len).max().unwrap_or(0);
    'full: for round in 0..longest {
        for (name, places) in by_name {
            if shown.len() == CASES_MAX {
                break 'full;
            }
            shown.extend(places.get(round).map(|place| (*place, *name)));
        }
    }
    shown.sort_unstable();
    shown
}

/// Radio buttons, each with a CSS rule that hides the cases of other reasons. Reasons have fixed
/// names, which need no escaping.
fn add_filter(
    page: &mut String,
    by_name: &BTreeMap<&'static str, Vec<usize>>,
    shown: &[(usize, &str)],
    total: usize,
) {
    page.push_str("<style>");
    for name in by_name.keys() {
        let _ = write!(
            page,
            "#why-{name}:checked~.cases>.case:not(.why-{name}){{display:none}}"
        );
    }
    page.push_str("</style>");
    let mut button = |name: &str, label: &str, counts: String, checked: &str| {
        let _ = write!(
            page,
            "<input class=\"pick\" type=\"radio\" name=\"why\" id=\"why-{name}\"{checked}/><label for=\"why-{name}\">{label} {counts}</label>"
        );
    };
    let counts = |shown: usize, total: usize| {
        if shown == total {
            total.to_string()
        } else {
            format!("{shown} of {total}")
        }
    };
    button(
        "all",
        "all",
        counts(shown.len(), total),
        " checked=\"checked\"",
    );
    for (name, places) in by_name {
        let of_name = shown.iter().filter(|(_, shown)| shown == name).count();
        button(
            name,
            &name.replace('_', " "),
            counts(of_name, places.len()),
            "",
        );
    }
}

fn add_case(page: &mut String, view: &View<'_>, place: usize, name: &str) -> Result<()> {
    let sample = &view.samples[place];
    let (case, status) = (sample.case(), TestStatus::new(sample));
    let message = status.message();
    let _ = write!(
        page,
        "<details class=\"case why-{name}\"><summary><span>{}</span><span class=\"what\">{}</span><span class=\"words\">{}</span></summary><div>",
        visible(&printable(&case.id, MESSAGE_MAX_CHARS)),
        name.replace('_', " "),
        escape(&printable_message(&message))
    );
    add_facts(page, sample);
    let answer = (view.answer)(place)?;
    let answer = answer.text();
    match &status {
        TestStatus::Invalid(reason) => {
            add_text(page, "Error", &message);
            add_answer(
                page,
                &mark(&answer, reason, ANSWER_SIDE_MAX_BYTES),
                answer.len(),
            );
        }
        _ => {
            add_text(page, "Server or network message", &message);
            if !answer.is_empty() {
                add_text(page, "Partial answer", &answer);
            }
        }
    }
    add_question(page, &case);
    match view.resend.map(|resend| resend.line(&case)) {
        Some(Ok(line)) => {
            page.push_str("<h3>Send again</h3>");
            if view.resend.is_some_and(|resend| resend.server_is_gone) {
                page.push_str(
                    "<p>the embedded server of the run is gone: start one with sobench serve, and change the port</p>",
                );
            }
            let _ = write!(page, "<pre>{}</pre>", escape(&line));
        }
        Some(Err(why)) => {
            let _ = write!(
                page,
                "<p>cannot be sent again: {}</p>",
                escape(&printable_message(&why))
            );
        }
        None => {}
    }
    page.push_str("</div></details>");
    Ok(())
}

fn add_facts(page: &mut String, sample: &Sample<'_>) {
    let mut facts = vec![
        format!("{} arm", sample.arm().name()),
        format!("outcome {}", sample.outcome().name()),
    ];
    facts.extend(
        sample
            .finish_reason()
            .map(|reason| format!("finish reason {}", printable(reason, MESSAGE_MAX_CHARS))),
    );
    facts.extend(sample.tokens().output.map(|tokens| {
        format!(
            "{tokens} output tokens of at most {}",
            sample.request_input().output_len
        )
    }));
    facts.extend(
        sample
            .request_times()
            .sent_ns
            .map(|at_ns| format!("sent at {:.3} s", at_ns as f64 / 1e9)),
    );
    if !sample.request_input().tags.is_empty() {
        facts.push(format!(
            "tags {}",
            printable(&sample.request_input().tags.join(" "), MESSAGE_MAX_CHARS)
        ));
    }
    let _ = write!(page, "<p>{}</p>", escape(&facts.join(", ")));
}

fn add_answer(page: &mut String, answer: &Marked<'_>, bytes: usize) {
    let gone = |count: usize| {
        if count == 0 {
            String::new()
        } else {
            format!("<span class=\"gone\">… {count} bytes left out …</span>")
        }
    };
    let marked = match (answer.marked, answer.ended_early) {
        (_, true) => "<mark>(the answer ends here)</mark>".to_owned(),
        ("", false) => String::new(),
        (text, false) => format!("<mark>{}</mark>", visible(text)),
    };
    let _ = write!(
        page,
        "<h3>Answer, {bytes} bytes</h3><pre>{}{}{marked}{}{}</pre>",
        gone(answer.cut_before),
        visible(answer.before),
        visible(answer.after),
        gone(answer.cut_after)
    );
}

/// Prompt and constraint.
fn add_question(page: &mut String, case: &Case) {
    let prompt = match &case.prompt {
        Prompt::Text(text) | Prompt::Body(text) => text.to_string(),
        Prompt::Messages(messages) => {
            let line = |message: &sobench_core::case::Message| {
                let content = message
                    .content
                    .as_str()
                    .map_or_else(|| message.content.to_string(), str::to_owned);
                let other = match message.other.is_empty() {
                    true => String::new(),
                    false => format!("\n{}", serde_json::Value::from(message.other.clone())),
                };
                format!("{}: {content}{other}", message.role)
            };
            messages.iter().map(line).collect::<Vec<_>>().join("\n\n")
        }
        Prompt::Audio(_) => "(sound)".to_owned(),
        Prompt::Ranking { query, documents } => {
            format!("query: {query}\n{} documents", documents.len())
        }
    };
    add_text(page, "Prompt", &prompt);
    if let Some(constraint) = &case.constraint {
        add_text(
            page,
            &format!("Constraint ({})", constraint.kind()),
            &constraint.text(),
        );
    }
}

fn add_text(page: &mut String, title: &str, text: &str) {
    let shown = cut(text, TEXT_MAX_BYTES);
    let left = text.len() - shown.len();
    let gone = if left == 0 {
        String::new()
    } else {
        format!("<span class=\"gone\">… {left} bytes left out</span>")
    };
    let _ = write!(
        page,
        "<h3>{}</h3><pre>{}{gone}</pre>",
        escape(title),
        visible(shown)
    );
}

/// Escapes HTML, and invisible and text-direction characters.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut plain_from = 0;
    for (at, character) in text.char_indices() {
        if (character.is_control() && !matches!(character, '\n' | '\t')) || is_invisible(character)
        {
            shown.push_str(&escape(&text[plain_from..at]));
            let _ = write!(
                shown,
                "<span class=\"code\">{}</span>",
                character.escape_unicode()
            );
            plain_from = at + character.len_utf8();
        }
    }
    shown.push_str(&escape(&text[plain_from..]));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_share_of_the_cases() {
        let by_name = BTreeMap::from([
            ("regex", (0..1000).collect()),
            ("schema", vec![2000, 2001]),
            ("choice", vec![500]),
        ]);
        let shown = choose(&by_name);
        assert_eq!(shown.len(), CASES_MAX);
        assert!(shown.is_sorted());
        let of = |name: &str| shown.iter().filter(|(_, shown)| *shown == name).count();
        assert_eq!(
            (of("regex"), of("schema"), of("choice")),
            (CASES_MAX - 3, 2, 1)
        );
    }

    #[test]
    fn invisible_characters_are_escaped() {
        assert_eq!(
            visible("a<\u{200b}b\n\u{1b}"),
            "a&lt;<span class=\"code\">\\u{200b}</span>b\n<span class=\"code\">\\u{1b}</span>"
        );
    }
}
