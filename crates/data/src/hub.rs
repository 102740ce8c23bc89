//! Downloads files of the Hugging Face Hub through its local cache, with the crate hf-hub.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};

use sobench_core::error::{Error, Result};
use sobench_core::input::list_files;
use sobench_core::secrets;
use sobench_notices::notice::{DatasetNotice, Notice};

/// The longest time for one fetch, all its files together.
pub const HUB_TIMEOUT: Duration = Duration::from_secs(600);
/// The largest downloaded file, in bytes.
pub const MAX_HUB_FILE_BYTES: usize = 1 << 30;
/// The most files fetched from one repository.
pub const MAX_HUB_FILES: usize = 256;

/// The requested branch.
const REVISION: &str = "main";
const DEFAULT_ENDPOINT: &str = "https://huggingface.co";

/// Address of the Hub, access token and cache folder.
#[derive(Clone, PartialEq, Eq)]
pub struct HubSettings {
    /// Base address, without a trailing slash.
    pub endpoint: String,
    pub token: Option<String>,
    /// The folder that holds one folder per repository. `None` if the environment names neither a
    /// cache nor a home folder.
    pub cache: Option<PathBuf>,
    /// Use only files from the cache.
    pub offline: bool,
}

impl HubSettings {
    /// Reads the same variables as `huggingface_hub`: `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH`,
    /// `HF_HOME`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE`, `XDG_CACHE_HOME`. Without a token variable, the
    /// token is read from the file that `hf auth login` writes.
    #[expect(
        clippy::disallowed_methods,
        reason = "the settings of the Hub are its environment"
    )]
    pub fn from_env() -> Self {
        Self::from_lookup(|name| std::env::var(name).ok())
    }

    /// [`Self::from_env`], with the environment as a function from names to values.
    pub fn from_lookup(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| {
            variable(name)
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let home = set("HF_HOME").map(PathBuf::from).or_else(|| {
            let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
            let caches = caches.or_else(|| {
                Some(Path::new(&set("HOME").or_else(|| set("USERPROFILE"))?).join(".cache"))
            });
            Some(caches?.join("huggingface"))
        });
        let token_file = set("HF_TOKEN_PATH")
            .map(PathBuf::from)
            .or_else(|| Some(home.as_ref()?.join("token")));
        let token_in_file = || {
            let text = std::fs::read_to_string(token_file?).ok()?;
            Some(text.trim().to_owned()).filter(|token| !token.is_empty())
        };
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let offline = set("HF_HUB_OFFLINE").is_some_and(|value| {
            ["1", "ON", "YES", "TRUE"]
                .iter()
                .any(|yes| value.eq_ignore_ascii_case(yes))
        });
        let token = set("HF_TOKEN").or_else(token_in_file);
        token.iter().for_each(|token| secrets::register(token));
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token,
            cache: set("HF_HUB_CACHE")
                .map(PathBuf::from)
                .or_else(|| Some(home?.join("hub"))),
            offline,
        }
    }
}

impl fmt::Debug for HubSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let token = self.token.as_ref().map(|_| "(redacted)");
        f.debug_struct("HubSettings")
            .field("endpoint", &self.endpoint)
            .field("token", &token)
            .field("cache", &self.cache)
            .field("offline", &self.offline)
            .finish()
    }
}

/// Kind of repository. The same id may name a model and a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepoKind {
    Model,
    Dataset,
}

impl RepoKind {
    fn name(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "dataset",
        }
    }

    fn repo(self, id: &str, revision: &str) -> Repo {
        let kind = match self {
            Self::Model => RepoType::Model,
            Self::Dataset => RepoType::Dataset,
        };
        Repo::with_revision(id.to_owned(), kind, revision.to_owned())
    }
}

/// Cached files of one commit of a repository.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// The commit's hash.
    pub commit: String,
    /// Names within the repository and their local paths, in the order in which they were chosen.
    pub files: Vec<(String, PathBuf)>,
    /// A notice for the user, for example that the Hub was unreachable and the cache was used.
    pub notice: Option<Notice>,
}

