// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
'use strict';
/* The sections of the report below the timeline. Each takes the report (docs/REPORT.md) and the timeline, and
 * returns what stands in it; nothing when the trace has nothing to say on the matter. */

const sentence = s => s.charAt(0).toUpperCase() + s.slice(1) + (s.endsWith('.') ? '' : '.');
const has = list => Array.isArray(list) && list.length > 0;
const figures = pairs => el('dl', {class: 'figures'}, pairs.filter(p => p && p[1] !== '' && p[1] !== undefined && p[1] !== null)
	.map(([name, value, more]) => el('div', {}, el('dt', {}, name), el('dd', {}, value, more ? el('span', {class: 'muted'}, ' ' + more) : null))));
const sub = (title, ...content) => el('div', {class: 'sub'}, el('h3', {}, title), content);
/* Opens a row's moment on the timeline. */
const jump = (tl, key = 'ts', dur = 'duration_ns') => ({
	can: r => typeof r[key] === 'number', pick: r => timeline.goTime(tl, r[key], r[dur]),
});

const sections = {
	iterations(r, tl) {
		const it = r.iterations;
		if (!it || !it.count)
			return null;
		const list = it.list || [], xs = list.map((x, i) => i + 1);
		const med = (s, show) => s && show(s.median);
		const spread = (s, show) => s && s.p95 !== undefined ? `p95 ${show(s.p95)}` : '';
		return [
			el('p', {}, it.why ? `${fmt.count(it.count)} iterations: ${it.why}.` : null, it.warmup ? ` ${fmt.count(it.warmup)} of them ${it.warmup > 1 ? 'are' : 'is'} warm-up and excluded from the figures.` : null,
				it.confidence !== undefined ? el('span', {class: 'muted'}, ` Confidence ${Math.round(100 * it.confidence)}${NBSP}%.`) : null),
			figures([
				['time, median', med(it.time_ns, fmt.ns), spread(it.time_ns, fmt.ns)],
				['kernels', med(it.kernels, fmt.count), spread(it.kernels, fmt.count)],
				['graph launches', it.graph_launches && it.graph_launches.median ? fmt.count(it.graph_launches.median) : ''],
				['calls', med(it.calls, fmt.count), spread(it.calls, fmt.count)],
				['in launches', med(it.launch_ns, fmt.ns), spread(it.launch_ns, fmt.ns)],
				['waiting', med(it.sync_ns, fmt.ns), spread(it.sync_ns, fmt.ns)],
				['between iterations', med(it.gap_ns, fmt.ns), spread(it.gap_ns, fmt.ns)],
			]),
			list.length > 1 ? charts.plot(xs, [
				{label: 'time', values: list.map(x => x.time_ns), colour: CLASSES.graph, show: fmt.ns, fill: true},
				{label: 'in launches', values: list.map(x => x.launch_ns), colour: CLASSES.kernel, show: fmt.ns, fill: true},
				{label: 'waiting', values: list.map(x => x.sync_ns), colour: CLASSES.sync, show: fmt.ns},
				{label: 'kernels', values: list.map(x => x.kernels), colour: CLASSES.memory, show: fmt.count, right: true, points: true},
			], {label: 'Time and kernels of each iteration', x: v => Number.isInteger(v) ? String(v) : '', xLabel: 'iteration', pick: i => timeline.goIteration(tl, i),
				most: 1.08 * Math.max(...list.filter(x => !x.warmup).map(x => x.time_ns), 1)}) : null,
			el('p', {class: 'muted hint'}, 'Click an iteration to open it on the timeline.', it.warmup ? ' Warm-up may exceed the plot.' : ''),
			has(it.sequence) ? sub('Launches of an iteration', rows.table('iterations.sequence', it.sequence, {label: 'Kernels of an iteration', first: 8, bar: 'count'})) : null,
		];
	},

	stages(r, tl) {
		const st = r.stages;
		if (!st || !has(st.list))
			return null;
		const ratio = st.ratio || {};
		const parts = [['launch', 'launches', 'kernel'], ['transfer', 'transfers', 'transfer'], ['sync', 'waiting', 'sync'], ['memory', 'memory', 'memory'],
			['module', 'modules', 'module'], ['other', 'other calls', 'init']].map(([key, label, c]) => (
			{label, value: ratio[key + '_ns'] || 0, text: fmt.ns(ratio[key + '_ns'] || 0), colour: CLASSES[c]}));
		return [
			charts.stack(st.list.map(s => ({label: s.stage, value: s.wall_ns, text: fmt.ns(s.wall_ns), colour: STAGES[s.stage] || CLASSES.other})), 'Stages of the run'),
			rows.table('stages.list', st.list, {label: 'Stages', bar: 'wall_ns', columns: {stage: {show: v => [charts.swatch(STAGES[v] || CLASSES.other), v]}}, can: x => x.wall_ns > 0 && typeof x.first_ts === 'number', pick: x => timeline.around(tl, x.first_ts * 1e6, x.last_ts * 1e6, 0.02)}),
			parts.some(p => p.value) ? sub('In CUDA calls', charts.stack(parts, 'Time in CUDA calls'), ratio.compute_share !== undefined ?
				el('p', {class: 'muted'}, `Launching and waiting for kernels ${fmt.share(ratio.compute_share)}, moving data ${fmt.share(ratio.io_share)}; ${fmt.ns(ratio.outside_ns)} outside CUDA calls.`) : null) : null,
			st.load && has(st.load.by_function) ? sub('Loading', figures([['calls', fmt.count(st.load.calls)], ['time in calls', fmt.ns(st.load.call_ns)],
				['allocated', fmt.bytes(st.load.alloc_bytes)], ['copied to the device', fmt.bytes(st.load.htod_bytes)]]),
			rows.table('stages.load.by_function', st.load.by_function, {label: 'Functions while loading', first: 6})) : null,
		];
	},

	idle(r, tl) {
		const idle = r.idle;
		if (!idle || !idle.count)
			return null;
		return [
			idle.what ? el('p', {class: 'muted'}, sentence(idle.what)) : null,
			r.gpu && r.gpu.executions ? el('p', {}, 'GPU idle time is measured: see On the GPU. The periods below follow from the host\'s calls.') :
				figures([['idle, total', fmt.ns(idle.total_ns)], ['share', fmt.share(idle.share), idle.span_ns ? `of ${fmt.ns(idle.span_ns)} from the first work to the last` : ''], ['periods', fmt.count(idle.count)], ['in iterations', fmt.ns(idle.in_iterations_ns)]]),
			has(idle.by_cause) ? charts.stack(idle.by_cause.map((c, i) => ({label: c.cause, value: c.total_ns, text: fmt.ns(c.total_ns),
				colour: [CLASSES.graph, CLASSES.module, CLASSES.memory, CLASSES.transfer, CLASSES.other][i % 5]})), 'Idle time by cause') : null,
			rows.table('idle.list', idle.list, {label: 'Idle periods', name: 'after', also: ['ts', 'before'], columns: {after: {label: 'after'}}, sort: 'duration_ns', bar: 'duration_ns', ...jump(tl)}),
		];
	},

	waits(r, tl) {
		const w = r.waits;
		if (!w || !w.count)
			return null;
		return [
			figures([['waiting', fmt.ns(w.total_ns)], ['share of the trace', fmt.share(w.share)], ['calls', fmt.count(w.count)], ['off the CPU', fmt.ns(w.off_cpu_ns)]]),
			rows.table('waits.functions', w.functions, {label: 'Functions that wait', sort: 'total_ns', bar: 'total_ns', more: [
				{label: 'waited for', get: x => has(x.for) ? x.for[0].kernel || x.for[0].what : '', show: v => rows.text(v), minor: true, name: true, title: x => has(x.for) ? x.for[0].kernel || '' : ''}]}),
			has(w.longest) ? sub('Longest', rows.table('waits.longest', w.longest, {label: 'Longest waits', first: 5, ...jump(tl)})) : null,
			has(w.may_wait) ? sub('Calls that may have waited', rows.table('waits.may_wait', w.may_wait, {label: 'Calls that may have waited', first: 6})) : null,
			has(w.callers) ? sub('Callers', rows.table('waits.callers', w.callers, {label: 'Callers of waits', first: 6})) : null,
		];
	},

	kernels(r, tl) {
		const k = r.kernels;
		if (!k || !has(k.list))
			return null;
		return [
			figures([['launches', fmt.count(k.launches)], ['kernels', fmt.count(k.list.length)], ['in graphs', k.nodes ? fmt.count(k.nodes) : ''],
				['time in launches', fmt.ns(k.total_ns)], ['unnamed', k.unnamed ? fmt.count(k.unnamed) : '']]),
			el('p', {class: 'muted'}, `Times are those of the launches on the CPU: how long a kernel runs on the GPU ${r.gpu && r.gpu.executions ? 'in the next table' : 'not measured'}. A click on a name finds it on the timeline.`),
			rows.table('kernels.list', k.list, {label: 'Kernels', sort: 'count', bar: 'count', also: ['max_ns', 'registers'], can: () => true, pick: x => sections.find(tl, x.name)}),
			k.list[0].ncu ? [el('p', {class: 'muted'}, 'For caches, bank conflicts and stalls of the first kernel, run Nsight Compute:'), el('pre', {class: 'command'}, k.list[0].ncu)] : null,
		];
	},

	/* -e cublas, cudnn; what the GPU took for them and which part of its peak that is: --gpu-time. */
	products(r) {
		const list = r.gemms && r.gemms.list;
		if (!has(list))
			return null;
		const timed = list.some(x => x.gpu_ns), peaks = [...new Set(list.filter(x => x.peak_tflops).map(x => `${x.peak_type} ${fmt.num(x.peak_tflops)} TFLOP/s at ${fmt.num(x.peak_clock_mhz)} MHz`))];
		return [
			table.make([col.text('function', 'name', {name: true, get: x => x.name.startsWith('cudnn') ? x.op : x.name}), {label: 'm × n × k', get: x => x.m * x.n * x.k, show: (v, x) => [x.m, x.n, x.k].join(' × ') + (x.batch > 1 ? `, ${x.batch} of them` : ''), num: true},
				{label: 'type', get: x => (x.peak_type || x.c_type || '').replace(/^CUDA_/, '')}, col.count('calls', 'count'), {label: 'TFLOP', get: x => x.flops / 1e12, show: v => fmt.num(v), num: true}, col.ns('in calls', 'call_ns', {minor: true}),
				...(timed ? [col.ns('on the GPU', 'gpu_ns'), {label: 'TFLOP/s', get: x => x.tflops === undefined ? null : x.tflops, show: v => v === null ? '' : fmt.num(v), num: true}] : []),
				...(peaks.length ? [col.share('of the peak', 'peak_share', {show: v => v === undefined ? '' : fmt.share(v), bar: x => x.peak_share || 0})] : [])], list, {label: 'Matrix products', sort: 4}),
			peaks.length ? el('p', {class: 'muted'}, `Peak, dense: ${peaks.join('; ')}.`) : null,
			r.gemms.unknown_plans ? el('p', {class: 'muted'}, `${fmt.count(r.gemms.unknown_plans)} executions of cuDNN plans are not included: the plans were made before the trace or from JSON, or calls were lost.`) : null,
		];
	},

	/* What nvidia-smi calls it where that is known, else the process's number of it. */
	gpuName: x => `${x.nvml_index === undefined ? x.device : x.nvml_index}${x.uuid ? ' ' + x.uuid.slice(4, 12) : ''}${x.trace === undefined ? '' : ` of trace ${x.trace}`}`,

	/* By CUPTI: --gpu-time. */
	executed(r, tl) {
		const g = r.gpu;
		if (!g || !g.executions)
			return null;
		const all = g.kernels.concat(g.copies, g.graphs || [], g.memset || []).reduce((sum, x) => sum + x.total_ns, 0) || 1;
		const others = g.copies.map(x => ({...x, what: `copies ${x.direction}`})).concat(g.graphs ? {...g.graphs, what: 'graphs'} : [], g.memset ? {...g.memset, what: 'memsets'} : []);
		const its = g.iterations;
		return [
			figures([['executions', fmt.count(g.executions)], ['from call to start', g.queue ? fmt.ns(g.queue.p50_ns) : '', g.queue ? `99 % below ${fmt.ns(g.queue.p99_ns)}` : ''],
				['iterations that wait for the GPU', its ? `${fmt.count(its.gpu_bound)} of ${fmt.count(its.gpu_bound + its.host_bound)}` : g.iterations_unknown ? 'not known' : '', its ? `busy for ${fmt.share(its.busy_share_median)} of the median one` : g.iterations_unknown || '']]),
			rows.table('gpu.devices', g.devices, {label: 'Devices', bar: 'idle_ns', also: ['longest_gap_ns'], columns: {uuid: {get: sections.gpuName, label: 'GPU', title: x => [x.uuid, x.model, x.pci].filter(Boolean).join(', ')}}}),
			has(g.kernels) ? sub('Kernels by time', rows.table('gpu.kernels', g.kernels, {label: 'Kernels on the GPU', sort: 'total_ns', bar: 'total_ns', can: x => !!x.name, pick: x => sections.find(tl, x.name)})) : null,
			has(others) ? sub('Copies, graphs, memsets', table.make([col.text('what', 'what', {name: true}), col.count('executions', 'count'), col.ns('total', 'total_ns', {bar: x => x.total_ns / all}), col.ns('mean', 'mean_ns'), col.ns('longest', 'max_ns', {minor: true}),
				col.bytes('bytes', 'bytes'), {label: 'GB/s', get: x => x.gbps === undefined ? null : x.gbps, show: v => v === null ? '' : fmt.num(v), num: true}], others, {label: 'Copies, graphs and memsets on the GPU', sort: 2})) : null,
		];
	},

	gpus(r) {
		const g = r.gpu_stats;
		if (!g)
			return null;
		const of = (x, name, what) => x.values[name] ? x.values[name][what] : null;
		const number = (label, name, what, show) => ({label, get: x => of(x, name, what), show: v => v === null ? '' : show(v), num: true});
		const percent = v => fmt.share(v / 100), whole = unit => v => `${fmt.count(Math.round(v))}${NBSP}${unit}`;
		const some = name => g.devices.some(x => x.values[name]);
		const processes = g.devices.flatMap(d => d.processes.map(p => ({pid: p.pid, comm: p.comm, gpu: d.gpu, values: p})));
		return [
			has(g.devices) ? table.make([
				{label: 'GPU', get: x => x.gpu, show: (v, x) => x.gpu_instance === undefined ? String(v) : `${v}/${x.gpu_instance}/${x.compute_instance}`, num: true},
				col.text('model', 'model', {name: true}), col.count('samples', 'samples', {minor: true}),
				number('busy', 'util', 'mean', percent), number('longest', 'util', 'max', percent),
				...(some('sm_active') ? [number('SMs active', 'sm_active', 'mean', percent), number('tensor', 'tensor_active', 'mean', percent), number('DRAM', 'dram_active', 'mean', percent)] : []),
				number('peak memory', 'memory_used', 'max', fmt.bytes), number('SM clock', 'sm_clock_mhz', 'mean', whole('MHz')), number('power', 'power_w', 'mean', whole('W')),
				col.ns('throttled', 'throttled_ns'), col.text('by', 'throttle', {minor: true}),
			], g.devices, {label: 'GPUs'}) : null,
			has(processes) ? sub('Processes on the GPUs', table.make([col.text('process', 'comm', {name: true}), col.count('id', 'pid', {show: String}), col.count('GPU', 'gpu', {show: String}),
				number('busy', 'sm_util', 'mean', percent), number('longest', 'sm_util', 'max', percent), number('peak memory', 'memory_used', 'max', fmt.bytes)], processes, {label: 'Processes on the GPUs'})) : null,
			has(g.missing) ? el('p', {class: 'muted'}, 'Missing: ' + g.missing.join('; ') + '.') : null,
		];
	},

	/* NVTX: --nvtx. */
	ranges(r, tl) {
		const list = r.ranges && r.ranges.list.filter(x => x.count);
		if (!has(list))
			return null;
		return [
			el('p', {class: 'muted'}, 'Numbers include nested ranges. Click a name to find it on the timeline.'),
			rows.table('ranges.list', list, {label: 'Ranges', sort: 'total_ns', bar: 'total_ns', can: x => !!x.text, pick: x => sections.find(tl, x.text)}),
		];
	},

	find(tl, text) {
		tl.query.value = text;
		timeline.find(tl, text);
		timeline.step(tl, 1);
		tl.box.scrollIntoView({block: 'nearest'});
	},

	functions(r, tl) {
		const o = r.overview;
		if (!o || !has(o.functions))
			return null;
		return [
			has(o.classes) ? charts.stack(o.classes.filter(c => c.total_ns).map(c => ({label: c.class, value: c.total_ns, text: fmt.ns(c.total_ns), colour: colour(c.class)})), 'Time by class') : null,
			rows.table('overview.functions', o.functions, {label: 'Functions', sort: 'total_ns', bar: 'total_ns', also: ['class', 'max_ns'], columns: {class: {show: col.class().show}}, can: () => true, pick: x => sections.find(tl, x.name)}),
			has(o.error_codes) ? sub('Errors', rows.table('overview.error_codes', o.error_codes, {label: 'Errors', ...jump(tl, 'first_ts')})) : null,
			has(r.longest) ? sub('Longest calls', table.make([col.ts('at', 'ts'), col.ns('took', 'duration_ns', {bar: x => x.duration_ns / r.longest[0].duration_ns}),
				{label: 'call', get: x => x.kernel || x.name, show: (v, x) => x.kernel ? kernelName(x.kernel) : x.name, name: true, title: x => x.kernel || ''},
				col.class('class', 'type'), col.count('id', 'id', {show: String, minor: true}), col.count('thread', 'tid', {show: String, minor: true})],
			r.longest, {label: 'Longest calls', sort: 1, ...jump(tl)})) : null,
		];
	},

	memory(r, tl) {
		const m = r.memory;
		if (!m || !has(m.kinds))
			return null;
		const over = m.over_time, kinds = over ? Object.keys(over.kinds).filter(k => over.kinds[k].some(x => x)) : [];
		const steps = kinds.length ? over.kinds[kinds[0]].length : 0;
		/* Not the seconds before there was any. */
		const first = Math.max(0, Math.min(...kinds.map(k => over.kinds[k].findIndex(x => x))) - 2);
		return [
			figures([['peak of device memory', fmt.bytes(m.peak_bytes), m.peak_ts !== undefined ? `at ${fmt.ts(m.peak_ts)}` : ''],
				['never freed', fmt.bytes(m.leak_bytes), m.leak_count ? `${fmt.count(m.leak_count)} allocations` : ''],
				['allocations', m.rate ? fmt.num(m.rate) : '', 'per second'], m.fragmentation ? ['fragmentation', fmt.share(m.fragmentation.share), `${fmt.count(m.fragmentation.holes)} holes`] : null]),
			steps - first > 1 ? [charts.plot(Array.from({length: steps - first}, (x, i) => (first + i) * over.step_ns), kinds.map(k => (
				{label: k, values: over.kinds[k].slice(first), colour: KINDS[k] || CLASSES.other, show: fmt.bytes, fill: true})),
			{label: 'Memory over time by kind', binary: true, x: fmt.ns, stepped: true, zoom: (a, b) => { timeline.around(tl, a, b, 0); }}),
			el('p', {class: 'muted hint'}, 'Drag over the plot to open that part on the timeline.')] : null,
			rows.table('memory.kinds', m.kinds, {label: 'Memory by kind', sort: 'peak_bytes', columns: {kind: {show: v => [charts.swatch(KINDS[v] || CLASSES.other), v]}}}),
			has(m.bad_frees) ? sub('Bad frees', rows.table('memory.bad_frees', m.bad_frees, {label: 'Bad frees', also: ['ts', 'ptr', 'call', 'freed_ts', 'error'], ...jump(tl)})) : null,
			has(m.leaks) ? sub('Never freed', rows.table('memory.leaks', m.leaks, {label: 'Memory that was never freed', sort: 'size', first: 8, also: ['ts', 'kind', 'call', 'end', 'stack'], ...jump(tl)})) : null,
			has(m.sizes) ? sub('Sizes', rows.table('memory.sizes', m.sizes, {label: 'Sizes of allocations', first: 8})) : null,
		];
	},

	/* The critical path: a bar for each listed step, and the parts of the median one. */
	step(r, tl) {
		const s = r.step;
		if (!s || !has(s.list))
			return null;
		const colours = {kernel: CLASSES.kernel, graph: CLASSES.graph, copy: CLASSES.transfer, memset: CLASSES.transfer, communication: CLASSES.collective, rank: CLASSES.sync, launch: CLASSES.kernel,
			memory: CLASSES.memory, module: CLASSES.module, plan: CLASSES.dnn, copy_call: CLASSES.transfer, build_graph: CLASSES.graph, wait: CLASSES.sync, wait_return: CLASSES.sync};
		const what = p => p.kind === 'rank' ? 'waiting for ' + p.name : [rows.words([p.kind]), p.name || p.operator || p.function].filter(Boolean).join(' ');
		const nodes = r.map && has(r.map.nodes) && r.map.nodes.length > 1 ? r.map.nodes : [];
		const open = p => {
			const at = map.place(nodes, [p.function, p.operator, p.name].filter(Boolean));
			return at ? () => map.open(at) : undefined;
		};
		const names = {median: 'the median iteration', p95: 'the 95th percentile', slowest: 'the slowest iteration', first: 'the first iteration'};
		const bars = s.list.map(x => [el('p', {}, `${names[x.which] || x.which}: `, el('b', {}, fmt.ns(x.wall_ns)), '  ',
			el('button', {type: 'button', class: 'link', onclick: () => timeline.goTime(tl, x.begin_ts)}, 'Show on the timeline')),
		charts.stack(x.parts.map(p => ({label: what(p), value: p.total_ns, text: fmt.ns(p.total_ns), colour: colours[p.kind] || CLASSES.other, open: open(p)})), `Critical path of ${names[x.which] || x.which}`)]);
		return [
			bars[0],
			nodes.length ? el('p', {class: 'muted hint'}, 'Click on a part to see where it is on the map.') : null,
			rows.table('step.list.parts', s.list[0].parts, {label: 'Parts of the critical path', sort: 'total_ns', bar: 'total_ns', also: ['name', 'operator', 'function', 'file', 'line']}),
			figures([s.without_host ? ['if the host cost nothing', fmt.ns(s.without_host.step_ns)] : null, s.without_gpu ? ['if the GPU cost nothing', fmt.ns(s.without_gpu.step_ns)] : null,
				s.replay ? ['replay of the unchanged steps', fmt.ns(s.replay.step_ns)] : null]),
			has(s.what_if) ? sub('What if', rows.table('step.what_if', s.what_if, {label: 'Replays with changes', name: 'change', sort: 'saved_share'})) : null,
			bars.length > 1 ? sub('Other steps', ...bars.slice(1)) : null,
		];
	},

	transfers(r, tl) {
		const t = r.transfers;
		if (!t || !has(t.directions))
			return null;
		return [
			rows.table('transfers.directions', t.directions, {label: 'Transfers by direction', sort: 'bytes', also: ['pinned', 'pageable', 'managed', 'max_gbps']}),
			figures([t.memset && t.memset.count ? ['memset', fmt.count(t.memset.count), `${fmt.bytes(t.memset.bytes)} in ${fmt.ns(t.memset.total_ns)}`] : null,
				t.pageable && t.pageable.count ? ['from pageable memory', fmt.bytes(t.pageable.bytes), `${fmt.count(t.pageable.count)} copies, ${fmt.ns(t.pageable.total_ns)}`] : null]),
			has(t.largest) ? sub('Largest', rows.table('transfers.largest', t.largest, {label: 'Largest transfers', sort: 'size', first: 6, ...jump(tl)})) : null,
		];
	},

	graphs(r) {
		const g = r.graphs;
		if (!g || !(g.captures || g.instantiations || g.launches || has(g.list)))
			return null;
		return [
			figures([['captures', fmt.count(g.captures), g.capture_failures ? `${fmt.count(g.capture_failures)} failed` : ''], ['instantiated', fmt.count(g.instantiations)], ['updates', fmt.count(g.updates)],
				['launches', fmt.count(g.launches), fmt.ns(g.launch_ns)], ['kernels in graphs', g.kernels_run === null ? 'not known' : fmt.count(g.kernels_run)]]),
			rows.table('graphs.list', g.list, {label: 'Graphs', sort: 'launches'}),
		];
	},

	streams(r) {
		const s = r.streams;
		if (!s || !has(s.list))
			return null;
		return [
			s.default_stream && s.default_stream.why ? el('p', {}, `Default stream: ${fmt.share(s.default_stream.share)} of the launches. `, s.default_stream.why) : null,
			rows.table('streams.list', s.list, {label: 'Streams', sort: 'launches', also: ['pid'], columns: {stream: {show: (v, x) => x.default ? 'default' : v}}}),
			has(s.edges) ? sub('Waits between streams', rows.table('streams.edges', s.edges, {label: 'Waits between streams', sort: 'count', first: 6})) : null,
		];
	},

	/* Ranks, and others that launch, beside each other. */
	compared(r) {
		const list = r.compared;
		if (!has(list))
			return null;
		return [el('p', {class: 'muted'}, 'Iterations: those of each process, with the median iteration and its waits. Idle: a lower bound from host calls. Memory: peak of one GPU.'), rows.table('compared', list, {label: 'Processes compared', also: ['rank', 'pid', 'gpu_busy_ns']}), sections.stagesOfEach(list)];
	},

	/* Those stages that one of them has. */
	stagesOfEach(list) {
		const names = [...new Set(list.flatMap(x => Object.keys(x.stages || {})))];
		return has(names) ? sub('Stages of each, from its first call to its last', table.make([
			list.some(x => x.rank !== undefined) ? col.count('rank', 'rank', {show: String}) : col.count('process', 'pid', {show: String}),
			...names.map(name => col.ns(name, name, {get: x => (x.stages || {})[name] || 0}))], list, {label: 'Stages of each process'})) : null;
	},

	communication(r, tl) {
		const list = r.communication && r.communication.communicators.filter(c => has(c.operations));
		if (!has(list))
			return null;
		const said = c => c.apart ? 'clocks could not be compared: not joined' : c.partial ? 'older than the trace, or calls were lost: not joined' : '';
		return list.map(c => sub(c.communicator ? `Communicator ${c.communicator}` : 'Unknown communicator',
			figures([['ranks', fmt.count(c.nranks), `${fmt.count(c.ranks.length)} in this trace`], ['joined', fmt.count(c.joined), said(c)], ['with a late rank', fmt.count(c.late)],
				['different', c.different ? fmt.count(c.different) : ''], ['missing on some ranks', c.incomplete ? fmt.count(c.incomplete) : '']]),
			c.open ? el('p', {}, `Collective ${c.open.seq} (${c.open.op}) was begun ${fmt.ns(c.open.waiting_ns)} before the end by rank ${c.open.in.join(', ')}; not in it: ${c.open.missing.join(', ')}.`) : null,
			rows.table('communication.communicators.operations', c.operations, {label: 'Collectives', sort: 'bytes', also: ['grouped', 'busbw_gbps'], more: [
				{label: 'sizes', get: x => x.sizes.map(s => `${s.below ? '< ' + fmt.bytes(s.below) : 'more'}: ${fmt.count(s.count)}`).join(', '), minor: true}]}),
			c.joined || c.open ? rows.table('communication.communicators.ranks', c.ranks, {label: 'Ranks', sort: 'late_ns', also: ['pid']}) : null));
	},

	driver(r, tl) {
		const d = r.driver;
		if (!d || !d.traced)
			return null;
		const xs = (d.per_second || []).map((v, i) => i), step = d.step_ns || 1e9;
		const refused = new Map();
		for (const x of tl.meta.refused || []) {
			const key = x.device + ' ' + x.name;
			refused.set(key, [...refused.get(key) || [], x]);
		}
		/* Why, most often first. */
		const why = x => (refused.get(x.device + ' ' + x.name) || []).sort((a, b) => b.count - a.count)
			.map((s, i, all) => all.length > 1 ? `${s.status} × ${fmt.count(s.count)}` : s.status).join(', ');
		return [
			figures([['ioctls', fmt.count(d.ioctls)], ['time in calls', fmt.ns(d.total_ns)], ['refused', fmt.count(d.errors)], ['outside CUDA calls', fmt.count(d.outside)]]),
			xs.length > 5 ? charts.plot(xs, [{label: 'ioctls', values: d.per_second, colour: CLASSES.driver, show: fmt.count, bars: true, fill: true}],
				{label: 'ioctls over time', x: v => fmt.ns(v * step), height: 130, pick: i => timeline.around(tl, i * step, (i + 1) * step, 0)}) : null,
			rows.table('driver.commands', d.commands, {label: 'Driver commands', sort: 'total_ns', bar: 'total_ns', also: ['device', 'mean_ns', 'max_ns'],
				more: refused.size ? [{label: 'status', get: why, name: true, title: why}] : [], can: () => true, pick: x => sections.find(tl, x.name)}),
			has(d.calls) ? sub('CUDA calls that reach the driver', rows.table('driver.calls', d.calls, {label: 'Calls that reach the driver', sort: 'ioctls', first: 6})) : null,
			has(d.scheduler) ? sub('Requests to the GPU scheduler', rows.table('driver.scheduler', d.scheduler, {label: 'Scheduler', ...jump(tl, 'first_ts')})) : null,
			has(d.xids) ? sub('Errors of the GPU', rows.table('driver.xids', d.xids, {label: 'Xids', ...jump(tl, 'first_ts')})) : null,
			d.uvm && (d.uvm.faults || d.uvm.migrations) ? sub('Managed memory', figures([['faults', fmt.count(d.uvm.faults)], ['migrations', fmt.count(d.uvm.migrations)], ['evictions', fmt.count(d.uvm.evictions)], ['moved', fmt.bytes(d.uvm.bytes)]])) : null,
		];
	},

	/* By the driver's log of context switches: --gpu-ctxsw. */
	switches(r) {
		const gpus = r.context_switches && r.context_switches.gpus;
		if (!has(gpus))
			return null;
		const name = p => p.owner ? `(${p.owner})` : `${clean(p.comm) || '?'} (${p.pid})`;
		return gpus.map(g => sub(`GPU ${g.minor} · ${clean(g.gpu)}`,
			figures([['switches', fmt.count(g.switches)], ['observed', fmt.ns(g.span_ns)], ['between contexts', fmt.ns(g.between_ns), fmt.share(g.between_ns / (g.span_ns || 1))],
				['no process', g.empty_ns ? fmt.ns(g.empty_ns) : ''], ['records missing', g.lost_before ? fmt.count(g.lost_before) : '']]),
			rows.table('context_switches.gpus.processes', g.processes, {label: `Processes on GPU ${g.minor}`, sort: 'resident_ns', bar: 'resident_ns', columns: {owner: {hidden: true}, comm: {hidden: true}},
				more: [{label: 'process', get: name, name: true}]})));
	},

	/* Who calls CUDA; only a trace of --stack knows. */
	stacks(r, tl) {
		const list = tl.meta.callers;
		if (!has(list))
			return null;
		const most = Math.max(...list.map(x => x.total_ns), 1);
		return [
			el('p', {class: 'muted'}, 'By function and stack, the innermost frame first. Click a stack to show all its frames, or a function to find it on the timeline.'),
			table.make([col.text('function', 'name', {name: true}), col.count('calls', 'count'), col.ns('time', 'total_ns', {bar: x => x.total_ns / most}),
				col.ns('mean', 'mean_ns', {get: x => x.count ? x.total_ns / x.count : null, minor: true}), col.count('depth', 'depth', {get: x => x.stack.length, minor: true}),
				col.frames('frames', 'stack')],
			list, {label: 'Stacks', sort: 2, can: () => true, pick: x => sections.find(tl, x.name)}),
		];
	},

	trace(r) {
		const o = r.overview || {};
		const facts = [['command', has(o.command) ? o.command.join(' ') : ''], ['host', o.host], ['kernel', o.kernel && o.kernel + (o.machine ? ' · ' + o.machine : '')], ['driver', o.driver_version], ['CUDA', o.cuda_version],
			['began', o.wall_time], ['ended', o.end_reason], ['probes', o.mechanism], ['driver probes', o.kernel_probe], ['not traced', o.not_traced],
			['tracing overhead', o.cost_ns !== undefined ? `${fmt.ns(o.cost_ns)} (${fmt.share(o.cost_share)})${o.max_thread_overhead ? `; ${fmt.share(o.max_thread_overhead)} of the busiest second, of thread ${o.max_overhead_tid}` : ''}` : ''], ['cudatrace', o.version]];
		const most = has(o.costs) ? o.costs[0].ns : 0, costs = o.detail_low_saving_ns > most ? [{symbol: '--detail=low', ns: o.detail_low_saving_ns}] : [];
		return [
			el('dl', {class: 'facts'}, facts.filter(x => x[1]).map(([k, v]) => [el('dt', {}, k), el('dd', {}, v)])),
			has(costs.concat(o.costs || [])) ? sub('Overhead by function: what excluding it saves', table.make([{...col.text('function', 'symbol', {name: true}), get: x => x.name || x.symbol, title: x => x.symbol}, col.ns('cost', 'ns'),
				col.share('of total', 'share', {get: x => x.ns / o.cost_ns})], costs.concat(o.costs || []), {label: 'Costs', sort: 1})) : null,
			has(o.processes) ? sub('Processes', rows.table('overview.processes', o.processes, {label: 'Processes', sort: 'calls', also: ['pid', 'threads', 'first_ts', 'last_ts'], columns: {exit_code: {hidden: true}, signal: {hidden: true}}, more: [
				{label: 'exit', get: x => x.signal ? 'signal ' + x.signal : x.exit_code}]})) : null,
			has(r.traces) ? sub('Traces', rows.table('traces', r.traces, {label: 'Traces', more: [{label: 'trace', get: x => r.traces.indexOf(x), num: true}]})) : null,
			has(r.files) ? sub('Files', rows.table('files', r.files, {label: 'Files'})) : null,
		];
	},
};
