// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/* The timeline: what is shown, and how wheel, pointers and keys change it. Times are ns since ts 0. */
const timeline = {
	BINS: 700, MIN_SPAN: 200,

	/* Elements first: they are on the page before the events are unpacked. */
	make(report, meta) {
		const tl = {
			report, meta, lanes: [], ev: null, t0: 0, t1: 1, min: 0, max: 1, width: 0, height: 0, scroll: 0, hover: null,
			selected: null, found: null, bins: null, binCount: timeline.BINS, binMost: 1, pointers: new Map(),
			stats: {draws: 0, last_ms: 0, max_ms: 0, load_ms: 0}, colours: meta.types.map(colour),
		};
		const wall = (report.overview && report.overview.wall_ns) || 1;
		tl.iterations = ((report.iterations && report.iterations.list) || []).map(i => (
			{start: i.ts * 1e6, end: i.ts * 1e6 + i.time_ns, warmup: i.warmup}));
		tl.idle = ((report.idle && report.idle.list) || []).map(i => ({start: i.ts * 1e6, end: i.ts * 1e6 + i.duration_ns}));
		tl.marks = (report.findings || []).filter(f => f.ts !== undefined).map(f => ({at: f.ts * 1e6}));
		tl.top = RULER + (tl.iterations.length ? STRIP : 0) + (tl.idle.length ? 18 : 2);
		tl.max = wall;
		timeline.elements(tl);
		return tl;
	},

	elements(tl) {
		tl.canvas = el('canvas', {tabindex: '0', role: 'application', 'aria-label':
			'Timeline. Left and right arrows move, plus and minus zoom, 0 shows all, comma and full stop go to the event before and after.'});
		tl.mapCanvas = el('canvas', {class: 'map', role: 'img', 'aria-label': 'Overview of the whole trace: busy time by class'});
		tl.space = el('div', {class: 'tl-space'});
		tl.scroller = el('div', {class: 'tl-scroll'}, tl.canvas, tl.space);
		tl.range = el('output', {class: 'tl-range', id: 'tl-range'});
		tl.details = el('div', {class: 'tl-details', role: 'status', 'aria-live': 'polite'});
		tl.tip = el('div', {class: 'tip', hidden: true, 'aria-hidden': 'true'});
		tl.note = el('p', {class: 'muted'}, 'Unpacking the events …');
		tl.box = el('div', {class: 'tl'}, timeline.tools(tl), tl.mapCanvas, tl.scroller, tl.note, tl.details,
			timeline.legend(tl), tl.tip);
		tl.g = tl.canvas.getContext('2d');
		tl.mapG = tl.mapCanvas.getContext('2d');
	},

	tools(tl) {
		const button = (text, label, f) => el('button', {type: 'button', class: 'ghost', 'aria-label': label, title: label, onclick: f}, text);
		tl.query = el('input', {type: 'search', id: 'tl-search', placeholder: 'Find a kernel or function', 'aria-label': 'Find a kernel or function',
			oninput: () => {
				clearTimeout(tl.typing);
				tl.typing = setTimeout(() => timeline.find(tl, tl.query.value), 120);
			},
			onkeydown: e => {
				if (e.key === 'Enter') {
					e.preventDefault();
					timeline.step(tl, e.shiftKey ? -1 : 1);
				}
			}});
		tl.hits = el('span', {class: 'muted hits', role: 'status'});
		const parts = [
			el('span', {class: 'group'}, button('−', 'Zoom out', () => timeline.zoom(tl, 2)), button('+', 'Zoom in', () => timeline.zoom(tl, 0.5)),
				button('All', 'Show the whole trace', () => timeline.show(tl, tl.min, tl.max))),
			el('span', {class: 'group grow'}, tl.query, button('‹', 'Previous match', () => timeline.step(tl, -1)),
				button('›', 'Next match', () => timeline.step(tl, 1)), tl.hits),
		];
		if (tl.iterations.length) {
			const n = tl.iterations.length;
			tl.iteration = el('input', {type: 'number', min: 1, max: n, placeholder: `1–${n}`, 'aria-label': `Go to iteration, 1 to ${n}`,
				onkeydown: e => e.key === 'Enter' && timeline.goIteration(tl, tl.iteration.value - 1)});
			parts.push(el('span', {class: 'group'}, el('span', {class: 'muted'}, 'Iteration'), tl.iteration,
				button('Go', 'Go to the iteration', () => timeline.goIteration(tl, (tl.iteration.value || 1) - 1))));
		}
		if (tl.idle.length) {
			parts.push(button('Longest idle', 'Go to the longest idle period', () => timeline.goIdle(tl, 0)));
		}
		return el('div', {class: 'tl-tools'}, parts, tl.range);
	},

	legend(tl) {
		const used = new Set(tl.meta.whats.map(w => w.type));
		return el('details', {class: 'tl-help', open: innerWidth > 700}, el('summary', {}, 'Colours and keys'),
			el('ul', {class: 'legend'}, tl.meta.types.filter(t => used.has(t)).map(t => el('li', {}, charts.swatch(colour(t)), t === 'kernel' ? 'kernel launch' : t === 'driver' ? 'driver call' : t)),
				el('li', {}, charts.swatch(FAILED), 'failed')),
			el('p', {class: 'muted'}, 'Wheel or pinch zooms, dragging moves, a double click fits the event. Keys: ',
				[['← →', 'move'], ['+ −', 'zoom'], ['0', 'all'], [', .', 'event before and after'], ['↑ ↓', 'scroll'], ['/', 'search']].map(
					([k, what]) => [el('kbd', {}, k), ` ${what}  `]),
				el('br'), 'A pixel has the colour of the longest event in it and is stronger the more of it is busy.'));
	},

	async load(tl, text) {
		const begin = performance.now();
		tl.ev = await events.load(tl.meta, text);
		tl.lanes = await events.layout(tl.meta, tl.ev);
		for (const lane of tl.lanes) {
			for (const row of lane.rows) {
				tl.min = Math.min(tl.min, row.S[0]);
				tl.max = Math.max(tl.max, row.E[row.n - 1]);
			}
		}
		tl.note.textContent = timeline.noteText(tl);
		timeline.place(tl);
		timeline.listen(tl);
		timeline.firstView(tl);
		tl.bins = await events.density(tl.lanes, tl.ev, tl.meta.types, tl.min, tl.max, tl.binCount);
		for (let i = 0; i < tl.binCount; i++)
			tl.binMost = Math.max(tl.binMost, tl.bins.reduce((a, b) => a + (b ? b[i] : 0), 0));
		tl.stats.load_ms = performance.now() - begin;
		timeline.redraw(tl);
	},

	noteText(tl) {
		const m = tl.meta, n = fmt.count(m.events);
		return m.merged ? `${n} events; ${fmt.count(m.merged)} more that were shorter than ${fmt.ns(m.below_ns)} are shown as density (the pale bars), to keep this file small.`
			: `${n} events.`;
	},

	/* Where something happens: not the seconds that a program takes to start. */
	firstView(tl) {
		let lo = tl.max, hi = tl.min;
		for (const lane of tl.lanes) {
			for (const row of lane.driver || lane.gpu ? [] : lane.rows) {
				let a = 0, b = row.n - 1;
				const quiet = e => ['process', 'library'].includes(tl.meta.types[tl.ev.type[row.idx[e]]]);
				while (a < b && quiet(a))
					a++;
				while (b > a && quiet(b))
					b--;
				/* Nor the few calls of a late clean-up. */
				for (let i = b; i > row.n * 0.9; i--) {
					if (row.S[i] - row.E[i - 1] > 0.15 * (row.E[b] - row.S[a]))
						b = i - 1;
				}
				if (b <= a && row.n < 3)
					continue;
				lo = Math.min(lo, row.S[a]);
				hi = Math.max(hi, row.E[b]);
			}
		}
		if (hi <= lo)
			[lo, hi] = [tl.min, tl.max];
		timeline.show(tl, lo - (hi - lo) * 0.01, hi + (hi - lo) * 0.01);
	},

	place(tl) {
		let y = GAP;
		for (const lane of tl.lanes) {
			lane.y = y;
			lane.height = LABEL + Math.max(1, lane.rows.length) * ROW + GAP;
			const n = lane.events + lane.cells.reduce((a, c) => a + c.count, 0), what = lane.driver ? 'driver call' : 'event';
			lane.title = clean(`${lane.comm || 'thread'}  ${lane.pid === lane.tid || lane.gpu ? 'pid ' + lane.pid : `pid ${lane.pid} · tid ${lane.tid}`}  ·  ` +
				`${fmt.count(n)} ${what}${n === 1 ? '' : 's'}`);
			y += lane.height;
		}
		tl.total = y + tl.top;
		new ResizeObserver(() => timeline.resize(tl)).observe(tl.scroller);
		timeline.resize(tl);
		theme.watchers.push(() => timeline.restyle(tl));
	},

	resize(tl) {
		tl.ratio = Math.min(2, devicePixelRatio || 1);
		tl.width = tl.scroller.clientWidth;
		tl.height = Math.max(120, Math.min(tl.total + 4, Math.round(innerHeight * 0.62)));
		tl.scroller.style.height = tl.height + 2 + 'px'; /* its border */
		tl.space.style.height = Math.max(0, tl.total - tl.height) + 'px';
		tl.mapWidth = tl.width;
		tl.mapHeight = 48;
		for (const [c, w, h] of [[tl.canvas, tl.width, tl.height], [tl.mapCanvas, tl.mapWidth, tl.mapHeight]]) {
			c.width = Math.round(w * tl.ratio);
			c.height = Math.round(h * tl.ratio);
			c.style.width = w + 'px';
			c.style.height = h + 'px';
		}
		timeline.restyle(tl);
	},

	restyle(tl) {
		tl.css = {
			ink: cssVar('--ink'), muted: cssVar('--muted'), grid: cssVar('--grid'), line: cssVar('--line'), accent: cssVar('--accent'),
			idle: cssVar('--idle'), idleInk: cssVar('--idle-ink'), shade: cssVar('--shade'), stripA: cssVar('--strip-a'), stripB: cssVar('--strip-b'),
		};
		timeline.redraw(tl);
	},

	redraw(tl) {
		if (tl.asked || !tl.ev)
			return;
		tl.asked = requestAnimationFrame(() => {
			tl.asked = 0;
			const begin = performance.now();
			draw.all(tl);
			draw.map(tl);
			tl.stats.last_ms = performance.now() - begin;
			tl.stats.max_ms = Math.max(tl.stats.max_ms, tl.stats.last_ms);
			tl.stats.draws++;
		});
	},

	show(tl, t0, t1) {
		const pad = (tl.max - tl.min) * 0.01;
		let span = Math.min(Math.max(t1 - t0, timeline.MIN_SPAN), tl.max - tl.min + 2 * pad);
		t0 = (t0 + t1) / 2 - span / 2;
		t0 = Math.max(tl.min - pad, Math.min(t0, tl.max + pad - span));
		tl.t0 = t0;
		tl.t1 = t0 + span;
		tl.hover = null;
		tl.tip.hidden = true;
		const step = draw.tick(span, 900);
		tl.range.textContent = `${draw.time(tl.t0, step)} – ${draw.time(tl.t1, step)}  (${fmt.ns(span)})`;
		timeline.redraw(tl);
	},

	/* Factor below 1 goes in; around the time at, or the middle. */
	zoom(tl, factor, at = (tl.t0 + tl.t1) / 2) {
		const full = (tl.max - tl.min) * 1.02, span = tl.t1 - tl.t0;
		const f = Math.min(Math.max(span * factor, timeline.MIN_SPAN), full) / span;
		timeline.show(tl, at - (at - tl.t0) * f, at + (tl.t1 - at) * f);
	},

	pan(tl, ns) {
		timeline.show(tl, tl.t0 + ns, tl.t1 + ns);
	},

	around(tl, start, end, pad = 0.4) {
		const span = Math.max(end - start, 1000);
		timeline.show(tl, start - span * pad, end + span * pad);
		tl.box.scrollIntoView({block: 'nearest'});
	},

	goIteration(tl, i) {
		const it = tl.iterations[Math.max(0, Math.min(tl.iterations.length - 1, Math.floor(i) || 0))];
		timeline.around(tl, it.start, it.end, 0.1);
	},

	goIdle(tl, i) {
		timeline.around(tl, tl.idle[i].start, tl.idle[i].end, 0.3);
	},

	/* A moment, ts in ms, with as much around it as makes sense. */
	goTime(tl, ts, span_ns) {
		timeline.around(tl, ts * 1e6, ts * 1e6 + (span_ns || 2e5), span_ns ? 0.5 : 2);
		const spot = timeline.at(tl, ts * 1e6, span_ns);
		if (spot)
			timeline.select(tl, spot);
		tl.canvas.focus({preventScroll: true});
	},

	/* The event that begins at a time: the one of that duration, if there are several. */
	at(tl, t, dur) {
		let best = null, far = Infinity;
		for (const lane of tl.ev ? tl.lanes : []) {
			lane.rows.forEach((row, r) => {
				for (let i = Math.max(0, events.above(row.S, t - 2, 0, row.n)); i < row.n && row.S[i] <= t + 2; i++) {
					const off = dur ? Math.abs(row.E[i] - row.S[i] - dur) : r;
					if (off < far)
						[best, far] = [{lane, row, r, i}, off];
				}
			});
		}
		return best;
	},

	label(tl, e) {
		const w = tl.meta.whats[tl.ev.what[e]];
		if (!w.text) {
			/* Of a long namespace the end is what one reads in a box. */
			const parts = w.op === 'launch' && w.short ? w.short.split('::') : [w.name];
			w.text = clean(parts.slice(parts[parts.length - 1].length < 8 ? -2 : -1).join('::'));
		}
		return w.text;
	},

	title(tl, spot) {
		const w = tl.meta.whats[tl.ev.what[spot.row.idx[spot.i]]];
		return w.op === 'launch' && w.short ? w.short : w.name;
	},

	/* What is at a place of the canvas; more: how many events share it. */
	hit(tl, x, y) {
		const k = tl.width / (tl.t1 - tl.t0), inner = y - tl.top + tl.scroll;
		const lane = y > tl.top && tl.lanes.find(l => inner >= l.y && inner < l.y + l.height);
		const r = lane ? Math.floor((inner - lane.y - LABEL) / ROW) : -1, row = r >= 0 && lane.rows[r];
		if (!row)
			return null;
		const a = tl.t0 + (x - 1.5) / k, b = tl.t0 + (x + 1.5) / k;
		const i = events.above(row.E, a, 0, row.n), j = events.above(row.S, b, i, row.n);
		return i < j ? {lane, row, r, i: events.longest(row, i, j), more: j - i - 1} : null;
	},

	/* Fields of an event: [name, text]. */
	fields(tl, spot) {
		const ev = tl.ev, e = spot.row.idx[spot.i], w = tl.meta.whats[ev.what[e]], d = ev.detail[e] ? tl.meta.details[ev.detail[e] - 1] : {};
		const out = [['ts', (ev.start[e] / 1e6).toFixed(6) + ' ms'], ['duration', d.unfinished ? 'did not return' : fmt.ns(ev.dur[e])], ['type', w.type + (w.op ? ' · ' + w.op : '')]];
		const put = (name, v, show = String) => v !== undefined && out.push([name, show(v)]);
		if (w.kernel && w.op === 'launch')
			put('call', w.name);
		put('grid', d.grid, fmt.dim);
		put('block', d.block, fmt.dim);
		put('shared memory', d.shared_mem || undefined, fmt.bytes);
		put('size', d.size, v => `${fmt.bytes(v)} (${fmt.count(v)})`);
		put('direction', d.direction);
		put('stream', d.stream, v => v === '0x0' ? 'default' : v);
		put('error', d.error !== undefined ? d.error : d.result || undefined);
		put('status', d.status);
		put('Python', d.python, list => list.join(' ‹ '));
		put('captured', d.capturing, () => 'into a graph');
		put('abandoned', d.abandoned, () => 'yes');
		put('id', ev.id[e] || undefined);
		put('thread', `${spot.lane.pid} / ${spot.lane.tid}`);
		put('kernel', w.kernel !== w.short ? w.kernel : undefined);
		return out;
	},

	select(tl, spot) {
		tl.selected = spot;
		timeline.redraw(tl);
		if (!spot) {
			tl.details.replaceChildren();
			return;
		}
		const e = spot.row.idx[spot.i];
		tl.details.replaceChildren(el('h3', {}, charts.swatch(tl.colours[tl.ev.type[e]]), timeline.title(tl, spot)),
			el('dl', {}, timeline.fields(tl, spot).map(([k, v]) => el('div', {class: k === 'kernel' ? 'wide' : ''}, el('dt', {}, k), el('dd', {}, v)))));
	},

	hovered(tl, spot, x, y) {
		tl.hover = spot;
		timeline.redraw(tl);
		tl.tip.hidden = !spot;
		if (!spot)
			return;
		const fields = timeline.fields(tl, spot).filter(f => f[0] !== 'kernel' && f[0] !== 'type');
		tl.tip.replaceChildren(el('b', {}, timeline.title(tl, spot)),
			el('dl', {}, fields.map(([k, v]) => [el('dt', {}, k), el('dd', {}, v)])),
			...(spot.more ? [el('p', {class: 'muted'}, `and ${fmt.count(spot.more)} shorter here: zoom in`)] : []));
		const box = tl.box.getBoundingClientRect(), tip = tl.tip.getBoundingClientRect();
		tl.tip.style.left = Math.max(0, Math.min(x - box.left + 14, box.width - tip.width - 4)) + 'px';
		tl.tip.style.top = y - box.top + (y + 24 + tip.height > innerHeight ? -tip.height - 12 : 16) + 'px';
	},

	find(tl, text) {
		const want = text.trim().toLowerCase();
		tl.found = null;
		tl.hits.textContent = '';
		if (want && tl.ev) {
			const hit = Uint8Array.from(tl.meta.whats, w => (w.name + ' ' + (w.kernel || '')).toLowerCase().includes(want) ? 1 : 0);
			const times = [];
			for (const lane of tl.lanes) {
				lane.found = lane.rows.map(row => {
					const idx = row.idx.filter(e => hit[tl.ev.what[e]]);
					for (const e of idx)
						times.push(tl.ev.start[e]);
					return idx.length ? events.row(tl.ev, idx) : null;
				});
			}
			tl.found = {times: Float64Array.from(times).sort(), at: -1};
			tl.hits.textContent = times.length ? `${fmt.count(times.length)} found` : 'nothing found';
		}
		timeline.redraw(tl);
	},

	/* To the next match after what is shown last, or the one before. */
	step(tl, by) {
		const f = tl.found;
		if (!f || !f.times.length)
			return;
		if (f.at < 0)
			f.at = events.above(f.times, (tl.t0 + tl.t1) / 2, 0, f.times.length) - (by > 0 ? 1 : 0);
		f.at = (f.at + by + f.times.length) % f.times.length;
		const t = f.times[f.at], span = Math.min(tl.t1 - tl.t0, 2e6);
		timeline.show(tl, t - span / 2, t + span / 2);
		tl.hits.textContent = `${fmt.count(f.at + 1)} of ${fmt.count(f.times.length)}`;
		for (const lane of tl.lanes) {
			lane.found.forEach((found, r) => {
				const i = found ? events.above(found.S, t - 0.5, 0, found.n) : 0;
				if (found && i < found.n && found.S[i] === t)
					timeline.select(tl, {lane, row: found, r, i});
			});
		}
	},
};
