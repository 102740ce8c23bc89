//! The dataset `audio`: user-supplied or generated audio to transcribe.
//!
//! A generated clip is a voice-like hum: a triangle wave of changing pitch with four swells per
//! second and some noise, at 16 kHz, one channel, 16 bits, the input format of speech models. It
//! contains no words, so transcripts are meaningless and only latencies count. All arithmetic is on
//! integers, so that a seed gives the same bytes on every machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::file::check_rows;
use super::registry::{ConstraintScope, DatasetKind, Inputs, Spec};
use super::{DatasetArgs, DatasetPlan, Row, Rows, RowsKind, SHIPPED, Shortfall};
use crate::arguments::paths::InputPath;
use sobench_core::audio::Clip;
use sobench_core::case::Prompt;
use sobench_core::error::{Error, Result};
use sobench_core::input::{self, FileSignature};
use sobench_notices::notice::DatasetNotice;
use sobench_pycompat::random::PythonRandom;

/// The largest audio file, in bytes: the limit of OpenAI's reference, and the default of vLLM's
/// `VLLM_MAX_AUDIO_CLIP_FILESIZE_MB`.
pub const MAX_CLIP_BYTES: usize = 25 << 20;
/// The most bytes of all clips of a run together. They are kept in memory twice: as clips and as
/// request bodies.
pub const MAX_CLIPS_BYTES: usize = 1 << 30;
/// The longest generated clip, in seconds.
pub const MAX_AUDIO_SECONDS: f64 = 600.0;

/// The number of different generated clips: enough to miss a server's cache of recent inputs.
const GENERATED_CLIPS: usize = 32;

/// Default length of generated clips, in seconds.
const DEFAULT_AUDIO_SECONDS: f64 = 5.0;

const SAMPLES_PER_S: u32 = 16_000;
const BYTES_PER_SAMPLE: u32 = 2;

/// The flags of `audio`.
#[derive(Args, Clone, Debug, Default)]
pub struct AudioFlags {
    /// Audio files for the audio dataset, sent in turn [default: generated WAV files]
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "audio_seconds")]
    pub audio_path: Vec<InputPath>,
    /// Length of each generated audio file [default: 5]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub audio_seconds: Option<f64>,
}

/// Source of the audio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AudioSource {
    /// Generated WAV files of this length.
    Generated { seconds: f64 },
    /// User-supplied files, in turn.
    Files(Vec<PathBuf>),
}

/// The options of `audio`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AudioPlan {
    pub audio: AudioSource,
}

impl DatasetKind for AudioPlan {
    const SPEC: Spec = Spec {
        flags: &[AudioFlags::augment_args],
        ..Spec::new("audio", ConstraintScope::Unconstrained)
    };

    fn new(flags: &DatasetArgs) -> Result<Self> {
        let options = &flags.audio;
        let audio = if options.audio_path.is_empty() {
            AudioSource::Generated {
                seconds: options.audio_seconds.unwrap_or(DEFAULT_AUDIO_SECONDS),
            }
        } else {
            AudioSource::Files(options.audio_path.iter().cloned().map(Into::into).collect())
        };
        Ok(Self { audio })
    }

    /// One row per clip.
    fn rows(&self, plan: &DatasetPlan, _inputs: &Inputs<'_>) -> Result<Rows> {
        match &self.audio {
            AudioSource::Generated { seconds } => generated(plan, *seconds),
            AudioSource::Files(paths) => {
                let mut rows = Vec::with_capacity(paths.len());
                let mut total = 0;
                for path in paths {
                    let clip = clip(path)?;
                    total += clip.bytes().len();
                    if total > MAX_CLIPS_BYTES {
                        return Err(Error::usage(format!(
                            "the audio files have more than {MAX_CLIPS_BYTES} bytes together"
                        ))
                        .hint("give fewer or shorter files"));
                    }
                    rows.push(Row {
                        name: path.display().to_string(),
                        ..Row::unconstrained(Prompt::Audio(Arc::new(clip)))
                    });
                }
                let source = paths
                    .first()
                    .map_or_else(String::new, |path| path.display().to_string());
                check_rows(rows.len(), &source)?;
                let source = if rows.len() > 1 {
                    format!("{source} and {} more", rows.len() - 1)
                } else {
                    source
                };
                Ok(Rows::new(
                    rows,
                    RowsKind::Collected(Shortfall::RepeatRows),
                    source,
                ))
            }
        }
    }
}

