"""JSON as text: laid out for readers, and parsed without extensions such as NaN."""

from __future__ import annotations

import json
from typing import Any, NoReturn

_DIGITS = 1000  # maximum length of a whole number; Python's error for more is harder to read


def laid_out(value: Any, depth: int = 0) -> str:
    """Return JSON with a line per field and per row of numbers."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not (isinstance(value, dict) and value) and not any(isinstance(child, dict | list) for child in children):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    parts = [laid_out(child, depth + 1) for child in children]
    if isinstance(value, dict):
        names = [json.dumps(str(name), ensure_ascii=False) for name in value]
        parts = [f"{name}: {part}" for name, part in zip(names, parts, strict=True)]
    first, last = "{}" if isinstance(value, dict) else "[]"
    pad = "\n" + " " * (depth + 1)
    return first + pad + ("," + pad).join(parts) + "\n" + " " * depth + last


def parsed(text: str, name: str) -> Any:
    """Parse the text; ``name`` is the file's name, for errors."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{name} holds {constant}, which is no number of JSON")

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) < len(pairs):
            names = [field for field, _ in pairs]
            twice = max(names, key=names.count)
            raise ValueError(f"{name} has the field {twice!r} twice in one object")
        return fields

    def whole(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise ValueError(f"{name} holds a whole number of {len(digits.lstrip('-'))} digits")
        return int(digits)

    if not text.strip():
        raise ValueError(f"{name} is empty")
    try:
        return json.loads(text, parse_constant=refuse, object_pairs_hook=once, parse_int=whole)
    except json.JSONDecodeError as error:
        cut = "" if text.rstrip().endswith("}") else "; it does not end with }: was the file cut short?"
        raise ValueError(f"{name} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}{cut}") from None
    except RecursionError:
        raise ValueError(f"{name} is not a model of likely: it is nested too deeply") from None
