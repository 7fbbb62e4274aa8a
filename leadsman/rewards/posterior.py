"""Estimates whether the node or the app is at fault: compares each node's trials of a pod type with the other nodes'.

    typical m   the success ratio on the other nodes: the median of theirs, with the default as one more vote
    model       with probability SOUND_RATIO a node is like the others, and each trial succeeds with m;
                otherwise something is wrong here, and any ratio is as likely as any other (spike and slab)
    blame       the posterior probability of the second, by Bayes' rule from recent successes and failures
    expected    the posterior mean of the success ratio; `lower` is INTERVAL_DEVIATIONS below it
    value       lower / lower of a node without evidence, at most 1

So a type that fails everywhere blames no node, and one that fails only here blames this one. An untried node has the
prior, and no report of its own lifts a node above that, because only the others make the prior. Old failures fade, so
that a blamed node is tried again: that is the exploration, and it is bounded, because the first failure ends it.

Sources: empirical Bayes, Casella, An introduction to empirical Bayes data analysis, Am. Stat. 39 (1985); spike and
slab, Mitchell, Beauchamp, Bayesian variable selection in linear regression, JASA 83 (1988); forgetting in bandits,
Garivier, Moulines, On upper-confidence bound policies for switching bandit problems, ALT 2011; Raj, Kalyani, Taming
non-stationary bandits, arXiv:1707.09727 (2017).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import exp, lgamma, log, sqrt
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

SOUND_RATIO = 0.9
"""Prior probability that nothing is wrong with a node for a pod type."""

DEFAULT_TYPICAL_RATIO = 0.95
"""Success ratio of a type without evidence; votes as one node."""

INTERVAL_DEVIATIONS = 0.5

MIN_LOWER_SHARE = 0.25
"""The lower bound is at least this share of the expected ratio."""

MIN_VOTING_TRIALS = 0.5
"""A node with less evidence has no vote on what is typical."""

_MIN_TYPICAL_RATIO, _MAX_TYPICAL_RATIO = 0.02, 0.98

_MIN_SOUND_RATIO = 0.001
"""However many others failed on a node: odds against nothing are no number."""


class Trials(NamedTuple):
    """Counts the trials on one node, faded to now. recent: successes that began after the last failure."""

    healthy: float = 0.0
    recent: float = 0.0
    failed: float = 0.0


class NodePosterior(Struct, frozen=True):
    """Says what is believed about one node. Ratios are 0..1.

    expected_ratio: of successes, between lower_ratio and upper_ratio.
    blame_ratio: probability that something is wrong here.
    typical_ratio: success ratio on the other nodes.
    samples: recent trials.
    value: 0..1, for a score.
    """

    expected_ratio: float
    lower_ratio: float
    upper_ratio: float
    blame_ratio: float
    typical_ratio: float
    samples: float
    value: float


class NodePosteriors(Mapping[str, NodePosterior]):
    """Maps each node to its posterior, computed when it is read.

    trials: of every node.
    sound_ratios: prior probability that nothing is wrong with a node, where it is not SOUND_RATIO.
    """

    def __init__(self, trials: Mapping[str, Trials], sound_ratios: Mapping[str, float] = MappingProxyType({})) -> None:
        self._trials, self._sound_ratios = trials, sound_ratios
        self._ranked = sorted(
            [DEFAULT_TYPICAL_RATIO, *(smoothed_ratio(each) for each in trials.values() if _has_vote(each))]
        )

    def __getitem__(self, node: str) -> NodePosterior:
        trials = self._trials[node]
        typical_ratio = typical_success_ratio(self._ranked, smoothed_ratio(trials) if _has_vote(trials) else None)
        return _rounded_posterior(trials, typical_ratio, self._sound_ratios.get(node, SOUND_RATIO))

    def __iter__(self) -> Iterator[str]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)


def typical_success_ratio(ranked: Sequence[float], own: float | None = None) -> float:
    """Returns the success ratio that a node is compared with: the median without its own. ranked: all votes, sorted."""
    middle = (len(ranked) - (own is not None)) // 2
    left_out = len(ranked) if own is None else bisect_left(ranked, own)
    median = ranked[middle + (middle >= left_out)]
    return min(_MAX_TYPICAL_RATIO, max(_MIN_TYPICAL_RATIO, median))


def smoothed_ratio(trials: Trials) -> float:
    """Returns the node's success ratio, pulled towards the default by one trial."""
    return (trials.healthy + DEFAULT_TYPICAL_RATIO) / (trials.healthy + trials.failed + 1.0)


