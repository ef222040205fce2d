"""The plan of the tables and figures: which runs there are, and what is shown of them. plan.yaml
explains the keys."""

from __future__ import annotations

import difflib
import json
import os
import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import yaml

from narrative_twins import OPERATIONS
from narrative_twins.baselines.scorers import BASELINES
from narrative_twins.data.sources import CORPORA
from narrative_twins.evaluation.comparison import PEOPLE
from narrative_twins.extras import user_module
from narrative_twins.prompting.question_styles import STYLES

LAYOUTS = ("wide", "sections", "list")
SERVER = "https://api.openai.com/v1"
"""Of the language models in a plan."""
KINDS_OF_PEOPLE = dict(zip(("second group", "one of them"), PEOPLE, strict=True))


class PlanError(ValueError):
    """A plan is wrong; names the file and the key."""


@dataclass(frozen=True)
class Run:
    """A training run: its script and config, the settings that differ from the config, and the
    seeds it is trained with."""

    name: str
    script: Path
    config: Path
    seeds: Sequence[int]
    settings: Mapping[str, Any]

    @property
    def flags(self) -> list[str]:
        """The config and the settings as flags of the script."""
        flags = ["--config", shown(self.config)]
        for name, value in self.settings.items():
            flags += [f"--{name}", str(value).lower() if isinstance(value, bool) else str(value)]
        return flags

    def folder(self, runs: Path, seed: int) -> Path:
        return runs / f"{self.name}-seed{seed}"

    def command(self, runs: Path, seed: int) -> str:
        """The command that trains it with a seed."""
        words = ["accelerate", "launch", shown(self.script), *self.flags, "--seed", str(seed)]
        return shlex.join([*words, "--output_dir", str(self.folder(runs, seed))])


@dataclass(frozen=True)
class Prompted:
    """Results of a prompted language model: a file for each run, in the folder of the runs. The
    request has further fields, which reasoning models need."""

    name: str
    data: str
    styles: Sequence[str]
    runs: int
    model: str
    request: Mapping[str, Any]

    def command(self, runs: Path, source: Sequence[str]) -> str:
        """The command that asks it about the stories of a source."""
        words = ["python", shown(Path(__file__).with_name("prompt_model.py")), *source]
        words += ["--styles", ",".join(self.styles), "--out", str(runs / self.name)]
        words += ["--runs", str(self.runs), "--server", SERVER, "--language-model", self.model]
        words += ["--request", json.dumps(self.request)] if self.request else []
        return shlex.join(words)

    def files(self, runs: Path) -> list[Path]:
        return [runs / f"{self.name}-run{number}.jsonl" for number in range(1, self.runs + 1)]


@dataclass(frozen=True)
class TableRow:
    """A row: its name, and what is shown: a `run`, `baseline`, `results` or `people` of a name.
    `operation` is that of a run, or the name of the scores in a file of results. Rows are compared
    with the others of their `group`."""

    label: str
    kind: str
    name: str
    operation: str | None
    group: str = ""


@dataclass(frozen=True)
class TableSpec:
    name: str
    caption: str
    data: str
    layout: str
    rows: Sequence[TableRow]
    operations: Sequence[str]
    points: bool = True


@dataclass(frozen=True)
class TestsSpec:
    """Tests that a text names: by their name two rows of some data, whose difference is tested."""

    name: str
    caption: str
    data: str
    pairs: Mapping[str, tuple[TableRow, TableRow]]


@dataclass(frozen=True)
class CurvesSpec:
    """Curves of training: for each quantity in `curves.json` a panel, with a line for each run."""

    name: str
    caption: str
    runs: Mapping[str, str]
    quantities: Mapping[str, str]


@dataclass(frozen=True)
class SizesSpec:
    """Validation at the end of training by the number of parameters: for each quantity in
    `eval_results.json` a line through the runs."""

    name: str
    caption: str
    runs: Mapping[str, str]
    quantities: Mapping[str, str]


