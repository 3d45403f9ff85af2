/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "left_out.h"

#include "text/numbers.h"
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

void left_out_print(const struct term *term)
{
	char cnt[CELL_SZ];

	if (!any_left_out())
		return;
	term_section(term, "Left out",
		     "more than a report has room for; the numbers above lack it");
	for (int i = 0; i < ROOM_CNT; i++) {
		if (!room_left_out(i))
			continue;
		human_count(cnt, room_left_out(i));
		term_para(term, "%s: no place for one more, %s time%s", room_text(i), cnt,
			  plural(room_left_out(i)));
	}
}
