/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Processes that the library does not record, or no longer records, are counted in memory that
 * their parent has mapped (struct ct_shm_lost), or in a file. A child of fork may have no
 * descriptor left, no memory, another network namespace, or a filter for its system calls.
 */
#include "inject.h"

#include <fcntl.h>
#include <sys/mman.h>

#define TURNS_MAX (ANSWER_MAX_S * 1000 / TURN_MAX_MS)

/* Children of fork keep it; NULL: not connected yet. */
static struct ct_shm_lost *lost;

int lost_map(int fd)
{
	long at = sys(SYS_mmap, 0, page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (is_sys_error(at))
		return at;
	sys(SYS_madvise, at, page_size(), MADV_DONTDUMP);
	if (lost)
		sys(SYS_munmap, lost, page_size());
	lost = (void *)at;
	return 0;
}

/* The tracer finds the name in /proc/PID/maps. The mapping stays for the life of the program. */
static void mark(void)
{
	int fd = sys(SYS_memfd_create, CT_SHM_MARK, MFD_CLOEXEC);

	if (fd < 0)
		return;
	sys(SYS_mmap, 0, page_size(), PROT_NONE, MAP_PRIVATE, fd, 0);
	sys(SYS_close, fd);
}

/* Another program than the tracer's command never had the memory. */
static void append(enum ct_shm_lost_why why, int err)
{
	const char *path = env_get(CT_ENV_LOST), *socket = env_get(CT_ENV_SOCKET);
	struct ct_shm_lost_line line = {.why = why, .error = err};
	int fd = path ? sys(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;

	for (unsigned i = 0; socket && socket[i] && i < sizeof(line.socket); i++)
		line.socket[i] = socket[i];
	/* In a sandbox it may be read-only. */
	if (fd < 0 || sys(SYS_write, fd, &line, sizeof(line)) != sizeof(line))
		mark();
	if (fd >= 0)
		sys(SYS_close, fd);
}

cold void process_lose(enum ct_shm_lost_why why, int err)
{
	if (__atomic_exchange_n(&inject_process->given_up, 1, __ATOMIC_RELAXED))
		return;
	if (!lost) {
		if (why != CT_SHM_LOST_FILTER)
			append(why, err);
		return;
	}
	if (err)
		__atomic_store_n(&lost->error, err, __ATOMIC_RELAXED);
	__atomic_fetch_add(&lost->cnt[why], 1, __ATOMIC_RELEASE);
}

struct wait wait_begin(void)
{
	return (struct wait){.turn = lost ? __atomic_load_n(&lost->turn, __ATOMIC_RELAXED) : 0,
			     .begin_ns = inject_now()};
}

unsigned wait_max_ms(void)
{
	return process_is_forked() ? TURN_MAX_MS : ANSWER_MAX_S * 1000;
}

/* A signal restarts the socket's timeout, and a program may get one every few milliseconds. */
bool wait_goes_on(struct wait *w, long err)
{
	uint32_t before = w->turn, cnt = w->cnt + 1;

	if (err == -EINTR && inject_now() - w->begin_ns < wait_max_ms() * 1000000ull)
		return true;
	if (err != -EINTR && err != -EAGAIN)
		return false;
	*w = wait_begin();
	w->cnt = cnt;
	return process_is_forked() && cnt < TURNS_MAX && w->turn != before;
}
