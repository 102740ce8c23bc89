//! Generated sessions: a support desk, a data analysis, and a coding assistant. The system prompt
//! says in which order tools are called, so the right call of each turn is known. Each turn offers
//! two tools more than the one before it. The last turn is the end state: a last call, or a report
//! with a schema.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Session, SessionTurn, answer_text, ground_truth};
use crate::dataset::extract::{self, FAMILY_NAMES, GIVEN_NAMES};
use crate::dataset::tools::draw_tools;
use sobench_core::case::Message;
use sobench_core::constraint::Constraint;
use sobench_core::error::Result;
use sobench_core::scorer::Scorer;
use sobench_core::tools::{Tool, ToolChoice, ToolSet};
use sobench_pycompat::random::PythonRandom;

/// The most turns of a generated session.
const MOST_TURNS: usize = 8;
/// Tools by which the list of a session grows with each turn.
const NEW_TOOLS: usize = 2;
/// The range of delays before a turn, in milliseconds: of a tool, and of a person who reads.
const TOOL_DELAY_MS: (usize, usize) = (20, 200);
const READING_DELAY_MS: (usize, usize) = (200, 1000);

/// A session as it is written: what is new in each turn, and the right answer.
struct Script {
    scenario: &'static str,
    system: &'static str,
    choice: ToolChoice,
    /// The scenario's own tools.
    tools: Vec<Tool>,
    steps: Vec<Step>,
}

struct Step {
    /// The text of the user. Without it, the turn has the result of the call before it.
    user: Option<String>,
    answer: StepAnswer,
}

enum StepAnswer {
    /// A call with these arguments, and its result.
    Call(&'static str, Value, Value),
    /// A report with this schema.
    Report(Value, Value),
}

/// The tools that the turns of a scenario offer. Sessions share them, as clients of one application do.
pub(super) struct OfferedTools {
    others: Vec<Tool>,
    known: HashMap<(&'static str, usize), Arc<Constraint>>,
}

impl OfferedTools {
    /// # Errors
    /// The shipped tools cannot be read.
    pub(super) fn new(seed: u64) -> Result<Self> {
        Ok(Self {
            others: draw_tools(NEW_TOOLS * MOST_TURNS, seed)?,
            known: HashMap::new(),
        })
    }

    fn constraint(&mut self, script: &Script, position: usize) -> Arc<Constraint> {
        let known = self.known.entry((script.scenario, position));
        let constraint = known.or_insert_with(|| {
            let is_own = |tool: &&Tool| script.tools.iter().any(|own| own.name == tool.name);
            let others = self.others.iter().filter(|tool| !is_own(tool));
            let tools = script.tools.iter().chain(others.take(NEW_TOOLS * position));
            Arc::new(Constraint::Tools(Arc::new(ToolSet {
                tools: tools.cloned().collect(),
                choice: script.choice.clone(),
                parallel_tool_calls: None,
            })))
        });
        Arc::clone(constraint)
    }
}

/// The session with a number.
pub(super) fn session(
    index: usize,
    offered: &mut OfferedTools,
    random: &mut PythonRandom,
) -> Session {
    let script = match index % 3 {
        0 => support_desk(random),
        1 => data_analysis(random),
        _ => coding_assistant(random),
    };
    let mut history = vec![Message::new("system", script.system)];
    let mut result: Option<Message> = None;
    let mut turns = Vec::new();
    for (position, step) in script.steps.iter().enumerate() {
        let is_user = step.user.is_some();
        history.extend(result.take());
        history.extend(
            step.user
                .iter()
                .map(|text| Message::new("user", text.as_str())),
        );
        let (constraint, reference, answer) = match &step.answer {
            StepAnswer::Call(name, arguments, found) => {
                let id = format!("call_{position}");
                result = Some(Message::tool_result(id.as_str(), found.to_string()));
                let arguments = arguments.as_object().cloned().unwrap_or_default();
                let text = Value::Object(arguments.clone()).to_string();
                let answer = Message::calling("", [Message::call(&id, *name, &text)]);
                let reference = ground_truth(&[((*name).to_owned(), arguments)]);
                let constraint = offered.constraint(&script, position);
                (constraint, (reference, Scorer::Calls), answer)
            }
            StepAnswer::Report(schema, report) => {
                let text = report.to_string();
                let answer = Message::new("assistant", text.as_str());
                let constraint = Arc::new(Constraint::JsonSchema(Arc::new(schema.clone())));
                (constraint, (text, Scorer::Leaf), answer)
            }
        };
        let (least, most) = if is_user {
            READING_DELAY_MS
        } else {
            TOOL_DELAY_MS
        };
        turns.push(SessionTurn {
            messages: history.clone(),
            constraint: Some(constraint),
            output_len: None,
            reference: Some(reference),
            answer_text: Some(answer_text(&answer)),
            after: position.checked_sub(1).into_iter().collect(),
            delay_ms: (least + random.choice(most - least)) as u64,
            tags: vec![format!("scenario:{}", script.scenario)],
            name: format!("session {index}, turn {}", position + 1),
        });
        history.push(answer);
    }
    Session { turns }
}

/// The schema of an object with members of these types, all required.
fn object(members: &[(&str, &str)]) -> Value {
    let typed = members
        .iter()
        .map(|(name, kind)| (*name, json!({"type": kind})));
    extract::object(&typed.collect::<Vec<_>>(), &[])
}

fn tool(name: &str, description: &str, members: &[(&str, &str)]) -> Tool {
    Tool {
        description: Some(description.to_owned()),
        ..Tool::function(name, object(members))
    }
}

fn pick<'t>(random: &mut PythonRandom, texts: &[&'t str]) -> &'t str {
    texts[random.choice(texts.len())]
}

