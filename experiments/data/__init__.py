"""Data for experiments: classifiers' outputs, regression, outlier and picture sets from a local folder, synthetic sets.

Files are read from the folder given as ``data``, or named by the environment variable ``LIKELY_DATA``; each is an npz,
under ``logits/``, ``regression/`` or ``odds/``. Pictures are under ``vision/``. Nothing is downloaded but by
:func:`fetch`.
"""

from experiments.data._faces import Faces, has_faces, load_faces
from experiments.data._fetch import fetch, list_sources, terms
from experiments.data._frames import Frame, list_frames, load_frame
from experiments.data._linear import LinearProblem, make_linear
from experiments.data._logits import Logits, list_logits, load_logits
from experiments.data._outliers import Outliers, list_outliers, load_outliers
from experiments.data._regression import Regression, list_regression, load_regression
from experiments.data._synthetic import make_heteroscedastic
from experiments.data._vision import Images, list_images, load_images

__all__ = [
    "Faces",
    "Frame",
    "Images",
    "LinearProblem",
    "Logits",
    "Outliers",
    "Regression",
    "fetch",
    "has_faces",
    "list_frames",
    "list_images",
    "list_logits",
    "list_outliers",
    "list_regression",
    "list_sources",
    "load_faces",
    "load_frame",
    "load_images",
    "load_logits",
    "load_outliers",
    "load_regression",
    "make_heteroscedastic",
    "make_linear",
    "terms",
]
