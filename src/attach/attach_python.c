/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --python: where processes keep their frames, and when they free code objects. */
#include "attach_priv.h"

#include "find/elf_file.h"
#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void attach__set_python(struct attach *a, pid_t pid, const struct ct_python *py)
{
	uint32_t key = pid;

	if (bpf_map__update_elem(a->skel->maps.pythons, &key, sizeof(key), py, sizeof(*py),
				 BPF_ANY))
		warn("process %d: its calls have no Python frames: the table of processes is full",
		     pid);
}

/* Attaches one probe at the function's first instruction. Returns 0 or -errno. */
static int put_on(struct attach *a, struct python_file *f, uint32_t func_id)
{
	static struct links_answer answer;
	uint64_t cookie = CT_COOKIE(func_id, 0, 0) | CT_COOKIE_F_ENTRY;
	struct links_req req = {
		.owner = f->owner = ++a->newest_owner,
		.mech = a->mech,
		.progs = a->progs,
		.file_fd = f->watch.fd,
		.offs = &f->off,
		.cookies = &cookie,
		.cnt = 1,
		.pid = a->mech == MECH_MULTI ? 0 : a->only_pid,
	};
	int ret;

	req.group_cnt[LINKS_ENTRY] = 1;
	ret = links__attach(&a->links, &req, &answer);
	/* The kernel is waiting, also for the probes of CUDA's libraries. */
	if (ret == -EINPROGRESS)
		return 0;
	if (!ret && answer.ret < 1)
		ret = answer.ret < 0 ? answer.ret : -ENOTSUP;
	return ret;
}

static int add_file(struct attach *a, int fd, uint64_t off, uint32_t func_id)
{
	struct python_file *f = a->python_files, *end = f + a->python_file_cnt;
	struct stat st;
	int ret;

	if (a->detached || fstat(fd, &st))
		return -ENOENT;
	while (f < end && (f->dev != st.st_dev || f->ino != st.st_ino || f->off != off))
		f++;
	if (f < end)
		return 0;
	if (a->python_file_cnt == ATTACH_PYTHON_FILES_MAX)
		return -ENOSPC;
	*f = (struct python_file){.dev = st.st_dev, .ino = st.st_ino, .off = off};
	ret = file_watch__open(&f->watch, &a->watch, fd);
	/* As with libraries, an unnoticed write could crash all processes that run it. */
	if (ret > 0)
		ret = !a->force && file_watch__is_open_to_others(&f->watch) ? -EPERM : 0;
	ret = ret ?: put_on(a, f, func_id);
	if (ret)
		file_watch__close(&f->watch, &a->watch);
	else
		a->python_file_cnt++;
	return ret;
}

int attach__python_file(struct attach *a, int fd, uint64_t off)
{
	return add_file(a, fd, off, CT_FUNC_PYTHON_FREE);
}

int attach__sampled(struct attach *a, int fd)
{
	struct elf_file *f = calloc(1, sizeof(*f));
	char why[256];
	uint64_t off = 0;

	if (!f)
		return -ENOMEM;
	*f = (struct elf_file){.fd = fd, .err = why, .err_size = sizeof(why)};
	if (!elf_file__read(f))
		off = elf_file_function(f, ATTACH_SAMPLED);
	elf_file__free(f);
	return off ? add_file(a, fd, off, CT_FUNC_SAMPLED) : -ENOENT;
}

/* Without the probe a name may belong to another object, so none is shown. */
static void forget_all(struct attach *a)
{
	uint32_t pid;

	while (!bpf_map__get_next_key(a->skel->maps.pythons, NULL, &pid, sizeof(pid)))
		if (bpf_map__delete_elem(a->skel->maps.pythons, &pid, sizeof(pid), 0))
			break;
}

void attach_python__follow_writes(struct attach *a)
{
	for (unsigned i = 0; i < a->python_file_cnt;) {
		struct python_file *f = &a->python_files[i];

		if (!file_watch__is_written(&f->watch)) {
			i++;
			continue;
		}
		warn("--python: a file of CPython is being written: calls of running processes "
		     "have no Python frames from now on");
		forget_all(a);
		links__close(&a->links, f->owner);
		file_watch__close(&f->watch, &a->watch);
		*f = a->python_files[--a->python_file_cnt];
	}
}

void attach_python__free(struct attach *a)
{
	while (a->python_file_cnt)
		file_watch__close(&a->python_files[--a->python_file_cnt].watch, &a->watch);
}

bool attach__is_code(void *ctx, uint32_t pid, uint64_t code, uint32_t id)
{
	const struct attach *a = *(struct attach **)ctx;
	const volatile uint32_t *freed;
	uint32_t slot;

	if (!a || !a->skel)
		return false;
	slot = ct_python_slot(pid, code, (const volatile __u64 *)a->skel->rodata->cfg.name_secret);
	freed = &a->skel->bss->python_freed[slot];
	return ct_python_id(*freed) == id;
}
