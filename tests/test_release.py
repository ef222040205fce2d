"""The script that builds the distributions for a package index."""

from __future__ import annotations

import email
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

import narrative_twins

import distributions
from distributions import checked_repository, version_of, with_addresses, with_public_links
from support.processes import run_command

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/USER/narrative_twins"
BLOB, RAW = f"{REPOSITORY}/blob/v1", f"{REPOSITORY}/raw/v1"


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("[Guide](docs/a.md)", f"[Guide]({BLOB}/docs/a.md)"),
        ("[Guide](./docs/a.md#the-end)", f"[Guide]({BLOB}/docs/a.md#the-end)"),
        ('[a](a.md "Title"), [b](b.md)', f'[a]({BLOB}/a.md "Title"), [b]({BLOB}/b.md)'),
        ("![A picture](docs/a.png)", f"![A picture]({RAW}/docs/a.png)"),
        ("[![a](a.png)](a.md)", f"[![a]({RAW}/a.png)]({BLOB}/a.md)"),
        ("[a](https://example.com/a.md)", None),
        ("[a](#anchor)", None),
        ("`narrative_twins[demo]` (docs/a.md)", None),
        ("```python\nlist[a](b)\n```\n", None),
        ("```text\n[a](b)\n```\n[a](b)\n", f"```text\n[a](b)\n```\n[a]({BLOB}/b)\n"),
    ],
)
def test_relative_links_lead_to_the_repository(text, public):
    assert with_public_links(text, REPOSITORY, "v1") == (text if public is None else public)


@pytest.mark.parametrize("end", ["", "/", ".git"])
def test_addresses_of_repositories(end):
    assert checked_repository(REPOSITORY + end) == REPOSITORY


@pytest.mark.parametrize(
    "address",
    [
        "",
        "USER/narrative_twins",
        "git@github.com:USER/narrative_twins.git",
        "https://github.com/USER/narrative_twins/tree/main",
        "https://user:word@github.com/USER/narrative_twins",
        "https:///USER/narrative_twins",
    ],
)
def test_other_addresses_are_refused(address, capsys):
    with pytest.raises(ValueError, match="such as https://github.com/USER/NAME"):
        checked_repository(address)
    with pytest.raises(SystemExit):
        distributions.main([address])
    assert "such as https://github.com/USER/NAME" in capsys.readouterr().err


def test_addresses_are_added_once():
    settings = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    added = with_addresses(settings, REPOSITORY, "v1")
    assert f"[metadata]\nproject_urls =\n    Source = {REPOSITORY}\n" in added
    with pytest.raises(ValueError, match="without project_urls"):
        with_addresses(added, REPOSITORY, "v1")


def test_the_version():
    assert version_of(ROOT) == narrative_twins.__version__


def test_make_asks_for_the_repository():
    environment = {name: value for name, value in os.environ.items() if name != "REPOSITORY"}
    done = run_command("make", "dist", cwd=ROOT, env=environment)
    assert done.returncode == 2
    assert "make dist REPOSITORY=https://github.com/USER/narrative_twins" in done.stderr


@pytest.mark.slow
def test_distributions_have_the_addresses(tmp_path):
    before = sorted(path.name for path in ROOT.iterdir())
    wheel, sdist = distributions.build(ROOT, tmp_path / "dist", REPOSITORY)
    assert sorted(path.name for path in ROOT.iterdir()) == before
    name = f"narrative_twins-{narrative_twins.__version__}"
    assert (wheel.name, sdist.name) == (f"{name}-py3-none-any.whl", f"{name}.tar.gz")
    with tarfile.open(sdist) as archive, zipfile.ZipFile(wheel) as files:
        texts = [
            archive.extractfile(f"{name}/PKG-INFO").read(),
            files.read(f"{name}.dist-info/METADATA"),
        ]
    for text in texts:
        metadata = email.message_from_bytes(text)
        addresses = dict(line.split(", ") for line in metadata.get_all("Project-URL"))
        assert list(addresses) == ["Source", "Documentation", "Changelog", "Issues"]
        assert (
            addresses["Changelog"]
            == f"{REPOSITORY}/blob/v{narrative_twins.__version__}/CHANGELOG.md"
        )
        assert "Programming Language :: Python :: 3.11" in metadata.get_all("Classifier")
        description = metadata.get_payload(decode=True).decode()
        targets = re.findall(r"\]\(([^)]+)\)", description)
        assert len(targets) > 10 and all(target.startswith("https://") for target in targets)
        assert f"({REPOSITORY}/raw/v{narrative_twins.__version__}/docs/app.png)" in description
