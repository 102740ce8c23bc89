//! Arguments that name files. Their types say whether a file is read or written, by which the
//! program sees that no output replaces an input or another output.

use std::any::TypeId;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::builder::{
    MapValueParser, PathBufValueParser, StringValueParser, TypedValueParser, ValueParserFactory,
};
use clap::{Arg, Command, ValueHint};

/// What separates a file's name from other text.
const AROUND_NAMES: [char; 3] = [',', ':', '='];

/// Declares the type of an argument that is one path or one text. As clap's parser of paths, that
/// of a path refuses an empty one.
macro_rules! argument {
    ($(#[$about:meta])* $name:ident($owned:ident, $borrowed:ident, $parser:ident)) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name($owned);

        impl ValueParserFactory for $name {
            type Parser = MapValueParser<$parser, fn($owned) -> Self>;

            fn value_parser() -> Self::Parser {
                $parser::new().map(Self)
            }
        }

        impl From<$owned> for $name {
            fn from(value: $owned) -> Self {
                Self(value)
            }
        }

        impl From<$name> for $owned {
            fn from(argument: $name) -> Self {
                argument.0
            }
        }

        impl Deref for $name {
            type Target = $borrowed;

            fn deref(&self) -> &$borrowed {
                &self.0
            }
        }

        impl AsRef<$borrowed> for $name {
            fn as_ref(&self) -> &$borrowed {
                &self.0
            }
        }
    };
}

argument! {
    /// A file or folder that is read.
    InputPath(PathBuf, Path, PathBufValueParser)
}

argument! {
    /// A file or folder that is written.
    OutputPath(PathBuf, Path, PathBufValueParser)
}

argument! {
    /// A folder in which written files have names of their own.
    OutputFolder(PathBuf, Path, PathBufValueParser)
}

argument! {
    /// Text that may name files that are read, among other things: `custom:rows.jsonl`,
    /// `a.json,b.json`, an id of the Hub.
    InputNames(String, str, StringValueParser)
}

argument! {
    /// The name of a written file in the command's [`OutputFolder`].
    OutputName(String, str, StringValueParser)
}

impl InputNames {
    /// The files that the text may name: the whole of it, and its parts. Most of them do not exist.
    pub fn candidates(&self) -> impl Iterator<Item = PathBuf> {
        let parts = self.0.split(AROUND_NAMES).filter(|part| !part.is_empty());
        std::iter::once(self.0.as_str())
            .chain(parts)
            .map(PathBuf::from)
    }
}

/// Whether an argument is one path.
pub fn is_path(argument: &Arg) -> bool {
    let parsed = argument.get_value_parser().type_id();
    [
        TypeId::of::<InputPath>(),
        TypeId::of::<OutputPath>(),
        TypeId::of::<OutputFolder>(),
    ]
    .iter()
    .any(|path| parsed == *path)
}

/// Tells shells to complete file names for every argument that is a path. Clap does so for
/// `PathBuf` alone.
pub fn with_path_hints(command: Command) -> Command {
    let hinted = |argument: Arg| {
        if is_path(&argument) {
            argument.value_hint(ValueHint::AnyPath)
        } else {
            argument
        }
    };
    command.mut_args(hinted).mut_subcommands(with_path_hints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_names_files_as_a_whole_and_in_its_parts() {
        let names = InputNames::from("custom=a.jsonl:0.5,json:0.5".to_owned());
        let found: Vec<PathBuf> = names.candidates().collect();
        assert_eq!(
            found,
            [
                "custom=a.jsonl:0.5,json:0.5",
                "custom",
                "a.jsonl",
                "0.5",
                "json",
                "0.5"
            ]
            .map(PathBuf::from)
        );
    }
}
