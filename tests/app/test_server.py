"""The served page: which hosts it answers to, its endpoint `/score` by gradio's client and by plain
HTTP, books that are uploaded, downloads, and the command. No request reads a file."""

import contextlib
import io
import json
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest

from narrative_twins import score_stories
from narrative_twins.app.scoring import Scoring
from narrative_twins.app.server import MAX_FILE, POLICY, application
from narrative_twins.commands.cli import main
from narrative_twins.show.formats import write_results

from support.books import WRITERS, WrittenChapter
from support.processes import COMMAND, LIMIT, started, wait_until
from support.scoring import assert_same_result

pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")

from narrative_twins.app.page import ScoringPage  # noqa: E402

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "scoring.md").read_text(encoding="utf-8")
SECRET = "the secret of the server"
TALE = "Nadia found a map. It led to a mill. The mill was gone. She laughed until it got dark."
CALL = "/gradio_api/call/score"


@contextlib.contextmanager
def served(app):
    import uvicorn

    config = uvicorn.Config(app, ws="none", log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        yield f"http://localhost:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join(LIMIT)


@pytest.fixture(scope="module")
def page(bert_folder, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GRADIO_TEMP_DIR", str(tmp_path_factory.mktemp("uploads")))
        yield ScoringPage(Scoring(bert_folder, max_sentences=6))


@pytest.fixture(scope="module")
def address(page):
    with served(application(page, ["stories.example"])) as address:
        yield address


@pytest.fixture(scope="module")
def http(address):
    import httpx

    with httpx.Client(base_url=address, trust_env=False, timeout=LIMIT) as client:
        yield client


@pytest.fixture(scope="module")
def client(address, tmp_path_factory):
    from gradio_client import Client

    client = Client(address, verbose=False, download_files=tmp_path_factory.mktemp("files"))
    yield client
    client.close()


def event(http, number, values, session="abc"):
    """Post an event as a browser does, and return what becomes of it."""
    body = {"fn_index": number, "data": values, "session_hash": session}
    answer = http.post("/gradio_api/queue/join", json=body)
    if answer.status_code != 200:
        return answer.text
    with http.stream("GET", f"/gradio_api/queue/data?session_hash={session}") as stream:
        return "\n".join(line for line in stream.iter_lines() if line.startswith("data: "))


def number_of(http, name):
    events = http.get("/config").json()["dependencies"]
    return next(each["id"] for each in events if each["api_name"].startswith(name))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost", 200), ("LOCALHOST:80", 200), ("127.0.0.1:7860", 200), ("[::1]:7860", 200)),
        *(("Stories.Example:443", 200), ("evil.com", 400), ("localhost.evil.com", 400)),
        *(("localhost@evil.com", 400), ("192.168.1.7:7860", 400), ("", 400)),
    ],
)
def test_only_known_hosts_are_answered(http, host, status):
    assert http.get("/config", headers={"host": host}).status_code == status
    answer = http.post(CALL, json={"data": [TALE]}, headers={"host": host})
    assert answer.status_code == status


def test_the_page_has_one_endpoint_and_nothing_from_elsewhere(http):
    for path in ("/", "/theme.css", "/download/nothing.json"):
        assert http.get(path).headers["content-security-policy"] == POLICY
    assert "http" not in POLICY and "*" not in POLICY
    config = http.get("/config").json()
    assert not config["analytics_enabled"] and not config["run_history"]
    public = [
        each["api_name"] for each in config["dependencies"] if each["api_visibility"] == "public"
    ]
    assert public == ["score"]
    urls = re.findall(r"url\((.{6})", http.get("/theme.css").text)
    assert all(url.startswith(("data:", '"data:')) for url in urls)


def test_building_the_page_uses_no_network(page, monkeypatch):
    requested = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: requested.append(host) or [])
    monkeypatch.setattr(socket.socket, "connect", lambda self, address: requested.append(address))
    application(ScoringPage(page.scoring))
    time.sleep(0.2)
    assert requested == []


