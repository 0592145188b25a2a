"""A file is written whole or not at all, whoever else writes it, wherever the process dies."""

import errno
import os
import random
import resource
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest

from likely._files import replacing

# Newer Pythons warn of forks beside threads; the children use none of the parent's.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SIZE = 300_000  # more than one write


def write(path, letter):
    with replacing(path) as beside, beside.open("w") as file:
        for _ in range(10):
            file.write(letter * (SIZE // 10))


def is_whole(text):
    return len(text) == SIZE and len(set(text)) == 1


def in_child(work):
    """The number of a process that does the work and ends."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    return pid


def for_ever(path, letter):
    while True:
        write(path, letter)


def test_two_writers_and_a_reader_never_meet_half_a_file(tmp_path):
    path, rounds = tmp_path / "note.txt", 40
    write(path, "a")
    writers = [in_child(lambda letter=letter: [write(path, letter) for _ in range(rounds)]) for letter in "bc"]
    left, seen = set(writers), 0
    while left:
        assert is_whole(path.read_text())
        seen += 1
        left -= {pid for pid in left if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)}
    assert [os.waitpid(pid, 0)[1] for pid in writers] == [0, 0]
    assert seen
    assert os.listdir(tmp_path) == ["note.txt"]


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path):
    path, luck = tmp_path / "note.txt", random.Random(0)
    write(path, "a")
    for _ in range(20):
        pid = in_child(lambda: for_ever(path, luck.choice("bcd")))
        time.sleep(luck.uniform(0.001, 0.02))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        assert is_whole(path.read_text())


def test_what_a_killed_process_left_is_removed_an_hour_later_and_nothing_else(tmp_path):
    path = tmp_path / "note.txt"
    left = [tmp_path / f".note.txt.{sign * 16}.partial" for sign in "ab"]
    others = [tmp_path / name for name in (".note.txt.partial", ".note.txt.1-mine.partial", "note.txt.new")]
    for file in (*left, *others):
        file.write_text("unfinished")
        os.utime(file, times=(time.time() - 4000,) * 2)
    left[1].touch()  # its process may be at work
    write(path, "a")
    assert set(tmp_path.iterdir()) == {path, left[1], *others}


def test_threads_have_files_of_their_own(tmp_path):
    path = tmp_path / "note.txt"
    threads = [threading.Thread(target=write, args=(path, letter)) for letter in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert is_whole(path.read_text())
    assert os.listdir(tmp_path) == ["note.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_leaves_the_old_file_and_nothing_beside_it(error, tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")

    def interrupted():
        with replacing(path) as beside:
            beside.write_text("half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["note.txt"]


def test_files_may_not_grow_beyond_a_limit(tmp_path):
    """The system's own refusal to write more, as on a full disk."""
    path = tmp_path / "note.txt"
    write(path, "a")
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from likely._files import replacing\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({SIZE // 2}, resource.RLIM_INFINITY))\n"
        "try:\n"
        f"    with replacing(Path(sys.argv[1])) as beside: beside.write_text('b' * {SIZE})\n"
        "except OSError as error: print(error.filename, '|', error)\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{path} | [Errno {errno.EFBIG}]")
    assert is_whole(path.read_text())
    assert os.listdir(tmp_path) == ["note.txt"]


def test_permissions_are_those_of_the_old_file_or_of_any_new_one(tmp_path):
    path, plain = tmp_path / "note.txt", tmp_path / "plain.txt"
    write(path, "a")
    plain.write_text("as open makes it")
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    write(path, "b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    folder, link, broken = tmp_path / "there", tmp_path / "link.txt", tmp_path / "broken.txt"
    folder.mkdir()
    link.symlink_to(folder / "note.txt")
    broken.symlink_to(folder / "new.txt")
    (folder / "note.txt").write_text("old")
    write(link, "a")
    write(broken, "b")
    assert link.is_symlink()
    assert broken.is_symlink()
    assert (folder / "note.txt").read_text()[0] == "a"
    assert (folder / "new.txt").read_text()[0] == "b"
    assert sorted(os.listdir(folder)) == ["new.txt", "note.txt"]


@pytest.mark.parametrize("name", ["two words.txt", "Größe λ.txt", "n" * 250, ".hidden", "[a]*.txt"])
def test_any_name_will_do_as_text_or_path(name, tmp_path):
    write(tmp_path / name, "a")
    write(str(tmp_path / name), "b")
    assert (tmp_path / name).read_text()[0] == "b"
    assert os.listdir(tmp_path) == [name]


def test_errors_name_the_destination(tmp_path):
    lost = tmp_path / "no folder" / "note.txt"
    with pytest.raises(FileNotFoundError) as missing:
        write(lost, "a")
    assert missing.value.filename == str(lost)
    with pytest.raises(IsADirectoryError) as folder:
        write(tmp_path, "a")
    assert folder.value.filename == str(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError) as inside:
        write(tmp_path / "file" / "note.txt", "a")
    assert inside.value.filename == str(tmp_path / "file" / "note.txt")
    with pytest.raises(FileNotFoundError) as of_input, replacing(tmp_path / "note.txt"):
        (tmp_path / "input").read_text()
    assert of_input.value.filename == str(tmp_path / "input")
    with pytest.raises(OSError, match="refused by the server"), replacing(tmp_path / "note.txt"):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused by the server")


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_is_read_only_is_left_alone(what, tmp_path, monkeypatch):
    path = tmp_path / "note.txt"
    path.write_text("old")
    if os.geteuid():
        (path if what == "file" else tmp_path).chmod(0o500)
    elif what == "file":  # root may write everything
        monkeypatch.setattr(os, "access", lambda *_: False)
    else:
        monkeypatch.setattr(os, "open", lambda name, *_: (_ for _ in ()).throw(PermissionError(13, "denied", name)))
    with pytest.raises(PermissionError) as refused:
        write(path, "a")
    monkeypatch.undo()
    tmp_path.chmod(0o700)
    assert refused.value.filename == str(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["note.txt"]


def test_a_pipe_is_written_to_as_it_is(tmp_path):
    path, heard = tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: heard.append(path.read_text()))
    reader.start()
    with replacing(path) as beside:
        beside.write_text("through")
    reader.join()
    assert heard == ["through"]
    assert stat.S_ISFIFO(path.stat().st_mode)
