"""A page as a real browser has it: its text after loading, and what it complained about."""

import os
import re
import shutil
import subprocess
import unittest
from html.parser import HTMLParser

BROWSERS = ("chromium-headless-shell", "chromium", "/usr/bin/chromium")
PATIENCE_S = int(os.environ.get("POLLUX_TEST_PATIENCE_S", "600"))


class Dom(HTMLParser):
    """What stands in a document: elements by name, classes and text."""

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


class Browser:
    """Chromium without a window. Skips the test where it is not installed."""

    def __init__(self, directory):
        found = next((path for path in map(shutil.which, BROWSERS) if path), None)
        if found is None:
            raise unittest.SkipTest("needs the package chromium-headless-shell (tools/dev setup)")
        self.argv = [found, "--headless", "--no-sandbox", "--disable-gpu",
                     "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     "--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=2000",
                     f"--user-data-dir={directory}/browser"]
        self.directory = directory

    def _run(self, *arguments):
        run = subprocess.run([*self.argv, *arguments], capture_output=True, text=True,
                             cwd=self.directory, timeout=PATIENCE_S, check=False,
                             env={**os.environ, "HOME": str(self.directory)})
        if run.returncode != 0:
            raise AssertionError(f"the browser ended with {run.returncode}:\n{run.stderr}")
        return run

    def open(self, path):
        """The document as it stands after loading, and the lines of its console."""
        run = self._run("--dump-dom", f"file://{path}")
        return Dom(run.stdout), re.findall(r"CONSOLE.*", run.stderr)

    def screenshot(self, path, to, width=1280, height=2400, dark=False):
        """Draws the page into a PNG file."""
        mode = ["--blink-settings=preferredColorScheme=0"] if dark else []
        self._run(*mode, f"--screenshot={to}", f"--window-size={width},{height}", f"file://{path}")
        return to
