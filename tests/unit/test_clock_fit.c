/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Offsets of clocks from limits (saved/clock_fit.h): simulated collectives of two machines, whose
 * clocks are known. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "random.h"
#include "saved/clock_fit.h"

#define TRIALS	   1000
#define CNT_MAX	   1000
#define STEPS_MAX  3
#define BOOT_NS	   2000000000000000ll /* 23 days */
#define LATENCY_NS 8000

static double uniform(double from, double to)
{
	return from + (to - from) * (double)(rnd() >> 11) / (double)(1ull << 53);
}

/* The clock shows true time + offset + rate * true time + the steps so far. */
struct sim {
	double offset, rate;
	int64_t step_at[STEPS_MAX]; /* true time */
	double step_ns[STEPS_MAX];
	unsigned step_cnt;
	struct clock_limit l[2 * CNT_MAX];
	unsigned cnt;
	struct clock_hint hints[CNT_MAX];
	bool has_hints;
	int64_t always_late;
};

static int64_t shown(const struct sim *s, int64_t t_ns)
{
	double ns = s->offset + s->rate * (double)t_ns;

	for (unsigned i = 0; i < s->step_cnt; i++)
		ns += t_ns >= s->step_at[i] ? s->step_ns[i] : 0;
	return BOOT_NS + t_ns + llround(ns);
}

static int by_time(const void *x, const void *y)
{
	const struct clock_limit *a = x, *b = y;

	return (a->t_ns > b->t_ns) - (a->t_ns < b->t_ns);
}

/* Collectives of two ranks: each leaves after both have entered. late: how much later one may enter
 * than the other. */
static int64_t simulate(struct sim *s, unsigned cnt, double late)
{
	int64_t now = 0;

	s->cnt = 0;
	for (unsigned i = 0; i < cnt; i++) {
		int64_t enter[2], leave[2], last, b;

		now += (int64_t)uniform(50000, 20000000);
		for (unsigned k = 0; k < 2; k++)
			enter[k] = now + (int64_t)(late * pow(uniform(0, 1), 4)) +
				   (int64_t)k * s->always_late;
		last = enter[0] > enter[1] ? enter[0] : enter[1];
		for (unsigned k = 0; k < 2; k++)
			leave[k] = last + (int64_t)(LATENCY_NS * (1 + pow(uniform(0, 3), 2)));
		b = shown(s, enter[1]);
		s->l[s->cnt++] = (struct clock_limit){b, (double)(leave[0] - (b - BOOT_NS)), true};
		b = shown(s, leave[1]);
		s->hints[i] = (struct clock_hint){b, (double)(leave[0] - (b - BOOT_NS))};
		s->l[s->cnt++] = (struct clock_limit){b, (double)(enter[0] - (b - BOOT_NS)), false};
		now = leave[0] > leave[1] ? leave[0] : leave[1];
	}
	qsort(s->l, s->cnt, sizeof(*s->l), by_time);
	return now;
}

static int fit(struct clock_fit *f, const struct sim *s)
{
	return clock_fit__make(f, s->l, s->cnt, s->hints, s->has_hints ? s->cnt / 2 : 0);
}

/* The true error of the fit at a time, minus its bound. */
static double excess(const struct sim *s, const struct clock_fit *f, int64_t t_ns, double *error)
{
	int64_t b = shown(s, t_ns);
	double bound, offset = clock_fit__offset(f, b, &bound);

	*error = fabs(offset - (double)(t_ns - (b - BOOT_NS)));
	return *error - bound;
}

/* Offsets to 50 ms, rates to 50 ppm, steps of 0.1 to 50 ms: the bound is never wrong. */
static void test_bound(void **state)
{
	static struct sim s;
	static struct clock_fit f;
	unsigned found = 0, stepped = 0;

	for (unsigned n = 0; n < TRIALS; n++) {
		double error;
		int64_t end;

		s.offset = uniform(-50e6, 50e6);
		s.rate = uniform(-50e-6, 50e-6);
		s.has_hints = n % 3;
		s.step_cnt = n % 4 == 3 ? 1 + rnd() % STEPS_MAX : 0;
		/* A step must not pass over another. */
		for (unsigned i = 0; i < s.step_cnt; i++) {
			s.step_at[i] = (int64_t)uniform(0.1e9, 4e9) + 4000000000ll * i;
			s.step_ns[i] = pow(10, uniform(5, 7.7));
		}
		end = simulate(&s, 20 + rnd() % 400, pow(10, uniform(3, 7)));
		if (fit(&f, &s))
			continue;
		found++;
		stepped += f.piece_cnt > 1;
		for (unsigned i = 0; i < 200; i++) {
			int64_t t = (int64_t)uniform(0, (double)end);

			if (excess(&s, &f, t, &error) > 2)
				fail_msg(
					"trial %u, at %lld of %lld: off by %.0f ns, %.0f above the bound",
					n, (long long)t, (long long)end, error,
					excess(&s, &f, t, &error));
		}
	}
	assert_true(found == TRIALS);
	assert_true(stepped > TRIALS / 8);
}

