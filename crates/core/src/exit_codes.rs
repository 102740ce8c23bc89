//! The exit codes: what a script may rely on, all of it in one table. Knows no command's work.

/// The command did what it was asked to.
pub const DONE: u8 = 0;
/// It did, and what it found is not what was asked for.
pub const NOT_KEPT: u8 = 1;
/// The command line or an input file is wrong.
pub const USAGE: u8 = 2;
/// The world was not as needed, or what was found could not be kept.
pub const COULD_NOT: u8 = 3;
/// The runs are not of the same thing.
pub const NOT_COMPARABLE: u8 = 4;
/// Stopped by the user or the system.
pub const INTERRUPTED: u8 = 130;

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meaning {
    pub code: u8,
    /// The command that ends with it for this reason, as it is typed behind `sobench`; `None` is
    /// every command.
    pub command: Option<&'static str>,
    /// Why, in Markdown.
    pub means: &'static str,
}

/// Every code and every reason for it, by code. A run is `bench`, also where no command was typed.
pub const TABLE: [Meaning; 19] = [
    every(DONE, "done"),
    of(DONE, "compare", "comparable, and no rule broken"),
    of(DONE, "serve", "stopped by Ctrl-C or SIGTERM"),
    of(
        DONE,
        "preflight",
        "some dialect enforces every asked kind that it carries; with `--features`: everything was asked, whatever was found",
    ),
    of(
        NOT_KEPT,
        "bench",
        "the run was done, and the client stood in the way (`--strict-client`), or a bound was not kept (`--require`)",
    ),
    of(
        NOT_KEPT,
        "compare",
        "a rule was broken (`--gate`, `--fail-on`, `--require`), or could not be told from chance where that was not enough (`--undecided fail`)",
    ),
    of(
        NOT_KEPT,
        "preflight",
        "no dialect enforces every asked kind that it carries",
    ),
    every(
        USAGE,
        "a wrong flag or input file, a file that is no run log, a constraint of one's own that is broken or that no answer could be judged by",
    ),
    every(
        COULD_NOT,
        "what was needed was not there: a server, a port, room for a file; or what was asked for could not be printed or written",
    ),
    of(
        COULD_NOT,
        "bench",
        "the server is not reachable, the trial request failed, it drops the constraint, or no request got an answer; of several runs, one could not be made",
    ),
    of(
        COULD_NOT,
        "bench",
        "gave up on the server (`--max-error-rate`, `--max-consecutive-errors`): what was done is reported, marked partial",
    ),
    of(
        COULD_NOT,
        "bench",
        "result or run log could not be written: the report is whole; a log that nobody asked for, in the cache folder, costs a warning alone",
    ),
    of(
        COULD_NOT,
        "preflight",
        "nobody answered, or not even without a constraint; with `--features` also: no dialect enforces a JSON Schema, or the server was gone before the end",
    ),
    of(COULD_NOT, "calibrate", "a client could not be measured"),
    of(
        COULD_NOT,
        "mask",
        "a witness could not be checked again (`--replay`)",
    ),
    of(
        NOT_COMPARABLE,
        "compare",
        "what was asked differs, and the runs are not comparable",
    ),
    every(
        INTERRUPTED,
        "interrupted (Ctrl-C, SIGTERM, SIGHUP) before there was anything to report",
    ),
    of(
        INTERRUPTED,
        "bench",
        "interrupted; the report of what was done is printed, marked partial",
    ),
    of(
        INTERRUPTED,
        "mask",
        "interrupted; the report covers the entries that were done",
    ),
];

const fn every(code: u8, means: &'static str) -> Meaning {
    Meaning {
        code,
        command: None,
        means,
    }
}

const fn of(code: u8, command: &'static str, means: &'static str) -> Meaning {
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
    fn the_table_has_every_code_in_order() {
        let mut codes: Vec<u8> = TABLE.iter().map(|line| line.code).collect();
        assert!(codes.is_sorted());
        codes.dedup();
        assert_eq!(
            codes,
            [
                DONE,
                NOT_KEPT,
                USAGE,
                COULD_NOT,
                NOT_COMPARABLE,
                INTERRUPTED
            ]
        );
    }
}
