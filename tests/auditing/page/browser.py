"""Debian's chromium, driven over its debugging pipe: nothing to install, no port to open."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def _pipe() -> tuple[int, int]:
    """A pipe away from numbers 3 and 4, where the browser looks for its own ends."""
    near = os.pipe()
    far = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in near)
    for end in near:
        os.close(end)
    return far[0], far[1]


class Browser:
    """One page in a headless browser. ``errors`` collects what a console would show in red, ``requests`` addresses."""

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        assert CHROMIUM
        self.folder = tempfile.mkdtemp()
        to_browser, self.write = _pipe()
        self.read, from_browser = _pipe()

        def at_3_and_4() -> None:
            os.dup2(to_browser, 3)
            os.dup2(from_browser, 4)

        words = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        words += ["--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={self.folder}"]
        self.process = subprocess.Popen(
            [CHROMIUM, *words, f"--window-size={width},{height}"],
            preexec_fn=at_3_and_4,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.rest = 0, b""
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.terminate()
        self.process.wait(10)
        os.close(self.read)
        os.close(self.write)
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol and wait for its answer."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def open(self, path: Path) -> None:
        """Load a local page and wait until it is complete."""
        self.send("Page.navigate", url=path.as_uri())
        for _ in range(200):
            if self.run("document.readyState") == "complete" and self.run("location.protocol") == "file:":
                return
            time.sleep(0.05)
        raise TimeoutError(path)

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            piece = os.read(self.read, 1 << 16)
            assert piece, "the browser is gone"
            self.rest += piece
        first, self.rest = self.rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(first)
        told, about = message.get("method"), message.get("params", {})
        if told == "Runtime.exceptionThrown":
            self.errors.append(str(about["exceptionDetails"]))
        if told == "Log.entryAdded" and about["entry"]["level"] == "error":
            self.errors.append(about["entry"]["text"])
        if told == "Network.requestWillBeSent":
            self.requests.append(about["request"]["url"])
        return message
