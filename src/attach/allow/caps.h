/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What this kernel and this user allow, one row each: what it is, what is lost without it, what to
 * do. A row is probed when it is first asked for, and then remembered.
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
	CAP_NEEDED, /* no trace without it */
	CAP_BETTER, /* something is lost without it */
	CAP_INFO,   /* CUDA calls are traced without it; some of it serves --kernel */
};

enum cap_state {
	CAP_UNPROBED = 0,
	CAP_YES,
	CAP_NO,
	CAP_UNKNOWN, /* could not be tried: another thing is missing first */
};

struct cap {
	const char *name; /* in JSON */
	const char *what;
	const char *lost; /* a sentence */
	const char *fix;
	enum cap_need need;
	enum cap_state (*probe)(struct cap *c);
	/* Of a row that is there, what takes long to find out: for caps__all() alone. Without it
	 * whoever needs the row finds out by trying. */
	enum cap_state (*look_closer)(struct cap *c);
	/* found: */
	enum cap_state state;
	char detail[256]; /* a version, an error message; may be "" */
};

const struct cap *caps__get(enum cap_id id);
bool caps__has(enum cap_id id);
/* All rows, probed; indexed by enum cap_id. */
const struct cap *caps__all(unsigned *cnt);
/* Everything needed is there. */
bool caps__can_trace(void);
/* Why this user, or the seccomp profile of this container, may not have uprobes; NULL: they may.
 * Static. */
const char *caps__refused(void);
/* NULL when privileges suffice; else the end of an error message: which one is missing, and what to
 * do. Static. */
const char *caps__missing_privilege(void);
/* Why this process may not look into another, as the end of an error message. Static. */
const char *caps__why_refused(void);
/* No privilege that is given here counts outside: setcap and sudo inside of it do not help. */
bool caps__in_user_namespace(void);
/* Fills out with sentences that say what this machine loses; returns how many. Strings are static.
 * Probes only what is CAP_BETTER. */
unsigned caps__degraded(const char *out[], unsigned max);
/* The best that works; MECH_PERF when nothing does. */
enum mechanism caps__best_mechanism(void);
/* How --kernel can see the driver here, best first; returns how many. */
unsigned caps__nv_probes(enum nv_probe out[NV_PROBE_CNT]);

#endif /* ATTACH_ALLOW_CAPS_H */
