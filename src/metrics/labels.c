/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Shapes of cgroup paths, and what creates them:
 *         /docker/ID                                        Docker, cgroupfs driver
 *         /system.slice/docker-ID.scope                     Docker, systemd driver
 *         /kubepods/burstable/podUID/ID                     kubelet (k3s too), cgroupfs driver
 *         /kubepods.slice/.../kubepods-burstable-podU_I_D.slice/cri-containerd-ID.scope
 *         .../crio-ID.scope                                 CRI-O
 *         /machine.slice/libpod-ID.scope[/container]        Podman
 *         /lxc.payload.NAME, /lxc/NAME                      LXC
 * Kubernetes in Docker (kind, k3d) nests them: the last one counts.
 */
#include "labels.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/reader.h"

#define ID_LEN 64 /* a container id: SHA-256 in hexadecimal */
/* Maximum bytes read of an environment: a process can make it as large as its memory. */
#define ENVIRON_SZ (128 << 10)

/* A scope of systemd: PREFIX-ID.scope. */
static const struct {
	const char *prefix, *runtime;
} scopes[] = {
	{"docker-", "docker"},	       {"cri-containerd-", "containerd"},
	{"containerd-", "containerd"}, {"crio-", "cri-o"},
	{"libpod-", "podman"},	       {"nerdctl-", "containerd"},
	{"libpod-payload-", "podman"},
};

static bool is_hex(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!isxdigit((unsigned char)s[i]))
			return false;
	}
	return true;
}

static void put(char *to, size_t size, const char *s, size_t len)
{
	if (len >= size)
		len = size - 1;
	memcpy(to, s, len);
	to[len] = '\0';
}

static bool starts(const char *s, size_t len, const char *with)
{
	return len >= strlen(with) && !strncmp(s, with, strlen(with));
}

static void set_container(struct labels *l, const char *id, size_t len, const char *runtime)
{
	put(l->container, sizeof(l->container), id, len);
	put(l->runtime, sizeof(l->runtime), runtime, strlen(runtime));
}

/* UID in "podUID" or "kubepods-burstable-podU_I_D.slice": 36 characters with dashes, or the 32 of
 * a static pod's hash. */
static bool pod_uid(struct labels *l, const char *part, size_t len)
{
	const char *uid = NULL;
	size_t n = len;

	if (starts(part, len, "pod")) {
		uid = part + 3;
	} else if (len > 6 && !strncmp(part + len - 6, ".slice", 6)) {
		for (size_t i = 0; i + 4 < len; i++) {
			if (!strncmp(part + i, "-pod", 4))
				uid = part + i + 4;
		}
		n -= 6;
	}
	if (!uid)
		return false;
	n -= uid - part;
	if (n != 36 && !(n == 32 && is_hex(uid, n)))
		return false;
	put(l->pod_uid, sizeof(l->pod_uid), uid, n);
	for (char *p = l->pod_uid; *p; p++) {
		if (*p == '_')
			*p = '-';
		else if (!isxdigit((unsigned char)*p) && *p != '-')
			l->pod_uid[0] = '\0';
	}
	return l->pod_uid[0];
}

static bool scope(struct labels *l, const char *part, size_t len)
{
	for (size_t i = 0; i < sizeof(scopes) / sizeof(scopes[0]); i++) {
		size_t n = strlen(scopes[i].prefix);

		if (!starts(part, len, scopes[i].prefix) || len < n + ID_LEN ||
		    !is_hex(part + n, ID_LEN))
			continue;
		if (len == n + ID_LEN || !strncmp(part + n + ID_LEN, ".scope", len - n - ID_LEN)) {
			set_container(l, part + n, ID_LEN, scopes[i].runtime);
			return true;
		}
	}
	return false;
}

/* The part before a bare id identifies its runtime. */
static bool bare_id(struct labels *l, const char *part, size_t len, const char *before,
		    size_t before_len)
{
	if (len != ID_LEN || !is_hex(part, len))
		return false;
	if (starts(before, before_len, "docker"))
		set_container(l, part, len, "docker");
	else if (starts(before, before_len, "libpod"))
		set_container(l, part, len, "podman");
	else
		set_container(l, part, len, "containerd");
	return true;
}

static bool lxc(struct labels *l, const char *part, size_t len, const char *before,
		size_t before_len)
{
	if (starts(part, len, "lxc.payload.") && len > 12) {
		set_container(l, part + 12, len - 12, "lxc");
		return true;
	}
	if (before_len == 3 && !strncmp(before, "lxc", 3)) {
		set_container(l, part, len, "lxc");
		return true;
	}
	return false;
}

/* Below such a cgroup, users create and name cgroups freely (Delegate= of user@.service), and the
 * machine's kubelet puts no pods there. */
static bool is_users(const char *part, size_t len)
{
	return len == strlen("user.slice") && starts(part, len, "user.slice");
}

bool labels__from_cgroup(struct labels *l, const char *path)
{
	const char *before = "", *part = path;
	size_t before_len = 0, len;
	bool found = false, users = false;

	put(l->cgroup, sizeof(l->cgroup), path, strlen(path));
	for (; *part; part += len) {
		part += strspn(part, "/");
		len = strcspn(part, "/");
		if (!len)
			break;
		users |= is_users(part, len);
		if (!users && pod_uid(l, part, len))
			l->container[0] = l->runtime[0] = '\0'; /* it was the node's own */
		else
			found |= scope(l, part, len) || bare_id(l, part, len, before, before_len) ||
				 lxc(l, part, len, before, before_len);
		before = part;
		before_len = len;
	}
	return found && l->container[0];
}

