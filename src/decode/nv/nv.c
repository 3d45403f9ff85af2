/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Escapes, UVM and NVKMS commands, status codes, Xids. */
#include "nv.h"

#include <string.h>

#include "nv_priv.h"

#define CTL    (1u << CT_NV_CTL)
#define GPU    (1u << CT_NV_GPU)
#define ANY    (CTL | GPU)
#define UVMDEV (1u << CT_NV_UVM)
#define TOOLS  (1u << CT_NV_UVM_TOOLS)
#define NODEV  0

static const struct nv_escape escapes[] = {
#define ESC(nr, n, devs, p, since, until)	{nr, devs, false, #n, p, since, until},
#define ESC_SHORT(nr, n, devs, p, since, until) {nr, devs, true, #n, p, since, until},
#include "escape.def"
#undef ESC
#undef ESC_SHORT
};

#define UVM_DEV_UVM   UVMDEV
#define UVM_DEV_TOOLS TOOLS
#define UVM_DEV_NODEV NODEV
static const struct nv_uvm uvms[] = {
#define UVM(nr, n, dev, p, since, until) {nr, UVM_DEV_##dev, false, #n, p, since, until},
#define UVM_TEST(nr, n)			 {nr, UVMDEV, true, #n, NULL, 0, UINT32_MAX},
#include "uvm.def"
#undef UVM
#undef UVM_TEST
};

static const struct nv_status_row statuses[] = {
#define STATUS(value, n, since, until) {value, #n, since, until},
#include "status.def"
#undef STATUS
};

#define NA (-1)
static const uint32_t kms_releases[] = {
#define RELEASE(v) v,
#define NVKMS(...)
#include "nvkms.def"
#undef RELEASE
#undef NVKMS
};

static const struct nv_kms kms[] = {
#define RELEASE(v)
#define NVKMS(n, ...) {#n, {__VA_ARGS__}},
#include "nvkms.def"
#undef RELEASE
#undef NVKMS
};

static const struct nv_xid xids[] = {
#define XID(n, text) {n, text},
#include "xid.def"
#undef XID
};

_Static_assert(ARRAY_SIZE(kms_releases) == NV_KMS_RELEASES, "columns of nvkms.def");

const struct nv_escape *nv_escapes(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(escapes);
	return escapes;
}

const struct nv_uvm *nv_uvms(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(uvms);
	return uvms;
}

const struct nv_status_row *nv_statuses(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(statuses);
	return statuses;
}

const struct nv_kms *nv_kms_rows(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(kms);
	return kms;
}

const uint32_t *nv_kms_releases(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(kms_releases);
	return kms_releases;
}

const struct nv_xid *nv_xids(unsigned *cnt)
{
	*cnt = ARRAY_SIZE(xids);
	return xids;
}

const struct nv_escape *nv_escape_by_nr(const struct nv_abi *abi, uint32_t nr, enum nv_fit *fit)
{
	const struct nv_escape *hit = NULL;
	enum nv_fit best = NV_FIT_NONE;

	for (size_t i = 0; i < ARRAY_SIZE(escapes); i++) {
		const struct nv_escape *e = &escapes[i];
		enum nv_fit f = nv_fit_range(abi, e->since, e->until);

		if (e->nr != nr || e->is_short || f >= best)
			continue;
		hit = e;
		best = f;
	}
	nv_fit_set(fit, best);
	return hit;
}

const struct nv_uvm *nv_uvm_by_number(const struct nv_abi *abi, uint32_t number, enum nv_fit *fit)
{
	for (size_t i = 0; i < ARRAY_SIZE(uvms); i++) {
		const struct nv_uvm *u = &uvms[i];

		if (u->number != number)
			continue;
		nv_fit_set(fit,
			   u->is_test ? NV_FIT_PARTIAL : nv_fit_range(abi, u->since, u->until));
		return u;
	}
	nv_fit_set(fit, NV_FIT_NONE);
	return NULL;
}

const char *nv_status_name(const struct nv_abi *abi, uint32_t status, enum nv_fit *fit)
{
	const char *name = NULL;
	enum nv_fit best = NV_FIT_NONE;

	for (size_t i = 0; i < ARRAY_SIZE(statuses) && statuses[i].value <= status; i++) {
		const struct nv_status_row *s = &statuses[i];
		enum nv_fit f = nv_fit_range(abi, s->since, s->until);

		if (s->value != status || f >= best)
			continue;
		name = s->name;
		best = f;
	}
	nv_fit_set(fit, best);
	return name;
}

static const char *kms_in_release(unsigned release, uint32_t cmd)
{
	for (size_t i = 0; i < ARRAY_SIZE(kms); i++)
		if (kms[i].cmd[release] >= 0 && (uint32_t)kms[i].cmd[release] == cmd)
			return kms[i].name;
	return NULL;
}

/*
 * Eight releases are known. A number from a release of the running branch is trusted. Between two
 * other releases, a number is trusted if both have the same name for it, and is a hint if they
 * differ.
 */
const char *nv_kms_name(const struct nv_abi *abi, uint32_t cmd, enum nv_fit *fit)
{
	unsigned lo = 0, hi;
	const char *below, *above;

	while (lo + 1 < NV_KMS_RELEASES && kms_releases[lo + 1] <= abi->key)
		lo++;
	hi = kms_releases[lo] < abi->key && lo + 1 < NV_KMS_RELEASES ? lo + 1 : lo;
	if (kms_releases[hi] >> 20 == abi->key >> 20)
		lo = hi;
	else if (kms_releases[lo] >> 20 == abi->key >> 20)
		hi = lo;
	below = kms_in_release(lo, cmd);
	above = kms_in_release(hi, cmd);
	if (!below && !above) {
		nv_fit_set(fit, NV_FIT_NONE);
		return NULL;
	}
	nv_fit_set(fit, below && above && !strcmp(below, above) ? NV_FIT_EXACT : NV_FIT_OTHER);
	return below ? below : above;
}

const char *nv_xid_text(unsigned number)
{
	for (size_t i = 0; i < ARRAY_SIZE(xids); i++)
		if (xids[i].number == number)
			return xids[i].text;
	return NULL;
}

const char *nv_dev_name(enum ct_nv_dev dev)
{
	static const char *const names[CT_NV_DEV_CNT] = {
		[CT_NV_CTL] = "nvidiactl",
		[CT_NV_GPU] = "nvidiaN",
		[CT_NV_MODESET] = "nvidia-modeset",
		[CT_NV_UVM] = "nvidia-uvm",
		[CT_NV_UVM_TOOLS] = "nvidia-uvm-tools",
	};

	return dev < CT_NV_DEV_CNT && names[dev] ? names[dev] : "nvidia-other";
}

const char *nv_heap_function_name(uint32_t function)
{
	static const struct {
		uint32_t nr;
		const char *name;
	} names[] = {
#define HEAP(nr, name) {nr, #name},
#include "heap.def"
#undef HEAP
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].nr == function)
			return names[i].name;
	return NULL;
}
