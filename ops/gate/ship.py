"""Makes the shipped gate: ``python -m ops.gate.ship`` trains on every text under $TICKETMILL_DATA.

``--letters`` learns the letter tables anew too; else the present ones are kept.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import producer.adapters.gate_model as gate_model
from ops.gate.corpus import read_corpus
from ops.gate.training import trained


def main() -> None:
    """Writes the model into the package."""
    place = Path(gate_model.__file__).with_name(gate_model.SHIPPED)
    if "--letters" in sys.argv:
        from ops.gate.alphabets import learned

        letters = learned()
    else:
        letters = gate_model.load_model().letters
    model = trained(read_corpus(Path(os.environ["TICKETMILL_DATA"])), letters)
    place.write_bytes(gate_model.packed(model))
    print(f"{place}: {place.stat().st_size:,} bytes, {model.lines}")


if __name__ == "__main__":
    main()
