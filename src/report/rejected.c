/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "rejected.h"

#include "util/memlimit.h"

static bool any_rejected(void)
{
	bool any = false;

	for (int i = QUOTA_CNT; i < LIMIT_TABLE_CNT; i++)
		any |= memlimit_rejected(i) > 0;
	return any;
}

void rejected_json(struct json *j)
{
	if (!any_rejected())
		return;
	json_open(j, "rejected");
	for (int i = QUOTA_CNT; i < LIMIT_TABLE_CNT; i++)
		if (memlimit_rejected(i))
			json_u64(j, limit_name(i), memlimit_rejected(i));
	json_close(j);
}
