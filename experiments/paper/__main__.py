"""``python -m experiments.paper``."""

from experiments.entries.command_line import main
from experiments.paper._command import reproduce

if __name__ == "__main__":
    main(reproduce)