/// Whether the text is a valid repository id: `name` or `owner/name`.
pub fn is_repo_id(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = part
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.'));
        !part.is_empty() && is_plain && !part.starts_with(['.', '-']) && !part.contains("..")
    };
    text.split('/').count() <= 2 && text.split('/').all(is_part)
}

/// Fetches the files of the newest commit that `choose` selects from all file names. Files in the
/// cache are not fetched again. If the Hub is unreachable, the cached commit is used and the
/// snapshot carries a notice.
///
/// # Errors
/// The Hub refuses the request, sends an invalid response or takes longer than [`HUB_TIMEOUT`], or
/// the cache is needed and has no such repository.
pub fn fetch(
    settings: &HubSettings,
    kind: RepoKind,
    id: &str,
    choose: impl Fn(&[String]) -> Vec<String> + Send + 'static,
) -> Result<Snapshot> {
    let (sender, receiver) = mpsc::channel();
    let (settings, id) = (settings.clone(), id.to_owned());
    let requested = format!("{} {id}", kind.name());
    // The hf-hub client has no time limit and panics on some responses. A separate thread contains
    // both.
    std::thread::spawn(move || {
        let hub = Hub { settings, kind, id };
        // Fails only after the receiver has timed out.
        let _ = sender.send(hub.snapshot(&choose));
    });
    receiver.recv_timeout(HUB_TIMEOUT).unwrap_or_else(|error| {
        let message = match error {
            mpsc::RecvTimeoutError::Timeout => format!(
                "the hub did not send the {requested} in {} s",
                HUB_TIMEOUT.as_secs()
            ),
            mpsc::RecvTimeoutError::Disconnected => {
                format!("the hub client failed on the response for the {requested}")
            }
        };
        Err(Error::environment(message).hint("use a local copy (--dataset-path, --tokenizer)"))
    })
}

struct Hub {
    settings: HubSettings,
    kind: RepoKind,
    id: String,
}

/// A failed request to the Hub. Only `Unreachable` falls back to the cache.
enum Failure {
    Unreachable(String),
    Final(Error),
}

impl Hub {
    fn snapshot(&self, choose: &dyn Fn(&[String]) -> Vec<String>) -> Result<Snapshot> {
        if self.settings.offline {
            return self.cached(choose)?.ok_or_else(|| {
                Error::environment(format!("offline, and not in the cache: {} {}", self.kind.name(), self.id)).hint(
                    "unset HF_HUB_OFFLINE once to fill the cache, set HF_HOME to a cache that has the repository, or use a local copy",
                )
            });
        }
        match self.online(choose) {
            Ok(snapshot) => Ok(snapshot),
            Err(Failure::Final(error)) => Err(error),
            Err(Failure::Unreachable(message)) => match self.cached(choose)? {
                Some(mut snapshot) => {
                    let commit = snapshot
                        .commit
                        .get(..12)
                        .unwrap_or(&snapshot.commit)
                        .to_owned();
                    let (hub, repository) = (self.settings.endpoint.clone(), self.id.clone());
                    snapshot.notice = Some(
                        DatasetNotice::CachedCopy {
                            hub,
                            repository,
                            commit,
                        }
                        .into(),
                    );
                    Ok(snapshot)
                }
                None => Err(self.unreachable(&message)),
            },
        }
    }

    fn online(
        &self,
        choose: &dyn Fn(&[String]) -> Vec<String>,
    ) -> std::result::Result<Snapshot, Failure> {
        let cache = self.cache().map_err(Failure::Final)?;
        let api = self.api(&cache).map_err(|error| self.failure(&error))?;
        let info = api
            .repo(self.kind.repo(&self.id, REVISION))
            .info()
            .map_err(|error| self.failure(&error))?;
        let names: Vec<String> = info
            .siblings
            .into_iter()
            .map(|file| file.rfilename)
            .collect();
        let chosen = choose(&names);
        for name in chosen.iter().map(String::as_str).chain([info.sha.as_str()]) {
            self.check_name(name).map_err(Failure::Final)?;
        }
        if chosen.len() > MAX_HUB_FILES {
            return Err(Failure::Final(self.invalid_response(&format!(
                "more than {MAX_HUB_FILES} files: {}",
                chosen.len()
            ))));
        }
        let repo = api.repo(self.kind.repo(&self.id, &info.sha));
        let folder = cache
            .repo(self.kind.repo(&self.id, REVISION))
            .pointer_path(&info.sha);
        let mut files = Vec::new();
        for name in chosen {
            let cached = folder.join(&name);
            let path = if cached.exists() {
                cached
            } else {
                self.download(&api, &repo, &name)?
            };
            files.push((name, path));
        }
        // Python's client and offline runs look up a branch by this file.
        cache
            .repo(self.kind.repo(&self.id, REVISION))
            .create_ref(&info.sha)
            .map_err(|error| self.failure(&ApiError::IoError(error)))?;
        Ok(Snapshot {
            commit: info.sha,
            files,
            notice: None,
        })
    }

