//! Documents about support tickets.

use serde_json::{Value, json};

use super::draws::{Date, Draws};
use super::words::{FAMILY_NAMES, GIVEN_NAMES, PRODUCTS};
use super::{Difficulty, Document};

pub(super) fn sought(difficulty: Difficulty) -> &'static str {
    match difficulty {
        Difficulty::Easy => "the id of the ticket, the product and the priority",
        Difficulty::Medium => {
            "the id of the ticket, the name and the e-mail address of the reporter, the product, the \
             priority, the day on which the ticket was opened, the error code, and the number of \
             affected users"
        }
        Difficulty::Hard => {
            "the id of the ticket, the name and the e-mail address of the reporter, the product and \
             its version, the priority, the day on which the ticket was opened, the error code, the \
             number of affected users, the labels, the workaround (as quoted), and the history in the \
             order of the text (each step with its day, the person and the action)"
        }
    }
}

const PRIORITIES: [&str; 4] = ["low", "normal", "high", "urgent"];

const ACTIONS: [&str; 5] = ["assigned", "reproduced", "escalated", "answered", "closed"];

const LABELS: [&str; 12] = [
    "billing",
    "crash",
    "data-loss",
    "export",
    "import",
    "login",
    "mobile",
    "network",
    "printing",
    "search",
    "sync",
    "upgrade",
];

const WORKAROUNDS: [&str; 8] = [
    "restart the app after each import",
    "use the browser in place of the app",
    "clear the cache of the browser",
    "send the files by e-mail",
    "export the list in two parts",
    "log in with the backup code",
    "turn off the automatic sync",
    "print from another computer",
];

const PROBLEMS: [&str; 14] = [
    "the app closes by itself after a minute",
    "the list of files stays empty",
    "a saved form is lost after a restart",
    "the export never ends",
    "the login page comes up again and again",
    "pictures have the wrong colours",
    "the search finds nothing",
    "messages arrive twice",
    "the total of a report is wrong",
    "the calendar shows every event an hour late",
    "attachments cannot be opened",
    "the import stops at half of the rows",
    "a blank page is printed",
    "no notification is sent",
];

pub(super) fn schema(difficulty: Difficulty) -> Value {
    let text = || json!({"type": "string"});
    let name = || json!({"type": "string", "x-sobench-score": "case_insensitive"});
    let date = || json!({"type": "string", "format": "date", "x-sobench-score": "date"});
    let optional_text = || json!({"type": ["string", "null"]});
    let priority = || json!({"enum": PRIORITIES});
    let count = || json!({"type": "integer", "minimum": 0});
    let reporter = || super::object(&[("name", name()), ("email", text())], &[]);
    match difficulty {
        Difficulty::Easy => super::object(
            &[
                ("ticket_id", text()),
                ("product", name()),
                ("priority", priority()),
            ],
            &[],
        ),
        Difficulty::Medium => super::object(
            &[
                ("ticket_id", text()),
                ("reporter", reporter()),
                ("product", name()),
                ("priority", priority()),
                ("opened_on", date()),
                ("error_code", optional_text()),
                ("affected_users", count()),
            ],
            &[],
        ),
        Difficulty::Hard => {
            let step = super::object(
                &[
                    ("date", date()),
                    ("person", name()),
                    ("action", json!({"enum": ACTIONS})),
                ],
                &[],
            );
            let labels = json!({
                "type": "array", "items": {"enum": LABELS}, "x-sobench-score": "set",
            });
            let workaround =
                json!({"type": ["string", "null"], "x-sobench-score": "case_insensitive"});
            super::object(
                &[
                    ("ticket_id", text()),
                    ("reporter", reporter()),
                    ("product", name()),
                    ("version", text()),
                    ("priority", priority()),
                    ("opened_on", date()),
                    ("error_code", optional_text()),
                    ("affected_users", count()),
                    ("labels", labels),
                    ("workaround", workaround),
                    ("history", json!({"type": "array", "items": step})),
                ],
                &["version"],
            )
        }
    }
}

fn person(draws: &mut Draws) -> (String, String) {
    let (given, family) = (draws.pick(&GIVEN_NAMES), draws.pick(&FAMILY_NAMES));
    let (first, last) = (given.to_lowercase(), family.to_lowercase());
    let address = match draws.between(0, 2) {
        0 => format!("{first}.{last}@office.example"),
        1 => format!("{last}@team.example"),
        _ => format!("{first}{}@mail.example", draws.between(10, 99)),
    };
    (format!("{given} {family}"), address)
}

fn id(draws: &mut Draws) -> String {
    let serial = draws.between(1_000, 99_999);
    match draws.between(0, 2) {
        0 => format!("TCK-{serial}"),
        1 => format!("#{serial}"),
        _ => format!("SUP-{serial}"),
    }
}

