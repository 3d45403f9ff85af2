#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Uses a report's page as a person would, in headless Chromium, and prints the results.

    drive.py PAGE.html [PICTURES]   ->  lines "ok NAME", "not ok NAME # WHY" and "# figures"

PICTURES: a folder and the beginning of names, for -light.png, -dark.png and -phone.png.
Exit status: 0, or 77 when there is no Chromium or it does not start.
"""
import base64
import csv
import io
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "chrome"))
from load import Driver  # noqa: E402

# Visible pixels of a canvas: those that are not transparent.
PAINTED = """
const c = document.querySelector(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
let n = 0;
for (let i = 3; i < d.length; i += 4)
	n += d[i] > 0;
return n;
"""

# Time of each frame while the view zooms in, moves, and zooms out again.
FRAMES = """
const done = arguments[0], tl = cudatrace.timeline, out = [], steps = [];
timeline.show(tl, tl.min, tl.max);
for (let i = 0; i < 24; i++)
	steps.push(() => timeline.zoom(tl, 0.62));
for (let i = 0; i < 10; i++)
	steps.push(() => timeline.pan(tl, (tl.t1 - tl.t0) * 0.1));
for (let i = 0; i < 24; i++)
	steps.push(() => timeline.zoom(tl, 1.6));
const next = () => {
	if (!steps.length) {
		out.sort((a, b) => a - b);
		return done({frames: out.length, median: out[out.length >> 1], p95: out[Math.floor(out.length * 0.95)], max: out[out.length - 1]});
	}
	steps.shift()();
	const before = tl.stats.draws;
	const wait = () => {
		if (tl.stats.draws === before)
			return requestAnimationFrame(wait);
		out.push(tl.stats.last_ms);
		next();
	};
	requestAnimationFrame(wait);
};
next();
"""


class Page:
    def __init__(self, driver, path):
        self.d = driver
        self.url = "file://" + os.path.abspath(path)
        self.log = []

    def cdp(self, command, **params):
        return self.d.call("POST", f"/session/{self.d.session}/goog/cdp/execute", {"cmd": command, "params": params})

    def js(self, script, *args):
        return self.d.run_now(script, *args)

    def open(self, width, height, dark=False, mobile=False):
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.scheme(dark)
        self.d.go(self.url)
        for _ in range(600):
            if self.js("return !!(window.cudatrace && cudatrace.ready)"):
                break
            time.sleep(0.05)
        self.settle()

    def scheme(self, dark):
        self.cdp("Emulation.setEmulatedMedia",
                 features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def settle(self):
        self.d.run("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30)))")

    def key(self, key, code=None, text=None):
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.cdp("Input.dispatchKeyEvent", type=kind, key=key, code=code or key,
                     **({"windowsVirtualKeyCode": 13} if key == "Enter" else {}), **extra)
        self.settle()

    def mouse(self, kind, x, y, **more):
        self.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def middle(self, selector):
        box = self.js("const e = document.querySelector(arguments[0]); e.scrollIntoView({block: 'center'});"
                      "const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]", selector)
        self.settle()
        return box

    def span(self):
        return self.js("return cudatrace.timeline.t1 - cudatrace.timeline.t0")

    def picture(self, path):
        self.settle()
        time.sleep(0.3)
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.cdp("Page.captureScreenshot", format="png")["data"]))

    def collect(self):
        """Returns errors of the console, and requested addresses."""
        def entries(kind):
            return self.d.call("POST", f"/session/{self.d.session}/se/log", {"type": kind})
        self.log += [e["message"] for e in entries("browser") if e["level"] in ("SEVERE", "WARNING") and "willReadFrequently" not in e["message"]]
        asked = []
        for e in entries("performance"):
            m = json.loads(e["message"])["message"]
            if m["method"] == "Network.requestWillBeSent":
                asked.append(m["params"]["request"]["url"])
        return [u for u in asked if not u.startswith(("file:", "data:", "blob:", "chrome:"))]


def check(name, ok, why=""):
    print(f"ok {name}" if ok else f"not ok {name} # {str(why)[:300]}", flush=True)


def timeline(p):
    selector = ".tl-scroll canvas"
    check("draws", p.js(PAINTED, selector) > 5000 and p.js(PAINTED, "canvas.map") > 1000, p.js(PAINTED, selector))
    x, y = p.middle(selector)
    before = p.span()
    p.mouse("mouseMoved", x, y)
    time.sleep(0.4)
    for _ in range(3):
        p.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200)
    p.settle()
    after = p.span()
    check("wheel zooms", after < before * 0.5, f"{before} -> {after}")
    start = p.js("return cudatrace.timeline.t0")
    p.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    p.mouse("mouseMoved", x - 100, y, button="left", buttons=1)
    p.mouse("mouseReleased", x - 100, y, button="left", clickCount=1)
    p.settle()
    moved = p.js("return cudatrace.timeline.t0") - start
    check("dragging moves", moved > 0, moved)
    p.js("document.querySelector(arguments[0]).focus()", selector)
    before = p.span()
    p.key("+", text="+")
    check("plus zooms in", p.span() < before, p.span())
    p.key("-", text="-")
    check("minus zooms out", abs(p.span() / before - 1) < 0.01, p.span() / before)
    start = p.js("return cudatrace.timeline.t0")
    p.key("ArrowRight")
    check("arrow moves", p.js("return cudatrace.timeline.t0") > start)
    p.key(".", text=".")
    fields = p.js("return document.querySelector('.tl-details').innerText")
    check("full stop selects an event", "ts" in fields and "duration" in fields, fields)
    p.key("0", text="0")
    check("0 shows all", p.js("const t = cudatrace.timeline; return t.t0 <= t.min && t.t1 >= t.max"))


def hover(p):
    """The first displayed event, under the mouse and in the page's own data."""
    x, y, wanted = p.js("""const t = cudatrace.timeline, l = t.lanes[0], r = l.rows[0], i = r.n >> 1;
        timeline.around(t, r.S[i], r.E[i]); const b = t.canvas.getBoundingClientRect();
        return [b.x + t.width / 2, b.y + t.top + l.y - t.scroll + 18 + 8, (r.S[i] / 1e6).toFixed(6)]""")
    p.settle()
    p.mouse("mouseMoved", x - 5, y)
    p.mouse("mouseMoved", x, y)
    p.settle()
    tip = p.js("const t = document.querySelector('.tip'); return t.hidden ? '' : t.innerText")
    check("hover shows the event", wanted in tip and "duration" in tip and "null" not in tip, f"{tip!r}, wanted {wanted}")
    p.js("timeline.show(cudatrace.timeline, cudatrace.timeline.min, cudatrace.timeline.max)")


def search(p, word):
    p.js("document.getElementById('tl-search').focus()")
    p.cdp("Input.insertText", text=word)
    time.sleep(0.3)
    found = p.js("return document.querySelector('.hits').textContent")
    wanted = p.js("""const t = cudatrace.timeline, w = arguments[0];
        const hit = t.meta.whats.map(x => (x.name + ' ' + (x.kernel || '')).toLowerCase().includes(w));
        let n = 0; for (const x of t.ev.what) n += hit[x]; return n""", word)
    check("search finds", wanted > 0 and found == f"{wanted:,} found", f"{found}, wanted {wanted}")
    p.key("Enter", text="\r")
    label = p.js("return document.querySelector('.tl-details').innerText.toLowerCase()")
    check("Enter goes to a match", word in label, label)
    p.js("const q = document.getElementById('tl-search'); q.value = ''; q.dispatchEvent(new Event('input'))")


def as_csv(p):
    """A table is copied whole and quoted, and no cell begins a formula."""
    got = p.js("""return table.csv([col.text('name, text', 'a'), col.ns('time', 'b')], [{a: '=1+1', b: 5}, {a: 'say "x",\\ny'}, {a: '-k', b: 0.25}])""")
    lines = list(csv.reader(io.StringIO(got, newline="")))
    check("a table as CSV", lines[0] == ["name, text", "time"] and lines[1] == ["'=1+1", "5"] and lines[2][0].startswith('say "x",') and lines[3] == ["'-k", "0.25"], got)
    check("each table can be copied", p.js("return document.querySelectorAll('.table-box').length === document.querySelectorAll('.table-box .csv').length"), "")


def costs(p):
    """The overhead of tracing, and how to reduce it, if the trace has them."""
    text = p.js("return document.getElementById('trace').textContent").replace("\xa0", " ")
    rows = p.js("return [...document.querySelectorAll('#trace tbody tr')].map(r => r.textContent)")
    said = p.js("return cudatrace.report.overview.max_overhead_tid")
    check("cost of tracing: the busiest second", ("5.2 % of the busiest second, of thread 4711" in text) == (said == 4711), text[:600])
    names = [name for row in rows for name in ("--detail=low", "cuLaunchKernel", "cuEventRecord") if row.startswith(name)]
    check("cost of tracing: what is dearest first", names == (["--detail=low", "cuLaunchKernel", "cuEventRecord"] if said else []), rows[:4])


def from_rows(p):
    """Tables from the rows of sections: hidden columns, a section without drawing code, and names that are shown as text."""
    got = p.js("""const all = [...document.querySelectorAll('.table-box .all')], box = all[0].closest('.table-box'), before = box.querySelectorAll('th').length;
        const parent = box.parentNode, at = [...parent.children].indexOf(box);
        all[0].click();
        return [before, parent.children[at].querySelectorAll('th').length]""") if p.js("return !!document.querySelector('.table-box .all')") else [0, 1]
    check("hidden columns can be shown", got[0] < got[1], got)
    got = p.js("""rows.tables.set('toy', {name: 'toy', path: [], columns: [{path: ['total_ns'], type: 'ns', text: 'in all'}]});
        rows.tables.set('toy.list', {name: 'toy.list', path: [{name: 'list', is_list: true}], head: 'toy', text: 'toys', columns: [
            {path: ['n'], type: 'count', head: 'times', nonzero: true, drop: 0, text: 'how often'}, {path: ['name'], type: 'text', text: 'its name'},
            {path: ['of', 'max_ns'], type: 'ns', text: 'longest'}, {path: ['none'], type: 'ns', head: 'none', drop: 0, text: 'no row has it'}]});
        const toy = {toy: {total_ns: 5000, list: [{n: 1234, name: '<img src=x>', of: {max_ns: 1500}}, {n: 0, name: 'b'}]}}, box = el('div', {}, rows.section(toy, 'toy'));
        const texts = what => [...box.querySelectorAll(what)].map(x => x.textContent);
        const list = toy.toy.list, t = rows.tables.get('toy.list');
        return [texts('dl.figures dd'), texts('th'), texts('td'), table.csv(rows.columns(t, list, {}), list), box.querySelectorAll('img').length]""")
    check("a section from its rows", got[0] == ["5.00\u00a0µs"] and got[1] == ["toy", "times"] and got[2] == ["<img src=x>", "1,234", "b", ""] and got[4] == 0, got)
    check("its CSV has members", got[3] == "name,n,of.max_ns\r\n<img src=x>,1234,1500\r\nb,0,\r\n", got[3])


def sorting(p):
    """Sorts the table of functions by number of calls, by the keyboard."""
    p.js("""const b = [...document.querySelectorAll('#functions th button')].find(b => b.textContent.trim() === 'calls');
        b.focus()""")
    p.key("Enter", text="\r")
    first = p.js("return document.querySelector('#functions tbody tr td').innerText")
    functions = p.js("return cudatrace.report.overview.functions.map(f => [f.count, f.name])")
    most = max(count for count, _ in functions)
    check("table sorts by Enter", [most, first] in functions, f"{first}, most calls: {most}")
    sorted_by = p.js("return document.activeElement.closest('th').getAttribute('aria-sort')")
    check("aria-sort", sorted_by == "descending", sorted_by)


def stacks(p):
    """The tables of --stack and of refused commands, if the trace has them."""
    callers, refused = p.js("return [cudatrace.meta.callers || [], cudatrace.meta.refused]")
    gpus = p.js("return document.querySelector('#gpus') && document.querySelector('#gpus').textContent")
    check("GPUs have a section only if they were sampled", ("57" in gpus and "12.5" in gpus) if p.js("return !!cudatrace.report.gpu_stats")
          else gpus is None, gpus)
    serving = p.js("const s = document.getElementById('serving'); return s && s.textContent.replaceAll('\\u00a0', ' ')")
    check("serving has a section only if there are steps", ("decode" in serving and "Between steps" in serving and p.js("return document.querySelectorAll('#serving .plot canvas').length") == 1)
          if p.js("return !!(cudatrace.report.serving && cudatrace.report.serving.steps)") else serving is None, serving)
    products = p.js("const s = document.getElementById('products'); return s && [...s.querySelectorAll('tbody tr')].map(r => r.cells[1].innerText)")
    wanted = p.js("const g = cudatrace.report.gemms; return g && g.list && g.list.length ? g.list.map(x => [x.m, x.n, x.k].join(' × ')) : null")
    check("matrix products have a row each", products is None if wanted is None else bool(products) and {x.split(",")[0] for x in products} <= set(wanted), products)
    check("stacks have a section only if there are any", bool(callers) == p.js("return !!document.getElementById('stacks')"))
    if callers:
        row = p.js("return [...document.querySelector('#stacks tbody tr').cells].map(c => c.innerText)")
        check("the stack with most time is first", [row[0], row[1]] == [callers[0]["name"], f"{callers[0]['count']:,}"], row)
        p.js("document.querySelector('#stacks .frames').focus()")
        p.key("Enter", text="\r")
        frames = "return [...document.querySelectorAll('#stacks .opened li')].map(x => x.textContent)"
        shown = p.js(frames)
        wanted = p.js("return cudatrace.meta.callers[0].stack.map(clean)")
        check("Enter on a stack shows its frames", shown == wanted, f"{shown}, wanted {wanted}")
        p.key("Enter", text="\r")
        check("and again hides them", p.js(frames) == [], p.js(frames))
    if refused:
        texts = p.js("return [...document.querySelectorAll('#driver tbody tr')].map(r => r.innerText)")
        for x in p.js("return cudatrace.meta.refused.map(x => ({...x, status: clean(x.status), name: clean(x.name)}))"):
            check(f"status {x['status'][:20]!a} is shown", any(x["name"] in t and x["status"] in t for t in texts), texts)
        failed = p.js("return cudatrace.timeline.ev.failed.reduce((n, x, i, all) => n + (x && cudatrace.meta.types[cudatrace.timeline.ev.type[i]] === 'driver'), 0)")
        check("refused commands are marked on the timeline", failed == sum(x["count"] for x in refused), failed)


def the_map(p):
    """Zooms by click and keys, and searches; the text must equal the report."""
    nodes = p.js("return cudatrace.report.map ? cudatrace.report.map.nodes : []")
    if len(nodes) < 3:
        return
    check("map: drawn", p.js(PAINTED, ".pmap canvas") > 1000)
    x, y = p.middle(".pmap canvas")
    box = p.js("""const b = map.shown.boxes.filter(b => b.i).sort((a, b) => b.row - a.row || b.w - a.w)[0], r = map.shown.canvas.getBoundingClientRect();
        return [b.i, r.x + b.x + b.w / 2, r.y + (b.row + 0.5) * MAP_ROW]""")
    p.js("scrollBy(0, arguments[0] - innerHeight / 2)", box[2])
    at = p.js("const m = map.shown, b = m.boxes.find(b => b.i === arguments[0]), r = m.canvas.getBoundingClientRect(); return [r.x + b.x + b.w / 2, r.y + (b.row + 0.5) * MAP_ROW]", box[0])
    for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
        p.mouse(kind, *at, **({} if kind == "mouseMoved" else {"button": "left", "clickCount": 1}))
    p.settle()
    state = "const m = map.shown, b = m.boxes.find(b => b.i === m.at); return [m.at, b.w / m.canvas.parentNode.clientWidth]"
    check("map: a click zooms", p.js(state) == [box[0], 1], f"{p.js(state)}, wanted {box}")
    calls = p.js("return document.querySelector('.pmap-facts dd').textContent")
    check("map: figures of the node", calls.split("\u00a0")[0].split(" ")[0] == f"{nodes[box[0]]['calls']:,}", calls)
    p.js("map.shown.canvas.focus({preventScroll: true})")
    p.key("Escape")
    check("map: Escape goes back", p.js(state)[0] == nodes[box[0]]["parent"], p.js(state))
    p.js("map.zoom(map.shown, 0)")
    p.key("ArrowDown")
    p.key("Enter", text="\r")
    check("map: down and Enter zoom to the heaviest", p.js(state)[0] == next(i for i, n in enumerate(nodes) if n.get("parent") == 0 and i), p.js(state))
    p.js("map.zoom(map.shown, 0)")
    name = p.js("return map.name(map.shown.nodes[arguments[0]])", box[0])
    p.js("const s = document.querySelector('.pmap [type=search]'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))", name)
    wanted = p.js("return map.shown.nodes.filter((n, i) => i && (map.name(n) + ' ' + (n.name || '')).toLowerCase().includes(arguments[0].toLowerCase())).length", name)
    found = p.js("return document.querySelector('.pmap .table-tools [role=status]').textContent")
    check("map: a search counts what it finds", found.startswith(f"{wanted:,} found") and wanted > 0, found)
    p.js("const s = document.querySelector('.pmap [type=search]'); s.value = ''; s.dispatchEvent(new Event('input'))")
    the_step(p, nodes)
    before = p.js("return map.shown.boxes.length")
    p.js("const s = document.querySelector('.pmap select'); s.value = '3'; s.dispatchEvent(new Event('change'))")
    check("map: widths by launches", p.js("return map.shown.by === 3 && map.shown.boxes.length > 1") and before > 1, before)


def the_step(p, nodes):
    """A part of a step opens the map where it is."""
    parts = p.js("const s = cudatrace.report.step; return s && s.list.length ? s.list[0].parts : []")
    if not parts:
        return
    places = [{x[k] for k in ("function", "operator", "name") if x.get(k)} & {n.get("name") for n in nodes[1:]} for x in parts]
    check("map: parts of a step open it", p.js("return document.querySelector('#step .legend').querySelectorAll('button').length") == sum(map(bool, places)), places)
    for i in [i for i, names in enumerate(places) if names][:3]:
        p.js("map.zoom(map.shown, 0); document.querySelectorAll('#step .legend')[0].children[arguments[0]].querySelector('button').click()", i)
        check(f"map: part {i} of the step is in it", p.js("return map.shown.nodes[map.shown.at].name") in places[i], places[i])


def themes(p, pictures):
    background = "return getComputedStyle(document.body).backgroundColor"
    light = p.js(background)
    if pictures:
        p.js("const t = cudatrace.timeline; timeline.select(t, null); timeline.firstView(t); scrollTo(0, 0)")
        p.picture(pictures + "-light.png")
    p.scheme(True)
    p.settle()
    dark = p.js(background)
    check("dark by preference", dark != light, dark)
    if pictures:
        p.js("""const t = cudatrace.timeline, i = t.iterations[t.iterations.length >> 1];
            if (i)
                timeline.show(t, i.end - (i.end - i.start) * 0.3, i.end + (i.end - i.start) * 0.5);
            t.canvas.focus({preventScroll: true});
            document.getElementById('timeline').scrollIntoView()""")
        p.key(".", text=".")
        p.picture(pictures + "-dark.png")
    p.js("document.getElementById('theme').click()")
    p.settle()
    check("toggle", p.js(background) == light, p.js(background))
    p.scheme(False)


def phone(p, pictures):
    p.open(390, 844, mobile=True)
    width = p.js("return [document.documentElement.scrollWidth, innerWidth]")
    check("phone: no horizontal scroll", width[0] <= width[1] <= 390, width)
    check("phone: draws", p.js(PAINTED, ".tl-scroll canvas") > 1000)
    x, y = p.middle(".tl-scroll canvas")
    p.cdp("Emulation.setTouchEmulationEnabled", enabled=True, maxTouchPoints=2)
    before = p.span()

    def touch(kind, gap):
        p.cdp("Input.dispatchTouchEvent", type=kind, touchPoints=[] if gap is None else
              [{"x": x - gap, "y": y, "id": 0}, {"x": x + gap, "y": y, "id": 1}])
    touch("touchStart", 20)
    for gap in (30, 50, 80, 110):
        touch("touchMove", gap)
    touch("touchEnd", None)
    p.settle()
    check("phone: pinch zooms", p.span() < before * 0.5, f"{before} -> {p.span()}")
    if pictures:
        p.js("scrollTo(0, 0)")
        p.picture(pictures + "-phone.png")


def drive(p, pictures):
    p.open(1440, 900)
    meta = p.js("return [cudatrace.timeline.ev.n, cudatrace.meta.events, cudatrace.timeline.lanes.length]")
    check("events are unpacked", meta[0] == meta[1] > 0 and meta[2] > 0, meta)
    check("nothing ran that the trace brought", not p.js("return window.hacked"))
    check("no element from a name", p.js("return document.querySelectorAll('img').length") == 0)
    linked, cards = p.js("return [[...document.querySelectorAll('#nav a')].map(a => [a.hash.slice(1), a.textContent]), [...document.querySelectorAll('section.card')].map(s => s.id)]")
    check("the navigation has all sections, in their order", [a for a, _ in linked] == cards and all(text for _, text in linked), linked)
    # The best of a few, because other programs on this machine delay a load.
    for _ in range(4):
        paint = p.js("return performance.getEntriesByType('paint')[0].startTime")
        if paint < 1000:
            break
        p.open(1440, 900)
    load = p.js("return cudatrace.timeline.stats.load_ms")
    frames = p.d.run(FRAMES)
    print(f"# {meta[0]} events: first paint {paint:.0f} ms, unpacked in {load:.0f} ms; {frames['frames']} frames: "
          f"median {frames['median']:.1f} ms, longest {frames['max']:.1f} ms")
    check("first paint within a second", paint < 1000, paint)
    # not the longest, because other programs on this machine may delay a frame
    check("frames below 50 ms", frames["p95"] < 50, frames)
    timeline(p)
    hover(p)
    search(p, "launch")
    costs(p)
    as_csv(p)
    from_rows(p)
    sorting(p)
    stacks(p)
    the_map(p)
    themes(p, pictures)
    phone(p, pictures)
    asked = p.collect()
    check("no network request", not asked, asked)
    check("no error in the console", not p.log, p.log)


def main():
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="cudatrace-html-", ignore_cleanup_errors=True) as tmp:
        d = Driver(tmp, {"goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}, "timeouts": {"script": 60000}})
        try:
            drive(Page(d, sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
        except RuntimeError as e:
            check("driven to the end", False, e)
        finally:
            d.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
