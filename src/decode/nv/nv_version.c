/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Maps a version string to the branch whose tables apply. */
#include "nv.h"

#include <ctype.h>
#include <string.h>

#include "nv_priv.h"

static const uint16_t branches[] = {
#define BRANCH(n) n,
	NV_BRANCHES(BRANCH)
#undef BRANCH
};

#define BRANCH_CNT (sizeof(branches) / sizeof(branches[0]))
#define OLDEST	   NV_VER(515, 43, 4)
#define NEWEST	   NV_VER(595, 45, 4)

static const char *number(const char *s, unsigned *n)
{
	unsigned digits = 0;

	*n = 0;
	for (; isdigit((unsigned char)*s); s++) {
		if (++digits > 4)
			return NULL;
		*n = *n * 10 + (unsigned)(*s - '0');
	}
	return digits ? s : NULL;
}

bool nv_version_parse(const char *text, struct nv_version *v)
{
	struct nv_version r = {0};
	const char *s = number(text, &r.major);

	if (!s || *s != '.')
		return false;
	s = number(s + 1, &r.minor);
	if (!s)
		return false;
	if (*s == '.') {
		s = number(s + 1, &r.patch);
		if (!s)
			return false;
	}
	if (*s && !isspace((unsigned char)*s))
		return false;
	/* NVIDIA's majors have three digits; anything below is a kernel or gcc version. */
	if (r.major < 100 || r.major > 999 || r.minor > 1023 || r.patch > 1023)
		return false;
	*v = r;
	return true;
}

void nv_abi_init(struct nv_abi *abi, const struct nv_version *v)
{
	unsigned b = BRANCH_CNT - 1;

	memset(abi, 0, sizeof(*abi));
	abi->key = NEWEST;
	abi->branch = (uint8_t)b;
	if (!v) {
		abi->known = NV_KNOWN_NOTHING;
		return;
	}
	abi->version = *v;
	if (v->major > branches[b]) {
		abi->known = NV_KNOWN_NEWER;
		return;
	}
	while (b > 0 && branches[b] > v->major)
		b--;
	abi->branch = (uint8_t)b;
	abi->known = v->major < branches[0] ? NV_KNOWN_OLDER : NV_KNOWN;
	abi->key = NV_VER(v->major, v->minor > 1023 ? 1023 : v->minor,
			  v->patch > 1023 ? 1023 : v->patch);
	if (abi->key < OLDEST)
		abi->key = OLDEST;
}

unsigned nv_abi_branch(const struct nv_abi *abi)
{
	return branches[abi->branch];
}

const char *nv_abi_caveat(const struct nv_abi *abi)
{
	switch (abi->known) {
	case NV_KNOWN_NEWER:
		return "the driver is newer than the tables: the layouts of 595 are used";
	case NV_KNOWN_OLDER:
		return "the driver is older than the tables: the layouts of 515 are used";
	case NV_KNOWN_NOTHING:
		return "the driver's version is unknown: the layouts of 595 are used";
	default:
		return NULL;
	}
}

enum nv_fit nv_fit_range(const struct nv_abi *abi, uint32_t since, uint32_t until)
{
	if (abi->key < since)
		return NV_FIT_OTHER;
	/* The last release with a row is the last one examined: later ones of its branch are
	 * assumed to have it too. */
	if (abi->key > until && abi->key >> 20 > until >> 20)
		return NV_FIT_OTHER;
	return NV_FIT_EXACT;
}

enum nv_fit nv_fit_branches(const struct nv_abi *abi, uint16_t mask, uint16_t partial)
{
	uint16_t bit = (uint16_t)(1u << abi->branch);

	if (partial & bit)
		return NV_FIT_PARTIAL;
	return mask & bit ? NV_FIT_EXACT : NV_FIT_OTHER;
}
