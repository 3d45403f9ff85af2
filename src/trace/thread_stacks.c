/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "thread_stacks.h"

#include "attach/attach.h"
#include "attach/find/python_stack.h"
#include "util/reader.h"

#include <stdio.h>

/* Reads where a waiting thread is, from proc_pid_syscall(5), which needs permission to trace it. A
 * running thread shows "running", without numbers. */
static void read_syscall(struct ct_regs *r)
{
	char name[32], text[256];
	unsigned long long sp, ip;
	ssize_t n;
	int fd;

	snprintf(name, sizeof(name), "task/%u/syscall", r->tid);
	fd = reader__copy((pid_t)r->pid, name, sizeof(text) - 1);
	n = fd < 0 ? -1 : reader__take(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = 0;
	/* In a page fault the number is -1, without arguments. */
	if (sscanf(text, "%*d %*x %*x %*x %*x %*x %*x %llx %llx", &sp, &ip) != 2 &&
	    sscanf(text, "-1 %llx %llx", &sp, &ip) != 2)
		return;
	r->sp = sp;
	r->ip = ip;
	r->seen = 1;
}

/* Returns whether frame pointers are known. */
static bool read_regs(struct attach *a, pid_t pid, const struct thread_stack *s,
		      struct ct_regs *regs, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		regs[i] = (struct ct_regs){.pid = (uint32_t)pid, .tid = s[i].tid};
	if (a && attach__thread_regs(a, regs, cnt))
		return true;
	for (unsigned i = 0; i < cnt; i++)
		read_syscall(&regs[i]);
	return false;
}

static struct unwind_at place(const struct ct_regs *r, bool has_fp)
{
	return (struct unwind_at){
		.ip = r->ip,
		.sp = r->sp,
		.fp = r->fp,
		.has_fp = has_fp,
		.rets = r->rets,
		.ret_cnt = r->ret_cnt < CT_REGS_RETS ? r->ret_cnt : CT_REGS_RETS,
	};
}

/* Compares states before and after the stack was read, to decide whether it is from one moment. */
static void look_again(struct unwinder *u, struct thread_stack *s, const struct ct_regs *before,
		       const struct ct_regs *behind, bool has_fp)
{
	const struct unwind_at at = place(behind, has_fp);
	static struct call_chain again;

	s->runs = before->runs || behind->runs || before->ip != behind->ip ||
		  before->sp != behind->sp || before->fp != behind->fp;
	if (!s->runs)
		return;
	s->python_cnt = 0;
	if (!behind->seen || !unwinder__follow(u, &at, &again))
		again = (struct call_chain){0};
	unwound_common(&s->at, &again);
}

static bool read_stacks(struct attach *a, pid_t pid, const struct ct_python *python,
			struct thread_stack *s, unsigned cnt)
{
	struct ct_regs before[CT_REGS_MAX], behind[CT_REGS_MAX];
	struct unwinder *u = unwinder__new(pid);
	bool has_fp, any = false;

	if (!u)
		return false;
	has_fp = read_regs(a, pid, s, before, cnt);
	for (unsigned i = 0; i < cnt; i++) {
		const struct unwind_at at = place(&before[i], has_fp);

		if (!before[i].seen || !unwinder__follow(u, &at, &s[i].at))
			continue;
		any = true;
		if (python && !before[i].runs)
			s[i].python_cnt =
				python_stack__read(pid, python, before[i].tls, s[i].python);
	}
	has_fp = any && read_regs(a, pid, s, behind, cnt) && has_fp;
	for (unsigned i = 0; i < cnt && any; i++)
		if (s[i].at.cnt)
			look_again(u, &s[i], &before[i], &behind[i], has_fp);
	unwinder__free(u);
	return any;
}

bool thread_stacks__read(struct attach *a, pid_t pid, const struct ct_python *python,
			 struct thread_stack *s, unsigned cnt)
{
	struct work w;
	bool any;

	if (reader__begin(&w, pid, WORK_SYMBOLS))
		return false;
	any = read_stacks(a, pid, python, s, cnt);
	time_budget__end(&w);
	return any;
}

bool thread_stacks__callers(struct attach *a, pid_t pid, uint32_t tid, uint64_t sp,
			    struct call_chain *out)
{
	const struct thread_stack s = {.tid = tid};
	struct unwinder *u;
	struct unwind_at at;
	struct ct_regs r;
	struct work w;
	bool is_read;

	if (reader__begin(&w, pid, WORK_SYMBOLS))
		return false;
	u = unwinder__new(pid);
	/* The registers come with the return addresses that return probes replaced. */
	read_regs(a, pid, &s, &r, 1);
	at = place(&r, false);
	at.sp = sp;
	is_read = u && unwinder__callers(u, &at, out);
	unwinder__free(u);
	time_budget__end(&w);
	return is_read;
}
