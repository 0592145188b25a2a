"""Where every set comes from: its files with their checksums, what becomes of them, and the terms they come under."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from experiments.data import _convert as convert

Arrays = Mapping[str, Any]
ODDS_TERMS = "cite S. Rayana, ODDS Library, 2016; the terms of UCI apply to the data"
UCI_TERMS = "CC BY 4.0; cite the UCI Machine Learning Repository"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
NETCAL = (
    "https://raw.githubusercontent.com/EFS-OpenSource/calibration-framework/2a3db8d7cb2a557f3b563c98ce00954f43dfe927"
)
CLEANLAB = "https://raw.githubusercontent.com/cleanlab/label-errors/73e4a255ee0ce65bed763d4b1202f38a3885699d"
TORONTO = ("https://www.cs.toronto.edu/~kriz", "https://cave.cs.toronto.edu/kriz")
STANFORD = "http://ufldl.stanford.edu/housenumbers"
DRIVE = "https://drive.usercontent.google.com/download?export=download&confirm=t&id="


@dataclass(frozen=True)
class File:
    """A file of a set: its name, where it is (one address after the other), and its SHA-256 or else MD5 where known."""

    name: str
    urls: tuple[str, ...]
    sha256: str = ""
    md5: str = ""


@dataclass(frozen=True)
class Source:
    """What makes ``places`` of the data folder: files, or a set of OpenML by its name; and how.

    ``shape`` is that of the inputs (for outputs of a classifier, of the logits), ``mean`` that of the target: what
    comes out must have them. ``ours`` is false for sets that no table or figure reads.
    """

    places: tuple[str, ...]
    terms: str
    files: tuple[File, ...] = ()
    openml: str = ""
    arrays: Callable[..., Arrays] | None = None
    shape: tuple[int, int] | None = None
    mean: float | None = None
    ours: bool = True
    unpacks: bool = False

    @property
    def page(self) -> str:
        """An address for people."""
        return self.files[0].urls[0] if self.files else f"https://www.openml.org/search?type=data&q={self.openml}"


def _odds(lines: str) -> dict[str, Source]:
    """One line per set: name, rows, columns, share of outliers, the address in Dropbox that ODDS gives, SHA-256."""
    found = {}
    for name, rows, columns, outliers, address, *known in (line.split() for line in lines.strip().splitlines()):
        file = File(f"{name}.mat", (f"https://www.dropbox.com/s/{address}/{name}.mat?dl=1",), *known)
        found[f"odds/{name}"] = Source(
            (f"odds/{name}.npz",),
            ODDS_TERMS,
            (file,),
            arrays=convert.matlab,
            shape=(int(rows), int(columns)),
            mean=int(outliers) / int(rows),
            ours=name not in ("cover", "http", "shuttle", "smtp"),
        )
    return found


def _table(name: str, path: str, shape: tuple[int, int], mean: float, **layout: Any) -> dict[str, Source]:
    """A text file of UCI's."""
    file = File(path.rsplit("/", 1)[1], (f"{UCI}/{path}",))
    arrays = partial(convert.table, **layout)
    return {f"regression/{name}": Source((f"regression/{name}.npz",), UCI_TERMS, (file,), "", arrays, shape, mean)}


def _openml(name: str, called: str, shape: tuple[int, int], mean: float, *, ours: bool = True) -> dict[str, Source]:
    terms = "as OpenML states on the page of the set"
    place = (f"regression/{name}.npz",)
    return {f"regression/{name}": Source(place, terms, openml=called, shape=shape, mean=mean, ours=ours)}


def _outputs(name: str, files: tuple[File, ...], classes: int) -> dict[str, Source]:
    place = (f"logits/{name}.npz",)
    arrays = convert.probabilities
    return {f"logits/{name}": Source(place, "Apache 2.0", files, arrays=arrays, shape=(10_000, classes))}


def _netcal(path: str) -> tuple[File, ...]:
    return (File(path.rsplit("/", 1)[1], (f"{NETCAL}/examples/classification/records/{path}",)),)


