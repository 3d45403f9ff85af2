/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "left_out.h"

#include "util/room.h"

static bool any_left_out(void)
{
	bool any = false;

	for (int i = 0; i < ROOM_CNT; i++)
		any |= room_left_out(i) > 0;
	return any;
}

void left_out_json(struct json *j)
{
	if (!any_left_out())
		return;
	json_open(j, "left_out");
	for (int i = 0; i < ROOM_CNT; i++)
		if (room_left_out(i))
			json_u64(j, room_name(i), room_left_out(i));
	json_close(j);
}
