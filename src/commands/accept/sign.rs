//! Signs a file with the public tools: `ssh-keygen -Y` (OpenSSH), or minisign.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sobench_core::error::{Error, Result};
use sobench_core::input;

/// The largest file of a key.
const MAX_BYTES: u64 = 1 << 16;

/// The namespace of signatures by `ssh-keygen`.
pub(super) const NAMESPACE: &str = "sobench";

/// A private key.
pub(super) struct Key {
    path: PathBuf,
    tool: Tool,
}

#[derive(Clone, Copy)]
enum Tool {
    SshKeygen,
    Minisign,
}

impl Key {
    /// # Errors
    /// The file is no private key, or its program is not installed.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = input::read_text(path, MAX_BYTES)?;
        let first = text.lines().next().unwrap_or_default();
        let tool = match () {
            () if first.starts_with("-----BEGIN ") && first.contains("PRIVATE KEY") => {
                Tool::SshKeygen
            }
            () if first.contains("minisign") && first.contains("secret key") => Tool::Minisign,
            () => {
                return Err(Error::usage(format!("no private key: {}", path.display()))
                    .hint("give a private key of ssh-keygen or of minisign"));
            }
        };
        let key = Self {
            path: path.to_owned(),
            tool,
        };
        let found = Command::new(key.program())
            // No command of either program: it prints its usage.
            .arg("-?")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.map_err(|error| {
            Error::environment(format!("cannot run {}: {error}", key.program()))
                .hint("install it, or leave out --sign-key")
        })?;
        Ok(key)
    }

    fn program(&self) -> &'static str {
        match self.tool {
            Tool::SshKeygen => "ssh-keygen",
            Tool::Minisign => "minisign",
        }
    }

    /// The file of the signature of a file.
    pub(super) fn signature(&self, file: &Path) -> PathBuf {
        let extension = match self.tool {
            Tool::SshKeygen => "sig",
            Tool::Minisign => "minisig",
        };
        PathBuf::from(format!("{}.{extension}", file.display()))
    }

    /// Signs a file. Returns a line with the command that verifies it.
    ///
    /// # Errors
    /// The program fails.
    pub(super) fn sign(&self, file: &Path) -> Result<String> {
        let mut command = Command::new(self.program());
        let (arguments, verify): (&[&str], _) = match self.tool {
            Tool::SshKeygen => (
                &["-q", "-Y", "sign", "-n", NAMESPACE, "-f"],
                format!(
                    "ssh-keygen -Y verify -f ALLOWED_SIGNERS -I SIGNER -n {NAMESPACE} -s {0}.sig < {0}",
                    file.display()
                ),
            ),
            Tool::Minisign => (
                &["-S", "-s"],
                format!("minisign -V -p PUBLIC_KEY -m {}", file.display()),
            ),
        };
        let signature = self.signature(file);
        if signature.exists() {
            std::fs::remove_file(&signature).map_err(|error| {
                Error::environment(format!("cannot replace {}: {error}", signature.display()))
            })?;
        }
        command.args(arguments).arg(&self.path);
        if matches!(self.tool, Tool::Minisign) {
            command.arg("-m");
        }
        // A passphrase is asked on the terminal, and an error is said there.
        let status = command.arg(file).stdout(Stdio::null()).status();
        let status = status.map_err(|error| {
            Error::environment(format!("cannot run {}: {error}", self.program()))
        })?;
        if !status.success() || !signature.exists() {
            let what = format!("{} does not sign {}", self.program(), file.display());
            return Err(Error::environment(what).hint("its message is above; check the key"));
        }
        Ok(format!(
            "signed: {}\nhint: verify it with {verify}",
            signature.display()
        ))
    }
}
