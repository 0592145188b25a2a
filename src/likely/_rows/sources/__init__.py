"""Tables that are larger than memory or on other machines, one file per kind of storage."""

from likely._rows.sources._arguments import (
    Split,
    Spooled,
    by_blocks,
    is_source,
    refuse_blocks,
    source_of,
    split_source,
    spooled,
)
from likely._rows.sources._files import is_one_file, names_files
from likely._rows.sources._source import Answer, Source, drawn

__all__ = [
    "Answer",
    "Source",
    "Split",
    "Spooled",
    "by_blocks",
    "drawn",
    "is_one_file",
    "is_source",
    "names_files",
    "refuse_blocks",
    "source_of",
    "split_source",
    "spooled",
]
