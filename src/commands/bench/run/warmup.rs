//! Warm-up requests, which do not fill the caches that the run measures.
//!
//! Warm-ups are for connections, the batch, kernels, and code that runs for the first time. They
//! must not fill prefix caches or compile constraints. vLLM's client sends copies of the first
//! request, which does both. These have no constraint: one of another kind could even decide which
//! engine a server loads.

use std::future::ready;
use std::sync::Arc;

use super::sending::Sending;
use super::side_check::{CheckedRun, SideCheck, Step};
use sobench_core::case::{Case, Message, Prompt};
use sobench_core::error::Result;
use sobench_core::observation::Observation;
use sobench_notices::notice::BenchNotice;
use sobench_pycompat::random::PythonRandom;

/// Separates shuffling from the other streams of the seed: the ASCII codes of `warm` above its 64
/// bits.
const WARM_STREAM: u128 = 0x7761_726d << 64;

/// Words of the run's prompt in a warm-up at most; more only cost time.
const MAX_WORDS: usize = 20_000;

/// The warm-ups of a shard.
pub(super) struct WarmUps {
    pub(super) sent: usize,
    /// Those without an answer.
    failed: usize,
}

impl WarmUps {
    /// Sends `count` warm-ups for all shards, up to the concurrency cap.
    ///
    /// # Errors
    /// As for [`sobench_client::warm_up`].
    pub(super) async fn send(
        sending: &Sending<'_>,
        of_the_run: &[Case],
        count: usize,
        seed: u64,
    ) -> Result<Self> {
        let client = &sending.session.client;
        let seen = sobench_client::warm_up(
            client,
            Arc::clone(&sending.adapter),
            sending.request,
            &cases(of_the_run, count, seed),
            client.options().part,
            &sending.shutdown,
        )
        .await?;
        let is_sent = |seen: &&Observation| seen.timing.sent_ns.is_some();
        let sent = seen.iter().filter(is_sent).count();
        let answered = seen.iter().filter(|seen| seen.outcome.is_answer()).count();
        let failed = sent - answered;
        Ok(Self { sent, failed })
    }

    /// Reports warm-ups without an answer.
    pub(super) fn check(self) -> Option<Box<dyn SideCheck>> {
        (self.failed > 0).then(|| Box::new(self) as Box<dyn SideCheck>)
    }
}

impl SideCheck for WarmUps {
    fn before<'a>(&'a mut self, run: &'a mut CheckedRun<'_>) -> Step<'a> {
        let (failed, sent) = (self.failed, self.sent);
        let notice = BenchNotice::WarmupsFailed { failed, sent };
        run.found.notices.push(notice.into());
        Box::pin(ready(Ok(())))
    }
}

/// `count` cases like the run's: a random prefix, the words of a prompt in another order, and the
/// same output length.
pub(super) fn cases(of_the_run: &[Case], count: usize, seed: u64) -> Vec<Case> {
    let mut random = PythonRandom::from_u128(WARM_STREAM | u128::from(seed));
    let models = of_the_run.iter().cycle().take(count);
    models
        .enumerate()
        .map(|(index, model)| case(model, index, &mut random))
        .collect()
}

fn case(model: &Case, index: usize, random: &mut PythonRandom) -> Case {
    let text = text_of(&model.prompt);
    let words: Vec<&str> = text.split_whitespace().take(MAX_WORDS).collect();
    let order = random.sample(words.len(), words.len());
    let shuffled: Vec<&str> = order.into_iter().map(|place| words[place]).collect();
    // A random number comes first, so that no two share a prefix.
    let prompt = format!("{:032x} {}", random.getrandbits(128), shuffled.join(" "));
    let prompt = match &model.prompt {
        Prompt::Text(_) => Prompt::Text(prompt.into()),
        Prompt::Messages(_) => Prompt::Messages([Message::new("user", prompt)].into()),
        // A recording has no words to shuffle.
        Prompt::Audio(clip) => Prompt::Audio(Arc::clone(clip)),
        Prompt::Body(body) => Prompt::Body(Arc::clone(body)),
        Prompt::Ranking { documents, .. } => Prompt::Ranking {
            query: prompt.into(),
            documents: Arc::clone(documents),
        },
    };
    Case::new(format!("warmup-{index}"), prompt, None, model.output_len)
}

/// The text of a prompt; of messages, their text parts.
fn text_of(prompt: &Prompt) -> String {
    match prompt {
        Prompt::Text(text) => text.to_string(),
        Prompt::Audio(_) | Prompt::Body(_) => String::new(),
        Prompt::Ranking { query, .. } => query.to_string(),
        Prompt::Messages(messages) => {
            let texts = messages.iter().flat_map(|message| match &message.content {
                serde_json::Value::String(text) => vec![text.as_str()],
                serde_json::Value::Array(parts) => parts
                    .iter()
                    .filter_map(|part| part.get("text")?.as_str())
                    .collect(),
                _ => Vec::new(),
            });
            texts.collect::<Vec<_>>().join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use super::*;
    use sobench_core::case::Arm;
    use sobench_core::constraint::Constraint;

    fn model(prompt: Prompt) -> Case {
        Case {
            completion: Some("a".to_owned()),
            ..Case::new(
                "json-0",
                prompt,
                Some(Arc::new(Constraint::Regex("a".into()))),
                77,
            )
        }
    }

    fn text(case: &Case) -> String {
        text_of(&case.prompt)
    }

    #[test]
    fn warm_ups_share_no_prefix_with_the_run() {
        let run = [model(Prompt::Text(
            "Generate an example of a brief user profile".into(),
        ))];
        let warm = cases(&run, 50, 3);
        let prefixes: HashSet<String> = warm
            .iter()
            .map(|case| text(case).chars().take(8).collect())
            .collect();
        assert_eq!(prefixes.len(), 50, "no two share a prefix");
        for case in &warm {
            assert_eq!(
                (case.arm, &case.constraint, case.output_len),
                (Arm::Free, &None, 77)
            );
            let mut words: Vec<String> = text(case)
                .split_whitespace()
                .skip(1)
                .map(str::to_owned)
                .collect();
            words.sort();
            assert_eq!(
                words.join(" "),
                "Generate a an brief example of profile user",
                "as many tokens, more or less"
            );
        }
        assert_eq!(warm, cases(&run, 50, 3));
        assert_ne!(text(&warm[0]), text(&cases(&run, 1, 4)[0]));
    }

    #[test]
    fn warm_ups_of_messages_are_messages() {
        let parts =
            serde_json::json!([{"type": "text", "text": "two words"}, {"type": "image_url"}]);
        let messages = [
            Message::new("system", "be brief"),
            Message::new("user", parts),
        ];
        let warm = cases(&[model(Prompt::Messages(messages.into()))], 1, 0);
        let Prompt::Messages(messages) = &warm[0].prompt else {
            panic!("{:?}", warm[0])
        };
        assert_eq!((messages.len(), messages[0].role.as_str()), (1, "user"));
        assert_eq!(text(&warm[0]).split_whitespace().count(), 5);
    }

    #[test]
    fn warm_ups_have_the_lengths_of_the_run() {
        let run = ["one", "two"].map(|word| model(Prompt::Text(word.into())));
        let last = |case: &Case| text(case).split_whitespace().last().unwrap().to_owned();
        assert_eq!(
            cases(&run, 3, 0).iter().map(last).collect::<Vec<_>>(),
            ["one", "two", "one"]
        );
        assert!(cases(&[], 3, 0).is_empty());
    }
}
