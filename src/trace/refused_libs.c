/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "refused_libs.h"

#include "util/clock.h"

#include <stddef.h>
#include <string.h>

/* Memory may be free again after this time. */
#define REFUSED_NS (30 * SEC_NS)
#define SHARE	   (REFUSED_LIBS_MAX / 8)

void refused_libs__add(struct refused_libs *r, const struct ct_lib_key *key, uid_t uid,
		       uint64_t now)
{
	struct refused_lib *place = NULL, *oldest = NULL;
	unsigned mine = 0;

	for (unsigned i = 0; i < REFUSED_LIBS_MAX; i++) {
		struct refused_lib *lib = &r->libs[i];

		if (lib->until_ns <= now) {
			place = lib;
		} else if (lib->uid == uid) {
			mine++;
			if (!oldest || lib->until_ns < oldest->until_ns)
				oldest = lib;
		}
	}
	if (mine >= SHARE)
		place = oldest;
	if (place)
		*place =
			(struct refused_lib){.key = *key, .uid = uid, .until_ns = now + REFUSED_NS};
}

bool refused_libs__has(const struct refused_libs *r, const struct ct_lib_key *key, uint64_t now)
{
	for (unsigned i = 0; i < REFUSED_LIBS_MAX; i++)
		if (r->libs[i].until_ns > now && !memcmp(&r->libs[i].key, key, sizeof(*key)))
			return true;
	return false;
}
