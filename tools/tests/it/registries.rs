//! Tables of the documentation list all kinds of the registries.

use std::collections::BTreeSet;

use sobench_backend::{ConstraintDialect, ServerKind};
use sobench_engine::EngineName;
use sobench_testkit::repository_path;
use sobench_tools::limits::LadderKind;

/// The names in backticks in the first cell of each table row of a page.
fn rows(page: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(repository_path("docs").join(page)).unwrap();
    let first_cells = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    first_cells
        .flat_map(|cell| {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn documentation_tables_have_a_row_for_each_kind() {
    for (page, names) in [
        ("servers.md", ServerKind::ALL.map(ServerKind::name).to_vec()),
        (
            "servers.md",
            ConstraintDialect::ALL.map(ConstraintDialect::name).to_vec(),
        ),
        ("engines.md", EngineName::ALL.map(EngineName::name).to_vec()),
        ("limits.md", LadderKind::ALL.map(LadderKind::name).to_vec()),
    ] {
        let rows = rows(page);
        let missing: Vec<_> = names.iter().filter(|name| !rows.contains(**name)).collect();
        assert!(missing.is_empty(), "docs/{page} has no row for {missing:?}");
    }
}