fn call(name: &'static str, arguments: Value, result: Value) -> Step {
    Step {
        user: None,
        answer: StepAnswer::Call(name, arguments, result),
    }
}

/// 3 to 8 turns: the customer, one to four orders, a refund for up to two of them, and the end of the
/// case.
fn support_desk(random: &mut PythonRandom) -> Script {
    let given = pick(random, &GIVEN_NAMES);
    let family = pick(random, &FAMILY_NAMES);
    let email = format!("{}@example.com", format!("{given}.{family}").to_lowercase());
    let customer = format!("C{}", 1000 + random.choice(9000));
    let orders: Vec<String> = (0..1 + random.choice(4))
        .map(|place| format!("A{}", 10_000 * (place + 1) + random.choice(10_000)))
        .collect();
    let damaged = random.choice(orders.len().min(2) + 1);
    let amounts: Vec<usize> = orders.iter().map(|_| 5 + random.choice(95)).collect();
    let user = format!(
        "My e-mail address is {email}. I have {} orders, and some arrived damaged.",
        orders.len()
    );
    let mut steps = vec![Step {
        user: Some(user),
        ..call(
            "find_customer",
            json!({"email": email}),
            json!({"customer_id": customer, "orders": orders}),
        )
    }];
    for (place, (order, amount)) in orders.iter().zip(&amounts).enumerate() {
        let state = if place < damaged {
            "damaged"
        } else {
            "delivered"
        };
        let result = json!({"order_id": order, "state": state, "amount": amount});
        steps.push(call("get_order", json!({"order_id": order}), result));
    }
    for (order, amount) in orders.iter().zip(&amounts).take(damaged) {
        let arguments = json!({"order_id": order, "amount": amount});
        steps.push(call("refund_order", arguments, json!({"refunded": amount})));
    }
    let refunded: usize = amounts[..damaged].iter().sum();
    let arguments = json!({"customer_id": customer, "refunded": refunded});
    steps.push(call("close_case", arguments, json!({"closed": true})));
    Script {
        scenario: "support-desk",
        system: "You work at a support desk. Make one call at a time: find the customer by e-mail \
                 address, get each order in the order of the list, refund each damaged order with \
                 its amount in the same order, and close the case with the sum of the refunds.",
        choice: ToolChoice::Required,
        tools: vec![
            tool(
                "find_customer",
                "Find a customer and the ids of the orders.",
                &[("email", "string")],
            ),
            tool(
                "get_order",
                "Get the state and the amount of an order.",
                &[("order_id", "string")],
            ),
            tool(
                "refund_order",
                "Refund an order.",
                &[("order_id", "string"), ("amount", "integer")],
            ),
            tool(
                "close_case",
                "Close the case.",
                &[("customer_id", "string"), ("refunded", "integer")],
            ),
        ],
        steps,
    }
}

