// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/* Inference serving: steps, tokens and batches. */
const serving = {
	how: {logits: 'prefill has more tokens than sequences, by the rows of the logits product', ranges: 'by NVTX ranges', tokens: 'by the number of tokens alone'},

	kinds: s => [['prefill', s.prefill], ['decode', s.decode], ['set-up', s.setup], ['all', s.all]].filter(([, x]) => x).map(([phase, x]) => ({phase, ...x})),

	steps(s) {
		const each = key => ({get: x => x[key] / x.count});
		const list = serving.kinds(s);
		return table.make([
			col.text('', 'phase', {name: true}), col.count('steps', 'count'), col.ns('median', 'median_ns'), col.ns('p95', 'p95_ns', {minor: true}), col.ns('longest', 'max_ns', {minor: true}),
			{label: 'tokens', get: x => x.tokens_known ? x.tokens : null, show: v => v === null ? '' : fmt.count(v), num: true},
			{label: 'launches per step', ...each('launches'), show: v => fmt.num(v), num: true},
			{label: 'host per step', get: x => (x.time_ns - x.sync_ns) / x.count, show: fmt.ns, num: true},
			{label: 'waits per step', ...each('sync_ns'), show: fmt.ns, num: true},
			...(s.all.gpu_ns === undefined ? [] : [{label: 'GPU per step', ...each('gpu_ns'), show: fmt.ns, num: true}]),
			{label: 'time per token', get: x => x.tokens && x.tokens_known === x.count ? x.time_ns / x.tokens : null, show: v => v === null ? '' : fmt.ns(v), num: true},
		], list, {label: 'Steps by kind'});
	},

	plot(s, tl) {
		/* Set-up takes seconds where others take milliseconds. */
		const list = s.list.filter(x => !x.setup);
		if (list.length < 2 || !list.some(x => x.batch || x.tokens))
			return null;
		const of = phase => list.map(x => x.phase === phase ? x.duration_ns : null);
		const known = [['prefill', CLASSES.transfer], ['decode', CLASSES.kernel], ['unknown', CLASSES.other]].filter(([p]) => list.some(x => x.phase === p));
		return charts.plot(list.map(x => x.ts), [
			...known.map(([p, colour]) => ({label: p, values: of(p), colour, show: fmt.ns, points: true})),
			{label: 'sequences', values: list.map(x => x.batch || null), colour: CLASSES.memory, show: fmt.count, right: true},
		], {label: 'Time and sequences of each step', x: v => fmt.ns(v * 1e6), pick: i => timeline.goTime(tl, list[i].ts, list[i].duration_ns)});
	},

	graphs(s) {
		const g = s.graphs;
		if (!g || !g.replayed)
			return null;
		return sub('Graphs', figures([['replayed', fmt.count(g.replayed)], ['eager', fmt.count(g.eager)], ['eager decoding', g.eager_decode ? fmt.count(g.eager_decode) : ''],
			['empty slots', g.padded_known ? fmt.share((g.padded_rows - g.padded_real_rows) / (g.padded_rows || 1)) : '', g.padded_known ? `in ${fmt.count(g.padded_known)} replays` : '']]),
		rows.table('serving.graphs.sizes', g.sizes, {label: 'Sizes of graphs', first: 8, bar: 'replays'}));
	},

	memory(m) {
		if (!m || !m.stays_bytes || !m.weights)
			return null;
		const parts = [['blocks with weights', m.weights_blocks_bytes, CLASSES.kernel], ['large blocks without weights (probably the cache)', m.cache_bytes, CLASSES.memory], ['other', m.other_bytes, CLASSES.other]];
		return sub('Memory that stays allocated', charts.stack(parts.map(([label, value, colour]) => ({label, value, text: fmt.bytes(value), colour})), 'Memory by use'));
	},

	between(s, tl) {
		const b = s.between;
		if (!b || !has(b.functions))
			return null;
		const where = x => !x.in ? `after ${x.from}, before ${x.to}` : x.from || x.to ? `in ${x.in}: ${x.from || 'itself'}, then ${x.to || 'itself'}` : `in ${x.in}`;
		return sub('Between steps', figures([['median', fmt.ns(b.median_ns)], ['p95', fmt.ns(b.p95_ns)], ['total', fmt.ns(b.time_ns)], ['pauses', b.pauses ? fmt.count(b.pauses) : '', b.pauses ? fmt.ns(b.pauses_ns) : '']]),
			table.make([{label: 'host activity', get: where, name: true, title: x => x.file || ''}, col.count('times', 'count'), col.ns('total', 'total_ns', {bar: x => x.total_ns / b.functions[0].total_ns}), col.ns('longest', 'max_ns')],
				b.functions, {label: 'Host activity between steps', sort: 2, first: 8, can: () => true, pick: x => timeline.goTime(tl, x.max_ts, x.max_ns)}));
	},

	section(r, tl) {
		const s = r.serving;
		if (!s || !s.steps)
			return null;
		const made = s.tokens_made ? s.tokens_made / ((s.last_ts - s.first_ts) / 1e3 || 1) : 0;
		return [
			el('p', {}, s.found ? null : 'This does not look like serving. ', s.why + '.',
				s.phases_by ? el('span', {class: 'muted'}, ` Prefill or decode: ${serving.how[s.phases_by] || s.phases_by} (confidence ${fmt.share(s.phases_confidence)}).`) : null,
				s.old_graphs ? el('span', {class: 'muted'}, ` Graphs were captured before the trace: a step that replays ${fmt.count(s.old_graphs)}, as most do, counts as decoding.`) : null),
			figures([['steps', fmt.count(s.steps), s.rejected && s.rejected.steps ? `${fmt.count(s.rejected.steps)} missing` : ''], ['tokens generated per second', made ? fmt.num(made) : '', made ? `${s.tokens_made_at_most ? 'at most, ' : ''}${fmt.count(s.tokens_made)} in total` : ''],
				['sequences per step', s.batch ? fmt.count(s.batch.median) : '', s.batch ? `${fmt.count(s.batch.min)} to ${fmt.count(s.batch.max)}` : ''],
				['requests', s.requests.at_least ? fmt.count(s.requests.at_least) : '', 'at least'], ['ranges called request', s.requests.ranges ? fmt.count(s.requests.ranges) : '']]),
			serving.steps(s), s.setup ? el('p', {class: 'muted'}, 'Set-up: steps that loaded code or captured a graph. The plot excludes them.') : null, serving.plot(s, tl), serving.graphs(s), serving.between(s, tl), serving.memory(s.memory),
			has(s.others) ? el('p', {class: 'muted'}, 'Other threads also make steps: ' + s.others.map(x => `${x.pid}/${x.tid} (${fmt.count(x.steps)})`).join(', ') + '.') : null,
		];
	},
};
