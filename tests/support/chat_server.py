"""A language model on this machine, over HTTP: it speaks the protocol, and its answers follow from the question."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

WORDS = (
    "amber basin cedar delta ember fable grove haven inlet jetty knoll ledge maple north ochre pearl quay ridge".split()
)


def rng(*parts: object) -> random.Random:
    """Chance that is the same for the same parts."""
    return random.Random(hashlib.sha256(repr(parts).encode()).hexdigest())


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choice(WORDS) + str(chance.randrange(90)) for _ in range(6)).capitalize() + "."


def story_in(prompt: str) -> Any:
    """The JSON in a prompt, wherever it begins."""
    start = min(place for place in (prompt.find("\n\n["), prompt.find("\n\n{")) if place >= 0)
    return json.JSONDecoder().raw_decode(prompt, start + 2)[0]


def said(prompt: str, seed: int) -> str:
    """What the model answers. The first word of a story goes on into all that is made of it."""
    chance = rng(prompt, seed)
    if "Choose the sentence" in prompt:
        return json.dumps({"sentence": chance.randint(1, int(prompt.split("from 1 to ")[1].split(":")[0]))})
    if "Give each of the" in prompt:
        count = int(prompt.split("Give each of the ")[1].split()[0])
        return json.dumps({"scores": [round(chance.uniform(0.01, 0.98), 9) for _ in range(count)]})
    story = story_in(prompt)
    if isinstance(story, dict):
        return json.dumps({name: [*section[:-1], sentence(chance)] for name, section in story.items()})
    name = story[0].split()[0]
    if "Write it anew" in prompt:
        made = [f"{name} {sentence(chance)}" for _ in range(4 * len(story))]
    elif "Retell it" in prompt:
        made = [f"{name} {sentence(chance)}" for _ in range(int(prompt.split("in exactly ")[1].split()[0]))]
    else:
        made = [*story[:-1], sentence(chance)]
    return json.dumps({"sentences": made})


def completion(text: object, finish: str = "stop", model: str = "tiny") -> dict[str, Any]:
    """A response of the protocol."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
    }


class Model:
    """What the server does, and what it was asked.

    Attributes:
        answer: what a request gets, by its body and how often it came before: a response (a mapping), a text as HTML,
            or a status with headers.
        slow: seconds before an answer.
        asked: how often each prompt came with each seed.
        bodies, keys: of the requests, in order.
    """

    def __init__(self, answer: Callable[[dict[str, Any], int], Any] | None = None, slow: float = 0.0) -> None:
        self.answer = answer or (lambda body, before: completion(said(prompt_of(body), body.get("seed", 0))))
        self.slow = slow
        self.asked: Counter[tuple[str, int | None]] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answered = self.at_once = self.most_at_once = 0
        self.lock = Lock()
        self.address = ""


def prompt_of(body: dict[str, Any]) -> str:
    (message,) = body["messages"]
    return message["content"]


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    model: Model

    def log_message(self, *arguments):
        pass

    def do_POST(self) -> None:
        model = self.model
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/chat/completions"
        asked = (prompt_of(body), body.get("seed"))
        with model.lock:
            before = model.asked[asked]
            model.asked[asked] += 1
            model.bodies.append(body)
            model.keys.append(self.headers.get("Authorization"))
            model.at_once += 1
            model.most_at_once = max(model.most_at_once, model.at_once)
        time.sleep(model.slow)
        answer = model.answer(body, before)
        status, headers, kind = 200, {}, "application/json"
        if isinstance(answer, tuple):
            status, headers = answer
            content = json.dumps({"error": {"message": f"a fault, for {self.headers.get('Authorization')}"}})
        elif isinstance(answer, str):
            content, kind = answer, "text/html"
        else:
            content = json.dumps(answer)
        with model.lock:
            model.at_once -= 1
            model.answered += status == 200
        data = content.encode()
        try:
            self.send_response(status)
            for name, value in {**headers, "Content-Type": kind, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
        except OSError:
            # Whoever asked was killed.
            self.close_connection = True


class Server(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def handle_error(self, request, client_address):
        """A client that was killed is no error here."""


@contextmanager
def serving(model: Model):
    """The model, served; it knows its address."""
    server = Server(("127.0.0.1", 0), type("ModelHandler", (Handler,), {"model": model}))
    model.address = f"http://127.0.0.1:{server.server_port}/v1"
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
