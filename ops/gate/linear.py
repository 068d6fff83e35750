"""Logistic regression on hashed features: SciPy's L-BFGS on the whole set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

Doubles = npt.NDArray[np.float64]

_ITERATIONS = 60
_CLOSE = 1e-5
"""A step that makes the loss smaller by less than this share of it was the last."""

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

    return minimised(loss, np.zeros(len(holds)))


def minimised(loss: Callable[[Doubles], tuple[float, Doubles]], start: Doubles) -> Doubles:
    """Where a convex loss, given with its derivative, is least."""
    found: Any = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS, "ftol": _CLOSE})
    return found.x
