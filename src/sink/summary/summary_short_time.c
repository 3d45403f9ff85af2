/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The short summary: where the host's time in CUDA goes, launches and memory. */
#include "summary_short.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/kernel_name.h"

static double thread_time(const struct short_summary *x)
{
	return x->s->threads_full ? 0 : (double)x->wall_ns * hash_cnt(&x->s->threads);
}

/* ", 12.8 % of the run", of all threads together; nothing if that is not known */
static void put_share(const struct short_summary *x, uint64_t ns, char *text, size_t size)
{
	unsigned threads = hash_cnt(&x->s->threads);
	char share[CELL_SZ];

	human_share(share, ns, thread_time(x));
	if (!*share)
		*text = '\0';
	else if (threads == 1)
		snprintf(text, size, ", %s of the run", share);
	else
		snprintf(text, size, ", %s of the time of %u threads", share, threads);
}

static void print_blocked(const struct short_summary *x)
{
	const struct summary *s = x->s;
	const struct fn_row *most = NULL;
	char share[96];

	if (!s->blocked_cnt || !x->v.fn_cnt)
		return;
	for (size_t i = 0; i < x->v.fn_cnt; i++)
		if (!most || x->v.fns[i].st.blocked_ns > most->st.blocked_ns)
			most = &x->v.fns[i];
	put_share(x, s->blocked_ns, share, sizeof(share));
	term_row(x->term, "Blocked", "%s in %s call%s%s; most in %s", HUMAN_TIME(s->blocked_ns),
		 HUMAN_COUNT(s->blocked_cnt), plural(s->blocked_cnt), share, most->name);
}

static void print_counted(const struct short_summary *x)
{
	const struct trace_end *end = x->end;
	char cnt[CELL_SZ], text[256] = "", failed[64] = "";
	uint64_t error_cnt = 0;
	size_t n = 0;

	if (!end->count_cnt)
		return;
	for (unsigned i = 0; i < end->count_cnt; i++) {
		const struct trace_count *c = &end->counts[i];

		error_cnt += c->errors;
		if (i >= 3 || x->no_extra || n >= sizeof(text))
			continue;
		human_count(cnt, c->calls + c->entered);
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? ", " : ": ",
				      c->fn->name, cnt);
	}
	if (error_cnt)
		snprintf(failed, sizeof(failed), "; %s failed", HUMAN_COUNT(error_cnt));
	term_row(x->term, "Counted", "%s, not in the rows above%s%s%s",
		 HUMAN_NOUNS(end->stats[CT_STAT_COUNTED], "call"), text,
		 end->count_cnt > 3 && n ? ", ..." : "", failed);
}

void short_time(const struct short_summary *x)
{
	const struct summary *s = x->s;
	char share[96], text[192];

	if (s->call_ns) {
		put_share(x, s->call_ns, share, sizeof(share));
		snprintf(text, sizeof(text), "Host time in CUDA: %s%s", HUMAN_TIME(s->call_ns),
			 share);
		short_blank(x);
		fputs(x->term->color ? "\033[1m" : "", x->term->f);
		term_words(x->term, 2, "%s", text);
		fputs(x->term->color ? "\033[0m" : "", x->term->f);
		if (!x->no_advice)
			summary_print_table(&x->v, &summary_table, "parts", CLASS_CNT + 1, x->term);
	} else if (s->call_cnt) {
		short_blank(x);
		term_row(x->term, "Time", "not measured: no recorded call has a duration");
	}
	print_blocked(x);
	print_counted(x);
}

static void print_launches(const struct short_summary *x)
{
	const struct summary *s = x->s;
	char launches[CELL_SZ], graphs[CELL_SZ], most[CELL_SZ], text[256], *name = NULL;
	const struct kernel_stat **list = x->v.kernels;
	const char *shown;
	size_t cnt = x->v.kernel_cnt, len;

	if (!s->launch_cnt && !s->graph_launch_cnt)
		return;
	human_count(launches, s->launch_cnt);
	human_count(graphs, s->graph_launch_cnt);
	len = (size_t)snprintf(text, sizeof(text), "%s kernel%s", launches, plural(s->launch_cnt));
	if (cnt > 1 && !s->launch_unnamed_cnt)
		len += (size_t)snprintf(text + len, sizeof(text) - len, " (%zu different)", cnt);
	if (s->graph_launch_cnt)
		len += (size_t)snprintf(text + len, sizeof(text) - len, ", %s graph%s", graphs,
					plural(s->graph_launch_cnt));
	if (cnt && list[0]->cnt && s->launch_unnamed_cnt < s->launch_cnt && !x->no_extra) {
		human_count(most, list[0]->cnt);
		shown = kernel_short_name(list[0]->name, &len);
		name = strndup(shown, len);
		len = strlen(text);
		if (name)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "; %s of", most);
	}
	term_label(x->term, "Launched");
	fprintf(x->term->f, " %s", text);
	if (name) {
		int room = x->term->width - TERM_LABEL - (int)len - 1;

		if (room < (int)strlen(name) && room < 40) {
			fprintf(x->term->f, "\n%*s", TERM_LABEL - 1, "");
			room = x->term->width - TERM_LABEL;
		}
		putc(' ', x->term->f);
		term_name(x->term, name, room);
	}
	putc('\n', x->term->f);
	free(name);
}

/* "peak 112 MiB, all freed" */
static void put_memory(const struct mem_stat *m, const char *kind, char *text, size_t size)
{
	char rest[96] = ", all freed";

	if (m->live && m->kept)
		snprintf(rest, sizeof(rest), ", %s in use, %s never freed", HUMAN_BYTES(m->live),
			 HUMAN_BYTES(m->kept));
	else if (m->live)
		snprintf(rest, sizeof(rest), ", %s in use", HUMAN_BYTES(m->live));
	else if (m->kept)
		snprintf(rest, sizeof(rest), ", %s never freed", HUMAN_BYTES(m->kept));
	snprintf(text, size, "%s peak %s%s", kind, HUMAN_BYTES(m->peak), rest);
}

/* There is no space for what other layers recorded. */
static void print_layers(const struct short_summary *x)
{
	const struct summary *s = x->s;
	const struct {
		bool is_there;
		const char *name;
	} layers[] = {
		{s->driver.op_cnt[DRV_IOCTL] || x->info->kernel_probe,
		 "system calls of the driver"},
		{s->driver.irq_cnt || s->has_off_cpu, "scheduling"},
		{x->info->gpu_ctxsw, "context switches"},
		{s->gpus, "GPU statistics"},
		{s->ranges, "NVTX ranges"},
		{x->end->torch.on, "PyTorch operators"},
	};
	char text[256] = "";
	size_t n = 0;

	for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
		if (layers[i].is_there)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? ", " : "",
					      layers[i].name);
	if (n)
		term_row(x->term, "Also there", "%s (--summary=full)", text);
}

void short_memory(const struct short_summary *x)
{
	char text[512] = "", kind[160];
	size_t n = 0;

	if (!x->no_args)
		print_launches(x);
	for (unsigned i = 0; i < MEM_KIND_CNT && !x->no_args; i++) {
		if (!x->s->mem[i].peak || (x->no_extra && n))
			continue;
		put_memory(&x->s->mem[i], mem_shown_name[i], kind, sizeof(kind));
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", n ? "; " : "", kind);
	}
	if (n)
		term_row(x->term, "Memory", "%s", text);
	if (!x->no_extra)
		print_layers(x);
}
