//! Documents about the lives of people.

use serde_json::{Value, json};

use super::draws::Draws;
use super::words::{
    CITIES, COMPANY_KINDS, COMPANY_NAMES, FAMILY_NAMES, GIVEN_NAMES, LANGUAGES, PROFESSIONS,
    UNIVERSITIES,
};
use super::{Difficulty, Document};

pub(super) fn sought(difficulty: Difficulty) -> &'static str {
    match difficulty {
        Difficulty::Easy => "the name, the profession and the year of birth",
        Difficulty::Medium => {
            "the name, the profession, the day and the place of birth, the day of death, the \
             university, and the languages that the person speaks"
        }
        Difficulty::Hard => {
            "the name, the profession, the day and the place of birth, the day of death, the \
             university, the languages that the person speaks, the number of children, the positions \
             in the order of the text (each with employer, role, first year and last year), and the \
             awards in the order of the text (each with name and year)"
        }
    }
}

const ROLES: [&str; 10] = [
    "adviser",
    "apprentice",
    "assistant",
    "curator",
    "director",
    "editor",
    "head of research",
    "lecturer",
    "partner",
    "secretary",
];

const AWARDS: [&str; 8] = [
    "Golden Compass Award",
    "Harbour Medal",
    "Lantern Prize",
    "Maple Leaf Medal",
    "North Star Award",
    "Oak Prize",
    "River Medal",
    "Silver Quill Award",
];

pub(super) fn schema(difficulty: Difficulty) -> Value {
    let name = || json!({"type": "string", "x-sobench-score": "case_insensitive"});
    let date = || json!({"type": "string", "format": "date", "x-sobench-score": "date"});
    let death = || json!({"type": ["string", "null"], "format": "date", "x-sobench-score": "date"});
    let year = || json!({"type": "integer"});
    let languages =
        || json!({"type": "array", "items": {"enum": LANGUAGES}, "x-sobench-score": "set"});
    match difficulty {
        Difficulty::Easy => super::object(
            &[
                ("name", name()),
                ("profession", name()),
                ("birth_year", year()),
            ],
            &[],
        ),
        Difficulty::Medium => super::object(
            &[
                ("name", name()),
                ("profession", name()),
                ("born_on", date()),
                ("birthplace", name()),
                ("died_on", death()),
                ("university", name()),
                ("languages", languages()),
            ],
            &[],
        ),
        Difficulty::Hard => {
            let position = super::object(
                &[
                    ("employer", name()),
                    ("role", name()),
                    ("first_year", year()),
                    ("last_year", json!({"type": ["integer", "null"]})),
                ],
                &[],
            );
            let award = super::object(&[("name", name()), ("year", year())], &[]);
            super::object(
                &[
                    ("name", name()),
                    ("profession", name()),
                    ("born_on", date()),
                    ("birthplace", name()),
                    ("died_on", death()),
                    ("university", name()),
                    ("languages", languages()),
                    ("children", json!({"type": "integer", "minimum": 0})),
                    ("positions", json!({"type": "array", "items": position})),
                    ("awards", json!({"type": "array", "items": award})),
                ],
                &["children"],
            )
        }
    }
}

/// With the article that fits: `an architect`.
fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {noun}")
}

