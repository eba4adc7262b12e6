"""A headless Chromium, driven over its debugging pipe: real mouse and keys, and what it reports."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--window-size=1600,1200",
    "--remote-debugging-pipe",
    "about:blank",
)
_SECONDS = 60.0
# Where Chromium reads and writes its debugging messages.
_COMMANDS, _ANSWERS = 3, 4


def executable() -> str | None:
    """The browser that is installed, if there is one that can be driven."""
    if os.name != "posix":
        return None
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class BrowserError(Exception):
    """The browser refused a command, or did not answer in time."""


class Browser:
    """One page in a browser of its own. ``events`` are all that it has told, in order."""

    def __init__(self, program: str):
        import fcntl  # not there on Windows, where the pipe does not work either

        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.events: list[dict[str, Any]] = []
        self._pending, self._number, self._session = b"", 0, ""
        # The descriptors that the child needs must be free to be replaced in it.
        fillers: list[int] = []
        while not fillers or fillers[-1] <= _ANSWERS:
            fillers.append(os.open(os.devnull, os.O_RDONLY))
        first_reads, self._commands = os.pipe()
        self._answers, first_writes = os.pipe()
        reads, writes = (
            fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (first_reads, first_writes)
        )

        def connect() -> None:
            os.dup2(reads, _COMMANDS)
            os.dup2(writes, _ANSWERS)

        self._process = subprocess.Popen(
            [program, f"--user-data-dir={self._profile.name}", *_FLAGS],
            pass_fds=(_COMMANDS, _ANSWERS),
            preexec_fn=connect,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (*fillers, first_reads, first_writes, reads, writes):
            os.close(fd)
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self._send(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._session = ""
            self._send("Browser.close")
            self._process.wait(20)
        except (BrowserError, subprocess.TimeoutExpired, OSError):
            self._process.kill()
            self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    # What a test does.

    def open(self, page: Path, anchor: str = "") -> None:
        """Load a page from its file; forgets what was told before."""
        # From the same page with another anchor nothing would be loaded.
        for url in ("about:blank", page.as_uri() + anchor):
            self.events.clear()
            self._send("Page.navigate", url=url)
            self._wait_for("Page.loadEventFired")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is in the page, as JSON data."""
        answer = self._send("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def point_at(self, selector: str) -> None:
        """Move the mouse onto the first element that a selector finds."""
        x, y = self._center(selector)
        self._send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self._center(selector)
        self._send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self._send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        """Press and release a key by its name, such as ``ArrowDown``."""
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "End": 35, "Home": 36}
        codes |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        for kind in ("rawKeyDown", "keyUp"):
            self._send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=codes[key],
            )

    def prefer(self, scheme: str) -> None:
        """Show pages as for people who prefer ``light`` or ``dark``."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self._send("Emulation.setEmulatedMedia", features=[feature])

    def resize(self, width: int, height: int) -> None:
        """Show pages as in a window of so many pixels."""
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def complaints(self) -> list[str]:
        """Exceptions, and errors and warnings of the console, since the page was opened."""
        self.value("0")
        found: list[str] = []
        for event in self.events:
            parameters = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    found.append(str(parameters["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning"):
                    found.append(str(parameters["args"]))
                case "Log.entryAdded":
                    found.append(str(parameters["entry"]))
        return found

    def requests(self) -> list[str]:
        """Everything that was fetched, or tried to be, since the page was opened."""
        self.value("0")
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    # The pipe.

    def _center(self, selector: str) -> tuple[float, float]:
        place = self.value(
            f"(() => {{ const part = document.querySelector({json.dumps(selector)});"
            " if (!part) return null;"
            " part.scrollIntoView({block: 'center', inline: 'start'});"
            " const box = part.getBoundingClientRect();"
            " const width = Math.min(box.width, 60);"
            " return [box.x + width / 2, box.y + box.height / 2]; })()"
        )
        if place is None:
            raise BrowserError(f"nothing in the page is {selector!r}")
        return place[0], place[1]

    def _send(self, method: str, **parameters: object) -> dict[str, Any]:
        self._number += 1
        message: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _SECONDS
        while (answer := self._receive(deadline)).get("id") != self._number:
            pass
        if "error" in answer:
            raise BrowserError(f"{method}: {answer['error']}")
        return answer["result"]

    def _wait_for(self, method: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not any(event["method"] == method for event in self.events):
            self._receive(deadline)

    def _receive(self, deadline: float) -> dict[str, Any]:
        """The next message; events are kept too."""
        while b"\0" not in self._pending:
            ready, _, _ = select.select(
                [self._answers], [], [], max(0, deadline - time.monotonic())
            )
            more = os.read(self._answers, 1 << 16) if ready else b""
            if not more:
                raise BrowserError("the browser does not answer")
            self._pending += more
        line, _, self._pending = self._pending.partition(b"\0")
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message
