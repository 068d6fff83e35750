"""Larger models worth using, as plain data: names to look for, never downloaded by Ticketmill itself."""

from __future__ import annotations

from typing import NamedTuple

KV_TOKENS = 16 * 2_000
"""Tokens of KV cache counted in ``memory_gb``: 16 slots of 2,000 tokens."""


class Suggestion(NamedTuple):
    """A family member by size. ``kv_kb_per_token`` is for 16-bit keys and values of all layers."""

    name: str
    languages: str
    parameters_b: float
    kv_kb_per_token: float
    good_for: str

    def memory_gb(self, bytes_per_parameter: float) -> float:
        """Device memory it takes with weights of that size (4 float32, 2 bfloat16, 1 int8, 0.55 nf4)."""
        return round(self.parameters_b * bytes_per_parameter + self.kv_kb_per_token * KV_TOKENS / 1e6, 1)


SUGGESTIONS: tuple[Suggestion, ...] = (
    Suggestion("SmolLM2-360M-Instruct", "English", 0.36, 41, "better labels than the packaged model, still on any CPU"),
    Suggestion("SmolLM2-1.7B-Instruct", "English", 1.7, 197, "usable drafts on a CPU with 8 GB"),
    Suggestion("Qwen2.5-0.5B-Instruct", "Chinese, English, 27 more", 0.49, 12, "the smallest for Chinese triage"),
    Suggestion("Qwen2.5-1.5B-Instruct", "Chinese, English, 27 more", 1.54, 29, "triage and summaries on a CPU"),
    Suggestion("Qwen3-4B-Instruct-2507", "Chinese, English, 100 more", 4.0, 147, "good drafts on one small GPU"),
    Suggestion("Qwen2.5-7B-Instruct", "Chinese, English, 27 more", 7.6, 57, "good drafts, long tickets, one 24 GB GPU"),
    Suggestion("Llama-3.1-8B-Instruct", "English and 7 more", 8.0, 131, "good drafts in European languages"),
    Suggestion("Qwen2.5-14B-Instruct", "Chinese, English, 27 more", 14.8, 197, "the best drafts on one 80 GB GPU"),
)
