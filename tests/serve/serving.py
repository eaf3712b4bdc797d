"""A server under test, and its clients: they send HTTP as other programs do, and bytes that no program should send."""
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PATIENCE = float(os.environ.get("SERVE_PATIENCE", "60"))  # seconds until a test gives up; no test passes by it
TEMPLATE = ("{% for m in messages %}{{ '<|start_story|>' + m['role'] + ': ' + m['content'] + '<|end_story|>' }}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|start_story|>assistant: ' }}{% endif %}")


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def choice(self):
        return self.json["choices"][0]


class Server:
    """`crosshead serve` on a free port of this machine, ended by `with`."""

    def __init__(self, program, model, *options, environment=None):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        self.process = subprocess.Popen([program, "serve", model, "--port", "0", *options], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env={**os.environ, **(environment or {})})
        line = self.process.stdout.readline()
        found = re.fullmatch(r"serving (.+) on http://127\.0\.0\.1:(\d+)\n", line)
        if not found:
            self.process.wait()
            raise AssertionError(f"the server does not say where it listens: {line!r} {self.said()}")
        self.name, self.port = found[1], int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def said(self):
        with open(self.log.name, errors="replace") as file:
            return file.read()

    def end(self):
        self.process.terminate()
        return self.process.wait(PATIENCE)

    # --- requests ---
    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            own = {} if data is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, {**own, **(headers or {})})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, **more):
        return self.ask("POST", path, body, **more)

    def complete(self, **body):
        return self.post("/v1/completions", body)

    def stream(self, path, body):
        return Stream(self, path, body)

    def connect(self, path=None, body=None):
        """A bare socket, which has sent a request where there is a path."""
        client = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        if path:
            data = json.dumps(body).encode()
            client.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                           f"Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return client

    def raw(self, data):
        """What comes back for these bytes until the server closes the connection."""
        with self.connect() as client:
            got = b""
            try:
                client.sendall(data)
                while more := client.recv(65536):
                    got += more
            except ConnectionError:
                pass
            return got

    # --- figures ---
    def metric(self, name):
        values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics").body.decode(), re.M)
        return sum(map(float, values))

    def busy(self):
        return self.metric("crosshead_requests_processing") + self.metric("crosshead_requests_waiting")

    def wait(self, condition):
        """Until the condition is true; an endless wait is a failure."""
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"it never became true; the log: {self.said()[-2000:]}")
            time.sleep(0.02)

    def memory(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"RssAnon:\s+(\d+)", file.read())[1]) << 10


class Stream:
    """The events of an answer, as they come."""

    def __init__(self, server, path, body):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        self.connection.request("POST", path, json.dumps({**body, "stream": True}).encode(), {"Content-Type": "application/json"})
        self.response = self.connection.getresponse()
        self.status, self.headers = self.response.status, {k.lower(): v for k, v in self.response.getheaders()}

    def __iter__(self):
        while line := self.response.readline():
            empty = self.response.readline()
            assert empty == b"\n", (line, empty)
            if line.startswith(b":"):
                continue
            assert line.startswith(b"data: "), line
            yield line[6:-1].decode("utf-8")

    def events(self):
        """All of them, JSON parsed, and whether [DONE] closed them."""
        lines = list(self)
        self.connection.close()
        done = lines[-1:] == ["[DONE]"]
        return [json.loads(line) for line in lines if line != "[DONE]"], done

    def leave(self):
        self.response.close()
        self.connection.close()


def chatting(model):
    """A folder with the model's files, linked, and a chat template."""
    folder = tempfile.mkdtemp(prefix="serve-")
    for name in os.listdir(model):
        os.symlink(os.path.abspath(os.path.join(model, name)), os.path.join(folder, name))
    with open(os.path.join(folder, "chat_template.jinja"), "w") as file:
        file.write(TEMPLATE)
    return folder


def main(module, given, arguments):
    """Runs the tests of a module with the model `given` and a chat template, and exits."""
    module.MODEL = chatting(given)
    try:
        result = unittest.main(module, argv=arguments, exit=False).result
    finally:
        shutil.rmtree(module.MODEL, ignore_errors=True)
    sys.exit(not result.wasSuccessful())
