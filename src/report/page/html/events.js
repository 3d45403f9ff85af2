// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/*
 * The timeline's events: unpacked into typed arrays, a slice at a time so that the page stays alive, and
 * laid out as lanes of rows. In a row no two events overlap, so starts and ends are both sorted: what is
 * visible is found by binary search. Two more arrays make any zoom cost the same:
 *   sum[i]   time of the events before i: how much of a pixel is busy is one subtraction
 *   tops[k]  for each 16^(k+1) events the longest: which class a pixel shows is a look at a few of them
 */
const SLICE = 200000;

const events = {
	/* Bytes of the packed columns; throws where the browser cannot unpack. */
	async unpack(text) {
		if (!('DecompressionStream' in window))
			throw new Error('This browser is too old for the timeline (it has no DecompressionStream). The rest of the report is complete.');
		let bytes;
		if (Uint8Array.fromBase64) {
			bytes = Uint8Array.fromBase64(text);
		} else {
			const s = atob(text);
			bytes = new Uint8Array(s.length);
			for (let i = 0; i < s.length; i++)
				bytes[i] = s.charCodeAt(i);
		}
		await nextTask();
		const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
		return new Uint8Array(await new Response(stream).arrayBuffer());
	},

	/* One column of varints: put(i, value). */
	async column(src, count, put) {
		const b = src.bytes;
		for (let i = 0; i < count;) {
			const stop = Math.min(count, i + SLICE);
			for (; i < stop; i++) {
				let x = b[src.at++], shift = 128;
				if (x >= 128) {
					x -= 128;
					let next;
					do {
						next = b[src.at++];
						x += (next & 127) * shift;
						shift *= 128;
					} while (next >= 128);
				}
				put(i, x);
			}
			await nextTask();
		}
	},

	async load(meta, text) {
		const n = meta.events, src = {bytes: await events.unpack(text), at: 0};
		const ev = {
			n, start: new Float64Array(n), dur: new Float64Array(n), what: new Uint32Array(n),
			detail: new Uint32Array(n), id: new Uint32Array(n), type: new Uint8Array(n), failed: new Uint8Array(n),
		};
		const unzig = x => x % 2 ? -(x + 1) / 2 : x / 2;
		const firsts = new Set();
		let at = 0, t = 0, id = 0;
		for (const lane of meta.lanes) {
			lane.first = at;
			firsts.add(at);
			at += lane.events;
		}
		await events.column(src, n, (i, x) => { t = unzig(x) + (firsts.has(i) ? 0 : t); ev.start[i] = t; });
		await events.column(src, n, (i, x) => { ev.dur[i] = x; });
		const types = meta.whats.map(w => meta.types.indexOf(w.type));
		await events.column(src, n, (i, x) => { ev.what[i] = x; ev.type[i] = types[x]; });
		const bad = meta.details.map(d => d.error !== undefined || d.result !== undefined ? 1 : 0);
		await events.column(src, n, (i, x) => { ev.detail[i] = x; ev.failed[i] = x ? bad[x - 1] : 0; });
		await events.column(src, n, (i, x) => { id += unzig(x); ev.id[i] = id; });
		return ev;
	},

	/* A row of the events whose numbers are in idx. */
	row(ev, idx) {
		const n = idx.length, S = new Float64Array(n), E = new Float64Array(n), sum = new Float64Array(n + 1);
		for (let i = 0; i < n; i++) {
			const e = idx[i];
			S[i] = ev.start[e];
			E[i] = S[i] + ev.dur[e];
			sum[i + 1] = sum[i] + ev.dur[e];
		}
		const tops = [];
		for (let below = null, size = n; size > 16; below = tops[tops.length - 1], size = below.length) {
			const level = new Uint32Array(Math.ceil(size / 16));
			for (let b = 0; b < level.length; b++) {
				let best = below ? below[b * 16] : b * 16;
				for (let i = b * 16 + 1; i < Math.min(size, b * 16 + 16); i++) {
					const c = below ? below[i] : i;
					if (E[c] - S[c] > E[best] - S[best])
						best = c;
				}
				level[b] = best;
			}
			tops.push(level);
		}
		return {n, idx, S, E, sum, tops};
	},

	/* The longest of the events [lo, hi) of a row. */
	longest(row, lo, hi) {
		let best = lo;
		const look = c => {
			if (row.E[c] - row.S[c] > row.E[best] - row.S[best])
				best = c;
		};
		for (let k = -1; lo < hi; k++) {
			const level = k < 0 ? null : row.tops[k], top = k + 1 >= row.tops.length;
			while (lo < hi && (top || lo % 16)) {
				look(level ? level[lo] : lo);
				lo++;
			}
			while (lo < hi && hi % 16) {
				hi--;
				look(level ? level[hi] : hi);
			}
			lo /= 16;
			hi /= 16;
		}
		return best;
	},

	/* First index in a[lo..hi) with a value above x. */
	above(a, x, lo, hi) {
		while (lo < hi) {
			const mid = (lo + hi) >>> 1;
			if (a[mid] > x)
				hi = mid;
			else
				lo = mid + 1;
		}
		return lo;
	},

	/* Lanes with their rows: an event goes into the first row that is free when it begins. */
	async layout(meta, ev) {
		const MAX_ROWS = 24, lanes = [];
		for (const m of meta.lanes) {
			const ends = [], lists = [];
			for (let i = m.first; i < m.first + m.events; i++) {
				let r = 0;
				while (r < ends.length && ends[r] > ev.start[i])
					r++;
				if (r === MAX_ROWS)
					continue;
				if (r === ends.length)
					lists.push([]);
				ends[r] = ev.start[i] + ev.dur[i];
				lists[r].push(i);
				if (i % SLICE === 0)
					await nextTask();
			}
			const rows = [];
			for (const list of lists) {
				rows.push(events.row(ev, Uint32Array.from(list)));
				await nextTask();
			}
			/* Rows of GPUs have thread ids that no thread has (src/model/gpu.c). */
			if (m.events || (m.cells && m.cells.length))
				lanes.push({...m, gpu: m.tid >= 2 ** 30, rows, cells: events.cells(m, meta)});
		}
		return lanes.sort((a, b) => a.pid - b.pid || (a.tid !== a.pid) - (b.tid !== b.pid) || a.tid - b.tid || a.driver - b.driver);
	},

	/* Density of merged events, as [start, count, busy, type] rows. */
	cells(lane, meta) {
		const out = [];
		for (let i = 0; i < (lane.cells || []).length; i += 4)
			out.push({start: lane.cells[i] * meta.step_ns, count: lane.cells[i + 1], busy: lane.cells[i + 2], type: lane.cells[i + 3]});
		return out;
	},

	/* Busy time of each class in each of n bins of [t0, t1): outermost calls only. */
	async density(lanes, ev, types, t0, t1, n) {
		const bins = types.map(() => null), width = (t1 - t0) / n;
		const add = (type, a, b, busy) => {
			const bin = bins[type] || (bins[type] = new Float64Array(n));
			const lo = Math.max(0, Math.floor((a - t0) / width)), hi = Math.min(n - 1, Math.floor((b - t0) / width));
			if (lo >= hi) {
				bin[Math.min(lo, n - 1)] += busy;
				return;
			}
			for (let i = lo; i <= hi; i++)
				bin[i] += Math.min(b, t0 + (i + 1) * width) - Math.max(a, t0 + i * width);
		};
		for (const lane of lanes) {
			const row = lane.rows[0];
			for (const c of lane.driver || lane.gpu ? [] : lane.cells)
				add(c.type, c.start, c.start, c.busy);
			if (lane.driver || lane.gpu || !row)
				continue;
			for (let i = 0; i < row.n; i++) {
				add(ev.type[row.idx[i]], row.S[i], row.E[i], row.E[i] - row.S[i]);
				if (i % SLICE === SLICE - 1)
					await nextTask();
			}
		}
		return bins;
	},
};
