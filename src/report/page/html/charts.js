// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/* Plots over time by uPlot, and bars made of elements. */
const charts = {
	swatch(c) {
		const s = el('span', {class: 'swatch', 'aria-hidden': 'true'});
		s.style.background = c;
		return s;
	},

	/* parts: {label, value, text, colour, open}: one bar, with its legend. open(): on a click. */
	stack(parts, label) {
		const sum = parts.reduce((a, p) => a + p.value, 0) || 1;
		const bar = el('div', {class: 'stack', role: 'img', 'aria-label': label + ': ' +
			parts.map(p => `${p.label} ${p.text}`).join(', ')});
		const legend = el('ul', {class: 'legend'});
		for (const p of parts.filter(p => p.value > 0)) {
			const piece = el('span', {title: `${p.label}: ${p.text}, ${fmt.share(p.value / sum)}`});
			piece.style.background = p.colour;
			piece.style.flexGrow = p.value / sum;
			if (p.open) {
				piece.classList.add('opens');
				piece.addEventListener('click', p.open);
			}
			bar.append(piece);
			const mark = charts.swatch(p.colour);
			legend.append(el('li', {}, mark, p.open ? el('button', {type: 'button', class: 'link', onclick: p.open}, p.label) : p.label, ' ', el('b', {}, p.text),
				el('span', {class: 'muted'}, ' ' + fmt.share(p.value / sum))));
		}
		return el('div', {}, bar, legend);
	},

	axis(show, side, binary) {
		return {
			stroke: () => cssVar('--muted'), grid: {stroke: () => side ? 'transparent' : cssVar('--grid'), width: 1},
			ticks: {show: false}, font: '11px system-ui, sans-serif', size: side === undefined ? 28 : 68, gap: 4,
			...(binary ? {incrs: Array.from({length: 50}, (x, i) => 2 ** i)} : {}),
			values: (u, vals) => vals.map(v => v === null || (side && v === 0) ? '' : show(v)), ...(side === undefined ? {} : {scale: side ? 'y2' : 'y'}),
			...(side ? {side: 1} : {}),
		};
	},

	/*
	 * series: {label, values, colour, show, right: on the right axis, points: dots instead of a line}
	 * opts: {label, x: show of x, pick(i), zoom(x0, x1), stepped, height}
	 */
	plot(xs, series, opts) {
		const box = el('div', {class: 'plot', role: 'img', 'aria-label': opts.label});
		const right = series.find(s => s.right), left = series.find(s => !s.right);
		const conf = {
			width: 600, height: opts.height || 220, padding: [10, right ? 8 : 20, 0, 0], /* half a label of the x axis */
			scales: {
				x: {time: false},
				y: {range: (u, lo, hi) => [0, opts.most || (hi > 0 ? hi * 1.08 : 1)]},
				...(right ? {y2: {range: (u, lo, hi) => [0, hi > 0 ? hi * 1.3 : 1]}} : {}),
			},
			axes: [charts.axis(opts.x), charts.axis(left.show, 0, opts.binary), ...(right ? [charts.axis(right.show, 1)] : [])],
			cursor: {drag: {x: !!opts.zoom, y: false}, points: {size: 6}},
			legend: {live: true},
			series: [{label: opts.xLabel || 'time', value: (u, v) => v === null ? '' : opts.x(v)}, ...series.map(s => ({
				label: s.label, stroke: s.colour, width: s.points ? 0 : 1.5, scale: s.right ? 'y2' : 'y',
				fill: s.fill ? s.colour + '2e' : undefined,
				paths: opts.stepped ? uPlot.paths.stepped({align: 1}) : s.bars ? uPlot.paths.bars({size: [0.75, 40]}) : undefined,
				points: {show: !!s.points, size: 4, fill: s.colour},
				value: (u, v) => v === null || v === undefined ? '' : s.show(v),
			}))],
			hooks: {
				setSelect: [u => {
					if (opts.zoom && u.select.width > 4)
						opts.zoom(u.posToVal(u.select.left, 'x'), u.posToVal(u.select.left + u.select.width, 'x'));
					if (u.select.width)
						u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
				}],
				ready: [u => {
					u.over.addEventListener('click', () => {
						if (opts.pick && u.cursor.idx !== null && u.cursor.idx !== undefined)
							opts.pick(u.cursor.idx);
					});
				}],
			},
		};
		const draw = () => {
			const width = box.clientWidth;
			if (!width)
				return;
			if (!charts.plots.has(box)) {
				charts.plots.set(box, new uPlot({...conf, width}, [xs, ...series.map(s => s.values)], box));
			} else if (charts.plots.get(box).width !== width) {
				charts.plots.get(box).setSize({width, height: conf.height});
			}
		};
		new ResizeObserver(draw).observe(box);
		theme.watchers.push(() => charts.plots.has(box) && charts.plots.get(box).redraw(false, true));
		return box;
	},
	plots: new Map(),
};
