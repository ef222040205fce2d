"""Metrics of agreement, written out naively and apart from the package."""

from __future__ import annotations

import math


def ranks(values):
    """Ranks from 1, equal values sharing the mean of theirs."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values
    ]


def naive_spearman(scores, votes):
    x, y = ranks(scores), ranks(votes)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    vx, vy = sum((a - mx) ** 2 for a in x), sum((b - my) ** 2 for b in y)
    if not vx or not vy:
        return None
    return sum((a - mx) * (b - my) for a, b in zip(x, y, strict=True)) / math.sqrt(vx * vy)


def naive_auc(scores, relevant):
    """How often a relevant sentence scores above another, a tie half."""
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, yes in zip(scores, relevant, strict=True)
        for b, no in zip(scores, relevant, strict=True)
        if yes and not no
    ]
    return sum(pairs) / len(pairs) if pairs else None


def naive_mean(values):
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else math.nan


def naive_votes(scored, votes):
    """`{metric: value}` of stories, each the scores of every operation."""
    found = {}
    for operation in scored[0]:
        of_each = [story[operation] for story in scored]
        for metric, measure in (("spearman", naive_spearman), ("auc", naive_auc)):
            values = [measure(scores, counts) for scores, counts in zip(of_each, votes, strict=True)]
            found[f"{operation}_{metric}"] = naive_mean(values)
    return found


def naive_points(scored, spans, points):
    """The same by turning point, within the windows of each story."""
    found = {}
    for operation in scored[0]:
        columns = []
        for number in range(len(points[0])):
            areas = []
            for story, windows, turning in zip(scored, spans, points, strict=True):
                for lo, hi in windows:
                    if lo <= turning[number] < hi:
                        relevant = [at == turning[number] for at in range(lo, hi)]
                        areas.append(naive_auc(story[operation][lo:hi], relevant))
            columns.append(naive_mean(areas))
            found[f"{operation}_auc_{number + 1}"] = columns[-1]
        found[f"{operation}_auc"] = naive_mean([None if math.isnan(one) else one for one in columns])
    return found


def values(metrics):
    """The means of metrics, by name."""
    return {name: mean.value for name, mean in metrics.items()}