    fn download(
        &self,
        api: &Api,
        repo: &ApiRepo,
        name: &str,
    ) -> std::result::Result<PathBuf, Failure> {
        let metadata = api
            .metadata(&repo.url(name))
            .map_err(|error| self.failure(&error))?;
        if metadata.size() > MAX_HUB_FILE_BYTES {
            let message = format!(
                "{name} is larger than {MAX_HUB_FILE_BYTES} bytes: {}",
                metadata.size()
            );
            return Err(Failure::Final(self.invalid_response(&message)));
        }
        // Both become file names in the cache.
        self.check_name(metadata.etag()).map_err(Failure::Final)?;
        self.check_name(metadata.commit_hash())
            .map_err(Failure::Final)?;
        repo.download(name).map_err(|error| self.failure(&error))
    }

    /// The cached files of the branch, if any.
    fn cached(&self, choose: &dyn Fn(&[String]) -> Vec<String>) -> Result<Option<Snapshot>> {
        let cache = self.cache()?;
        let repo = self.kind.repo(&self.id, REVISION);
        let reference = cache
            .path()
            .join(repo.folder_name())
            .join("refs")
            .join(REVISION);
        let Ok(commit) = std::fs::read_to_string(reference) else {
            return Ok(None);
        };
        let commit = commit.trim().to_owned();
        let folder = cache.repo(repo).pointer_path(&commit);
        let listed = if folder.is_dir() {
            list_files(&folder)?
        } else {
            Vec::new()
        };
        let files: Vec<_> = choose(&listed)
            .into_iter()
            .map(|name| (name.clone(), folder.join(name)))
            .collect();
        Ok(if files.is_empty() {
            None
        } else {
            Some(Snapshot {
                commit,
                files,
                notice: None,
            })
        })
    }

    fn cache(&self) -> Result<Cache> {
        let folder = self.settings.cache.clone();
        folder.map(Cache::new).ok_or_else(|| {
            Error::environment("no folder for the hub cache")
                .hint("set HF_HOME, or use a local copy")
        })
    }

    fn api(&self, cache: &Cache) -> std::result::Result<Api, ApiError> {
        ApiBuilder::from_cache(cache.clone())
            .with_endpoint(self.settings.endpoint.clone())
            .with_token(self.settings.token.clone())
            .with_progress(false)
            .build()
    }

    /// Refuses file names that would leave the cache folder: names come from a server and become
    /// paths.
    fn check_name(&self, name: &str) -> Result<()> {
        let is_below = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        if is_below && !name.is_empty() && !name.contains('\\') {
            Ok(())
        } else {
            Err(self.invalid_response(&format!("unsafe file name {name:?}")))
        }
    }

    fn invalid_response(&self, message: &str) -> Error {
        Error::environment(format!(
            "invalid hub response for the {} {}: {message}",
            self.kind.name(),
            self.id
        ))
        .hint(format!(
            "check HF_ENDPOINT, which is {}",
            self.settings.endpoint
        ))
    }

    fn unreachable(&self, message: &str) -> Error {
        let message = format!(
            "cannot reach {} for the {} {}: {message}",
            self.settings.endpoint,
            self.kind.name(),
            self.id
        );
        let flag = match self.kind {
            RepoKind::Dataset => "--dataset-path with a local file",
            RepoKind::Model => "--tokenizer with a local folder",
        };
        Error::environment(message).hint(format!(
            "without a network, use {flag}, or set HF_HOME to a cache that has the repository; set HF_ENDPOINT to use a mirror"
        ))
    }