def test_no_request_reads_a_file(http, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text(f"This is {SECRET}. It rained.", "utf-8")
    file = {"path": str(secret), "meta": {"_type": "gradio.FileData"}}
    count = len(http.get("/config").json()["dependencies"])
    for number in range(count):
        for values in ([file], [[file]], [file, ["chapter", "sentence"], "one pass"]):
            assert SECRET not in event(http, number, values)
    for values in ([file], [[file]], [TALE, [file]]):
        call = http.post(CALL, json={"data": values})
        assert SECRET not in call.text + http.get(f"{CALL}/{call.json()['event_id']}").text
    for target in ("file=", "file/", "proxy=file://", "static/"):
        for prefix in ("/gradio_api/", "/"):
            assert SECRET not in http.get(f"{prefix}{target}{secret}").text, target
    assert SECRET not in http.get(f"/static/%2e%2e/%2e%2e{secret}").text


def test_a_book_is_uploaded_scored_and_downloaded(http, page):
    chapters = [WrittenChapter("Chapter 1: The Map", ["Nadia found a map. It rained."], [])]
    files = {"files": ("tale.epub", WRITERS["book3.epub"]("A Tale", chapters))}
    (path,) = http.post("/gradio_api/upload", files=files).json()
    file = {"path": path, "orig_name": "tale.epub", "meta": {"_type": "gradio.FileData"}}
    shown = event(http, number_of(http, "book_scored"), [file, ["chapter", "sentence"], "one pass"])
    assert "1 chapter, 1 scene, 2 sentences" in shown and "The Map" in shown
    (link,) = set(re.findall(r"download/[\w-]+\.json", shown))
    assert json.loads(http.get(f"/{link}").text)["levels"] == ["chapter", "sentence"]
    files = {"files": ("tale.txt", b"a" * (MAX_FILE + 1))}
    assert http.post("/gradio_api/upload", files=files).status_code == 413


def test_downloads_are_the_output_of_the_formats(page, http, bert_folder):
    (result,) = score_stories([TALE], bert_folder)
    token = page.scoring.keep(result)
    for form in ("json", "csv", "html", "svg"):
        answer = http.get(f"/download/{token}.{form}")
        assert answer.headers["content-disposition"] == f"attachment; filename=salience.{form}"
        pieces = write_results([result], form)
        data = b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
        assert answer.content == data
    for name in ("nothing.json", f"{token}.exe", f"{token}.text", token):
        assert http.get(f"/download/{name}").status_code == 404


def test_the_result_by_the_client_is_that_of_the_library(client, bert_folder):
    options = {"operations": ["deletion"], "windows": "2, 2", "method": "exact"}
    found = client.predict(TALE, **options, api_name="/score")
    (result,) = score_stories([TALE], bert_folder, operations=["deletion"], windows=[2, 2])
    assert_same_result(found, result.json())


def test_errors_are_those_of_the_page(client, capfd):
    """A function of a module, which commands take as a splitter, is none here."""
    for split in ("words", "os:system"):
        with pytest.raises(Exception, match=f"='{split}': choose 'auto', 'sentences', 'lines"):
            client.predict(TALE, split=split, api_name="/score")
    assert "Traceback" not in "".join(capfd.readouterr())


def test_plain_http_as_in_the_guide(http, bert_folder):
    """The two commands of curl in the guide, by another client."""
    post = r"^\$ curl -X POST http://127.0.0.1:7860(\S+) .*?-d '(.*?)'$"
    body = re.search(post, GUIDE, re.M | re.S)
    read = re.search(r"^\$ curl -N http://127.0.0.1:7860(\S+)/EVENT_ID$", GUIDE, re.M)
    headers = {"content-type": "application/json"}
    answer = http.post(body[1], content=body[2], headers=headers).json()
    stream = http.get(f"{read[1]}/{answer['event_id']}")
    assert stream.headers["content-type"].startswith("text/event-stream")
    (data,) = re.findall(r"^event: complete\ndata: (.*)\n\n", stream.text, re.M)
    (found,), story = json.loads(data), json.loads(body[2])["data"][0]
    (expected,) = score_stories([story], bert_folder, approximate="one-pass")
    assert_same_result(found, expected.json())
    answer = http.post(CALL, json={"data": [" ", None, "auto", "one pass", "sentences"]}).json()
    stream = http.get(f"{CALL}/{answer['event_id']}").text
    assert stream.startswith("event: error") and "There is no story yet" in stream


@pytest.mark.slow
def test_the_command_serves_the_example_of_the_guide_until_ctrl_c():
    """Also while it scores a story."""
    ((code, shown),) = re.findall(
        r"^```python\n(from gradio_client .*?)^```\n+```text\n(.*?)^```", GUIDE, re.S | re.M
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(COMMAND, "app", "--port", "0", **pipes) as process:
        address = process.stdout.readline().split()[4]
        printed, names = io.StringIO(), {}
        code = code.replace("http://127.0.0.1:7860", address)
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "docs/scoring.md", "exec"), names)
        assert printed.getvalue() == shown
        names["client"].submit("It rained. " * 400, method="exact", api_name="/score")
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=LIMIT)
        names["client"].close()
    assert (process.returncode, out, errors) == (130, "", "narrative-twins: interrupted\n")


def test_the_command_names_what_is_wrong(bert_folder, capsys, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["app", "--model", bert_folder, "--port", str(port)]) == 1
    assert f"can't listen at port {port} of 127.0.0.1" in capsys.readouterr().err
    built = []
    monkeypatch.setattr(
        "narrative_twins.app.server.serve", lambda build, *args, **options: built.append(build())
    )
    assert main(["app", "--model", bert_folder, "--exact", "--max-sentences", "30"]) == 0
    assert (built[0].method, built[0].scoring.max_sentences) == ("exact", 30)
