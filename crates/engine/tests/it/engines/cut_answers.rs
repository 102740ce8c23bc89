//! Answers that are cut anywhere: whether the judge and the engines agree that a text may still become
//! valid.
//!
//! An engine masks a text exactly if it allows no continuation of it. The answers are those of the
//! shipped workloads, the shipped suite and the table of verdicts, as they are or with an error in
//! them. Every kind of disagreement is in [`EXPLAINED`].

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use sobench_core::answer::Answer;
use sobench_core::constraint::Constraint;
use sobench_core::observation::Outcome;
use sobench_core::verdict::Reason;
use sobench_data::dataset::custom;
use sobench_engine::{EngineError, EngineName, Grammar, TokenId, Vocabulary};
use sobench_judge::{Ending, Evaluator, JudgeSettings, judge};
use sobench_testkit::repository_path;

use super::open;
use super::workloads::workloads;

/// Number of cut answers.
const ANSWERS: usize = 1000;

/// Minimum number of answers that each engine decides, and of those that it and the judge refuse.
const MIN_DECIDED: usize = 600;
const MIN_REFUSED: usize = 200;

const ENGINES: [EngineName; 2] = [EngineName::Guidance, EngineName::Xgrammar];

/// What a wrong character is replaced with.
const CHARACTERS: &str = "\"{}[]:,0129-.eE+aZ\u{e9} \n_/<>@%~\t\\";

/// What is written before an answer.
const PROSE: [&str; 3] = ["```json\n", "Sure: ", "```sql\n"];

/// A kind of disagreement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Disagreement {
    engine: &'static str,
    /// Whether the engine refuses a text that the judge lets become valid.
    is_stricter: bool,
    /// The kind of constraint.
    kind: &'static str,
    /// Where the engine stops, or the reason of the judge.
    what: String,
}

/// Why engines refuse more or less than the judge.
const EXPLAINED: &[(&str, bool, &str, &str, &str)] = &[
    (
        "guidance",
        true,
        "grammar",
        "",
        "no ignored text before the first terminal",
    ),
    (
        "guidance",
        true,
        "json",
        "escape",
        "no escaped slash, and no escapes under a format",
    ),
    (
        "guidance",
        true,
        "json",
        "name",
        "members in the order of the schema only",
    ),
    (
        "guidance",
        true,
        "json",
        "number",
        "one spelling of a constant or an integer, no exponents within bounds",
    ),
    (
        "guidance",
        true,
        "json",
        "string",
        "no raw U+007F, narrower formats, keywords beside `$ref` in draft 7",
    ),
    (
        "guidance",
        true,
        "json",
        "white space",
        "none after the document",
    ),
    (
        "guidance",
        true,
        "regex",
        "",
        "classes of Rust, not of Python",
    ),
    (
        "xgrammar",
        false,
        "json",
        "additionalProperties",
        "ignored beside an `allOf` of several schemas",
    ),
    (
        "xgrammar",
        false,
        "json",
        "pattern",
        "classes of Unicode are not exact",
    ),
    (
        "xgrammar",
        true,
        "grammar",
        "",
        "no ignored text before the first terminal, ASCII classes",
    ),
    (
        "xgrammar",
        true,
        "json",
        "escape",
        "no escapes under a length, a pattern or a format",
    ),
    (
        "xgrammar",
        true,
        "json",
        "name",
        "members in the order of the schema only",
    ),
    (
        "xgrammar",
        true,
        "json",
        "number",
        "one spelling of a constant or an integer, six decimals, no exponents within bounds",
    ),
    (
        "xgrammar",
        true,
        "json",
        "string",
        "patterns match the whole string, narrower formats",
    ),
    (
        "xgrammar",
        true,
        "json",
        "white space",
        "none after the document",
    ),
    ("xgrammar", true, "regex", "", "ASCII classes"),
    (
        "xgrammar",
        true,
        "structural_tag",
        "",
        "order and white space of JSON, one dispatch, names of parameters",
    ),
];

/// A sequence of numbers, the same in each run.
struct Numbers(u64);

impl Numbers {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        // Vigna, "xorshift64*".
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % end
    }
}

