/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "python_stack.h"

#include "util/reader.h"

#include <stdbool.h>
#include <string.h>

/* Lists may be circular. */
#define LOOK_MAX 1024
/* Maximum frames that are not code. */
#define NO_CODE_MAX 32

static bool read_at(pid_t pid, uint64_t addr, void *buf, uint32_t len)
{
	struct reader_range range = {.addr = addr, .len = len};

	return addr && !reader__memory(pid, &range, 1, buf) && range.got == len;
}

static uint64_t word_at(pid_t pid, uint64_t addr)
{
	uint64_t word;

	return read_at(pid, addr, &word, sizeof(word)) ? word : 0;
}

/* Returns the innermost frame of a thread state; 0: it runs no Python. */
static uint64_t top_of(pid_t pid, const struct ct_python *p, uint64_t state)
{
	uint64_t frame = word_at(pid, state + p->thread_frame);

	if (frame && p->cframe_frame != CT_PYTHON_NONE)
		frame = word_at(pid, frame + p->cframe_frame);
	return frame;
}

/* Finds the running one of the thread's states. If there are several, it is the innermost: the
 * lowest on its stack if known, else that of the newest interpreter (bpf/python.bpf.h). */
static uint64_t find_top(pid_t pid, const struct ct_python *p, uint64_t self)
{
	uint64_t interpreter = word_at(pid, p->runtime + p->interpreters), top;
	uint64_t state = interpreter ? word_at(pid, interpreter + p->threads) : 0;
	uint64_t best = 0, best_place = UINT64_MAX, place;

	for (int i = 0; i < LOOK_MAX && interpreter; i++) {
		if (!state) {
			interpreter = word_at(pid, interpreter + p->interpreter_next);
			state = interpreter ? word_at(pid, interpreter + p->threads) : 0;
			continue;
		}
		top = word_at(pid, state + p->thread_id) == self ? top_of(pid, p, state) : 0;
		place = top && p->thread_place != CT_PYTHON_NONE
				? word_at(pid, state + p->thread_place)
				: UINT64_MAX - 1;
		if (top && place < best_place) {
			best = top;
			best_place = place;
		}
		state = word_at(pid, state + p->thread_next);
	}
	return best;
}

static uint64_t word_of(const uint8_t *frame, uint16_t off)
{
	uint64_t word;

	memcpy(&word, frame + (off & (CT_PYTHON_FRAME_SZ_MAX - 8)), sizeof(word));
	return word;
}

unsigned python_stack__read(pid_t pid, const struct ct_python *p, uint64_t self,
			    struct ct_python_frame frames[CT_PYTHON_MAX])
{
	uint64_t frame = self ? find_top(pid, p, self) : 0;
	uint8_t buf[CT_PYTHON_FRAME_SZ_MAX] = {0};
	unsigned cnt = 0;

	if (p->frame_sz > sizeof(buf))
		return 0;
	for (int i = 0; frame && cnt < CT_PYTHON_MAX && i < CT_PYTHON_MAX + NO_CODE_MAX; i++) {
		if (!read_at(pid, frame + p->frame_off, buf, p->frame_sz))
			return 0;
		if (buf[p->frame_owner & (CT_PYTHON_FRAME_SZ_MAX - 1)] < p->owner_min)
			frames[cnt++] = ct_python_frame_of(p, word_of(buf, p->frame_code),
							   word_of(buf, p->frame_ip));
		frame = word_of(buf, p->frame_back);
	}
	return cnt;
}
