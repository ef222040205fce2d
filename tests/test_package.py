"""The distributions for a package index: what they contain and say, and the package installed from
one of them."""

import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

import narrative_twins

import distributions
from distributions import SOURCES, checked_repository, with_public_links
from support.processes import LIMIT, run_command, run_python, started

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/USER/narrative_twins"
BLOB, RAW = f"{REPOSITORY}/blob/v1", f"{REPOSITORY}/raw/v1"
VERSION = narrative_twins.__version__
NAME = f"narrative_twins-{VERSION}"

QUICK_START = """
import socket

def no_network(*arguments, **options):
    raise AssertionError("the network was used")

socket.socket.connect = socket.getaddrinfo = socket.create_connection = no_network

import sys

import narrative_twins
new = {name.split(".")[0] for name in sys.modules}
heavy = new & {"torch", "transformers", "huggingface_hub", "numpy", "scipy", "accelerate", "yaml", "tqdm"}
assert not heavy, heavy

from transformers import pipeline
import transformers.pipelines
before = set(sys.modules)
import narrative_twins.commands.score
new = {name.split(".")[0] for name in set(sys.modules) - before}
heavy = new & {"sentence_transformers", "datasets", "pyarrow", "pandas", "sklearn", "evaluate", "matplotlib"}
assert not heavy, heavy
assert "scipy.stats" not in set(sys.modules) - before

salience = pipeline("narrative-salience")
result = salience("Omar cleaned a window. A man cried. Omar wrote a word.")
print(narrative_twins.__file__, len(result["scores"]["deletion"]))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    before = sorted(os.listdir(ROOT))
    paths = distributions.build(ROOT, tmp_path_factory.mktemp("dist"), REPOSITORY)
    assert sorted(os.listdir(ROOT)) == before
    return paths


def is_of_the_repository(name: str) -> bool:
    """Whether a name in the top folder is neither git's nor in `.gitignore`."""
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    return name not in (".git", "PKG-INFO") and not any(
        fnmatch(name, line.strip("/")) for line in lines
    )


