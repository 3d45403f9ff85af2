/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "metrics/labels.h"

#define ID    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"
#define UID   "8a1b2c3d-0001-4abc-9def-123456789abc"
#define UID_  "8a1b2c3d_0001_4abc_9def_123456789abc"

static const struct {
	const char *path, *container, *runtime, *pod_uid;
} paths[] = {
	{"/docker/" ID, ID, "docker", ""},
	{"/system.slice/docker-" ID ".scope", ID, "docker", ""},
	{"/system.slice/docker-" ID ".scope/init.scope", ID, "docker", ""},
	{"/kubepods/burstable/pod" UID "/" ID, ID, "containerd", UID},
	{"/kubepods/pod" UID "/" ID, ID, "containerd", UID},
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	 ".slice/cri-containerd-" ID ".scope",
	 ID, "containerd", UID},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", ID, "cri-o", UID},
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
	 ".slice/docker-" ID ".scope",
	 ID, "docker", UID},
	/* a static pod */
	{"/kubepods/besteffort/pod0123456789abcdef0123456789abcdef/" ID, ID, "containerd",
	 "0123456789abcdef0123456789abcdef"},
	{"/machine.slice/libpod-" ID ".scope/container", ID, "podman", ""},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", ID,
	 "podman", ""},
	/* a user's cgroup named like a pod is not one */
	{"/user.slice/user-1000.slice/user@1000.service/kubepods/burstable/pod" UID "/" ID, ID,
	 "containerd", ""},
	{"/user.slice/user-1000.slice/user@1000.service/kubepods-pod" UID_ ".slice/crio-" ID
	 ".scope",
	 ID, "cri-o", ""},
	/* kind: the node is a container too */
	{"/docker/" OTHER "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod" UID_
	 ".slice/cri-containerd-" ID ".scope",
	 ID, "containerd", UID},
	{"/docker/" OTHER "/kubepods/burstable/pod" UID "/" ID, ID, "containerd", UID},
	{"/lxc.payload.web1", "web1", "lxc", ""},
	{"/lxc/web1", "web1", "lxc", ""},
	/* seen from another container's cgroup namespace */
	{"/../../kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope", ID,
	 "containerd", UID},
	{"/../../../kubepods-pod" UID_ ".slice/crio-" ID ".scope", ID, "cri-o", UID},
	{"/../../pod" UID "/" ID, ID, "containerd", UID},
	{"/../docker-" ID ".scope", ID, "docker", ""},
	/* a pod's own cgroup: no container yet */
	{"/kubepods/burstable/pod" UID, "", "", UID},
	{"/user.slice/user-1000.slice/session-3.scope", "", "", ""},
	{"/", "", "", ""},
	{"", "", "", ""},
	{"/system.slice/docker-" ID "x.scope", "", "", ""},
	{"/system.slice/docker-0123.scope", "", "", ""},
	{"/kubepods/podnotauid/xyz", "", "", ""},
	{"/kubepods/pod8a1b2c3d-0001-4abc-9def-12345678\"abc", "", "", ""},
};

static void shapes(void **state)
{
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct labels l = {0};

		assert_int_equal(labels__from_cgroup(&l, paths[i].path), !!*paths[i].container);
		assert_string_equal(l.cgroup, paths[i].path);
		assert_string_equal(l.container, paths[i].container);
		assert_string_equal(l.runtime, paths[i].runtime);
		assert_string_equal(l.pod_uid, paths[i].pod_uid);
	}
}

#define V1_POD "/kubepods/burstable/pod" UID "/" ID
#define SLICE                                                                                      \
	"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" ID \
	".scope"

/* Texts of /proc/PID/cgroup. */
static const struct {
	const char *text, *cgroup, *container, *runtime, *pod_uid;
} texts[] = {
	{"0::" V1_POD "\n", V1_POD, ID, "containerd", UID},
	/* v1: kubelet with the cgroupfs driver */
	{"12:memory:" V1_POD "\n11:cpu,cpuacct:" V1_POD "\n1:name=systemd:" V1_POD "\n", V1_POD, ID,
	 "containerd", UID},
	/* v1: Docker, some controllers left at the root */
	{"4:rdma:/\n3:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/system.slice/"
	 "containerd.service\n",
	 "/docker/" ID, ID, "docker", ""},
	/* v1 and v2 beside each other: containers in v2 only */
	{"9:name=systemd:/\n4:memory:/user.slice\n0::" SLICE "\n", SLICE, ID, "cri-o", UID},
	/* no container: v2 is more specific than the controllers */
	{"9:pids:/\n4:memory:/user.slice\n0::/user.slice/session-3.scope\n",
	 "/user.slice/session-3.scope", "", "", ""},
	{"9:pids:/\n4:memory:/batch/job7\n0::/\n", "/batch/job7", "", "", ""},
	{"1:name=systemd:/\n0::/\n", "/", "", "", ""},
	/* names with colons */
	{"0::/batch/a:b:c\n", "/batch/a:b:c", "", "", ""},
	{"no colon\n1:one\n", "", "", "", ""},
	{"", "", "", "", ""},
};