/// A constraint with answers.
struct Task {
    constraint: Constraint,
    answers: Vec<String>,
}

fn rows(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(repository_path(path)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The tasks whose answers are valid.
fn tasks() -> Vec<Task> {
    let mut tasks: Vec<Task> = workloads()
        .iter()
        .map(|workload| Task {
            constraint: workload.constraint.clone(),
            answers: workload
                .instances
                .iter()
                .filter(|instance| instance.valid)
                .map(|instance| instance.text.clone())
                .collect(),
        })
        .collect();
    for row in rows("crates/data/shipped/suite-1.jsonl") {
        let members = row.as_object().unwrap();
        let instances = row["instances"].as_array().unwrap().iter();
        let text = |instance: &Value| match instance.get("data") {
            Some(data) => data.to_string(),
            None => instance["text"].as_str().unwrap().to_owned(),
        };
        tasks.push(Task {
            constraint: custom::constraint(members).unwrap().unwrap(),
            answers: instances
                .filter(|instance| instance["valid"] == true)
                .map(text)
                .collect(),
        });
    }
    for kind in ["json", "grammar", "regex", "structural_tag", "choice"] {
        for row in rows(&format!("fixtures/verdicts/{kind}.jsonl")) {
            if row["verdict"] == "valid" && row.get("oracle").is_none() {
                tasks.push(Task {
                    constraint: serde_json::from_value(row["constraint"].clone()).unwrap(),
                    answers: vec![row["text"].as_str().unwrap().to_owned()],
                });
            }
        }
    }
    tasks.retain(|task| task.answers.iter().any(|answer| !answer.is_empty()));
    tasks
}

/// The answer with one error, or as it is, cut anywhere after the error.
fn cut(answer: &str, numbers: &mut Numbers) -> String {
    let mut text: Vec<char> = answer.chars().collect();
    let all: Vec<char> = CHARACTERS.chars().collect();
    let at = numbers.below(text.len() + 1);
    let character = all[numbers.below(all.len())];
    let mut first = at;
    match numbers.below(12) {
        0 | 1 => text.insert(at, character),
        2 | 3 if at < text.len() => text[at] = character,
        4 if at < text.len() => drop(text.remove(at)),
        5 if at + 1 < text.len() => text.swap(at, at + 1),
        6 => {
            let end = (at + 1 + numbers.below(8)).min(text.len());
            let span = text[at..end].to_vec();
            text.splice(at..at, span);
        }
        7 => drop(text.splice(0..0, PROSE[numbers.below(PROSE.len())].chars())),
        _ => first = 0,
    }
    let first = first.min(text.len());
    let end = first + numbers.below(text.len() - first + 1);
    text[..end].iter().collect()
}

/// How many bytes of a text the engine allows. `None` if it fails.
fn allowed(grammar: &dyn Grammar, text: &str) -> Option<usize> {
    let mut matcher = grammar.matcher().ok()?;
    for (index, byte) in text.bytes().enumerate() {
        match matcher.commit(TokenId::from(byte)) {
            Ok(()) => {}
            Err(EngineError::Invalid { .. }) => return Some(index),
            Err(_) => return None,
        }
    }
    Some(text.len())
}

/// The part of a JSON text that the byte behind `before` is in.
fn place(before: &str, next: Option<char>) -> &'static str {
    let (mut is_string, mut is_escape, mut is_name, mut last) = (false, false, false, ' ');
    let mut open = Vec::new();
    for character in before.chars() {
        if is_string {
            match character {
                _ if is_escape => is_escape = false,
                '\\' => is_escape = true,
                '"' => is_string = false,
                _ => {}
            }
            continue;
        }
        match character {
            '"' => {
                is_string = true;
                is_name = open.last() == Some(&'{') && matches!(last, '{' | ',');
            }
            '{' | '[' => open.push(character),
            '}' | ']' => drop(open.pop()),
            _ => {}
        }
        if !character.is_ascii_whitespace() {
            last = character;
        }
    }
    match next {
        _ if is_string && is_name => "name",
        _ if is_escape => "escape",
        Some('\\') if is_string => "escape",
        _ if is_string => "string",
        Some(' ' | '\n' | '\t' | '\r') => "white space",
        Some('0'..='9' | '-' | '+' | '.' | 'e' | 'E') => "number",
        Some('"') if open.last() == Some(&'{') && matches!(last, '{' | ',') => "name",
        _ => "structure",
    }
}

/// The kind of a reason; of violations of a schema the keyword.
fn kind_of(reason: &Reason) -> String {
    match reason {
        Reason::Schema { keyword, .. } => keyword.clone(),
        reason => reason.name().to_owned(),
    }
}

#[test]
fn the_judge_and_the_engines_agree_on_cut_answers() {
    let vocabulary = Arc::new(Vocabulary::single_bytes());
    let engines = ENGINES.map(|name| open(name, &vocabulary));
    let tasks = tasks();
    let grammars: Vec<[Option<Arc<dyn Grammar>>; 2]> = tasks
        .iter()
        .map(|task| [0, 1].map(|engine: usize| engines[engine].compile(&task.constraint).ok()))
        .collect();
    let mut evaluator = Evaluator::new(JudgeSettings::default());
    let mut numbers = Numbers(0x50B3_7C81);
    let mut found: BTreeMap<Disagreement, (usize, String)> = BTreeMap::new();
    let (mut decided, mut refused) = ([0; 2], [0; 2]);
    for _ in 0..ANSWERS {
        let index = numbers.below(tasks.len());
        let task = &tasks[index];
        let text = cut(
            &task.answers[numbers.below(task.answers.len())],
            &mut numbers,
        );
        let constraint = evaluator.compile(&task.constraint);
        let answer = Answer::from_text(text.clone());
        let ending = Ending {
            outcome: &Outcome::Truncated,
            finish_reason: None,
        };
        let reason = judge(&constraint, &answer, ending).into_reason();
        let reason = reason.filter(|reason| *reason != Reason::Truncated);
        for (engine, name) in ENGINES.iter().enumerate() {
            let Some(grammar) = &grammars[index][engine] else {
                continue;
            };
            let Some(bytes) = allowed(&**grammar, &text) else {
                continue;
            };
            decided[engine] += 1;
            let is_allowed = bytes == text.len();
            if is_allowed == reason.is_none() {
                refused[engine] += usize::from(!is_allowed);
                continue;
            }
            let what = match &reason {
                Some(reason) => kind_of(reason),
                None if task.constraint.is_json() => {
                    let before = String::from_utf8_lossy(&text.as_bytes()[..bytes]);
                    let next = text.get(bytes..).and_then(|rest| rest.chars().next());
                    place(&before, next).to_owned()
                }
                None => String::new(),
            };
            let disagreement = Disagreement {
                engine: name.name(),
                is_stricter: !is_allowed,
                kind: task.constraint.kind(),
                what,
            };
            let example = || {
                format!(
                    "{text:?}, allowed {bytes}, {reason:?}: {:?}",
                    task.constraint
                )
            };
            found
                .entry(disagreement)
                .or_insert_with(|| (0, example()))
                .0 += 1;
        }
    }
    let mut unexplained = Vec::new();
    for (disagreement, (count, example)) in &found {
        println!("{count:4} {disagreement:?}");
        let is_about = |row: &&(&str, bool, &str, &str, &str)| {
            (row.0, row.1, row.2, row.3)
                == (
                    disagreement.engine,
                    disagreement.is_stricter,
                    disagreement.kind,
                    disagreement.what.as_str(),
                )
        };
        if !EXPLAINED.iter().any(|row| is_about(&row)) {
            unexplained.push(format!(
                "{count} of {disagreement:?}, for example {example:.600}"
            ));
        }
    }
    println!("decided {decided:?}, refused by both {refused:?}");
    assert!(unexplained.is_empty(), "{}", unexplained.join("\n"));
    assert!(
        decided.iter().all(|count| *count >= MIN_DECIDED),
        "{decided:?}"
    );
    assert!(
        refused.iter().all(|count| *count >= MIN_REFUSED),
        "{refused:?}"
    );
}
