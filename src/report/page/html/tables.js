// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/*
 * A table that sorts and filters.
 *   columns: {label, get(row) -> value, show(value, row) -> text or node, num, bar: share of 1 of (row),
 *             minor: left out on phones, title(row), member: its name in JSON, about: its meaning}
 *   opts: {label: accessible name, sort: index of the column that it starts sorted by, first: rows shown at
 *          first, pick(row): what a click on the first cell does, empty: text, hidden: columns that a button shows}
 */
const table = {
	FILTER_FROM: 8,

	make(columns, rows, opts = {}) {
		const t = {
			columns, rows, opts, by: opts.sort === undefined ? -1 : opts.sort, down: true, all: false,
			filter: '', body: el('tbody'), heads: [],
		};
		t.more = el('button', {type: 'button', class: 'ghost more', onclick: () => { t.all = !t.all; table.fill(t); }});
		const head = el('tr', {}, columns.map((c, i) => table.head(t, c, i)));
		const grid = el('table', {'aria-label': opts.label}, el('thead', {}, head), t.body);
		const box = el('div', {class: 'table-box'});
		if (rows.length >= table.FILTER_FROM) {
			t.found = el('span', {class: 'muted', role: 'status'});
			box.append(el('div', {class: 'table-tools'}, el('input', {
				type: 'search', placeholder: 'Filter', 'aria-label': 'Filter ' + (opts.label || 'the table'),
				oninput: e => { t.filter = e.target.value.toLowerCase(); table.fill(t); },
			}), t.found));
		}
		box.append(el('div', {class: 'table-scroll', tabindex: '0', role: 'region', 'aria-label': opts.label}, grid), t.more,
			opts.hidden && opts.hidden.length ? el('button', {type: 'button', class: 'ghost all', onclick: () =>
				box.replaceWith(table.make([...columns, ...opts.hidden], rows, {...opts, hidden: null}))}, 'All columns') : '',
			el('button', {type: 'button', class: 'ghost csv', onclick: e => table.copy(e.target, table.csv([...columns, ...opts.hidden || []], rows))}, 'Copy as CSV'));
		table.fill(t);
		return box;
	},

	head(t, c, i) {
		const th = el('th', {scope: 'col', title: c.about, class: (c.num ? 'num ' : '') + (c.minor ? 'minor' : '')},
			el('button', {type: 'button', onclick: () => table.sort(t, i)}, c.num && i ? [table.arrow(), c.label] : [c.label, table.arrow()]));
		t.heads.push(th);
		return th;
	},

	arrow: () => el('span', {class: 'arrow', 'aria-hidden': 'true'}),

	sort(t, i) {
		t.down = t.by === i ? !t.down : !!t.columns[i].num;
		t.by = i;
		table.fill(t);
	},

	compare(a, b) {
		const none = x => x === undefined || x === null || x === '';
		if (none(a) || none(b))
			return none(a) - none(b) || 0;
		return typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
	},

	fill(t) {
		const by = t.columns[t.by];
		let rows = t.rows;
		if (t.filter) {
			rows = rows.filter(r => t.columns.some(c => {
				const v = c.get(r);
				return v !== undefined && v !== null && String(v).toLowerCase().includes(t.filter);
			}));
		}
		if (by)
			rows = [...rows].sort((a, b) => table.compare(by.get(a), by.get(b)) * (t.down ? -1 : 1));
		t.heads.forEach((th, i) => {
			th.setAttribute('aria-sort', i !== t.by ? 'none' : t.down ? 'descending' : 'ascending');
		});
		const first = t.opts.first || 12, shown = t.all ? rows : rows.slice(0, first);
		t.body.replaceChildren(...shown.map(r => table.row(t, r)));
		if (!rows.length) {
			t.body.append(el('tr', {}, el('td', {colspan: t.columns.length, class: 'muted'},
				t.filter ? 'Nothing matches the filter.' : t.opts.empty || 'None.')));
		}
		t.more.hidden = rows.length <= first;
		t.more.textContent = t.all ? 'Show fewer' : `Show all ${fmt.count(rows.length)}`;
		if (t.found)
			t.found.textContent = t.filter ? `${fmt.count(rows.length)} of ${fmt.count(t.rows.length)}` : '';
	},

	row(t, r) {
		return el('tr', {}, t.columns.map((c, i) => {
			const value = c.get(r);
			let content = c.show ? c.show(value, r) : value;
			if (i === 0 && t.opts.pick && t.opts.can(r))
				content = el('button', {type: 'button', class: 'link', onclick: () => t.opts.pick(r)}, content);
			const td = el('td', {class: (c.num ? 'num ' : '') + (c.minor ? 'minor ' : '') + (c.name ? 'name' : ''),
				title: c.title ? clean(c.title(r)) : null}, content);
			if (c.bar) {
				td.classList.add('bar');
				td.style.setProperty('--share', (100 * Math.min(1, Math.max(0, c.bar(r) || 0))).toFixed(2) + '%');
			}
			return td;
		}));
	},

	/* All rows, with the numbers as they are in the report's JSON. A text that a spreadsheet would take for a formula gets a '. */
	csv(columns, rows) {
		const cell = v => {
			const text = v === undefined || v === null ? '' : typeof v === 'number' ? String(v) : clean(String(v)).replace(/^(?=[=+\-@])/, "'");
			return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
		};
		return [columns.map(c => cell(c.member || c.label)), ...rows.map(r => columns.map(c => cell(c.get(r))))].map(line => line.join(',') + '\r\n').join('');
	},

	async copy(button, text) {
		let done = 'Copied';
		try {
			await navigator.clipboard.writeText(text);
		} catch {
			done = 'The browser does not allow it';
		}
		button.textContent = done;
	},

	/* Shows content below the row of a button, or takes it away again. */
	open(button, content) {
		const row = button.closest('tr'), shown = button.getAttribute('aria-expanded') === 'true';
		if (shown)
			row.nextSibling.remove();
		else
			row.after(el('tr', {class: 'opened'}, el('td', {colspan: row.cells.length}, content)));
		button.setAttribute('aria-expanded', String(!shown));
	},
};

/* Columns that many tables have. */
const col = {
	text: (label, key, more) => ({label, get: r => r[key], ...more}),
	count: (label, key, more) => ({label, get: r => r[key], show: fmt.count, num: true, ...more}),
	ns: (label, key, more) => ({label, get: r => r[key], show: fmt.ns, num: true, ...more}),
	bytes: (label, key, more) => ({label, get: r => r[key], show: fmt.bytes, num: true, ...more}),
	ts: (label, key, more) => ({label, get: r => r[key], show: fmt.ts, num: true, ...more}),
	share: (label, key, more) => ({label, get: r => r[key], show: fmt.share, num: true, ...more}),
	kernel: (label, key, more) => ({
		label, get: r => r[key], show: v => v ? kernelName(v) : '', title: r => r[key] || '', name: true, ...more,
	}),
	class: (label, key) => ({
		label, get: r => r[key], show: v => el('span', {class: 'mark'}, charts.swatch(colour(v)), v),
	}),
	/* A stack: its frames in short, and all of them in a row below when it is clicked. */
	frames: (label, key, more) => ({
		label, get: r => (r[key] || []).join(' ‹ '), name: true, show: (v, r) => !v ? '' : el('button', {type: 'button', class: 'link frames', 'aria-expanded': 'false',
			onclick: e => table.open(e.currentTarget, el('ol', {}, r[key].map(f => el('li', {}, f))))}, r[key].map(shortKernel).join(' ‹ ')), ...more,
	}),
};
