// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/* Puts the page together. */
const app = {
	read(id) {
		try {
			return JSON.parse(document.getElementById(id).textContent);
		} catch (e) {
			return null;
		}
	},

	/* What the reader must know before believing the numbers. */
	banner(r) {
		const o = r.overview || {}, notes = [];
		const bad = text => notes.push(['bad', text]), note = text => notes.push(['note', text]);
		if (r.complete === false)
			bad('This trace is incomplete: the numbers below may be wrong.');
		for (const l of r.lost || [])
			bad(`${fmt.count(l.count)} ${l.what}: ${l.why}. To avoid it: ${l.how_to_avoid}.`);
		for (const c of r.chosen || [])
			note(`${fmt.count(c.count)} ${c.what} (${c.why}).`);
		const traces = r.traces || [], wall = traces.filter(t => t.clock === 'wall').length, none = traces.filter(t => t.clock === 'none').length;
		if (wall)
			note(`${fmt.count(wall)} of ${fmt.count(traces.length)} traces are from other machines or boots. Their times are as accurate as the wall clocks, which cannot be checked here. Ranks of different clocks are not compared.`);
		if (none)
			note(`${fmt.count(none)} of ${fmt.count(traces.length)} traces are from another or an unknown time: they are placed right after the previous trace.`);
		if (o.redacted)
			note(o.redacted === 'arguments' ? 'Arguments were redacted: iterations, stages, idle times, kernels, graphs, streams, collectives, memory, bytes and findings are missing.' : `Redacted: ${o.redacted}.`);
		if (o.unfinished)
			note(`${fmt.count(o.unfinished)} calls had not returned at the end.`);
		for (const d of o.degraded || [])
			note(d);
		return notes.length ? el('section', {class: 'banner', 'aria-label': 'Limits of this trace'}, el('ul', {}, notes.map(([kind, text]) => el('li', {class: kind}, text)))) : null;
	},

	/* What a conclusion carries. */
	mark(conclusion) {
		return conclusion.incomplete ? ' (from an incomplete trace)' : '';
	},

	hero(r) {
		const o = r.overview || {};
		const title = has(o.command) ? o.command.join(' ') : has(r.files) ? r.files.map(f => f.path).join(', ') : 'CUDA trace';
		document.title = clean(title).slice(0, 80) + ' · cudatrace';
		const facts = [o.host, o.cuda_version && 'CUDA ' + o.cuda_version, o.driver_version && 'driver ' + o.driver_version,
			o.wall_time && o.wall_time.replace('T', ' ').slice(0, 19) + ' UTC', r.complete && 'complete'].filter(Boolean);
		return el('section', {class: 'hero'}, el('h1', {}, title), el('p', {class: 'muted'}, facts.join('  ·  ')), app.cards(r));
	},

	/* Of the steady state, as everywhere in the report. */
	gpuIdle(r) {
		const idle = r.verdict && r.verdict.gpu_idle;
		if (!idle || !idle.of_ns)
			return null;
		const measured = idle.basis === 'measured';
		return ['GPU idle', `${measured ? '' : '≥ '}${fmt.share(idle.ns / idle.of_ns)}`, `${r.iterations && r.iterations.count ? 'of the steady state' : 'of the run'}, ${measured ? 'measured' : 'a lower bound'}`];
	},

	causes(r) {
		return has(r.failure) ? [el('ul', {class: 'failures'}, r.failure.map(f => el('li', {}, f.verdict, f.advice ? el('p', {class: 'advice'}, f.advice) : null))), rows.section(r, 'failure')] : null;
	},

	failures(r) {
		return has(r.failures) ? el('ul', {class: 'failures'}, r.failures.map(f => el('li', {}, f.text))) : null;
	},

	/* The limit of the program, and the parts of its time, which add up to the whole. */
	verdict(r) {
		const v = r.verdict;
		if (!v || !v.sentence)
			return null;
		return [
			el('p', {class: 'verdict'}, v.sentence + app.mark(v)),
			rows.table('verdict.time', v.time, {label: 'Time by part of the run', bar: 'ns', also: ['what']}),
		];
	},

	cards(r) {
		const o = r.overview || {}, it = r.iterations, m = r.memory, w = r.waits;
		const cards = [
			['Length', fmt.ns(o.wall_ns), o.calls !== undefined ? `${fmt.count(o.calls)} calls` : ''],
			['Launches', fmt.count(o.launches), r.kernels && has(r.kernels.list) ? `${fmt.count(r.kernels.list.length)} kernels` : ''],
			it && it.count ? ['Iteration', it.time_ns ? fmt.ns(it.time_ns.median) : '', `${fmt.count(it.count)} × ${it.kernels ? fmt.count(it.kernels.median) : '?'} kernels`] : null,
			m && m.peak_bytes ? ['Peak memory', fmt.bytes(m.peak_bytes), m.leak_count ? `${fmt.bytes(m.leak_bytes)} never freed` : 'all freed'] : null,
			app.gpuIdle(r),
			w && w.count ? ['Waiting', fmt.share(w.share), fmt.ns(w.total_ns)] : null,
			r.failures ? ['Failures', fmt.count(r.failures.length), o.errors ? `${fmt.count(o.errors)} calls returned errors` : '', r.failures.length > 0] : null,
		];
		return el('dl', {class: 'cards'}, cards.filter(c => c && c[1] !== '').map(([name, value, more, red]) => el('div', {class: red ? 'red' : ''},
			el('dt', {}, name), el('dd', {}, el('b', {}, value), el('span', {class: 'muted'}, more)))));
	},

	answers(r) {
		if (!has(r.answers))
			return null;
		return el('dl', {class: 'answers'}, r.answers.map(a => el('div', {}, el('dt', {}, a.question), el('dd', {}, a.text + app.mark(a)))));
	},

	findings(r, tl) {
		if (!Array.isArray(r.findings))
			return null;
		if (!r.findings.length)
			return el('p', {}, 'No findings.');
		const most = Math.max(...r.findings.map(f => f.lost_ns || 0), 1);
		const {text: order} = rows.tables.get('findings') || {};
		return [order ? el('p', {class: 'muted'}, `Order: ${order}. Gains may overlap.`) : null, el('ol', {class: 'findings'}, r.findings.map(f => {
			const bar = el('span', {class: 'lost-bar', 'aria-hidden': 'true'});
			bar.style.width = (100 * (f.lost_ns || 0) / most).toFixed(1) + '%';
			const [lost, share, whole] = f.steady_ns ? [f.steady_ns, f.steady_share, r.verdict ? r.verdict.scope : 'the steady state'] : [f.lost_ns, f.share, 'the trace'];
			return el('li', {},
				el('div', {class: 'lost'}, el('b', {}, lost ? fmt.ns(lost) : '–'), el('span', {class: 'muted'}, share ? `${fmt.share(share)} of ${whole}` : ''), el('span', {class: 'lost-track'}, bar)),
				el('div', {class: 'finding'},
					el('h3', {}, f.title + app.mark(f)), el('p', {}, f.text), el('p', {class: 'advice'}, f.advice), f.gain ? el('p', {}, `Gains ${f.gain}.`) : null,
					has(f.evidence) ? el('dl', {class: 'evidence'}, f.evidence.map(e => el('div', {}, el('dt', {}, e.what), el('dd', {}, e.value)))) : null,
					el('p', {class: 'muted small'}, f.confidence !== undefined ? `Confidence: ${Math.round(100 * f.confidence)}${NBSP}%` : '', f.confidence_reason ? ` – ${f.confidence_reason}` : '',
						typeof f.ts === 'number' ? ['  ', el('button', {type: 'button', class: 'link', onclick: () => timeline.goTime(tl, f.ts)}, 'Show on the timeline')] : null)));
		}))];
	},

	section(id, title, content) {
		return content && content.length !== 0 ? el('section', {id, class: 'card', 'aria-labelledby': id + '-h'}, el('h2', {id: id + '-h'}, title), content) : null;
	},

	build(report, meta) {
		/* Notes which sections the parts below read. */
		const drawn = new Set(), r = new Proxy(report, {get: (x, name) => drawn.add(name) && x[name]});
		const tl = timeline.make(r, meta), main = document.getElementById('main');
		const top = [app.banner(r), app.hero(r)].filter(Boolean);
		/* In the order of the text (report.c). */
		const parts = [
			['failure', 'Cause of failure', app.causes(r), 'Cause'],
			['failures', 'Failures', app.failures(r), 'Failures'],
			['verdict', 'Verdict', app.verdict(r), 'Verdict'],
			['findings', 'Findings', app.findings(r, tl), 'Findings'],
			['answers', 'Answers', app.answers(r), 'Answers'],
			['step', 'Step', sections.step(r, tl), 'Step'],
			['timeline', 'Timeline', meta.events || meta.merged ? tl.box : null, 'Timeline'],
			['map', 'Map', map.section(r), 'Map'],
			['serving', 'Serving', serving.section(r, tl), 'Serving'],
			['functions', 'Overview', sections.functions(r, tl), 'Overview'],
			['iterations', 'Iterations', sections.iterations(r, tl), 'Iterations'],
			['stages', 'Stages', sections.stages(r, tl), 'Stages'],
			['idle', 'GPU idle', sections.idle(r, tl), 'Idle'],
			['waits', 'Blocking calls', sections.waits(r, tl), 'Waits'],
			['ranges', 'NVTX ranges', sections.ranges(r, tl), 'Ranges'],
			['operators', 'PyTorch operators', rows.section(r, 'operators'), 'Operators'],
			['allocator', 'PyTorch allocator', rows.section(r, 'allocator'), 'Allocator'],
			['kernels', 'Kernels', sections.kernels(r, tl), 'Kernels'],
			['products', 'Matrix products', sections.products(r), 'GEMMs'],
			['graphs', 'CUDA graphs', sections.graphs(r, tl), 'Graphs'],
			['streams', 'Streams', sections.streams(r, tl), 'Streams'],
			['communication', 'Communication', sections.communication(r, tl), 'Communication'],
			['executed', 'On the GPU', sections.executed(r, tl), 'On the GPU'],
			['stalls', 'Why kernels wait', rows.section(r, 'stalls'), 'Waits of kernels'],
			['compared', 'Processes', sections.compared(r), 'Processes'],
			['memory', 'Memory', sections.memory(r, tl), 'Memory'],
			['transfers', 'Transfers', sections.transfers(r, tl), 'Transfers'],
			['driver', 'Kernel driver', sections.driver(r, tl), 'Driver'],
			['switches', 'Context switches', sections.switches(r), 'Contexts'],
			['gpus', 'GPUs by NVML', sections.gpus(r), 'GPUs'],
			['gpu_metrics', 'Hardware counters', rows.section(r, 'gpu_metrics'), 'Counters'],
			['stacks', 'Call stacks', sections.stacks(r, tl), 'Stacks'],
			['trace', 'This trace', sections.trace(r, tl), 'Trace'],
		];
		/* Sections that nothing above draws. */
		for (const name of new Set([...rows.tables.keys()].map(x => x.split('.')[0])))
			if (!drawn.has(name) && !parts.some(x => x[0] === name))
				parts.splice(-1, 0, [name, rows.title(name), rows.section(r, name), rows.title(name)]);
		main.append(...top);
		for (const [id, title, content, short] of parts) {
			const s = app.section(id, title, content);
			if (!s)
				continue;
			main.append(s);
			document.getElementById('nav').append(el('a', {href: '#' + id}, short));
		}
		document.getElementById('foot').append(el('p', {class: 'muted'}, `Written by cudatrace ${(r.overview && r.overview.version) || ''}. All data comes from the trace; nothing is loaded from the network. Plots: uPlot, © Leon Sorokin, MIT.`));
		return tl;
	},

	async start() {
		const report = app.read('report'), meta = app.read('meta');
		document.getElementById('theme').addEventListener('click', theme.toggle);
		matchMedia('(prefers-color-scheme: dark)').addEventListener('change', theme.changed);
		if (!report || !meta) {
			document.getElementById('main').append(el('p', {class: 'banner'}, 'This file is truncated or damaged: write the report again.'));
			return;
		}
		rows.read();
		const tl = app.build(report, meta);
		theme.changed();
		window.cudatrace = {report, meta, timeline: tl, ready: false};
		await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
		try {
			await timeline.load(tl, document.getElementById('columns').textContent);
		} catch (e) {
			tl.note.textContent = String(e.message || e);
			tl.note.className = 'banner';
		}
		window.cudatrace.ready = true;
	},
};
app.start();
