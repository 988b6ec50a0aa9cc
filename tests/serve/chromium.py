"""A headless Chromium for tests, driven over its own protocol (CDP) by one websocket: no driver, no build step.

Pages' scripts are off. What is asked of a page is asked through the protocol, which does not need them.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import time
from base64 import b64decode
from contextlib import ExitStack
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-port=0",
)  # fmt: skip
_PATIENCE_SECONDS = 120
_KEYS = {
    "Tab": ("Tab", 9, ""),
    "Enter": ("Enter", 13, "\r"),
    "Space": (" ", 32, " "),
    "ArrowDown": ("ArrowDown", 40, ""),
}
_NAVIGATED = "target navigated"
WIDE, NARROW = 1400, 390
"""The widths in pixels at which pages are looked at."""
CONTRAST = """(() => {
  const read = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = rgb => { const [r, g, b] = rgb.slice(0, 3).map(v => { v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = one => { for (let e = one; e; e = e.parentElement) {
    const c = read(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0) return c; } return [255, 255, 255]; };
  const faint = [];
  for (const one of document.body.querySelectorAll('*')) {
    if (one.closest('svg') || ![...one.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const pair = [light(read(getComputedStyle(one).color)), light(behind(one))].sort((a, b) => a - b);
    const ratio = (pair[1] + 0.05) / (pair[0] + 0.05);
    if (ratio < 4.5) faint.push(one.tagName + '.' + one.className + ' ' + ratio.toFixed(2));
  }
  return [...new Set(faint)];
})()"""
"""Which elements' words are too faint for their ground (WCAG AA: 4.5)."""
CLIPPED = """(() => [...document.querySelectorAll('.scroll')]
  .filter(one => one.scrollWidth > one.clientWidth + 1)
  .map(one => one.querySelector('th, td').textContent + ' ' + one.scrollWidth + ' of ' + one.clientWidth))()"""
"""Which tables are cut off, as words of their first cell with both widths."""
SCREENSHOTS = os.environ.get("WARDROUND_SCREENSHOTS")
"""A folder into which every page that is looked at is written as PNG."""


class Navigated(Exception):
    """The page went away while it was asked."""


class Chromium:
    """One browser with one tab."""

    def __init__(self, folder: Path) -> None:
        from websockets.sync.client import connect

        assert PROGRAM is not None
        self._open = ExitStack()
        with ExitStack() as until_it_runs:
            process = subprocess.Popen(
                [PROGRAM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            until_it_runs.callback(_end, process)
            port, path = _written(folder / "DevToolsActivePort", process).split()
            there = connect(f"ws://127.0.0.1:{port}{path}", max_size=None, open_timeout=_PATIENCE_SECONDS)
            self._socket = until_it_runs.enter_context(there)
            self._open = until_it_runs.pop_all()
        self._begin()

    def _begin(self) -> None:
        """Attach to the tab, and turn its scripts off."""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for name in ("Page", "Runtime", "DOM"):
            self.ask(f"{name}.enable")
        self.ask("Emulation.setScriptExecutionDisabled", value=True)
        self.look()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, wait for its answer."""
        number = next(self._numbers)
        body = {"id": number, "method": method, "params": params}
        self._socket.send(json.dumps(body | ({"sessionId": self._session} if self._session else {})))
        while True:
            heard = json.loads(self._socket.recv(timeout=_PATIENCE_SECONDS))
            if heard.get("id") == number:
                if _NAVIGATED in heard.get("error", {}).get("message", ""):
                    raise Navigated
                assert "error" not in heard, heard
                return dict(heard["result"])

    def open(self, address: str) -> None:
        """Go to an address and wait until it has loaded."""
        failed = self.ask("Page.navigate", url=address).get("errorText")
        assert failed is None, (address, failed)
        self.wait("document.readyState === 'complete'")

    def wait(self, expression: str) -> None:
        """Wait until something holds on the page; however busy the machine is, it is asked again."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while self.value(expression) is not True:
            assert time.monotonic() < end, expression
            time.sleep(0.02)

    def value(self, expression: str) -> Any:
        """What an expression is on the page; None while there is no page to ask."""
        try:
            found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        except Navigated:
            return None
        assert "exceptionDetails" not in found, (expression, found)
        return found["result"].get("value")

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False, media: str = "screen") -> None:
        """Set the width of the screen, its colours and whether it is a printer's."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        colours = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[colours])

    def press(self, key: str) -> None:
        """Press a key."""
        name, code, text = _KEYS[key]
        told = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **told)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **told)

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.ask("Input.insertText", text=text)

    def keep(self, name: str, *, width: int, dark: bool) -> None:
        """Set the width and the colours; keep the page as a picture where somebody wants to look at it."""
        self.look(width=width, dark=dark)
        if SCREENSHOTS is not None:
            self.screenshot(Path(SCREENSHOTS) / f"{name.replace(' ', '-')}-{width}-{'dark' if dark else 'light'}.png")

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """Write the page as PNG."""
        data = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(b64decode(data))

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return b64decode(self.ask("Page.printToPDF")["data"])

    def close(self) -> None:
        """End the browser."""
        self._open.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(_PATIENCE_SECONDS)


def _written(file: Path, process: subprocess.Popen[bytes]) -> str:
    """The text of a file that a process is about to write."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not (file.is_file() and file.read_text().count("\n")):
        assert process.poll() is None, "Chromium did not start"
        assert time.monotonic() < end, "Chromium did not say where it listens"
        time.sleep(0.05)
    return file.read_text()
