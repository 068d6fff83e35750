"""Answers held to a JSON Schema, token by token.

What the schema leaves no choice about is not computed one token at a time: it is *forced*, and goes through the
network together with the next choice. The mask is applied by the runner with plain operations; llguidance's own helper
for torch would be compiled at its first call, which stalls the engine for many seconds.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from llguidance import LLMatcher, LLTokenizer
from llguidance.hf import from_tokenizer
from numpy.typing import NDArray

_COMPACT: Any = {"whitespace_flexible": False, "item_separator": ",", "key_separator": ":"}
"""No blanks between the parts: they cost tokens, and a model that likes them could go on for ever."""


class Vocabulary:
    """A model's tokens, as grammars need them. Made once a model; ``size`` is the width of its logits."""

    def __init__(self, tokenizer: Any, size: int, stop: list[int]) -> None:
        self.size = size
        self.tokens: LLTokenizer = from_tokenizer(tokenizer, n_vocab=size, eos_token=stop or None)


class Grammar:
    """What answers of one job look like.

    Raises:
        ValueError: the schema is not one that a grammar can be made of; says why.
    """

    def __init__(self, vocabulary: Vocabulary, schema: dict[str, Any]) -> None:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=_COMPACT)
        if wrong := LLMatcher.validate_grammar(grammar, vocabulary.tokens):
            raise ValueError(wrong)
        self._vocabulary = vocabulary
        self._start = LLMatcher(vocabulary.tokens, grammar, log_level=0)

    def begin(self) -> Constraint:
        """The state at the beginning of an answer."""
        return Constraint(self._start.deep_copy(), self._vocabulary.size)


class Constraint:
    """How far one answer has come."""

    def __init__(self, matcher: LLMatcher, size: int) -> None:
        self._matcher = matcher
        self._size = size

    @property
    def complete(self) -> bool:
        """The answer is whole: nothing can follow."""
        return self._matcher.is_stopped()

    def forced(self) -> list[int]:
        """The tokens that must come next, taken as said."""
        tokens = self._matcher.compute_ff_tokens()
        if tokens and not self._matcher.consume_tokens(tokens):
            raise ValueError(self._matcher.get_error())
        return tokens

    def allowed(self) -> NDArray[np.bool_]:
        """Which tokens may come next, [vocabulary]."""
        words = np.zeros((self._size + 31) // 32, dtype=np.int32)
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        return np.unpackbits(words.view(np.uint8), bitorder="little")[: self._size].astype(np.bool_)

    def take(self, token: int) -> list[int]:
        """Takes one allowed token; returns it with all that must follow it.

        Raises:
            ValueError: it is not allowed.
        """
        if not self._matcher.consume_token(token):
            raise ValueError(self._matcher.get_error())
        return [token, *self.forced()]
