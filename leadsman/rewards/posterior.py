"""Is it the node or the app? What each node did to a type of pod, compared with what the other nodes did to it.

    typical m   the success ratio on the other nodes: the median of theirs, the default voting as one more node
    model       with probability SOUND a node is like the others, and each trial succeeds with m;
                else something is wrong here, and any ratio is as likely as any other (spike and slab)
    blame       the posterior probability of the second, by Bayes' rule from recent successes and failures
    expected    the posterior mean of the success ratio, of which `lower` is one deviation below
    value       lower / lower of a node without evidence, at most 1

So a type that fails everywhere blames no node, one that fails here only does; a node never tried stands at the prior;
and nothing that a node says of itself lifts it above that, as only the others make the prior. Old failures fade in the
ledger, so a node in disgrace comes back and is tried again: that is the exploration, and it is bounded, as the first
failure sends it away again.

Sources: empirical Bayes, Casella, An introduction to empirical Bayes data analysis, Am. Stat. 39 (1985); spike and
slab, Mitchell, Beauchamp, Bayesian variable selection in linear regression, JASA 83 (1988); forgetting in bandits,
Garivier, Moulines, On upper-confidence bound policies for switching bandit problems, ALT 2011; Raj, Kalyani, Taming
non-stationary bandits, arXiv:1707.09727 (2017).
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import exp, lgamma, log, sqrt
from typing import NamedTuple

from msgspec import Struct

SOUND_RATIO = 0.9
"""Prior probability that nothing is wrong with a node for a type."""

DEFAULT_TYPICAL_RATIO = 0.95
"""Success ratio of a type that nobody knows; votes as one node."""

INTERVAL_DEVIATIONS = 0.5

MIN_LOWER_SHARE = 0.25
"""Of the expected ratio, at which the lower bound ends."""

MIN_VOTING_TRIALS = 0.5
"""A node with less evidence has no vote on what is typical."""

_MIN_TYPICAL_RATIO, _MAX_TYPICAL_RATIO = 0.02, 0.98


class Trials(NamedTuple):
    """Of one node, faded to now. recent: successes that began after the last failure."""

    healthy: float = 0.0
    recent: float = 0.0
    failed: float = 0.0


class NodePosterior(Struct, frozen=True):
    """Ratios are 0..1. lower, upper: about the expected one. blame: that something is wrong here. value: for a score,
    0..1. samples: recent trials."""

    expected_ratio: float
    lower_ratio: float
    upper_ratio: float
    blame_ratio: float
    typical_ratio: float
    samples: float
    value: float


class NodePosteriors(Mapping[str, NodePosterior]):
    """Node → how it stands among the others, made when it is asked for."""

    def __init__(self, trials: Mapping[str, Trials]) -> None:
        self._trials = trials
        self._ranked = sorted(
            [DEFAULT_TYPICAL_RATIO, *(smoothed_ratio(each) for each in trials.values() if _has_vote(each))]
        )

    def __getitem__(self, node: str) -> NodePosterior:
        trials = self._trials[node]
        return _rounded_posterior(
            trials, typical_success_ratio(self._ranked, smoothed_ratio(trials) if _has_vote(trials) else None)
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._trials)

    def __len__(self) -> int:
        return len(self._trials)


def typical_success_ratio(ranked: Sequence[float], own: float | None = None) -> float:
    """The success ratio that a node is held to: the median without its own. ranked: all votes and the default."""
    middle = (len(ranked) - (own is not None)) // 2
    left_out = len(ranked) if own is None else bisect_left(ranked, own)
    found = ranked[middle + (middle >= left_out)]
    return min(_MAX_TYPICAL_RATIO, max(_MIN_TYPICAL_RATIO, found))


def smoothed_ratio(trials: Trials) -> float:
    """The node's success ratio, drawn to the default by one trial."""
    return (trials.healthy + DEFAULT_TYPICAL_RATIO) / (trials.healthy + trials.failed + 1.0)


def _has_vote(trials: Trials) -> bool:
    return trials.healthy + trials.failed > MIN_VOTING_TRIALS


def _rounded_posterior(trials: Trials, typical_ratio: float) -> NodePosterior:
    return node_posterior(round(trials.recent, 2), round(trials.failed, 2), round(typical_ratio, 2))


@lru_cache(65_536)
def node_posterior(recent: float, failed: float, typical_ratio: float) -> NodePosterior:
    """How a node with these recent trials stands where `typical_ratio` is usual."""
    blame = _blame(recent, failed, typical_ratio)
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
    """Never so low that the lower bounds of two hopeless nodes cannot be compared."""
    return max(MIN_LOWER_SHARE * mean, mean - INTERVAL_DEVIATIONS * deviation)


def _blame(recent: float, failed: float, typical_ratio: float) -> float:
    """P(wrong here | trials): binomial likelihood of "as elsewhere" against Beta(1, 1) integrated out."""
    as_elsewhere = recent * log(typical_ratio) + failed * log(1.0 - typical_ratio)
    anything = lgamma(1.0 + recent) + lgamma(1.0 + failed) - lgamma(2.0 + recent + failed)
    odds = (1.0 - SOUND_RATIO) / SOUND_RATIO * exp(min(500.0, anything - as_elsewhere))
    better = recent >= typical_ratio * (recent + failed)
    return min(odds / (1.0 + odds), 1.0 - SOUND_RATIO) if better else odds / (1.0 + odds)


def _moments(recent: float, failed: float, typical_ratio: float, blame: float) -> tuple[float, float]:
    """Mean and standard deviation of the success ratio under both hypotheses."""
    wrong = (1.0 + recent) / (2.0 + recent + failed)
    spread = wrong * (1.0 - wrong) / (3.0 + recent + failed)
    mean = (1.0 - blame) * typical_ratio + blame * wrong
    variance = (1.0 - blame) * (typical_ratio - mean) ** 2 + blame * (spread + (wrong - mean) ** 2)
    return mean, sqrt(variance)
