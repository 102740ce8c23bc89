//! Finds out in the trial run whether a server reads the token limit of chat completions, which is
//! `max_completion_tokens` in OpenAI's API, or only the older `max_tokens`.

use super::choose::RequestChoice;
use super::sending::Trial;
use crate::terminal;
use sobench_backend::{BodySettings, Product};
use sobench_core::case::Case;
use sobench_core::error::{Error, Result};
use sobench_notices::notice::{BenchNotice, MaxTokensReason, Notice};

impl RequestChoice<'_> {
    /// Tries the run's requests. If the server does not read `max_completion_tokens`, but
    /// `max_tokens`, all candidates send that from here on, with a notice. vLLM reads both, and the
    /// requests to it are those of vLLM's own client.
    ///
    /// # Errors
    /// As for [`super::sending::Sending::try_out`].
    pub(super) async fn try_out<'c>(
        &self,
        candidates: &mut [BodySettings],
        cases: &'c [Case],
    ) -> Result<(Trial<'c>, Option<Notice>)> {
        let first = candidates
            .first()
            .ok_or_else(|| Error::internal("a run without a request to send"))?;
        let tried = self.sending(first).try_out(cases).await;
        let known = self.session.product.filter(|_| first.max_tokens_only);
        let known = known.map(|product| MaxTokensReason::Known {
            server: Product::label(product).to_owned(),
        });
        let reason = match (known, &tried) {
            (Some(known), _) => return Ok((tried?, Some(notice(known)))),
            _ if self.session.is_embedded()
                || self.session.is_vllm()
                || !self.settings.backend.sends_max_completion_tokens() =>
            {
                None
            }
            (None, Err(_)) => None,
            (None, Ok(trial)) if trial.is_token_limit_refused => Some(MaxTokensReason::Refused),
            (None, Ok(trial)) => trial.excess_tokens.map(|tokens| MaxTokensReason::Exceeded {
                limit: trial.case.output_len,
                tokens,
            }),
        };
        let Some(reason) = reason else {
            return tried.map(|trial| (trial, None));
        };
        let other = BodySettings {
            max_tokens_only: true,
            ..first.clone()
        };
        let Ok(again) = self.sending(&other).try_out(cases).await else {
            return tried.map(|trial| (trial, None));
        };
        let before = tried.as_ref().map_or(1, |trial| trial.requests);
        if again.excess_tokens.is_some() {
            // It reads neither; the report says how many answers are too long.
            let requests = before + again.requests;
            return tried.map(|trial| (Trial { requests, ..trial }, None));
        }
        for candidate in candidates {
            candidate.max_tokens_only = true;
        }
        let requests = before + again.requests;
        Ok((Trial { requests, ..again }, Some(notice(reason))))
    }
}

fn notice(reason: MaxTokensReason) -> Notice {
    let notice = Notice::from(BenchNotice::MaxTokensSent { reason });
    terminal::warn(&notice);
    notice
}
