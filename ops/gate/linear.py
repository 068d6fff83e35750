"""Logistic regression on hashed features, in plain numpy: L-BFGS on the whole set."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]

_MEMORY = 8
_ITERATIONS = 40
_TRAIT_PENALTY = 0.1
"""Traits are few and dense: they are held less tightly than grams."""


class Examples:
    """Rows of present buckets, each with a value, and dense traits.

    Args:
        index: bucket numbers of all rows, one after the other.
        value: what each counts, same shape.
        lengths: how many of them each row has, at least 1.
        traits: shape (rows, traits).
        size: number of buckets.
    """

    def __init__(
        self,
        index: npt.NDArray[np.uint32],
        value: Doubles,
        lengths: npt.NDArray[np.intp],
        traits: Doubles,
        size: int,
    ) -> None:
        self.size = size
        self.traits = traits
        self._index = index
        self._value = value
        self._starts = np.concatenate((np.zeros(1, np.intp), np.cumsum(lengths)[:-1]))
        self._row = np.repeat(np.arange(len(lengths)), lengths)

    def scores(self, weights: Doubles) -> Doubles:
        """Log-odds of every row. ``weights``: buckets, then traits, then the bias."""
        sums = np.add.reduceat(weights[self._index] * self._value, self._starts)
        return sums + self.traits @ weights[self.size : -1] + weights[-1]

    def gradient(self, errors: Doubles) -> Doubles:
        """Derivative of the summed loss by the weights."""
        grams = np.bincount(self._index, weights=self._value * errors[self._row], minlength=self.size)
        return np.concatenate((grams, self.traits.T @ errors, [errors.sum()]))


def fitted(examples: Examples, wanted: npt.NDArray[np.bool_], weight: Doubles, penalty: float) -> Doubles:
    """Weights that part the wanted rows from the rest: buckets, then traits, then the bias."""
    holds = np.full(examples.size + examples.traits.shape[1] + 1, penalty)
    holds[examples.size :] *= _TRAIT_PENALTY
    holds[-1] = 0.0
    target = wanted.astype(np.float64)
    share = weight / weight.sum()

    def loss(weights: Doubles) -> tuple[float, Doubles]:
        odds = examples.scores(weights)
        value = float(share @ (np.logaddexp(0, odds) - target * odds) + 0.5 * (holds @ weights**2))
        errors = share * (1 / (1 + np.exp(-np.clip(odds, -40, 40))) - target)
        return value, examples.gradient(errors) + holds * weights

    weights = np.zeros(len(holds))
    value, slope = loss(weights)
    steps: list[tuple[Doubles, Doubles]] = []
    for _ in range(_ITERATIONS):
        way = _downhill(slope, steps)
        reach = 1.0 if steps else 0.1 / max(1e-9, float(np.abs(slope).max()))
        while True:
            tried = weights - reach * way
            new_value, new_slope = loss(tried)
            if new_value <= value - 1e-4 * reach * float(slope @ way):
                break
            reach /= 2
            if reach < 1e-8:
                return weights
        moved, turned = tried - weights, new_slope - slope
        if float(moved @ turned) > 1e-12:
            steps = [*steps[1 - _MEMORY :], (moved, turned)]
        done = value - new_value < 1e-4 * abs(value)
        weights, value, slope = tried, new_value, new_slope
        if done:
            break
    return weights


def _downhill(slope: Doubles, steps: list[tuple[Doubles, Doubles]]) -> Doubles:
    way = slope.copy()
    shares: list[float] = []
    for moved, turned in reversed(steps):
        shares.append(float(moved @ way) / float(moved @ turned))
        way -= shares[-1] * turned
    if steps:
        moved, turned = steps[-1]
        way *= float(moved @ turned) / float(turned @ turned)
    for (moved, turned), share in zip(steps, reversed(shares), strict=True):
        way += moved * (share - float(turned @ way) / float(moved @ turned))
    return way
