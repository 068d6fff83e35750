"""The packaged model is converted once, whole or not at all, by however many processes at a time."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from schemas.errors import ModelRefused
from tests.ground.process import ROOT
from workers.engine.models import packaged as shop
from workers.engine.models.directory import inspected

CONVERT = """
import sys
from pathlib import Path
from workers.engine.models import packaged
def slow(source, target):
    for part in range(40):
        (target / f"part-{part}").write_text(source.read_text())
    with (Path(sys.argv[1]) / "log").open("a") as log:
        log.write("converted\\n")
packaged._convert = slow
packaged.gguf_file = lambda: Path(sys.argv[2])
print(packaged.packaged_model(Path(sys.argv[1])))
"""


def test_the_packaged_model_is_a_whole_directory_found_without_its_own_dependencies(packaged: Path) -> None:
    directory = shop.packaged_model(packaged)
    assert inspected(shop.NAME, directory).parameters > 130_000_000
    assert "llama_cpp" not in sys.modules
    assert shop.install(packaged) == directory


def test_many_processes_convert_it_once(tmp_path: Path) -> None:
    source = tmp_path / "model.gguf"
    source.write_text("weights")
    command = [sys.executable, "-c", CONVERT, str(tmp_path), str(source)]
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: subprocess.run(command, cwd=ROOT, capture_output=True, text=True), range(4)))
    assert {run.stdout.strip() for run in runs} == {str(tmp_path / "models" / f"{shop.NAME}-{shop.WHEEL_VERSION}")}
    assert (tmp_path / "log").read_text() == "converted\n"


def test_what_a_killed_process_left_is_cleared_away_and_never_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "model.gguf"
    source.write_text("weights")
    monkeypatch.setattr(shop, "gguf_file", lambda: source)

    def killed(_source: Path, target: Path) -> None:
        (target / "model.safetensors").write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(shop, "_convert", killed)
    with pytest.raises(KeyboardInterrupt):
        shop.packaged_model(tmp_path)
    ready = tmp_path / "models" / f"{shop.NAME}-{shop.WHEEL_VERSION}"
    assert not ready.exists()
    left = ready.with_name(f".{ready.name}.unfinished")
    left.mkdir()
    (left / "model.safetensors").write_text("half")
    monkeypatch.setattr(shop, "_convert", lambda source, target: (target / "whole").write_text(source.read_text()))
    assert [file.name for file in shop.packaged_model(tmp_path).iterdir()] == ["whole"]


def test_a_file_that_cannot_be_converted_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "model.gguf"
    source.write_text("no GGUF at all")
    monkeypatch.setattr(shop, "gguf_file", lambda: source)
    with pytest.raises(ModelRefused, match=r"cannot be converted: .+ install") as refused:
        shop.packaged_model(tmp_path)
    assert "\n" not in str(refused.value)
    assert [file.name for file in (tmp_path / "models").iterdir()] == [".lock"]


def test_without_its_wheel_the_command_that_gets_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop, "gguf_file", lambda: None)
    with pytest.raises(ModelRefused, match="ticketmill model install"):
        shop.packaged_model(tmp_path)


def test_what_pip_says_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shop, "gguf_file", lambda: None)
    monkeypatch.setattr(shop, "WHEEL", "ticketmill-no-such-wheel")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ModelRefused, match="No matching distribution"):
        shop.install(tmp_path)


def test_a_disk_that_takes_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "model.gguf"
    source.write_text("weights")
    monkeypatch.setattr(shop, "gguf_file", lambda: source)
    (tmp_path / "models").write_text("a file where a folder should be")
    with pytest.raises(ModelRefused, match="cannot be written to"):
        shop.packaged_model(tmp_path)
