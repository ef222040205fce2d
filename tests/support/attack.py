"""`make attack`: hostile input to the installed package and to a running page. Prints a table of
attempts and faults.

A fault is an error that is not reported in words: a traceback, a crash, a server error, a file that
was read, sent or overwritten though nobody named it, or input that was accepted though it is
invalid.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import logging
import math
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from narrative_twins import Story, StoryEncoder, StoryError
from narrative_twins.app.connections import SECONDS
from narrative_twins.app.guard import CALL, CANCEL, EVENTS, MAX_BODY
from narrative_twins.commands.cli import main
from narrative_twins.data.labels import story_salience
from narrative_twins.data.rows import RowError, check_twins_row
from narrative_twins.files import AtomicFile
from narrative_twins.hub import encoder_files
from narrative_twins.stories.books.bounded import SECONDS as BOOK_SECONDS
from narrative_twins.stories.books.bounded import read_bounded
from narrative_twins.training.salience_loss import judgments

from support.books import docx, epub, pdf, word_paragraph, xhtml
from support.chat_server import completion
from support.command import run
from support.hostile_checkpoints import SETTINGS, TOKENIZER, WEIGHTS, kernels_asked_for
from support.hostile_requests import (
    BOOK,
    ENDPOINT,
    INVALID_BODIES,
    INVALID_CALLS,
    INVALID_CANCELLATIONS,
    INVALID_EVENT_BODIES,
    INVALID_EVENTS,
    INVALID_SCORES,
    KNOWN_HOSTS,
    OTHER_HOSTS,
    OTHER_PAGES,
    UNKNOWN_CALLS,
    event,
    file_requests,
)
from support.hostile_requests import STORY as STORY_VALUES
from support.models import small
from support.names import OUTPUTS, named_by_bytes
from support.processes import COMMAND, run_command, run_python, started
from support.raw_server import http, raw_server

SECRET = "the secret of the user"
STORY = "Nadia found a map. It led to a mill. The mill was gone."

Fault = str | None
Attempts = Iterator[Fault]
"""For each attempt what went wrong, or None."""


def random_json(rng: random.Random, depth: int = 4) -> object:
    """An arbitrary JSON value with names of columns in it."""
    names = "text sentences windows id story twin twins negative summaries x".split()
    kinds = ["leaf"] * 2 + ["list", "object"] * (depth > 0)
    kind = rng.choice(kinds)
    if kind == "list":
        return [random_json(rng, depth - 1) for _ in range(rng.randrange(4))]
    if kind == "object":
        return {rng.choice(names): random_json(rng, depth - 1) for _ in range(rng.randrange(5))}
    leaves = [None, True, 0, -1, 3, 1.5, 1e308, "", " ", "A b.", "C d. E f.", "\ud800", "\0"]
    return rng.choice([*leaves, "=1+1", "auto"])


def command(*arguments: object, stdin: str = "") -> tuple[int, str, str]:
    """Run a command of the package in this process: exit code, output and errors."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), errors.getvalue()


def reported(result: tuple[int, str, str], code: int = 1) -> Fault:
    """A fault unless a command ended with a code and an error in words."""
    found, _, errors = result
    if found != code:
        return f"exit code {found}: {errors[:200]}"
    return f"traceback: {errors[-300:]}" if "Traceback" in errors or not errors.strip() else None


def stories(folder: Path, encoder: Path) -> Attempts:
    """Arbitrary JSON as stories and rows, in the library and in one run of the command."""
    rng = random.Random(0)
    values = [random_json(rng) for _ in range(1000)]
    for value in values:
        try:
            Story.parse(value)
            yield None
        except StoryError:
            yield None
        except Exception as error:
            yield f"Story.parse: {type(error).__name__} for {value!r:.100}"
        try:
            check_twins_row(value if isinstance(value, dict) else {"story": value}, "row")
            yield None
        except RowError:
            yield None
        except Exception as error:
            yield f"check_twins_row: {type(error).__name__} for {value!r:.100}"
    source = folder / "stories.jsonl"
    source.write_text("".join(json.dumps(value) + "\n" for value in [*values[:200], STORY]))
    code, out, errors = command(
        "score", source, "--model", encoder, "-f", "jsonl", "--operations", "deletion", "-q"
    )
    lines = out.splitlines()
    yield reported((code, out, errors))
    last = json.loads(lines[-1])["sentences"] if lines else []
    yield None if len(last) == 3 else "the last story was not scored"
    works = folder / "works.jsonl"
    works.write_text("".join(json.dumps({"story": v, "twins": [v]}) + "\n" for v in values[:200]))
    align = "make", "align", "--encoder", encoder, "-q", "--out", folder / "aligned.jsonl"
    yield reported(command(*align, works))


