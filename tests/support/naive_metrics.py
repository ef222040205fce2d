"""Naive metrics of agreement, independent of the package."""

from __future__ import annotations

import math


def ranks(values):
    """Ranks from 1, with mean ranks for ties."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2
        for value in values
    ]


def naive_spearman(scores, votes):
    x, y = ranks(scores), ranks(votes)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    vx, vy = sum((a - mx) ** 2 for a in x), sum((b - my) ** 2 for b in y)
    if not vx or not vy:
        return None
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / math.sqrt(vx * vy)


def naive_auc(scores, relevant):
    """How often a relevant sentence scores above one that is not, ties counting half."""
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, a_relevant in zip(scores, relevant, strict=True)
        for b, b_relevant in zip(scores, relevant, strict=True)
        if a_relevant and not b_relevant
    ]
    return sum(pairs) / len(pairs) if pairs else None


def naive_mean(values):
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else math.nan


def naive_votes(scored, votes):
    """`{metric: value}`, given for each story the scores by operation and the votes."""
    found = {}
    for operation in scored[0]:
        by_story = [story[operation] for story in scored]
        for metric, measure in (("spearman", naive_spearman), ("auc", naive_auc)):
            values = [
                measure(scores, counts) for scores, counts in zip(by_story, votes, strict=True)
            ]
            found[f"{operation}_{metric}"] = naive_mean(values)
    return found


def naive_points(scored, spans, points, rule="numbered"):
    """AUC by turning point, within the windows (`spans`) of each story: in the window with the
    number of the turning point, which leaves out those elsewhere, or in the window that contains
    it."""
    found = {}
    for operation in scored[0]:
        columns = []
        for number in range(len(points[0])):
            areas = []
            for story, windows, story_points in zip(scored, spans, points, strict=True):
                for window, (lo, hi) in enumerate(windows):
                    if lo <= story_points[number] < hi and (
                        rule == "containing" or window == number
                    ):
                        relevant = [i == story_points[number] for i in range(lo, hi)]
                        areas.append(naive_auc(story[operation][lo:hi], relevant))
            columns.append(naive_mean(areas))
            found[f"{operation}_auc_{number + 1}"] = columns[-1]
        found[f"{operation}_auc"] = naive_mean(
            [None if math.isnan(value) else value for value in columns]
        )
    return found


def values(metrics):
    """The means of metrics, by name."""
    return {name: mean.value for name, mean in metrics.items()}
