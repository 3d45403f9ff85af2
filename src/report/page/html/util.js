// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/* Elements, numbers as people read them, colours. Whatever comes from the trace becomes a text node,
 * never markup: el() has no other way. */

function el(tag, attrs, ...children) {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(attrs || {})) {
		if (v === undefined || v === null || v === false)
			continue;
		if (k.startsWith('on'))
			e.addEventListener(k.slice(2), v);
		else
			e.setAttribute(k, v === true ? '' : v);
	}
	for (const c of children.flat(Infinity)) {
		if (c !== undefined && c !== null && c !== false)
			e.append(c instanceof Node ? c : document.createTextNode(clean(c)));
	}
	return e;
}

/* Control characters and those that turn the direction of text are shown, not obeyed. */
function clean(s) {
	return String(s).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd');
}

const NBSP = '\u00a0';

const fmt = {
	count(n) {
		return n === null || n === undefined ? '' : Math.round(n).toLocaleString('en-US');
	},
	num(n, digits = 3) {
		if (n === null || n === undefined || !isFinite(n))
			return '';
		return Number.isInteger(n) ? fmt.count(n) : Number(n.toPrecision(digits)).toLocaleString('en-US');
	},
	scaled(x, steps) {
		let i = 0;
		while (i < steps.length - 1 && Math.abs(x) >= steps[i + 1][0] * 0.9995)
			i++;
		const v = x / steps[i][0], a = Math.abs(v);
		const digits = Number.isInteger(v) && i === 0 ? 0 : a >= 99.95 ? 0 : a >= 9.995 ? 1 : 2;
		return v.toFixed(digits).replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, ',') + NBSP + steps[i][1];
	},
	ns(x) {
		if (x === null || x === undefined)
			return '';
		if (x === 0)
			return '0';
		return fmt.scaled(x, [[1, 'ns'], [1e3, 'µs'], [1e6, 'ms'], [1e9, 's']]);
	},
	bytes(x) {
		if (x === null || x === undefined)
			return '';
		if (x === 0)
			return '0';
		return fmt.scaled(x, [[1, 'B'], [1024, 'KiB'], [2 ** 20, 'MiB'], [2 ** 30, 'GiB'], [2 ** 40, 'TiB']]);
	},
	share(x) {
		if (x === null || x === undefined || !isFinite(x))
			return '';
		const p = x * 100;
		return (p !== 0 && p < 0.05 ? '<0.1' : p.toFixed(p >= 99.95 ? 0 : 1)) + NBSP + '%';
	},
	joules(x) {
		return x === null || x === undefined ? '' : fmt.scaled(x, [[1e-6, 'µJ'], [1e-3, 'mJ'], [1, 'J'], [1e3, 'kJ'], [1e6, 'MJ']]);
	},
	gbps(x) {
		return x === null || x === undefined ? '' : fmt.num(x) + NBSP + 'GB/s';
	},
	/* ts of the trace, in milliseconds: exact enough to distinguish events */
	ts(x) {
		return x === null || x === undefined ? '' : (x / 1e3).toFixed(4) + NBSP + 's';
	},
	dim(d) {
		return d ? d.join('\u200a×\u200a') : '';
	},
	dims(a, b) {
		return !a ? '' : !b || a.join() === b.join() ? fmt.dim(a) : fmt.dim(a) + ' … ' + fmt.dim(b);
	},
};

/* docs/CHROME.md has the same colours as far as two themes allow. */
const CLASSES = {
	init: '#d9a521', device: '#a3acb8', context: '#b57f8d', module: '#2f8763', memory: '#b24aa0',
	transfer: '#e67e36', kernel: '#45ab63', graph: '#4480d8', stream: '#66b3dd', event: '#cfbb3f',
	sync: '#c98b12', collective: '#5b5fc7', occupancy: '#bda27e', texture: '#8f9440', interop: '#6ecf57', profiler: '#2f9e9e',
	nvtx: '#e8a55c', range: '#e8a55c', torch: '#ee4c2c', operator: '#ee4c2c', blas: '#8f6fd6', dnn: '#a9744f', runtime: '#d8c93f',
	other: '#8a93a0', process: '#7d8794', library: '#7d8794', scheduler: '#7c6fd0', xid: '#e5484d',
	interrupt: '#9a8fdc', uvm: '#c26bd0', driver: '#7d8794', gpu: '#2fa8a0',
};
const FAILED = '#e5484d';
const STAGES = {
	init: CLASSES.init, load: CLASSES.module, input: CLASSES.transfer, warmup: '#7bc08f',
	inference: CLASSES.kernel, sync: CLASSES.sync, output: CLASSES.stream, cleanup: CLASSES.context,
	other: CLASSES.other,
};
const KINDS = {
	device: CLASSES.kernel, host: CLASSES.transfer, managed: CLASSES.memory, array: CLASSES.texture,
	vmm: CLASSES.graph, pool: CLASSES.stream, registered: CLASSES.init, ipc: CLASSES.context,
	external: CLASSES.other, reserved: CLASSES.device,
};
const colour = name => CLASSES[name === 'launch' ? 'kernel' : name] || CLASSES.other;

/* The part of a kernel's name that one reads; tables have the whole one in a tooltip. */
function shortKernel(name) {
	let s = clean(name).replace(/\(anonymous namespace\)::/g, ''), out = '', depth = 0;
	for (const c of s) {
		if (c === '(' && depth === 0)
			break;
		if (c === '<')
			depth++;
		else if (c === '>' && depth > 0)
			depth--;
		else if (depth === 0)
			out += c;
	}
	out = out.trim().split(' ').pop();
	return depth === 0 && out ? out : s;
}

/* The short name, then what tells it from others of that name, paler. */
function kernelName(name) {
	const short = shortKernel(name), whole = clean(name).replace(/\(anonymous namespace\)::/g, ''), at = whole.indexOf(short);
	const rest = at < 0 ? '' : whole.slice(at + short.length).replace(/^<\d+, /, '<').replace(/at::native::|std::/g, '');
	/* On phones, what tells most: not the namespace. */
	const parts = short.split('::'), last = parts.slice(parts[parts.length - 1].length < 8 ? -2 : -1).join('::');
	return [short !== last ? el('span', {class: 'minor'}, short.slice(0, -last.length)) : null, last, rest ? el('span', {class: 'muted'}, ' ' + rest.slice(0, 160)) : null];
}

/* A CSS colour of the theme in use, for canvases. */
const cssVar = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const theme = {
	watchers: [],
	dark: () => {
		const set = document.documentElement.dataset.theme;
		return set ? set === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
	},
	changed() {
		document.getElementById('theme').textContent = theme.dark() ? 'Light' : 'Dark';
		document.getElementById('theme').setAttribute('aria-label', theme.dark() ? 'Use the light theme' : 'Use the dark theme');
		theme.watchers.forEach(f => f());
	},
	toggle() {
		document.documentElement.dataset.theme = theme.dark() ? 'light' : 'dark';
		theme.changed();
	},
};

/* Lets the page paint and answer between slices of work. */
const nextTask = () => new Promise(done => setTimeout(done));