def checkpoints(folder: Path, encoder: Path) -> Attempts:
    """Damaged and hostile checkpoints, each by the library and by the command."""
    (folder / "story.txt").write_text(STORY)
    for number, (name, (damage, _)) in enumerate((WEIGHTS | SETTINGS | TOKENIZER).items()):
        damaged = Path(shutil.copytree(encoder, folder / str(number) / "encoder"))
        damage(damaged)
        try:
            StoryEncoder.from_pretrained(damaged, device="cpu")
            yield f"{name}: loaded"
        except (OSError, ValueError) as error:
            yield None if "\n" not in str(error) else f"{name}: more than one line"
        except Exception as error:
            yield f"{name}: {type(error).__name__}"
        yield reported(
            command("score", folder / "story.txt", "--model", damaged, "--device", "cpu", "-q")
        )
        yield f"{name}: code was executed" if (damaged / "executed").exists() else None
    named = Path(shutil.copytree(encoder, folder / "named"))
    asked = kernels_asked_for(named, folder / "stub")
    wanted = ["available", "ignored", "somebody/of_the_user", "asked"]
    yield None if asked == wanted else f"kernels of the Hub: {asked}"


def files(folder: Path, encoder: Path) -> Attempts:
    """Output that is input, locked, linked or full; archives that expand; cells that are
    formulas."""
    score = "score", "--model", encoder, "--operations", "deletion", "-q"
    for name in ("out.jsonl", "out.jsonl.part", "out.jsonl.part.old", "out.jsonl.part.run"):
        (folder / name).write_text(json.dumps(STORY) + "\n")
        yield reported(command(*score, folder / name, "-f", "jsonl", "-o", folder / "out.jsonl"), 2)
        kept = json.loads((folder / name).read_text()) == STORY
        yield None if kept else f"{name} was overwritten"
        (folder / name).unlink()
    (folder / "story.txt").write_text(STORY)
    (folder / "secret").write_text(SECRET)
    (folder / "linked.csv.part").symlink_to(folder / "secret")
    yield reported(command(*score, folder / "story.txt", "-f", "csv", "-o", folder / "linked.csv"))
    yield None if (folder / "secret").read_text() == SECRET else "a linked file was overwritten"
    for name in ("part", "part.run", "part.run.part", "run", "part.old"):
        (linked := folder / f"planted.jsonl.{name}").symlink_to(folder / "secret")
        command(*score, folder / "story.txt", "-o", folder / "planted.jsonl")
        yield None if (folder / "secret").read_text() == SECRET else f"{linked} was followed"
        for path in folder.glob("planted*"):
            path.unlink()
    names = "_manifest.part _manifest.part.run _manifest.run _scores-00001.parquet.part".split()
    for name in names:
        (corpus := folder / f"corpus of {name}").mkdir()
        (corpus / name).symlink_to(folder / "secret")
        (folder / "two.jsonl").write_text(f"{json.dumps(STORY)}\n" * 2)
        rows = "--shard-rows", 1, "-o", corpus
        command("corpus", folder / "two.jsonl", *score[1:], *rows)
        yield None if (folder / "secret").read_text() == SECRET else f"{name} was followed"
    (corpus := folder / "deep").mkdir()
    (corpus / "_manifest").write_text("[" * 100_000 + "\n")
    (corpus / "_manifest.run").write_text("[" * 100_000)
    yield reported(command("corpus", folder / "two.jsonl", *score[1:], "-o", corpus), 2)
    for name in ("part", "part.run", "part.run.part"):
        os.mkfifo(folder / f"piped.jsonl.{name}")
        # A pipe would be waited for, for ever.
        code, _, errors = command(*score, folder / "story.txt", "-o", folder / "piped.jsonl")
        yield None if code in (0, 1) and "Traceback" not in errors else errors[-300:]
        for path in folder.glob("piped*"):
            path.unlink()
    (folder / "loop.json").symlink_to("loop.json")
    yield reported(command(*score, folder / "story.txt", "-o", folder / "loop.json"))
    (folder / "twice.csv").write_text("text,text\nA b.,C d.\n")
    yield reported(command(*score, folder / "twice.csv"))
    for form in ("csv", "jsonl", "html"):
        with AtomicFile(str(folder / "locked")):
            yield reported(
                command(*score, folder / "story.txt", "-f", form, "-o", folder / "locked")
            )
    yield reported(command(*score, folder / "story.txt", "-o", "/dev/full"))
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("a.json", "w") as file:
            for _ in range(300):
                file.write(b" " * 1_000_000)
    align = "make", "align", "--encoder", encoder, "-q", "--out", folder / "b.jsonl"
    yield reported(command(*align, folder / "bomb.zip"))
    for text in ("=1+1", "+1", "-1", "@A1", "\tx", "\rx", "＝1+1", "＋1", "－1", "＠A1"):
        (folder / "cells.jsonl").write_text(json.dumps({"id": text, "sentences": [text, "A b."]}))
        out = command(*score, folder / "cells.jsonl", "-f", "csv")[1]
        rows = list(csv.reader(io.StringIO(out, newline="")))
        yield None if rows[1][0] == rows[1][5] == f"'{text}" else f"a formula in csv: {rows[1]}"


