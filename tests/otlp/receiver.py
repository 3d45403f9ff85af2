# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A collector that keeps what it gets: receiver.py PORT MODE LOG. The file MODE contains its answer: "200", "503",
"429 Retry-After: 2", "200 {json}", or "hang". LOG gets a line of JSON for each request."""
import base64
import gzip
import http.server
import json
import sys
import threading
import time

port, mode, log = int(sys.argv[1]), sys.argv[2], open(sys.argv[3], "a", encoding="utf-8")
lock = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        with open(mode, encoding="utf-8") as f:
            answer = f.read().strip()
        body = gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw
        code = 0 if answer == "hang" else int(answer.split()[0])
        with lock:
            print(json.dumps({"time": time.time(), "path": self.path, "code": code, "headers": dict(self.headers.items()),
                              "body": base64.b64encode(body).decode()}), file=log, flush=True)
        if not code:
            time.sleep(60)
            return
        rest = answer.partition(" ")[2]
        text = rest.encode() if rest.startswith("{") else b"{}"
        self.send_response(code)
        if rest and not rest.startswith("{"):
            self.send_header(*rest.split(": ", 1))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *args):
        pass


http.server.ThreadingHTTPServer.daemon_threads = True
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
