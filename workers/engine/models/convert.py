"""Turns a GGUF file into a model directory: ``python convert.py FILE DIRECTORY``.

A program of its own, so that the two gigabytes it needs are given back, and so that it imports nothing of ours.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def main() -> None:
    """Writes tokenizer, config and weights."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    where = {"gguf_file": source.name, "local_files_only": True}
    tokenizer: Any = AutoTokenizer.from_pretrained(source.parent, **where)
    # bfloat16 halves the file; its rounding is a twentieth of what the 4-bit packing has lost already.
    model: Any = AutoModelForCausalLM.from_pretrained(
        source.parent, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True), **where
    )
    tokenizer.save_pretrained(target)
    model.save_pretrained(target)


if __name__ == "__main__":
    main()
