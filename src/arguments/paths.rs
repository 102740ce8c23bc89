//! Arguments that name files. Their types say whether a file is read or written, by which the program sees that no output replaces an
//! input or another output.

use std::any::TypeId;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::builder::{MapValueParser, PathBufValueParser, StringValueParser, TypedValueParser, ValueParserFactory};
use clap::{Arg, Command, ValueHint};

/// What separates a file's name from other text.
const AROUND_NAMES: [char; 3] = [',', ':', '='];

/// Declares the type of an argument that is one path. As clap's parser of paths, its parser refuses an empty one.
macro_rules! path_argument {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(PathBuf);

        impl ValueParserFactory for $name {
            type Parser = MapValueParser<PathBufValueParser, fn(PathBuf) -> Self>;

            fn value_parser() -> Self::Parser {
                PathBufValueParser::new().map(Self)
            }
        }

        impl From<PathBuf> for $name {
            fn from(path: PathBuf) -> Self {
                Self(path)
            }
        }

        impl From<$name> for PathBuf {
            fn from(path: $name) -> Self {
                path.0
            }
        }

        impl Deref for $name {
            type Target = Path;

            fn deref(&self) -> &Path {
                &self.0
            }
        }

        impl AsRef<Path> for $name {
            fn as_ref(&self) -> &Path {
                &self.0
            }
        }
    };
}

path_argument! {
    /// A file or folder that is read.
    InputPath
}

path_argument! {
    /// A file or folder that is written.
    OutputPath
}

path_argument! {
    /// A folder in which written files have names of their own.
    OutputFolder
}

/// Declares the type of an argument that is text.
macro_rules! text_argument {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl ValueParserFactory for $name {
            type Parser = MapValueParser<StringValueParser, fn(String) -> Self>;

            fn value_parser() -> Self::Parser {
                StringValueParser::new().map(Self)
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text)
            }
        }

        impl From<$name> for String {
            fn from(text: $name) -> Self {
                text.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }
    };
}

text_argument! {
    /// Text that may name files that are read, among other things: `custom:rows.jsonl`, `a.json,b.json`, an id of the Hub.
    InputNames
}

text_argument! {
    /// The name of a written file in the command's [`OutputFolder`].
    OutputName
}

impl InputNames {
    /// The files that the text may name: the whole of it, and its parts. Most of them do not exist.
    pub fn candidates(&self) -> impl Iterator<Item = PathBuf> {
        let parts = self.0.split(AROUND_NAMES).filter(|part| !part.is_empty());
        std::iter::once(self.0.as_str()).chain(parts).map(PathBuf::from)
    }
}

/// Whether an argument is one path.
fn is_path(argument: &Arg) -> bool {
    let parsed = argument.get_value_parser().type_id();
    [TypeId::of::<InputPath>(), TypeId::of::<OutputPath>(), TypeId::of::<OutputFolder>()].iter().any(|path| parsed == *path)
}

/// Tells shells to complete file names for every argument that is a path. Clap does so for `PathBuf` alone.
pub fn with_path_hints(command: Command) -> Command {
    let hinted = |argument: Arg| if is_path(&argument) { argument.value_hint(ValueHint::AnyPath) } else { argument };
    command.mut_args(hinted).mut_subcommands(with_path_hints)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    /// Arguments whose value is called a path and is none of a file.
    const NO_FILES: [&str; 1] = ["endpoint"];

    #[test]
    fn arguments_that_name_files_have_a_type_of_this_module() {
        let text = [TypeId::of::<InputNames>(), TypeId::of::<OutputName>()];
        let program = Cli::command();
        let mut seen = 0;
        for command in std::iter::once(&program).chain(program.get_subcommands()) {
            for argument in command.get_arguments() {
                let id = argument.get_id().as_str();
                let parsed = argument.get_value_parser().type_id();
                let names = argument.get_value_names().unwrap_or_default();
                let mut words = names.iter().flat_map(|name| name.split(|character: char| !character.is_alphabetic()));
                let is_named = words.any(|word| ["PATH", "FILE", "FOLDER", "DIR", "JSONL"].contains(&word));
                let is_typed = is_path(argument) || text.iter().any(|kind| parsed == *kind);
                seen += usize::from(is_typed);
                assert!(is_typed || !is_named || NO_FILES.contains(&id), "{}: {id}", command.get_name());
                assert!(
                    parsed != TypeId::of::<PathBuf>(),
                    "{}: {id} says neither that it is read nor that it is written",
                    command.get_name()
                );
            }
        }
        assert!(seen > 40, "{seen} arguments name files");
    }

    #[test]
    fn text_names_files_as_a_whole_and_in_its_parts() {
        let names = InputNames::from("custom=a.jsonl:0.5,json:0.5".to_owned());
        let found: Vec<PathBuf> = names.candidates().collect();
        assert_eq!(found, ["custom=a.jsonl:0.5,json:0.5", "custom", "a.jsonl", "0.5", "json", "0.5"].map(PathBuf::from));
    }
}