def names(folder: Path, encoder: Path) -> Attempts:
    """Names of files that are not UTF-8."""
    story, missing = named_by_bytes(folder)
    score = "--model", encoder, "-q"
    for name, outputs in OUTPUTS.items():
        for out in outputs:
            done = run_command(COMMAND, name, story, "-o", folder / out, *score)
            yield f"{name} to {out!r}: {done.stderr}" if done.returncode else None
            yield None if (folder / out).exists() else f"{name} did not write {out!r}"
        yield reported(command(name, missing, "-o", folder / f"2{outputs[0]}", *score))
    (folder / "m\udcff").symlink_to(encoder)
    yield reported(command("score", story, "--model", folder / "m\udcff", "-q"))


def streams(folder: Path, encoder: Path) -> Attempts:
    """Streams of the installed command that are full, closed, endless or its own output."""
    (folder / "story.txt").write_text(STORY)
    score = f"{COMMAND} score --model {encoder} --operations deletion -q"
    show = f"{COMMAND} show --format jsonl"
    begun = run_command("sh", "-c", f"{score} {folder}/story.txt --out {folder}/a.jsonl")
    yield None if begun.returncode == 0 else begun.stderr
    saved = (folder / "a.jsonl").read_bytes()
    lines = {
        f"{score} {folder}/story.txt > /dev/full": 1,
        f"{show} {folder}/a.jsonl >&-": 1,
        f"{show} - <&-": 1,
        f"{show} - --out {folder}/a.jsonl < {folder}/a.jsonl": 2,
        f"ulimit -v 4000000; {show} /dev/zero": 1,
    }
    for line, code in lines.items():
        done = run_command("sh", "-c", line)
        yield reported((done.returncode, done.stdout, done.stderr), code)
    done = run_command("sh", "-c", f"{show} {folder}/a.jsonl --out /dev/stdout 2>&- | cat")
    yield None if done.stdout.encode() == saved else "/dev/stdout is not written"
    yield None if (folder / "a.jsonl").read_bytes() == saved else "what is read was overwritten"


