//! DeepSpeed-MII's completions. They have no field for a constraint (`data_models.py`) and would
//! ignore one: such a case is refused. `openai_api_server.py` reads more fields than it forwards;
//! those here are forwarded.

use super::KindSpec;
use super::openai::COMPLETIONS;
use crate::shape::Shape;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "deepspeed-mii",
    body: Shape {
        asks_usage: false,
        ignores_eos: false,
        sampling: &["temperature", "top_p", "top_k"],
        ..Shape::COMPLETIONS
    },
    ..COMPLETIONS
};
