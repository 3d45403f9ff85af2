// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/*
 * Tables from the rows of the report's sections (src/report/section_page.c): names, headings, types and descriptions
 * of columns are in the page as data. A new member, or a new section, needs no code here.
 */
const rows = {
	tables: new Map(),

	read() {
		for (const t of app.read('rows') || [])
			rows.tables.set(t.name, t);
	},

	/* How a type is shown. */
	SHOW: {
		count: fmt.count, number: String, signed: String, ns: fmt.ns, mean_ns: fmt.ns, f64_ns: fmt.ns, call_ns: fmt.ns, call_mean_ns: fmt.ns, call_f64_ns: fmt.ns,
		ms: v => fmt.ns(v * 1e6), us: v => fmt.ns(v * 1e3), bytes: fmt.bytes, milli: fmt.num, f64: fmt.num, exact: fmt.num, digits: fmt.num,
		share: fmt.share, call_share: fmt.share, ratio: fmt.share, rate: fmt.gbps, joules: fmt.joules, ts: fmt.ts, since: fmt.ts, flag: v => v ? 'yes' : '',
	},
	TEXTS: ['text', 'sym', 'hex', 'flag', 'array', 'map'],

	value: (x, path) => path.reduce((at, name) => at === undefined || at === null ? at : at[name], x),

	/* As a heading: without its unit, which the cells have. */
	words: path => path.map(name => name.replace(/_(ns|bytes|gbps|joules)$/, '').replace(/(^|_)ts$/, '$1at').replaceAll('_', ' ').replace(/^comm$/, 'name')).join(' '),

	title: name => rows.words([name]).replace(/^./, x => x.toUpperCase()),

	/* A name of C++ has parts that matter less. */
	text: v => /[<(]/.test(v) ? kernelName(v) : v,

	column(c, is_name, head) {
		const name = c.path.join('.'), get = x => rows.value(x, c.path), more = {label: c.head || is_name && head || rows.words(c.path), member: name, about: c.text};
		const none = v => v === undefined || v === null || (v === 0 && c.nonzero);
		if (c.path[c.path.length - 1] === 'stack')
			return {...col.frames(more.label, c.path[0]), ...more};
		if (c.type === 'dim')
			return {...more, get: x => (get(x) ? get(x).reduce((a, b) => a * b, 1) : null), show: (v, x) => fmt.dim(get(x)), num: true};
		if (c.type === 'array' || c.type === 'map')
			return {...more, get: x => (none(get(x)) ? null : Array.isArray(get(x)) ? get(x).join(', ') : typeof get(x) === 'object' ? JSON.stringify(get(x)) : get(x))};
		const show = rows.SHOW[c.type] || rows.text;
		return {...more, get, show: v => (none(v) ? '' : show(v)), num: !rows.TEXTS.includes(c.type), name: is_name && c.type === 'text', title: c.type === 'text' ? x => String(get(x) || '') : null,
			minor: c.drop > 0 && !is_name};
	},

	/*
	 * Columns of a table: its name, those that a terminal shows, and those in opts.also; the others are hidden. Columns
	 * without any value are left out. opts.name: the member that is the name; opts.columns: {member: what replaces a part of its column}; opts.more: further columns.
	 */
	columns(t, list, opts) {
		const named = t.columns.find(c => opts.name ? c.path.join('.') === opts.name : ['text', 'sym', 'hex'].includes(c.type)) || t.columns[0], also = opts.also || [];
		const all = !t.columns.some(c => c.head), some = c => list.some(x => ![undefined, null, ''].includes(rows.value(x, c.path)) && !(c.nonzero && !rows.value(x, c.path)));
		const sorted = [named, ...t.columns.filter(c => c !== named)];
		return sorted.filter(some).map(c => {
			const made = rows.column(c, c === named, t.head), own = (opts.columns || {})[made.member] || {};
			return {...made, hidden: !(c === named || c.head || also.includes(made.member) || all && c.path.length === 1), ...own};
		});
	},

	/* opts: as of table.make(); sort and bar are members. */
	table(name, list, opts = {}) {
		const t = rows.tables.get(name);
		if (!t || !has(list))
			return null;
		const made = rows.columns(t, list, opts), bar = opts.bar && made.find(c => c.member === opts.bar);
		if (bar) {
			const most = Math.max(...list.map(x => bar.get(x) || 0)) || 1;
			bar.bar = x => (bar.get(x) || 0) / most;
		}
		const shown = [...made.filter(c => !c.hidden), ...opts.more || []], hidden = made.filter(c => c.hidden), sort = opts.sort ? shown.findIndex(c => c.member === opts.sort) : -1;
		return table.make(shown, list, {label: opts.label || rows.words(name.split('.')), ...opts, sort: sort < 0 ? undefined : sort, hidden});
	},

	/* The objects of a table in the report. Those in rows of another table have the numbers of these rows. */
	of(r, t) {
		const names = t.name.split('.'), path = names.length > t.path.length ? t.path : t.path.slice(1);
		let found = r[names[0]] ? [{x: r[names[0]], at: []}] : [];
		if (path !== t.path)
			found = (r[names[0]] || []).map((x, i) => ({x, at: [i]}));
		for (const step of path) {
			found = found.flatMap(({x, at}) => {
				const y = x[step.name];
				return !y ? [] : step.is_list ? y.map((z, i) => ({x: z, at: [...at, i]})) : [{x: y, at}];
			});
		}
		return found.map(({x, at}) => (at.length > 1 ? {...x, in: at.slice(0, -1).join('.')} : x));
	},

	/* A section that nothing draws in another way: its numbers and tables. */
	section(r, name) {
		const all = [...rows.tables.values()].filter(t => t.name.split('.')[0] === name && r[name]), parts = [];
		for (const t of all) {
			const list = rows.of(r, t);
			if (!t.path.length) {
				parts.push(figures(t.columns.filter(c => !['array', 'map'].includes(c.type) && rows.value(list[0], c.path)).map(c => [rows.words(c.path), rows.column(c).show(rows.value(list[0], c.path))])));
			} else if (has(list)) {
				const inside = list[0].in !== undefined ? [{label: 'in', get: x => x.in}] : [];
				const grid = rows.table(t.name, list, {more: inside, label: t.text});
				parts.push(all.length > 2 ? sub(rows.words(t.name.split('.').slice(1)), grid) : grid);
			}
		}
		return parts.some(Boolean) && all.some(t => t.path.length && has(rows.of(r, t))) ? parts : null;
	},
};
