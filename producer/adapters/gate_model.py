"""The gate's model as a file: an npz archive of plain arrays and one JSON line, checked before it is used.

One is shipped in the package; an owner may train others.
"""

from __future__ import annotations

import io
import zipfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from producer.policy.text.content import BITS, HARDEST, TOPICS, ContentModel, Lines
from producer.policy.text.letters import COMMON, CYRILLIC_SIZE, LATIN_SIZE, PAIR_BITS, Letters
from producer.policy.text.traits import NAMES, SUSPECT
from schemas.errors import Refused, SettingRefused

SHIPPED = "gate.npz"

VERSION = 2
"""Grows when features change: a model only fits the code that it was trained with."""

MOST_BYTES = 4_000_000
"""Largest archive unpacked: twice what a model takes."""

_SHAPES: dict[str, tuple[type, tuple[int, ...]]] = {
    "grams": (np.int8, (2**BITS, len(TOPICS))),
    "scale": (np.float32, (len(TOPICS),)),
    "bias": (np.float32, (len(TOPICS),)),
    "spam": (np.float32, (4 + 2 * len(SUSPECT) + 1,)),
    "creative": (np.float32, (2 + len(NAMES) + 1,)),
    "latin": (np.uint8, (LATIN_SIZE, LATIN_SIZE, LATIN_SIZE)),
    "cyrillic": (np.uint8, (CYRILLIC_SIZE, CYRILLIC_SIZE, CYRILLIC_SIZE)),
    "pairs": (np.uint8, (2**PAIR_BITS // 8,)),
    "common": (np.uint8, (COMMON // 8,)),
    "hardest": (np.float16, (HARDEST, 4 + 2 * len(SUSPECT) + 1)),
    "head": (np.uint8, (-1,)),
}


class _Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    lines: Lines
    honest: int
    about: dict[str, Any]


def load_model(path: str = "") -> ContentModel:
    """The model in a file; the shipped one where no path is given.

    Raises:
        SettingRefused: there is no such file, or it is no model.
    """
    if not path:
        return unpacked((files("producer.adapters") / SHIPPED).read_bytes(), SHIPPED)
    try:
        with Path(path).expanduser().open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise SettingRefused("anti_spam.model", f"cannot be read from {path}: {error.strerror}") from None
    return unpacked(content, path)


def packed(model: ContentModel) -> bytes:
    """The model as the bytes of a file."""
    head = msgspec.json.encode(_Head(VERSION, model.lines, model.honest, model.about))
    letters = model.letters
    arrays = {
        "grams": model.grams,
        "scale": model.scale,
        "bias": model.bias,
        "spam": model.spam,
        "creative": model.creative,
        "latin": letters.latin,
        "cyrillic": letters.cyrillic,
        "pairs": np.packbits(letters.pairs, bitorder="little"),
        "common": np.packbits(letters.common, bitorder="little"),
        "hardest": model.hardest,
        "head": np.frombuffer(head, np.uint8),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as archive:
        for name, array in arrays.items():
            entry = io.BytesIO()
            np.save(entry, np.asfortranarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), entry.getvalue(), zipfile.ZIP_LZMA)
    return file.getvalue()


def unpacked(content: bytes, name: str) -> ContentModel:
    """The model in a file's bytes; ``name`` is the file's, for the error.

    Raises:
        Refused: it is no model, or one of another version.
    """
    try:
        arrays = _arrays(content)
        head = msgspec.json.decode(arrays["head"].tobytes(), type=_Head)
    except (ValueError, KeyError, EOFError, OSError, zipfile.BadZipFile, msgspec.DecodeError) as error:
        raise Refused(name, f"is no model of the gate ({error}); make one with ticketmill gate train") from None
    if head.version != VERSION:
        raise Refused(
            name, f"is a model of version {head.version}, not {VERSION}; train it anew: ticketmill gate train"
        )
    letters = Letters(arrays["latin"], arrays["cyrillic"], _bits(arrays["pairs"]), _bits(arrays["common"]))
    return ContentModel(
        grams=arrays["grams"],
        scale=arrays["scale"],
        bias=arrays["bias"],
        spam=arrays["spam"],
        creative=arrays["creative"],
        lines=head.lines,
        letters=letters,
        hardest=arrays["hardest"],
        honest=head.honest,
        about=head.about,
    )


def _bits(array: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    return np.unpackbits(array, bitorder="little").astype(np.bool_)


def _arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    found: dict[str, npt.NDArray[Any]] = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MOST_BYTES:
            raise ValueError("too large once unpacked")
        for name, (kind, shape) in _SHAPES.items():
            array = np.load(io.BytesIO(archive.read(f"{name}.npy")), allow_pickle=False)
            if array.dtype != kind or len(array.shape) != len(shape):
                raise ValueError(f"{name} holds {array.dtype}")
            if any(wanted not in (-1, got) for wanted, got in zip(shape, array.shape, strict=True)):
                raise ValueError(f"{name} has the shape {array.shape}")
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"{name} holds numbers that are none")
            found[name] = np.ascontiguousarray(array)
    return found
