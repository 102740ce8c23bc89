"""Starts vLLM's server for `side_by_side.py` and ends it with all that it has started. Knows nothing of clients."""

import os
import shlex
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

STOP_LIMIT_S = 30
"""How long the server may take to end by itself before it is killed."""


class NotReady(Exception):
    """The server ended, or was not ready in time; the text shows its last words."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`vllm serve MODEL` in a process group of its own, for the time of a `with`; its URL is the value."""

    def __init__(self, vllm, model, port, extra, limit_s, log):
        self.url = f"http://127.0.0.1:{port or free_port()}"
        self.limit_s, self.log, self.process = limit_s, log, None
        self.command = [vllm, "serve", model, "--host", "127.0.0.1", "--port", self.url.rsplit(":", 1)[1], *shlex.split(extra)]

    def __enter__(self):
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            self.wait()
        except BaseException:
            self.stop()
            raise
        return self.url

    def __exit__(self, *_):
        self.stop()

    def wait(self):
        deadline = time.monotonic() + self.limit_s
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise NotReady(f"vllm serve ended with code {self.process.returncode}:\n{self.last_words()}")
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        raise NotReady(f"vllm serve was not ready after {self.limit_s} s:\n{self.last_words()}")

    def stop(self):
        """Asks the server to end, then ends its whole group: workers outlive a server that was killed."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                break
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                pass

    def last_words(self):
        with open(self.log, "rb") as log:
            return log.read()[-2000:].decode(errors="replace")
