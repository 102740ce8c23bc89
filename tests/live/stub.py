"""A server of completions that writes down what it is asked and answers by rule, for `side_by_side.py`.

It speaks as much of vLLM's HTTP interface as a benchmark client needs. An answer depends on the request alone: on a hash of its prompt,
length and constraint and, for clients that ask the same again and again, on how often it has been asked. It knows nothing of the clients.
No token counts are sent, so that each client has to count by its own tokenizer.
"""

import hashlib
import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = "0.32.0"
"""What `/version` says: clients choose the constraint's field by it."""

BODY_LIMIT_BYTES = 16 << 20
"""Longer bodies are refused."""

UNIQUE = re.compile(r"__optional_field_[0-9a-f-]{36}")
"""The member that `json-unique` draws anew for each request; it must not decide what is answered."""

CHUNK_CHARACTERS = 5

WORDS = "river stone lamp over quiet seven Turin chair and of the green window , . to be".split(" ")

ANSWERS = {
    "json": [
        '{"name": "Ada", "email": "ada@example.com"}',
        'Here you are: {"name": "Ada", "email": "ada@example.com"}',
        "{}",
        '{"name": "Ada", "email": ',
        '{"name": "Ada",\n "email": "a b"} and {"more": 1}',
        "[1, 2]",
    ],
    "regex": ["alan@enigma.com\n", "alan@enigma.com\nand more", "alan.turing@enigma.com\n", "alan@enigma.com", "no"],
    "choice": ["Positive", "Negative", "Positive\n", "positive", "Positive."],
    "grammar": ["SELECT col_1 from table_1 where col_2 = 1 ", "SELECT username from users", "SELECT "],
    None: ["Positive", '{"name": "Ada", "email": "ada@example.com"}', "alan@enigma.com\n", "A plain sentence.", "SELECT "],
}
"""Right and wrong answers for each kind of constraint, and for none; the wrong ones are of the sorts that a lax formula lets pass."""


class Request:
    """What a client has posted: when (seconds of a monotonic clock), its `x-request-id` and its body."""

    def __init__(self, at, name, body):
        self.at, self.name, self.body = at, name, body


class Server(ThreadingHTTPServer):
    """Says nothing of clients that reset their connections when they are done."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Stub:
    """The server with its notebook. `varied`: asked the same again, it answers with the next of its answers."""

    def __init__(self, model):
        self.model, self.varied, self.requests, self.asked = model, False, [], {}
        self.lock = threading.Lock()
        self.server = Server(("127.0.0.1", 0), handler(self))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def start_afresh(self, varied):
        with self.lock:
            self.varied, self.requests, self.asked = varied, [], {}

    def stop(self):
        self.server.shutdown()

    def answer(self, name, body):
        """The text for a body, which is written down."""
        asked = [body.get("prompt"), body.get("max_tokens"), body.get("structured_outputs")]
        digest = hashlib.sha256(UNIQUE.sub("unique", json.dumps(asked)).encode()).digest()
        with self.lock:
            self.requests.append(Request(time.monotonic(), name, body))
            before = self.asked.get(digest, 0)
            self.asked[digest] = before + 1
        if not self.varied:
            length = body.get("max_tokens") or 16
            return " ".join(WORDS[digest[i % 32] % len(WORDS)] for i in range(length))
        kinds = [kind for kind in ANSWERS if kind and kind in (body.get("structured_outputs") or {})]
        answers = ANSWERS[kinds[0] if kinds else None]
        return answers[(digest[0] + before) % len(answers)]


def events(model, text):
    """An answer as server-sent events, in vLLM's shape."""
    head = {"id": "cmpl-stub", "object": "text_completion", "created": 0, "model": model}
    pieces = [text[i : i + CHUNK_CHARACTERS] for i in range(0, len(text), CHUNK_CHARACTERS)] or [""]
    for i, piece in enumerate(pieces):
        reason = "stop" if i + 1 == len(pieces) else None
        choice = {"index": 0, "text": piece, "logprobs": None, "finish_reason": reason, "stop_reason": None}
        yield f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def handler(stub):
    """The handler of one stub's connections."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *_):
            pass

        def whole(self, status, value):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            model = {"id": stub.model, "object": "model", "owned_by": "vllm", "root": stub.model, "max_model_len": 4096}
            pages = {"/health": {}, "/version": {"version": VERSION}, "/v1/models": {"object": "list", "data": [model]}}
            page = pages.get(self.path)
            self.whole(200 if page is not None else 404, page if page is not None else {"detail": "Not Found"})

        def do_POST(self):
            length = int(self.headers.get("content-length") or 0)
            if length > BODY_LIMIT_BYTES:
                self.close_connection = True
                return self.whole(413, {"detail": "too long"})
            text = self.rfile.read(length)
            if self.path != "/v1/completions":
                return self.whole(404, {"detail": "Not Found"})
            try:
                body = json.loads(text)
            except ValueError as error:
                return self.whole(400, {"detail": str(error)})
            answer = stub.answer(self.headers.get("x-request-id"), body)
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            for event in events(stub.model, answer):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.write(b"0\r\n\r\n")

    return Handler