def _has_vote(trials: Trials) -> bool:
    return trials.healthy + trials.failed > MIN_VOTING_TRIALS


def _rounded_posterior(trials: Trials, typical_ratio: float, sound_ratio: float) -> NodePosterior:
    sound_ratio = max(_MIN_SOUND_RATIO, round(sound_ratio, 3))
    return node_posterior(round(trials.recent, 2), round(trials.failed, 2), round(typical_ratio, 2), sound_ratio)


@lru_cache(65_536)
def node_posterior(
    recent: float, failed: float, typical_ratio: float, sound_ratio: float = SOUND_RATIO
) -> NodePosterior:
    """Returns what a node's recent trials say, where `typical_ratio` is usual. sound_ratio: its prior."""
    blame = _blame(recent, failed, typical_ratio, sound_ratio)
    mean, deviation = _moments(recent, failed, typical_ratio, blame)
    lower = _lower(mean, deviation)
    return NodePosterior(
        expected_ratio=mean,
        lower_ratio=lower,
        upper_ratio=min(1.0, mean + INTERVAL_DEVIATIONS * deviation),
        blame_ratio=blame,
        typical_ratio=typical_ratio,
        samples=recent + failed,
        value=min(1.0, lower / _prior_lower(typical_ratio)),
    )


@lru_cache(1_024)
def _prior_lower(typical_ratio: float) -> float:
    mean, deviation = _moments(0.0, 0.0, typical_ratio, 1.0 - SOUND_RATIO)
    return _lower(mean, deviation)


def _lower(mean: float, deviation: float) -> float:
    """Returns the lower bound, never so low that two bad nodes cannot be compared."""
    return max(MIN_LOWER_SHARE * mean, mean - INTERVAL_DEVIATIONS * deviation)


def log_bayes_factor(recent: float, failed: float, typical_ratio: float) -> float:
    """Returns ln P(trials | something is wrong) / P(trials | as elsewhere): Beta(1, 1) integrated out against a
    binomial likelihood. At most 0 when the trials went better than elsewhere."""
    as_elsewhere = recent * log(typical_ratio) + failed * log(1.0 - typical_ratio)
    anything = lgamma(1.0 + recent) + lgamma(1.0 + failed) - lgamma(2.0 + recent + failed)
    better = recent >= typical_ratio * (recent + failed)
    return min(0.0 if better else 500.0, anything - as_elsewhere)


def _blame(recent: float, failed: float, typical_ratio: float, sound_ratio: float) -> float:
    """P(something is wrong here | trials), by Bayes' rule."""
    odds = (1.0 - sound_ratio) / sound_ratio * exp(log_bayes_factor(recent, failed, typical_ratio))
    return odds / (1.0 + odds)


def _moments(recent: float, failed: float, typical_ratio: float, blame: float) -> tuple[float, float]:
    """Returns mean and standard deviation of the success ratio under both hypotheses."""
    wrong = (1.0 + recent) / (2.0 + recent + failed)
    spread = wrong * (1.0 - wrong) / (3.0 + recent + failed)
    mean = (1.0 - blame) * typical_ratio + blame * wrong
    variance = (1.0 - blame) * (typical_ratio - mean) ** 2 + blame * (spread + (wrong - mean) ** 2)
    return mean, sqrt(variance)
