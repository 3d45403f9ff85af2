/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Millions of mangled names: the system's demangler is not instrumented for a fuzzer, so names are
 * assembled from the tokens of the ABI instead. names NAMES [JOBS [SEED]] A name that takes SLOW_S
 * of processor time, 1 MB of stack or 2 GB of memory, or ends its process otherwise, is printed,
 * and the job continues after it. Exit status 1 when there was one. Results are the same for the
 * same numbers.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "names_tokens.h"
#include "util/demangle.h"

#define JOBS_MAX 256
#define NAME_SZ	 4200 /* up to the length of names that are read through handles, and more */
#define SLOW_S	 8
#define BAD_MAX	 100 /* of a job, after which it gives up */

/* Shared with the parent: the last name of a job when it ended. */
struct job {
	pid_t pid;
	uint64_t first, next, end; /* numbers of names */
	uint64_t demangled, bad;
	uint64_t worst_ns;
	size_t longest;
	long rss_kb;
	char name[NAME_SZ], worst[NAME_SZ];
};

static struct job *jobs;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* SplitMix64 (Steele, Lea, Flood 2014): each name's numbers follow from its own number. */
static uint64_t random64(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static unsigned below(uint64_t *x, unsigned n)
{
	return random64(x) % n;
}

static size_t put(char *name, size_t len, const char *token)
{
	size_t n = strlen(token);

	if (len + n >= NAME_SZ)
		return len;
	memcpy(name + len, token, n + 1);
	return len + n;
}

/* Most names are short, because defects rarely depend on the length. */
static size_t wanted_len(uint64_t *x)
{
	switch (below(x, 16)) {
	case 0:
		return 1024 + below(x, NAME_SZ - 1024);
	case 1:
	case 2:
		return 200 + below(x, 824);
	default:
		return 4 + below(x, 1u << (2 + below(x, 7)));
	}
}

static const char *a_token(uint64_t *x)
{
	return tokens[below(x, sizeof(tokens) / sizeof(tokens[0]))];
}

/* Random tokens, some of them many times. */
static void by_chance(char *name, uint64_t *x)
{
	size_t want = wanted_len(x), len = put(name, 0, "_Z");

	while (len < want) {
		const char *token = a_token(x);
		unsigned times = below(x, 12) ? 1 : 1 + below(x, 1 + want / 2);

		while (times-- && len < want)
			len = put(name, len, token);
	}
}

/* A real name, or a part of it, with tokens inserted, and parts repeated or removed. */
static void changed(char *name, uint64_t *x)
{
	size_t len = put(name, 0, real_names[below(x, sizeof(real_names) / sizeof(real_names[0]))]);

	for (unsigned n = 1 + below(x, 6); n; n--) {
		size_t at = 2 + below(x, len - 1), part = below(x, 1 + (len - at)), room;
		const char *token = a_token(x);
		size_t sz = strlen(token);

		switch (below(x, 4)) {
		case 0:
			memmove(name + at, name + at + part, len - at - part + 1);
			len -= part;
			break;
		case 1:
			room = NAME_SZ - 1 - len;
			part = part < room ? part : room;
			memmove(name + at + part, name + at, len - at + 1);
			len += part;
			break;
		default:
			if (len + sz >= NAME_SZ)
				break;
			memmove(name + at + sz, name + at, len - at + 1);
			memcpy(name + at, token, sz);
			len += sz;
		}
	}
}

/* Each type consists of two of the previous one, or of packs of it: 2^n of the first. */
static void doubled(char *name, uint64_t *x)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	static const char *const forms[] = {"S_IS%c_S%c_E", "1aIJS%c_S%c_EE", "PFS%c_S%c_E",
					    "M1aIJDpT_EES%c_S%c_", "1aIXspT_ES%c_S%c_E"};
	const char *form = forms[below(x, sizeof(forms) / sizeof(forms[0]))];
	size_t len = put(name, 0, below(x, 2) ? "_Z1fSt4pairIiiE" : "_Z1fIJEEv1aIJDpT_EE");
	unsigned levels = 1 + below(x, 36), step = 1 + below(x, 2);
	char type[64];

	for (unsigned i = 0; i < levels; i++) {
		unsigned at = i * step % 36;

		snprintf(type, sizeof(type), form, digits[at], digits[at]);
		len = put(name, len, type);
		if (!below(x, 16))
			len = put(name, len, a_token(x));
	}
}

/* Nested items, with or without their ends. */
static void nested(char *name, uint64_t *x)
{
	const char *open = a_token(x), *more = below(x, 2) ? a_token(x) : "";
	const char *close = below(x, 2) ? "E" : a_token(x);
	unsigned depth = 1 + below(x, 1u << (1 + below(x, 11)));
	size_t len = put(name, 0, below(x, 2) ? "_Z1f" : "_Z");

	for (unsigned i = 0; i < depth; i++) {
		len = put(name, len, open);
		len = put(name, len, more);
	}
	len = put(name, len, below(x, 2) ? "i" : a_token(x));
	for (unsigned i = below(x, 4) ? depth : 0; i; i--)
		len = put(name, len, close);
}

