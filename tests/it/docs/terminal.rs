//! Simulates the user's terminal: a folder with the fixtures of this package, a shell, and servers
//! at the addresses used on pages.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, thread};

use sobench_embedded::{EmbeddedServer, EmbeddedSettings};
use sobench_testkit::repository_path;
use tempfile::TempDir;

use crate::support::cache;

/// The address that pages use for "your server", unless the page starts a server there.
const YOUR_SERVER: &str = "127.0.0.1:8000";

/// Result of a command: printed output and exit code.
pub(super) struct Ended {
    pub(super) printed: String,
    pub(super) code: i32,
}

/// A folder, and the servers by their address on the page.
pub(super) struct Terminal {
    folder: TempDir,
    /// Address on the page and actual address.
    addresses: Vec<(String, String)>,
    background: Vec<Child>,
    your_server: Option<EmbeddedServer>,
}

impl Terminal {
    pub(super) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for shipped in ["fixtures", "schemas"] {
            symlink(repository_path(shipped), folder.path().join(shipped)).unwrap();
        }
        Self {
            folder,
            addresses: Vec::new(),
            background: Vec::new(),
            your_server: None,
        }
    }

    /// Runs a command to its end. A command that ends with `&` is a server; waits until it serves.
    pub(super) fn run(&mut self, command: &str) -> Ended {
        if command.contains(YOUR_SERVER)
            && !self.addresses.iter().any(|(shown, _)| shown == YOUR_SERVER)
        {
            self.start_your_server();
        }
        let command = self
            .addresses
            .iter()
            .fold(command.to_owned(), |text, (shown, real)| {
                text.replace(shown, real)
            });
        if let Some(server) = command.strip_suffix('&') {
            return self.serve(server.trim_end());
        }
        let output = self.shell(&command).output().unwrap();
        let printed = self.as_shown(&String::from_utf8(output.stdout).expect("output is UTF-8"));
        Ended {
            printed,
            code: output.status.code().expect("no signal ended the command"),
        }
    }

    fn start_your_server(&mut self) {
        let options = EmbeddedSettings {
            model: "my-model".to_owned(),
            ..EmbeddedSettings::default()
        };
        let server = EmbeddedServer::start(options).unwrap();
        self.addresses.push((
            YOUR_SERVER.to_owned(),
            server.base_url().trim_start_matches("http://").to_owned(),
        ));
        self.your_server = Some(server);
    }

    /// Starts a server on a free port instead of the given one, and reads the actual address from
    /// its output.
    fn serve(&mut self, command: &str) -> Ended {
        let port = command
            .split_once("--port ")
            .expect("the command has --port")
            .1;
        let port: String = port.chars().take_while(char::is_ascii_digit).collect();
        let moved = command.replace(&format!("--port {port}"), "--port 0");
        let mut server = self
            .shell(&format!("exec {moved}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(server.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let serving = lines
            .next()
            .unwrap_or_else(|| panic!("no output: {command}"));
        let address = serving
            .rsplit_once("http://")
            .unwrap_or_else(|| panic!("no address in: {serving}"))
            .1;
        self.addresses
            .push((format!("127.0.0.1:{port}"), address.to_owned()));
        self.background.push(server);
        // Keep the pipe open, or the server could not write to it.
        thread::spawn(move || lines.for_each(drop));
        Ended {
            printed: self.as_shown(&serving),
            code: 0,
        }
    }

    fn shell(&self, command: &str) -> Command {
        let programs = Path::new(env!("CARGO_BIN_EXE_sobench"))
            .parent()
            .unwrap()
            .to_str()
            .unwrap();
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("exec 2>&1\n{command}")])
            .current_dir(self.folder.path())
            .env(
                "PATH",
                format!("{programs}:{}", env::var("PATH").unwrap_or_default()),
            )
            .env_remove("OPENAI_API_KEY")
            .env("NO_PROXY", "127.0.0.1")
            .env("XDG_CACHE_HOME", cache());
        shell
    }

    /// Replaces actual addresses by those of the page.
    fn as_shown(&self, printed: &str) -> String {
        self.addresses
            .iter()
            .fold(printed.to_owned(), |text, (shown, real)| {
                text.replace(real, shown)
            })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        for server in &mut self.background {
            // Fails if the server has already ended.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