static void texts_of_processes(void **state)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		FILE *f = fmemopen((void *)texts[i].text, strlen(texts[i].text) + 1, "r");
		struct labels l = {0};

		assert_non_null(f);
		labels__from_file(&l, f);
		fclose(f);
		assert_string_equal(l.cgroup, texts[i].cgroup);
		assert_string_equal(l.container, texts[i].container);
		assert_string_equal(l.runtime, texts[i].runtime);
		assert_string_equal(l.pod_uid, texts[i].pod_uid);
	}
}

static void long_paths_are_cut(void **state)
{
	struct labels l = {0};
	char path[2000];

	memset(path, 'a', sizeof(path));
	for (size_t i = 0; i < sizeof(path); i += 100)
		path[i] = '/';
	path[sizeof(path) - 1] = '\0';
	assert_false(labels__from_cgroup(&l, path));
	assert_int_equal(strlen(l.cgroup), sizeof(l.cgroup) - 1);
}

/* A user names the cgroups below its own: the rest of a long path is no other line. */
static void long_paths_are_one_line(void **state)
{
	struct labels l = {0};
	char text[3000];
	FILE *f;

	memset(text, 'a', sizeof(text));
	memcpy(text, "0::/user.slice/", 15);
	for (unsigned at = 1015; at < 1030; at++) {
		memset(text + 15, 'a', sizeof(text) - 15);
		strcpy(text + at, "0::" V1_POD "\n");
		f = fmemopen(text, strlen(text), "r");
		assert_non_null(f);
		l = (struct labels){0};
		labels__from_file(&l, f);
		fclose(f);
		assert_string_equal(l.pod_uid, "");
		assert_string_equal(l.container, "");
	}
}

/* A node's disk, below a folder of the test. */
static char root[] = "/tmp/cudatrace-labels-XXXXXX";

static void touch(const char *path)
{
	char full[512];
	int fd;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0700);
		*p = '/';
	}
	fd = open(full, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void names(void **state)
{
	struct labels l = {.container = ID, .pod_uid = UID};
	char cmd[64];

	assert_non_null(mkdtemp(root));
	touch("/var/log/containers/other-0_default_web-" OTHER ".log");
	touch("/var/log/containers/broken-" ID ".log");
	touch("/var/log/pods/llm_vllm-7d9f-x2x_" UID "/server/0.log");
	labels__find_names(&l, 2000000000, root);
	assert_string_equal(l.pod, "vllm-7d9f-x2x");
	assert_string_equal(l.namespace, "llm");
	assert_string_equal(l.container_name, "");
	snprintf(cmd, sizeof(cmd), "rm -rf %s/var/log/containers", root);
	assert_int_equal(system(cmd), 0);
	touch("/var/log/containers/vllm-7d9f-x2x_llm_server-" ID ".log");
	touch("/var/log/containers/evil\"\n_llm_server-" OTHER ".log");
	l = (struct labels){.container = ID, .pod_uid = UID};
	labels__find_names(&l, 2000000000, root);
	assert_string_equal(l.pod, "vllm-7d9f-x2x");
	assert_string_equal(l.namespace, "llm");
	assert_string_equal(l.container_name, "server");
	l = (struct labels){.container = OTHER, .pod_uid = UID};
	labels__find_names(&l, 2000000000, root);
	assert_string_equal(l.pod, "");
	snprintf(cmd, sizeof(cmd), "rm -rf %s", root);
	assert_int_equal(system(cmd), 0);
}

/* Without the kubelet's files, from the environment at the program's start. */
static void environment(void **state)
{
	struct labels l = {.container = ID, .pod_uid = UID};
	char *big = malloc(100000);
	int status;
	pid_t pid;

	assert_non_null(big);
	memset(big, 'x', 99999);
	big[99999] = '\0';
	pid = fork();
	if (!pid) {
		char *env[] = {"POD_NAME=web-0",
			       "POD_NAMESPACE=a\nb",
			       "MY_POD_NAME=no",
			       big,
			       "POD_NAMESPACE=late",
			       "POD_NAME=second",
			       NULL};

		execle("/bin/sleep", "sleep", "60", NULL, env);
		_exit(1);
	}
	free(big);
	/* Until the child has executed the program: then it has the name. */
	for (int i = 0; i < 1000 && strcmp(l.pod, "web-0"); i++) {
		l = (struct labels){.container = ID, .pod_uid = UID};
		labels__find_names(&l, pid, "/nowhere");
		usleep(10000);
	}
	assert_string_equal(l.pod, "web-0");
	/* Invalid names are ignored. */
	assert_string_equal(l.namespace, "late");
	/* The kubelet's files take precedence. */
	l = (struct labels){.container = ID, .pod_uid = UID, .pod = "known"};
	labels__find_names(&l, pid, "/nowhere");
	assert_string_equal(l.pod, "known");
	assert_string_equal(l.namespace, "late");
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

static void own_process(void **state)
{
	struct labels l;

	assert_int_equal(labels__read(&l, getpid(), ""), 0);
	assert_int_equal(l.cgroup[0], '/');
	assert_int_equal(labels__read(&l, 2000000000, ""), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shapes),
		cmocka_unit_test(texts_of_processes),
		cmocka_unit_test(long_paths_are_cut),
		cmocka_unit_test(long_paths_are_one_line),
		cmocka_unit_test(names),
		cmocka_unit_test(environment),
		cmocka_unit_test(own_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