pub(super) fn document(difficulty: Difficulty, draws: &mut Draws) -> Document {
    let (id, product) = (id(draws), draws.pick(&PRODUCTS));
    let (priority, problem) = (draws.pick(&PRIORITIES), draws.pick(&PROBLEMS));
    if difficulty == Difficulty::Easy {
        let text = match draws.between(0, 5) {
            0 => format!("Ticket {id} is about {product}: {problem}. Its priority is {priority}."),
            1 => format!(
                "A customer of {product} writes that {problem}. This is ticket {id} with {priority} \
                 priority."
            ),
            2 => format!("{product} has a problem: {problem}. Ticket: {id}. Priority: {priority}."),
            3 => format!("The priority of ticket {id} is {priority}. In {product}, {problem}."),
            4 => format!("New ticket {id}, product {product}, priority {priority}: {problem}."),
            _ => format!(
                "We opened ticket {id} because {problem}. The product is {product}, and the priority \
                 is {priority}."
            ),
        };
        return Document {
            text,
            reference: json!({"ticket_id": id, "product": product, "priority": priority}),
        };
    }

    let (name, email) = person(draws);
    let opened = draws.date(2022, 2026);
    let spelled = draws.spelled(opened);
    let opening = match draws.between(0, 2) {
        0 => format!("On {spelled}, {name} ({email}) opened ticket {id}: in {product}, {problem}."),
        1 => format!(
            "Ticket {id} was opened on {spelled}. It was reported by {name}, {email}, who says that in \
             {product} {problem}."
        ),
        _ => format!(
            "{name} uses {product} and writes from {email} that {problem}. This became ticket {id} on \
             {spelled}."
        ),
    };
    let mut facts = vec![match draws.between(0, 2) {
        0 => format!("The priority is {priority}."),
        1 => format!("It was given {priority} priority."),
        _ => format!("It has the priority {priority}."),
    }];
    let code = draws
        .is_likely(60)
        .then(|| format!("E{}", draws.between(1_000, 9_999)));
    if let Some(code) = &code {
        facts.push(match draws.between(0, 1) {
            0 => format!("The screen shows the error code {code}."),
            _ => format!("The error code is {code}."),
        });
    }
    let affected = draws.between(2, 900);
    facts.push(match draws.between(0, 1) {
        0 => format!("The problem affects {affected} users."),
        _ => format!("There are {affected} affected users."),
    });
    if difficulty == Difficulty::Medium {
        if draws.is_likely(40) {
            facts.push("The reporter asks for an answer this week.".to_owned());
        }
        draws.shuffle(&mut facts);
        return Document {
            text: format!("{opening} {}", facts.join(" ")),
            reference: json!({
                "ticket_id": id,
                "reporter": {"name": name, "email": email},
                "product": product,
                "priority": priority,
                "opened_on": opened.iso(),
                "error_code": code,
                "affected_users": affected,
            }),
        };
    }

    let version = draws.is_likely(60).then(|| {
        format!(
            "{}.{}.{}",
            draws.between(1, 9),
            draws.between(0, 20),
            draws.between(0, 9)
        )
    });
    if let Some(version) = &version {
        facts.push(format!("It happens with version {version} of the product."));
    }
    let count = draws.between(1, 4) as usize;
    let labels = draws.sample(&LABELS, count);
    facts.push(format!("The ticket has the labels {}.", labels.join(", ")));
    let workaround = draws.is_likely(60).then(|| draws.pick(&WORKAROUNDS));
    if let Some(workaround) = workaround {
        facts.push(format!(
            "Until it is solved, the advice is: \"{workaround}\"."
        ));
    }
    if draws.is_likely(50) {
        let other = draws.between(100, 999);
        facts.push(format!("The ticket OLD-{other} was about something else."));
    }
    draws.shuffle(&mut facts);
    let (steps_text, history) = history(opened, draws);
    let mut reference = json!({
        "ticket_id": id,
        "reporter": {"name": name, "email": email},
        "product": product,
        "version": version,
        "priority": priority,
        "opened_on": opened.iso(),
        "error_code": code,
        "affected_users": affected,
        "labels": labels,
        "workaround": workaround,
        "history": history,
    });
    super::drop_absent(&mut reference, "version");
    Document {
        text: format!("{opening} {} {steps_text}", facts.join(" ")),
        reference,
    }
}

/// The later steps of a ticket, as prose and as JSON. Each is in a later month than the one before.
fn history(opened: Date, draws: &mut Draws) -> (String, Vec<Value>) {
    let count = draws.between(2, 4) as usize;
    let (mut sentences, mut steps) = (Vec::new(), Vec::new());
    let mut day = opened;
    for action in draws.sample(&ACTIONS[..4], count) {
        day = day.later(1, draws.between(1, 28));
        let (person, _) = person(draws);
        let spelled = draws.spelled(day);
        sentences.push(match (action, draws.between(0, 1)) {
            ("assigned", 0) => format!("On {spelled}, it was assigned to {person}."),
            ("assigned", _) => format!("It was assigned to {person} on {spelled}."),
            (_, 0) => format!("On {spelled}, it was {action} by {person}."),
            _ => format!("{person} {action} it on {spelled}."),
        });
        steps.push(json!({"date": day.iso(), "person": person, "action": action}));
    }
    if draws.is_likely(50) {
        day = day.later(1, draws.between(1, 28));
        let (person, _) = person(draws);
        let spelled = draws.spelled(day);
        sentences.push(format!("Finally, {person} closed it on {spelled}."));
        steps.push(json!({"date": day.iso(), "person": person, "action": "closed"}));
    }
    (sentences.join(" "), steps)
}
