/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Makes events of the records of --stalls. */
#include "model_priv.h"
#include "stalls.h"

static struct proc_stalls *stalls_of(struct model *m, const struct ct_rec *rec)
{
	struct proc *p = m->opts.stalls ? procs__get(&m->procs, rec->pid) : NULL;

	if (p && !p->stalls)
		p->stalls = proc_stalls__new(quotas__get(m->opts.quotas, QUOTA_STALLS));
	if (!p || !p->stalls)
		m->bad_cnt++;
	return p ? p->stalls : NULL;
}

void model__stall_code(struct model *m, const struct ct_stall_code *rec)
{
	struct proc_stalls *s = stalls_of(m, &rec->rec);

	if (s)
		proc_stalls__add_code(s, rec);
}

void model__stall_source(struct model *m, const struct ct_stall_source *rec)
{
	struct proc_stalls *s = stalls_of(m, &rec->rec);

	if (s)
		proc_stalls__add_source(s, rec);
}

void model__stall_pcs(struct model *m, const struct ct_stall_pcs *rec)
{
	struct proc_stalls *s = stalls_of(m, &rec->rec);

	if (s)
		proc_stalls__add_pcs(s, rec);
}

void model__stalls(struct model *m, const struct ct_stalls *rec)
{
	struct proc_stalls *s = stalls_of(m, &rec->rec);
	struct proc *p = procs__find(&m->procs, rec->rec.pid);
	const struct handle *h =
		p && rec->name_id ? handles__get(&p->gpu_names, rec->name_id) : NULL;
	const struct kernel_name *name = h ? (h->name ? h->name : h->read) : NULL;
	struct trace_event ev;

	if (!s)
		return;
	if (rec->end_ns < rec->begin_ns) {
		m->bad_cnt++;
		return;
	}
	ev = event_of(EVENT_STALLS, &rec->rec, "function");
	ev.comm = p->comm;
	ev.start_ns = rec->begin_ns;
	ev.end_ns = rec->end_ns;
	ev.stalls.function = rec->function;
	ev.stalls.kernel = name ? name->demangled : NULL;
	ev.stalls.kernel_mangled = name && name->mangled != name->demangled ? name->mangled : NULL;
	proc_stalls__give(s, rec, &ev, m->opts.fn, m->opts.ctx);
}