def _cleanlab(name: str) -> tuple[File, ...]:
    probabilities = f"cross_validated_predicted_probabilities/{name}_test_set_pyx.npy"
    labels = f"original_test_labels/{name}_test_set_original_labels.npy"
    return tuple(File(path.rsplit("/", 1)[1], (f"{CLEANLAB}/{path}",)) for path in (probabilities, labels))


def _archive(name: str, md5: str) -> tuple[File, ...]:
    return (File(name, tuple(f"{place}/{name}" for place in TORONTO), md5=md5),)


# The checksums of ODDS are those that OutlierDetectionData.jl records; three sets it does not have.
ODDS = _odds("""
annthyroid 7200 6 534 aifk51owxbogwav 17a1012d005f2179eca3b87c0028eb5ca807794b359c33fa1f8ca5ac846c514f
arrhythmia 452 274 66 lmlwuspn1sey48r e4d47e499591ae31e5d7f0cd983367092353eac240f48e14c9b36457edb3460d
breastw 683 9 239 g3hlnucj71kfvq4 a2e3f7c7f61ddde87c4373f0c0539de996227b9659c70b3c227948ebf0c6062b
cardio 1831 21 176 galg3ihvxklf0qi 5e568b6a73711012c481fa6cc984ab9c68e9a4fa44d6aeb3b43efa381c3f695b
cover 286048 10 2747 awx8iuzbu8dkxf1 39acf6da4d31f08c2c28dc047249d8cd8ccd9d6fc299d9b5a08874ac92290c98
glass 214 9 9 iq3hjxw77gpbl7u 2c506e6e1e2ca1e82a905d10a90773151ff812c4bd969c71a12db5b2bb6e7921
http 567498 3 2211 iy9ucsifal754tp 81d689cfec5407305ab98cd26794e2cefb3aef5a521bf9c59744107aabcaed7e
ionosphere 351 33 126 lpn4z73fico4uup 8ac5dfa6f47db4acdfe10615489b7f7dd015d79d5b381ce641e72baca3cfefb0
letter 1600 32 100 rt9i95h9jywrtiy f4a229b0e2a6b0c9157ce27fa760bcbac0f948cd690b2f5d51c120e5450f2195
lympho 148 18 6 ag469ssk0lmctco 031b907ecb50347720b08b38f8139d05635adeca9335a064d89d5569c27a5834
mammography 11183 6 260 tq2v4hhwyv17hlk
mnist 7603 100 700 n3wurjt8v9qi6nc 9479e221f236684c09f3e11c7ad124725d34ecd301b9450425e8b113368413a6
musk 3062 166 97 we6aqhb0m38i60t 50bbf414caceb66cfe6f6b1eb7c1ff7c6eb1e6d87173f7bb597ba55cd3dc5493
optdigits 5216 64 150 w52ndgz5k75s514 30c664cd6f3740a173277a27cd1028d471b06f0835a9902c9712749cec58c1c4
pendigits 6870 16 156 1x8rzb4a0lia6t1 7bc32ac83b3d583443acea8b1342a54aaa59eaedb9996af405322f473f3c22bc
pima 768 8 268 mvlwu7p0nyk2a2r b6a5be8d548b9293d6958beceb1c77055591714d25d40d957eba87808456468f
satellite 6435 36 2036 dpzxp8jyr9h93k5 6feac3112b9c14e1c3e60afc437f2f3d29dc1000119c9f950c628078778d6aa0
satimage-2 5803 36 71 hckgvu9m6fs441p 95c37a07cea2cb201f6900d14f521510e10b6b2f0074c06ac46d3157440ec67b
shuttle 49097 9 3511 mk8ozgisimfn3dw b6e396c92354d5dcf5036901e36dc58e2913f2d1a5e138c35a2bedf9c69db899
smtp 95156 3 30 dbv2u4830xri7og
thyroid 3772 6 93 bih0e15a0fukftb 49155d7861b977e90808faf68343ff67a67f63090c2744d514dbb67ac68e7e33
vertebral 240 6 30 5kuqb387sgvwmrb 84b50b055f118f54b5c976650ccd284ab7c1adee822f8b3eb517c7e2c890d15e
vowels 1456 12 50 pa26odoq6atq9vx 51d5397bad1ceeda22b7cd44fd58125c5d603c9c2edb53aa59933330e259ac7b
wbc 378 30 21 ebz9v9kdnvykzcb afe6b26953cc196b9a480318c903e0edef22529c2f61bd02082438c6e70630a7
wine 129 13 10 uvjaudt2uto7zal
""")

