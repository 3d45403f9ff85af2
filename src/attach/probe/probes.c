/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "probes.h"

#include "util/log.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From the kernel's include/uapi/linux/bpf.h. Defined here because Debian 12 has the copy of 6.1,
 * and because libbpf 1.4.6 cannot create a session link: it lacks the attach type. */
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

static int link_create(int prog_fd, enum mechanism mech, const struct probe_req *req,
		       uint32_t flags)
{
	struct link_create_attr attr = {
		.prog_fd = prog_fd,
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

static int add_fd(struct probes *p, int fd, bool is_return)
{
	void *links = realloc(p->links, (p->cnt + 1) * sizeof(*p->links));

	if (!links) {
		close(fd);
		return -ENOMEM;
	}
	p->links = links;
	p->links[p->cnt].fd = fd;
	p->links[p->cnt++].is_return = is_return;
	return 0;
}

/* Return probes first: an entry without its return would leave a frame behind. */
static int attach_multi(struct probes *p, enum mechanism mech, const struct probe_progs *progs,
			const struct probe_req *req)
{
	int fd, ret_fd, ret;

	if (mech == MECH_SESSION || req->entry_only) {
		fd = link_create(mech == MECH_SESSION ? progs->session : progs->entry, mech, req,
				 0);
		return fd < 0 ? fd : add_fd(p, fd, false);
	}
	ret_fd = link_create(progs->ret, mech, req, UPROBE_MULTI_RETURN);
	if (ret_fd < 0)
		return ret_fd;
	fd = link_create(progs->entry, mech, req, 0);
	if (fd < 0) {
		close(ret_fd);
		return fd;
	}
	ret = add_fd(p, ret_fd, true);
	if (ret) {
		close(fd);
		return ret;
	}
	return add_fd(p, fd, false);
}

/* Reads a number from a file below /sys; -1 if it does not exist. skip: text before the number. */
static int read_number(const char *path, const char *skip)
{
	FILE *f = fopen(path, "re");
	char line[64];
	int n = -1;

	if (f && fgets(line, sizeof(line), f) && !strncmp(line, skip, strlen(skip)))
		n = atoi(line + strlen(skip));
	if (f)
		fclose(f);
	return n;
}

#define UPROBE_PMU "/sys/bus/event_source/devices/uprobe/"

static int open_event(const struct probe_req *req, bool ret)
{
	static int type = -1, ret_bit;
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.config1 = (uintptr_t)req->path,
		.config2 = req->offs[0],
	};
	int fd;

	if (type < 0) {
		type = read_number(UPROBE_PMU "type", "");
		ret_bit = read_number(UPROBE_PMU "format/retprobe", "config:");
	}
	if (type < 0 || ret_bit < 0)
		return -ENOENT;
	attr.type = type;
	attr.config = ret ? 1ull << ret_bit : 0;
	fd = syscall(SYS_perf_event_open, &attr, req->pid ? req->pid : -1, req->pid ? -1 : 0, -1,
		     PERF_FLAG_FD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int add_perf(struct probes *p, int prog_fd, const struct probe_req *req, bool ret)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = req->cookies[0]);
	int event = open_event(req, ret), link;

	if (event < 0)
		return event;
	link = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (link >= 0 && ioctl(event, PERF_EVENT_IOC_ENABLE, 0)) {
		close(link);
		link = -errno;
	}
	if (link < 0) {
		close(event);
		return link;
	}
	/* Closing is in reverse order, so the event is closed last. */
	if (add_fd(p, event, ret)) {
		close(link);
		return -ENOMEM;
	}
	return add_fd(p, link, ret);
}

static int attach_perf(struct probes *p, const struct probe_progs *progs,
		       const struct probe_req *req)
{
	int ret = req->entry_only ? 0 : add_perf(p, progs->ret, req, true);

	if (ret)
		return ret;
	ret = add_perf(p, progs->entry, req, false);
	if (ret && !req->entry_only)
		probes__detach_one(p), probes__detach_one(p);
	return ret;
}

/* The kernel's errors for an instruction that it cannot probe: ENOTSUPP (524, internal to the
 * kernel) and EOPNOTSUPP for refused prefixes, EINVAL and EIO if it cannot decode or read it. */
static bool is_refusal(int ret)
{
	return ret == -524 || ret == -EOPNOTSUPP || ret == -EINVAL || ret == -EIO ||
	       ret == -ENOEXEC;
}

/* A link is refused as a whole, so halve the range until only the refused sites are left. */
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

/* Closes in reverse order, entry before return: see probes__take(). */
bool probes__detach_one(struct probes *p)
{
	if (!p->cnt)
		return false;
	close(p->links[--p->cnt].fd);
	return true;
}

unsigned probes__take(struct probes *p, bool returns, int *fds, unsigned max)
{
	unsigned cnt = 0, left = 0;

	for (unsigned i = 0; i < p->cnt; i++) {
		if (p->links[i].is_return == returns && cnt < max)
			fds[cnt++] = p->links[i].fd;
		else
			p->links[left++] = p->links[i];
	}
	p->cnt = left;
	return cnt;
}

void probes__detach(struct probes *p)
{
	while (probes__detach_one(p))
		;
	free(p->links);
	memset(p, 0, sizeof(*p));
}
