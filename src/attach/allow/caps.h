/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Capabilities of this kernel and this user. Each row has a feature, what is missing without it,
 * and what to do. A row is probed when it is first needed, and cached.
 */
#ifndef ATTACH_ALLOW_CAPS_H
#define ATTACH_ALLOW_CAPS_H

#include "attach/probe/mechanism.h"

#include <stdbool.h>

enum cap_id {
	/* needed */
	CAP_KERNEL,
	CAP_PRIV_BPF,
	CAP_PRIV_PERFMON,
	CAP_LOCKDOWN,
	CAP_BPF_LOAD,
	CAP_BTF,
	CAP_RINGBUF,
	CAP_COOKIE,
	CAP_UPROBE,
	CAP_TP_PROCESS,
	/* better with */
	CAP_UPROBE_MULTI,
	CAP_UPROBE_SESSION,
	CAP_TP_UNMAPPED_AREA,
	CAP_MAP_FILES,
	CAP_PRIV_PTRACE,
	CAP_PIDNS,
	/* for information */
	CAP_KPROBE_MULTI,
	CAP_FENTRY,
	CAP_KPROBE,
	CAP_TP_BTF,
	CAP_TRACEFS,
	CAP_PARANOID,
	CAP_YAMA,
	CAP_SECCOMP,
	CAP_SHSTK,
	CAP_MEMLOCK,
	CAP_NOFILE,
	CAP_NV_DRIVER,
	CAP_NV_DEVICES,
	CAP_CNT
};

enum cap_need {
	CAP_NEEDED, /* required for a trace */
	CAP_BETTER, /* optional; without it something is missing */
	CAP_INFO,   /* CUDA calls are traced without it; some rows serve --kernel */
};

enum cap_state {
	CAP_UNPROBED = 0,
	CAP_YES,
	CAP_NO,
	CAP_UNKNOWN, /* could not be tried: a prerequisite is missing */
};

struct cap {
	const char *name; /* in JSON */
	const char *what;
	const char *lost; /* a sentence */
	const char *fix;
	enum cap_need need;
	enum cap_state (*probe)(struct cap *c);
	/* Slow check of a row that is available: for caps__all() only. Otherwise the first use of
	 * the mechanism detects a failure. */
	enum cap_state (*look_closer)(struct cap *c);
	/* results: */
	enum cap_state state;
	char detail[256]; /* a version, an error message; may be "" */
};

const struct cap *caps__get(enum cap_id id);
bool caps__has(enum cap_id id);
/* Returns all rows, probed; indexed by enum cap_id. */
const struct cap *caps__all(unsigned *cnt);
/* Returns whether everything required is available. */
bool caps__can_trace(void);
/* Returns why this user, or the container's seccomp profile, may not use uprobes; NULL: allowed.
 * Static. */
const char *caps__refused(void);
/* Returns NULL if privileges suffice; else the end of an error message: the missing privilege, and
 * what to do. Static. */
const char *caps__missing_privilege(void);
/* Returns why this process may not read another process, as the end of an error message. Static. */
const char *caps__why_refused(void);
/* Returns whether this is a user namespace. Privileges within it do not count outside, so setcap
 * and sudo inside do not help. */
bool caps__in_user_namespace(void);
/* Fills out with sentences about what is missing on this machine. Returns their number. Strings are
 * static. Probes only CAP_BETTER rows. */
unsigned caps__degraded(const char *out[], unsigned max);
/* Returns the best mechanism that works; MECH_PERF if none does. */
enum mechanism caps__best_mechanism(void);
/* Lists the mechanisms for --kernel here, best first. Returns their number. */
unsigned caps__nv_probes(enum nv_probe out[NV_PROBE_CNT]);

#endif /* ATTACH_ALLOW_CAPS_H */
