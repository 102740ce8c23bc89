//! Registries: enums of kinds whose names and behaviour come from each kind's `SPEC`.

use crate::error::{Error, Result};

/// Declares a registry: one line `Variant => file::SPEC,` for each kind, in the order of help texts
/// and files. A spec has a `name`, used in flags, files and messages.
#[macro_export]
macro_rules! registry {
    (
        $(#[$meta:meta])*
        pub enum $Type:ident is $what:literal with $Spec:ty {
            $($(#[$variant_meta:meta])* $Variant:ident => $spec:path,)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Type {
            $($(#[$variant_meta])* $Variant,)+
        }

        impl $Type {
            /// All kinds, in the order of help texts.
            pub const ALL: [Self; [$(Self::$Variant,)+].len()] = [$(Self::$Variant,)+];

            /// The specification of this kind.
            pub fn spec(self) -> &'static $Spec {
                match self {
                    $(Self::$Variant => &$spec,)+
                }
            }

            /// The name used in flags, files and messages.
            pub fn name(self) -> &'static str {
                self.spec().name
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl $crate::contract::schemars::JsonSchema for $Type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($Type).into()
            }

            fn json_schema(_: &mut $crate::contract::schemars::SchemaGenerator) -> $crate::contract::schemars::Schema {
                $crate::contract::names(Self::ALL.map(Self::name))
            }
        }

        impl serde::Serialize for $Type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
                let name = <String as serde::Deserialize>::deserialize(deserializer)?;
                name.parse().map_err(|error: $crate::error::Error| serde::de::Error::custom(error.what))
            }
        }

        impl std::str::FromStr for $Type {
            type Err = $crate::error::Error;

            fn from_str(name: &str) -> $crate::error::Result<Self> {
                $crate::registry::find(&Self::ALL, Self::name, $what, name)
            }
        }
    };
}

/// Finds the value with this name.
///
/// # Errors
/// A usage error that lists the names.
pub fn find<T: Copy>(
    all: &[T],
    name_of: fn(T) -> &'static str,
    what: &str,
    name: &str,
) -> Result<T> {
    all.iter()
        .copied()
        .find(|value| name_of(*value) == name)
        .ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|value| name_of(*value)).collect();
            Error::usage(format!("unknown {what}: {name}"))
                .hint(format!("one of {}", names.join(", ")))
        })
}
