#!/usr/bin/env python3
"""Compares the speed of `crosshead serve` with `crosshead generate`: the same model, texts and machine, alternating.

    serve.py MODEL [--compute TYPE] [--rounds N] [--tokens N] [--most N] [--json FILE]

Prints one row for each question: the median over the rounds, and the lowest and highest. A text is random words; prompts have about 100
words, texts N tokens (128). Rows with longer prompts need a context of 2048 tokens. The client counts events and does not parse them,
so that it uses little of the machine. --most is the largest number of texts at once (16). CROSSHEAD names the program (build/crosshead).
"""
import argparse
import json
import os
import random
import selectors
import socket
import statistics
import subprocess
import tempfile
import time

CROSSHEAD = os.environ.get("CROSSHEAD", "build/crosshead")
WORDS = "once upon a time there was little girl who had dog and cat they ran to the park saw big red ball it fell down".split()
LIMIT = 600  # seconds for one set of requests


def text(count, seed):
    return " ".join(random.Random(seed).choices(WORDS, k=count))


class Request:
    """One connection that notes when events arrive."""

    def __init__(self, port, body):
        body = json.dumps({"temperature": 0, "stream": True, "ignore_eos": True, "cache_prompt": False, **body}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.begun, self.arrivals, self.ended, self.tail = time.perf_counter(), [], None, b""
        self.socket.sendall(head.encode() + body)
        self.socket.setblocking(False)

    def read(self):
        data = self.socket.recv(1 << 18)
        now = time.perf_counter()
        if not self.arrivals and not self.tail and data and b" 200 " not in data[:20]:
            raise SystemExit(f"the server answers {data[:300].decode()}")
        self.arrivals += [now] * (self.tail + data).count(b"data: {")
        self.tail = data[-6:] if b"data: {" not in data[-6:] else b""
        if not data:
            self.ended = now
            self.socket.close()

    def first(self):
        return self.arrivals[0] - self.begun


def run(port, bodies, late=None):
    """Sends all requests at once; `late` once each has five events. Returns the requests, `late` last."""
    requests = [Request(port, body) for body in bodies]
    selector, end = selectors.DefaultSelector(), time.perf_counter() + LIMIT
    for request in requests:
        selector.register(request.socket, selectors.EVENT_READ, request)
    while any(request.ended is None for request in requests):
        if time.perf_counter() > end:
            raise SystemExit(f"no answer within {LIMIT} seconds")
        for key, _ in selector.select(1):
            key.data.read()
            if key.data.ended:
                selector.unregister(key.fileobj)
        if late and all(len(request.arrivals) > 5 for request in requests):
            requests.append(Request(port, late))
            selector.register(requests[-1].socket, selectors.EVENT_READ, requests[-1])
            late = None
    return requests


def post(port, path, body):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        data = json.dumps(body).encode()
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        return json.loads(whole(connection))


def get(port, path):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return whole(connection)


def whole(connection):
    data = b""
    while part := connection.recv(1 << 18):
        data += part
    return data.partition(b"\r\n\r\n")[2]


class Server:
    def __init__(self, model, parallel, options):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        start = time.perf_counter()
        self.process = subprocess.Popen([CROSSHEAD, "serve", model, "--port", str(self.port), "--parallel", str(parallel), *options],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except OSError:
                if self.process.poll() is not None:
                    raise SystemExit("the server does not start")
                time.sleep(0.002)
        self.start_seconds = time.perf_counter() - start

    def anonymous_mib(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) / 1024 for line in file if line.startswith("RssAnon"))

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait(40)


class Measurements:
    def __init__(self, args, folder):
        self.args, self.folder, self.rows, self.round = args, folder, {}, 0
        self.options = ["--compute", args.compute] if args.compute else []
        self.servers = {n: Server(args.model, n, self.options) for n in sorted({1, args.most, 2 * args.most})}
        self.main = self.servers[args.most].port
        self.context = json.loads(get(self.main, "/props"))["default_generation_settings"]["n_ctx"]
        for parallel, server in self.servers.items():  # first use of memory is slow, above all in a virtual machine
            run(server.port, [{"prompt": text(min(2000, self.context // 2) if parallel == args.most else 100, i), "max_tokens": 4} for i in range(parallel)])

    def note(self, row, value):
        self.rows.setdefault(row, []).append(value)

    def seed(self):
        self.round += 1000
        return self.round

    def prompts(self, count, words=100):
        seed = self.seed()
        return [text(words, seed + i) for i in range(count)]

    def generate(self, prompts, tokens):
        path = os.path.join(self.folder, "prompts.jsonl")
        with open(path, "w") as file:
            file.writelines(json.dumps(prompt) + "\n" for prompt in prompts)
        command = [CROSSHEAD, "generate", self.args.model, "--prompts", path, "--batch", str(len(prompts)), "--max-tokens", str(tokens),
                   "--ignore-eos", "--temperature", "0", "--json", *self.options]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout)

    def rate(self, port, prompts, **more):
        tokens = self.args.tokens
        requests = run(port, [{"prompt": prompt, "max_tokens": tokens, **more} for prompt in prompts])
        return len(prompts) * tokens / (max(r.ended for r in requests) - min(r.begun for r in requests))

    def throughput(self):
        tokens, rates, own = self.args.tokens, {}, {}
        for count in sorted({1, 4, self.args.most}):
            prompts = self.prompts(count)
            figures = self.generate(prompts, tokens)
            own[count] = count * tokens * 1e3 / (figures["prefill"]["milliseconds"] + figures["decode"]["milliseconds"])
            rates[count] = self.rate(self.main, prompts)
            self.note(f"{count} at once, streamed: tokens/s", rates[count])
            self.note(f"{count} at once, streamed, over generate --batch {count}", rates[count] / own[count])
            self.note(f"{count} at once, not streamed, over generate --batch {count}", self.rate(self.main, prompts, stream=False) / own[count])
        self.note(f"{self.args.most} at once over 1: the server", rates[self.args.most] / rates[1])
        self.note(f"{self.args.most} at once over 1: generate", own[self.args.most] / own[1])
        prompts = self.prompts(1)
        rates = [self.rate(self.servers[n].port, prompts) for n in (2 * self.args.most, 1)]
        self.note(f"1 at once: --parallel {2 * self.args.most} over --parallel 1", rates[0] / rates[1])

    def first_tokens(self):
        most, words = self.args.most, 511
        prompt = self.prompts(1, words)[0]
        own = self.generate([prompt], 2)["prefill"]["milliseconds"]
        idle = run(self.main, [{"prompt": prompt, "max_tokens": 2}])[0].first() * 1e3
        self.note("first token of 512 tokens, idle: ms", idle)
        self.note("first token of 512 tokens, idle, over generate's prefill", idle / own)
        for others in (most // 2 - 1, most - 1):
            bodies = [{"prompt": short, "max_tokens": 400} for short in self.prompts(others, 20)]
            *running, late = run(self.main, bodies, {"prompt": prompt, "max_tokens": 2})
            self.note(f"first token of 512 tokens beside {others} texts, over idle", late.first() * 1e3 / idle)
        chunk = run(self.main, [{"prompt": self.prompts(1, 127)[0], "max_tokens": 2}])[0].first()
        pauses = lambda r, since=0, until=1e99: [b - a for a, b in zip(r.arrivals, r.arrivals[1:]) if since <= b <= until]
        bodies = [{"prompt": short, "max_tokens": 400} for short in self.prompts(most // 2 - 1, 20)]
        *running, late = run(self.main, bodies, {"prompt": self.prompts(1, 1500)[0], "max_tokens": 2})
        step = statistics.median(p for r in running for p in pauses(r, until=late.begun))
        longest = max(p for r in running for p in pauses(r, late.begun, late.arrivals[0]))
        self.note("longest pause beside a prompt of 1500 words, over chunk + step", longest / (chunk + step))
        at_once = run(self.main, [{"prompt": prompt, "max_tokens": 32} for prompt in self.prompts(most, 127)])
        gap = statistics.median(p for r in at_once for p in pauses(r, since=max(r.arrivals[0] for r in at_once)))
        self.note(f"last first token of {most} prompts of 128 tokens, over {most} (chunk + step)", max(r.first() for r in at_once) / (most * (chunk + gap)))
        again = {"prompt": self.prompts(1, 2000)[0], "max_tokens": 2, "cache_prompt": True}
        once, twice = (run(self.main, [again])[0].first() for _ in range(2))
        self.note("the same prompt of 2000 tokens again, over the first time", twice / once)

    def echoes(self):
        prompt = self.prompts(1, 511)[0]
        ids = post(self.main, "/tokenize", {"content": prompt, "add_special": True})["tokens"]

        def forward(ids):
            start = time.perf_counter()
            subprocess.run([CROSSHEAD, "forward", self.args.model, "--tokens", ",".join(map(str, ids)), *self.options], check=True,
                           stdout=subprocess.DEVNULL)
            return time.perf_counter() - start

        own = forward(ids) - forward(ids[:2])
        start = time.perf_counter()
        post(self.main, "/v1/completions", {"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 1, "temperature": 0})
        self.note("echo and logprobs of 512 tokens, over forward", (time.perf_counter() - start) / own)

    def leaving(self):
        request = Request(self.main, {"prompt": "once", "max_tokens": 400})
        while len(request.arrivals) < 3:
            time.sleep(0.001)
            try:
                request.read()
            except BlockingIOError:
                pass
        request.socket.close()
        start = time.perf_counter()
        while any(slot["is_processing"] for slot in json.loads(get(self.main, "/slots"))):
            time.sleep(0.002)
        self.note("a client leaves, its slot is free after: ms", 1e3 * (time.perf_counter() - start))

    def starting(self):
        server = Server(self.args.model, self.args.most, self.options)
        server.stop()
        command = [CROSSHEAD, "generate", self.args.model, "--prompt", "once", "--max-tokens", "1", "--json", *self.options]
        own = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["open_milliseconds"]
        self.note("start until connections are accepted, less generate's opening: ms", 1e3 * server.start_seconds - own)

    def idling(self):
        server = self.servers[self.args.most]
        begin = server.cpu_seconds()
        time.sleep(5)
        self.note("idle: percent of a core", 20 * (server.cpu_seconds() - begin))
        self.note("anonymous memory: MiB", server.anonymous_mib())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--compute")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--most", type=int, default=16)
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        m = Measurements(args, folder)
        try:
            for _ in range(args.rounds):
                for part in (m.throughput, m.leaving, m.starting, m.idling) + ((m.first_tokens, m.echoes) if m.context >= 2048 else ()):
                    part()
        finally:
            for server in m.servers.values():
                server.stop()
    print("| | median | lowest | highest |\n| --- | --- | --- | --- |")
    for row, values in m.rows.items():
        print(f"| {row} | " + " | ".join(f"{v:.3g}" for v in (statistics.median(values), min(values), max(values))) + " |")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(m.rows, file, indent=1)


if __name__ == "__main__":
    main()
