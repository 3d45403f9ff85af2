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
			el('p', {}, it.why ? `${fmt.count(it.count)} iterations: ${it.why}.` : null, it.warmup ? ` ${fmt.count(it.warmup)} of them ${it.warmup > 1 ? 'are' : 'is'} warm-up and left out of the figures.` : null,
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
			el('p', {class: 'muted hint'}, 'A click on an iteration opens it on the timeline.', it.warmup ? ' Warm-up may go beyond the plot.' : ''),
			has(it.sequence) ? sub('What an iteration launches', table.make([
				col.kernel('kernel', 'kernel'), col.count('times', 'count', {bar: x => x.count / it.sequence[0].count}),
			], it.sequence, {label: 'Kernels of an iteration', first: 8})) : null,
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
			table.make([
				{label: 'stage', get: x => x.stage, show: v => [charts.swatch(STAGES[v] || CLASSES.other), v]},
				col.ns('time', 'wall_ns'), col.share('share', 'share', {bar: x => x.share}), col.ns('in CUDA calls', 'call_ns', {minor: true}), col.count('calls', 'calls', {minor: true}),
				col.count('launches', 'launches'), col.bytes('moved', 'bytes', {minor: true}), col.ts('from', 'first_ts', {minor: true}),
			], st.list, {label: 'Stages', can: x => x.wall_ns > 0 && typeof x.first_ts === 'number', pick: x => timeline.around(tl, x.first_ts * 1e6, x.last_ts * 1e6, 0.02)}),
			parts.some(p => p.value) ? sub('In CUDA calls', charts.stack(parts, 'Time in CUDA calls'), ratio.compute_share !== undefined ?
				el('p', {class: 'muted'}, `Launching and waiting for kernels ${fmt.share(ratio.compute_share)}, moving data ${fmt.share(ratio.io_share)}; ${fmt.ns(ratio.outside_ns)} outside of CUDA.`) : null) : null,
			st.load && has(st.load.by_function) ? sub('Loading', figures([['calls', fmt.count(st.load.calls)], ['time in them', fmt.ns(st.load.call_ns)],
				['allocated', fmt.bytes(st.load.alloc_bytes)], ['copied to the device', fmt.bytes(st.load.htod_bytes)]]),
			table.make([col.text('function', 'name', {name: true}), col.count('calls', 'count'), col.ns('time', 'total_ns')], st.load.by_function, {label: 'Functions while loading', first: 6})) : null,
		];
	},

	idle(r, tl) {
		const idle = r.idle;
		if (!idle || !idle.count)
			return null;
		return [
			idle.what ? el('p', {class: 'muted'}, sentence(idle.what)) : null,
			r.gpu && r.gpu.executions ? el('p', {}, 'How long the GPU was idle is measured: see On the GPU. These periods are those that the host can prove.') :
				figures([['idle in all', fmt.ns(idle.total_ns)], ['share', fmt.share(idle.share), idle.span_ns ? `of ${fmt.ns(idle.span_ns)} from the first work to the last` : ''], ['periods', fmt.count(idle.count)], ['in iterations', fmt.ns(idle.in_iterations_ns)]]),
			has(idle.by_cause) ? charts.stack(idle.by_cause.map((c, i) => ({label: c.cause, value: c.total_ns, text: fmt.ns(c.total_ns),
				colour: [CLASSES.graph, CLASSES.module, CLASSES.memory, CLASSES.transfer, CLASSES.other][i % 5]})), 'Idle time by cause') : null,
			has(idle.list) ? table.make([
				col.ts('at', 'ts'), col.ns('for', 'duration_ns', {bar: x => x.duration_ns / idle.list[0].duration_ns}),
				col.text('after', 'after', {name: true}), col.text('before', 'before', {name: true}), col.text('the CPU did', 'cpu', {minor: true}),
				...(idle.list.some(x => x.in_iteration) ? [{label: 'in an iteration', get: x => x.in_iteration ? 'yes' : '', minor: true}] : []),
			], idle.list, {label: 'Idle periods', sort: 1, ...jump(tl)}) : null,
		];
	},

	waits(r, tl) {
		const w = r.waits;
		if (!w || !w.count)
			return null;
		return [
			figures([['waiting', fmt.ns(w.total_ns)], ['share of the trace', fmt.share(w.share)], ['calls', fmt.count(w.count)], ['off the CPU', fmt.ns(w.off_cpu_ns)]]),
			has(w.functions) ? table.make([col.text('function', 'name', {name: true}), col.count('calls', 'count'), col.ns('total', 'total_ns', {bar: x => x.total_ns / w.total_ns}),
				col.ns('mean', 'mean_ns'), col.ns('p95', 'p95_ns', {minor: true}), col.ns('longest', 'max_ns'),
				{label: 'waited for', get: x => has(x.for) ? x.for[0].kernel || x.for[0].what : '', show: (v, x) => has(x.for) && x.for[0].kernel ? kernelName(v) : v, minor: true, name: true, title: x => has(x.for) ? x.for[0].kernel || '' : ''},
			], w.functions, {label: 'Functions that wait', sort: 2}) : null,
			has(w.longest) ? sub('Longest', table.make([col.ts('at', 'ts'), col.ns('for', 'duration_ns'), col.text('function', 'name', {name: true}), col.kernel('after', 'after_kernel', {minor: true})],
				w.longest, {label: 'Longest waits', first: 5, ...jump(tl)})) : null,
			has(w.may_wait) ? sub('May have waited too', table.make([col.text('function', 'name', {name: true}), col.count('calls', 'count'), col.ns('total', 'total_ns')], w.may_wait, {label: 'Calls that may have waited', first: 6})) : null,
			has(w.callers) ? sub('Who waits', table.make([col.text('function', 'name', {name: true}), col.count('calls', 'count'), col.ns('total', 'total_ns'), col.frames('stack', 'stack')], w.callers, {label: 'Callers of waits', first: 6})) : null,
		];
	},

	kernels(r, tl) {
		const k = r.kernels;
		if (!k || !has(k.list))
			return null;
		return [
			figures([['launches', fmt.count(k.launches)], ['kernels', fmt.count(k.list.length)], ['in graphs', k.nodes ? fmt.count(k.nodes) : ''],
				['time in launches', fmt.ns(k.total_ns)], ['unnamed', k.unnamed ? fmt.count(k.unnamed) : '']]),
			el('p', {class: 'muted'}, `Times are those of the launches on the CPU: how long a kernel runs on the GPU ${r.gpu && r.gpu.executions ? 'is in the next table' : 'is not seen'}. A click on a name finds it on the timeline.`),
			table.make([
				col.kernel('kernel', 'name'), col.count('launches', 'count', {bar: x => x.count / (k.launches || 1)}),
				...(k.nodes ? [col.count('nodes', 'nodes')] : []),
				col.ns('total', 'total_ns'), col.ns('mean', 'mean_ns'), col.ns('longest', 'max_ns', {minor: true}),
				{label: 'grid', get: x => x.grid_max ? x.grid_max.reduce((a, b) => a * b, 1) : null, show: (v, x) => fmt.dims(x.grid_min, x.grid_max), num: true},
				{label: 'block', get: x => x.block ? x.block.reduce((a, b) => a * b, 1) : null, show: (v, x) => fmt.dim(x.block), num: true},
				col.bytes('shared', 'shared_mem', {minor: true}),
				...(k.list.some(x => x.registers !== undefined) ? [col.count('registers', 'registers', {minor: true})] : []),
				...(k.list.some(x => x.occupancy !== undefined) ? [col.share('occupancy', 'occupancy', {minor: true})] : []),
				...(k.list.some(x => x.waves !== undefined) ? [{label: 'waves', get: x => x.waves === undefined ? null : x.waves, show: v => v === null ? '' : fmt.num(v), num: true}, col.share('last wave empty', 'tail_share', {minor: true})] : []),
			], k.list, {label: 'Kernels', sort: 1, can: () => true, pick: x => sections.find(tl, x.name)}),
			k.list[0].ncu ? [el('p', {class: 'muted'}, 'What the first does on the GPU (caches, bank conflicts, stalls), Nsight Compute sees:'), el('pre', {class: 'command'}, k.list[0].ncu)] : null,
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
				...(peaks.length ? [col.share('of the peak', 'peak_share', {show: v => v === undefined ? '' : fmt.share(v), bar: x => x.peak_share || 0})] : [])], list, {label: 'Products of matrices', sort: 4}),
			peaks.length ? el('p', {class: 'muted'}, `Peak, dense: ${peaks.join('; ')}.`) : null,
			r.gemms.unknown_plans ? el('p', {class: 'muted'}, `${fmt.count(r.gemms.unknown_plans)} executions of plans of cuDNN are not among them: these plans were made before the trace or from JSON, or calls were lost.`) : null,
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
			table.make([{label: 'GPU', get: sections.gpuName, name: true, title: x => [x.uuid, x.model, x.pci].filter(Boolean).join(', ')}, col.count('executions', 'executions'), col.ns('observed', 'span_ns'), col.ns('computes', 'compute_ns'), col.ns('copies', 'copy_ns'),
				col.ns('both at once', 'overlap_ns'), ...(g.devices.some(x => x.communicating_ns) ? [col.ns('communicates', 'communicating_ns'), col.ns('does only that', 'alone_ns')] : []), col.ns('idle', 'idle_ns', {bar: x => x.idle_ns / (x.span_ns || 1)}), col.ns('longest pause', 'longest_gap_ns', {minor: true})], g.devices, {label: 'Devices'}),
			has(g.kernels) ? sub('Kernels by their time', table.make([col.kernel('kernel', 'name'), col.count('executions', 'count'), col.ns('total', 'total_ns', {bar: x => x.total_ns / all}), col.ns('mean', 'mean_ns'),
				col.ns('longest', 'max_ns', {minor: true}), col.ns('queued', 'queue_ns', {minor: true})], g.kernels, {label: 'Kernels on the GPU', sort: 2, can: x => !!x.name, pick: x => sections.find(tl, x.name)})) : null,
			has(others) ? sub('All else', table.make([col.text('what', 'what', {name: true}), col.count('executions', 'count'), col.ns('total', 'total_ns', {bar: x => x.total_ns / all}), col.ns('mean', 'mean_ns'), col.ns('longest', 'max_ns', {minor: true}),
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
				number('busy', 'util', 'mean', percent), number('at most', 'util', 'max', percent),
				...(some('sm_active') ? [number('SMs active', 'sm_active', 'mean', percent), number('tensor', 'tensor_active', 'mean', percent), number('DRAM', 'dram_active', 'mean', percent)] : []),
				number('memory, most', 'memory_used', 'max', fmt.bytes), number('SM clock', 'sm_clock_mhz', 'mean', whole('MHz')), number('power', 'power_w', 'mean', whole('W')),
				col.ns('kept slow', 'throttled_ns'), col.text('by', 'throttle', {minor: true}),
			], g.devices, {label: 'GPUs'}) : null,
			has(processes) ? sub('Who is on them', table.make([col.text('process', 'comm', {name: true}), col.count('id', 'pid', {show: String}), col.count('GPU', 'gpu', {show: String}),
				number('busy', 'sm_util', 'mean', percent), number('at most', 'sm_util', 'max', percent), number('memory, most', 'memory_used', 'max', fmt.bytes)], processes, {label: 'Processes on the GPUs'})) : null,
			has(g.missing) ? el('p', {class: 'muted'}, 'Not there: ' + g.missing.join('; ') + '.') : null,
		];
	},

	/* NVTX: --nvtx. */
	ranges(r, tl) {
		const list = r.ranges && r.ranges.list.filter(x => x.count);
		if (!has(list))
			return null;
		const all = Math.max(...list.map(x => x.total_ns)) || 1;
		return [
			el('p', {class: 'muted'}, 'A range has what ranges in it have, too. A click on a name finds it on the timeline.'),
			table.make([col.text('range', 'text', {name: true}), ...(list.some(x => x.domain) ? [col.text('domain', 'domain')] : []),
				col.count('times', 'count'), col.ns('time', 'total_ns', {bar: x => x.total_ns / all}), col.ns('longest', 'max_ns', {minor: true}), col.count('calls', 'calls'), col.ns('in calls', 'call_ns', {minor: true}),
				col.count('launches', 'launches'), col.bytes('bytes', 'bytes'), ...(list.some(x => x.gpu_executions) ? [col.ns('GPU time', 'gpu_ns')] : [])],
			list, {label: 'Ranges', sort: 2, can: x => !!x.text, pick: x => sections.find(tl, x.text)}),
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
			table.make([
				col.text('function', 'name', {name: true}), col.class('class', 'class'), col.count('calls', 'count'),
				col.ns('total', 'total_ns', {bar: x => x.total_ns / (o.call_ns || 1)}), col.ns('mean', 'mean_ns'), col.ns('p50', 'p50_ns', {minor: true}),
				col.ns('p95', 'p95_ns', {minor: true}), col.ns('p99', 'p99_ns', {minor: true}), col.ns('longest', 'max_ns'), col.count('errors', 'errors'),
			], o.functions, {label: 'Functions', sort: 3, can: () => true, pick: x => sections.find(tl, x.name)}),
			has(o.error_codes) ? sub('Errors', table.make([col.text('error', 'error'), col.count('calls', 'count'), col.text('first in', 'first', {name: true}), col.ts('at', 'first_ts')],
				o.error_codes, {label: 'Errors', ...jump(tl, 'first_ts')})) : null,
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
				['allocations', m.rate ? fmt.num(m.rate) : '', 'a second'], m.fragmentation ? ['fragmentation', fmt.share(m.fragmentation.share), `${fmt.count(m.fragmentation.holes)} holes`] : null]),
			steps - first > 1 ? [charts.plot(Array.from({length: steps - first}, (x, i) => (first + i) * over.step_ns), kinds.map(k => (
				{label: k, values: over.kinds[k].slice(first), colour: KINDS[k] || CLASSES.other, show: fmt.bytes, fill: true})),
			{label: 'Memory over time by kind', binary: true, x: fmt.ns, stepped: true, zoom: (a, b) => { timeline.around(tl, a, b, 0); }}),
			el('p', {class: 'muted hint'}, 'Drag over a part of the plot to open it on the timeline.')] : null,
			table.make([{label: 'kind', get: x => x.kind, show: v => [charts.swatch(KINDS[v] || CLASSES.other), v]}, col.bytes('peak', 'peak_bytes'), col.bytes('at the end', 'live_bytes'),
				col.bytes('allocated', 'alloc_bytes'), col.count('allocs', 'allocs'), col.count('frees', 'frees'), col.ns('allocating', 'alloc_ns', {minor: true}), col.ns('freeing', 'free_ns', {minor: true})],
			m.kinds, {label: 'Memory by kind', sort: 1}),
			has(m.bad_frees) ? sub('Wrong frees', table.make([col.ts('at', 'ts'), col.text('what', 'what'), col.text('pointer', 'ptr'), col.text('call', 'call', {name: true}),
				col.ts('freed first', 'freed_ts', {minor: true}), col.text('error', 'error', {minor: true})], m.bad_frees, {label: 'Wrong frees', ...jump(tl)})) : null,
			has(m.leaks) ? sub('Never freed', table.make([col.ts('allocated at', 'ts'), col.bytes('size', 'size'), col.text('kind', 'kind'), col.text('pointer', 'ptr'), col.text('call', 'call', {name: true}), col.text('until', 'end', {minor: true}),
				...(m.leaks.some(x => has(x.stack)) ? [col.frames('stack', 'stack', {minor: true})] : []), col.count('id', 'id', {show: String, minor: true})],
			m.leaks, {label: 'Memory that was never freed', sort: 1, first: 8, ...jump(tl)})) : null,
			has(m.sizes) ? sub('Sizes', table.make([col.bytes('below', 'below'), col.count('allocations', 'count'), col.bytes('together', 'bytes')], m.sizes, {label: 'Sizes of allocations', first: 8})) : null,
		];
	},

	transfers(r, tl) {
		const t = r.transfers;
		if (!t || !has(t.directions))
			return null;
		return [
			table.make([col.text('direction', 'direction'), col.count('copies', 'count'), col.bytes('moved', 'bytes'), col.ns('time', 'total_ns'), col.bytes('mean', 'mean_size'),
				{label: 'GB/s by the host', get: x => x.gbps, show: (v, x) => v === undefined || v === null ? '' : fmt.num(v) + (x.max_gbps ? ` (${fmt.num(x.max_gbps)})` : ''), num: true},
				col.count('async', 'async', {minor: true}), col.count('pinned', 'pinned', {minor: true}), col.count('pageable', 'pageable', {minor: true}), col.count('managed', 'managed', {minor: true}), col.count('small', 'small', {minor: true})],
			t.directions, {label: 'Transfers by direction', sort: 2}),
			figures([t.memset && t.memset.count ? ['memset', fmt.count(t.memset.count), `${fmt.bytes(t.memset.bytes)} in ${fmt.ns(t.memset.total_ns)}`] : null,
				t.pageable && t.pageable.count ? ['from pageable memory', fmt.bytes(t.pageable.bytes), `${fmt.count(t.pageable.count)} copies, ${fmt.ns(t.pageable.total_ns)}`] : null]),
			has(t.largest) ? sub('Largest', table.make([col.ts('at', 'ts'), col.bytes('size', 'size'), col.text('direction', 'direction'), col.ns('took', 'duration_ns'), col.count('GB/s', 'gbps', {show: x => fmt.num(x)}),
				{label: 'host memory', get: x => x.pinned === undefined ? '' : x.pinned ? 'pinned' : 'pageable', minor: true}], t.largest, {label: 'Largest transfers', sort: 1, first: 6, ...jump(tl)})) : null,
		];
	},

	graphs(r) {
		const g = r.graphs;
		if (!g || !(g.captures || g.instantiations || g.launches || has(g.list)))
			return null;
		return [
			figures([['captures', fmt.count(g.captures), g.capture_failures ? `${fmt.count(g.capture_failures)} failed` : ''], ['instantiated', fmt.count(g.instantiations)], ['updates', fmt.count(g.updates)],
				['launches', fmt.count(g.launches), fmt.ns(g.launch_ns)], ['kernels run by them', g.kernels_run === null ? 'not known' : fmt.count(g.kernels_run)]]),
			has(g.list) ? table.make([col.text('graph', 'exec'), col.text('how', 'how'), col.count('nodes', 'nodes'), col.count('kernels', 'kernels'), col.count('copies', 'memcpys', {minor: true}),
				col.count('launches', 'launches'), col.ns('launching', 'launch_ns'), col.ns('instantiating', 'instantiate_ns', {minor: true}), col.count('updates', 'updates', {minor: true})], g.list, {label: 'Graphs', sort: 5}) : null,
		];
	},

	streams(r) {
		const s = r.streams;
		if (!s || !has(s.list))
			return null;
		return [
			s.default_stream && s.default_stream.why ? el('p', {}, `Default stream: ${fmt.share(s.default_stream.share)} of the launches. `, s.default_stream.why) : null,
			table.make([{label: 'stream', get: x => x.stream, show: (v, x) => x.default ? 'default' : v}, col.count('launches', 'launches'), col.count('transfers', 'transfers'), col.bytes('moved', 'bytes'),
				col.count('syncs', 'syncs'), col.ns('waiting', 'sync_ns'), col.count('deepest', 'max_depth', {minor: true}), col.count('mean depth', 'mean_depth', {show: x => fmt.num(x), minor: true}),
				col.count('events', 'events_recorded', {minor: true}), col.count('process', 'pid', {show: String, minor: true})], s.list, {label: 'Streams', sort: 1}),
			has(s.edges) ? sub('Who waits for whom', table.make([col.text('stream', 'to'), col.text('waits for', 'from'), col.count('times', 'count')], s.edges, {label: 'Waits between streams', sort: 2, first: 6})) : null,
		];
	},

	/* Ranks, and others that launch, beside each other. */
	compared(r) {
		const list = r.compared;
		if (!has(list))
			return null;
		return [el('p', {class: 'muted'}, 'Iterations are those of each process alone, with the median one and what it waits. Idle is what the host knows of; memory is the most of one GPU.'), table.make([
			...(list.some(x => x.rank !== undefined) ? [col.count('rank', 'rank', {show: String})] : []),
			col.count('process', 'pid', {show: String}), col.text('name', 'comm', {name: true}), col.count('launches', 'launches'), col.count('iterations', 'iterations'),
			col.ns('median', 'iteration_ns'), col.ns('waits', 'iteration_sync_ns', {minor: true}), col.ns('idle', 'idle_ns', {minor: true}),
			...(list.some(x => x.gpu_busy_ns !== undefined) ? [col.ns('GPU busy', 'gpu_busy_ns'), col.ns('communicates', 'gpu_communicating_ns'), col.ns('does only that', 'gpu_alone_ns')] : []),
			col.bytes('memory', 'device_peak_bytes'),
		], list, {label: 'Processes beside each other'}), sections.stagesOfEach(list)];
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
		const said = c => c.apart ? 'in traces that are not on one clock: not joined' : c.partial ? 'it was there before the trace, or calls were lost: not joined' : '';
		return list.map(c => sub(c.communicator ? `Communicator ${c.communicator}` : 'Communicator not known',
			figures([['ranks', fmt.count(c.nranks), `${fmt.count(c.ranks.length)} in this trace`], ['joined', fmt.count(c.joined), said(c)], ['with a late rank', fmt.count(c.late)],
				['not the same', c.different ? fmt.count(c.different) : ''], ['not in all ranks', c.incomplete ? fmt.count(c.incomplete) : '']]),
			c.open ? el('p', {}, `Collective ${c.open.seq} (${c.open.op}) was begun ${fmt.ns(c.open.waiting_ns)} before the end by rank ${c.open.in.join(', ')}; not in it: ${c.open.missing.join(', ')}.`) : null,
			table.make([col.text('operation', 'op'), col.count('calls', 'count'), col.bytes('bytes', 'bytes'), col.count('in groups', 'grouped', {minor: true}), col.ns('host', 'host_ns'), col.ns('longest', 'host_max_ns', {minor: true}),
				col.ns('GPU', 'gpu_ns'), {label: 'bus GB/s', get: x => x.busbw_gbps === undefined ? null : x.busbw_gbps, show: v => v === null ? '' : fmt.num(v), num: true},
				{label: 'sizes', get: x => x.sizes.map(s => `${s.below ? '< ' + fmt.bytes(s.below) : 'more'}: ${fmt.count(s.count)}`).join(', '), minor: true}], c.operations, {label: 'Collectives', sort: 2}),
			c.joined || c.open ? table.make([col.count('rank', 'rank', {show: String}), col.count('process', 'pid', {show: String}), col.count('collectives', 'collectives'), col.count('last', 'last'),
				col.count('late', 'late'), col.ns('in all', 'late_ns'), col.ns('at most', 'late_max_ns')], c.ranks, {label: 'Ranks', sort: 5}) : null));
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
			figures([['ioctls', fmt.count(d.ioctls)], ['time in them', fmt.ns(d.total_ns)], ['refused', fmt.count(d.errors)], ['in no CUDA call', fmt.count(d.outside)]]),
			xs.length > 5 ? charts.plot(xs, [{label: 'ioctls', values: d.per_second, colour: CLASSES.driver, show: fmt.count, bars: true, fill: true}],
				{label: 'ioctls over time', x: v => fmt.ns(v * step), height: 130, pick: i => timeline.around(tl, i * step, (i + 1) * step, 0)}) : null,
			has(d.commands) ? table.make([col.text('command', 'name', {name: true}), col.text('device', 'device', {minor: true}), col.count('times', 'count'), col.ns('total', 'total_ns', {bar: x => x.total_ns / (d.total_ns || 1)}),
				col.ns('mean', 'mean_ns'), col.ns('longest', 'max_ns', {minor: true}), col.count('refused', 'errors'),
				...(refused.size ? [{label: 'status', get: why, name: true, title: why}] : [])], d.commands, {label: 'Driver commands', sort: 3, can: () => true, pick: x => sections.find(tl, x.name)}) : null,
			has(d.calls) ? sub('CUDA calls that reach the driver', table.make([col.text('call', 'call', {name: true}), col.count('ioctls', 'ioctls'), col.ns('time', 'total_ns'), col.count('calls', 'calls')], d.calls, {label: 'Calls that reach the driver', sort: 1, first: 6})) : null,
			has(d.scheduler) ? sub('What the GPU scheduler is told', table.make([col.text('what', 'op'), col.text('meaning', 'meaning', {minor: true}), col.count('times', 'count'), col.ts('first', 'first_ts'), col.text('command', 'name', {name: true, minor: true})],
				d.scheduler, {label: 'Scheduler', ...jump(tl, 'first_ts')})) : null,
			has(d.xids) ? sub('Errors of the GPU', table.make([col.count('Xid', 'xid', {show: String}), col.text('meaning', 'meaning'), col.text('GPU', 'gpu'), col.count('times', 'count'), col.ts('first', 'first_ts')], d.xids, {label: 'Xids', ...jump(tl, 'first_ts')})) : null,
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
				['nobody had it', g.empty_ns ? fmt.ns(g.empty_ns) : ''], ['records missing', g.lost_before ? fmt.count(g.lost_before) : '']]),
			table.make([{label: 'process', get: name, name: true}, col.ns('time', 'resident_ns', {bar: x => x.share}), col.count('share', 'share', {show: fmt.share}), col.count('slices', 'slices'),
				col.ns('mean', 'resident_ns', {get: x => x.slices ? x.resident_ns / x.slices : null, minor: true}), col.ns('longest', 'max_ns')],
			g.processes, {label: `Processes on GPU ${g.minor}`, sort: 1})));
	},

	/* Who calls CUDA; only a trace of --stack knows. */
	stacks(r, tl) {
		const list = tl.meta.callers;
		if (!has(list))
			return null;
		const most = Math.max(...list.map(x => x.total_ns), 1);
		return [
			el('p', {class: 'muted'}, 'By function and stack, the innermost frame first. A click on a stack shows all of its frames, one on a function finds it on the timeline.'),
			table.make([col.text('function', 'name', {name: true}), col.count('calls', 'count'), col.ns('time', 'total_ns', {bar: x => x.total_ns / most}),
				col.ns('mean', 'mean_ns', {get: x => x.count ? x.total_ns / x.count : null, minor: true}), col.count('depth', 'depth', {get: x => x.stack.length, minor: true}),
				col.frames('frames', 'stack')],
			list, {label: 'Stacks', sort: 2, can: () => true, pick: x => sections.find(tl, x.name)}),
		];
	},

	trace(r) {
		const o = r.overview || {};
		const rows = [['command', has(o.command) ? o.command.join(' ') : ''], ['host', o.host], ['kernel', o.kernel && o.kernel + (o.machine ? ' · ' + o.machine : '')], ['driver', o.driver_version], ['CUDA', o.cuda_version],
			['began', o.wall_time], ['ended', o.end_reason], ['probes', o.mechanism], ['driver probes', o.kernel_probe], ['left out', o.not_traced],
			['cost of tracing', o.cost_ns !== undefined ? `${fmt.ns(o.cost_ns)} (${fmt.share(o.cost_share)})${o.max_thread_overhead ? `; ${fmt.share(o.max_thread_overhead)} of the busiest second, of thread ${o.max_overhead_tid}` : ''}` : ''], ['cudatrace', o.version]];
		const most = has(o.costs) ? o.costs[0].ns : 0, costs = o.detail_low_saving_ns > most ? [{symbol: '--detail=low', ns: o.detail_low_saving_ns}] : [];
		return [
			el('dl', {class: 'facts'}, rows.filter(x => x[1]).map(([k, v]) => [el('dt', {}, k), el('dd', {}, v)])),
			has(costs.concat(o.costs || [])) ? sub('What would be saved by leaving it out', table.make([col.text('function', 'symbol', {name: true}), col.ns('cost', 'ns'),
				col.share('of all', 'share', {get: x => x.ns / o.cost_ns})], costs.concat(o.costs || []), {label: 'Costs', sort: 1})) : null,
			has(o.processes) ? sub('Processes', table.make([col.count('pid', 'pid', {show: String}), col.text('name', 'comm'), col.count('calls', 'calls'), col.count('threads', 'threads'), col.ts('first call', 'first_ts', {minor: true}), col.ts('last call', 'last_ts', {minor: true}),
				{label: 'exit', get: x => x.signal ? 'signal ' + x.signal : x.exit_code}], o.processes, {label: 'Processes', sort: 2})) : null,
			has(r.traces) ? sub('Traces', table.make([col.count('trace', 'number', {show: String}), col.text('file', 'path', {name: true}), col.text('host', 'host'), col.ts('from', 'first_ts'), col.ts('to', 'last_ts'), {label: 'clock', get: x => x.same_as === undefined ? x.clock : `same as trace ${x.same_as}`},
				col.count('process ids raised by', 'pid_offset')], r.traces.map((x, i) => ({...x, number: i})), {label: 'Traces'})) : null,
			has(r.files) ? sub('Files', table.make([col.text('file', 'path', {name: true}), col.bytes('size', 'bytes'), col.count('lines', 'lines'), col.count('events', 'events'), col.count('bad lines', 'bad_lines')], r.files, {label: 'Files'})) : null,
		];
	},
};