def terminals(folder: Path, encoder: Path) -> Attempts:
    """Control characters in saved scores and names; numbers that no figure can show."""
    row: dict[str, object] = {"context_tokens": 512, "cut_tokens": 0, "windows": [[0, 2]]}
    for char in map(chr, (*range(1, 9), *range(14, 32), *range(127, 160), 0x202E, 0x2066)):
        text = f"a{char}b"
        sentences = {"sentences": [text, "C d."], "spans": [[0, 3], [4, 8]]}
        (folder / "a.jsonl").write_text(
            json.dumps(row | sentences | {"id": text, "scores": {text: [0.5, 0.25]}})
        )
        for form in ("text", "csv", "jsonl", "json", "extract"):
            shown = run("show", folder / "a.jsonl", "-f", form, terminal=True)
            # Colours are of the table.
            out = re.sub(r"\x1b\[[\d;]*m", "", shown.out) if form == "text" else shown.out
            yield f"{form}: {char!r} reaches the terminal" if char in out + shown.err else None
        shown = run("show", folder / text, terminal=True)
        yield f"{char!r} reaches the terminal by a name" if char in shown.err else None
    for values in ([1e308, -1e308], [1e308, 1e308]):
        scores = {"scores": {"deletion": values}, "sentences": ["A b.", "C d."]}
        (folder / "a.jsonl").write_text(json.dumps(row | scores | {"spans": [[0, 4], [5, 9]]}))
        for form in ("text", "csv", "html"):
            yield reported(command("show", folder / "a.jsonl", "-f", form))


def books(folder: Path, encoder: Path) -> Attempts:
    """Books that readers would need hours or gigabytes for are read or reported in time."""
    note = "<a href='#a'>y</a>"
    chain = "<w:style w:styleId='s{0}'><w:name w:val='n'/><w:basedOn w:val='s{1}'/></w:style>"
    styles = "".join(chain.format(n, n + 1) for n in range(20_000))
    links = "".join(f"<li><a href='c.xhtml#i{n}'>{n}</a></li>" for n in range(120_000))
    places = "".join(f"<i id='i{n}'>x</i>" for n in range(120_000))
    nav = xhtml(f"<nav epub:type='toc'><ol>{links}</ol></nav>")
    attempts = {
        "notes.html": f"<p>He ran. {note * 500_000}</p>".encode(),
        "labels.epub": epub({"nav.xhtml": nav, "c.xhtml": xhtml(f"<p>{places}</p>")}),
        "styles.docx": docx(word_paragraph("A b.", "s0") * 100_000, None, styles),
        "attributes.html": f"<p {' '.join(f'a{n}=1' for n in range(200_000))}>A b.</p>".encode(),
        "wide.html": "<p>Über.</p>".encode("utf-32"),
    }
    for name, data in attempts.items():
        began = time.monotonic()
        with contextlib.suppress(ValueError):
            read_bounded(name, data, lambda: None)
        spent = time.monotonic() - began
        yield f"{name}: {spent:.0f} seconds" if spent > BOOK_SECONDS + 10 else None
    (folder / "chapters.md").write_text("# A\n\nA b.\n\n" * 2_000)
    began = time.monotonic()
    options = "--model", encoder, "--operations", "deletion", "-q"
    yield None if command("book", folder / "chapters.md", *options)[0] == 0 else "not scored"
    spent = time.monotonic() - began
    yield f"2,000 chapters: {spent:.0f} seconds" if spent > 2 * BOOK_SECONDS else None


def memory(folder: Path, encoder: Path) -> Attempts:
    """The peak memory of a process that scores long texts, and of one that refuses a longer one."""
    for size in (1_000_000, 6_000_000, 64_000_000):
        (folder / "dots.txt").write_text("." * size)
        peak = run_python("-c", _PEAK, str(folder / "dots.txt"), str(encoder))
        yield f"{size:,} dots: {peak} MB" if int(peak) > 1500 else None
    # Some kilobytes that are 30 MB of ASCII85.
    stream = zlib.compress(b"z" * 30_000_000 + b"~>")
    (folder / "ascii85.pdf").write_bytes(
        pdf(stream, options=" /Filter [/FlateDecode /ASCII85Decode]")
    )
    peak = run_python("-c", _PEAK, str(folder / "ascii85.pdf"), str(encoder))
    yield f"a PDF file: {peak} MB" if int(peak) > 1500 else None


