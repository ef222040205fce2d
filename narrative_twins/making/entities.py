"""Entity substitution: replaces the names of people, places and other entities in the twins of
rows, so that an encoder that is trained on them can't tell a twin by the names that it shares with
its story. The paper does this after "Tell me again!" (Hatzel and Biemann, 2024)."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import metadata
from itertools import chain, count, islice, pairwise
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from tqdm import tqdm

from narrative_twins.data.file_formats import read_records
from narrative_twins.data.rows import (
    NEGATIVE_TWIN_NAMES,
    TEXT_COLUMNS,
    TWIN_NAMES,
    RowError,
    check_texts,
)
from narrative_twins.extras import check_extra
from narrative_twins.hub.facts import DatasetFacts
from narrative_twins.making.generated_rows import facts_of, public_name, recipe_text, write_facts
from narrative_twins.writing import JsonlLog, digest_of_files

PIPELINE, LOCALE = "en_core_web_sm", "en_US"
"""The default spaCy pipeline, and the default locale of the names of people."""

KINDS: dict[str, str] = {
    **dict.fromkeys(["PERSON", "PER"], "Person"),
    **dict.fromkeys(["GPE", "LOC", "FAC"], "Location"),
    "ORG": "Organization",
    **dict.fromkeys("MISC NORP EVENT WORK_OF_ART LAW LANGUAGE PRODUCT".split(), "Entity"),
}
"""The kinds of entities by labels of spaCy. Entities with other labels, such as dates, are kept."""

_PRONOUNS = "i me my you your he him his she her hers it its we us our they them their who".split()
_TITLES = (
    "mrs ms miss lady queen princess aunt sister mr mister sir lord king prince uncle brother"
    " dr doctor prof professor judge president senator general colonel major captain lieutenant"
    " sergeant inspector saint st"
).split()
_NO_NAMES = {*_PRONOUNS, *_TITLES}
_EDGES = "\"'`´‘’‚“”„«»‹›()[]{}<>,;:!?….-–—*_ \t\n"
_ARTICLE = re.compile(r"(?:the|my|your|his|her|its|our|their)\s+", re.IGNORECASE)
_TITLE = re.compile(rf"(?:(?:{'|'.join(_TITLES)})\b\.?\s+)*", re.IGNORECASE)
_POSSESSIVE = re.compile(r"['’ʼ][sS]?$")
_WORD = re.compile(r"[^\W\d_]+(?:[-'’ʼ][^\W\d_]+)*")
# Combining accents and joiners belong to the letter before them.
_IN_WORD = "[\\w\u0300-\u036f\u200c\u200d]"


class PeopleNames:
    """First names and surnames of a locale of Faker, drawn by their frequency if it is known."""

    def __init__(self, locale: str = LOCALE) -> None:
        check_extra("entities")
        from faker import Faker

        try:
            self.faker = Faker(locale, providers=["faker.providers.person"])
        except AttributeError:
            raise ValueError(f"{locale!r} is no locale of Faker; use one such as de_DE") from None

    def gender_of(self, name: str) -> str:
        """Return the gender of most people with the first name `name`: `"female"`, `"male"`, or an
        empty text if Faker does not list it."""
        weights = {"": 0.0}
        for gender in ("female", "male"):
            names = getattr(self.faker.get_providers()[0], f"first_names_{gender}", ())
            weights[gender] = Counter(names)[name.title()]
        return max(weights, key=weights.__getitem__)

    def draw(self, part: str, taken: set[str]) -> str:
        """Return a random name of one word that is not in `taken`, a set of case-folded names, and
        add it to `taken`. `part` is `last_name`, `first_name`, `first_name_female` or
        `first_name_male`."""
        for _ in range(2_000):  # until a name is not in the row
            name: str = getattr(self.faker, part)()
            if name.isalpha() and name.casefold() not in taken:
                taken.add(name.casefold())
                return name
        raise ValueError("no name is left to draw; use a locale with more names")


class RowNames:
    """The names that spaCy recognizes in a row. `documents` are its texts, read by spaCy.

    Attributes:
        kinds: for each name, how often it is recognized as each kind of entity.
        first, last: first names and surnames of people, case-folded.
    """

    def __init__(self, documents: Iterable[Any]) -> None:
        self.kinds = defaultdict[str, Counter[str]](Counter)
        self.first, self.last = set[str](), set[str]()
        for document in documents:
            for entity in document.ents:
                kind = KINDS.get(entity.label_)
                name = trimmed(entity.text, kind == "Person")
                if kind and (words := _words(name)) and name.lower() not in _NO_NAMES:
                    self.kinds[name][kind] += 1
                    if kind == "Person":
                        self.first.update(words[:-1] or words)
                        self.last.update(words[-1:] if words[1:] else ())

    def kind_of(self, name: str) -> str:
        """Return the kind of entity that a name is recognized as most often; `"Person"` for one
        word of a longer name."""
        return self.kinds[name].most_common(1)[0][0] if name in self.kinds else "Person"

    def forms(self, texts: Sequence[str]) -> dict[str, str]:
        """Return the strings to search for in `texts`, each with the name that it stands for: all
        names; the first and last words of people's names, except common words in `texts`; and both
        in capitals (`ANNA` stands for `Anna`)."""
        common = {word for word in _WORD.findall(" ".join(texts)) if word.islower()}
        no_names = {word.title() for word in common | _NO_NAMES}
        forms = {name: name for name in self.kinds}
        for name in self.kinds:
            if self.kind_of(name) == "Person":
                forms |= {word: word for word in _ends(name) - no_names if len(word) > 1}
        upper = [form for form in forms if len(form) > 2 and form != form.upper()]
        # Also for a name that is recognized in both forms.
        return forms | {form.upper(): forms[form] for form in upper}


def _ends(name: str) -> set[str]:
    """Return the first and the last word of a name, except lower-case ones: `van Gogh` →
    `{"Gogh"}`."""
    words = [word for word in _WORD.findall(name) if not word[0].islower()]
    return {words[0], words[-1]}


def trimmed(text: str, is_person: bool) -> str:
    """Return a name without punctuation, article and, for a person, titles: `"Mr. Darcy's,"`
    becomes `"Darcy"`."""
    name = _ARTICLE.sub("", text.strip(_EDGES), count=1)
    name = _TITLE.sub("", name, count=1) if is_person else name
    return _POSSESSIVE.sub("", name.strip(_EDGES)).strip(_EDGES)


def _words(name: str) -> list[str]:
    """Return the case-folded words of a name, except lower-case ones: `van Gogh` → `["gogh"]`."""
    return [word.casefold() for word in _WORD.findall(name) if not word[0].islower()]


def substitute(
    row: Mapping[str, Any], seed: str, pipeline: Any, people: PeopleNames
) -> dict[str, Any]:
    """Return a copy of a row with other names in its twins, so that twin and story share no name.

    The twin (`twin`) and the twin of the distractor (`negative_twin`) each get new names that occur
    nowhere else in the row; story and distractor (`negative`) keep their texts. Each word of a
    person's name has one new name in a twin: if `Anna Karenina` becomes `Mary Smith`, `Anna`
    becomes `Mary`. Places become `Location A` and so on, organizations `Organization A`, other
    entities `Entity A`, in the order they appear. All other text is kept, byte for byte. Raises
    ValueError if a text is too long for the pipeline, or no name is left to draw.

    Args:
        row: a valid row in any form that `load_story_twins` or `load_window_twins` reads.
        seed: seed of the draws, which are the same on every machine; should differ between rows.
        pipeline: a spaCy pipeline that recognizes entities.
        people: the names to draw from.
    """
    changed, texts = dict(row), list[str]()
    for column in [column for column in TEXT_COLUMNS if row.get(column) is not None]:
        sentences: list[str] = []
        _map_sentences(row[column], sentences.append)
        texts.append(" ".join(sentences))
    names = RowNames(pipeline.pipe(texts))
    people.faker.seed_instance(seed)
    forms, words = names.forms(texts), re.findall(r"\w+", " ".join(texts).casefold())
    # Labels such as `Location A` are pairs of words.
    taken = {*words, *map(" ".join, pairwise(words))}
    # The longest first, so that `Anna Karenina` is not taken for `Anna`.
    search = "|".join(sorted(map(re.escape, forms), key=len, reverse=True)) or "(?!)"
    pattern = re.compile(f"(?<!{_IN_WORD})(?:{search})(?!{_IN_WORD})")
    new: dict[Any, str] = {}

    def new_word(match: re.Match[str]) -> str:
        """Return the new name for a first name or surname; return any other word unchanged."""
        word = match[0].casefold()
        if word not in new and word in names.first | names.last:
            first_name = f"first_name_{people.gender_of(word)}".rstrip("_")
            part = "last_name" if word in names.last else first_name
            new[word] = people.draw(part, taken)
        return new.get(word, match[0])

    def new_name(match: re.Match[str]) -> str:
        """Return the text that replaces a form of a name, see `RowNames.forms`."""
        name = forms[match[0]]
        kind = names.kind_of(name)
        if kind != "Person" and (kind, name) not in new:
            labels = (f"{kind} {letter}" for letter in chain(ascii_uppercase, count(1)))
            new[kind, name] = next(x for x in labels if x.casefold() not in taken)
            taken.add(new[kind, name].casefold())
        written = _WORD.sub(new_word, name) if kind == "Person" else new[kind, name]
        return written if match[0] == name else written.upper()

    for side in (TWIN_NAMES, NEGATIVE_TWIN_NAMES):
        new.clear()
        for column in [column for column in side if row.get(column) is not None]:
            changed[column] = _map_sentences(row[column], partial(pattern.sub, new_name))
    return changed


def _map_sentences(content: Any, change: Callable[[str], Any]) -> Any:
    """Apply `change` to the sentences in a column of sentences, windows or sections."""
    if isinstance(content, str):
        return change(content)
    if isinstance(content, Mapping):
        return {name: _map_sentences(part, change) for name, part in content.items()}
    return [_map_sentences(part, change) for part in content]


def replace_entities(
    rows: str,
    out: str,
    pipeline: str = PIPELINE,
    *,
    names: str = LOCALE,
    seed: int = 0,
    resume: bool = False,
    progress: bool = False,
) -> int:
    """Replace the names in the twins of a file of rows, and write the rows and their facts, see
    `substitute` and `write_facts`. Returns the number of rows that this run changed.

    Args:
        rows: the file of the rows (RowError if one is invalid).
        out: the JSON Lines file to write. Until it is complete, its rows are in `OUT.part`.
        pipeline: the folder or the name of a spaCy pipeline (OSError if it is not installed).
        names: a locale of Faker.
        seed: the seed of the run, from which each row gets its seed.
        resume: resume an interrupted run, or raise ResumeError if its rows or settings differ.
        progress: show a progress bar.
    """
    people = PeopleNames(names)
    import spacy

    try:
        recognizer = spacy.load(pipeline)
    except OSError as error:
        fix = f"install it by python -m spacy download {pipeline}, or name another by --pipeline"
        raise OSError(f"the spaCy pipeline can't be loaded ({error}); {fix}") from None
    facts = facts_of(rows) or DatasetFacts("Twins", "Stories with twins.", "", "")
    total = sum(bool(check_texts(record.row, record.where)) for record in read_records(rows))
    settings = {
        "rows": f"{Path(rows).resolve().name} {digest_of_files(rows)}",
        "names replaced in": "the twins only",
        "spaCy pipeline": f"{public_name(pipeline)} {digest_of_files(recognizer.path)}",
        "names of people": f"{names} of Faker {metadata.version('faker')}",
        "seed": seed,
    }
    changed = 0
    with JsonlLog(f"{out}.part", settings, resume) as log:
        remaining = islice(read_records(rows), len(log.rows), None)
        for record in tqdm(remaining, None, total - len(log.rows), disable=not progress):
            # The default id depends on the file.
            row = {**record.row, "id": record.id}
            try:
                new = substitute(row, f"{seed} {record.id}", recognizer, people)
            except ValueError as error:
                raise RowError(record.where, str(error)) from None
            log.append(new)
            changed += new != row
    log.complete(out)
    facts.name += " with replaced names"
    facts.source += f"\n\n{recipe_text('narrative-twins make entities', settings)}"
    facts.limits += " A pipeline recognizes names: it misses some, and takes other words for names."
    write_facts(out, facts)
    return changed
