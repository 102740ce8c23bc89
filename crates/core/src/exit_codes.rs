//! Exit codes, and a table of their meanings for scripts and documentation.

/// Success.
pub const SUCCESS: u8 = 0;
/// The command finished, but a check failed.
pub const CHECK_FAILED: u8 = 1;
/// The command line or an input file is wrong.
pub const USAGE: u8 = 2;
/// The environment was not as required, or the result could not be stored.
pub const ENVIRONMENT: u8 = 3;
/// The runs measured different things.
pub const NOT_COMPARABLE: u8 = 4;
/// The samples do not decide a check.
pub const UNDECIDED: u8 = 5;
/// Stopped by the user or the system.
pub const INTERRUPTED: u8 = 130;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub code: u8,
    /// The subcommand that exits with the code for this reason; `None` for all commands.
    pub command: Option<&'static str>,
    /// The reason, in Markdown.
    pub means: &'static str,
}

/// All codes and reasons, sorted by code. A run is `bench`, also without a subcommand.
pub const TABLE: [Meaning; 29] = [
    for_every_command(SUCCESS, "success"),
    for_command(
        SUCCESS,
        "bench",
        "the run was measured, also if the server refuses the constraint; `--require 'coverage>=100%'` makes that a failure",
    ),
    for_command(
        SUCCESS,
        "compare",
        "the runs are comparable, and every rule that counts is kept",
    ),
    for_command(SUCCESS, "serve", "stopped by Ctrl-C or SIGTERM"),
    for_command(
        SUCCESS,
        "preflight",
        "at least one dialect enforces all requested constraint kinds that it supports, and tool calls and the reasoning boundary passed, if requested; with `--features`: all checks were made, regardless of their results",
    ),
    for_command(
        CHECK_FAILED,
        "bench",
        "the run finished, but a figure is not trusted because of the client (`--strict-client`) or a threshold was not met (`--require`)",
    ),
    for_command(CHECK_FAILED, "accept", "a rule is not met"),
    for_command(
        CHECK_FAILED,
        "compare",
        "a rule is broken (`--gate`, `--fail-on`, `--require`), or undecided with `--undecided fail`, or a run that a rule judges is partial",
    ),
    for_command(
        CHECK_FAILED,
        "preflight",
        "no dialect enforces all requested constraint kinds that it supports, or tool calls or the reasoning boundary did not pass",
    ),
    for_command(
        CHECK_FAILED,
        "sobench-tools limits",
        "the server dies, hangs, keeps compiling or stalls others on a ladder",
    ),
    for_every_command(
        USAGE,
        "wrong flag or input file, a file that is not a run log, or a user's constraint that is invalid or cannot be used to judge answers",
    ),
    for_command(
        USAGE,
        "score",
        "a row has no readable answer or constraint; all other rows are judged",
    ),
    for_every_command(
        ENVIRONMENT,
        "a required resource was not available (a server, a port, disk space), or the output could not be printed or written",
    ),
    for_command(
        ENVIRONMENT,
        "bench",
        "the server is not reachable before the run or for at least half of its requests, the address or the key is wrong for every trial request, the server ignores the constraint, or no request got an answer for other reasons than a refused constraint; one of several runs could not start",
    ),
    for_command(
        ENVIRONMENT,
        "bench",
        "the run stopped at an error limit (`--max-error-rate`, `--max-consecutive-errors`); the report is marked partial",
    ),
    for_command(
        ENVIRONMENT,
        "bench",
        "the result or the run log could not be written; the report is complete. For the automatic log in the cache folder this is only a warning",
    ),
    for_command(
        ENVIRONMENT,
        "preflight",
        "the server did not answer, or failed even without a constraint; with `--features` also: no dialect enforces a JSON Schema, or the server stopped during the checks",
    ),
    for_command(
        ENVIRONMENT,
        "merge",
        "the merged run is partial: a shard was interrupted, killed or stopped at an error limit, or its log is missing (`--allow-missing`); the report is marked partial",
    ),
    for_command(
        ENVIRONMENT,
        "accept",
        "no rule is missed, and a run or a preflight did not end",
    ),
    for_command(ENVIRONMENT, "calibrate", "a client could not be measured"),
    for_command(
        ENVIRONMENT,
        "sobench-tools mask",
        "a witness could not be replayed (`--replay`)",
    ),
    for_command(
        NOT_COMPARABLE,
        "compare",
        "the runs measured different things and are not comparable",
    ),
    for_command(
        UNDECIDED,
        "bench",
        "the run finished, and its samples do not decide a threshold (`--require`); `--undecided pass` makes it 0, `--undecided fail` 1",
    ),
    for_command(
        UNDECIDED,
        "accept",
        "no rule is missed, and the requests do not decide one; `--undecided pass` makes it 0, `--undecided fail` 1",
    ),
    for_command(
        UNDECIDED,
        "compare",
        "no rule is broken, and the samples do not decide one, or no rule counts; `--undecided pass` makes it 0, `--undecided fail` 1",
    ),
    for_every_command(
        INTERRUPTED,
        "interrupted (Ctrl-C, SIGTERM, SIGHUP) before there were results",
    ),
    for_command(
        INTERRUPTED,
        "bench",
        "interrupted; the report of the finished part is printed and marked partial",
    ),
    for_command(
        INTERRUPTED,
        "sobench-tools mask",
        "interrupted; the report covers the finished entries",
    ),
    for_command(
        INTERRUPTED,
        "preflight",
        "interrupted; with `--features`, the report covers the tested keywords",
    ),
];

const fn for_every_command(code: u8, means: &'static str) -> Meaning {
    Meaning {
        code,
        command: None,
        means,
    }
}

const fn for_command(code: u8, command: &'static str, means: &'static str) -> Meaning {
    Meaning {
        code,
        command: Some(command),
        means,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lists_every_code_in_order() {
        let mut codes: Vec<u8> = TABLE.iter().map(|line| line.code).collect();
        assert!(codes.is_sorted());
        codes.dedup();
        assert_eq!(
            codes,
            [
                SUCCESS,
                CHECK_FAILED,
                USAGE,
                ENVIRONMENT,
                NOT_COMPARABLE,
                UNDECIDED,
                INTERRUPTED
            ]
        );
    }
}
