"""A fake language model behind an OpenAI-compatible HTTP server; its answers are a function of
prompt and seed."""

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
from threading import Lock
from typing import Any
from unittest import mock

from support.server import JsonHandler, served

_ssl_context = cache(ssl.create_default_context)

WORDS = (
    "amber basin cedar delta ember fable grove haven inlet jetty knoll ledge maple ochre".split()
)


def rng(*parts: object) -> random.Random:
    return random.Random(hashlib.sha256(repr(parts).encode()).hexdigest())


def sentence(generator: random.Random) -> str:
    words = [f"{generator.choice(WORDS)}{generator.randrange(90)}" for _ in range(6)]
    return " ".join(words).capitalize() + "."


def story_in(prompt: str) -> Any:
    start = min(index for index in (prompt.find("\n\n["), prompt.find("\n\n{")) if index >= 0)
    return json.JSONDecoder().raw_decode(prompt, start + 2)[0]


def model_answer(prompt: str, seed: int) -> str:
    """A valid answer to a prompt; each sentence of an expansion or twin begins with the first word
    of the story."""
    generator = rng(prompt, seed)
    if choice := re.search(r"number of the sentence from (\d+) to (\d+): (.+)$", prompt):
        number = generator.randint(int(choice[1]), int(choice[2]))
        summary = {"summary": sentence(generator), "most_important": number}
        return json.dumps(summary if "summary" in choice[3] else {"sentence": number})
    if shares := re.search(r"votes for each of the sentences (\d+) to (\d+), which add", prompt):
        count = int(shares[2]) - int(shares[1]) + 1
        places = [generator.randrange(count) for _ in range(10)]
        votes = [places.count(place) for place in range(count)]
        return json.dumps({"summary": sentence(generator), "votes": votes})
    if rating := re.search(r"Give each of the (\d+) sentences", prompt):
        scores = [round(generator.uniform(0.01, 0.98), 9) for _ in range(int(rating[1]))]
        named = {f"sentence_{number}": score for number, score in enumerate(scores, start=1)}
        return json.dumps(named if '"sentence_1"' in prompt else {"scores": scores})
    story = story_in(prompt)
    if isinstance(story, dict):
        return json.dumps({key: [*part[:-1], sentence(generator)] for key, part in story.items()})
    exactly = re.search(r"Retell it.* in exactly (\d+)", prompt, re.S)
    count = 4 * len(story) if "write it anew" in prompt else int(exactly[1]) if exactly else 0
    sentences = [f"{story[0].split()[0]} {sentence(generator)}" for _ in range(count)]
    return json.dumps({"sentences": sentences or [*story[:-1], sentence(generator)]})


def completion(text: object, finish: str = "stop", model: str = "tiny") -> dict[str, Any]:
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


class Handler(JsonHandler):
    model: Model

    def do_POST(self) -> None:
        model, body = self.model, json.loads(self.body())
        assert self.path == "/v1/chat/completions"
        asked = (prompt_of(body), body.get("seed"))
        with model.lock:
            before = model.asked[asked]
            model.asked[asked] += 1
            model.bodies.append(body)
            model.keys.append(self.headers.get("Authorization"))
        time.sleep(model.slow)
        answer = model.answer(body, before)
        if isinstance(answer, str):
            return self.reply(answer.encode(), Content_Type="text/html")
        if isinstance(answer, int):
            return self.reply({"error": {"message": "a fault"}}, answer)
        return self.reply(answer)


@contextmanager
def serving(model: Model):
    # A client takes a tenth of a second to read certificates, which it does not need here.
    with (
        served(Handler, model=model) as address,
        mock.patch("ssl.create_default_context", _ssl_context),
    ):
        model.address = f"{address}/v1"
        yield model
