"""Opens a page in a real browser: its text after loading, and the errors of its console."""

import base64
import json
import os
import re
import select
import shutil
import subprocess
import time
import unittest
from html.parser import HTMLParser

BROWSERS = ("chromium-headless-shell", "chromium", "/usr/bin/chromium")
TIMEOUT_S = int(os.environ.get("POLLUX_TEST_TIMEOUT_S", "600"))


class Dom(HTMLParser):
    """The elements of a document, with names and attributes, and its texts."""

    def __init__(self, text):
        super().__init__()
        self.elements = []  # (name, {attribute: value}), in order
        self.texts = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        if data.strip():
            self.texts.append(data.strip())

    def count(self, name, css_class=None):
        return sum(1 for tag, attributes in self.elements if tag == name and (
            css_class is None or css_class in attributes.get("class", "").split()))


def command(directory):
    """Returns the command line of headless Chromium; skips the test if it is not installed."""
    found = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if found is None:
        raise unittest.SkipTest("needs the package chromium-headless-shell (tools/dev setup)")
    return [found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--no-first-run", "--hide-scrollbars", f"--user-data-dir={directory}/browser"]


class Browser:
    """A browser that loads files, each in a new process that ends when the page is loaded."""

    def __init__(self, directory):
        self.argv = [*command(directory), "--enable-logging=stderr", "--log-level=0",
                     "--virtual-time-budget=2000"]
        self.directory = directory

    def _run(self, *arguments):
        run = subprocess.run([*self.argv, *arguments], capture_output=True, text=True,
                             cwd=self.directory, timeout=TIMEOUT_S, check=False,
                             env={**os.environ, "HOME": str(self.directory)})
        if run.returncode != 0:
            raise AssertionError(f"the browser ended with {run.returncode}:\n{run.stderr}")
        return run

    def open(self, path):
        """Returns the document after loading, and the lines of its console."""
        run = self._run("--dump-dom", f"file://{path}")
        return Dom(run.stdout), re.findall(r"CONSOLE.*", run.stderr)

    def screenshot(self, path, to, width=1280, height=2400, dark=False):
        """Draws the page into a PNG file."""
        mode = ["--blink-settings=preferredColorScheme=0"] if dark else []
        self._run(*mode, f"--screenshot={to}", f"--window-size={width},{height}", f"file://{path}")
        return to


class LivePage:
    """A page in a browser that stays open and is queried by the DevTools protocol."""

    def __init__(self, directory, url, width=1280, height=1500):
        to_browser, self.to = os.pipe()
        self.back, from_browser = os.pipe()
        # The browser reads commands from descriptor 3 and writes its answers to descriptor 4.
        takes = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self.browser = subprocess.Popen(
            ["bash", "-c", takes, "bash", *command(directory), "--remote-debugging-pipe"],
            pass_fds=(to_browser, from_browser), cwd=directory, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": str(directory)})
        os.close(to_browser)
        os.close(from_browser)
        self.received = b""
        self.number = 0
        self.session = None
        self.complaints = []  # lines of the console, and resources that did not load
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self._call("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                   deviceScaleFactor=1, mobile=False)
        self._call("Page.navigate", url=url)
        stands = "document.URL !== 'about:blank' && document.readyState === 'complete'"
        while not self.value(stands):
            time.sleep(0.02)

    def _message(self):
        give_up = time.monotonic() + TIMEOUT_S
        while b"\0" not in self.received:
            ready, _, _ = select.select([self.back], [], [], max(0, give_up - time.monotonic()))
            more = os.read(self.back, 1 << 20) if ready else b""
            if not more:
                raise AssertionError("the browser does not answer, or has ended")
            self.received += more
        message, _, self.received = self.received.partition(b"\0")
        return json.loads(message)

    def _call(self, method, **parameters):
        self.number += 1
        call = {"id": self.number, "method": method, "params": parameters}
        if self.session and not method.startswith("Browser."):
            call["sessionId"] = self.session
        os.write(self.to, json.dumps(call).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            if message.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown",
                                         "Log.entryAdded"):
                self.complaints.append(message["params"])

    def value(self, expression):
        """Returns the value of a JavaScript expression."""
        result = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def text(self, selector):
        """Returns the text of each element that matches `selector`."""
        return self.value(f"[...document.querySelectorAll({json.dumps(selector)})]"
                          ".map((one) => one.textContent)")

    def prefer(self, scheme):
        """Sets the preferred colour scheme: "light" or "dark"."""
        self._call("Emulation.setEmulatedMedia",
                   features=[{"name": "prefers-color-scheme", "value": scheme}])

    def screenshot(self):
        """Returns the whole page as a PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=True)
                                ["data"])

    def close(self):
        # If it were killed, its child processes would still write into its directory.
        self._call("Browser.close")
        self.browser.wait(TIMEOUT_S)
        os.close(self.to)
        os.close(self.back)
