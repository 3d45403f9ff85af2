/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Probes that read /proc and /sys. */
#include "caps_priv.h"
#include "attach/find/target.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* include/linux/proc_ns.h: the initial user namespace */
#define INIT_USER_NS "user:[4026531837]"

/* include/uapi/linux/capability.h; older headers lack the last two. */
enum {
	BIT_SYS_PTRACE = 19,
	BIT_SYS_ADMIN = 21,
	BIT_PERFMON = 38,
	BIT_BPF = 39,
};

/* Reads the first line, without its newline. */
static bool read_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return false;
	ok = fgets(buf, (int)size, f) != NULL;
	fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

/* Reads a field of /proc/self/status, by its name with the colon. */
static bool read_status(const char *field, char *buf, size_t size)
{
	FILE *f = fopen("/proc/self/status", "re");
	size_t len = strlen(field);
	bool found = false;
	char line[256];

	while (f && !found && fgets(line, sizeof(line), f)) {
		if (strncmp(line, field, len) != 0)
			continue;
		found = true;
		line[strcspn(line, "\n")] = '\0';
		snprintf(buf, size, "%s", line + len + strspn(line + len, " \t"));
	}
	if (f)
		fclose(f);
	return found;
}

static bool in_namespace(const char *link, const char *initial)
{
	char buf[64];
	ssize_t n = readlink(link, buf, sizeof(buf) - 1);

	if (n < 0)
		return false;
	buf[n] = '\0';
	return !strcmp(buf, initial);
}

static uint64_t effective(void)
{
	char buf[64];

	return read_status("CapEff:", buf, sizeof(buf)) ? strtoull(buf, NULL, 16) : 0;
}

static bool has_bit(unsigned bit)
{
	return effective() >> bit & 1;
}

/* /proc requires read access (ptrace(2), PTRACE_MODE_READ), which Yama does not restrict. */
const char *caps__why_refused(void)
{
	if (caps__in_user_namespace())
		return "it is outside of the user namespace that cudatrace runs in (rootless "
		       "container): run cudatrace on the host";
	if (!has_bit(BIT_SYS_PTRACE))
		return "another user's process, or one that is not dumpable, needs CAP_SYS_PTRACE, "
		       "which cudatrace does not have: run it with sudo; in a container, with "
		       "--cap-add=SYS_PTRACE";
	return "a security module refuses it although cudatrace has CAP_SYS_PTRACE (AppArmor, "
	       "SELinux, Landlock, BPF): run cudatrace outside of the container, or see dmesg";
}

bool cap_is_admin(void)
{
	return has_bit(BIT_SYS_ADMIN);
}

bool caps__in_user_namespace(void)
{
	return !in_namespace("/proc/self/ns/user", INIT_USER_NS);
}

enum cap_state cap_probe_kernel(struct cap *c)
{
	unsigned major = 0, minor = 0;
	struct utsname uts;

	uname(&uts);
	cap_set_detail(c, "%s, %s", uts.release, uts.machine);
	if (sscanf(uts.release, "%u.%u", &major, &minor) != 2)
		return CAP_UNKNOWN;
	return major > 5 || (major == 5 && minor >= 15) ? CAP_YES : CAP_NO;
}

/* Before Linux 5.8 only CAP_SYS_ADMIN existed; it still includes both. */
static enum cap_state probe_priv(struct cap *c, unsigned bit, const char *name)
{
	if (!has_bit(bit) && !has_bit(BIT_SYS_ADMIN)) {
		cap_set_detail(c, "this process (user %u) has neither %s nor CAP_SYS_ADMIN",
			       geteuid(), name);
		return CAP_NO;
	}
	if (caps__in_user_namespace()) {
		cap_set_detail(
			c,
			"root of a user namespace (rootless container) only: run it on the host");
		return CAP_NO;
	}
	return CAP_YES;
}

enum cap_state cap_probe_priv_bpf(struct cap *c)
{
	return probe_priv(c, BIT_BPF, "CAP_BPF");
}

enum cap_state cap_probe_priv_perfmon(struct cap *c)
{
	return probe_priv(c, BIT_PERFMON, "CAP_PERFMON");
}

enum cap_state cap_probe_priv_ptrace(struct cap *c)
{
	if (has_bit(BIT_SYS_PTRACE))
		return CAP_YES;
	cap_set_detail(c, "only processes of user %u", geteuid());
	return CAP_NO;
}

enum cap_state cap_probe_lockdown(struct cap *c)
{
	char buf[128];

	/* No file: no lockdown, or securityfs is not mounted. */
	if (!read_line("/sys/kernel/security/lockdown", buf, sizeof(buf)))
		return cap_try_read_kernel(c);
	cap_set_detail(c, "%s", buf);
	return strstr(buf, "[confidentiality]") ? CAP_NO : CAP_YES;
}

enum cap_state cap_probe_btf(struct cap *c)
{
	static const char path[] = "/sys/kernel/btf/vmlinux";

	if (!access(path, R_OK))
		return CAP_YES;
	cap_set_detail(c, "%s: %s", path, strerror(errno));
	return CAP_NO;
}

/* Tries our own first file mapping: without access to that, there is none to others. */
enum cap_state cap_probe_map_files(struct cap *c)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long long start = 0, end;
	char line[512], path[128];
	int fd;

	while (f && !start && fgets(line, sizeof(line), f)) {
		if (!strchr(line, '/') || sscanf(line, "%llx-%llx", &start, &end) != 2)
			start = 0;
	}
	if (f)
		fclose(f);
	if (!start)
		return CAP_UNKNOWN;
	snprintf(path, sizeof(path), "/proc/self/map_files/%llx-%llx", start, end);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		cap_set_detail(c, "%s", strerror(errno));
		return CAP_NO;
	}
	close(fd);
	return CAP_YES;
}