static void make_name(char *name, uint64_t seed, uint64_t number)
{
	uint64_t x = seed ^ (number * 0xd1342543de82ef95);

	switch (below(&x, 8)) {
	case 0:
	case 1:
		changed(name, &x);
		break;
	case 2:
		doubled(name, &x);
		break;
	case 3:
		nested(name, &x);
		break;
	default:
		by_chance(name, &x);
	}
}

static void one(struct job *j, uint64_t seed)
{
	uint64_t begin, took;
	size_t len;
	char *s;

	make_name(j->name, seed, j->next);
	begin = now_ns();
	s = demangle(j->name, NULL);
	took = now_ns() - begin;
	if (s) {
		len = strlen(s);
		if (len > DEMANGLED_MAX)
			abort();
		j->longest = len > j->longest ? len : j->longest;
		j->demangled++;
		free(s);
	}
	if (took > j->worst_ns) {
		j->worst_ns = took;
		strcpy(j->worst, j->name);
	}
}

/* SIGXCPU ends a process that takes longer than that from here. */
static void limit_time(void)
{
	struct rlimit lim;
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	getrlimit(RLIMIT_CPU, &lim);
	lim.rlim_cur = ts.tv_sec + 1 + SLOW_S;
	setrlimit(RLIMIT_CPU, &lim);
}

static void run(struct job *j, uint64_t seed)
{
	struct rusage ru;

	for (uint64_t n = 0; j->next < j->end; j->next++, n++) {
		if (n % 4096 == 0)
			limit_time();
		one(j, seed);
	}
	getrusage(RUSAGE_SELF, &ru);
	j->rss_kb = ru.ru_maxrss;
}

static void start(struct job *j, uint64_t seed)
{
	const struct rlimit mem = {2ul << 30, 2ul << 30}, stack = {1 << 20, 1 << 20}, none = {0, 0};

	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid) {
		j->pid = pid; /* in the parent alone: the memory is shared */
		return;
	}
	setrlimit(RLIMIT_AS, &mem);
	setrlimit(RLIMIT_STACK, &stack);
	setrlimit(RLIMIT_CORE, &none);
	run(j, seed);
	_exit(0);
}

static struct job *job_of(pid_t pid, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++)
		if (jobs[i].pid == pid)
			return &jobs[i];
	return NULL;
}

/* Prints why a job ended, with its current name. */
static void say(struct job *j, int status)
{
	int sig = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	printf("%s: %s: %s\n", sig == SIGXCPU ? "no end" : "crash", strsignal(sig), j->name);
	if (++j->bad >= BAD_MAX)
		j->end = j->next;
	j->next++;
}

static int report(unsigned cnt, double seconds)
{
	uint64_t names = 0, demangled = 0, bad = 0;
	const struct job *worst = jobs;
	size_t longest = 0;
	long rss_kb = 0;

	for (unsigned i = 0; i < cnt; i++) {
		const struct job *j = &jobs[i];

		names += j->next - j->first;
		demangled += j->demangled;
		bad += j->bad;
		longest = j->longest > longest ? j->longest : longest;
		rss_kb = j->rss_kb > rss_kb ? j->rss_kb : rss_kb;
		worst = j->worst_ns > worst->worst_ns ? j : worst;
	}
	printf("slowest: %.6f s: %s\n", worst->worst_ns / 1e9, worst->worst);
	printf("%llu names in %.0f s: %llu demangled, longest %zu bytes, memory %ld MB, %llu bad\n",
	       (unsigned long long)names, seconds, (unsigned long long)demangled, longest,
	       rss_kb >> 10, (unsigned long long)bad);
	return bad != 0;
}

int main(int argc, char **argv)
{
	uint64_t names = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	unsigned cnt = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	struct timespec a, b;
	int status;
	pid_t pid;

	cnt = cnt < 1 ? 1 : cnt > JOBS_MAX ? JOBS_MAX : cnt;
	jobs = mmap(NULL, cnt * sizeof(*jobs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		    -1, 0);
	if (jobs == MAP_FAILED)
		return 2;
	clock_gettime(CLOCK_MONOTONIC, &a);
	for (unsigned i = 0; i < cnt; i++) {
		jobs[i].first = jobs[i].next = names * i / cnt;
		jobs[i].end = names * (i + 1) / cnt;
		start(&jobs[i], seed);
	}
	while ((pid = wait(&status)) > 0 || errno == EINTR) {
		struct job *j = job_of(pid, cnt);

		if (!j || !status)
			continue;
		say(j, status);
		if (j->next < j->end)
			start(j, seed);
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	return report(cnt, b.tv_sec - a.tv_sec + (b.tv_nsec - a.tv_nsec) / 1e9);
}
