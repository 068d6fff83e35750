"""``python -m ops.cli``: the ``ticketmill`` command from a checkout."""

from ops.cli import main

if __name__ == "__main__":
    main()