_PEAK = """
import resource, sys
from narrative_twins.commands.cli import main
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
    main(["score", sys.argv[1], "--model", sys.argv[2], "--fast", "--operations", "deletion", "-q"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000)
"""


def makers(folder: Path, encoder: Path) -> Attempts:
    """Servers of a language model that drip, flood, redirect, nest or lie."""
    (folder / "story.txt").write_text(
        "Ada lost a ring. She cried. A fox found it. It wore it home. Ada laughed."
    )
    usage = {"prompt_tokens": 10**30, "completion_tokens": -5}
    kind = "Content-Type: application/json"
    answers = {
        "nested": http(b"[" * 100_000, kind),
        "no JSON": http(b"<p>", "Content-Type: text/html"),
        "other types": http(json.dumps(completion("x") | {"choices": 5}).encode(), kind),
        "absurd usage": http(json.dumps(completion("x") | {"usage": usage}).encode(), kind),
        "redirect": http(b"", "Location: http://127.0.0.1:9/v1", status="307 Temporary Redirect"),
        "large": http(b" " * 17_000_000, kind),
    }

    def drip(connection, closing) -> None:
        connection.sendall(http(b" " * 1000, kind)[:-1000])
        while not closing.wait(0.05):
            connection.sendall(b" ")

    responders = {
        name: lambda c, _, data=data: c.sendall(data) for name, data in answers.items()
    } | {"drip": drip}
    for name, respond in responders.items():
        with raw_server(respond) as address:
            out = folder / f"{name}.jsonl"
            options = ["--server", address, "--model", "tiny", "--retries", 0, "--timeout", 1]
            options += ["--attempts", 1, "-q"]
            fault = reported(command("make", "twins", folder / "story.txt", "--out", out, *options))
            yield fault and f"{name}: {fault}"
    for address in (
        "http://localhost:99999/v1",
        "http://[::1/v1",
        "file:///etc/passwd",
        "http://user:pw@host/v1",
        "http://host/v1\x1b[31m",
    ):
        options = "--server", address, "--model", "tiny", "-q"
        yield reported(
            command("make", "twins", folder / "story.txt", "--out", folder / "o.jsonl", *options)
        )


def votes(folder: Path, encoder: Path) -> Attempts:
    """Labels of any kind and size, to train on and to evaluate on."""
    rng = random.Random(1)
    numbers = [0, 1, True, -1, 5e-324, 1e-50, 1e30, 1e308, 10**400, math.nan, math.inf, "1", None]
    for _ in range(300):
        labels = [rng.choice(numbers) for _ in range(3)]
        row = {"story": ["A b.", "C d.", "E f."], "labels": labels}
        try:
            total = sum(judgments(row, "row"))
            yield None if math.isfinite(total) else f"votes to train on: {labels}"
        except RowError:
            yield None
        except Exception as error:
            yield f"judgments: {type(error).__name__} for {labels}"
        try:
            story_salience(row, "row")
            yield None
        except RowError:
            yield None
        except Exception as error:
            yield f"story_salience: {type(error).__name__} for {labels}"


def pushes(folder: Path, encoder: Path) -> Attempts:
    """Files next to an encoder that must not be pushed."""
    (folder / "secret").write_text(SECRET)
    names = ".env vocab.env 9_private/keys.json 1_Pooling/keys.json optimizer.pt rows.jsonl".split()
    names += "secret.safetensors a.model LICENSE.key checkpoint-5/model.safetensors".split()
    names += ["training_args.bin"]
    for number, name in enumerate(names):
        copied = Path(shutil.copytree(encoder, folder / str(number)))
        (copied / name).parent.mkdir(parents=True, exist_ok=True)
        (copied / name).write_text(SECRET)
        yield f"{name} is pushed" if name in encoder_files(copied, "a/b") else None
    for name in ("tokenizer.json", "1_Pooling/config.json", "LICENSE"):
        copied = Path(shutil.copytree(encoder, folder / name.replace("/", "-")))
        (copied / name).unlink(missing_ok=True)
        (copied / name).symlink_to(folder / "secret")
        try:
            encoder_files(copied, "a/b")
            yield f"{name}: a link out of the folder is pushed"
        except ValueError:
            yield None


