// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/*
 * The map (docs/MAP.md) as an icicle: what is in something lies below it, as wide as its part. A click or Enter makes a
 * node as wide as the picture, with those around it above.
 */
const MAP_ROW = 21, MAP_MIN = 0.4, MAP_ROWS = 48;

const map = {
	BY: [['wall_ns', 'time', fmt.ns], ['host_ns', 'time in calls', fmt.ns], ['gpu_ns', 'GPU time', fmt.ns], ['launches', 'launches', fmt.count]],
	KINDS: {process: CLASSES.process, iterations: CLASSES.graph, thread: CLASSES.device, range: CLASSES.range, python: '#5b8def', operator: '#8f6fd6', backward: '#b8569a', call: CLASSES.context, kernel: CLASSES.kernel},

	make(nodes, functions) {
		const classes = new Map((functions || []).map(f => [f.name, f.class]));
		const m = {nodes, classes, by: 0, at: 0, picked: 0, found: null, bound: false, boxes: [], below: nodes.map(() => []), per: nodes.map(() => 0)};
		nodes.forEach((n, i) => {
			if (i)
				m.below[n.parent].push(i);
			m.per[i] = n.iterations || (i ? m.per[n.parent] : 0);
		});
		m.canvas = el('canvas', {tabindex: '0', role: 'img', 'aria-label': 'The map: use the arrow keys, Enter to zoom, Escape to go back'});
		m.path = el('div', {class: 'pmap-path'});
		m.facts = el('div', {class: 'pmap-facts', role: 'status'});
		m.count = el('span', {class: 'muted', role: 'status'});
		m.box = el('div', {class: 'pmap'}, map.tools(m), m.path, el('div', {class: 'pmap-canvas'}, m.canvas), m.facts);
		m.canvas.addEventListener('mousemove', e => map.pick(m, map.under(m, e)));
		m.canvas.addEventListener('click', e => map.zoom(m, map.under(m, e)));
		m.canvas.addEventListener('keydown', e => map.key(m, e));
		theme.watchers.push(() => map.draw(m));
		new ResizeObserver(() => map.draw(m)).observe(m.canvas.parentNode);
		map.zoom(m, 0);
		return m;
	},

	tools(m) {
		const has_gpu = m.nodes[0].gpu_ns > 0;
		const by = el('select', {'aria-label': 'Width by', onchange: e => { m.by = +e.target.value; map.draw(m); }},
			map.BY.map(([key, label], i) => key !== 'gpu_ns' || has_gpu ? el('option', {value: i}, 'by ' + label) : null));
		const search = el('input', {type: 'search', placeholder: 'Search', 'aria-label': 'Search the map', oninput: e => map.search(m, e.target.value)});
		const bound = has_gpu ? el('label', {class: 'small'}, el('input', {type: 'checkbox', onchange: e => { m.bound = e.target.checked; map.draw(m); }}), ' colour by limit (host or GPU)') : null;
		return el('div', {class: 'table-tools'}, by, search, bound, m.count);
	},

	name(n) {
		if (n.kind === 'kernel')
			return n.name ? shortKernel(n.name) : '(name unknown)';
		if (n.kind === 'process')
			return 'process ' + n.pid;
		const name = n.name === null ? '(no name)' : n.name;
		if (n.kind === 'iterations')
			return `${name} × ${fmt.count(n.iterations)}`;
		return clean(n.kind === 'range' ? `[${name}]` : n.kind === 'backward' ? 'backward: ' + name : name) + (n.number === undefined ? '' : ` #${n.number}`);
	},

	weight: (m, i) => m.nodes[i][map.BY[m.by][0]] || 0,

	/* Waiting hosts are red, busy GPUs green. */
	colour(m, n) {
		if (m.bound)
			return n.gpu_idle_share === undefined ? CLASSES.other : n.bound === 'gpu' ? CLASSES.kernel : n.gpu_idle_share > 0.5 ? FAILED : CLASSES.transfer;
		if (n.kind === 'call' && m.classes.has(n.name))
			return colour(m.classes.get(n.name));
		return n.kind === 'stage' ? STAGES[n.name] || CLASSES.other : map.KINDS[n.kind] || CLASSES.other;
	},

	/* Those around the node that is zoomed to, outermost first. */
	around(m, i) {
		const list = [];
		for (let n = i; n; n = m.nodes[n].parent)
			list.unshift(n);
		return [0, ...list];
	},

	/* Boxes in the order of their rows, from left to right: {i, x, w, row}. */
	layout(m, width) {
		const path = map.around(m, m.at), boxes = path.slice(0, -1).map((i, row) => ({i, x: 0, w: width, row}));
		let list = [{i: m.at, x: 0, w: width, row: path.length - 1}];
		while (list.length && list[0].row < path.length + MAP_ROWS) {
			const next = [];
			for (const b of list) {
				boxes.push(b);
				const whole = map.weight(m, b.i);
				let x = b.x;
				for (const c of whole ? m.below[b.i] : []) {
					const w = b.w * map.weight(m, c) / whole;
					if (w >= MAP_MIN)
						next.push({i: c, x, w, row: b.row + 1});
					x += w;
				}
			}
			list = next;
		}
		return boxes;
	},

	draw(m) {
		const width = m.canvas.parentNode.clientWidth;
		if (!width)
			return;
		m.boxes = map.layout(m, width);
		const rows = m.boxes[m.boxes.length - 1].row + 1, dpr = devicePixelRatio || 1, g = m.canvas.getContext('2d');
		m.canvas.width = Math.round(width * dpr);
		m.canvas.height = Math.round(rows * MAP_ROW * dpr);
		m.canvas.style.height = rows * MAP_ROW + 'px';
		g.scale(dpr, dpr);
		g.font = '12px system-ui, sans-serif';
		g.textBaseline = 'middle';
		for (const b of m.boxes)
			map.drawBox(g, m, b);
	},

	drawBox(g, m, b) {
		const n = m.nodes[b.i], y = b.row * MAP_ROW, w = Math.max(b.w - (b.w > 3 ? 1 : 0), MAP_MIN), fill = b.i ? map.colour(m, n) : CLASSES.other;
		g.globalAlpha = m.found && !m.found.has(b.i) ? 0.25 : 1;
		g.fillStyle = fill;
		g.fillRect(b.x, y, w, MAP_ROW - 1);
		if (b.w > 24) {
			g.fillStyle = draw.ink(fill);
			draw.text(g, map.name(n), b.x + 5, y + MAP_ROW / 2, b.w - 9, '12px' + map.name(n));
		}
		g.globalAlpha = 1;
		if (b.i === m.picked && b.i) {
			g.strokeStyle = cssVar('--ink');
			g.lineWidth = 2;
			g.strokeRect(b.x + 1, y + 1, Math.max(w - 2, 1), MAP_ROW - 3);
		}
	},

	under(m, e) {
		const r = m.canvas.getBoundingClientRect(), x = e.clientX - r.left, row = Math.floor((e.clientY - r.top) / MAP_ROW);
		const b = m.boxes.find(o => o.row === row && x >= o.x && x < o.x + o.w);
		return b ? b.i : -1;
	},

	pick(m, i) {
		if (i < 0 || i === m.picked)
			return;
		m.picked = i;
		map.say(m);
		map.draw(m);
	},

	zoom(m, i) {
		if (i < 0)
			return;
		m.at = m.picked = i;
		m.path.replaceChildren(...map.around(m, i).map((n, row) => el('span', {}, row ? ' › ' : null,
			el('button', {type: 'button', class: 'link', onclick: () => map.zoom(m, n)}, map.name(m.nodes[n])))));
		map.say(m);
		map.draw(m);
	},

	/* What is known of the node: in all, and of an iteration. */
	say(m) {
		const i = m.picked, n = m.nodes[i], per = m.per[i], whole = map.weight(m, 0);
		const each = (value, show) => per > 1 ? `${show(value / per)} per iteration` : '';
		m.facts.replaceChildren(el('b', {}, n.kind === 'kernel' && n.name ? clean(n.name).slice(0, 300) : map.name(n)), n.file ? el('span', {class: 'muted'}, ' ' + clean(n.file)) : '', figures([
			['calls', fmt.count(n.calls), each(n.calls, fmt.num)], ['launches', fmt.count(n.launches), each(n.launches, fmt.num)],
			['time', fmt.ns(n.wall_ns), each(n.wall_ns, fmt.ns)], ['in calls', fmt.ns(n.host_ns), each(n.host_ns, fmt.ns)],
			n.gpu_ns ? ['GPU', fmt.ns(n.gpu_ns), each(n.gpu_ns, fmt.ns)] : null, n.bytes ? ['copied', fmt.bytes(n.bytes)] : null, n.flops ? ['GFLOP', fmt.num(n.flops / 1e9), each(n.flops / 1e9, fmt.num)] : null,
			n.bound ? ['bound by', n.bound === 'gpu' ? 'the GPU' : 'the host', `the GPU was idle for ${fmt.share(n.gpu_idle_share)} before and in it`] : null,
			n.passes > 1 ? ['passes', fmt.count(n.passes)] : null, ['of total', fmt.share(whole ? map.weight(m, i) / whole : 0)]]));
	},

	/* What is below a hit has its time already. */
	search(m, text) {
		m.found = text ? new Set() : null;
		let hits = 0, sum = 0;
		const inside = [];
		m.nodes.forEach((n, i) => {
			inside[i] = i > 0 && inside[n.parent];
			if (!text || !i || !(map.name(n) + ' ' + (n.name || '')).toLowerCase().includes(text.toLowerCase()))
				return;
			hits++;
			m.found.add(i);
			sum += inside[i] ? 0 : map.weight(m, i);
			inside[i] = true;
		});
		m.count.textContent = text ? `${fmt.count(hits)} found, ${fmt.share(sum / (map.weight(m, 0) || 1))} of the total` : '';
		map.draw(m);
	},

	key(m, e) {
		const at = m.boxes.findIndex(b => b.i === m.picked), b = m.boxes[at];
		const beside = step => (m.boxes[at + step] || {}).row === b.row ? m.boxes[at + step].i : -1;
		const go = {ArrowLeft: () => beside(-1), ArrowRight: () => beside(1), ArrowUp: () => m.picked ? m.nodes[m.picked].parent : -1, ArrowDown: () => m.below[m.picked].length ? m.below[m.picked][0] : -1}[e.key];
		if (go && b)
			map.pick(m, go());
		else if (e.key === 'Enter')
			map.zoom(m, m.picked);
		else if (e.key === 'Escape')
			map.zoom(m, m.nodes[m.at].parent || 0);
		else
			return;
		e.preventDefault();
	},

	/* The node with one of these names that has most of them around it, and the most time of those; 0: none. */
	place(nodes, names) {
		const rank = [];
		let best = 0;
		nodes.forEach((n, i) => {
			const hit = names.includes(n.name);
			rank[i] = (i ? rank[n.parent] : 0) + (hit ? 1 : 0);
			if (hit && i && (!best || rank[i] > rank[best] || (rank[i] === rank[best] && n.wall_ns > nodes[best].wall_ns)))
				best = i;
		});
		return best;
	},

	/* Shows the node of the map. */
	open(i) {
		map.zoom(map.shown, i);
		map.shown.box.scrollIntoView({block: 'nearest'});
	},

	section(r) {
		const data = r.map;
		if (!data || !has(data.nodes) || data.nodes.length < 2)
			return null;
		const m = map.make(data.nodes, (r.overview || {}).functions), gpu = data.nodes[0].gpu_ns > 0;
		const lacks = [[data.rejected, 'calls or executions exceeded a limit'], [data.unknown_executions, 'executions have no known call'], [data.cut_frames, 'calls were nested deeper than the map'],
			[data.unnamed_frames, 'frames have no names']].filter(([n]) => n).map(([n, what]) => `${fmt.count(n)} ${what}.`);
		map.shown = m;
		return [el('p', {class: 'muted'}, 'Calls by context, down to kernels. Click to zoom; Escape goes back.', lacks.length ? ' ' + lacks.join(' ') : null), m.box,
			has(data.functions) ? sub('Python functions', table.make([col.text('function', 'name', {name: true, title: f => f.file}), col.count('passes', 'passes'),
				col.ns('time', 'wall', {get: f => f.total.wall_ns, bar: f => f.total.wall_ns / (data.nodes[0].wall_ns || 1)}), col.ns('self', 'self', {get: f => f.self.wall_ns}),
				col.count('launches', 'launches', {get: f => f.total.launches}), col.count('self', 'own', {get: f => f.self.launches, minor: true}),
				...(gpu ? [col.ns('GPU', 'gpu', {get: f => f.total.gpu_ns}), col.ns('self', 'gpu_self', {get: f => f.self.gpu_ns, minor: true})] : [])],
			data.functions, {label: 'Python functions', sort: 2})) : null];
	},
};
