/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of the answers; answers.c has most of them, answers_driver.c those about the kernel
 * driver. */
#ifndef REPORT_ADVICE_ANSWERS_PRIV_H
#define REPORT_ADVICE_ANSWERS_PRIV_H

#include "report/collect.h"
#include "report/report.h"

#define NUMBERS_MAX 16

struct number {
	const char *name;
	double value;
};

struct answer {
	const char *id, *question;
	char text[1024];
	size_t len;
	struct number numbers[NUMBERS_MAX];
	unsigned number_cnt;
};

/* Numbers formatted for people; valid for one sentence. */
struct cells {
	char cell[12][CELL_SZ];
	unsigned next;
};

/* Appends to the text. */
void answer_print(struct answer *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void answer_number(struct answer *a, const char *name, double value);
const char *answer_count(struct cells *c, uint64_t n);
const char *answer_time(struct cells *c, double ns);

/* answers_driver.c */
void answer_ioctls(const struct report *r, struct answer *a);
void answer_sched(const struct report *r, struct answer *a);

#endif /* REPORT_ADVICE_ANSWERS_PRIV_H */