def page(folder: Path, encoder: Path) -> Attempts:
    """A running page, as in a network: `narrative-twins app --host 0.0.0.0 --allow-host
    stories.example`."""
    (secret := folder / "secret.txt").write_text(SECRET)
    options = ["--host", "0.0.0.0", "--allow-host", "stories.example", "--port", 0]
    options += ["--model", encoder]
    pipes = {"stdout": subprocess.PIPE, "stderr": open(folder / "errors", "w")}
    with started(COMMAND, "app", *options, **pipes) as process:
        port = process.stdout.readline().split()[4].rstrip("/").rsplit(":", 1)[1]
        address = f"http://localhost:{port}"
        with httpx.Client(base_url=address, trust_env=False, timeout=60) as client:
            yield from _requests(client, str(secret))
            answer = client.post(EVENTS, json=event(session="last"))
            lives = process.poll() is None and answer.status_code == 200
            yield None if lives else "the page is no longer served"
            with client.stream("GET", "/gradio_api/queue/data?session_hash=last") as stream:
                messages = "".join(stream.iter_lines())
            yield None if "1 sentence, 1 window." in messages else "stories are no longer scored"
            yield from _slow_requests(int(port))
            yield from _slow_book(client, process)
    errors = (folder / "errors").read_text()
    yield f"the server printed {errors[:200]}" if "Traceback" in errors else None


def _slow_requests(port: int) -> Attempts:
    """Requests that do not arrive; each is closed in time, and others are answered meanwhile."""
    begin = b"POST /gradio_api/queue/join HTTP/1.1\r\nHost: localhost\r\n"
    stalled = []
    for sent in [b"", b"GET / HT", begin, begin + b"Content-Length: 9\r\n\r\n{"] * 50:
        stalled.append(connection := socket.create_connection(("localhost", port)))
        connection.sendall(sent)
    began = time.monotonic()
    answer = httpx.get(f"http://localhost:{port}/favicon.ico", timeout=20, trust_env=False)
    yield None if answer.status_code < 500 else "no answer while requests are stalled"
    for connection in stalled:
        connection.settimeout(max(0.1, began + 2 * SECONDS - time.monotonic()))
        try:
            yield f"a stalled request got {said!r}" if (said := connection.recv(9)) else None
        except ConnectionError:
            yield None
        except TimeoutError:
            yield "a stalled request is still open"
        connection.close()


def _slow_book(client: httpx.Client, process: subprocess.Popen[str]) -> Attempts:
    """A book that is read for long: others are scored meanwhile, and Ctrl-C ends the page."""
    text = base64.b64encode(b"A b. " * 1_900_000).decode()
    values = [f"a.txt\n{text}", ["sentence"], "one pass"]
    client.post(EVENTS, json=event(BOOK, values, "book")).raise_for_status()
    with client.stream("GET", "/gradio_api/queue/data?session_hash=book") as stream:
        lines = stream.iter_lines()
        found = any("Reading the book" in line for line in lines)
        yield None if found else "the book is not read"
        client.post(EVENTS, json=event(session="short")).raise_for_status()
        with client.stream("GET", "/gradio_api/queue/data?session_hash=short") as other:
            scored = "1 sentence, 1 window." in "".join(other.iter_lines())
            yield None if scored else "no story is scored while a book is read"
        process.send_signal(signal.SIGINT)
        try:
            process.wait(10)
            yield None
        except subprocess.TimeoutExpired:
            yield "Ctrl-C does not end the page while a book is read"


