/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "probes.h"

#include "util/log.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From the kernel's include/uapi/linux/bpf.h. Spelled out here because Debian 12's copy is that of
 * 6.1, and because libbpf 1.4.6 cannot create a session link: it does not know the attach type. */
#define ATTACH_UPROBE_MULTI   48 /* BPF_TRACE_UPROBE_MULTI, kernel 6.6 */
#define ATTACH_UPROBE_SESSION 57 /* BPF_TRACE_UPROBE_SESSION, kernel 6.13 */
#define UPROBE_MULTI_RETURN   1	 /* BPF_F_UPROBE_MULTI_RETURN */
#define CMD_LINK_CREATE	      28 /* BPF_LINK_CREATE */

struct link_create_attr {
	uint32_t prog_fd, target_fd, attach_type, flags;
	struct {
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, flags, pid;
	} uprobe_multi;
	uint8_t rest[32];
};

const char *mechanism_name(enum mechanism m)
{
	static const char *const names[] = {"auto", "uprobe.session", "uprobe.multi", "uprobe"};

	return names[m];
}

int probes_attach_type(enum mechanism mech)
{
	switch (mech) {
	case MECH_SESSION:
		return ATTACH_UPROBE_SESSION;
	case MECH_MULTI:
		return ATTACH_UPROBE_MULTI;
	default:
		return 0;
	}
}

static int link_create(const struct bpf_program *prog, enum mechanism mech,
		       const struct probe_req *req, uint32_t flags)
{
	struct link_create_attr attr = {
		.prog_fd = bpf_program__fd(prog),
		.attach_type = probes_attach_type(mech),
		.uprobe_multi =
			{
				.path = (uintptr_t)req->path,
				.offsets = (uintptr_t)req->offs,
				.cookies = (uintptr_t)req->cookies,
				.cnt = req->cnt,
				.flags = flags,
				.pid = req->pid,
			},
	};
	int fd = syscall(SYS_bpf, CMD_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : fd;
}

static int add_fd(struct probes *p, int fd)
{
	int *fds = realloc(p->fds, (p->fd_cnt + 1) * sizeof(*fds));

	if (!fds) {
		close(fd);
		return -ENOMEM;
	}
	p->fds = fds;
	p->fds[p->fd_cnt++] = fd;
	return 0;
}

/* Return probes first: an entry without its return would leave a frame behind. */
static int attach_multi(struct probes *p, enum mechanism mech, const struct probe_progs *progs,
			const struct probe_req *req)
{
	int fd, ret_fd, ret;

	if (mech == MECH_SESSION || req->no_return) {
		fd = link_create(mech == MECH_SESSION ? progs->session : progs->entry, mech, req,
				 0);
		return fd < 0 ? fd : add_fd(p, fd);
	}
	ret_fd = link_create(progs->ret, mech, req, UPROBE_MULTI_RETURN);
	if (ret_fd < 0)
		return ret_fd;
	fd = link_create(progs->entry, mech, req, 0);
	if (fd < 0) {
		close(ret_fd);
		return fd;
	}
	ret = add_fd(p, ret_fd);
	if (ret) {
		close(fd);
		return ret;
	}
	return add_fd(p, fd);
}

static int add_perf(struct probes *p, struct bpf_program *prog, const struct probe_req *req,
		    bool ret)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = req->cookies[0], .retprobe = ret);
	struct bpf_link *link, **links;

	links = realloc(p->links, (p->link_cnt + 1) * sizeof(*links));
	if (!links)
		return -ENOMEM;
	p->links = links;
	link = bpf_program__attach_uprobe_opts(prog, req->pid ? req->pid : -1, req->path,
					       req->offs[0], &opts);
	if (!link)
		return -errno;
	p->links[p->link_cnt++] = link;
	return 0;
}

static int attach_perf(struct probes *p, const struct probe_progs *progs,
		       const struct probe_req *req)
{
	int ret = req->no_return ? 0 : add_perf(p, progs->ret, req, true);

	if (ret)
		return ret;
	ret = add_perf(p, progs->entry, req, false);
	if (ret && !req->no_return)
		bpf_link__destroy(p->links[--p->link_cnt]);
	return ret;
}

/* What the kernel answers when it cannot probe an instruction: ENOTSUPP (524, not for user space)
 * and EOPNOTSUPP for prefixes it refuses, EINVAL and EIO for what it cannot decode or read. */
static bool is_refusal(int ret)
{
	return ret == -524 || ret == -EOPNOTSUPP || ret == -EINVAL || ret == -EIO ||
	       ret == -ENOEXEC;
}

/* One link refuses as a whole, so halve until the culprits stand alone. */
static int attach_range(struct probes *p, enum mechanism mech, const struct probe_progs *progs,
			const struct probe_req *req, bool *refused)
{
	struct probe_req half = *req;
	int ret, first;

	if (mech == MECH_PERF && req->cnt == 1)
		ret = attach_perf(p, progs, req);
	else if (mech == MECH_PERF)
		ret = -EINVAL;
	else
		ret = attach_multi(p, mech, progs, req);
	if (!ret)
		return req->cnt;
	if (!is_refusal(ret))
		return ret;
	if (req->cnt == 1) {
		refused[0] = true;
		return 0;
	}
	half.cnt = req->cnt / 2;
	first = attach_range(p, mech, progs, &half, refused);
	if (first < 0)
		return first;
	half.offs += half.cnt;
	half.cookies += half.cnt;
	refused += half.cnt;
	half.cnt = req->cnt - half.cnt;
	ret = attach_range(p, mech, progs, &half, refused);
	return ret < 0 ? ret : first + ret;
}

int probes__attach(struct probes *p, enum mechanism mech, const struct probe_progs *progs,
		   const struct probe_req *req, bool *refused)
{
	int ret;

	memset(refused, 0, req->cnt * sizeof(*refused));
	if (!req->cnt)
		return 0;
	ret = attach_range(p, mech, progs, req, refused);
	if (ret < 0)
		probes__detach(p);
	return ret;
}

void probes__detach(struct probes *p)
{
	/* Backwards, entry before return: a call that begins while they come off must not look as
	 * if it had never returned. */
	for (unsigned i = p->fd_cnt; i-- > 0;)
		close(p->fds[i]);
	/* On kernel 6.18 each takes 0.1 s, one after another whoever closes them. */
	for (unsigned i = p->link_cnt; i-- > 0;)
		bpf_link__destroy(p->links[i]);
	free(p->fds);
	free(p->links);
	memset(p, 0, sizeof(*p));
}
