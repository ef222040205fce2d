"""A fake language model behind an OpenAI-compatible HTTP server; its answers are a function of
prompt and seed."""

from __future__ import annotations

import hashlib
import json
import random
import re
import ssl
import time
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any
from unittest import mock

_ssl_context = cache(ssl.create_default_context)

WORDS = (
    "amber basin cedar delta ember fable grove haven inlet jetty knoll ledge maple north ochre"
    " pearl quay ridge".split()
)


def rng(*parts: object) -> random.Random:
    """A random generator that is seeded with these values."""
    return random.Random(hashlib.sha256(repr(parts).encode()).hexdigest())


def sentence(generator: random.Random) -> str:
    return (
        " ".join(
            generator.choice(WORDS) + str(generator.randrange(90)) for _ in range(6)
        ).capitalize()
        + "."
    )


def story_in(prompt: str) -> Any:
    """The JSON story in a prompt."""
    start = min(index for index in (prompt.find("\n\n["), prompt.find("\n\n{")) if index >= 0)
    return json.JSONDecoder().raw_decode(prompt, start + 2)[0]


def model_answer(prompt: str, seed: int) -> str:
    """A valid answer to a prompt; each sentence of an expansion or twin begins with the first word
    of the story."""
    generator = rng(prompt, seed)
    choice = re.search(r"number of the sentence from (\d+) to (\d+): (.+)$", prompt)
    if choice:
        chosen = generator.randint(int(choice[1]), int(choice[2]))
        summary = {"summary": sentence(generator), "most_important": chosen}
        return json.dumps(summary if "summary" in choice[3] else {"sentence": chosen})
    shares = re.search(
        r"number of votes for each of the sentences (\d+) to (\d+), which add up to 10: ", prompt
    )
    if shares:
        votes = [0] * (int(shares[2]) - int(shares[1]) + 1)
        for _ in range(10):
            votes[generator.randrange(len(votes))] += 1
        return json.dumps({"summary": sentence(generator), "votes": votes})
    rating = re.search(r"Give each of the (\d+) sentences", prompt)
    if rating:
        scores = [round(generator.uniform(0.01, 0.98), 9) for _ in range(int(rating[1]))]
        named = {f"sentence_{number}": score for number, score in enumerate(scores, start=1)}
        return json.dumps(named if '"sentence_1"' in prompt else {"scores": scores})
    story = story_in(prompt)
    if isinstance(story, dict):
        return json.dumps(
            {name: [*section[:-1], sentence(generator)] for name, section in story.items()}
        )
    name = story[0].split()[0]
    if "write it anew" in prompt:
        sentences = [f"{name} {sentence(generator)}" for _ in range(4 * len(story))]
    elif "Retell it" in prompt:
        sentences = [
            f"{name} {sentence(generator)}"
            for _ in range(int(prompt.split("in exactly ")[1].split()[0]))
        ]
    else:
        sentences = [*story[:-1], sentence(generator)]
    return json.dumps({"sentences": sentences})


def completion(text: object, finish: str = "stop", model: str = "tiny") -> dict[str, Any]:
    """A chat completion with this text, as the body of a response."""
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
    """The behaviour of the server, and a record of its requests.

    Attributes:
        answer: the response to a request, as a function of its body and the number of equal
            requests before: a mapping (JSON), a text (HTML), or a status.
        slow: seconds before a response.
        asked: number of requests by prompt and seed.
        bodies, keys: the bodies and authorization headers of the requests, in order.
    """

    def __init__(
        self, answer: Callable[[dict[str, Any], int], Any] | None = None, slow: float = 0.0
    ) -> None:
        self.answer = answer or (
            lambda body, before: completion(model_answer(prompt_of(body), body.get("seed", 0)))
        )
        self.slow = slow
        self.asked: Counter[tuple[str, int | None]] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.lock = Lock()
        self.address = ""


def prompt_of(body: dict[str, Any]) -> str:
    (message,) = body["messages"]
    return message["content"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
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
        time.sleep(model.slow)
        answer = model.answer(body, before)
        status = answer if isinstance(answer, int) else 200
        if status != 200:
            answer = {"error": {"message": "a fault"}}
        content = answer if isinstance(answer, str) else json.dumps(answer)
        kind = "text/html" if isinstance(answer, str) else "application/json"
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content.encode())))
            self.end_headers()
            self.wfile.write(content.encode())
        except OSError:
            # The client was killed.
            self.close_connection = True


class Server(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True

    def handle_error(self, request, client_address):
        """Ignore clients that were killed."""


@contextmanager
def serving(model: Model):
    """Serve the model, whose `address` is set."""
    server = Server(("127.0.0.1", 0), type("ModelHandler", (Handler,), {"model": model}))
    model.address = f"http://127.0.0.1:{server.server_port}/v1"
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        # A client takes a tenth of a second to read certificates, which it does not need here.
        with mock.patch("ssl.create_default_context", _ssl_context):
            yield model
    finally:
        server.shutdown()
        server.server_close()
