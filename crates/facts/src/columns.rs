//! Columns: the values of one fact of each request, and how they are packed.
//!
//! A column that ends before a row has the missing value there, so that a fact that no request has
//! takes no memory.

mod interned;
mod packed;
mod sparse;

pub use self::interned::{Distinct, Interned, Maybe, Texts};
pub use self::packed::{Bits, Dense, Few, Pack};
pub use self::sparse::{Copied, Sparse};

/// The values of one fact by row.
pub trait Column {
    type Value;
    /// What a view of a row shows.
    type Shown<'a>
    where
        Self: 'a;

    /// Sets the value of a row.
    fn set(&mut self, row: u32, value: Self::Value);

    /// The value of a row.
    fn get(&self, row: u32) -> Self::Shown<'_>;

    /// A copy of the value of a row.
    fn value(&self, row: u32) -> Self::Value;

    /// Makes room for rows.
    fn reserve(&mut self, _rows: usize) {}
}

/// Declares facts of a request: the struct of one row, with its attributes, and the struct of their
/// columns, a field of a table. Each fact has a name, a type, and its column, and can be read by its name
/// from a view of a row, which has the fields `table` and `row`.
#[macro_export]
macro_rules! columns {
    (
        $(#[$meta:meta])*
        $vis:vis struct $row:ident in $view:ident.$table:ident: $columns:ident {
            $($(#[doc = $doc:expr])* $(#[serde($($serde:tt)*)])* $name:ident: $type:ty => $column:ty,)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $row {
            $($(#[doc = $doc])* $(#[serde($($serde)*)])* pub $name: $type,)*
        }

        /// The columns of these facts.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct $columns {
            $(pub(crate) $name: $column,)*
        }

        impl $columns {
            /// Sets every fact of a row.
            pub(crate) fn set(&mut self, row: u32, facts: $row) {
                use $crate::columns::Column as _;
                $(self.$name.set(row, facts.$name);)*
            }

            /// Makes room for rows.
            pub(crate) fn reserve(&mut self, rows: usize) {
                use $crate::columns::Column as _;
                $(self.$name.reserve(rows);)*
            }
        }

        #[allow(dead_code, reason = "of a private view, not every fact is read in both ways")]
        impl<'a> $view<'a> {
            /// A copy of these facts.
            pub fn $table(&self) -> $row {
                use $crate::columns::Column as _;
                $row {
                    $($name: self.table.$table.$name.value(self.row),)*
                }
            }

            $($(#[doc = $doc])*
            pub fn $name(&self) -> <$column as $crate::columns::Column>::Shown<'a> {
                use $crate::columns::Column as _;
                self.table.$table.$name.get(self.row)
            })*
        }
    };
}

pub use crate::columns;