    fn failure(&self, error: &ApiError) -> Failure {
        let (kind, id) = (self.kind.name(), &self.id);
        match error {
            ApiError::RequestError(request) => match **request {
                ureq::Error::StatusCode(401 | 403) => Failure::Final(
                    Error::environment(format!("the hub refuses access to the {kind} {id}"))
                        .hint("check the id; if it is private or gated, set HF_TOKEN to a token that may read it"),
                ),
                ureq::Error::StatusCode(404) => Failure::Final(
                    Error::usage(format!("no such {kind}, or no such file in it, on the hub: {id}"))
                        .hint(format!("check the id, and HF_ENDPOINT, which is {}", self.settings.endpoint)),
                ),
                ureq::Error::StatusCode(status) => Failure::Unreachable(format!("status {status}")),
                ureq::Error::Json(_) => Failure::Final(self.invalid_response("not a repository listing")),
                ref other => Failure::Unreachable(other.to_string()),
            },
            ApiError::IoError(error) => Failure::Final(
                Error::environment(format!("cannot store the {kind} {id} in the hub cache: {error}"))
                    .hint("set HF_HOME to a folder that can be written"),
            ),
            other => Failure::Final(self.invalid_response(&other.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        variables: &[(&str, &str)],
        endpoint: &str,
        token: Option<&str>,
        cache: Option<&str>,
        offline: bool,
    ) {
        let settings = HubSettings::from_lookup(|name| {
            variables
                .iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| (*value).to_owned())
        });
        let (token, cache) = (token.map(str::to_owned), cache.map(PathBuf::from));
        assert_eq!(
            settings,
            HubSettings {
                endpoint: endpoint.to_owned(),
                token,
                cache,
                offline
            }
        );
    }

    #[test]
    fn reads_the_same_environment_variables_as_pythons_client() {
        check(&[], DEFAULT_ENDPOINT, None, None, false);
        check(
            &[("HOME", "/none"), ("HF_HUB_OFFLINE", "0")],
            DEFAULT_ENDPOINT,
            None,
            Some("/none/.cache/huggingface/hub"),
            false,
        );
        check(
            &[("HOME", "/none"), ("XDG_CACHE_HOME", "/x")],
            DEFAULT_ENDPOINT,
            None,
            Some("/x/huggingface/hub"),
            false,
        );
        check(
            &[
                ("HF_ENDPOINT", "http://mirror/"),
                ("HF_TOKEN", " t\n"),
                ("HF_HOME", "/h"),
                ("HF_HUB_OFFLINE", "true"),
            ],
            "http://mirror",
            Some("t"),
            Some("/h/hub"),
            true,
        );
        check(
            &[
                ("HF_HOME", "/h"),
                ("HF_HUB_CACHE", "/c"),
                ("HF_ENDPOINT", ""),
            ],
            DEFAULT_ENDPOINT,
            None,
            Some("/c"),
            false,
        );
    }

    #[test]
    fn token_file_is_used_without_a_token_variable() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("token"), "from-file\n").unwrap();
        let folder = home.path().to_str().unwrap();
        let hub = home.path().join("hub");
        check(
            &[("HF_HOME", folder)],
            DEFAULT_ENDPOINT,
            Some("from-file"),
            hub.to_str(),
            false,
        );
        check(
            &[("HF_HOME", folder), ("HF_TOKEN", "own")],
            DEFAULT_ENDPOINT,
            Some("own"),
            hub.to_str(),
            false,
        );
        let shown = format!(
            "{:?}",
            HubSettings::from_lookup(|name| (name == "HF_HOME").then(|| folder.to_owned()))
        );
        assert!(
            shown.contains("redacted") && !shown.contains("from-file"),
            "{shown}"
        );
    }

    #[test]
    fn repository_ids_differ_from_paths() {
        for id in ["gpt2", "NousResearch/json-mode-eval", "a/b.c_d-1"] {
            assert!(is_repo_id(id), "{id}");
        }
        for path in [
            "", "/", "a/b/c", "./a", "../a", "a/..", "a b", "~/a", "a//b", "/a", "a/", "C:\\a",
        ] {
            assert!(!is_repo_id(path), "{path}");
        }
    }
}
