"""Whatever a model would choose, a constrained answer parses and satisfies its schema."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from schemas.shipped_jobs import SHIPPED_JOBS
from workers.engine.grammar import Grammar, Vocabulary

same_fixture = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
TRIAGE: dict[str, Any] = SHIPPED_JOBS["triage"].answer_schema or {}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
        "score": {"type": "integer", "minimum": 0, "maximum": 99},
        "who": {"type": "object", "properties": {"vip": {"type": "boolean"}}, "required": ["vip"]},
    },
    "required": ["tags", "score"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def vocabulary(tokenizer: PreTrainedTokenizerFast) -> Vocabulary:
    return Vocabulary(tokenizer, len(tokenizer) + 6, [1])


@pytest.mark.parametrize("schema", [TRIAGE, NESTED], ids=["triage", "nested"])
@given(seed=st.integers(0, 10_000))
@same_fixture
def test_any_path_through_the_allowed_tokens_is_a_valid_answer(
    vocabulary: Vocabulary, tokenizer: PreTrainedTokenizerFast, schema: dict[str, Any], seed: int
) -> None:
    chance, constraint = Random(seed), Grammar(vocabulary, schema).begin()
    tokens = constraint.forced()
    while not constraint.complete:
        allowed = np.flatnonzero(constraint.allowed()).tolist()
        assert allowed, "nothing may follow, and the answer is not complete"
        tokens += constraint.take(chance.choice(allowed))
    text = tokenizer.decode([token for token in tokens if token != 1])
    jsonschema.validate(json.loads(text), schema)
    assert "\n" not in text


def test_what_cannot_be_otherwise_is_forced_at_once(vocabulary: Vocabulary, tokenizer: PreTrainedTokenizerFast) -> None:
    constraint = Grammar(vocabulary, TRIAGE).begin()
    assert tokenizer.decode(constraint.forced()).startswith('{"category":"')
    choices = 0
    while not constraint.complete:
        allowed = np.flatnonzero(constraint.allowed())
        constraint.take(int(allowed[0]))
        choices += 1
    assert choices <= 8, "keys and quotes were chosen one by one"


def test_answers_of_one_grammar_do_not_disturb_each_other(vocabulary: Vocabulary) -> None:
    grammar = Grammar(vocabulary, TRIAGE)
    first, second = grammar.begin(), grammar.begin()
    first.forced()
    first.take(int(np.flatnonzero(first.allowed())[0]))
    second.forced()
    assert np.array_equal(second.allowed(), _fresh(grammar))


def test_a_token_that_is_not_allowed_is_an_error(vocabulary: Vocabulary) -> None:
    constraint = Grammar(vocabulary, TRIAGE).begin()
    constraint.forced()
    with pytest.raises(ValueError, match="token"):
        constraint.take(int(np.flatnonzero(~constraint.allowed())[0]))


def test_a_schema_that_cannot_be_held_to_says_why(vocabulary: Vocabulary) -> None:
    with pytest.raises(ValueError, match="thing"):
        Grammar(vocabulary, {"type": "object", "properties": {"a": {"type": "thing"}}})


def _fresh(grammar: Grammar) -> Any:
    constraint = grammar.begin()
    constraint.forced()
    return constraint.allowed()
