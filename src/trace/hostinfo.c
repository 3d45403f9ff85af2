/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "hostinfo.h"

#include "attach/allow/caps.h"
#include "util/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Source: table of driver branches in NVIDIA's CUDA compatibility documentation. */
static const struct {
	int branch, cuda;
} branches[] = {
	{450, 11000}, {455, 11010}, {460, 11020}, {465, 11030}, {470, 11040},
	{495, 11050}, {510, 11060}, {515, 11070}, {520, 11080}, {525, 12000},
	{530, 12010}, {535, 12020}, {545, 12030}, {550, 12040}, {555, 12050},
	{560, 12060}, {565, 12070}, {570, 12080}, {575, 12090}, {580, 13000},
};

/* Returns the CUDA version of a driver's branch, from its version ("580.159.04"); 0 when
 * unknown. */
static int cuda_version_of(const char *driver)
{
	int branch = atoi(driver);

	for (unsigned i = 0; i < sizeof(branches) / sizeof(branches[0]); i++)
		if (branches[i].branch == branch)
			return branches[i].cuda;
	return 0;
}

static void read_word(const char *path, char word[64])
{
	FILE *f = fopen(path, "re");

	if (f && fscanf(f, "%63s", word) != 1)
		word[0] = 0;
	if (f)
		fclose(f);
}

void hostinfo__read(struct hostinfo *f)
{
	memset(f, 0, sizeof(*f));
	uname(&f->uts);
	read_word("/proc/sys/kernel/random/boot_id", f->boot_id);
	read_word("/sys/module/nvidia/version", f->driver);
	f->cuda_version = cuda_version_of(f->driver);
}

/* Checks the choice of --mechanism. */
static int check_mechanism(enum mechanism mech)
{
	bool has = mech == MECH_SESSION ? caps__has(CAP_UPROBE_SESSION)
		   : mech == MECH_MULTI ? caps__has(CAP_UPROBE_MULTI)
					: true;

	if (has)
		return 0;
	err("--mechanism: this kernel has no %s: leave the option out to use the best "
	    "that it has",
	    mechanism_name(mech));
	return -ENOTSUP;
}

int hostinfo__check_caps(enum mechanism mech)
{
	static const enum cap_id ids[] = {CAP_KERNEL, CAP_PRIV_BPF, CAP_PRIV_PERFMON, CAP_LOCKDOWN,
					  CAP_BTF,    CAP_BPF_LOAD, CAP_UPROBE};
	const struct cap *first = NULL;
	char names[256] = "";
	size_t n = 0;

	for (unsigned i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		const struct cap *cap;

		/* These are detected by trying, which needs the capabilities above. */
		if (first && ids[i] >= CAP_BPF_LOAD)
			break;
		cap = caps__get(ids[i]);
		if (cap->state != CAP_NO)
			continue;
		n += snprintf(names + n, sizeof(names) - n, "%s%s", n ? ", " : "", cap->what);
		first = first ? first : cap;
	}
	if (!first)
		return check_mechanism(mech);
	err("cannot trace without: %s: %s%s%s; or trace a command in-process, which "
	    "needs none of them: cudatrace --probe=inject -- COMMAND",
	    names, first->detail, first->detail[0] ? ": " : "", first->fix);
	return -EPERM;
}
