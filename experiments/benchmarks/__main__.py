"""``python -m experiments.benchmarks``."""

from experiments.benchmarks._command import bench
from experiments.entries.command_line import main

if __name__ == "__main__":
    main(bench)
