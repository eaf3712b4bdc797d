"""A headless Chromium, controlled through its debugging pipe: file descriptors 3 and 4, JSON messages that end with NUL."""
import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

from serving import PATIENCE


def find():
    """The path of a Chromium, or None."""
    return next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


class Browser:
    """One page of a browser of its own, ended by `with`."""

    def __init__(self, path):
        self.profile = tempfile.mkdtemp(prefix="browser-")
        command_read, self.to = os.pipe()
        self.answers, answer_write = os.pipe()
        for fd in (command_read, answer_write):
            os.set_inheritable(fd, True)
        options = ("--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking "
                   f"--remote-debugging-pipe --force-color-profile=srgb --user-data-dir={self.profile} about:blank")
        self.process = subprocess.Popen(  # the shell puts the pipes where Chromium expects them
            ["sh", "-c", f'exec "$0" "$@" 3<&{command_read} 4>&{answer_write}', path, *options.split()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            pass_fds=(command_read, answer_write))
        os.close(command_read)
        os.close(answer_write)
        self.buffer, self.count, self.session, self.events = b"", 0, None, []
        page = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        shutil.rmtree(self.profile, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], PATIENCE)[0]:
                raise AssertionError("the browser does not answer")
            more = os.read(self.answers, 1 << 16)
            if not more:
                raise AssertionError("the browser has gone")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self.receive()).get("id") != self.count:
            self.events.append(answer)
        if "error" in answer:
            raise AssertionError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, url, width, height, dark):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def value(self, script):
        """What a script gives; a promise is waited for."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script):
        end = time.monotonic() + PATIENCE
        while not self.value(script):
            if time.monotonic() > end:
                raise AssertionError(f"it never became true: {script}")
            time.sleep(0.02)

    def point(self, script):
        """The middle of the element that a script gives, after it was scrolled to."""
        return self.value(f"(() => {{ const e = {script}; e.scrollIntoView({{block: 'nearest'}}); const b = e.getClientRects()[0]; "
                          "return [b.x + b.width / 2, b.y + b.height / 2]; })()")

    def hover(self, script):
        x, y = self.point(script)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, script):
        x, y = self.point(script)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press_enter(self):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r" if kind == "keyDown" else "")

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def complaints(self):
        """What the page's console says: errors, and what its policy refused."""
        return [e["params"] for e in self.events
                if e.get("method") == "Runtime.exceptionThrown" or
                (e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error")]
