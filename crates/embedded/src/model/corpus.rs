//! The training corpus of the synthetic model, and the similarity of a prompt to its documents.

use std::collections::HashMap;

/// The embedded corpus. Its first lines describe the format.
pub(super) const CORPUS: &str = include_str!("corpus.txt");

/// The number of words at the end of a prompt that are compared.
const MAX_PROMPT_WORDS: usize = 512;

/// The smallest weight of a document.
const MIN_WEIGHT: f32 = 0.002;

/// The exponent of similarity: how strongly similar documents are preferred.
const SIMILARITY_EXPONENT: i32 = 4;

/// A prompt and its answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Document<'a> {
    pub(super) prompt: &'a str,
    pub(super) answer: &'a str,
}

/// The documents of a corpus text, in order.
pub(super) fn documents(corpus: &str) -> Vec<Document<'_>> {
    corpus
        .split("\n%% ")
        .skip(1)
        .filter_map(|document| document.split_once('\n'))
        .map(|(prompt, answer)| Document {
            prompt,
            answer: answer.strip_suffix('\n').unwrap_or(answer),
        })
        .collect()
}

/// Similarity of prompts to the prompts of documents: cosine of word counts weighted by inverse
/// document frequency, as in Salton's vector space model.
pub(super) struct Relevance {
    /// For each word, the documents that contain it and its weight in each.
    postings: HashMap<String, Vec<(usize, f32)>>,
    documents: usize,
}

impl Relevance {
    pub(super) fn new(documents: &[Document<'_>]) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f32)>> = HashMap::new();
        for (index, document) in documents.iter().enumerate() {
            for word in words(document.prompt) {
                let entry = postings.entry(word).or_default();
                match entry.last_mut() {
                    Some((last, count)) if *last == index => *count += 1.0,
                    _ => entry.push((index, 1.0)),
                }
            }
        }
        let mut squares = vec![0.0_f32; documents.len()];
        for entry in postings.values_mut() {
            let idf = (documents.len() as f32 / entry.len() as f32).ln();
            for (index, weight) in entry.iter_mut() {
                *weight = (1.0 + weight.ln()) * idf;
                squares[*index] += *weight * *weight;
            }
        }
        for entry in postings.values_mut() {
            entry.iter_mut().for_each(|(index, weight)| {
                *weight /= squares[*index].sqrt().max(f32::MIN_POSITIVE);
            });
        }
        Self {
            postings,
            documents: documents.len(),
        }
    }

    /// The weight of each document, from [`MIN_WEIGHT`] to 1 for the most similar one. All are 1 if
    /// the prompt shares no word with any document.
    pub(super) fn weights(&self, prompt: &str) -> Vec<f32> {
        let mut counts: HashMap<&str, f32> = HashMap::new();
        let prompt_words: Vec<String> = words(prompt).rev().take(MAX_PROMPT_WORDS).collect();
        for word in &prompt_words {
            *counts.entry(word).or_default() += 1.0;
        }
        let mut weights = vec![0.0_f32; self.documents];
        let mut counts: Vec<(&str, f32)> = counts.into_iter().collect();
        // Sums of floats depend on their order, and the order of a hash map varies from run to run.
        counts.sort_unstable_by_key(|(word, _)| *word);
        for (word, count) in counts {
            for (index, weight) in self.postings.get(word).into_iter().flatten() {
                weights[*index] += (1.0 + count.ln()) * weight;
            }
        }
        let closest = weights.iter().copied().fold(0.0, f32::max);
        if closest <= 0.0 {
            weights.fill(1.0);
            return weights;
        }
        weights.iter_mut().for_each(|weight| {
            *weight =
                MIN_WEIGHT + (1.0 - MIN_WEIGHT) * (*weight / closest).powi(SIMILARITY_EXPONENT);
        });
        weights
    }
}

fn words(text: &str) -> impl DoubleEndedIterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_lose_only_the_final_line_break() {
        let documents = documents("# head\n%% a b\nfirst\nline\n%% c\nlast\n\n");
        assert_eq!(
            documents,
            [
                Document {
                    prompt: "a b",
                    answer: "first\nline"
                },
                Document {
                    prompt: "c",
                    answer: "last\n"
                }
            ]
        );
        assert!(super::documents(CORPUS).len() > 100);
    }

    #[test]
    fn the_most_similar_document_has_the_largest_weight() {
        let relevance = Relevance::new(&documents(
            "#\n%% about cats\nmeow\n%% about dogs\nwoof woof\n%% about birds\ntweet\n",
        ));
        let weights = relevance.weights("Tell me ABOUT DOGS!");
        assert_eq!(weights[1], 1.0);
        assert!(weights[0] < 0.01 && weights[2] < 0.01, "{weights:?}");
        assert_eq!(relevance.weights("nothing in common"), [1.0; 3]);
        assert_eq!(relevance.weights(""), [1.0; 3]);
    }
}
