//! Compares the results of two queries on a small database: execution accuracy, as Spider and BIRD
//! measure it.
//!
//! The reference has the statements that make the database, and a query with the right result. Both
//! queries run on an SQLite database in memory that they cannot change. Their rows have to be equal:
//! in order if the reference sorts them, else in any order; columns by position, numbers by value.
//! The names of columns do not count.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error};
use serde_json::Value;

use super::json_in;

/// Maximum number of steps of SQLite's virtual machine for a query.
const MAX_STEPS: u32 = 20_000_000;

/// Steps between two looks at their number.
const STEPS_PER_LOOK: u16 = 10_000;

/// Maximum number of rows of a result.
const MAX_ROWS: usize = 100_000;

/// Maximum size of a value, a row or a statement, in bytes.
const MAX_VALUE_BYTES: i32 = 1_000_000;

/// The words that a query begins with.
const FIRST_WORDS: [&str; 3] = ["select", "with", "values"];

/// Names of members that hold a query in JSON.
const MEMBERS: [&str; 3] = ["sql", "query", "answer"];

/// A database with the rows of the right query.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Database {
    /// The statements that make it.
    statements: String,
    expected: Vec<Vec<Cell>>,
    is_ordered: bool,
}

/// A value of a result. Numbers are compared by value, as SQLite compares them.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Cell {
    Null,
    Number(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Cell {
    fn new(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Number(number as f64),
            ValueRef::Real(number) => Self::Number(number),
            ValueRef::Text(text) => Self::Text(text.to_vec()),
            ValueRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
        }
    }
}

impl Database {
    /// Reads `{"database": STATEMENTS, "query": SELECT}`, and runs the query.
    ///
    /// # Errors
    /// What is wrong with it, as half a sentence.
    pub(super) fn new(reference: &Value) -> Result<Self, String> {
        let member = |name: &str| {
            let value = reference.get(name).and_then(Value::as_str);
            value.ok_or_else(|| format!("no object with the texts `database` and `query`: {name}"))
        };
        let (statements, query) = (member("database")?, member("query")?);
        let database = open(statements).map_err(|error| format!("`database` fails: {error}"))?;
        let expected = rows(&database, query).map_err(|error| format!("`query` fails: {error}"))?;
        let is_ordered = query.to_lowercase().contains("order by");
        Ok(Self {
            statements: statements.to_owned(),
            expected,
            is_ordered,
        })
    }

    /// Whether the query in an answer has the right result; `None` if the answer has no query. A
    /// query that fails is wrong.
    pub(super) fn is_right(&self, answer: &str) -> Option<bool> {
        let query = query_in(answer)?;
        let found = open(&self.statements).and_then(|database| rows(&database, &query));
        let Ok(mut found) = found else {
            return Some(false);
        };
        let mut expected = self.expected.clone();
        if !self.is_ordered {
            for rows in [&mut found, &mut expected] {
                // No cell is NaN: SQLite stores it as NULL.
                rows.sort_by(|one, other| {
                    one.partial_cmp(other).unwrap_or(std::cmp::Ordering::Equal)
                });
            }
        }
        Some(found == expected)
    }
}

/// A database in memory that cannot be changed any more, and reads no files.
fn open(statements: &str) -> Result<Connection, Error> {
    let database = Connection::open_in_memory()?;
    database.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)?;
    database.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_VALUE_BYTES)?;
    database.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    let may_write = Arc::new(AtomicBool::new(true));
    let is_open = Arc::clone(&may_write);
    database.authorizer(Some(move |context: AuthContext<'_>| match context.action {
        AuthAction::Attach { .. } | AuthAction::Detach { .. } | AuthAction::Pragma { .. } => {
            Authorization::Deny
        }
        AuthAction::Select
        | AuthAction::Read { .. }
        | AuthAction::Function { .. }
        | AuthAction::Recursive => Authorization::Allow,
        _ if is_open.load(Ordering::Relaxed) => Authorization::Allow,
        _ => Authorization::Deny,
    }))?;
    let mut left = MAX_STEPS / u32::from(STEPS_PER_LOOK);
    database.progress_handler(
        STEPS_PER_LOOK.into(),
        Some(move || {
            left = left.saturating_sub(1);
            left == 0
        }),
    )?;
    database.execute_batch(statements)?;
    may_write.store(false, Ordering::Relaxed);
    Ok(database)
}

fn rows(database: &Connection, query: &str) -> Result<Vec<Vec<Cell>>, Error> {
    let mut statement = database.prepare(query)?;
    let columns = statement.column_count();
    let mut found = statement.query([])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        if rows.len() == MAX_ROWS {
            return Err(Error::InvalidQuery);
        }
        let cells = (0..columns).map(|column| Ok(Cell::new(row.get_ref(column)?)));
        rows.push(cells.collect::<Result<_, Error>>()?);
    }
    Ok(rows)
}