@dataclass(frozen=True)
class SalienceSpec:
    """The scores of some stories by a run: of files, and of ids in the data; without either, of
    the first story of the data."""

    name: str
    caption: str
    run: str
    files: Sequence[Path]
    data: str | None
    ids: Sequence[str]


@dataclass(frozen=True)
class Plan:
    runs: Mapping[str, Run]
    results: Mapping[str, Prompted]
    tables: Sequence[TableSpec]
    figures: Sequence[CurvesSpec | SizesSpec | SalienceSpec]
    scoring: Mapping[str, Mapping[str, Any]]
    tests: Sequence[TestsSpec]


def shown(path: Path) -> str:
    """A path as it is typed in the current folder."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def read_plan(path: Path) -> Plan:
    """Read a plan. Raises `PlanError` if it is wrong, `OSError` if it can't be read."""
    return _Reader(path).plan()


def with_stories(plan: Plan, name: str, stories: Sequence[str]) -> Plan:
    """The plan with other stories in a figure of salience: files, and ids in the data of the
    figure. Raises `PlanError` if there is no such figure, or it has no data for ids."""
    known = [figure.name for figure in plan.figures if isinstance(figure, SalienceSpec)]
    if name not in known or not stories:
        raise PlanError(f"--show {name}: name a figure of {', '.join(known)} and its stories")
    files = [Path(story) for story in stories if Path(story).is_file()]
    ids = [story for story in stories if not Path(story).is_file()]
    figures = [
        replace(figure, files=files, ids=ids)
        if isinstance(figure, SalienceSpec) and figure.name == name
        else figure
        for figure in plan.figures
    ]
    return replace(plan, figures=figures)


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.content = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (ValueError, yaml.YAMLError) as error:
            raise PlanError(f"{path} can't be read ({' '.join(str(error).split())})") from None

    def plan(self) -> Plan:
        content = self.mapping(
            self.content,
            "",
            ("seeds", "runs", "tables"),
            ("results", "figures", "scoring", "tests", "import"),
        )
        for name in self.items(content.get("import", []), "import"):
            try:
                user_module(str(self.path.parent / name) if name.endswith(".py") else name)
            except ImportError as error:
                self.error("import", str(error))
        seeds = self.seeds(content["seeds"], "seeds")
        self.runs = {
            name: self.run(name, value, seeds)
            for name, value in self.named(content, "runs").items()
        }
        self.results = {
            name: self.prompted(name, value)
            for name, value in self.named(content, "results").items()
        }
        self.tables = {
            name: self.table(name, value) for name, value in self.named(content, "tables").items()
        }
        figures = [
            self.figure(name, value) for name, value in self.named(content, "figures").items()
        ]
        tests = [self.tests(name, value) for name, value in self.named(content, "tests").items()]
        names = [*self.tables, *(each.name for each in (*figures, *tests))]
        for name in names:
            if names.count(name) > 1:
                self.error(
                    f"figures.{name}",
                    "there is a table of this name, whose files would be replaced",
                )
        scoring = {
            self.choice(data, CORPORA, "scoring"): self.mapping(options, f"scoring.{data}")
            for data, options in self.mapping(content.get("scoring", {}), "scoring").items()
        }
        tables = list(self.tables.values())
        return Plan(self.runs, self.results, tables, figures, scoring, tests)

    def run(self, name: str, value: Any, seeds: Sequence[int]) -> Run:
        where = f"runs.{name}"
        entry = self.mapping(value, where, ("script", "config"), ("settings", "seeds"))
        files = {key: self.file(entry[key], f"{where}.{key}") for key in ("script", "config")}
        return Run(
            name,
            seeds=self.seeds(entry["seeds"], f"{where}.seeds") if "seeds" in entry else seeds,
            settings=self.mapping(entry.get("settings", {}), f"{where}.settings"),
            **files,
        )

    def prompted(self, name: str, value: Any) -> Prompted:
        where = f"results.{name}"
        entry = self.mapping(value, where, ("data", "styles", "model"), ("runs", "request"))
        data = self.choice(entry["data"], CORPORA, f"{where}.data")
        styles = self.choices(entry["styles"], STYLES, f"{where}.styles")
        runs = entry.get("runs", 1)
        if type(runs) is not int or runs < 1:
            self.error(f"{where}.runs", f"must be a number of runs such as 3, not {runs!r:.60}")
        request = self.mapping(entry.get("request", {}), f"{where}.request")
        return Prompted(name, data, styles, runs, str(entry["model"]), request)

    def table(self, name: str, value: Any) -> TableSpec:
        where = f"tables.{name}"
        entry = self.mapping(
            value, where, ("caption", "data", "layout"), ("rows", "groups", "operations", "points")
        )
        data = self.choice(entry["data"], CORPORA, f"{where}.data")
        layout = self.choice(entry["layout"], LAYOUTS, f"{where}.layout")
        operations = list(OPERATIONS)
        if "operations" in entry:
            operations = self.choices(entry["operations"], OPERATIONS, f"{where}.operations")
        if ("rows" in entry) is ("groups" in entry):
            self.error(where, "give either rows, or groups of rows by name")
        groups = {"": entry["rows"]} if "rows" in entry else entry["groups"]
        rows: list[TableRow] = []
        for group, labels in self.mapping(groups, f"{where}.groups").items():
            inside = f"{where}.groups.{group}" if group else f"{where}.rows"
            for label, row in self.mapping(labels, inside).items():
                read = self.row(label, row, layout == "list", f"{inside}.{label}", data)
                rows.append(replace(read, group=group))
        points = entry.get("points", True) is True
        return TableSpec(name, str(entry["caption"]), data, layout, rows, operations, points)

    def tests(self, name: str, value: Any) -> TestsSpec:
        where = f"tests.{name}"
        entry = self.mapping(value, where, ("caption", "data", "pairs"))
        data = self.choice(entry["data"], CORPORA, f"{where}.data")
        pairs = {}
        for label, pair in self.mapping(entry["pairs"], f"{where}.pairs").items():
            inside = f"{where}.pairs.{label}"
            rows = self.mapping(pair, inside, ("first", "second"))
            first, second = (
                self.row(key, row, True, f"{inside}.{key}", data) for key, row in rows.items()
            )
            pairs[label] = (first, second)
        return TestsSpec(name, str(entry["caption"]), data, pairs)

    def row(self, label: str, value: Any, in_list: bool, where: str, data: str) -> TableRow:
        if not in_list:
            entry = self.mapping(value, where, ("run",))
            return TableRow(
                label, "run", self.choice(entry["run"], self.runs, f"{where}.run"), None
            )
        entry = self.mapping(
            value, where, (), ("run", "operation", "baseline", "results", "score", "people")
        )
        kinds = {
            "run": self.runs,
            "baseline": BASELINES,
            "results": self.results,
            "people": KINDS_OF_PEOPLE,
        }
        kind = next((kind for kind in kinds if kind in entry), None)
        if kind is None:
            self.error(where, f"name one of {', '.join(kinds)}")
        second = {"run": ("operation",), "results": ("score",)}.get(kind, ())
        self.mapping(value, where, (kind, *second))
        name = self.choice(entry[kind], kinds[kind], f"{where}.{kind}")
        operation: str | None = None
        if kind == "run":
            operation = self.choice(entry["operation"], OPERATIONS, f"{where}.operation")
        elif kind == "results":
            if self.results[name].data != data:
                self.error(f"{where}.results", f"{name!r} has scores of other data than {data!r}")
            scores = [STYLES[style].score for style in self.results[name].styles]
            operation = self.choice(entry["score"], scores, f"{where}.score")
        return TableRow(
            label, kind, KINDS_OF_PEOPLE.get(name, name) if kind == "people" else name, operation
        )

    def figure(self, name: str, value: Any) -> CurvesSpec | SizesSpec | SalienceSpec:
        where = f"figures.{name}"
        kinds = {
            "curves": ("runs", "quantities"),
            "sizes": ("runs", "quantities"),
            "salience": ("run",),
        }
        known = dict.fromkeys([*sum(kinds.values(), ()), "files", "data", "ids"])
        entry = self.mapping(value, where, ("kind", "caption"), known)
        kind = self.choice(entry["kind"], kinds, f"{where}.kind")
        optional = ("files", "data", "ids") if kind == "salience" else ()
        self.mapping(value, where, ("kind", "caption", *kinds[kind]), optional)
        caption = str(entry["caption"])
        if kind != "salience":
            lines = self.mapping(entry["runs"], f"{where}.runs")
            runs = {
                label: self.choice(run, self.runs, f"{where}.runs.{label}")
                for label, run in lines.items()
            }
            quantities = self.mapping(entry["quantities"], f"{where}.quantities")
            spec = CurvesSpec if kind == "curves" else SizesSpec
            return spec(name, caption, runs, {key: str(text) for key, text in quantities.items()})
        files = [
            self.file(file, f"{where}.files")
            for file in self.items(entry.get("files", []), f"{where}.files")
        ]
        ids = [str(story) for story in self.items(entry.get("ids", []), f"{where}.ids")]
        data = self.choice(entry["data"], CORPORA, f"{where}.data") if "data" in entry else None
        if ids and data is None:
            self.error(f"{where}.data", f"the ids need it: {' or '.join(CORPORA)}")
        if not files and data is None:
            self.error(where, "name stories by files, or by data and ids")
        return SalienceSpec(
            name, caption, self.choice(entry["run"], self.runs, f"{where}.run"), files, data, ids
        )

    def named(self, content: Mapping[str, Any], key: str) -> dict[str, Any]:
        """The entries below a key; their names become names of files."""
        found = self.mapping(content.get(key, {}), key)
        for name in found:
            if not name.replace("-", "").replace("_", "").isalnum():
                self.error(
                    f"{key}.{name}",
                    "a name has only letters, digits, - and _, since it names files",
                )
        return found

    def mapping(
        self, value: Any, where: str, required: Collection[str] = (), optional: Collection[str] = ()
    ) -> dict[str, Any]:
        """A mapping with these keys; with any keys, if none are given."""
        if not isinstance(value, dict):
            self.error(where, f"must be keys with values, not {value!r:.60}")
        found = {str(key): entry for key, entry in value.items()}
        known = [*required, *optional]
        for key in found if known else ():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1) or known
                self.error(
                    f"{where}.{key}".strip("."), f"unknown key; did you mean {' or '.join(near)}?"
                )
        for key in required:
            if key not in found:
                self.error(f"{where}.{key}".strip("."), "is missing")
        return found

    def items(self, value: Any, where: str) -> list[Any]:
        if not isinstance(value, list):
            self.error(where, f"must be a list, not {value!r:.60}")
        return value

    def choice(self, value: Any, known: Collection[str], where: str) -> str:
        if value not in list(known):
            self.error(where, f"unknown {value!r}; choose from {', '.join(known) or 'none'}")
        return str(value)

    def choices(self, value: Any, known: Collection[str], where: str) -> list[str]:
        return [self.choice(item, known, where) for item in self.items(value, where)]

    def seeds(self, value: Any, where: str) -> list[int]:
        seeds = self.items(value, where)
        if (
            not seeds
            or any(type(seed) is not int for seed in seeds)
            or len(set(seeds)) < len(seeds)
        ):
            self.error(where, f"must be different whole numbers such as [43, 127], not {value!r}")
        return seeds

    def file(self, value: Any, where: str) -> Path:
        """A file, named relative to the plan."""
        file = (self.path.parent / str(value)).resolve()
        if not file.is_file():
            self.error(where, f"there is no file {shown(file)}")
        return file

    def error(self, where: str, problem: str) -> NoReturn:
        raise PlanError(f"{self.path}, {where}: {problem}" if where else f"{self.path} {problem}")