enum cap_state cap_probe_pidns(struct cap *c)
{
	if (!target_own_pidns())
		return CAP_YES;
	cap_set_detail(c, "in a container");
	return CAP_NO;
}

enum cap_state cap_probe_kprobe(struct cap *c)
{
	if (access("/sys/bus/event_source/devices/kprobe/type", R_OK))
		return CAP_NO;
	return cap_ftrace_on(c) ? CAP_YES : CAP_NO;
}

bool cap_ftrace_on(struct cap *c)
{
	char line[16];

	if (!read_line("/proc/sys/kernel/ftrace_enabled", line, sizeof(line)) || *line != '0')
		return true;
	cap_set_detail(c, "kernel.ftrace_enabled is 0");
	return false;
}

enum cap_state cap_probe_tracefs(struct cap *c)
{
	static const char *const places[] = {"/sys/kernel/tracing/events",
					     "/sys/kernel/debug/tracing/events"};

	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!access(places[i], R_OK | X_OK))
			return CAP_YES;
	}
	if (geteuid()) {
		cap_set_detail(c, "only root can check it");
		return CAP_UNKNOWN;
	}
	return CAP_NO;
}

enum cap_state cap_probe_paranoid(struct cap *c)
{
	if (!read_line("/proc/sys/kernel/perf_event_paranoid", c->detail, sizeof(c->detail)))
		return CAP_UNKNOWN;
	return CAP_YES;
}

enum cap_state cap_probe_yama(struct cap *c)
{
	if (!read_line("/proc/sys/kernel/yama/ptrace_scope", c->detail, sizeof(c->detail))) {
		cap_set_detail(c, "not in this kernel");
		return CAP_YES;
	}
	return c->detail[0] == '0' || has_bit(BIT_SYS_PTRACE) ? CAP_YES : CAP_NO;
}

enum cap_state cap_probe_seccomp(struct cap *c)
{
	char buf[16];

	if (!read_status("Seccomp:", buf, sizeof(buf)) || !strcmp(buf, "0"))
		return CAP_YES;
	cap_set_detail(c, "mode %s", buf);
	return CAP_NO;
}

/* Linux 6.6 introduced shadow stacks of programs (x86). Return probes change the address there,
 * too, since 6.11. */
enum cap_state cap_probe_shstk(struct cap *c)
{
	unsigned major = 0, minor = 0;
	bool has = false;
	char line[8192];
	struct utsname u;
	FILE *f;

	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return CAP_UNKNOWN;
	f = fopen("/proc/cpuinfo", "re");
	while (f && !has && fgets(line, sizeof(line), f))
		has = !strncmp(line, "flags", 5) && strstr(line, " user_shstk");
	if (f)
		fclose(f);
	if (!has)
		cap_set_detail(c, "not available on this processor or kernel");
	return has && major == 6 && minor < 11 ? CAP_NO : CAP_YES;
}

enum cap_state cap_probe_memlock(struct cap *c)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_MEMLOCK, &lim))
		return CAP_UNKNOWN;
	if (lim.rlim_cur == RLIM_INFINITY)
		cap_set_detail(c, "unlimited");
	else
		cap_set_detail(c, "%llu KiB", (unsigned long long)lim.rlim_cur >> 10);
	return CAP_YES;
}

/* With perf events: an event and its link, at entry and at return, for 600 functions. */
enum cap_state cap_probe_nofile(struct cap *c)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim))
		return CAP_UNKNOWN;
	if (lim.rlim_max == RLIM_INFINITY)
		cap_set_detail(c, "unlimited");
	else
		cap_set_detail(c, "%llu", (unsigned long long)lim.rlim_max);
	return lim.rlim_max >= 3000 || caps__has(CAP_UPROBE_MULTI) ? CAP_YES : CAP_NO;
}

/* First word that looks like "580.159.04", in either form of the line:
 *	NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.216.01  Tue ...
 *	NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build ... */
static bool find_version(char *line, char *out, size_t size)
{
	char *save = NULL, *word;

	for (word = strtok_r(line, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (isdigit((unsigned char)word[0]) && strchr(word, '.') &&
		    strspn(word, "0123456789.") == strlen(word)) {
			snprintf(out, size, "%s", word);
			return true;
		}
	}
	return false;
}

enum cap_state cap_probe_nv_driver(struct cap *c)
{
	char line[256];
	bool is_open;

	if (!read_line("/proc/driver/nvidia/version", line, sizeof(line))) {
		cap_set_detail(c, "not loaded");
		return CAP_NO;
	}
	is_open = strstr(line, "Open Kernel Module") != NULL;
	if (!find_version(line, c->detail, sizeof(c->detail) - 32))
		cap_set_detail(c, "version unknown");
	else if (is_open)
		strcat(c->detail, " (open kernel modules)");
	return CAP_YES;
}

enum cap_state cap_probe_nv_devices(struct cap *c)
{
	glob_t g = {0};
	size_t n = 0;

	/* WSL has one device for all GPUs. */
	if (glob("/dev/nvidia*", 0, NULL, &g) && glob("/dev/dxg", 0, NULL, &g)) {
		globfree(&g);
		cap_set_detail(c, "none");
		return CAP_NO;
	}
	for (size_t i = 0; i < g.gl_pathc && n < sizeof(c->detail); i++) {
		const char *name = strrchr(g.gl_pathv[i], '/') + 1;

		n += (size_t)snprintf(c->detail + n, sizeof(c->detail) - n, "%s%s", i ? " " : "",
				      name);
	}
	globfree(&g);
	return CAP_YES;
}