/// `a`, `a and b`, `a, b and c`.
fn listed(items: &[&str]) -> String {
    match items {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

pub(super) fn document(difficulty: Difficulty, draws: &mut Draws) -> Document {
    let family = draws.pick(&FAMILY_NAMES);
    let name = format!("{} {family}", draws.pick(&GIVEN_NAMES));
    let (profession, city) = (draws.pick(&PROFESSIONS), draws.pick(&CITIES));
    let a_profession = with_article(profession);
    if difficulty == Difficulty::Easy {
        let year = draws.between(1920, 1995);
        let text = match draws.between(0, 5) {
            0 => format!("{name} was born in {year} in {city} and became {a_profession}."),
            1 => format!("Born in {year}, {name} works as {a_profession} in {city}."),
            2 => format!("{name} is {a_profession} from {city}. {family} was born in {year}."),
            3 => format!("The {profession} {name} was born in {city} in {year}."),
            4 => format!("{name} ({profession}, born in {year}) lives in {city}."),
            _ => format!(
                "In {city} everyone knows {name}, {a_profession}. The year of birth is {year}."
            ),
        };
        return Document {
            text,
            reference: json!({"name": name, "profession": profession, "birth_year": year}),
        };
    }

    let born = draws.date(1925, 1958);
    let spelled = draws.spelled(born);
    let opening = match draws.between(0, 2) {
        0 => format!("{name} was born on {spelled} in {city} and became {a_profession}."),
        1 => format!("The {profession} {name} was born in {city} on {spelled}."),
        _ => {
            format!("{name}, {a_profession}, was born on {spelled}. The place of birth is {city}.")
        }
    };
    let university = draws.pick(&UNIVERSITIES);
    let count = draws.between(1, 4) as usize;
    let languages = draws.sample(&LANGUAGES, count);
    let mut facts = vec![
        match draws.between(0, 1) {
            0 => format!("{family} studied at {university}."),
            _ => format!("{family} has a degree of {university}."),
        },
        match draws.between(0, 1) {
            0 => format!("{family} could speak {}.", listed(&languages)),
            _ => format!("{family} spoke {} well.", listed(&languages)),
        },
    ];
    let died = draws.is_likely(50).then(|| draws.date(2010, 2024));
    let end = died.map(|died| {
        let spelled = draws.spelled(died);
        match draws.between(0, 1) {
            0 => format!(" {family} died on {spelled}."),
            _ => format!(" The day of death is {spelled}."),
        }
    });
    let end = end.unwrap_or_default();
    let university = university.trim_start_matches("the ");
    if difficulty == Difficulty::Medium {
        if draws.is_likely(40) {
            let place = draws.pick(&CITIES);
            facts.push(format!("A street in {place} is called after {family}."));
        }
        draws.shuffle(&mut facts);
        return Document {
            text: format!("{opening} {}{end}", facts.join(" ")),
            reference: json!({
                "name": name,
                "profession": profession,
                "born_on": born.iso(),
                "birthplace": city,
                "died_on": died.map(super::draws::Date::iso),
                "university": university,
                "languages": languages,
            }),
        };
    }

    let children = draws.is_likely(55).then(|| draws.between(1, 5));
    if let Some(children) = children {
        let noun = if children == 1 { "child" } else { "children" };
        facts.push(format!("{family} has {children} {noun}."));
    }
    let (positions, career) = positions(family, born.year + 22, died.is_some(), draws);
    let (awards, honours) = awards(family, born.year + 30, draws);
    facts.push(honours);
    if draws.is_likely(50) {
        let (relative, year) = (draws.pick(&GIVEN_NAMES), draws.between(1880, 1900));
        facts.push(format!(
            "The grandmother, {relative} {family}, was born in {year}."
        ));
    }
    draws.shuffle(&mut facts);
    let mut reference = json!({
        "name": name,
        "profession": profession,
        "born_on": born.iso(),
        "birthplace": city,
        "died_on": died.map(super::draws::Date::iso),
        "university": university,
        "languages": languages,
        "children": children,
        "positions": positions,
        "awards": awards,
    });
    super::drop_absent(&mut reference, "children");
    Document {
        text: format!("{opening} {career} {}{end}", facts.join(" ")),
        reference,
    }
}

/// Positions one after the other, as JSON and as prose. The last one may go on.
fn positions(
    family: &str,
    first_year: u64,
    has_ended: bool,
    draws: &mut Draws,
) -> (Vec<Value>, String) {
    let count = draws.between(1, 3);
    let (mut positions, mut sentences) = (Vec::new(), Vec::new());
    let mut start = first_year;
    for index in 0..count {
        let employer = format!(
            "{} {}",
            draws.pick(&COMPANY_NAMES),
            draws.pick(&COMPANY_KINDS)
        );
        let role = draws.pick(&ROLES);
        let end = start + draws.between(2, 8);
        let goes_on = index + 1 == count && !has_ended && draws.is_likely(50);
        sentences.push(match (goes_on, draws.between(0, 1)) {
            (true, _) => format!("Since {start}, {family} has been {role} at {employer}."),
            (false, 0) => format!("From {start} to {end}, {family} was {role} at {employer}."),
            (false, _) => format!("{family} was {role} at {employer} from {start} to {end}."),
        });
        positions.push(json!({
            "employer": employer, "role": role, "first_year": start,
            "last_year": (!goes_on).then_some(end),
        }));
        start = end;
    }
    (positions, sentences.join(" "))
}

/// Awards as JSON and as prose.
fn awards(family: &str, first_year: u64, draws: &mut Draws) -> (Vec<Value>, String) {
    let count = draws.between(0, 3) as usize;
    let mut year = first_year;
    let (mut awards, mut phrases) = (Vec::new(), Vec::new());
    for name in draws.sample(&AWARDS, count) {
        year += draws.between(1, 5);
        phrases.push(format!("the {name} in {year}"));
        awards.push(json!({"name": name, "year": year}));
    }
    if phrases.is_empty() {
        return (awards, format!("{family} has received no award."));
    }
    let phrases: Vec<&str> = phrases.iter().map(String::as_str).collect();
    (awards, format!("{family} received {}.", listed(&phrases)))
}