/* With 1,000 collectives the offset is off by at most 20 µs, and the bound is not much larger. */
static void test_precision(void **state)
{
	static struct sim s;
	static struct clock_fit f;

	for (unsigned n = 0; n < 50; n++) {
		s.offset = uniform(-50e6, 50e6);
		s.rate = uniform(-50e-6, 50e-6);
		s.step_cnt = 0;
		s.has_hints = n % 2;
		simulate(&s, 1000, 200000);
		assert_int_equal(fit(&f, &s), 0);
		assert_int_equal(f.piece_cnt, 1);
		for (unsigned i = 0; i < s.cnt; i++) {
			int64_t t = (int64_t)s.l[i].t_ns - BOOT_NS;
			double error;

			excess(&s, &f, t, &error);
			assert_true(error < 20000);
		}
		assert_true(clock_fit__error(&f) < 30000);
		assert_true(fabs(clock_fit__rate(&f) + s.rate) < 1e-6);
	}
}

/* A rank that is always 3 ms late leaves its clock open by as much, but all leave at the same time.
 */
static void test_always_late(void **state)
{
	static struct sim s;
	static struct clock_fit f;
	double error;

	s = (struct sim){.offset = 3e6, .rate = 20e-6, .has_hints = true};
	s.always_late = 3000000;
	simulate(&s, 1000, 200000);
	assert_int_equal(fit(&f, &s), 0);
	assert_true(clock_fit__error(&f) > 2000000);
	assert_true(excess(&s, &f, 1000000000, &error) < 0 && error < 20000);
	s.has_hints = false;
	assert_int_equal(fit(&f, &s), 0);
	assert_true(excess(&s, &f, 1000000000, &error) < 0 && error > 1000000);
}

/* A step is found: the pieces before and after it are exact, and the time between is short. */
static void test_step(void **state)
{
	static struct sim s;
	static struct clock_fit f;
	int64_t end;

	s = (struct sim){.offset = 3e6, .rate = 20e-6, .step_cnt = 1};
	s.step_at[0] = 5000000000ll;
	s.step_ns[0] = 7e6;
	end = simulate(&s, 1000, 200000);
	assert_true(end > 6000000000ll);
	assert_int_equal(fit(&f, &s), 0);
	assert_int_equal(f.piece_cnt, 2);
	assert_true(f.pieces[1].from_ns - f.pieces[0].to_ns < 200000000);
	assert_true(f.pieces[0].to_ns <= shown(&s, s.step_at[0]));
	assert_true(f.pieces[1].from_ns >= shown(&s, s.step_at[0]) - 1);
	assert_true(clock_fit__error(&f) < 30000);
}

/* Nothing is known from one side alone, from nothing, or from limits that contradict each other. */
static void test_unknown(void **state)
{
	static struct clock_fit f;
	static struct clock_limit l[4 * CLOCK_PIECES_MAX];
	double error;

	assert_int_equal(clock_fit__make(&f, l, 0, NULL, 0), -ENODATA);
	for (unsigned i = 0; i < 100; i++)
		l[i] = (struct clock_limit){i * 1000000ll, 5000, true};
	assert_int_equal(clock_fit__make(&f, l, 100, NULL, 0), -ENODATA);
	for (unsigned i = 0; i < 4 * CLOCK_PIECES_MAX; i++)
		l[i] = (struct clock_limit){i * 1000000ll, 1e7 * (i / 2), i % 2};
	assert_int_equal(clock_fit__make(&f, l, 4 * CLOCK_PIECES_MAX, NULL, 0), -ENODATA);
	/* Offsets of days are found, and limits that are years apart are pieces. */
	for (unsigned i = 0; i < 100; i++)
		l[i] = (struct clock_limit){i / 2 * 1000000ll, 86400e9 + (i % 2 ? 50 : -50), i % 2};
	assert_int_equal(clock_fit__make(&f, l, 100, NULL, 0), 0);
	assert_true(fabs(clock_fit__offset(&f, 10000000, &error) - 86400e9) < 10);
	for (unsigned i = 0; i < 4; i++)
		l[i] = (struct clock_limit){i / 2 * 1000000ll, i / 2 * 1e17, i % 2};
	assert_int_equal(clock_fit__make(&f, l, 4, NULL, 0), 0);
	assert_int_equal(f.piece_cnt, 2);
	/* Limits that meet leave one line. */
	for (unsigned i = 0; i < 100; i++)
		l[i] = (struct clock_limit){i / 2 * 1000000ll, 5000 + i / 2, i % 2};
	assert_int_equal(clock_fit__make(&f, l, 100, NULL, 0), 0);
	assert_true(fabs(clock_fit__offset(&f, 10000000, &error) - 5010) < 4);
	assert_true(error < 10);
	/* Outside of its piece, the bound grows. */
	clock_fit__offset(&f, 1050000000, &error);
	assert_true(error > 1e6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bound),	    cmocka_unit_test(test_precision),
		cmocka_unit_test(test_always_late), cmocka_unit_test(test_step),
		cmocka_unit_test(test_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
