//! A stand-in for the reader's terminal: a folder with this package's fixtures in it, a shell that
//! finds the program, and servers at the addresses that pages use. Knows no page.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::{env, thread};

use sobench_embedded::{EmbeddedOptions, EmbeddedServer};
use sobench_testkit::in_package;
use tempfile::TempDir;

use crate::support::cache;

/// The address that pages use for "your server", unless they start one there themselves.
const YOUR_SERVER: &str = "127.0.0.1:8000";

/// What a command left behind: stdout and stderr as they came, and the exit code.
pub(super) struct Ended {
    pub(super) printed: String,
    pub(super) code: i32,
}

/// A folder, and who answers at which address of the page.
pub(super) struct Terminal {
    folder: TempDir,
    /// Address of the page, and the real one.
    addresses: Vec<(String, String)>,
    background: Vec<Child>,
    your_server: Option<EmbeddedServer>,
}

impl Terminal {
    pub(super) fn open() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for shipped in ["fixtures", "schemas"] {
            symlink(in_package(shipped), folder.path().join(shipped)).unwrap();
        }
        Self {
            folder,
            addresses: Vec::new(),
            background: Vec::new(),
            your_server: None,
        }
    }

    /// Types a command and waits for its end; one that ends with `&` is a server, and is waited for
    /// until it serves.
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
        let printed =
            self.as_shown(&String::from_utf8(output.stdout).expect("what is printed is UTF-8"));
        Ended {
            printed,
            code: output.status.code().expect("the command ended by itself"),
        }
    }

    fn start_your_server(&mut self) {
        let options = EmbeddedOptions {
            model: "my-model".to_owned(),
            ..EmbeddedOptions::default()
        };
        let server = EmbeddedServer::start(options).unwrap();
        self.addresses.push((
            YOUR_SERVER.to_owned(),
            server.base_url().trim_start_matches("http://").to_owned(),
        ));
        self.your_server = Some(server);
    }

    /// Starts a server at any free port in place of the one that is typed, and reads from what it
    /// says where that is.
    fn serve(&mut self, command: &str) -> Ended {
        let port = command
            .split_once("--port ")
            .expect("a server in the background is given a port")
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
            .unwrap_or_else(|| panic!("it says nothing: {command}"));
        let address = serving
            .rsplit_once("http://")
            .unwrap_or_else(|| panic!("it does not say where it serves: {serving}"))
            .1;
        self.addresses
            .push((format!("127.0.0.1:{port}"), address.to_owned()));
        self.background.push(server);
        // A server whose reader is gone could not say anything more.
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

    /// With the addresses of the page in place of the real ones.
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
            // One that has ended by itself cannot be ended again.
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}
