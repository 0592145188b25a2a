"""Texts that are almost the same: sets of word pairs, compared by MinHash (Broder 1997)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from likely.auditing.checks._spelling import plain

_WORD = re.compile(r"\w+")
_SHORT = 8  # words below which texts are compared by pieces of four signs
_PIECE = 4
_FEWEST = 8  # pieces of a text that is compared at all
_LONGEST = 2_000  # signs of a text that are read
_BANDS, _DEPTH = 16, 4  # a pair is compared if it agrees in all hashes of one band
_ALIKE = 0.7  # share of pieces in common, of all pieces of the two
_PRIME = np.uint64((1 << 61) - 1)


def pieces(text: str) -> frozenset[int]:
    """Cut a text into pieces: pairs of words, or groups of four signs where it is short.

    >>> pieces("One two, three!") == pieces("one  TWO three")
    True
    """
    words = _WORD.findall(plain(text[:_LONGEST]))
    if len(words) < _SHORT:
        joined = " ".join(words)
        return frozenset(_number(joined[i : i + _PIECE]) for i in range(max(len(joined) - _PIECE + 1, 0)))
    return frozenset(_number(f"{a} {b}") for a, b in pairwise(words))


def _number(piece: str) -> int:
    return crc32(piece.encode("utf-8", "surrogatepass"))  # a damaged text may hold half a sign


def near_texts(texts: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Find, for each text, the first one that it almost equals.

    >>> near_texts(["the cat sat on the mat", "dogs bark at night, mostly", "the cat sat on the mats"])[0]
    array([-1, -1,  0])
    """
    pieces_of = [pieces(text) for text in texts]
    of, share = np.full(len(texts), -1), np.zeros(len(texts))
    compared = [place for place, cut in enumerate(pieces_of) if len(cut) >= _FEWEST]
    if len(compared) < 2:
        return of, share
    starts = np.cumsum([0, *(len(pieces_of[place]) for place in compared[:-1])])
    values = np.fromiter((value for place in compared for value in pieces_of[place]), np.uint64)
    random = np.random.RandomState(0)
    factors = random.randint(1, 2**31, (_BANDS * _DEPTH, 2)).astype(np.uint64)
    for band in range(_BANDS):
        key = np.zeros(len(compared), np.uint64)
        for a, b in factors[band * _DEPTH : (band + 1) * _DEPTH]:
            hashed = np.minimum.reduceat((a * values + b) % _PRIME, starts)
            key = (key * np.uint64(1_000_003)) ^ hashed
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        for later in np.flatnonzero(first[group] != np.arange(len(key))):
            here, there = compared[int(later)], compared[int(first[group[later]])]
            if of[here] >= 0:
                continue
            common = len(pieces_of[here] & pieces_of[there]) / len(pieces_of[here] | pieces_of[there])
            if common >= _ALIKE:
                of[here], share[here] = there, common
    return of, share
