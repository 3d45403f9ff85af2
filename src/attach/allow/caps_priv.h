/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The probe functions of caps.c's table. */
#ifndef ATTACH_ALLOW_CAPS_PRIV_H
#define ATTACH_ALLOW_CAPS_PRIV_H

#include "caps.h"

__attribute__((format(printf, 2, 3))) void cap_set_detail(struct cap *c, const char *fmt, ...);

bool cap_is_admin(void); /* CAP_SYS_ADMIN */
/* kernel.ftrace_enabled: without it, probes on kernel functions attach but never fire. Sets the
 * row's detail if it is off. */
bool cap_ftrace_on(struct cap *c);

/* caps_bpf.c: by trying */
enum cap_state cap_try_read_kernel(struct cap *c);
enum cap_state cap_probe_bpf_load(struct cap *c);
enum cap_state cap_probe_ringbuf(struct cap *c);
enum cap_state cap_probe_cookie(struct cap *c);
enum cap_state cap_probe_uprobe(struct cap *c);
enum cap_state cap_probe_multi(struct cap *c);
enum cap_state cap_probe_session(struct cap *c);
enum cap_state cap_session_kfunc(struct cap *c);
enum cap_state cap_probe_tp_process(struct cap *c);
enum cap_state cap_probe_tp_unmapped_area(struct cap *c);
enum cap_state cap_probe_kprobe_multi(struct cap *c);
enum cap_state cap_probe_fentry(struct cap *c);
enum cap_state cap_probe_tp_btf(struct cap *c);

/* caps_sys.c: by reading /proc and /sys */
enum cap_state cap_probe_kernel(struct cap *c);
enum cap_state cap_probe_priv_bpf(struct cap *c);
enum cap_state cap_probe_priv_perfmon(struct cap *c);
enum cap_state cap_probe_priv_ptrace(struct cap *c);
enum cap_state cap_probe_lockdown(struct cap *c);
enum cap_state cap_probe_btf(struct cap *c);
enum cap_state cap_probe_map_files(struct cap *c);
enum cap_state cap_probe_pidns(struct cap *c);
enum cap_state cap_probe_kprobe(struct cap *c);
enum cap_state cap_probe_tracefs(struct cap *c);
enum cap_state cap_probe_paranoid(struct cap *c);
enum cap_state cap_probe_yama(struct cap *c);
enum cap_state cap_probe_seccomp(struct cap *c);
enum cap_state cap_probe_shstk(struct cap *c);
enum cap_state cap_probe_memlock(struct cap *c);
enum cap_state cap_probe_nofile(struct cap *c);
enum cap_state cap_probe_nv_driver(struct cap *c);
enum cap_state cap_probe_nv_devices(struct cap *c);

#endif /* ATTACH_ALLOW_CAPS_PRIV_H */
