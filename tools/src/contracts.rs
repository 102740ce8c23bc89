//! The contracts of the files of these tools; those of sobench are in [`sobench::contracts`].

use serde_json::Value;

use crate::limits::report::json::LimitsFile;
use crate::mask::proof_report::json::ProofFile;
use crate::mask::prove::witness::Witness;
use crate::mask::report::json::MaskFile;
use crate::mask::row::Row;
use sobench_core::contract::written;

/// Every contract by the name of its file.
pub fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("limits", written::<LimitsFile<'_>>()),
        ("mask", written::<MaskFile<'_>>()),
        ("mask-row", written::<Row>()),
        ("proof", written::<ProofFile<'_>>()),
        ("witness", written::<Witness>()),
    ]
}
