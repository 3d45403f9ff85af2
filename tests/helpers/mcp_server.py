# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A client of `cudatrace mcp`, with plain messages over pipes, and the lines of traces to compare its answers with."""
import json
import subprocess

from .run import CUDATRACE

VERSION = "2025-11-25"


class Failed(Exception):
    """The tool's answer is an error."""


class Server:
    """A running server; `read` counts the bytes of its messages."""

    def __init__(self, *args, cwd=None, env=None):
        self.p = subprocess.Popen([CUDATRACE, "mcp", *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd, env=env)
        self.id = self.read = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
        self.p.communicate()

    def send(self, *messages):
        lines = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        self.p.stdin.write(b"".join(line + b"\n" for line in lines))
        self.p.stdin.flush()

    def receive(self):
        line = self.p.stdout.readline()
        assert line.endswith(b"\n"), self.p.stderr.read()
        self.read += len(line)
        return json.loads(line)

    def request(self, method, **params):
        self.id += 1
        self.send({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params})
        answer = self.receive()
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.id, answer
        return answer

    def text(self, tool, **args):
        """The text of a tool's answer."""
        result = self.request("tools/call", name=tool, arguments=args)["result"]
        assert [x["type"] for x in result["content"]] == ["text"]
        text = result["content"][0]["text"]
        if result["isError"]:
            raise Failed(text)
        return text

    def ask(self, tool, **args):
        """The answer with its rows as dicts, without null."""
        answer = json.loads(self.text(tool, **args))
        assert all(len(row) == len(answer["columns"]) for row in answer["rows"])
        answer["rows"] = [{k: v for k, v in zip(answer["columns"], row) if v is not None} for row in answer["rows"]]
        return answer

    def pages(self, tool, **args):
        """The rows of all pages."""
        rows = []
        while True:
            answer = self.ask(tool, **args)
            rows += answer["rows"]
            assert len(rows) + answer.get("remaining", 0) == answer["total"]
            if "next" not in answer:
                return rows
            assert answer["rows"] and answer["remaining"]
            args["page"] = answer["next"]

    def end(self):
        """Its status and its messages on stderr, after the end of its input."""
        rest, err = self.p.communicate(timeout=60)
        assert rest == b""
        return self.p.returncode, err.decode()


def lines_of(path):
    text = subprocess.run(["zstd", "-dcf", path], stdout=subprocess.PIPE, check=True).stdout if path.endswith(".zst") else open(path, "rb").read()
    return [json.loads(line) for line in text.splitlines()]


def events_of(path):
    return [e for e in lines_of(path) if e["type"] not in ("header", "end", "stack")]


def layer(e):
    own = {"gpu", "operator", "range", "allocator", "process", "library", "tracer", "gpu_device", "xid", "job"}
    return e["type"] if e["type"] in own else e.get("api", "cuda")


def duration_us(e):
    return e.get("duration_us", e.get("elapsed_us", 0))