fn clip(path: &Path) -> Result<Clip> {
    let limit = MAX_CLIP_BYTES as u64;
    if std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() > limit) {
        return Err(Error::usage(format!(
            "the audio file has more than {MAX_CLIP_BYTES} bytes: {}",
            path.display()
        ))
        .hint("shorten it, or use a compressed format"));
    }
    // Any audio format is accepted, and files recognised as another format are refused. The start
    // of an MPEG file looks like a byte-order mark of UTF-16.
    input::check_bytes(path, limit, |look| {
        matches!(
            look,
            FileSignature::Nul | FileSignature::Utf16 | FileSignature::Utf32
        )
    })?;
    let bytes = input::read_bytes(path, limit)?;
    if bytes.is_empty() {
        return Err(
            Error::usage(format!("the audio file is empty: {}", path.display()))
                .hint("check that the file is complete"),
        );
    }
    let name = path.file_name().map_or_else(
        || "audio".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    );
    Ok(Clip::new(name, bytes))
}

fn generated(plan: &DatasetPlan, seconds: f64) -> Result<Rows> {
    if !(seconds > 0.0 && seconds <= MAX_AUDIO_SECONDS) {
        return Err(Error::usage(format!(
            "the clip length must be above 0 and at most {MAX_AUDIO_SECONDS} seconds: {seconds}"
        )));
    }
    let samples = (seconds * f64::from(SAMPLES_PER_S)).ceil() as u32;
    let rows = (0..plan.num_prompts.min(GENERATED_CLIPS)).map(|number| {
        let clip = Clip::new(
            format!("generated-{number}.wav"),
            wav(&hum(plan.seed, number as u64, samples)),
        );
        Row {
            name: format!("clip {number}"),
            ..Row::unconstrained(Prompt::Audio(Arc::new(clip)))
        }
    });
    let mut rows = Rows::generated(rows.collect(), SHIPPED);
    rows.notices
        .push(DatasetNotice::GeneratedSound { clip_s: seconds }.into());
    Ok(rows)
}

/// The samples of a clip.
fn hum(seed: u64, number: u64, samples: u32) -> Vec<i16> {
    let mut random = PythonRandom::from_u128(u128::from(seed) << 64 | u128::from(number));
    let mut period = 100;
    let noise =
        |random: &mut PythonRandom| i32::try_from(random.below(1 << 10)).unwrap_or(0) - (1 << 9);
    let (mut phase, mut quiet) = (0, noise(&mut random));
    (0..samples)
        .map(|sample| {
            // One swell: a quarter of a second that fades in and out, at a pitch of 100 to 200 Hz.
            let position = i32::try_from(sample % (SAMPLES_PER_S / 4)).unwrap_or(0);
            if position == 0 {
                period = 80 + i32::try_from(random.below(80)).unwrap_or(0);
            }
            if sample % 16 == 0 {
                quiet = noise(&mut random);
            }
            phase = (phase + 1) % period;
            let triangle = 4 * (phase - period / 2).abs() - period;
            let swell = 2000 - (position - 2000).abs();
            i16::try_from((triangle * 8000 / period) * swell / 2000 + quiet).unwrap_or(0)
        })
        .collect()
}

