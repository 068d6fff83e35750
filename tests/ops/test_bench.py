"""``ticketmill bench``: its object is what a program that compares runs relies on."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ground.process import Process
from tests.ground.real_text import real_data

RATIOS = {
    "drain": {"redis_vs_stock", "redis_vs_stock_128", "redis_vs_flush32", "rabbitmq_vs_stock"},
    "enqueue": {"redis_vs_apply_async", "rabbitmq_vs_apply_async", "rabbitmq_confirmed_vs_apply_async_confirmed"},
}


@pytest.mark.usefixtures("redis", "rabbitmq")  # it starts its own; where the programs are missing, this says so
@pytest.mark.parametrize("name", sorted(RATIOS))
def test_a_quick_run_as_json(process: Callable[..., Process], name: str) -> None:
    done = process("ops.cli", "bench", name, "--quick", "--json")
    assert done.wait(240) == 0, done.output()
    report = json.loads(done.output()[done.output().index("{") :])
    assert set(report) == {"bench", "machine", "figures", "rows", "left_out"}
    assert report["bench"] == name
    assert report["machine"]["cpus"] >= 1
    assert RATIOS[name] <= set(report["figures"])
    assert all(math.isfinite(figure) and figure > 0 for figure in report["figures"].values())
    assert report["rows"]
    assert not report["left_out"]


def test_a_quick_day_of_every_sizing_policy(process: Callable[..., Process]) -> None:
    done = process("ops.cli", "bench", "sizing", "--quick", "--json")
    assert done.wait(240) == 0, done.output()
    report = json.loads(done.output()[done.output().index("{") :])
    figures = report["figures"]
    assert figures["default_goodput_vs_fixed8"] >= 1.5
    assert figures["default_goodput_vs_printed"] >= 1.2
    assert figures["default_oom_events"] == 0
    assert {row["policy"] for row in report["rows"]} >= {"fixed 8", "printed", "mended", "aimd", "gradient"}
    assert report["machine"]["cost_source"]


def test_a_quick_comparison_of_the_engine(process: Callable[..., Process], packaged: Path) -> None:
    env = {"TICKETMILL_HOME": str(packaged), "TICKETMILL_DATA": str(real_data())}
    done = process("ops.cli", "bench", "engine", "--quick", "--json", env=env)
    assert done.wait(400) == 0, done.output()
    report = json.loads(done.output()[done.output().index("{") :])
    figures = report["figures"]
    assert all(figures[name] > 0 for name in ("answers_vs_static8", "answers_vs_hf_continuous", "single_vs_generate"))
    assert figures["prefix_hit_rate"] >= 0.85
    assert figures["useful_slot_share"] >= 0.85
    assert figures["int8_saved_vs_fp16"] >= 0.45
    assert figures["int4_saved_vs_fp16"] >= 0.65
    assert figures["best_saved_vs_fp16"] >= 0.72
    assert 0 <= figures["sparse_triage_agreement"] <= 1
    ways = {row.get("way") for row in report["rows"]}
    assert ways >= {"engine", "static8", "hf_continuous", "engine_alone", "generate"}


def test_the_engine_is_not_compared_without_tickets(process: Callable[..., Process]) -> None:
    refused = process("ops.cli", "bench", "engine", "--quick")
    assert refused.wait(60) == 2
    assert "TICKETMILL_DATA" in refused.output()


def test_a_device_that_is_not_there_is_refused(process: Callable[..., Process], packaged: Path) -> None:
    env = {"TICKETMILL_HOME": str(packaged), "TICKETMILL_DATA": str(real_data()), "CUDA_VISIBLE_DEVICES": ""}
    refused = process("ops.cli", "bench", "engine", "--quick", "--device", "cuda", env=env)
    assert refused.wait(60) == 2
    assert "torch sees no such device" in refused.output()


def test_an_unknown_benchmark_is_refused_by_name(process: Callable[..., Process]) -> None:
    refused = process("ops.cli", "bench", "nope")
    assert refused.wait(60) == 2
    assert "'nope' is none of" in refused.output()
