#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Loads a trace into the viewer of chrome://tracing, in headless Chromium, and prints the contents of its model.

    load.py TRACE.json [PICTURE.png]    ->  one JSON object on stdout, PICTURE.png and PICTURE-zoom.png

Exit status: 0 loaded, 1 not, 77 there is no Chromium, it does not start, or there is no viewer.

Debian builds Chromium without the page chrome://tracing (its disable/catapult.patch). The same viewer,
catapult's trace_viewer_full.html, comes with the sources of Go (golang-*-src: `go tool trace` uses it):
that is taken then, in the same browser; "viewer" in the output says which it was. Drives chromedriver by the
WebDriver protocol with nothing but Python's own modules; nothing is fetched from anywhere.
"""
import base64
import functools
import glob
import http.server
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

# What the page's own code made of the text. Works on the page that chrome://tracing is: the same code
# that its Load button runs.
LOAD = r"""
const [text, done] = arguments;
const out = {};
const fail = e => done({error: String(e && e.stack || e)});
try {
	const bad = [];
	for (const name of new Set(Array.from(text.matchAll(/"cname":"(\w+)"/g), m => m[1]))) {
		try { tr.b.ColorScheme.getColorIdForReservedName(name); } catch (e) { bad.push(name); }
	}
	const view = document.querySelector('tr-ui-timeline-view');
	const model = new tr.Model();
	const options = new tr.importer.ImportOptions();
	options.pruneEmptyContainers = false;
	new tr.importer.Import(model, options).importTracesWithProgressDialog([text]).then(() => {
		view.model = model;
		view.viewTitle = 'cudatrace';
		const nested = s => s.subSlices.length > 0;
		Object.assign(out, {
			bad_colours: bad, slices: 0, nested: 0, counters: 0, threads: 0, process_instants: 0,
			arrows: model.flowEvents.length, arrow_pairs: [], names: [],
			global_instants: model.instantEvents.length,
			processes: 0, warnings: model.importWarnings.map(w => w.message),
		});
		for (const p of model.getAllProcesses()) {
			const threads = Object.values(p.threads).filter(t => t.sliceGroup.length);
			if (!threads.length && !Object.keys(p.counters).length)
				continue;
			out.processes++;
			out.process_instants += p.instantEvents.length;
			out.names.push(p.userFriendlyName);
			for (const t of threads) {
				out.threads++;
				out.names.push(t.userFriendlyName);
				out.slices += t.sliceGroup.slices.length;
				out.nested += t.sliceGroup.slices.filter(nested).length;
			}
			for (const c of Object.values(p.counters))
				out.counters += c.timestamps.length;
		}
		for (const f of model.flowEvents.slice(0, 1000))
			out.arrow_pairs.push([f.startSlice && f.startSlice.title, f.endSlice && f.endSlice.title]);
		/* two frames: the tracks are drawn in the next one */
		requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(out), 500)));
	}, fail);
} catch (e) { fail(e); }
"""

# Arrows on, and close enough to two of them to see the calls; the second's launch is selected.
ZOOM = r"""
const view = document.querySelector('tr-ui-timeline-view');
const track = view.trackView, model = view.model, arrows = model.flowEvents;
const bar = Polymer.dom(view.root).querySelector('#polyfill-warning');
if (bar)
	bar.clearMessages();
track.viewport.selectedFlowEvents = new Set(['sync']);
if (arrows.length < 2)
	return;
