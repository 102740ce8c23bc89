//! Seeded sampling from weighted candidates.

use crate::seeds::Draws;
use sobench_engine::TokenId;

/// Sampling parameters of a request, as in OpenAI's and vLLM's APIs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// 0 takes the most probable token.
    pub(crate) temperature: f32,
    pub(crate) top_p: f32,
    pub(crate) min_p: f32,
    /// 0 means all.
    pub(crate) top_k: usize,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_p: 1.0,
            min_p: 0.0,
            top_k: 0,
        }
    }
}

impl Sampling {
    /// Draws one of the candidates. `None` if no weight is positive. Reorders and rescales the
    /// candidates.
    pub(super) fn draw(
        &self,
        candidates: &mut Vec<(TokenId, f32)>,
        random: &mut Draws,
    ) -> Option<TokenId> {
        candidates.retain(|(_, weight)| *weight > 0.0 && weight.is_finite());
        let heaviest = candidates
            .iter()
            .map(|(_, weight)| *weight)
            .fold(0.0, f32::max);
        let most_probable = candidates
            .iter()
            .filter(|(_, weight)| *weight == heaviest)
            .map(|(token, _)| *token)
            .min()?;
        if self.temperature <= 0.0 {
            return Some(most_probable);
        }
        if self.temperature != 1.0 {
            candidates.iter_mut().for_each(|(_, weight)| {
                *weight = (*weight / heaviest).powf(1.0 / self.temperature);
            });
        }
        self.filter(candidates);
        let total: f32 = candidates.iter().map(|(_, weight)| *weight).sum();
        let mut point = random.unit_f32() * total;
        for (token, weight) in candidates.iter() {
            point -= weight;
            if point < 0.0 {
                return Some(*token);
            }
        }
        // Rounding can leave a remainder at the end.
        candidates.last().map(|(token, _)| *token)
    }

    fn filter(&self, candidates: &mut Vec<(TokenId, f32)>) {
        if self.top_k == 0 && self.top_p >= 1.0 && self.min_p <= 0.0 {
            return;
        }
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if self.top_k > 0 {
            candidates.truncate(self.top_k);
        }
        if self.top_p < 1.0 {
            let mut left = self.top_p * candidates.iter().map(|(_, weight)| *weight).sum::<f32>();
            let still_left = |(_, weight): &&(TokenId, f32)| {
                let is_kept = left > 0.0;
                left -= weight;
                is_kept
            };
            let kept = candidates.iter().take_while(still_left).count();
            candidates.truncate(kept.max(1));
        }
        let least = self.min_p * candidates.first().map_or(0.0, |(_, weight)| *weight);
        candidates.retain(|(_, weight)| *weight >= least);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CANDIDATES: [(TokenId, f32); 4] = [(1, 0.1), (2, 0.5), (3, 0.3), (4, 0.1)];

    fn drawn(sampling: Sampling) -> Vec<TokenId> {
        let mut random = Draws::of_model(1);
        let mut tokens: Vec<TokenId> = (0..2000)
            .map(|_| {
                sampling
                    .draw(&mut CANDIDATES.to_vec(), &mut random)
                    .unwrap()
            })
            .collect();
        tokens.sort_unstable();
        tokens
    }

    fn check(sampling: Sampling, expected: &[TokenId]) {
        let mut tokens = drawn(sampling);
        tokens.dedup();
        assert_eq!(tokens, expected, "{sampling:?}");
    }

    #[test]
    fn draws_respect_the_parameters() {
        let all = Sampling::default();
        check(all, &[1, 2, 3, 4]);
        check(
            Sampling {
                temperature: 0.0,
                ..all
            },
            &[2],
        );
        check(Sampling { top_k: 2, ..all }, &[2, 3]);
        check(Sampling { top_p: 0.6, ..all }, &[2, 3]);
        check(Sampling { top_p: 0.0, ..all }, &[2]);
        check(Sampling { min_p: 0.5, ..all }, &[2, 3]);
        assert_eq!(all.draw(&mut vec![], &mut Draws::of_model(1)), None);
        assert_eq!(
            all.draw(&mut vec![(1, 0.0), (2, f32::NAN)], &mut Draws::of_model(1)),
            None
        );
    }

    #[test]
    fn draws_follow_weights_and_temperature() {
        let share = |temperature| {
            let tokens = drawn(Sampling {
                temperature,
                ..Sampling::default()
            });
            tokens.iter().filter(|token| **token == 2).count() as f64 / tokens.len() as f64
        };
        assert!((share(1.0) - 0.5).abs() < 0.05, "{}", share(1.0));
        // 0.25 / (0.01 + 0.25 + 0.09 + 0.01)
        assert!((share(0.5) - 0.694).abs() < 0.05, "{}", share(0.5));
    }
}
