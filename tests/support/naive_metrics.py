"""Naive metrics of agreement, independent of the package."""

import math

from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score


def naive_spearman(scores, votes):
    return (
        spearmanr(scores, votes).statistic if min(map(len, map(set, (scores, votes)))) > 1 else None
    )


def naive_auc(scores, relevant):
    relevant = list(map(bool, relevant))
    return roc_auc_score(relevant, scores) if len(set(relevant)) > 1 else None


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
