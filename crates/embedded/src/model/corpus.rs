//! What the synthetic model has read, and how close a prompt is to what each document of it was
//! asked. Knows neither tokens nor requests.

use std::collections::HashMap;

/// The embedded corpus; its first lines say how it is laid out.
pub(super) const CORPUS: &str = include_str!("corpus.txt");

/// Words at the end of a prompt that the model remembers.
const REMEMBERED_WORDS: usize = 512;

/// Share of attention that a document gets however far it is from the prompt.
const FLOOR: f32 = 0.002;

/// How much more a close document counts than a distant one: the exponent of its similarity.
const FOCUS: i32 = 4;

/// One thing that was asked, and the answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Document<'a> {
    pub(super) question: &'a str,
    pub(super) answer: &'a str,
}

/// The documents of a corpus text, in order.
pub(super) fn documents(corpus: &str) -> Vec<Document<'_>> {
    corpus
        .split("\n%% ")
        .skip(1)
        .filter_map(|document| document.split_once('\n'))
        .map(|(question, answer)| Document {
            question,
            answer: answer.strip_suffix('\n').unwrap_or(answer),
        })
        .collect()
}

/// How close prompts are to documents' questions: cosine of word counts weighted by inverse
/// document frequency, as in Salton's vector space model.
pub(super) struct Relevance {
    /// For each word, the documents it is in with its weight there.
    postings: HashMap<String, Vec<(usize, f32)>>,
    documents: usize,
}

impl Relevance {
    pub(super) fn new(documents: &[Document<'_>]) -> Self {
        let mut postings: HashMap<String, Vec<(usize, f32)>> = HashMap::new();
        for (index, document) in documents.iter().enumerate() {
            for word in words(document.question) {
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
                *weight /= squares[*index].sqrt().max(f32::MIN_POSITIVE)
            });
        }
        Self {
            postings,
            documents: documents.len(),
        }
    }

    /// One weight a document, the closest 1 and none below [`FLOOR`]; all 1 where the prompt has no
    /// word in common with any.
    pub(super) fn weights(&self, prompt: &str) -> Vec<f32> {
        let mut counts: HashMap<&str, f32> = HashMap::new();
        let remembered: Vec<String> = words(prompt).rev().take(REMEMBERED_WORDS).collect();
        for word in &remembered {
            *counts.entry(word).or_default() += 1.0;
        }
        let mut weights = vec![0.0_f32; self.documents];
        let mut counts: Vec<(&str, f32)> = counts.into_iter().collect();
        // Sums of floats depend on their order, and the order of a hash map on the run.
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
        weights
            .iter_mut()
            .for_each(|weight| *weight = FLOOR + (1.0 - FLOOR) * (*weight / closest).powi(FOCUS));
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
    fn documents_keep_all_but_one_line_break() {
        let documents = documents("# head\n%% a b\nfirst\nline\n%% c\nlast\n\n");
        assert_eq!(
            documents,
            [
                Document {
                    question: "a b",
                    answer: "first\nline"
                },
                Document {
                    question: "c",
                    answer: "last\n"
                }
            ]
        );
        assert!(super::documents(CORPUS).len() > 100);
    }

    #[test]
    fn the_closest_document_counts_most() {
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
