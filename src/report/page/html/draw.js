// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/*
 * Draws the timeline. Our own canvas code: plotting libraries draw series of points, not a million nested
 * intervals with names that must be found again under the pointer.
 */
const ROW = 18, LABEL = 18, GAP = 8, RULER = 24, STRIP = 16, WIDE = 2.5;

const draw = {
	labels: new Map(),
	inks: new Map(),

	/* Black or white on a colour. */
	ink(c) {
		if (!draw.inks.has(c)) {
			const n = parseInt(c.slice(1), 16);
			const light = 0.299 * (n >> 16) + 0.587 * (n >> 8 & 255) + 0.114 * (n & 255);
			draw.inks.set(c, light > 118 ? '#10141a' : '#ffffff');
		}
		return draw.inks.get(c);
	},

	/* Where a row's events begin to matter: at the first that ends after t. */
	from: (row, t) => events.above(row.E, t, 0, row.n),

	/* As events.above(row.S, ...), but the answer is near lo. */
	gallop(a, x, lo, n) {
		let step = 1;
		while (lo + step < n && a[lo + step] <= x)
			step *= 2;
		return events.above(a, x, lo + step / 2 | 0, Math.min(n, lo + step + 1));
	},

	text(g, s, x, y, room, key) {
		let width = draw.labels.get(key);
		if (width === undefined) {
			width = g.measureText(s).width;
			draw.labels.set(key, width);
		}
		if (width > room)
			s = s.slice(0, Math.max(0, Math.floor(s.length * room / width) - 1)) + '…';
		if (s.length > 1)
			g.fillText(s, x, y);
	},

	/* One row; dim: search has found something, and this row is not it. */
	row(g, tl, row, y, dim) {
		const {t0, t1, width} = tl, k = width / (t1 - t0), {S, E, idx, sum, n} = row, ev = tl.ev;
		const strength = dim ? 0.22 : 1;
		let px = -1, len = 0, shade = -1, fill = '';
		const flush = () => {
			if (len) {
				g.globalAlpha = strength * shade / 8;
				g.fillStyle = fill;
				g.fillRect(px, y, len, ROW - 2);
			}
			len = 0;
		};
		for (let i = draw.from(row, t0); i < n && S[i] < t1;) {
			const w = (E[i] - S[i]) * k;
			if (w >= WIDE) {
				flush();
				draw.event(g, tl, idx[i], (S[i] - t0) * k, w, y, strength);
				i++;
				continue;
			}
			const at = Math.max(0, Math.floor((S[i] - t0) * k));
			let j = Math.max(i + 1, draw.gallop(S, t0 + (at + 1) / k, i, n));
			if (j - 1 > i && (E[j - 1] - S[j - 1]) * k >= WIDE)
				j--;
			const top = idx[events.longest(row, i, j)], busy = Math.min(1, (sum[j] - sum[i]) * k);
			const c = ev.failed[top] ? FAILED : tl.colours[ev.type[top]], q = Math.round(2.5 + 5.5 * busy);
			if (len && at === px + len && c === fill && q === shade) {
				len++;
			} else if (!len || at >= px + len) {
				flush();
				px = at;
				len = 1;
				fill = c;
				shade = q;
			}
			i = j;
		}
		flush();
		g.globalAlpha = 1;
	},

	event(g, tl, e, x, w, y, strength) {
		const c = tl.ev.failed[e] ? FAILED : tl.colours[tl.ev.type[e]];
		const left = Math.max(x, -2), right = Math.min(x + w, tl.width + 2), room = right - Math.max(left, 0) - 8;
		g.globalAlpha = strength;
		g.fillStyle = c;
		g.fillRect(left, y, Math.max(1, right - left - (w > 4 ? 1 : 0)), ROW - 2);
		if (room > 18) {
			g.fillStyle = draw.ink(c);
			draw.text(g, timeline.label(tl, e), Math.max(left, 0) + 4, y + ROW / 2, room, tl.ev.what[e]);
		}
	},

	/* Merged events: a low bar, as high as they were busy. */
	cells(g, tl, lane, y) {
		const k = tl.width / (tl.t1 - tl.t0), step = tl.meta.step_ns;
		for (const c of lane.cells) {
			if (c.start + step < tl.t0 || c.start > tl.t1)
				continue;
			const h = Math.max(2, (ROW - 2) * Math.min(1, c.busy / step));
			g.fillStyle = tl.colours[c.type];
			g.globalAlpha = 0.45;
			g.fillRect((c.start - tl.t0) * k, y + ROW - 2 - h, Math.max(1, step * k), h);
		}
		g.globalAlpha = 1;
	},

	tick(span, px) {
		const raw = span * 110 / px, p = 10 ** Math.floor(Math.log10(raw)), m = raw / p;
		return p * (m > 5 ? 10 : m > 2 ? 5 : m > 1 ? 2 : 1);
	},

	time(t, step) {
		const [unit, name] = step >= 1e6 ? [1e9, 's'] : [1e6, 'ms'];
		const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
		return (Math.abs(t) < step / 2 ? 0 : t / unit).toLocaleString('en-US', {minimumFractionDigits: digits, maximumFractionDigits: digits}) + NBSP + name;
	},

	ruler(g, tl, height) {
		const {t0, t1, width} = tl, k = width / (t1 - t0), step = draw.tick(t1 - t0, width);
		g.fillStyle = tl.css.muted;
		for (let t = Math.ceil(t0 / step) * step; t < t1; t += step) {
			const x = Math.round((t - t0) * k);
			g.fillStyle = tl.css.grid;
			g.fillRect(x, RULER - 6, 1, height);
			g.fillStyle = tl.css.muted;
			const s = draw.time(t, step);
			if (x + g.measureText(s).width + 4 < width)
				g.fillText(s, x + 4, RULER / 2 - 2);
		}
	},

	/* Iterations as numbered blocks; idle periods and findings as marks below the ruler. */
	strips(g, tl, height) {
		const k = tl.width / (tl.t1 - tl.t0);
		let y = RULER;
		if (tl.iterations.length) {
			tl.iterations.forEach((it, i) => {
				const x = (it.start - tl.t0) * k, w = (it.end - it.start) * k;
				if (x > tl.width || x + w < 0)
					return;
				g.fillStyle = it.warmup ? tl.css.grid : i % 2 ? tl.css.stripA : tl.css.stripB;
				g.fillRect(Math.max(x, -1), y, Math.max(1, Math.min(w, tl.width + 2 - Math.max(x, -1))), STRIP - 2);
				const room = Math.min(x + w, tl.width) - Math.max(x, 0) - 6;
				const s = room > 90 ? `iteration ${i + 1}` + (it.warmup ? ' (warm-up)' : '') : String(i + 1);
				g.fillStyle = tl.css.muted;
				if (room > g.measureText(s).width)
					g.fillText(s, Math.max(x, 0) + 4, y + STRIP / 2 - 1);
			});
			y += STRIP;
		}
		for (const p of tl.idle) {
			const x = (p.start - tl.t0) * k, w = Math.max(1, (p.end - p.start) * k);
			if (x > tl.width || x + w < 0)
				continue;
			const left = Math.max(x, 0), room = Math.min(x + w, tl.width) - left;
			g.fillStyle = tl.css.idle;
			g.fillRect(left, y, room, height - y);
			g.fillStyle = tl.css.idleInk;
			g.fillRect(left, y, room, 3);
			if (room > 60)
				draw.text(g, `idle ${fmt.ns(p.end - p.start)}`, left + 4, y + 11, room - 8, 'idle' + p.start);
		}
		for (const f of tl.marks) {
			const x = (f.at - tl.t0) * k;
			g.fillStyle = tl.css.accent;
			g.globalAlpha = 0.4;
			g.fillRect(x, RULER - 4, 1.5, height);
			g.globalAlpha = 1;
			g.beginPath();
			g.arc(x + 0.75, RULER - 5, 4, 0, 7);
			g.fill();
		}
	},

	lanes(g, tl, top) {
		for (const lane of tl.lanes) {
			let y = top + lane.y - tl.scroll;
			if (y > tl.height || y + lane.height < top)
				continue;
			g.fillStyle = tl.css.line;
			g.fillRect(0, y - GAP / 2, tl.width, 1);
			g.fillStyle = lane.driver ? tl.css.muted : tl.css.ink;
			g.fillText(lane.title, 4, y + LABEL / 2);
			y += LABEL;
			if (lane.cells.length)
				draw.cells(g, tl, lane, y);
			lane.rows.forEach((row, r) => {
				const at = y + r * ROW;
				if (at > tl.height || at + ROW < top)
					return;
				draw.row(g, tl, row, at, !!tl.found);
				if (tl.found && lane.found[r])
					draw.row(g, tl, lane.found[r], at, false);
			});
		}
	},

	/* A frame around the event that is selected or under the pointer. */
	frame(g, tl, spot, colour, top) {
		if (!spot || spot.row.E[spot.i] < tl.t0 || spot.row.S[spot.i] > tl.t1)
			return;
		const k = tl.width / (tl.t1 - tl.t0), {row, i, lane, r} = spot;
		const x = (row.S[i] - tl.t0) * k, w = Math.max(3, (row.E[i] - row.S[i]) * k);
		g.strokeStyle = colour;
		g.lineWidth = 2;
		g.strokeRect(Math.max(x, -4), top + lane.y - tl.scroll + LABEL + r * ROW - 1, Math.min(w, tl.width + 8 - Math.max(x, -4)), ROW);
	},

	all(tl) {
		const g = tl.g, ratio = tl.ratio, top = tl.top;
		g.setTransform(ratio, 0, 0, ratio, 0, 0);
		g.clearRect(0, 0, tl.width, tl.height);
		g.font = '11px system-ui, sans-serif';
		g.textBaseline = 'middle';
		draw.ruler(g, tl, tl.height);
		g.save();
		g.beginPath();
		g.rect(0, top, tl.width, tl.height - top);
		g.clip();
		draw.lanes(g, tl, top);
		draw.frame(g, tl, tl.selected, tl.css.ink, top);
		draw.frame(g, tl, tl.hover, tl.css.accent, top);
		g.restore();
		draw.strips(g, tl, tl.height);
	},

	/* The overview: how busy each class was over the whole trace, and which part is shown. */
	map(tl) {
		const {mapWidth: w, mapHeight: h, mapG: g} = tl, bins = tl.bins, span = tl.max - tl.min;
		g.setTransform(tl.ratio, 0, 0, tl.ratio, 0, 0);
		g.clearRect(0, 0, w, h);
		if (bins) {
			const n = tl.binCount, px = w / n;
			for (let i = 0; i < n; i++) {
				let y = h - 4;
				for (let t = 0; t < bins.length; t++) {
					if (!bins[t] || !bins[t][i])
						continue;
					const part = (h - 8) * bins[t][i] / tl.binMost;
					g.fillStyle = tl.colours[t];
					g.fillRect(i * px, y - Math.max(part, 0.5), px + 0.3, Math.max(part, 0.5));
					y -= part;
				}
			}
		}
		g.fillStyle = tl.css.idleInk;
		for (const p of tl.idle)
			g.fillRect((p.start - tl.min) / span * w, h - 3, Math.max(1, (p.end - p.start) / span * w), 3);
		if (tl.found) {
			g.fillStyle = tl.css.accent;
			let last = -9;
			for (const t of tl.found.times) {
				const x = (t - tl.min) / span * w;
				if (x - last > 1)
					g.fillRect(last = x, 0, 1, 4);
			}
		}
		const x0 = (tl.t0 - tl.min) / span * w, x1 = Math.max(x0 + 3, (tl.t1 - tl.min) / span * w);
		g.fillStyle = tl.css.shade;
		g.fillRect(0, 0, x0, h);
		g.fillRect(x1, 0, w - x1, h);
		g.strokeStyle = tl.css.accent;
		g.lineWidth = 1.5;
		g.strokeRect(x0 + 0.75, 0.75, Math.max(2, x1 - x0 - 1.5), h - 1.5);
	},
};
