/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* --python: where processes keep their frames, and when they free code objects. */
#include "attach_priv.h"

#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

void attach__set_python(struct attach *a, pid_t pid, const struct ct_python *py)
{
	uint32_t key = pid;

	if (bpf_map__update_elem(a->skel->maps.pythons, &key, sizeof(key), py, sizeof(*py),
				 BPF_ANY))
		warn("process %d: its calls have no Python frames: no room", pid);
}

/* One probe at the function's first instruction. 0 or -errno. */
static int put_on(struct attach *a, int fd, uint64_t off)
{
	static struct links_answer answer;
	uint64_t cookie = CT_COOKIE(CT_FUNC_PYTHON_FREE, 0, 0) | CT_COOKIE_F_ENTRY;
	struct links_req req = {
		.owner = ++a->newest_owner,
		.mech = a->mech,
		.progs = a->progs,
		.file_fd = fd,
		.offs = &off,
		.cookies = &cookie,
		.cnt = 1,
	};
	int ret;

	req.group_cnt[LINKS_ENTRY] = 1;
	ret = links__attach(&a->links, &req, &answer);
	/* The kernel waits: for the probes of CUDA's libraries, too. */
	if (ret == -EINPROGRESS)
		return 0;
	if (!ret && answer.ret < 1)
		ret = answer.ret < 0 ? answer.ret : -ENOTSUP;
	return ret;
}

int attach__python_file(struct attach *a, int fd, uint64_t off)
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
	ret = put_on(a, fd, off);
	if (ret)
		return ret;
	*f = (struct python_file){.dev = st.st_dev, .ino = st.st_ino, .off = off};
	a->python_file_cnt++;
	return 0;
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