const pair = arrows.slice(0, 2), lo = Math.min(...pair.map(f => f.start)), hi = Math.max(...pair.map(f => f.end));
const dt = track.viewport.currentDisplayTransform.clone(), pad = (hi - lo) * 0.8;
dt.xSetWorldBounds(lo - pad, hi + pad, track.getBoundingClientRect().width * (window.devicePixelRatio || 1));
track.viewport.setDisplayTransformImmediately(dt);
view.brushingStateController.changeSelectionFromTimeline(new tr.model.EventSet([pair[1].startSlice]));
"""


def skip(why):
    print(why, file=sys.stderr)
    sys.exit(77)


class Driver:
    """One chromedriver, one browser."""

    def __init__(self, tmp, more=None):
        self.session = None
        driver = shutil.which("chromedriver")
        browser = shutil.which("chromium") or shutil.which("chromium-browser")
        if not driver or not browser:
            skip("chromium or chromedriver is not installed: apt-get install chromium chromium-driver")
        self.log = open(os.path.join(tmp, "driver.log"), "w+b")
        self.proc = subprocess.Popen([driver, "--port=0"], stdout=self.log, stderr=subprocess.STDOUT,
                                     stdin=subprocess.DEVNULL)
        self.base = f"http://127.0.0.1:{self.port()}"
        args = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
                "--window-size=1600,900", "--user-data-dir=" + os.path.join(tmp, "profile")]
        # Newer versions hide this page until chrome://chrome-urls has been set to show it.
        state = {"internal_only_uis_enabled": True}
        try:
            got = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "browserName": "chrome", "goog:chromeOptions": {"args": args, "binary": browser, "localState": state},
                "timeouts": {"script": 120000, "pageLoad": 60000}, **(more or {})}}})
        except RuntimeError as e:
            self.close()
            skip(f"chromium does not start here: {e}")
        self.session = got["sessionId"]
        self.version = got["capabilities"].get("browserVersion", "?")

    def port(self):
        for _ in range(100):
            self.log.seek(0)
            for line in self.log.read().decode(errors="replace").splitlines():
                if "on port" in line:
                    port = line.rsplit("on port", 1)[1].strip(" .")
                    if port.isdigit() and port != "0":
                        return int(port)
            if self.proc.poll() is not None:
                break
            time.sleep(0.1)
        self.close()
        skip("chromedriver does not start here")

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        req = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        # no proxy: it is this machine
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(req, timeout=180) as r:
                return json.load(r)["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(json.load(e)["value"]["message"].splitlines()[0]) from None
        except OSError as e:
            raise RuntimeError(str(e)) from None

    def go(self, url):
        self.call("POST", f"/session/{self.session}/url", {"url": url})

    def run(self, script, *args):
        return self.call("POST", f"/session/{self.session}/execute/async", {"script": script, "args": args})

    def run_now(self, script, *args):
        return self.call("POST", f"/session/{self.session}/execute/sync", {"script": script, "args": args})

    def picture(self, path):
        png = self.call("GET", f"/session/{self.session}/screenshot")
        with open(path, "wb") as f:
            f.write(base64.b64decode(png))

    def close(self):
        try:
            if self.session:
                self.call("DELETE", f"/session/{self.session}")
        except RuntimeError:
            pass
        self.proc.terminate()
        self.proc.wait()
        self.log.close()


# Where packages and Go's own archive put it: newer versions last.
VIEWERS = ["/usr/share/go-*/src/cmd/trace/static", "/usr/share/go-*/src/internal/trace/traceviewer/static",
           "/usr/local/go/src/*/trace/static", "/usr/local/go/src/internal/trace/traceviewer/static"]

PAGE = """<!DOCTYPE html>
<html><head><title>cudatrace</title>
<script src="webcomponents.min.js"></script>
<link rel="import" href="trace_viewer_full.html">
<style>html, body { margin: 0; width: 100%; height: 100%; overflow: hidden }
#view { width: 100%; height: 100% }</style>
<script>
window.addEventListener('WebComponentsReady', () => {
	const container = document.createElement('track-view-container');
	container.id = 'track_view_container';
	const view = document.createElement('tr-ui-timeline-view');
	view.track_view_container = container;
	Polymer.dom(view).appendChild(container);
	view.id = 'view';
	view.globalMode = true;
	Polymer.dom(document.body).appendChild(view);
});
</script></head><body></body></html>
"""


class Handler(http.server.SimpleHTTPRequestHandler):
    """The viewer's folder, with our page as its index."""

    def do_GET(self):
        if self.path != "/":
            return super().do_GET()
        body = PAGE.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return None

    def log_message(self, *args):
        pass


def viewer_folder():
    found = [d for p in VIEWERS for d in sorted(glob.glob(p))
             if os.path.exists(os.path.join(d, "trace_viewer_full.html"))]
    return found[-1] if found else None


def ready(driver, seconds):
    """The page has its viewer, and its code is there."""
    for _ in range(seconds * 10):
        if driver.run_now("return !!(window.tr && tr.Model && tr.importer && tr.importer.Import && "
                          "document.querySelector('tr-ui-timeline-view'))"):
            return True
        time.sleep(0.1)
    return False


def open_viewer(driver):
    """Which viewer the browser shows now; None when there is none."""
    try:
        driver.go("chrome://tracing")
        if "chrome://tracing" in driver.run_now("return location.href") and ready(driver, 10):
            return "chrome://tracing"
    except RuntimeError:
        pass
    folder = viewer_folder()
    if not folder:
        return None
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    driver.go(f"http://127.0.0.1:{server.server_address[1]}/")
    if not ready(driver, 60):
        raise RuntimeError("the viewer of " + folder + " does not come up in this browser")
    return "trace_viewer_full.html"


def load(driver, text, picture):
    viewer = open_viewer(driver)
    if not viewer:
        driver.close()
        skip("this Chromium has no chrome://tracing, and no golang-*-src package lends its viewer")
    out = driver.run(LOAD, text)
    out["viewer"] = viewer
    if picture and "error" not in out:
        driver.picture(picture)
        driver.run_now(ZOOM)
        time.sleep(1)
        driver.picture(picture.removesuffix(".png") + "-zoom.png")
    return out


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1], encoding="utf-8") as f:
        text = f.read()
    with tempfile.TemporaryDirectory(prefix="cudatrace-chrome-", ignore_cleanup_errors=True) as tmp:
        driver = Driver(tmp)
        try:
            out = load(driver, text, sys.argv[2] if len(sys.argv) > 2 else None)
        except RuntimeError as e:
            out = {"error": str(e)}
        finally:
            driver.close()
    out["browser"] = driver.version
    print(json.dumps(out))
    return 1 if "error" in out else 0


if __name__ == "__main__":
    sys.exit(main())
