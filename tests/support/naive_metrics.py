"""Naive metrics of agreement, independent of the package."""

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
    labelled = list(zip(scores, relevant, strict=True))
    pairs = [
        1.0 if a > b else 0.5 if a == b else 0.0
        for a, is_relevant in labelled
        for b, other_is_relevant in labelled
        if is_relevant and not other_is_relevant
    ]
    return sum(pairs) / len(pairs) if pairs else None


def naive_mean(values):
    defined = [value for value in values if value is not None and not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan


def naive_votes(scored, votes):
    """`{metric: value}` from the scores of each story by operation, and its votes."""
    return {
        f"{operation}_{metric}": naive_mean(
            [measure(story[operation], counts) for story, counts in zip(scored, votes, strict=True)]
        )
        for operation in scored[0]
        for metric, measure in (("spearman", naive_spearman), ("auc", naive_auc))
    }


def naive_points(scored, spans, points, rule="numbered"):
    """AUC by turning point, within the windows (`spans`) of each story: in the window with the
    number of the turning point, which leaves out points elsewhere, or in the window that contains
    it."""
    metrics = {}
    for operation in scored[0]:
        columns = []
        for number in range(len(points[0])):
            areas = []
            for story, windows, story_points in zip(scored, spans, points, strict=True):
                for window, (lo, hi) in enumerate(windows):
                    is_inside = lo <= story_points[number] < hi
                    if is_inside and (rule == "containing" or window == number):
                        relevant = [i == story_points[number] for i in range(lo, hi)]
                        areas.append(naive_auc(story[operation][lo:hi], relevant))
            columns.append(naive_mean(areas))
            metrics[f"{operation}_auc_{number + 1}"] = columns[-1]
        metrics[f"{operation}_auc"] = naive_mean(columns)
    return metrics


def values(metrics):
    """The means of metrics, by name."""
    return {name: mean.value for name, mean in metrics.items()}
