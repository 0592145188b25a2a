"""Numbers that a model can read of a text: pieces of words, weighted and reduced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.pipeline import make_pipeline

_WIDTH = 2**14
_PIECES = (3, 4)  # signs of the pieces of words
_LONGEST = 1_000  # signs of a text that are read


def text_features(texts: Sequence[str], dimensions: int = 16, seed: int = 0) -> NDArray[np.float64]:
    """Turn texts into a few numbers each, by hashed pieces of words, TF-IDF and a truncated SVD.

    >>> text_features(["a red house", "a red mouse", "some green tea"] * 10, dimensions=2).shape
    (30, 2)
    """
    short = [text[:_LONGEST] for text in texts]
    size = min(dimensions, max(1, len(short) - 1))
    read = make_pipeline(
        HashingVectorizer(analyzer="char_wb", ngram_range=_PIECES, n_features=_WIDTH, alternate_sign=False),
        TfidfTransformer(sublinear_tf=True),
        TruncatedSVD(size, random_state=seed),
    )
    return np.asarray(read.fit_transform(short), np.float64)