REGRESSION = {
    **_openml("kinematics_kin8nm", "kin8nm", (8192, 8), 0.714283),
    **_openml("bank8FM", "bank8FM", (8192, 8), 0.161525),
    **_openml("bank32nh", "bank32nh", (8192, 32), 0.083621, ours=False),
    **_openml("fried", "fried", (40768, 10), 14.407829),
    **_openml("soil_visualizing", "visualizing_soil", (8641, 4), 16.863326),
    **_table("wine_red", "wine-quality/winequality-red.csv", (1599, 11), 5.636023, separator=";", header=True),
    **_table("wine_white", "wine-quality/winequality-white.csv", (4898, 11), 5.877909, separator=";", header=True),
    **_table("crime", "communities/communities.data", (1994, 122), 0.237979, separator=",", columns=slice(5, -1)),
    **_table("mpg", "auto-mpg/auto-mpg.data", (398, 7), 23.514573, target=0, columns=slice(1, 8)),
    **_table("cpu", "cpu-performance/machine.data", (209, 6), 105.622010, separator=",", target=8, columns=slice(2, 8)),
}

LOGITS = {
    **_outputs("cifar10_lenet5", _netcal("cifar10/lenet-5-cifar-10.npz"), 10),
    **_outputs("cifar100_densenet_bc100", _netcal("cifar100/densenet-bc-100-cifar-100.npz"), 100),
    **_outputs("cifar10_cleanlab_cv", _cleanlab("cifar10"), 10),
    **_outputs("mnist_cleanlab_cv", _cleanlab("mnist"), 10),
}

CIFAR_TERMS = "no licence stated; cite A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
PICTURES = {
    "cifar10": Source(
        ("vision/cifar-10-batches-py",),
        CIFAR_TERMS,
        _archive("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
        unpacks=True,
    ),
    "cifar100": Source(
        ("vision/cifar-100-python",),
        CIFAR_TERMS,
        _archive("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
        ours=False,
        unpacks=True,
    ),
    "svhn": Source(
        ("vision/train_32x32.mat", "vision/test_32x32.mat"),
        "non-commercial use only; cite Y. Netzer et al., 2011",
        (
            File("train_32x32.mat", (f"{STANFORD}/train_32x32.mat",), md5="e26dedcc434d2e4c54c9b2d4a06d8373"),
            File("test_32x32.mat", (f"{STANFORD}/test_32x32.mat",), md5="eb5a983be6a315427106f1b164d9cef3"),
        ),
    ),
    "celeba": Source(
        ("vision/celeba/img_align_celeba", "vision/celeba/list_eval_partition.txt"),
        "non-commercial research only, and not to be passed on; cite Z. Liu et al., 2015",
        (
            File(
                "img_align_celeba.zip",
                (f"{DRIVE}0B7EVK8r0v71pZjFTYXZWM3FlRnM",),
                md5="00d2c5bc6d35e252742224ab0c1e8fcb",
            ),
            File(
                "list_eval_partition.txt",
                (f"{DRIVE}0B7EVK8r0v71pY0NSMzRuSXJEVkk",),
                md5="d32c9cbf5e040fd4025c592c306e6668",
            ),
        ),
        unpacks=True,
    ),
}

SOURCES: dict[str, Source] = {**ODDS, **REGRESSION, **LOGITS, **PICTURES}


def hint(name: str) -> str:
    """How to get a set that is missing, or nothing where no source is known."""
    source = SOURCES.get(name)
    return f". experiments.data.fetch({name!r}) gets it from {source.page}" if source else ""
