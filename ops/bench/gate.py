"""The gate, judged on text that it was not trained on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ops.bench.crawl import bench_crawl
from ops.bench.report import Report, Row, machine
from ops.gate.corpus import Sample, digest, read_corpus
from ops.gate.judging import Verdicts, figures, of_channel, share, speed, verdicts
from ops.gate.training import trained
from producer.adapters.gate_model import load_model
from producer.policy.text.content import ContentModel
from schemas.errors import SettingRefused

PARTS = 5
"""Every text is judged once, by a gate trained on the four fifths that it is not in."""

UNSEEN = "comment"
"""The channel that is left out of one training: comments under videos."""


def bench_gate(folder: Path | None, *, quick: bool, note: Callable[[str], None]) -> Report:
    """Trains on four fifths of $TICKETMILL_DATA and judges the last, five times over; or judges the shipped gate.

    Args:
        folder: judge the shipped gate on this folder, training on none of it.
        quick: one fifth only, and no training for the channel that is left out.

    Raises:
        Refused: a folder that does not hold the four files.
        SettingRefused: no folder, and TICKETMILL_DATA is not set.
    """
    ours = os.environ.get("TICKETMILL_DATA", "")
    if folder is None and not ours:
        raise SettingRefused("TICKETMILL_DATA", "names no folder of texts; or give one with --data")
    samples = read_corpus(folder or Path(ours))
    shipped = load_model()
    left_out: list[str] = []
    rows: list[Row] = []
    pooled: Verdicts = {}
    gates = [("shipped", shipped, samples)] if folder else _parts(samples, shipped, 1 if quick else PARTS, note)
    for name, model, judged in gates:
        note(f"judging {name}")
        found = verdicts(model, judged, quick)
        for kind, each in found.items():
            pooled.setdefault(kind, []).extend(each)
            rows.append(
                {
                    "judged by": name,
                    "kind": kind,
                    "texts": len(each),
                    "rejected": sum(one.rejected for one in each),
                    "flagged": sum(one.flagged for one in each),
                }
            )
    if folder and shipped.about.get("digest") == digest(samples):
        left_out.append("any meaning of these figures: the shipped gate was trained on this very folder")
    numbers = figures(pooled)
    numbers |= _unseen(samples, Path(ours), shipped, note) if ours and not quick else {}
    if not ours or quick:
        left_out.append(
            "spam_stopped_unseen: needs a training without that channel"
            + (" (leave --quick out)" if ours else " on the texts under TICKETMILL_DATA")
        )
    note("measuring speed")
    numbers |= speed(
        shipped, [each.text for each in samples if each.kind.startswith("honest")], 1000 if quick else 4000
    )
    crawl = bench_crawl(quick, note)
    if not crawl:
        left_out.append("honest_p99_under_crawl: no Redis is installed here")
    numbers |= crawl
    return Report(bench="gate", machine=machine(), figures=numbers, rows=rows, left_out=left_out)


def _parts(
    samples: Sequence[Sample], shipped: ContentModel, parts: int, note: Callable[[str], None]
) -> Iterator[tuple[str, ContentModel, list[Sample]]]:
    for number in range(parts):
        note(f"training without part {number + 1} of {PARTS}")
        inside = [each for each in samples if int(each.part * PARTS) != number]
        model = trained(inside, shipped.letters)
        yield f"part {number + 1}", model, [each for each in samples if int(each.part * PARTS) == number]


def _unseen(
    samples: Sequence[Sample], ours: Path, shipped: ContentModel, note: Callable[[str], None]
) -> dict[str, float]:
    note("training without comments")
    model = trained([each for each in read_corpus(ours) if each.channel != UNSEEN], shipped.letters)
    spam, ham = of_channel(model, samples, UNSEEN)
    return {
        "spam_stopped_unseen": share(spam, lambda each: each.stopped),
        "ham_stopped_unseen": share(ham, lambda each: each.stopped),
    }
