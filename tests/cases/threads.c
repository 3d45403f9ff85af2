/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* threads [THREADS [ROUNDS]]: many threads at once, each with its own sequence. Their names change
 * soon after their start, and again later. */
#include "case.h"

static handle ctx;
static int rounds = 250;

static void *work(void *arg)
{
	int number = (int)(intptr_t)arg;
	char name[16];

	snprintf(name, sizeof(name), "worker-%d", number);
	pthread_setname_np(pthread_self(), name);
	case_set_current(ctx);
	for (int i = 0; i < rounds; i++) {
		if (i == 1 || i == rounds / 2) {
			snprintf(name, sizeof(name), "%s-%d", i == 1 ? "early" : "late", number);
			pthread_setname_np(pthread_self(), name);
		}
		/* Long enough for a reader that checks once per millisecond (docs/INJECT.md). */
		if (i == rounds / 2)
			usleep(5000);
		dptr p = case_alloc(256 + 16 * number + i);
		int r = F(cuMemsetD8_v2)(p, number, (size_t)i + 1);

		expect("cuMemsetD8_v2", r,
		       "'comm':'%s','type':'transfer','op':'memset','size':%d,'ptr':" HEX, name,
		       i + 1, H(p));
		case_free(p);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int cnt = argc > 1 ? atoi(argv[1]) : 8;
	pthread_t t[256];

	if (argc > 2)
		rounds = atoi(argv[2]);
	if (cnt < 1 || cnt > 256 || rounds < 1)
		die("usage: threads [THREADS [ROUNDS]]");
	case_open();
	ctx = case_context();
	for (int i = 0; i < cnt; i++)
		if (pthread_create(&t[i], NULL, work, (void *)(intptr_t)i))
			die("cannot make a thread");
	for (int i = 0; i < cnt; i++)
		pthread_join(t[i], NULL);
	return 0;
}
