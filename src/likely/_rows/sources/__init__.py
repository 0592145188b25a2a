"""Tables that are larger than memory or on other machines, one file per kind of storage."""

from likely._rows.sources._by_blocks import by_blocks, refuse_blocks
from likely._rows.sources._files import ENDINGS, is_one_file, names_files
from likely._rows.sources._kinds import is_source, source_of
from likely._rows.sources._source import Answer, BoundMethod, Source, drawn

__all__ = [
    "ENDINGS",
    "Answer",
    "BoundMethod",
    "Source",
    "by_blocks",
    "drawn",
    "is_one_file",
    "is_source",
    "names_files",
    "refuse_blocks",
    "source_of",
]
