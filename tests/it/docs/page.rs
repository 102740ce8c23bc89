//! Parses the `console` blocks of a page: commands after `$ `, each with its shown output.

/// A command of a page with its shown output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// Line of the page, from 1.
    pub(super) line: usize,
    /// The command text; a line that ends with a backslash continues on the next line.
    pub(super) text: String,
    /// The lines below it. A line `...` stands for omitted lines.
    pub(super) shown: Vec<String>,
}

/// The commands of a page in order.
pub(super) fn commands(page: &str) -> Vec<Command> {
    let mut commands: Vec<Command> = Vec::new();
    let (mut in_console, mut goes_on) = (false, false);
    for (index, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            in_console = line == "```console";
        } else if !in_console {
            continue;
        } else if let Some(typed) = line.strip_prefix("$ ") {
            commands.push(Command {
                line: index + 1,
                text: typed.to_owned(),
                shown: Vec::new(),
            });
            goes_on = typed.ends_with('\\');
        } else {
            let command = commands
                .last_mut()
                .unwrap_or_else(|| panic!("line {}: output without a command: {line}", index + 1));
            if goes_on {
                command.text.push('\n');
                command.text.push_str(line.trim_start());
                goes_on = line.ends_with('\\');
            } else {
                command.shown.push(line.to_owned());
            }
        }
    }
    commands
}

#[test]
fn commands_and_shown_output_are_separated() {
    let page = "text\n```console\n$ one \\\n  two\nshown\n...\n$ three\n```\n$ no command\n```text\n$ none\n```\n";
    let shown = ["shown", "..."].map(str::to_owned).to_vec();
    let expected = [
        Command {
            line: 3,
            text: "one \\\ntwo".to_owned(),
            shown,
        },
        Command {
            line: 7,
            text: "three".to_owned(),
            shown: Vec::new(),
        },
    ];
    assert_eq!(commands(page), expected);
}
