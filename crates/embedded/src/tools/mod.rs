//! Tool calls: what the synthetic model calls, the constraint under which it writes the calls, and
//! the parser that reads them from its text.

mod constraint;
mod decision;
mod parser;
mod request;
mod style;

pub(super) use constraint::{CallPart, CallParts, Enforcement, call_parts, is_required_somewhere};
pub(super) use decision::{Decision, decide, decide_call};
pub(super) use parser::CallParser;
pub(super) use request::read;
pub use style::{StyleSpec, ToolStyle};
