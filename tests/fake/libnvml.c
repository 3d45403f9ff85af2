/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A mock of libnvidia-ml.so.1. Its values are in $FAKE_NVML, words NAME=NUMBER:
 *   devices=N, mig=N (MIG devices of GPU 0), gpm=1, pids=A,B (processes on GPU 0),
 *   pidfile=FILE (has them)
 *   util, memory_mib, power_mw, reasons, xid (reported at the third sample), ...: see number()
 *   nvmlFUNCTION=ERROR: it fails with this error   hang=nvmlFUNCTION   crash=nvmlFUNCTION
 *   hostile=1: names without an end, bytes that are no text, impossible numbers
 * With -DOLD only the functions of drivers before 460.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef void *device;

/* Behind "NAME=", at the start or after a blank. NULL: it is not there. */
static const char *word(const char *name)
{
	const char *all = getenv("FAKE_NVML"), *p = all;
	size_t len = strlen(name);

	while (p && (p = strstr(p, name))) {
		if ((p == all || p[-1] == ' ') && p[len] == '=')
			return p + len + 1;
		p += len;
	}
	return NULL;
}

/* Numbers of processes, separated by commas. NULL: none. */
static const char *pids_here(void)
{
	static char text[128], path[256];
	const char *file = word("pidfile");
	FILE *f;

	if (!file)
		return word("pids");
	snprintf(path, sizeof(path), "%.*s", (int)strcspn(file, " "), file);
	f = fopen(path, "re");
	if (!f)
		return NULL;
	text[fread(text, 1, sizeof(text) - 1, f)] = 0;
	fclose(f);
	return *text ? text : NULL;
}

static unsigned long long number(const char *name, unsigned long long otherwise)
{
	const char *p = word(name);

	return p ? strtoull(p, NULL, 0) : otherwise;
}

static int is_for(const char *what, const char *fn)
{
	const char *p = word(what);

	return p && !strncmp(p, fn, strlen(fn)) && (p[strlen(fn)] == ' ' || !p[strlen(fn)]);
}

/* The error that the function must return; 0: none. */
static int refused(const char *fn)
{
	if (is_for("crash", fn))
		raise(SIGSEGV);
	while (is_for("hang", fn))
		pause();
	return number(fn, 0);
}
#define BEGIN                                                                                      \
	do {                                                                                       \
		int ret_ = refused(__func__);                                                      \
		if (ret_)                                                                          \
			return ret_;                                                               \
	} while (0)

/* Devices are 1, 2, ...; MIG devices of the first 0x101, ... */
static unsigned index_of(device d)
{
	return ((uintptr_t)d & 0xff) - 1;
}

static int is_mig(device d)
{
	return (uintptr_t)d >> 8 & 1;
}

static void put_text(char *to, unsigned size, const char *text)
{
	if (number("hostile", 0)) {
		memset(to, 'x', size);
		memcpy(to, "\x1b[31m\"\\\xff\n", 9);
	} else {
		snprintf(to, size, "%s", text);
	}
}

static unsigned calls; /* of nvmlDeviceGetMemoryInfo, on GPU 0: samples */

int nvmlInit_v2(void)
{
	BEGIN;
	return 0;
}

const char *nvmlErrorString(int ret)
{
	return number("hostile", 0) ? "\x1b[2Jgone \x1b]0;x\a"
	       : ret == 9	    ? "Driver Not Loaded"
	       : ret == 15	    ? "GPU is lost"
				    : "Unknown Error";
}

int nvmlDeviceGetCount_v2(unsigned *cnt)
{
	BEGIN;
	*cnt = number("devices", 1);
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d)
{
	BEGIN;
	*d = (device)(uintptr_t)(i + 1);
	return 0;
}

int nvmlDeviceGetName(device d, char *name, unsigned size)
{
	BEGIN;
	put_text(name, size, is_mig(d) ? "NVIDIA Fake H100 MIG 1g.10gb" : "NVIDIA Fake H100");
	return 0;
}

int nvmlDeviceGetUUID(device d, char *uuid, unsigned size)
{
	char text[64];

	BEGIN;
	snprintf(text, sizeof(text), "%s-0000000%u-1111-2222-3333-444444444444",
		 is_mig(d) ? "MIG" : "GPU", index_of(d));
	put_text(uuid, size, text);
	return 0;
}