/// The query of an answer: a text or a member in JSON, a block of code, or the text from the first
/// word of a query to its end.
fn query_in(answer: &str) -> Option<String> {
    let from_json = json_in(answer).and_then(|value| match value {
        Value::String(text) => Some(text),
        Value::Object(members) => {
            let only = members.values().next().filter(|_| members.len() == 1);
            let named = MEMBERS.iter().find_map(|name| members.get(*name));
            named.or(only)?.as_str().map(str::to_owned)
        }
        _ => None,
    });
    let text = match &from_json {
        Some(text) => text,
        None => block(answer).unwrap_or(answer),
    };
    let start = first_word(text)?;
    let query = text[start..]
        .split_once(';')
        .map_or(&text[start..], |(query, _)| query);
    Some(query.trim_end().trim_end_matches(['`', '"']).to_owned())
}

/// The text of the first block of code.
fn block(answer: &str) -> Option<&str> {
    let (_, rest) = answer.split_once("```")?;
    let (block, _) = rest.split_once("```")?;
    Some(block)
}

/// Where the first word of a query is: at the start of a line, or in capitals.
fn first_word(text: &str) -> Option<usize> {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let (mut start, mut starts_line) = (0, true);
    for word in text.split_inclusive(|character| !is_part(character)) {
        let name = word.trim_end_matches(|character| !is_part(character));
        let is_first = FIRST_WORDS.iter().any(|first| {
            name == first.to_uppercase() || starts_line && first.eq_ignore_ascii_case(name)
        });
        if is_first {
            return Some(start);
        }
        starts_line = word.ends_with('\n') || starts_line && name.is_empty();
        start += word.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STATEMENTS: &str = "CREATE TABLE dish (name TEXT, price REAL, sold INTEGER);
        INSERT INTO dish VALUES ('soup', 4.5, 3), ('pie', 6, 1), ('tea', 2, NULL);";

    #[track_caller]
    fn check(query: &str, answers: &[(&str, Option<bool>)]) {
        let reference = json!({"database": STATEMENTS, "query": query});
        let database = Database::new(&reference).unwrap();
        for (answer, expected) in answers {
            assert_eq!(database.is_right(answer), *expected, "{answer}");
        }
    }

    #[test]
    fn equal_results_are_right_however_the_query_is_written() {
        check(
            "SELECT name FROM dish WHERE price > 3",
            &[
                ("SELECT name FROM dish WHERE price > 3", Some(true)),
                (
                    "select d.name as n from dish d where d.price >= 4.5 order by 1 desc;",
                    Some(true),
                ),
                (
                    "{\"sql\": \"SELECT name FROM dish WHERE name <> 'tea'\"}",
                    Some(true),
                ),
                (
                    "Use this:\n```sql\nSELECT name FROM dish WHERE price > 3;\n```\nIt works.",
                    Some(true),
                ),
                (
                    "The query is WITH a AS (SELECT * FROM dish) SELECT name FROM a WHERE price > 3",
                    Some(true),
                ),
                ("VALUES ('pie'), ('soup')", Some(true)),
                ("SELECT name FROM dish", Some(false)),
                ("SELECT name, price FROM dish WHERE price > 3", Some(false)),
                ("SELECT nothing FROM dish", Some(false)),
                ("SELECT", Some(false)),
                ("I selected them with care.\nThe answer is above.", None),
                ("\n  \"select name from dish where price > 3\"", Some(true)),
                ("", None),
                ("{\"rows\": 2}", None),
            ],
        );
        check(
            "SELECT price, sold FROM dish ORDER BY price",
            &[
                (
                    "SELECT price, sold FROM dish ORDER BY price ASC",
                    Some(true),
                ),
                (
                    "SELECT price, sold FROM dish ORDER BY price DESC",
                    Some(false),
                ),
                ("VALUES (2, NULL), (4.5, 3.0), (6.0, 1)", Some(true)),
                ("VALUES (2, ''), (4.5, 3), (6, 1)", Some(false)),
            ],
        );
    }

    #[test]
    fn answers_cannot_write_read_files_or_run_for_ever() {
        check(
            "SELECT count(*) FROM dish",
            &[
                ("WITH a AS (SELECT 1) DELETE FROM dish", Some(false)),
                ("SELECT load_extension('a')", Some(false)),
                ("SELECT readfile('/etc/hostname')", Some(false)),
                ("SELECT length(zeroblob(2000000))", Some(false)),
                (
                    "WITH RECURSIVE a(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM a) SELECT count(*) FROM a",
                    Some(false),
                ),
                ("SELECT count(*) FROM dish", Some(true)),
            ],
        );
    }

    #[test]
    fn references_that_do_not_run_are_errors() {
        for (reference, expected) in [
            (json!([]), "database"),
            (json!({"database": ""}), "query"),
            (
                json!({"database": "CREATE", "query": "SELECT 1"}),
                "`database` fails",
            ),
            (
                json!({"database": "ATTACH 'x' AS y", "query": "SELECT 1"}),
                "`database` fails",
            ),
            (
                json!({"database": "", "query": "SELECT x"}),
                "`query` fails",
            ),
        ] {
            let error = Database::new(&reference).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