def _requests(client: httpx.Client, secret: str) -> Attempts:
    def refused(
        method: str, path: str, codes: tuple[int, ...] = (403, 404, 405, 422), **options
    ) -> Fault:
        answer = client.request(method, path, **options)
        if SECRET in answer.text:
            return f"{method} {path} returned the secret"
        return None if answer.status_code in codes else f"{method} {path}: {answer.status_code}"

    for method, path, options in file_requests(secret):
        yield refused(method, path, **options)
    yield refused("GET", "/", (200,), headers={"origin": "http://[::1"})
    yield refused("GET", "/static/" + "a" * 9000, (404,))
    for host in KNOWN_HOSTS:
        yield refused("GET", "/", (200,), headers={"host": host})
    for host in filter(None, OTHER_HOSTS):
        # The machine's own address is a known host of a server at all addresses.
        yield refused("GET", "/", (403,), headers={"host": host})
        yield refused("POST", EVENTS, (403,), json=event(), headers={"host": host})
    for headers in OTHER_PAGES:
        yield refused("POST", EVENTS, (403,), json=event(), headers=headers)
    for body in INVALID_EVENTS:
        yield refused("POST", EVENTS, (422,), json=body)
    for values in INVALID_SCORES:
        yield refused("POST", EVENTS, (422,), json=event(ENDPOINT, values))
    for body in INVALID_CANCELLATIONS:
        yield refused("POST", CANCEL, (422,), json=body)
    for body in INVALID_CALLS:
        yield refused("POST", CALL, (422,), json=body)
    for headers in OTHER_PAGES:
        yield refused("POST", CALL, (403,), json={"data": STORY_VALUES}, headers=headers)
    for name in UNKNOWN_CALLS:
        yield refused("GET", f"{CALL}/{name}", (404,))
        yield refused("POST", f"{CALL}/{name}", (404,), json={"data": STORY_VALUES})
    yield refused("GET", CALL, (404,))
    for method in ("PUT", "DELETE", "OPTIONS", "PATCH"):
        yield refused(method, EVENTS, (404, 405))
        yield refused(method, CALL, (404, 405))
    rng = random.Random(0)
    for _ in range(300):
        number = rng.choice([0, 1, 2, 3, ENDPOINT, random_json(rng)])
        body = {"fn_index": number, "data": random_json(rng), "session_hash": "a"}
        content = json.dumps(rng.choice([body, random_json(rng)]))
        yield refused("POST", EVENTS, (200, 422), content=content)
        yield refused("POST", CALL, (422,), content=content)
    for path, bodies in ((EVENTS, INVALID_EVENT_BODIES), (CALL, INVALID_BODIES)):
        for content in bodies:
            yield refused("POST", path, (422,), content=content)
        yield refused("POST", path, (413,), content=b" " * (MAX_BODY + 1))


SURFACES: dict[str, Callable[[Path, Path], Attempts]] = {
    "stories and rows": stories,
    "checkpoints": checkpoints,
    "files": files,
    "names of files": names,
    "standard streams": streams,
    "terminals": terminals,
    "books": books,
    "memory": memory,
    "language-model servers": makers,
    "votes": votes,
    "pushes": pushes,
    "web page": page,
}


def attack() -> int:
    """Attack all surfaces; returns the number of faults."""
    logging.disable(logging.WARNING)
    faults: list[str] = []
    print(f"{'surface':<24}{'attempts':>10}{'faults':>8}{'seconds':>9}")
    with tempfile.TemporaryDirectory() as scratch:
        encoder = Path(scratch) / "encoder"
        small("bert").save_pretrained(encoder)
        for name, surface in SURFACES.items():
            (folder := Path(scratch) / surface.__name__).mkdir()
            began, before, count = time.monotonic(), len(faults), 0
            for fault in surface(folder, encoder):
                count += 1
                faults += [f"{name}: {fault}"] if fault else []
            print(
                f"{name:<24}{count:>10}{len(faults) - before:>8}{time.monotonic() - began:>9.0f}",
                flush=True,
            )
    print("\n".join(faults))
    return len(faults)


if __name__ == "__main__":
    sys.exit(1 if attack() else 0)