int nvmlDeviceGetMinorNumber(device d, unsigned *minor)
{
	BEGIN;
	*minor = index_of(d);
	return 0;
}

struct pci {
	char legacy[16];
	unsigned numbers[5];
	char id[32];
};

int nvmlDeviceGetPciInfo_v3(device d, struct pci *pci)
{
	BEGIN;
	memset(pci, 0, sizeof(*pci));
	snprintf(pci->id, sizeof(pci->id), "00000000:%02X:00.0", 0x3b + index_of(d));
	if (number("hostile", 0))
		memset(pci->id, 'p', sizeof(pci->id));
	return 0;
}

int nvmlDeviceGetUtilizationRates(device d, unsigned *rates)
{
	BEGIN;
	rates[0] = number("hostile", 0) ? 4294967295u : number("util", 50);
	rates[1] = number("memory_util", 20);
	return 0;
}

/* Grows by 64 MiB per sample. */
int nvmlDeviceGetMemoryInfo(device d, unsigned long long *m)
{
	unsigned long long used = number("memory_mib", 1000) << 20;

	BEGIN;
	m[0] = 81920ull << 20;
	m[2] = used + (index_of(d) ? 0 : ((unsigned long long)calls << 26));
	m[1] = m[0] - m[2];
	return 0;
}

int nvmlDeviceGetPowerUsage(device d, unsigned *mw)
{
	BEGIN;
	*mw = number("power_mw", 345678);
	return 0;
}

/* A constant power since the first call. */
int nvmlDeviceGetTotalEnergyConsumption(device d, unsigned long long *mj)
{
	static struct timespec first;
	struct timespec now;

	BEGIN;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!first.tv_sec)
		first = now;
	*mj = number("energy_mj", 1000000000) +
	      number("power_mw", 345678) *
		      ((now.tv_sec - first.tv_sec) + (now.tv_nsec - first.tv_nsec) / 1e9);
	return 0;
}

int nvmlDeviceGetClockInfo(device d, unsigned which, unsigned *mhz)
{
	BEGIN;
	*mhz = which == 1 ? number("sm_mhz", 1755) : number("memory_mhz", 2619);
	return 0;
}

int nvmlDeviceGetTemperature(device d, unsigned sensor, unsigned *celsius)
{
	BEGIN;
	*celsius = number("celsius", 51);
	return 0;
}

int nvmlDeviceGetPcieThroughput(device d, unsigned which, unsigned *kib)
{
	BEGIN;
	*kib = number(which ? "pcie_rx" : "pcie_tx", which ? 2000 : 1000);
	return 0;
}

int nvmlDeviceGetTotalEccErrors(device d, unsigned type, unsigned counter, unsigned long long *cnt)
{
	BEGIN;
	*cnt = number(type ? "ecc_bad" : "ecc_good", type ? 0 : 3);
	return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device d, unsigned long long *bits)
{
	BEGIN;
	*bits = number("reasons", 0);
	return 0;
}

struct util {
	unsigned pid;
	unsigned long long stamp;
	unsigned sm, memory, encoder, decoder;
};

/* Two samples per process since the last requested one, and an old one. */
int nvmlDeviceGetProcessUtilization(device d, struct util *u, unsigned *cnt,
				    unsigned long long seen)
{
	const char *pids = pids_here();
	unsigned room = *cnt, n = 0;
	static unsigned long long now = 1000000;

	BEGIN;
	if (index_of(d) || !pids)
		return 6;
	now += 1000;
	while (pids && n + 3 <= room) {
		unsigned pid = strtoul(pids, NULL, 10);

		u[n++] = (struct util){pid, 5, 99, 99, 99, 99};
		u[n++] = (struct util){pid, now - 1, 40, 10, 0, 0};
		u[n++] = (struct util){pid, now, 60, 20, 0, 2};
		pids = strpbrk(pids, ", ");
		pids = pids && *pids == ',' ? pids + 1 : NULL;
	}
	*cnt = number("hostile", 0) ? 4000000000u : n;
	return 0;
}

#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(device d, uint32_t *m)
{
	unsigned long long *v = (void *)(m + 2);
	unsigned long long old[3];
	int ret;

	BEGIN;
	if (*m != (2u << 24 | 40))
		return 25;
	if (!index_of(d) && !is_mig(d))
		calls++;
	ret = nvmlDeviceGetMemoryInfo(d, old);
	v[0] = old[0];
	v[1] = 600 << 20;
	v[2] = old[1] - v[1];
	v[3] = old[2];
	return ret;
}

