"""The first answer, one pod after another, and the last touch: the same reserve with loads more even."""

from collections.abc import Sequence

from leadsman.planning.optimise.problem import NOWHERE, Choice, Choices, Load, PodOptions, Problem


def greedy_choices(problem: Problem, start: Sequence[Choice]) -> Choices:
    """Every pod that has no place or no backup gets what reserves least, those with the fewest places first.

    start: what pods have already. A pod with a home keeps it, unless its home is not among its places.
    """
    load, choices = Load.of(problem, start), list(start)

    def difficulty(number: int) -> tuple[int, int, int]:
        pod = problem.pods[number]
        return len(pod.places), -sum(w * r for w, r in zip(problem.weights, pod.requests, strict=True)), number

    for number in sorted(range(len(choices)), key=difficulty):
        pod, before = problem.pods[number], choices[number]
        if before.place != NOWHERE and (before.backup != NOWHERE or not pod.scopes):
            continue
        load.add(pod, before, -1)
        allowed = [each for each in problem.options(pod) if before.place in (NOWHERE, each.place)]
        choices[number] = _cheapest(problem, load, pod, allowed) or before
        load.add(pod, choices[number])
    return tuple(choices)


def _cheapest(problem: Problem, load: Load, pod: PodOptions, allowed: Sequence[Choice]) -> Choice | None:
    best: tuple[tuple[bool, bool, int, float], Choice] | None = None
    for choice in allowed:
        nodes = [node for node in choice if node != NOWHERE]
        before = sum(load.cost(node) for node in nodes)
        load.add(pod, choice)
        if all(load.fits(node) for node in nodes):
            grown = sum(load.cost(node) for node in nodes) - before
            share = max((load.share(node) for node in nodes), default=0.0)
            rank = (choice.place == NOWHERE, choice.backup == NOWHERE, grown, share)
            if best is None or (rank, choice) < best:
                best = rank, choice
        load.add(pod, choice, -1)
    return best[1] if best else None


def balanced(problem: Problem, choices: Sequence[Choice], rounds: int = 3) -> Choices:
    """The choices with loads more even: no pod leaves its home for it, and no reserve grows."""
    load, found = Load.of(problem, choices), list(choices)
    for _ in range(rounds):
        changed = False
        for number, pod in enumerate(problem.pods):
            if pod.home == NOWHERE and found[number].place != NOWHERE:
                better = _more_even(problem, load, pod, found[number])
                changed |= better != found[number]
                found[number] = better
        if not changed:
            break
    return tuple(found)


def _more_even(problem: Problem, load: Load, pod: PodOptions, now: Choice) -> Choice:
    best, best_gain = now, 1e-9
    for choice in problem.options(pod):
        if choice.place in (NOWHERE, now.place) or (choice.backup == NOWHERE) != (now.backup == NOWHERE):
            continue
        nodes = {node for node in (*now, *choice) if node != NOWHERE}
        cost, imbalance = _cost(load, nodes), _imbalance(load, nodes)
        load.add(pod, now, -1)
        load.add(pod, choice)
        gain = imbalance - _imbalance(load, nodes)
        if gain > best_gain and _cost(load, nodes) <= cost and all(load.fits(node) for node in nodes):
            best, best_gain = choice, gain
        load.add(pod, choice, -1)
        load.add(pod, now)
    if best != now:
        load.add(pod, now, -1)
        load.add(pod, best)
    return best


def _cost(load: Load, nodes: set[int]) -> int:
    return sum(load.cost(node) for node in nodes)


def _imbalance(load: Load, nodes: set[int]) -> float:
    return sum(load.share(node) ** 2 for node in sorted(nodes))
