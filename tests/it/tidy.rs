//! Holds the tree to the invariants of ARCHITECTURE.md: which layer may name what, how long a file may be, how it begins.

mod imports;

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of a Rust file, tests included.
const MAX_FILE_LINES: usize = 500;

/// One rule: in files under these paths, none of these words occurs.
struct Rule {
    within: &'static [&'static str],
    except: &'static [&'static str],
    words: &'static [&'static str],
    why: &'static str,
}

const RULES: [Rule; 13] = [
    Rule {
        within: &[
            "src/evaluate/",
            "src/grammar/",
            "src/metrics/",
            "src/record/",
            "src/render/",
            "src/report/",
            "src/compare/",
            "src/statistics/",
        ],
        // Writes an instant that is given.
        except: &["src/record/mod.rs"],
        words: &["tokio", "reqwest", "std::env", "Instant", "SystemTime", "crate::driver", "crate::server", "crate::commands"],
        why: "what is right of the run log can be done again from the file: no clock, no network, no environment",
    },
    Rule {
        within: &["src/"],
        except: &["src/render/"],
        words: &["tabled", "textwrap"],
        why: "pages are documents: layout is known to render alone",
    },
    Rule {
        within: &["src/"],
        except: &["src/arguments/", "src/cli/", "src/commands/", "src/dataset/"],
        words: &["clap::", "use clap"],
        why: "flags are declared by cli, the commands and the datasets alone",
    },
    Rule {
        within: &["src/"],
        except: &["src/cli/", "src/main.rs"],
        words: &["crate::cli", "sobench::cli"],
        why: "the list of commands is known to main alone",
    },
    Rule {
        within: &["src/"],
        except: &["src/cli/", "src/main.rs", "src/commands/", "src/terminal.rs"],
        words: &["crate::commands", "sobench::commands"],
        why: "layers do not know the commands that use them",
    },
    Rule {
        within: &["src/"],
        except: &["src/main.rs", "src/terminal.rs"],
        words: &["println!", "print!(", "eprint"],
        why: "printing is main's and terminal's",
    },
    Rule {
        within: &["src/"],
        except: &["src/commands/flags/environment.rs", "src/hub.rs"],
        words: &["env::var"],
        why: "environment variables are read in commands/flags/environment.rs and hub.rs alone",
    },
    Rule {
        within: &["src/"],
        except: &[],
        words: &["process::exit", "unsafe {", "unsafe fn"],
        why: "main returns its exit code",
    },
    Rule {
        within: &["src/"],
        except: &["src/driver/clock.rs", "src/server/timetable.rs", "src/mask/clock.rs"],
        words: &["Instant::now", "SystemTime::now"],
        why: "the clock is read in driver/clock.rs, server/timetable.rs and mask/clock.rs alone",
    },
    Rule { within: &["src/"], except: &["src/hub.rs"], words: &["hf_hub"], why: "only hub.rs knows the Hub's client" },
    Rule {
        within: &["src/preflight/"],
        except: &["src/preflight/ask.rs", "src/preflight/features/probe.rs"],
        words: &["tokio", "reqwest", "crate::driver", "crate::server", "crate::report"],
        why: "what an answer proves is judged without a network",
    },
    Rule {
        within: &["src/compare/"],
        except: &["src/compare/files.rs"],
        words: &["std::fs", "fs::read", "File::"],
        why: "comparing is pure; only files.rs opens any",
    },
    Rule {
        within: &["src/driver/", "src/backend/", "src/dataset/"],
        except: &[],
        words: &["crate::evaluate", "crate::metrics", "crate::report"],
        why: "layers never reach backwards",
    },
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Path from the root, with `/`, and text of every Rust file of the package.
fn sources() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    for folder in ["src", "tests"] {
        rust_files(&root().join(folder), &mut paths);
    }
    let name = |path: &Path| path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// Code without its comments, so that a rule may be written about in the very files it binds, and without the tests at its foot.
fn code_of(text: &str) -> String {
    let shipped = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(text);
    shipped.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Whether a file of `src` holds nothing but tests or what they need.
fn is_test(name: &str) -> bool {
    name.split('/').any(|part| matches!(part.trim_end_matches(".rs"), "tests" | "testing") || part.ends_with("_tests.rs"))
}

#[test]
fn layers_name_only_what_they_may() {
    let mut broken = Vec::new();
    for (name, text) in sources().iter().filter(|(name, _)| name.starts_with("src/") && !is_test(name)) {
        let code = code_of(text);
        for rule in &RULES {
            let bound = rule.within.iter().any(|prefix| name.starts_with(prefix));
            let exempt = rule.except.iter().any(|prefix| name.starts_with(prefix));
            for word in rule.words.iter().filter(|word| bound && !exempt && code.contains(**word)) {
                broken.push(format!("{name} says `{word}`: {}", rule.why));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are() {
    let mut broken = Vec::new();
    for (name, text) in sources() {
        let lines = text.lines().count();
        if lines > MAX_FILE_LINES {
            broken.push(format!("{name} has {lines} lines, {MAX_FILE_LINES} are allowed"));
        }
        if !text.starts_with("//! ") {
            broken.push(format!("{name} does not begin with a `//!` line"));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_module_is_on_the_code_map() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let missing: Vec<String> = fs::read_dir(root().join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !map.contains(&format!("`src/{name}")))
        .collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not name: {}", missing.join(", "));
}

#[test]
fn witnesses_are_checked_with_packages_of_the_versions_that_were_proved() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = fs::read_to_string(root().join("tests/live/witnesses.requirements.txt")).unwrap();
    let locked = |name: &str| {
        let (_, rest) = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    for (package, library) in [("llguidance", "llguidance"), ("outlines_core", "outlines-core")] {
        let line = format!("{package}=={}", locked(library));
        assert!(packages.lines().any(|it| it == line), "{line} is not in witnesses.requirements.txt");
    }
}
