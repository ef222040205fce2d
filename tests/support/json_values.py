"""Strategies for arbitrary JSON values, with the column names and texts of story data mixed in."""

from hypothesis import strategies as st

COLUMNS = (
    "text sentences windows id title story twin twins negative negative_twin twin_windows"
    " story_windows narrative_twin most_important counts turning_points summaries choices labels"
    " annotations spans highlights data result value start end answer similarity language"
    " wikidata_id similarities sections synopsis_segmented narrative_negatives scores type path"
    " weight_map transformers_weights pooling_mode"
).split()
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 12)
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["A b.", "C d.", "auto", "en", "TP1"])
)


def _containers(inner: st.SearchStrategy) -> st.SearchStrategy:
    return st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(COLUMNS) | st.text(max_size=3), inner, max_size=6
    )


def values(more: st.SearchStrategy) -> st.SearchStrategy:
    """Arbitrary JSON values, with more values among the innermost."""
    return st.recursive(_LEAVES | more, _containers, max_leaves=12)


VALUES = values(st.nothing())
ROWS = st.dictionaries(st.sampled_from(COLUMNS), VALUES, max_size=6)


def _paths(value: object) -> list[tuple]:
    inner = enumerate(value) if isinstance(value, list) else ()
    inner = value.items() if isinstance(value, dict) else inner
    return [(), *((key, *path) for key, item in inner for path in _paths(item))]


def _replaced(value: object, path: tuple, new: object) -> object:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


@st.composite
def mutations(draw: st.DrawFn, valid: list[dict]) -> dict:
    """A valid row in which a value at any depth is replaced by another JSON value."""
    row = draw(st.sampled_from(valid))
    return _replaced(row, draw(st.sampled_from(_paths(row)[1:])), draw(VALUES))
