from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schemas.units import Bytes, Listed, Ports, Seconds, Share

WHOLE = st.integers(0, 10**6)


@given(WHOLE, st.sampled_from([("ms", 0.001), ("s", 1), ("m", 60), ("h", 3600), ("d", 86400), ("", 1)]))
def test_a_duration_is_its_number_times_its_unit(number: int, unit: tuple[str, float]) -> None:
    assert Seconds.parse(f"{number}{unit[0]}") == pytest.approx(number * unit[1])


@given(WHOLE, st.sampled_from([("B", 1), ("kB", 10**3), ("MB", 10**6), ("GB", 10**9), ("KiB", 2**10), ("GiB", 2**30)]))
def test_a_size_is_its_number_times_its_unit(number: int, unit: tuple[str, int]) -> None:
    assert Bytes.parse(f"{number} {unit[0]}") == number * unit[1]


@given(st.integers(0, 100))
def test_a_percentage_and_its_fraction_are_the_same_share(percent: int) -> None:
    assert Share.parse(f"{percent}%") == pytest.approx(percent / 100) == Share.parse(percent / 100)


@pytest.mark.parametrize("kind", [Seconds, Share, Bytes])
@given(text=st.text())
@example(text="-1")
@example(text="nan")
@example(text="1e5")
@example(text="9" * 400)
@example(text="٣s")
@example(text="1s\n1")
def test_any_other_text_is_refused_with_an_example(kind: type[Seconds | Share | Bytes], text: str) -> None:
    try:
        value = kind.parse(text)
    except ValueError as refusal:
        value = refusal
    if isinstance(value, ValueError):
        assert "write it like" in str(value) or "; use " in str(value)
    else:
        assert 0 <= value < float("inf")


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
@pytest.mark.parametrize("kind", [Seconds, Share, Bytes])
def test_numbers_that_are_no_quantity_are_refused(kind: type[Seconds | Share | Bytes], value: float) -> None:
    with pytest.raises(ValueError, match="write it like"):
        kind.parse(value)


@pytest.mark.parametrize("over", ["101%", 1.01, 90, "90"])
def test_more_than_the_whole_is_refused(over: str | float) -> None:
    with pytest.raises(ValueError, match=r"write it like 90% or 0\.9"):
        Share.parse(over)


@pytest.mark.parametrize(
    ("kind", "text", "units"),
    [(Seconds, "3 weeks", "ms, s, m, h or d"), (Bytes, "3 blocks", "kB, MB, GB, KiB, MiB or GiB")],
)
def test_an_unknown_unit_is_told_the_known_ones(kind: type[Seconds | Bytes], text: str, units: str) -> None:
    with pytest.raises(ValueError, match=units):
        kind.parse(text)


@pytest.mark.parametrize("value", ["80, 443,", ["443", 80], [80, 443, 80], (443, 80)])
def test_several_ports_are_a_list_or_one_text(value: str | list[object]) -> None:
    assert Ports.parse(value) == (80, 443)
    assert Ports.parse(str(Ports.parse(value))) == (80, 443)


@pytest.mark.parametrize("value", ["http", "0", "65536", "-1", "80 443", "8０", [80.5], [True], "9" * 5000])
def test_what_is_no_port_is_refused(value: str | list[object]) -> None:
    with pytest.raises(ValueError, match="is no port; write them like 80, 443"):
        Ports.parse(value)


@given(st.lists(st.text(alphabet="abc:/. ").map(str.strip).filter(bool)))
def test_several_texts_are_read_back_from_one(texts: list[str]) -> None:
    assert Listed.parse(texts) == tuple(texts)
    assert Listed.parse(str(Listed.parse(texts))) == tuple(texts)