@pytest.mark.slow
def test_contents_of_the_distributions(built, tmp_path):
    """The source has all files of the repository but the research; the wheel all modules and data of the package
    and its templates of cards, and nothing else."""
    wheel, sdist = built
    assert (wheel.name, sdist.name) == (f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz")
    top = set(filter(is_of_the_repository, os.listdir(ROOT)))
    assert top - {"research"} == set(SOURCES), "SOURCES, MANIFEST.in: new names"
    tree = distributions.copy_sources(ROOT, tmp_path / "tree")
    files = {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}
    with tarfile.open(sdist) as archive:
        inside = {member.name.removeprefix(f"{NAME}/") for member in archive if member.isfile()}
    added = {file for file in inside if file.startswith("narrative_twins.egg-info/")}
    assert inside - added - {"PKG-INFO"} == files

    names = zipfile.ZipFile(wheel).namelist()
    assert any(file.endswith("licenses/LICENSE") for file in names)
    expected = {file for file in files if file.startswith("narrative_twins/")}
    expected |= {f"narrative_twins/{file}" for file in files if file.startswith("hub_cards/")}
    assert {file for file in names if file.startswith("narrative_twins/")} == expected


@pytest.mark.slow
def test_metadata_of_the_distributions(built):
    wheel, sdist = built
    with tarfile.open(sdist) as archive, zipfile.ZipFile(wheel) as files:
        texts = [
            archive.extractfile(f"{NAME}/PKG-INFO").read(),
            files.read(f"{NAME}.dist-info/METADATA"),
        ]
    for metadata in map(email.message_from_bytes, texts):
        addresses = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
        assert list(addresses) == ["Source", "Documentation", "Changelog", "Issues"]
        assert addresses["Changelog"] == f"{REPOSITORY}/blob/v{VERSION}/CHANGELOG.md"
        assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier")
        description = metadata.get_payload(decode=True).decode()
        targets = re.findall(r"\]\(([^)]+)\)", description)
        assert len(targets) > 10 and all(re.match("https://|#", target) for target in targets)
        assert f"({REPOSITORY}/raw/v{VERSION}/docs/haunted_stable.png)" in description


@pytest.mark.slow
def test_the_quick_start_from_an_installed_package(built, tmp_path):
    """Importing uses no network and adds no heavy imports; the default encoder needs no network
    either."""
    target = tmp_path / "site"
    options = ["--no-deps", "--no-index", "--quiet", "--target", target]
    run_python("-m", "pip", "install", *options, built[0])
    environment = os.environ | {"PYTHONPATH": str(target), "HF_HUB_OFFLINE": "1"}
    out = run_python("-c", QUICK_START, cwd=tmp_path, env=environment)
    assert out.split() == [str(target / "narrative_twins" / "__init__.py"), "3"]


@pytest.mark.slow
def test_the_space_starts_from_an_installed_wheel(built, tmp_path):
    """In an environment with the libraries of this one, but without this package's folder."""
    pytest.importorskip("gradio", reason="gradio is not installed: .[demo]")
    import httpx

    run_python("-m", "venv", "--without-pip", tmp_path / "env")
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run_command(python, "-c", where).stdout.strip())
    libraries = [path for path in sys.path if Path(path).name == "site-packages"]
    (packages / "libraries.pth").write_text("\n".join(libraries))
    options = ["--no-deps", "--no-index", "--quiet", "--target", packages]
    run_python("-m", "pip", "install", *options, built[0])
    (space := tmp_path / "app.py").write_bytes((ROOT / "examples" / "app.py").read_bytes())
    installed = "import narrative_twins; print(narrative_twins.__file__)"
    assert str(packages) in run_command(python, "-c", installed, cwd=tmp_path).stdout
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HF_HUB_OFFLINE": "1", "GRADIO_SERVER_PORT": "0", "PYTHONUNBUFFERED": "1"}
    options = {"stdout": subprocess.PIPE, "env": environment, "cwd": tmp_path}
    with started(python, space, **options) as process:
        port = process.stdout.readline().strip(" /\n").rpartition(":")[2]
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=LIMIT
        ) as http:
            assert "Narrative salience" in http.get("/").text
            call = "/gradio_api/call/score"
            story = "Omar cleaned a window. A man cried. Omar wrote a word."
            values = [story, None, "auto", "one pass", "sentences"]
            event = http.post(call, json={"data": values}).json()["event_id"]
            assert http.get(f"{call}/{event}").text.startswith("event: complete")


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("[Guide](./docs/a.md#the-end)", f"[Guide]({BLOB}/docs/a.md#the-end)"),
        ('[a](a.md "Title"), [b](b.md)', f'[a]({BLOB}/a.md "Title"), [b]({BLOB}/b.md)'),
        ("[![a](a.png)](a.md)", f"[![a]({RAW}/a.png)]({BLOB}/a.md)"),
        ("[a](https://example.com/a.md) [a](#anchor) `x[demo]` (docs/a.md)", None),
        ("```python\nlist[a](b)\n```\n", None),
        ("```text\n[a](b)\n```\n[a](b)\n", f"```text\n[a](b)\n```\n[a]({BLOB}/b)\n"),
    ],
)
def test_relative_links_lead_to_the_repository(text, public):
    assert with_public_links(text, REPOSITORY, "v1") == (text if public is None else public)


def test_addresses_of_repositories(capsys):
    for end in ("", "/", ".git"):
        assert checked_repository(REPOSITORY + end) == REPOSITORY
    others = "USER/{0} git@github.com:USER/{0}.git https://user:word@github.com/USER/{0} https:///USER/{0}"
    for address in ("", f"{REPOSITORY}/tree/main", *others.format("narrative_twins").split()):
        with pytest.raises(SystemExit):
            distributions.main([address])
        assert "such as https://github.com/USER/NAME" in capsys.readouterr().err
    environment = {name: value for name, value in os.environ.items() if name != "REPOSITORY"}
    done = run_command("make", "dist", cwd=ROOT, env=environment)
    assert done.returncode == 2 and f"make dist REPOSITORY={REPOSITORY}" in done.stderr
