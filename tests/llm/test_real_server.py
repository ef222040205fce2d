"""Requests to a real server, `transformers serve` with a random llama, which understands them and
counts tokens.

A random model writes no valid answer, and this server ignores the JSON schema, so every story is
rejected. The test takes a minute and needs packages that no other test needs, so it runs only on
request:

    pip install .[dev,making] "transformers[serving]"
    NARRATIVE_TWINS_REAL_SERVER=1 pytest tests/llm/test_real_server.py
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from narrative_twins.baselines.prompted import prompted_salience
from narrative_twins.baselines.styles import STYLES
from narrative_twins.commands.cli import main
from narrative_twins.llm.answers import Answers
from narrative_twins.llm.server import Server

from support.processes import started, wait_until

MISSING = [
    name
    for name in ("fastapi", "uvicorn", "openai", "rich")
    if importlib.util.find_spec(name) is None
]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("NARRATIVE_TWINS_REAL_SERVER"),
        reason="set NARRATIVE_TWINS_REAL_SERVER=1 to run it",
    ),
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"not installed: {', '.join(MISSING)}; pip install transformers[serving]",
    ),
]


def llama(folder: Path) -> None:
    """A chat model of random weights."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        ByteLevel(add_prefix_space=False),
        ByteLevelDecoder(),
    )
    trainer = BpeTrainer(
        vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(["Once upon a time there was a story."], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    fast.chat_template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
    fast.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(fast),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


@contextmanager
def served(folder: Path):
    """Start the server, and yield its address when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = "from transformers.cli.transformers import main; main()"
    command = sys.executable, "-c", serve, "serve", folder, "--port", port, "--device", "cpu"

    def healthy() -> bool:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
        except OSError:
            return False
        return True

    with open(folder / "log", "wb") as log, started(*command, stdout=log, stderr=log) as process:
        wait_until(healthy, process)
        yield f"http://127.0.0.1:{port}/v1"


def test_real_server(tmp_path, capsys):
    folder = tmp_path / "llama"
    folder.mkdir()
    llama(folder)
    (tmp_path / "story.txt").write_text(
        "Ada lost the {ring}. She cried. A fox found it. It wore it home. Ada laughed."
    )
    out = tmp_path / "twins.jsonl"
    options = [
        "--out",
        str(out),
        "--model",
        str(folder),
        "--max-tokens",
        "200",
        "--attempts",
        "2",
        "--quiet",
    ]
    with served(folder) as url:
        assert main(["make", "twins", str(tmp_path / "story.txt"), "--server", url, *options]) == 1
        answers = [json.loads(line) for line in Path(f"{out}.answers").read_text().splitlines()]
        assert [(row["step"], row["attempt"]) for row in answers] == [
            ("twin, expanded", 0),
            ("twin, expanded", 1),
        ]
        assert all(
            row["prompt_tokens"] > 100 and 0 < row["completion_tokens"] <= 200 for row in answers
        )
        (reject,) = [json.loads(line) for line in Path(f"{out}.rejects").read_text().splitlines()]
        assert (
            "cut off after 200 tokens" in reject["reason"] or "no JSON object" in reject["reason"]
        )
        assert "no rows; 1 story rejected" in capsys.readouterr().err
        server = Server(url, str(folder), max_tokens=8)
        styles = list(STYLES)
        assert (
            prompted_salience(
                ["Ada ran."], server, tmp_path / "a", styles=styles, samples=2, on_error="skip"
            )
            == []
        )
        assert len(Answers(tmp_path / "a")) >= 3, "the model was asked, but no answer was valid"