/// A WAV file of one channel (`RIFF`, `WAVE`, PCM format chunk of 16 bytes, data).
fn wav(samples: &[i16]) -> Vec<u8> {
    let data_bytes = u32::try_from(samples.len())
        .unwrap_or(u32::MAX)
        .saturating_mul(BYTES_PER_SAMPLE);
    let mut bytes = Vec::with_capacity(44 + samples.len() * 2);
    bytes.extend(b"RIFF");
    bytes.extend((36 + data_bytes).to_le_bytes());
    bytes.extend(b"WAVEfmt ");
    bytes.extend(16_u32.to_le_bytes());
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(SAMPLES_PER_S.to_le_bytes());
    bytes.extend((SAMPLES_PER_S * BYTES_PER_SAMPLE).to_le_bytes());
    bytes.extend(2_u16.to_le_bytes());
    bytes.extend(16_u16.to_le_bytes());
    bytes.extend(b"data");
    bytes.extend(data_bytes.to_le_bytes());
    samples
        .iter()
        .for_each(|sample| bytes.extend(sample.to_le_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{plan, rows};
    use crate::dataset::{DatasetName, Source};
    use crate::tokenizer::Tokenizer;

    fn audio_rows(audio: &AudioSource, num_prompts: usize) -> Result<Rows> {
        let source = Source::Audio(AudioPlan {
            audio: audio.clone(),
        });
        rows(
            &DatasetPlan {
                source,
                num_prompts,
                ..plan(DatasetName::Audio)
            },
            &Tokenizer::embedded(),
        )
    }

    fn clips(rows: &Rows) -> Vec<&Clip> {
        rows.rows
            .iter()
            .filter_map(|row| match &row.prompt {
                Prompt::Audio(clip) => Some(&**clip),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn generated_clips_are_distinct_wav_files() {
        let rows = audio_rows(&AudioSource::Generated { seconds: 0.5 }, 3).unwrap();
        let clips = clips(&rows);
        assert_eq!(
            clips
                .iter()
                .map(|clip| clip.bytes().len())
                .collect::<Vec<_>>(),
            [16_044; 3]
        );
        let head: Vec<u8> = clips[0].bytes()[..44].to_vec();
        let field =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        assert_eq!(
            (&head[..4], &head[8..16], &head[36..40]),
            (&b"RIFF"[..], &b"WAVEfmt "[..], &b"data"[..])
        );
        assert_eq!(
            (field(4), field(24), field(28), field(40)),
            (16_036, 16_000, 32_000, 16_000)
        );
        assert!(clips[0].sha256() != clips[1].sha256() && clips[1].sha256() != clips[2].sha256());
        // The bytes must stay the same: results identify the dataset by its hash.
        assert_eq!(
            clips[0].sha256(),
            "3cc3bac7fa4e465491986948a4b72e6a8e0b35a8ffb20308eab85cd923ab721d"
        );
        let loud = clips[0].bytes()[44..]
            .chunks(2)
            .map(|pair| i16::from_le_bytes([pair[0], pair[1]]).unsigned_abs())
            .max();
        assert!(
            loud.is_some_and(|loud| (4_000..20_000).contains(&loud)),
            "{loud:?}"
        );
    }

    #[test]
    fn generated_clips_are_limited_in_number_and_length() {
        let many = audio_rows(&AudioSource::Generated { seconds: 0.01 }, 1000).unwrap();
        assert_eq!(many.rows.len(), GENERATED_CLIPS);
        for seconds in [0.0, -1.0, f64::NAN, f64::INFINITY, MAX_AUDIO_SECONDS + 1.0] {
            assert!(
                audio_rows(&AudioSource::Generated { seconds }, 3).is_err(),
                "{seconds}"
            );
        }
    }

    #[test]
    fn user_files_are_sent_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        };
        let (first, second) = (path("a.mp3", b"sound"), path("b.wav", b"more"));
        let rows = audio_rows(&AudioSource::Files(vec![first.clone(), second]), 3).unwrap();
        let found: Vec<_> = clips(&rows)
            .iter()
            .map(|clip| (clip.name(), clip.media_type(), clip.bytes().to_vec()))
            .collect();
        assert_eq!(
            found,
            [
                ("a.mp3", "audio/mpeg", b"sound".to_vec()),
                ("b.wav", "audio/wav", b"more".to_vec())
            ]
        );
        assert_eq!(rows.source, format!("{} and 1 more", first.display()));

        for (name, bytes, message) in [
            ("empty.wav", vec![], "the audio file is empty"),
            (
                "large.wav",
                vec![0; MAX_CLIP_BYTES + 1],
                "more than 26214400 bytes",
            ),
        ] {
            let error = audio_rows(&AudioSource::Files(vec![path(name, &bytes)]), 3).unwrap_err();
            assert!(
                error.what.contains(message) && error.what.ends_with(name),
                "{error}"
            );
        }
        assert!(audio_rows(&AudioSource::Files(vec![folder.path().join("none.wav")]), 3).is_err());
    }
}
