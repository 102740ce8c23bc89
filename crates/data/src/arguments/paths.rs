//! Types of path arguments. The type records whether the file is read or written, so that the
//! program can refuse an output that would overwrite an input or another output.

use std::any::TypeId;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use clap::builder::{
    MapValueParser, PathBufValueParser, StringValueParser, TypedValueParser, ValueParserFactory,
};
use clap::{Arg, Command, ValueHint};

/// Characters that separate a file name from other text.
const AROUND_NAMES: [char; 3] = [',', ':', '='];

/// Declares the type of an argument that is one path or one text. Like clap's own path parser, the
/// path parser refuses an empty value.
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
    /// An input file or folder.
    InputPath(PathBuf, Path, PathBufValueParser)
}

argument! {
    /// An output file or folder.
    OutputPath(PathBuf, Path, PathBufValueParser)
}

argument! {
    /// A folder for output files whose names the program chooses.
    OutputFolder(PathBuf, Path, PathBufValueParser)
}

argument! {
    /// Text that may contain the names of input files: `custom:rows.jsonl`, `a.json,b.json`, or a
    /// Hub id.
    InputNames(String, str, StringValueParser)
}

argument! {
    /// The name of an output file in the command's [`OutputFolder`].
    OutputName(String, str, StringValueParser)
}

impl InputNames {
    /// The file names that the text may contain: the whole text, and its parts. Most of them do not
    /// exist.
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

/// Whether an argument names output.
pub fn is_output(argument: &Arg) -> bool {
    let parsed = argument.get_value_parser().type_id();
    [
        TypeId::of::<OutputPath>(),
        TypeId::of::<OutputFolder>(),
        TypeId::of::<OutputName>(),
    ]
    .iter()
    .any(|path| parsed == *path)
}

/// Enables file-name completion in shells for every path argument. Clap does this for `PathBuf`
/// only.
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
    fn candidates_are_the_whole_text_and_its_parts() {
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
