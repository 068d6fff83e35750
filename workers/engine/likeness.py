"""How alike two questions are: the mean of their tokens' vectors, from a packaged table of them.

The table is WordLlama's (MIT): 32,000 tokens of 256 numbers, in its wheel. Its own code is not needed for a mean.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from schemas.errors import SettingRefused

PACKAGE = "wordllama"
TABLE = "weights/l2_supercat_256.safetensors"
TOKENS = "tokenizers/l2_supercat_tokenizer_config.json"


class Likeness:
    """Makes vectors of texts.

    Raises:
        SettingRefused: the table is not installed.
    """

    def __init__(self) -> None:
        found = importlib.util.find_spec(PACKAGE)
        if found is None or not found.submodule_search_locations:
            raise SettingRefused("nearest_answers", "needs a table of words: pip install 'ticketmill[nearest]'")
        place = Path(found.submodule_search_locations[0])
        (self._table,) = load_file(place / TABLE).values()
        self._tokens = Tokenizer.from_file(str(place / TOKENS))
        self._tokens.no_padding()

    def vector(self, text: str) -> bytes:
        """256 float16 numbers of length 1; none for a text without a known token."""
        ids = self._tokens.encode(text, add_special_tokens=False).ids
        if not ids:
            return b""
        mean = self._table[ids].astype(np.float32).mean(axis=0)
        return (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float16).tobytes()