/* The first line with a container counts, else the one of v2; the root is used only if nothing else
 * is known. */
void labels__from_file(struct labels *l, FILE *f)
{
	bool is_rest = false; /* of a longer line, whose path a user may choose */
	char line[1024];

	while (fgets(line, sizeof(line), f)) {
		char *path = is_rest ? NULL : strchr(line, ':');
		struct labels tried = {0};
		bool is_v2 = !strncmp(line, "0::", 3);

		is_rest = !strchr(line, '\n');
		path = path ? strchr(path + 1, ':') : NULL;
		if (!path)
			continue;
		path++;
		path[strcspn(path, "\n")] = '\0';
		if (labels__from_cgroup(&tried, path)) {
			*l = tried;
			return;
		}
		if (!l->cgroup[0] || !strcmp(l->cgroup, "/") || (is_v2 && strcmp(path, "/")))
			*l = tried;
	}
}

/* Names of Kubernetes: letters, digits, dashes and dots. */
static bool is_name(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '.')
			return false;
	}
	return len;
}

static void put_name(char *to, size_t size, const char *s, size_t len)
{
	if (len < size && is_name(s, len))
		put(to, size, s, len);
}

/* POD_NAMESPACE_CONTAINER-ID.log */
static bool from_log_name(struct labels *l, const char *file)
{
	const char *id = strstr(file, l->container), *ns, *name;

	if (!id || id == file || id[-1] != '-' || strcmp(id + strlen(l->container), ".log"))
		return false;
	ns = strchr(file, '_');
	name = ns ? strchr(ns + 1, '_') : NULL;
	if (!name || name > id)
		return false;
	put_name(l->pod, sizeof(l->pod), file, ns - file);
	put_name(l->namespace, sizeof(l->namespace), ns + 1, name - ns - 1);
	put_name(l->container_name, sizeof(l->container_name), name + 1, id - 1 - (name + 1));
	return true;
}

/* NAMESPACE_POD_UID */
static bool from_pod_folder(struct labels *l, const char *folder)
{
	const char *pod = strchr(folder, '_'), *uid = pod ? strchr(pod + 1, '_') : NULL;

	if (!uid || strcmp(uid + 1, l->pod_uid))
		return false;
	put_name(l->namespace, sizeof(l->namespace), folder, pod - folder);
	put_name(l->pod, sizeof(l->pod), pod + 1, uid - pod - 1);
	return true;
}

static bool search_folder(struct labels *l, const char *root, const char *path,
			  bool (*look)(struct labels *, const char *))
{
	char full[512];
	struct dirent *de;
	bool found = false;
	DIR *dir;

	if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
		return false;
	dir = opendir(full);
	if (!dir)
		return false;
	while (!found && (de = readdir(dir)))
		found = look(l, de->d_name);
	closedir(dir);
	return found;
}

/* Reads the first line of a small file in the container, if it is a valid name. */
static void read_name(char *to, size_t size, pid_t pid, const char *path)
{
	char text[256], inside[128];
	ssize_t n;

	snprintf(inside, sizeof(inside), "/proc/%d/root%s", (int)pid, path);
	n = reader__take(reader__open(pid, inside, 0), text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	put_name(to, size, text, strcspn(text, "\n"));
}

/* Reads the variables that usually have the downward API's values, from the program's initial
 * environment. */
static void read_environ(struct labels *l, pid_t pid)
{
	const struct {
		const char *name;
		char *to;
		size_t size;
	} wanted[] = {
		{"POD_NAME=", l->pod, sizeof(l->pod)},
		{"POD_NAMESPACE=", l->namespace, sizeof(l->namespace)},
	};
	char *text = malloc(ENVIRON_SZ);
	ssize_t len;

	if (!text)
		return;
	len = reader__take(reader__copy(pid, "environ", ENVIRON_SZ - 1), text, ENVIRON_SZ - 1);
	if (len < 0)
		len = 0;
	text[len] = '\0';
	for (const char *var = text; var < text + len; var += strlen(var) + 1) {
		for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
			size_t n = strlen(wanted[i].name);

			if (!*wanted[i].to && !strncmp(var, wanted[i].name, n))
				put_name(wanted[i].to, wanted[i].size, var + n, strlen(var + n));
		}
	}
	free(text);
}

void labels__find_names(struct labels *l, pid_t pid, const char *root)
{
	if (!l->pod_uid[0])
		return;
	if (!l->container[0] || !search_folder(l, root, "/var/log/containers", from_log_name))
		search_folder(l, root, "/var/log/pods", from_pod_folder);
	if (!l->pod[0] || !l->namespace[0])
		read_environ(l, pid);
	if (!l->namespace[0])
		read_name(l->namespace, sizeof(l->namespace), pid,
			  "/var/run/secrets/kubernetes.io/serviceaccount/namespace");
	if (!l->pod[0])
		read_name(l->pod, sizeof(l->pod), pid, "/etc/hostname");
}

int labels__read(struct labels *l, pid_t pid, const char *root)
{
	char path[64];
	FILE *f;

	memset(l, 0, sizeof(*l));
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	labels__from_file(l, f);
	fclose(f);
	labels__find_names(l, pid, root);
	return 0;
}
