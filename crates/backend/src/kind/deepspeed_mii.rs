//! DeepSpeed-MII's completions. They have no field for a constraint (`data_models.py`) and would
//! ignore one, so such a case is rejected. `openai_api_server.py` reads more fields than it
//! forwards; only forwarded ones are listed here.

use super::KindSpec;
use super::openai::COMPLETIONS;
use crate::body_layout::BodyLayout;

pub(super) const SPEC: KindSpec = KindSpec {
    name: "deepspeed-mii",
    body: BodyLayout {
        has_stream_options: false,
        has_ignore_eos: false,
        sampling: &["temperature", "top_p", "top_k"],
        ..BodyLayout::COMPLETIONS
    },
    ..COMPLETIONS
};