/// 3 to 8 turns: the columns of a table, one to six questions about columns, and a report.
fn data_analysis(random: &mut PythonRandom) -> Script {
    let table = pick(
        random,
        &["sales", "visits", "shipments", "invoices", "sensors"],
    );
    let mut columns = vec![
        "price", "quantity", "weight", "duration", "distance", "rating", "tax",
    ];
    random.shuffle(&mut columns);
    columns.truncate(1 + random.choice(6));
    let mut steps = vec![Step {
        user: Some(format!("Which columns does the table {table} have?")),
        ..call(
            "describe_table",
            json!({"table": table}),
            json!({"columns": columns}),
        )
    }];
    let mut largest = ("", 0);
    for column in &columns {
        let function = pick(random, &["sum", "mean", "min", "max"]);
        let value = 10 + random.choice(990);
        if value > largest.1 {
            largest = (column, value);
        }
        let arguments = json!({"table": table, "column": column, "function": function});
        steps.push(Step {
            user: Some(format!("What is the {function} of {column}?")),
            ..call("aggregate", arguments, json!({"value": value}))
        });
    }
    let report = json!({"table": table, "questions": columns.len(), "largest_column": largest.0, "largest_value": largest.1});
    steps.push(Step {
        user: Some(
            "Report as JSON: the table, the number of my questions about columns, and the column \
             with the largest value, with that value."
                .to_owned(),
        ),
        answer: StepAnswer::Report(
            object(&[
                ("table", "string"),
                ("questions", "integer"),
                ("largest_column", "string"),
                ("largest_value", "integer"),
            ]),
            report,
        ),
    });
    Script {
        scenario: "data-analysis",
        system: "You analyse tables. Make one call for each question, and no other calls.",
        choice: ToolChoice::Auto,
        tools: vec![
            tool(
                "describe_table",
                "List the columns of a table.",
                &[("table", "string")],
            ),
            tool(
                "aggregate",
                "Compute the sum, mean, min or max of a column.",
                &[
                    ("table", "string"),
                    ("column", "string"),
                    ("function", "string"),
                ],
            ),
        ],
        steps,
    }
}

/// 4 to 8 turns: one to five files, an edit, a test, and the end of the task.
fn coding_assistant(random: &mut PythonRandom) -> Script {
    let mut names = vec![
        "parser", "cache", "server", "queue", "config", "router", "store",
    ];
    random.shuffle(&mut names);
    names.truncate(1 + random.choice(5));
    let paths: Vec<String> = names.iter().map(|name| format!("src/{name}.py")).collect();
    let (old, new) = (10 + random.choice(40), 60 + random.choice(40));
    let (old, new) = (format!("LIMIT = {old}"), format!("LIMIT = {new}"));
    let path = paths[paths.len() - 1].as_str();
    let test = format!("tests/test_{}.py", names[names.len() - 1]);
    let user = format!(
        "Read these files in this order: {}. Then replace {old} by {new} in {path}, run {test}, and \
         finish with the number of passed tests.",
        paths.join(", ")
    );
    let mut steps = Vec::new();
    for (place, read) in paths.iter().enumerate() {
        let text = if read == path {
            format!("# {read}\n{old}\n")
        } else {
            format!("# {read}\n")
        };
        let step = call("read_file", json!({"path": read}), json!({"text": text}));
        steps.push(Step {
            user: (place == 0).then(|| user.clone()),
            ..step
        });
    }
    let arguments = json!({"path": path, "old": old, "new": new});
    steps.push(call("edit_file", arguments, json!({"edited": true})));
    let passed = 1 + random.choice(30);
    steps.push(call(
        "run_test",
        json!({"path": test}),
        json!({"passed": passed, "failed": 0}),
    ));
    steps.push(call(
        "finish",
        json!({"passed": passed}),
        json!({"done": true}),
    ));
    Script {
        scenario: "coding-assistant",
        system: "You change programs. Make one call at a time, in the order in which the user asks.",
        choice: ToolChoice::Required,
        tools: vec![
            tool("read_file", "Read a file.", &[("path", "string")]),
            tool(
                "edit_file",
                "Replace a text in a file.",
                &[("path", "string"), ("old", "string"), ("new", "string")],
            ),
            tool("run_test", "Run a file of tests.", &[("path", "string")]),
            tool("finish", "End the task.", &[("passed", "integer")]),
        ],
        steps,
    }
}