int nvmlDeviceGetCurrentClocksEventReasons(device d, unsigned long long *bits)
{
	BEGIN;
	*bits = number("reasons", 0);
	return 0;
}

struct field {
	unsigned id, scope;
	long long stamp, latency;
	unsigned type;
	int ret;
	unsigned long long value;
};

/* 1 MiB more at each call. */
int nvmlDeviceGetFieldValues(device d, int cnt, struct field *f)
{
	static unsigned long long kib;

	BEGIN;
	kib += 1024;
	for (int i = 0; i < cnt; i++) {
		f[i].ret = 0;
		f[i].value = kib;
	}
	return 0;
}

struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *cnt, struct process *p)
{
	const char *pids = pids_here();
	unsigned room = *cnt, n = 0;

	BEGIN;
	for (; pids && !index_of(d) && n < room; n++) {
		p[n] = (struct process){strtoul(pids, NULL, 10), 700ull << 20, -1, -1};
		pids = strpbrk(pids, ", ");
		pids = pids && *pids == ',' ? pids + 1 : NULL;
	}
	*cnt = number("hostile", 0) ? 4000000000u : n;
	return 0;
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned *cnt, struct process *p)
{
	BEGIN;
	*cnt = 0;
	return 0;
}

int nvmlEventSetCreate(void **set)
{
	BEGIN;
	*set = &calls;
	return 0;
}

static unsigned watched;

int nvmlDeviceRegisterEvents(device d, unsigned long long types, void *set)
{
	BEGIN;
	watched += types == 8;
	return 0;
}

struct event {
	device d;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};

int nvmlEventSetWait_v2(void *set, struct event *e, unsigned ms)
{
	static int reported;

	BEGIN;
	if (!watched || reported || !word("xid") || calls < 2 || ms)
		return 10;
	reported = 1;
	*e = (struct event){(device)1, 8, number("xid", 0), -1, -1};
	return 0;
}

int nvmlDeviceGetMigMode(device d, unsigned *current, unsigned *pending)
{
	BEGIN;
	*current = *pending = !index_of(d) && number("mig", 0);
	return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *cnt)
{
	BEGIN;
	*cnt = number("hostile", 0) ? 4000000000u : 7;
	return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *mig)
{
	BEGIN;
	if (i >= number("mig", 0))
		return 6;
	*mig = (device)(uintptr_t)(0x100 | (i + 1));
	return 0;
}

int nvmlDeviceGetGpuInstanceId(device d, unsigned *id)
{
	BEGIN;
	*id = 7 + index_of(d);
	return 0;
}

int nvmlDeviceGetComputeInstanceId(device d, unsigned *id)
{
	BEGIN;
	*id = 0;
	return 0;
}

int nvmlGpmQueryDeviceSupport(device d, unsigned *support)
{
	BEGIN;
	if (support[0] != 1)
		return 25;
	support[1] = number("gpm", 0);
	return 0;
}

int nvmlGpmSampleAlloc(void **sample)
{
	BEGIN;
	*sample = calloc(1, 8);
	return 0;
}

static unsigned taken;

int nvmlGpmSampleGet(device d, unsigned *sample)
{
	BEGIN;
	*sample = ++taken;
	return 0;
}

int nvmlGpmMigSampleGet(device d, unsigned gpu_instance, unsigned *sample)
{
	BEGIN;
	if (gpu_instance < 7)
		return 2;
	*sample = ++taken;
	return 0;
}

struct gpm {
	unsigned version, cnt;
	unsigned *older, *newer;
	struct {
		unsigned id;
		int ret;
		double value;
		char *words[3];
	} metrics[];
};

/* A metric's value is its own number; two thirds of the hostile ones are not a number. */
int nvmlGpmMetricsGet(struct gpm *g)
{
	BEGIN;
	if (g->version != 1 || *g->older >= *g->newer)
		return 2;
	for (unsigned i = 0; i < g->cnt; i++) {
		g->metrics[i].ret = g->metrics[i].id == 12 ? 3 : 0;
		g->metrics[i].value = g->metrics[i].id + 0.5;
		if (number("hostile", 0))
			g->metrics[i].value = i % 3 == 0 ? 0.0 / 0.0 : i % 3 == 1 ? -5 : 1e300;
	}
	return 0;
}
#endif
