/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Container and pod of a process: from its cgroup path, with names from the kubelet's files on the
 * node's disk. All input is untrusted text: lengths are limited, and invalid labels are dropped.
 */
#ifndef METRICS_LABELS_H
#define METRICS_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define LABEL_ID_SZ   80  /* container ids are 64 hexadecimal digits; LXC and ctr have names */
#define LABEL_NAME_SZ 256 /* Kubernetes names have at most 253 characters */

struct labels {
	char cgroup[512];	     /* the path, truncated; "" when it could not be read */
	char container[LABEL_ID_SZ]; /* "" outside of containers, or when the path's shape is
					unknown */
	char runtime[16];	     /* "docker", "containerd", "cri-o", "podman", "lxc", ... */
	char pod_uid[40];	     /* with dashes, as the API server writes it */
	char pod[LABEL_NAME_SZ];
	char namespace[64];
	char container_name[LABEL_NAME_SZ];
};

/* Parses one cgroup path into container, runtime, pod_uid. The innermost container counts. Returns
 * false when the path is of no known container (cgroup is filled all the same). */
bool labels__from_cgroup(struct labels *l, const char *path);
/* As labels__from_cgroup(), from the text of /proc/PID/cgroup: lines "0::PATH" (v2) and
 * "N:CONTROLLERS:PATH" (v1). l must be zeroed. */
void labels__from_file(struct labels *l, FILE *f);
/*
 * Finds the names of a known pod_uid and container. root: where the machine's files are ("" when
 * this runs on the machine itself, "/host" or the like in a container). Sources, in this order:
 * /var/log/containers (the kubelet names files POD_NAMESPACE_CONTAINER-ID.log), /var/log/pods
 * (NAMESPACE_POD_UID), POD_NAME and POD_NAMESPACE in pid's initial environment, the service
 * account's namespace and the hostname in its container. The container itself controls the last
 * two.
 */
void labels__find_names(struct labels *l, pid_t pid, const char *root);
/* Reads all labels of a process. -ESRCH: no such process. */
int labels__read(struct labels *l, pid_t pid, const char *root);

#endif /* METRICS_LABELS_H */
