"""As much of the W3C WebDriver protocol as these tests need, spoken to chromedriver: no package beside httpx."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)
TAB, ENTER, SPACE = "\ue004", "\ue007", " "


def missing() -> str | None:
    """Return what is not installed, or None."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(absent)} not found (Debian: apt-get install chromium chromium-driver)" if absent else None


@dataclass
class Browser:
    """One headless Chromium with a profile of its own. Use as a context manager."""

    profile: Path

    def __enter__(self) -> Self:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False)
        try:
            self._wait()
            options = {
                "binary": shutil.which("chromium"),
                "args": [*FLAGS, f"--user-data-dir={self.profile}"],
                "perfLoggingPrefs": {"enableNetwork": True},
            }
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{answer['sessionId']}"
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._end()

    def _end(self) -> None:
        self._client.close()
        self._driver.terminate()
        self._driver.wait(10)

    def _wait(self) -> None:
        deadline = time.monotonic() + 20
        while True:
            try:
                if self._call("GET", "/status")["ready"]:
                    return
            except httpx.TransportError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        sent = None if method != "POST" else body if body is not None else {}
        answer = self._client.request(method, path, json=sent).json()["value"]
        if isinstance(answer, dict) and "error" in answer:
            raise RuntimeError(f"{answer['error']}: {answer['message']}")
        return answer

    def _post(self, path: str, **body: Any) -> Any:
        return self._call("POST", self._session + path, body)

    def cdp(self, command: str, **parameters: Any) -> Any:
        """Send a command of the Chrome DevTools protocol."""
        return self._post("/goog/cdp/execute", cmd=command, params=parameters)

    def open(self, path: Path) -> None:
        """Load a file."""
        self._post("/url", url=path.resolve().as_uri())

    def script(self, code: str, *arguments: Any) -> Any:
        """Run JavaScript; ``return`` gives its result."""
        return self._post("/execute/sync", script=code, args=list(arguments))

    def size(self, width: int, height: int) -> None:
        """Set the size of the page; below 500 pixels as a phone does it."""
        self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def colours(self, scheme: str) -> None:
        """Say which colour scheme the user prefers: light or dark."""
        self.cdp("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def media(self, kind: str) -> None:
        """Show the page as on ``print`` or ``screen``."""
        self.cdp("Emulation.setEmulatedMedia", media=kind)

    def keys(self, *keys: str) -> None:
        """Press keys one after the other, on whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])

    def log(self, kind: str) -> list[dict[str, Any]]:
        """Return and empty a log: ``browser`` (console) or ``performance`` (network events)."""
        found: list[dict[str, Any]] = self._post("/se/log", type=kind)
        return found

    def screenshot(self, path: Path) -> None:
        """Save the whole page, not only what is in view."""
        size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        data = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(data))

    def print_to_pdf(self) -> bytes:
        """Return the page as it prints on A4."""
        return base64.b64decode(self._post("/print", page={"width": 21.0, "height": 29.7}, background=True))
