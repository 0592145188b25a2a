"""Downloads against a server on this machine: checked, resumed, and where there is nothing, told where to put it."""

import hashlib
import io
import json
import re
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import scipy.io

from commands import paper_command
from experiments.data import (
    _download as downloading,
    fetch,
    list_sources,
    load_images,
    load_logits,
    load_outliers,
    load_regression,
    terms,
)
from experiments.data._convert import matlab, table, unpack
from experiments.data._download import download
from experiments.data._sources import SOURCES, File, Source

CONTENT = bytes(range(256)) * 40
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(ThreadingHTTPServer):
    """Serves ``files``; the first answers break off after so many bytes, and ``ranges`` says what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files: dict[str, bytes] = {}
        self.break_after: list[int] = []
        self.ranges: list[str | None] = []
        self.knows_ranges = True

    # HTTPServer would look up the name of this machine, which may have none.
    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Answer(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        content = self.server.files.get(self.path[1:])
        asked = self.headers["Range"]
        self.server.ranges.append(asked)
        if content is None:
            self.send_error(404)
            return
        start = int(asked[6:-1]) if asked and self.server.knows_ranges else 0
        if start and start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        until = start + self.server.break_after.pop(0) if self.server.break_after else len(content)
        self.wfile.write(content[start:until])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    serving = Server()
    thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    serving.files["set.bin"] = CONTENT
    yield serving
    serving.shutdown()
    thread.join()
    serving.server_close()


def file(server: Server, **known: str) -> File:
    return File("set.bin", (server.url("set.bin"),), **known)


def matlab_file(**arrays: object) -> bytes:
    target = io.BytesIO()
    scipy.io.savemat(target, arrays)
    return target.getvalue()


@pytest.mark.parametrize("known", [{"sha256": SHA256}, {"md5": hashlib.md5(CONTENT).hexdigest()}])
def test_a_file_is_checked_and_got_once(server: Server, tmp_path: Path, known: dict[str, str]) -> None:
    for _ in range(2):
        assert download(file(server, **known), tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None]
    assert [path.name for path in tmp_path.iterdir()] == ["set.bin"]


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"not the published one.*sha256 is {SHA256}, not {'0' * 64}"):
        download(file(server, sha256="0" * 64), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_put_there_by_hand_is_checked_and_never_removed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set.bin").write_bytes(b"something else")
    with pytest.raises(ValueError, match=r"set\.bin is not the published file: remove it"):
        download(file(server, sha256=SHA256), tmp_path)
    assert (tmp_path / "set.bin").read_bytes() == b"something else"
    (tmp_path / "set.bin").write_bytes(CONTENT)
    download(file(server, sha256=SHA256), tmp_path)
    assert server.ranges == []


def test_an_interrupted_download_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    server.break_after = [1000, 2000]
    assert download(file(server, sha256=SHA256), tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=1000-", "bytes=3000-"]


def test_after_too_many_interruptions_the_next_run_goes_on(server: Server, tmp_path: Path) -> None:
    server.break_after = [1000] * downloading.ATTEMPTS
    with pytest.raises(FileNotFoundError, match=r"begun: 3,000 bytes.*ended after 1,000 of"):
        download(file(server, sha256=SHA256), tmp_path)
    assert download(file(server, sha256=SHA256), tmp_path).read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=3000-"


def test_a_server_without_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    server.knows_ranges, server.break_after = False, [1000]
    assert download(file(server, sha256=SHA256), tmp_path).read_bytes() == CONTENT


def test_a_download_that_was_whole_is_only_checked(server: Server, tmp_path: Path) -> None:
    (tmp_path / "set.bin.partial").write_bytes(CONTENT)
    assert download(file(server, sha256=SHA256), tmp_path).read_bytes() == CONTENT


def test_the_next_address_is_tried(server: Server, tmp_path: Path) -> None:
    both = File("set.bin", (server.url("moved"), server.url("set.bin")), SHA256)
    assert download(both, tmp_path).read_bytes() == CONTENT


def test_a_file_that_is_nowhere_is_named_with_its_address_and_place(server: Server, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        download(File("gone.bin", (server.url("gone.bin"),), SHA256), tmp_path)
    message = str(caught.value)
    assert f"{tmp_path / 'gone.bin'} is missing" in message
    assert f"get it from {server.url('gone.bin')} and put it there" in message
    assert "Not Found" in message


def test_without_a_network_it_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    with pytest.raises(FileNotFoundError) as caught:
        fetch("odds/glass", tmp_path)
    message = str(caught.value)
    assert f"{tmp_path / 'downloads' / 'glass.mat'} is missing" in message
    assert f"get it from {SOURCES['odds/glass'].files[0].urls[0]} and put it there" in message
    assert "no route to host" in message


def test_what_nobody_has_published_a_checksum_of_is_pinned(server: Server, tmp_path: Path) -> None:
    download(file(server), tmp_path)
    assert json.loads((tmp_path / "checksums.json").read_text()) == {"set.bin": SHA256}
    (tmp_path / "set.bin").unlink()
    server.files["set.bin"] = CONTENT + b"!"
    with pytest.raises(ValueError, match=f"not {SHA256}"):
        download(file(server), tmp_path)


@pytest.fixture
def odds(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    content = matlab_file(X=np.arange(12.0).reshape(4, 3), y=np.array([[0], [0], [0], [1]]))
    server.files["few.mat"] = content
    known = File("few.mat", (server.url("few.mat"),), hashlib.sha256(content).hexdigest())
    source = Source(("odds/few.npz",), "cite us", (known,), arrays=matlab, shape=(4, 3), mean=0.25)
    monkeypatch.setitem(SOURCES, "odds/few", source)
    return server


def test_a_fetched_set_is_loaded(odds: Server, tmp_path: Path) -> None:
    found = load_outliers("few", fetch("odds/few", tmp_path))
    assert (found.X[1].tolist(), found.y.tolist()) == ([3, 4, 5], [0, 0, 0, 1])
    fetch("odds/few", tmp_path)
    assert len(odds.ranges) == 1


def test_a_missing_set_is_named_with_how_to_get_it(odds: Server, tmp_path: Path) -> None:
    how = re.escape(f"experiments.data.fetch('odds/few') gets it from {odds.url('few.mat')}")
    with pytest.raises(FileNotFoundError, match=how):
        load_outliers("few", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"fetch\('svhn'\) gets it from http://ufldl"):
        load_images("svhn", data=tmp_path)


def test_another_set_at_the_address_is_refused(odds: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SOURCES, "odds/few", Source(**vars(SOURCES["odds/few"]) | {"mean": 0.5}))
    with pytest.raises(ValueError, match="another set"):
        fetch("odds/few", tmp_path)
    assert not (tmp_path / "odds" / "few.npz").exists()


def test_sets_of_openml_come_through_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    rows, columns = SOURCES["regression/bank8FM"].shape

    def answer(name: str, **settings: object) -> SimpleNamespace:
        asked.append((name, settings["version"]))
        target = np.full(rows, SOURCES["regression/bank8FM"].mean)
        names = [f"a{i}" for i in range(columns)]
        return SimpleNamespace(data=np.ones((rows, columns)), target=target, feature_names=names)

    monkeypatch.setattr("sklearn.datasets.fetch_openml", answer)
    assert load_regression("bank8FM", fetch("regression/bank8FM", tmp_path)).feature_names[0] == "a0"
    assert asked == [("bank8FM", 1)]

    def no_network(*_: object, **__: object) -> None:
        raise URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", no_network)
    with pytest.raises(FileNotFoundError, match=r"regression/fried\.npz is missing.*put an npz with X and y there"):
        fetch("regression/fried", tmp_path)


def test_text_files_of_uci(tmp_path: Path) -> None:
    path = tmp_path / "cars.data"
    path.write_text('18.0 8 ? 3504. 12.0 70 1\t"a b c"\n15.0 8 350.0 3693. 11.5 70 1\t"d"\n')
    cars = table(path, target=0, columns=slice(1, 7))
    assert np.isnan(cars["X"][0, 1])
    assert (cars["X"][1].tolist(), cars["y"].tolist()) == ([8, 350, 3693, 11.5, 70, 1], [18, 15])
    path.write_text('"acid";"quality"\n7.4;5\n')
    wine = table(path, separator=";", header=True)
    assert (wine["X"].tolist(), wine["feature_names"].tolist(), str(wine["target_name"])) == (
        [[7.4]],
        ["acid"],
        "quality",
    )


def test_outputs_become_logits(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = np.random.default_rng(0).dirichlet(np.ones(3), 8)
    for name, array in (("said.npy", said), ("truth.npy", np.arange(8) % 3)):
        np.save(tmp_path / name, array)
        server.files[name] = (tmp_path / name).read_bytes()
    files = tuple(File(name, (server.url(name),)) for name in ("said.npy", "truth.npy"))
    arrays = SOURCES["logits/cifar10_cleanlab_cv"].arrays
    monkeypatch.setitem(SOURCES, "logits/net", Source(("logits/net.npz",), "", files, arrays=arrays, shape=(8, 3)))
    found = load_logits("net", fetch("logits/net", tmp_path / "data"))
    np.testing.assert_allclose(np.exp(found.logits), said, rtol=1e-6)
    assert (found.calibration.sum(), found.labels.tolist()) == (4, [0, 1, 2, 0, 1, 2, 0, 1])


def test_archives_and_plain_files_go_where_loaders_look(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        (tmp_path / "data_batch_1").write_text("batch")
        archive.add(tmp_path / "data_batch_1", "cifar-10-batches-py/data_batch_1")
    digits = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[10], [7]])}
    contents = {"a.tar.gz": (tmp_path / "a.tar.gz").read_bytes()}
    contents |= dict.fromkeys(("train_32x32.mat", "test_32x32.mat"), matlab_file(**digits))
    server.files |= contents
    for name, files in (("cifar10", ["a.tar.gz"]), ("svhn", ["train_32x32.mat", "test_32x32.mat"])):
        here = tuple(File(own, (server.url(own),), hashlib.sha256(contents[own]).hexdigest()) for own in files)
        monkeypatch.setitem(SOURCES, name, Source(**vars(SOURCES[name]) | {"files": here}))
    data = fetch("cifar10", tmp_path / "data")
    assert (data / "vision" / "cifar-10-batches-py" / "data_batch_1").read_text() == "batch"
    assert load_images("svhn", "test", fetch("svhn", data)).labels.tolist() == [0, 7]
    asked = len(server.ranges)
    (data / "vision" / "test_32x32.mat").unlink()
    fetch("svhn", data)
    assert len(server.ranges) == asked + 1


def test_a_set_in_another_layout_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("it is there"))
    for part in ("train", "test"):
        (tmp_path / f"svhn_{part}_0.webp").write_bytes(b"")
    (tmp_path / "svhn_labels.npz").write_bytes(b"")
    assert fetch("svhn", tmp_path) == tmp_path


def test_an_archive_that_was_half_unpacked_is_unpacked_again(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "faces.zip", "w") as archive:
        archive.writestr("img/1.jpg", "one")
    half = tmp_path / "out" / ".faces.zip.partial" / "img"
    half.mkdir(parents=True)
    (half / "0.jpg").write_text("half")
    unpack(tmp_path / "faces.zip", tmp_path / "out")
    assert [str(path.relative_to(tmp_path / "out")) for path in sorted((tmp_path / "out").rglob("*"))] == [
        "img",
        "img/1.jpg",
    ]


def test_every_source_says_where_it_goes_and_what_it_asks() -> None:
    for name in list_sources():
        source = SOURCES[name]
        assert terms(name)
        assert source.places
        assert bool(source.openml) != bool(source.files)
        for one in source.files:
            assert all(url.startswith(("https://", "http://ufldl.stanford.edu/")) for url in one.urls)
            assert len(one.sha256) in (0, 64)
            assert len(one.md5) in (0, 32)
    with pytest.raises(ValueError, match="no source of 'odds/nothing' is known"):
        fetch("odds/nothing", "anywhere")


def test_reproduce_fetches_what_is_missing_and_goes_on(
    odds: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = File("gone.mat", (odds.url("gone.mat"),))
    for name in list(SOURCES):
        if name != "odds/few":
            monkeypatch.delitem(SOURCES, name)
    monkeypatch.setitem(SOURCES, "odds/gone", Source(("odds/gone.npz",), "cite them", (gone,), arrays=matlab))
    monkeypatch.setattr("experiments.paper.ENTRIES", ())
    words = ["--fetch", "--out", str(tmp_path / "runs")]
    done = paper_command(*words, "--data", str(tmp_path / "data"))
    assert done.exit_code == 0
    assert "fetching odds/few (cite us)" in done.stderr
    assert f"{tmp_path / 'data' / 'downloads' / 'gone.mat'} is missing" in done.stderr
    assert (tmp_path / "data" / "odds" / "few.npz").exists()
    refused = paper_command(*words)
    assert (refused.exit_code, "--fetch needs a folder" in refused.stderr) == (2, True)
