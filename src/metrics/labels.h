/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which container and pod a process belongs to: from its cgroup path, and the names from what the
 * kubelet leaves on the node's disk. Everything that is read is somebody else's text: lengths are
 * bounded, what is no label is left out.
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
	char cgroup[512];	     /* the path, cut; "" when it could not be read */
	char container[LABEL_ID_SZ]; /* "" outside of containers, or when the path's shape is
					unknown */
	char runtime[16];	     /* "docker", "containerd", "cri-o", "podman", "lxc", ... */
	char pod_uid[40];	     /* with dashes, as the API server writes it */
	char pod[LABEL_NAME_SZ];
	char namespace[64];
	char container_name[LABEL_NAME_SZ];
};

/* What one cgroup path says: container, runtime, pod_uid. The innermost container counts. Returns
 * false when the path is of no known container (cgroup is filled all the same). */
bool labels__from_cgroup(struct labels *l, const char *path);
/* The same from the text of /proc/PID/cgroup: lines "0::PATH" (v2) and "N:CONTROLLERS:PATH" (v1). l
 * must be zeroed. */
void labels__from_file(struct labels *l, FILE *f);
/*
 * Names for a pod_uid and container that are known. root: where the machine's files are ("" when
 * this runs on the machine itself, "/host" or the like in a container). They come, in this order,
 * from /var/log/containers (the kubelet names files POD_NAMESPACE_CONTAINER-ID.log), from
 * /var/log/pods (NAMESPACE_POD_UID), from POD_NAME and POD_NAMESPACE in the environment that
 * pid was started with, from the service account's namespace and the hostname in its container. The
 * last two are what the container says of itself.
 */
void labels__find_names(struct labels *l, pid_t pid, const char *root);
/* All of a process. -ESRCH: no such process. */
int labels__read(struct labels *l, pid_t pid, const char *root);

#endif /* METRICS_LABELS_H */
